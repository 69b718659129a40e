//! The port to the disk: the few file operations that the log needs, with the promises it relies on.
//!
//! Paths are relative to the node's storage directory and separated by `/`. Two twins implement it:
//! `RealDisk` over a directory, and `SimDisk`, deterministic and in memory, which can die in all the
//! ways that matter (process death, power cut, failed fsync, full disk, bit rot).
//!
//! What is durable: file content after `sync_data`; names (created, renamed, removed) after
//! `sync_dir` of their directory. Nothing else.

mod real;
mod sim;
mod sim_state;

pub use real::RealDisk;
pub use sim::{CrashKind, Fault, Operation, SimDisk};

use std::io::{self, IoSlice};
use std::sync::Arc;

/// A directory tree that the log owns.
pub trait Disk: Send + Sync {
    /// Creates a directory; an existing one is fine.
    fn create_dir(&self, path: &str) -> io::Result<()>;
    /// Creates an empty file, or empties an existing one.
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file, replacing the target atomically, or a directory to a name that is free.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    /// The names in a directory, sorted; none when it does not exist.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Bytes that may still be allocated.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Ends the process: the disk broke a promise (a failed fsync), so nothing in memory may be
    /// trusted to be on it. In simulation the call is recorded and the caller answers nothing more.
    fn abort(&self, reason: &str);
}

/// An open file. Reads and writes name their offset, so one handle serves many threads.
pub trait DiskFile: Send + Sync {
    /// Reads at an offset; fewer bytes than asked only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at an offset and returns how much was taken, which may be less than given.
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize>;
    /// Makes content and length durable. After an error nothing is known: never retry.
    fn sync_data(&self) -> io::Result<()>;
    /// Reserves space up to `len` and makes the file so long, at least.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Cuts the file to `len`.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file holds nothing.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Linux refuses more slices than this in one call (`IOV_MAX`).
const MAX_SLICES: usize = 1024;

/// Writes all slices, however many calls that takes.
pub(crate) fn write_all_at(
    file: &dyn DiskFile,
    slices: &mut [IoSlice<'_>],
    mut offset: u64,
) -> io::Result<()> {
    let mut rest = slices;
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let window = rest.len().min(MAX_SLICES);
        let written = match file.write_vectored_at(&rest[..window], offset) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::WriteZero,
                    "disk takes no bytes",
                ));
            }
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        offset += written as u64;
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

/// Writes one buffer whole.
pub(crate) fn write_at(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_all_at(file, &mut [IoSlice::new(bytes)], offset)
}

/// Reads exactly `len` bytes.
pub(crate) fn read_exact_at(file: &dyn DiskFile, len: usize, offset: u64) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    let got = read_up_to(file, &mut buffer, offset)?;
    if got < len {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "file ends early",
        ));
    }
    Ok(buffer)
}

/// Fills the buffer as far as the file reaches and returns how far that was.
pub(crate) fn read_up_to(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Whether an error says that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
