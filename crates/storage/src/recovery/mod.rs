//! Opening a log: what is durable, what was torn, what is damaged, and where to go on.
//!
//! The head of the newest hot segment restates every group's markers, so only that segment is read
//! whole; of all others the footers' headers suffice. In the newest segment, everything below the
//! last mark was durable once: a bad byte there is damage. Above it, whole rounds are kept and the
//! first bad one is a torn write. What is kept above the mark may be in the page cache only (the
//! process died, not the machine), so it is copied into a fresh segment and synced before any group
//! opens: nothing may be confirmed that a later power cut could take.

mod sealed;

use crate::ahead::AheadCache;
use crate::cache::TailCache;
use crate::checkpoint;
use crate::config::LogConfig;
use crate::damage::{Finding, Place};
use crate::disk::{Disk, read_exact_at};
use crate::engine::{Active, Group, State};
use crate::error::OpenError;
use crate::files::{Claim, Files};
use crate::footer::Sections;
use crate::markers::Persisted;
use crate::record::{Kind, Tag};
use crate::round::RoundHeader;
use crate::scan::{self, Found, Rounds};
use crate::segment::{FIRST_ROUND, LOG_DIR};
use crate::types::{Entry, GroupId, LogId};
use crate::writer::{Writer, sealed_segment, start_segment};
use bytes::Bytes;
use sealed::SegmentFile;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// An opened log, before its work starts.
pub(crate) struct Recovered {
    pub(crate) files: Files,
    pub(crate) state: State,
    pub(crate) writer: Writer,
    /// What was met that is damaged and does not keep the log from opening.
    pub(crate) findings: Vec<Finding>,
}

/// How many checkpoints of a group are kept.
pub(crate) const KEPT_CHECKPOINTS: usize = 2;

/// Opens the log on a disk, or founds one on an empty disk.
pub(crate) fn recover(disk: Arc<dyn Disk>, config: &LogConfig) -> Result<Recovered, OpenError> {
    let files = Files::new(disk.clone(), config.segment_bytes);
    for dir in [LOG_DIR, checkpoint::CHECKPOINT_DIR] {
        disk.create_dir(dir)?;
    }
    disk.sync_dir("")?;
    // Names that a dead process left in the page cache must be durable before we build on them.
    disk.sync_dir(LOG_DIR)?;
    let mut recovery = Recovery {
        disk,
        files,
        findings: Vec::new(),
        footers: BTreeSet::new(),
    };
    let mut found = recovery.open_segments()?;
    let newest = found.pop_newest_hot();
    let mut sealed = recovery.load_sealed(&found, newest.as_ref())?;
    recovery.remove_replaced(&mut sealed)?;
    let tail = match &newest {
        Some(newest) => recovery.read_newest(newest)?,
        None if sealed.is_empty() && checkpoint::groups(&*recovery.disk)?.is_empty() => {
            Tail::default()
        }
        None => {
            return Err(damaged(
                0,
                0,
                "no hot segment, but a log was here",
                Vec::new(),
            ));
        }
    };
    let Tail {
        mut persisted,
        sections,
        carried,
        mark,
    } = tail;
    let mut groups = recovery.checkpoints(&mut persisted)?;
    for (id, markers) in &persisted.groups {
        let group = groups.entry(*id).or_default();
        group.markers = markers.clone();
        group.durable_purged = markers.purged;
    }
    let previous = newest
        .as_ref()
        .map(|newest| (newest.header.tag.epoch, mark));
    let started = recovery.start(previous, &persisted, &surviving(carried, &persisted))?;
    // Only now are the drops durable, whatever the page cache knew before.
    for group in std::mem::take(&mut persisted.forgetting) {
        checkpoint::remove_group(&*recovery.disk, group)?;
    }
    if let Some(newest) = newest {
        if mark < config.segment_bytes / 4 * 3 {
            newest.file.truncate(mark)?;
        }
        let segment = sealed_segment(newest.header.tag, newest.file, mark, &sections);
        sealed.insert(segment.epoch(), Arc::new(segment));
    }
    let mut state = State {
        groups,
        lives: BTreeMap::new(),
        sealed,
        active: Active {
            tag: started.tag,
            file: started.file.clone(),
            durable: started.position,
            sections: Arc::new(started.sections.clone()),
        },
        cache: TailCache::new(config.cache_bytes),
        ahead: AheadCache::new(config.read_ahead_bytes),
        draining: Vec::new(),
        obsolete: Vec::new(),
    };
    state.disown_all();
    let writer = Writer::new(persisted, &started);
    Ok(Recovered {
        files: recovery.files,
        state,
        writer,
        findings: recovery.findings,
    })
}

struct Recovery {
    disk: Arc<dyn Disk>,
    files: Files,
    findings: Vec<Finding>,
    /// The segments that have a footer file.
    footers: BTreeSet<u64>,
}

/// What the newest hot segment said.
#[derive(Default)]
struct Tail {
    persisted: Persisted,
    /// What lies below the last mark.
    sections: Sections,
    /// Entries above it, in order.
    carried: Vec<(GroupId, Entry)>,
    mark: u64,
}

impl Recovery {
    /// Reads the newest hot segment whole.
    fn read_newest(&mut self, newest: &SegmentFile) -> Result<Tail, OpenError> {
        let tag = newest.header.tag;
        let length = newest.file.len()?;
        let bytes = Bytes::from(read_exact_at(&*newest.file, length as usize, 0)?);
        let rounds = Rounds::find(&bytes, tag, FIRST_ROUND, length);
        let head = rounds
            .found
            .first()
            .filter(|round| round.offset == FIRST_ROUND);
        let head_end = head.map_or(FIRST_ROUND + 1, RoundHeader::end);
        // The head was durable before the segment had its name.
        let mark = rounds.last_mark().max(head_end);
        let mut tail = Tail {
            mark,
            ..Tail::default()
        };
        if let Some(offset) = rounds.damage_below(mark) {
            let groups = groups_in(&bytes, tag, &rounds);
            return Err(damaged(
                tag.epoch,
                offset,
                "a round below a mark is bad",
                groups,
            ));
        }
        let (proven, unproven) = rounds
            .found
            .split_at(rounds.found.partition_point(|round| round.offset < mark));
        for round in proven {
            let found = scan::records(&bytes, tag, round).map_err(|offset| {
                let groups = groups_in(&bytes, tag, &rounds);
                damaged(tag.epoch, offset, "a record below a mark is bad", groups)
            })?;
            for record in &found {
                self.replay_proven(&mut tail, record, tag, &bytes)
                    .ok_or_else(|| nonsense(tag.epoch, record))?;
            }
        }
        let torn = rounds
            .gaps
            .iter()
            .map(|(from, _)| *from)
            .find(|from| *from >= mark);
        let whole = unproven
            .iter()
            .take_while(|round| torn.is_none_or(|at| round.offset < at));
        for round in whole {
            let Ok(found) = scan::records(&bytes, tag, round) else {
                break;
            };
            if found.iter().any(|record| record.bodies.is_none()) {
                break;
            }
            for record in found {
                replay(&mut tail.persisted, &record).ok_or_else(|| nonsense(tag.epoch, &record))?;
                tail.carry(record);
            }
        }
        Ok(tail)
    }

    fn replay_proven(
        &mut self,
        tail: &mut Tail,
        record: &Found<'_>,
        tag: Tag,
        bytes: &Bytes,
    ) -> Option<()> {
        replay(&mut tail.persisted, record)?;
        if record.view.kind == Kind::Forget {
            tail.sections.remove(&record.view.group);
        }
        if let Some(entry) = record.entry_at() {
            if record.bodies.is_none() {
                // The framing is right: a reader will find the bad body and fetch it elsewhere.
                let place = Place::Segment(tag.epoch, record.offset);
                let names = record.damaged_bodies(bytes);
                self.findings
                    .push(Finding::Bodies(record.view.group, place, names));
            }
            let entries = tail.sections.entry(record.view.group).or_default();
            let keep = entries.partition_point(|old| old.id.index < entry.id.index);
            entries.truncate(keep);
            entries.push(entry);
        }
        Some(())
    }

    /// Finds every group's valid checkpoints and completes an install that a crash interrupted.
    /// What a dropped group left is passed over.
    fn checkpoints(
        &mut self,
        persisted: &mut Persisted,
    ) -> Result<BTreeMap<GroupId, Group>, OpenError> {
        self.disk.sync_dir(checkpoint::CHECKPOINT_DIR)?;
        let mut groups = BTreeMap::new();
        let found = checkpoint::groups(&*self.disk)?;
        for id in found {
            if persisted.forgetting.contains(&id) {
                continue;
            }
            self.disk.sync_dir(&checkpoint::group_dir(id))?;
            let (mut valid, damaged) = self.valid_checkpoints(id)?;
            let markers = persisted.groups.entry(id).or_default();
            if let Some(newest) = valid.last().copied()
                && markers.last.is_none_or(|last| last.index < newest.index)
            {
                markers.purge(newest);
            }
            // An older one, from before an install, no longer reaches the log.
            let purged = markers.purged.map_or(0, |purged| purged.index);
            valid.retain(|id| id.index >= purged);
            valid.drain(..valid.len().saturating_sub(KEPT_CHECKPOINTS));
            groups.insert(
                id,
                Group {
                    kept: valid,
                    damaged,
                    ..Group::default()
                },
            );
        }
        Ok(groups)
    }

    /// Those that are whole, and those that are not.
    fn valid_checkpoints(&mut self, group: GroupId) -> io::Result<(Vec<LogId>, Vec<LogId>)> {
        let (mut valid, mut damaged) = (Vec::new(), Vec::new());
        for id in checkpoint::list(&*self.disk, group)? {
            if checkpoint::read(&*self.disk, group, id)?.is_some() {
                valid.push(id);
            } else {
                self.findings.push(Finding::Checkpoint(group, id));
                damaged.push(id);
            }
        }
        Ok((valid, damaged))
    }

    fn start(
        &self,
        previous: Option<(u64, u64)>,
        persisted: &Persisted,
        carried: &[(GroupId, Entry)],
    ) -> io::Result<crate::writer::Started> {
        for owner in persisted.groups.values().filter_map(|known| known.owner) {
            // An epoch that tells replicas apart need not be one of a file.
            self.files.saw_epoch(owner.since.cold);
        }
        let full = || io::Error::new(io::ErrorKind::StorageFull, "no segment to go on in");
        let spare = self.files.take(Claim::Compactor)?.ok_or_else(full)?;
        start_segment(&self.files, &spare, previous, persisted, carried)
    }
}

impl Tail {
    fn carry(&mut self, record: Found<'_>) {
        let group = record.view.group;
        if record.view.kind == Kind::Forget {
            self.carried.retain(|(of, _)| *of != group);
        }
        if let (Kind::Entry, Some(bodies)) = (record.view.kind, record.bodies) {
            let head = Bytes::copy_from_slice(record.view.head);
            let entry = Entry {
                id: record.view.id,
                head,
                bodies,
            };
            self.carried.push((group, entry));
        }
    }
}

fn replay(persisted: &mut Persisted, record: &Found<'_>) -> Option<()> {
    if record.view.kind == Kind::Forget {
        persisted.forget(record.view.group);
        return Some(());
    }
    persisted.markers(record.view.group).replay(&record.view)
}

/// The groups that a segment can be seen to hold: its head restates every one.
fn groups_in(bytes: &Bytes, tag: Tag, rounds: &Rounds) -> Vec<GroupId> {
    let readable = rounds
        .found
        .iter()
        .filter_map(|round| scan::records(bytes, tag, round).ok());
    let groups: BTreeSet<GroupId> = readable.flatten().map(|record| record.view.group).collect();
    groups.into_iter().collect()
}

/// The carried entries that are still part of their group's log, each once.
fn surviving(carried: Vec<(GroupId, Entry)>, persisted: &Persisted) -> Vec<(GroupId, Entry)> {
    let mut survivors = BTreeMap::new();
    for (group, entry) in carried {
        let markers = persisted.groups.get(&group);
        let leader = markers.and_then(|markers| markers.leader_of(entry.id.index));
        if leader == Some(entry.id.leader) {
            survivors.insert((group, entry.id.index), entry);
        }
    }
    survivors
        .into_iter()
        .map(|((group, _), entry)| (group, entry))
        .collect()
}

fn nonsense(segment: u64, record: &Found<'_>) -> OpenError {
    damaged(
        segment,
        record.offset,
        "a record contradicts the log",
        vec![record.view.group],
    )
}

fn damaged(segment: u64, offset: u64, what: &'static str, groups: Vec<GroupId>) -> OpenError {
    tracing::error!(segment, offset, what, ?groups, "the log is damaged");
    OpenError::Damaged {
        segment,
        offset,
        what,
        groups,
    }
}
