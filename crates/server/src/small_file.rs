//! Small text files in the volume that must never be half written: the node's id, its cluster.

use hikyaku_storage::Disk;
use std::io::{self, IoSlice};

/// Longest file that is read, in bytes: the founding record of some hundred nodes fits.
const BYTES_MAX: usize = 64 << 10;

/// The text of a file in the volume's root; `None` when there is none.
pub fn read(disk: &dyn Disk, name: &str) -> io::Result<Option<String>> {
    if !disk.list("")?.iter().any(|found| found == name) {
        return Ok(None);
    }
    let file = disk.open(name)?;
    let length = usize::try_from(file.len()?).unwrap_or(BYTES_MAX);
    let mut bytes = vec![0; length.min(BYTES_MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(Some(String::from_utf8_lossy(&bytes[..filled]).into_owned()))
}

/// Replaces a file durably: after a crash it holds the old text or the new one.
pub fn replace(disk: &dyn Disk, name: &str, text: &str) -> io::Result<()> {
    let draft = format!("{name}.new");
    let file = disk.create(&draft)?;
    let mut written = 0;
    while written < text.len() {
        let rest = IoSlice::new(&text.as_bytes()[written..]);
        written += file.write_vectored_at(&[rest], written as u64)?;
    }
    file.sync_data()?;
    disk.rename(&draft, name)?;
    disk.sync_dir("")
}
