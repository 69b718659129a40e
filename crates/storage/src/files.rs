//! The files of the log: spares, new segments, freed ones.
//!
//! A freed segment becomes a spare under a durable new name before anything is written into it, so
//! no crash can show a half overwritten segment under its old name.

use crate::disk::{Disk, DiskFile, is_full, write_at};
use crate::record::Tag;
use crate::segment::{Heat, LOG_DIR, footer_path, segment_path, spare_path};
use bytes::Bytes;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A preallocated file without a place in the log.
pub(crate) struct Spare {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// Who wants a spare: the last one belongs to the compactor, because it frees others with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Writer,
    Compactor,
}

/// The log's directory, its spares and its numbering.
pub(crate) struct Files {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segment_bytes: u64,
    spares: Mutex<Vec<Spare>>,
    next_spare: AtomicU64,
    next_epoch: AtomicU64,
}

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>, segment_bytes: u64) -> Files {
        Files {
            disk,
            segment_bytes,
            spares: Mutex::default(),
            next_spare: AtomicU64::new(1),
            next_epoch: AtomicU64::new(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Spare>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Epochs and spare numbers in use are never minted again.
    pub(crate) fn saw_epoch(&self, epoch: u64) {
        self.next_epoch.fetch_max(epoch + 1, Ordering::Relaxed);
    }

    pub(crate) fn saw_spare(&self, number: u64) {
        self.next_spare.fetch_max(number + 1, Ordering::Relaxed);
    }

    pub(crate) fn spare_count(&self) -> usize {
        self.lock().len()
    }

    /// A new life for a segment file. The salt only has to differ from what the file held before.
    pub(crate) fn mint(&self) -> Tag {
        let epoch = self.next_epoch.fetch_add(1, Ordering::Relaxed);
        Tag {
            epoch,
            salt: RandomState::new().hash_one(epoch),
        }
    }

    /// Puts a spare into the pool.
    pub(crate) fn give(&self, spare: Spare) {
        self.lock().push(spare);
    }

    /// Takes a spare, or makes one. `None` means that the disk is full.
    pub(crate) fn take(&self, claim: Claim) -> io::Result<Option<Spare>> {
        let keep = if claim == Claim::Writer { 1 } else { 0 };
        {
            let mut spares = self.lock();
            if spares.len() > keep {
                return Ok(spares.pop());
            }
        }
        match self.create_spare() {
            Ok(spare) => Ok(Some(spare)),
            Err(error) if is_full(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Preallocates a new spare. The caller puts it into the pool or uses it.
    pub(crate) fn create_spare(&self) -> io::Result<Spare> {
        let number = self.next_spare.fetch_add(1, Ordering::Relaxed);
        let path = spare_path(number);
        let file = self.disk.create(&path)?;
        let made = file
            .allocate(self.segment_bytes)
            .and_then(|()| file.sync_data());
        if let Err(error) = made {
            drop(file);
            self.disk.remove(&path)?;
            return Err(error);
        }
        Ok(Spare { number, file })
    }

    /// Removes a spare's file.
    pub(crate) fn discard(&self, spare: Spare) -> io::Result<()> {
        self.disk.remove(&spare_path(spare.number))
    }

    /// Makes a written spare a segment: content first, then the name.
    pub(crate) fn commit(&self, spare: &Spare, tag: Tag, heat: Heat) -> io::Result<()> {
        spare.file.sync_data()?;
        self.disk
            .rename(&spare_path(spare.number), &segment_path(tag.epoch, heat))?;
        self.disk.sync_dir(LOG_DIR)
    }

    /// Renames a freed segment to a spare, not durable before the next `sync_dir`.
    pub(crate) fn retire(&self, epoch: u64, heat: Heat) -> io::Result<u64> {
        let number = self.next_spare.fetch_add(1, Ordering::Relaxed);
        self.disk
            .rename(&segment_path(epoch, heat), &spare_path(number))?;
        match self.disk.remove(&footer_path(epoch)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(number),
        }
    }

    /// Writes a footer file and makes its content durable.
    pub(crate) fn write_footer(&self, epoch: u64, bytes: &Bytes) -> io::Result<()> {
        let file = self.disk.create(&footer_path(epoch))?;
        write_at(&*file, bytes, 0)?;
        file.sync_data()
    }
}
