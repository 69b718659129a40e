//! The node id in the volume: minted once, never reused, and never derived from a host name or an
//! ordinal. An empty volume is a new node.

use crate::small_file;
use hikyaku_cluster::Entropy;
use hikyaku_storage::Disk;
use std::io;

/// The file, in the root of the volume.
const FILE: &str = "node";

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
}

/// The volume's node id; a new volume gets one drawn at random.
pub fn of_volume(disk: &dyn Disk, entropy: &dyn Entropy) -> Result<u64, IdentityError> {
    if let Some(text) = small_file::read(disk, FILE)? {
        let id = text
            .strip_prefix(FORM)
            .and_then(|rest| rest.strip_suffix('\n'));
        let id = id.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        return id.ok_or(IdentityError::Malformed(text));
    }
    let node = entropy.draw_nonzero_u64();
    small_file::replace(disk, FILE, &format!("{FORM}{node:016x}\n"))?;
    tracing::info!(node = format_args!("{node:x}"), "new volume, new node");
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_cluster::SystemEntropy;
    use hikyaku_storage::{CrashKind, SimDisk};

    #[test]
    fn an_identity_survives_a_power_cut() {
        let disk = SimDisk::new(1);
        let minted = of_volume(&disk, &SystemEntropy).unwrap();
        let disk = disk.crash(CrashKind::PowerCut);
        assert_eq!(of_volume(&disk, &SystemEntropy).unwrap(), minted);
    }

    #[test]
    fn a_file_that_is_no_identity_is_refused() {
        let disk = SimDisk::new(1);
        small_file::replace(&disk, FILE, "hikyaku node 2\n07\n").unwrap();
        let refused = of_volume(&disk, &SystemEntropy).unwrap_err();
        assert!(matches!(refused, IdentityError::Malformed(_)), "{refused}");
    }
}
