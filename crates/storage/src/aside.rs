//! Setting a damaged log aside.
//!
//! When `Log::open` says that votes, markers or framing are damaged, every replica of the node may
//! have forgotten what it promised. Nothing can be salvaged safely: the replicas are dropped, the
//! node starts with an empty log, and its groups come back as learners under new replica ids. The
//! old files are kept for whoever wants to look at them. Whether the other replicas are whole is not
//! known here: the caller decides, and never does this on a majority.

use crate::checkpoint::CHECKPOINT_DIR;
use crate::disk::Disk;
use crate::segment::LOG_DIR;
use std::io;

/// The mark that replicas were lost.
const MARK: &str = "lost-replicas";

/// Whether replicas were lost here of which the cluster may not know yet.
pub fn is_set_aside(disk: &dyn Disk) -> io::Result<bool> {
    Ok(disk.list("")?.iter().any(|name| name == MARK))
}

/// The cluster knows of all replicas that were lost here. Durable on return.
pub fn loss_is_told(disk: &dyn Disk) -> io::Result<()> {
    match disk.remove(MARK) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => disk.sync_dir(""),
    }
}

/// Renames the log and the checkpoints of a closed log, so that `Log::open` founds a new one. Each
/// rename is one step: a crash in between leaves a log that refuses to open, and the call is made
/// again. Returns the names that the directories have now.
pub fn set_aside(disk: &dyn Disk) -> io::Result<Vec<String>> {
    let existing = disk.list("")?;
    if !existing.iter().any(|name| name == MARK) {
        disk.create(MARK)?.sync_data()?;
    }
    disk.sync_dir("")?;
    let free = |dir: &str| {
        let mut number = 1;
        while existing.contains(&format!("{dir}.damaged-{number}")) {
            number += 1;
        }
        format!("{dir}.damaged-{number}")
    };
    let mut names = Vec::new();
    for dir in [LOG_DIR, CHECKPOINT_DIR] {
        if existing.iter().any(|name| name == dir) {
            disk.sync_dir(dir)?;
            let name = free(dir);
            disk.rename(dir, &name)?;
            disk.sync_dir("")?;
            tracing::error!(dir, name, "damaged storage set aside");
            names.push(name);
        }
    }
    Ok(names)
}
