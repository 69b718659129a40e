//! How far this node is on its way into a cluster, kept in the volume beside its id.
//!
//! The file is text, so that an operator can read what a volume belongs to. It ends with a line of its
//! own: a file that was cut short is not taken for one that says less.

use crate::small_file;
use hikyaku_cluster::{Founded, FoundingVolume, Stage};
use hikyaku_storage::Disk;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

/// The file, in the root of the volume.
const FILE: &str = "cluster";

/// First and last line.
const FORM: &str = "hikyaku cluster 1";
const END: &str = "end";

/// The volume's memory of its founding.
pub struct Membership {
    disk: Arc<dyn Disk>,
}

impl Membership {
    /// Of the node whose volume this is.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }
}

impl FoundingVolume for Membership {
    fn load(&self) -> io::Result<Stage> {
        let Some(text) = small_file::read(&*self.disk, FILE)? else {
            return Ok(Stage::Empty);
        };
        parse(&text).ok_or_else(|| {
            let problem = format!("the file `{FILE}` in the volume cannot be understood: {text:?}");
            io::Error::new(io::ErrorKind::InvalidData, problem)
        })
    }

    fn store(&self, stage: &Stage) -> io::Result<()> {
        small_file::replace(&*self.disk, FILE, &show(stage))
    }
}

fn show(stage: &Stage) -> String {
    let mut text = format!("{FORM}\n");
    let said = match stage {
        Stage::Empty => writeln!(text, "empty"),
        Stage::Promised { founder } => writeln!(text, "promised {founder:016x}"),
        Stage::Member {
            cluster,
            groups_founded,
        } => {
            let groups = if *groups_founded { "founded" } else { "new" };
            let id = cluster.cluster_id;
            let partitions = cluster.partitions;
            let mut lines = format!("member {id:032x}\npartitions {partitions}\ngroups {groups}\n");
            for (node, address) in &cluster.founders {
                lines.push_str(&format!("founder {node:016x} {address}\n"));
            }
            write!(text, "{lines}")
        }
    };
    said.expect("a string takes everything");
    text.push_str(END);
    text.push('\n');
    text
}

fn parse(text: &str) -> Option<Stage> {
    let mut lines = text.strip_suffix('\n')?.lines();
    if lines.next()? != FORM || lines.next_back()? != END {
        return None;
    }
    let first = lines.next()?;
    if first == "empty" {
        return lines.next().is_none().then_some(Stage::Empty);
    }
    if let Some(founder) = first.strip_prefix("promised ") {
        let founder = u64::from_str_radix(founder, 16).ok()?;
        return lines
            .next()
            .is_none()
            .then_some(Stage::Promised { founder });
    }
    let cluster_id = u128::from_str_radix(first.strip_prefix("member ")?, 16).ok()?;
    let partitions = lines.next()?.strip_prefix("partitions ")?.parse().ok()?;
    let groups_founded = match lines.next()?.strip_prefix("groups ")? {
        "founded" => true,
        "new" => false,
        _ => return None,
    };
    let founders = lines.map(|line| {
        let (node, address) = line.strip_prefix("founder ")?.split_once(' ')?;
        Some((u64::from_str_radix(node, 16).ok()?, address.to_owned()))
    });
    Some(Stage::Member {
        cluster: Founded {
            cluster_id,
            partitions,
            founders: founders.collect::<Option<_>>()?,
        },
        groups_founded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_storage::{CrashKind, SimDisk};

    fn member(groups_founded: bool) -> Stage {
        Stage::Member {
            cluster: Founded {
                cluster_id: 0xabc,
                partitions: 32,
                founders: vec![(1, "a:1".to_owned()), (0xfeed, "[::1]:2".to_owned())],
            },
            groups_founded,
        }
    }

    #[test]
    fn every_stage_survives_a_power_cut() {
        let mut disk = Arc::new(SimDisk::new(1));
        let load = |disk: &Arc<SimDisk>| Membership::new(Arc::clone(disk) as _).load().unwrap();
        assert_eq!(load(&disk), Stage::Empty);
        let stages = [Stage::Promised { founder: 7 }, member(false), member(true)];
        for stage in stages {
            Membership::new(Arc::clone(&disk) as _)
                .store(&stage)
                .unwrap();
            disk = Arc::new(disk.crash(CrashKind::PowerCut));
            assert_eq!(load(&disk), stage);
        }
    }

    /// What the first version writes; it must be understood for ever.
    #[test]
    fn reads_the_files_of_the_first_version() {
        let text = "hikyaku cluster 1\nmember 00000000000000000000000000000abc\npartitions 32\n\
                    groups founded\nfounder 0000000000000001 a:1\n\
                    founder 000000000000feed [::1]:2\nend\n";
        assert_eq!(show(&member(true)), text);
        assert_eq!(parse(text), Some(member(true)));
        let text = "hikyaku cluster 1\npromised 0000000000000007\nend\n";
        assert_eq!(parse(text), Some(Stage::Promised { founder: 7 }));
    }

    #[test]
    fn a_file_that_was_cut_short_is_refused_and_not_read_as_less() {
        let text = show(&member(false));
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), None, "{:?}", &text[..end]);
        }
    }
}
