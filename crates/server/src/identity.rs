//! The node id in the volume: minted once, never reused, and never derived from a host name or an
//! ordinal. An empty volume is a new node.

use hikyaku_cluster::Entropy;
use hikyaku_storage::Disk;
use std::io::{self, IoSlice};

/// The file, in the root of the volume.
const FILE: &str = "node";

/// The same file while it is written.
const DRAFT: &str = "node.new";

/// First line of the file; the id follows in 16 hexadecimal digits.
const FORM: &str = "hikyaku node 1\n";

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The volume cannot be read or written.
    #[error("cannot access the node id in the volume: {0}")]
    Io(#[from] io::Error),
    /// The file is not what this program writes.
    #[error("the file `{FILE}` in the volume does not hold a node id: {0:?}")]
    Malformed(String),
    /// The volume belongs to another node than the configuration says.
    #[error("the volume belongs to node {found:x}, not to the configured node {configured:x}")]
    Other {
        /// The id in the volume.
        found: u64,
        /// The id in the configuration.
        configured: u64,
    },
}

/// The volume's node id. A new volume gets the configured one, or else one drawn at random.
pub fn of_volume(
    disk: &dyn Disk,
    configured: Option<u64>,
    entropy: &dyn Entropy,
) -> Result<u64, IdentityError> {
    if disk.list("")?.iter().any(|name| name == FILE) {
        let found = read(disk)?;
        return match configured {
            Some(configured) if configured != found => {
                Err(IdentityError::Other { found, configured })
            }
            Some(_) | None => Ok(found),
        };
    }
    let node = configured.unwrap_or_else(|| entropy.draw_nonzero_u64());
    write(disk, node)?;
    tracing::info!(node = format_args!("{node:x}"), "new volume, new node");
    Ok(node)
}

fn read(disk: &dyn Disk) -> Result<u64, IdentityError> {
    let file = disk.open(FILE)?;
    let mut bytes = vec![0; FORM.len() + 17];
    let mut filled = 0;
    loop {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    let text = String::from_utf8_lossy(&bytes[..filled]).into_owned();
    let id = text.strip_prefix(FORM).map(str::trim_end);
    let id = id.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    id.ok_or(IdentityError::Malformed(text))
}

fn write(disk: &dyn Disk, node: u64) -> Result<(), IdentityError> {
    let file = disk.create(DRAFT)?;
    let text = format!("{FORM}{node:016x}\n");
    let mut written = 0;
    while written < text.len() {
        let rest = IoSlice::new(&text.as_bytes()[written..]);
        written += file.write_vectored_at(&[rest], written as u64)?;
    }
    file.sync_data()?;
    disk.rename(DRAFT, FILE)?;
    disk.sync_dir("")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_cluster::SystemEntropy;
    use hikyaku_storage::{CrashKind, SimDisk};

    #[test]
    fn an_identity_survives_a_power_cut() {
        let disk = SimDisk::new(1);
        let minted = of_volume(&disk, None, &SystemEntropy).unwrap();
        let disk = disk.crash(CrashKind::PowerCut);
        assert_eq!(of_volume(&disk, None, &SystemEntropy).unwrap(), minted);
    }

    #[test]
    fn a_volume_of_another_node_is_refused() {
        let disk = SimDisk::new(1);
        assert_eq!(of_volume(&disk, Some(7), &SystemEntropy).unwrap(), 7);
        let refused = of_volume(&disk, Some(8), &SystemEntropy).unwrap_err();
        assert!(matches!(
            refused,
            IdentityError::Other {
                found: 7,
                configured: 8
            }
        ));
    }
}
