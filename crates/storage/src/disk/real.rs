//! The disk port over a real directory.
//!
//! An exclusive lock on the file `lock` keeps two processes from sharing the directory.

use super::{Disk, DiskFile};
use rustix::fs::{FallocateFlags, FlockOperation};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of the operating system, locked for this process.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    _lock: File,
}

impl RealDisk {
    /// Opens (and creates when missing) the directory and locks it.
    pub fn open(root: impl AsRef<Path>) -> io::Result<RealDisk> {
        let root = root.as_ref().to_path_buf();
        std::fs::create_dir_all(&root)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(root.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!(
                    "storage directory {} is used by another process",
                    root.display()
                ),
            )
        })?;
        Ok(RealDisk { root, _lock: lock })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

impl Disk for RealDisk {
    fn create_dir(&self, path: &str) -> io::Result<()> {
        match std::fs::create_dir(self.at(path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(self.at(path))?;
        Ok(Arc::new(RealFile { file }))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.at(path))?;
        Ok(Arc::new(RealFile { file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.at(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        std::fs::remove_dir(self.at(path))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.at(dir)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        File::open(self.at(dir))?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.root)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn abort(&self, reason: &str) {
        tracing::error!(reason, "storage failed, aborting the process");
        std::process::abort();
    }
}

struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.file, slices, offset)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            // Some file systems cannot preallocate; a long sparse file still works.
            Err(rustix::io::Errno::OPNOTSUPP) if self.len()? < len => self.file.set_len(len),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_cannot_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = RealDisk::open(dir.path()).unwrap();
        assert!(RealDisk::open(dir.path()).is_err());
        drop(first);
        assert!(RealDisk::open(dir.path()).is_ok());
    }
}
