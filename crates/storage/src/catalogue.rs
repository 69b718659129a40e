//! The node's copy of the catalogue, kept so that a restart streams only the difference.
//!
//! It can be rebuilt from the metadata leader at any time, so every failure to open it has the same
//! cure: delete and start empty. The revision travels in the same atomic batch as the change.
//!
//! sled 0.34's `flush` uses `sync_file_range`, which flushes neither the device cache nor the
//! file's metadata (sled#1452); a second handle on its `db` file does the real fdatasync.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The catalogue cache failed; delete its directory and rebuild.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// sled failed.
    #[error("catalogue cache: {0}")]
    Sled(#[from] sled::Error),
    /// The file system failed.
    #[error("catalogue cache: {0}")]
    Io(#[from] std::io::Error),
}

/// Keys with their values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A small ordered map with a revision, changed atomically.
pub trait CatalogueStore: Send + Sync {
    /// The revision of the last applied change; 0 for an empty catalogue.
    fn revision(&self) -> Result<u64, CatalogueError>;
    /// All pairs in key order.
    fn load(&self) -> Result<Pairs, CatalogueError>;
    /// Applies a change and its revision in one durable step. Deletes come before puts.
    fn apply(
        &self,
        revision: u64,
        puts: Pairs,
        deletes: Vec<Vec<u8>>,
    ) -> Result<(), CatalogueError>;
    /// Empties the catalogue, for a rebuild.
    fn clear(&self) -> Result<(), CatalogueError>;
}

/// The catalogue in a sled directory.
pub struct Catalogue {
    database: sled::Db,
    pairs: sled::Tree,
    file: File,
}

/// sled's page cache, in bytes; the whole catalogue is small and read once.
const SLED_CACHE_BYTES: u64 = 32 << 20;
/// How often a failed access is tried again before the cache is given up, a second in all.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);
const REVISION: &[u8] = b"revision";

impl Catalogue {
    /// Opens the directory. Whatever is wrong with it, it is deleted and the catalogue is empty.
    pub fn open(dir: impl AsRef<Path>) -> Result<Catalogue, CatalogueError> {
        let dir = dir.as_ref().to_path_buf();
        match Catalogue::open_patiently(&dir) {
            Ok(catalogue) => Ok(catalogue),
            Err(error) => {
                tracing::warn!(%error, dir = %dir.display(), "catalogue cache unusable, rebuilding");
                match std::fs::remove_dir_all(&dir) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    other => other?,
                }
                Catalogue::try_open(&dir)
            }
        }
    }

    /// A sled that was just dropped in this process holds its lock a little longer.
    fn open_patiently(dir: &Path) -> Result<Catalogue, CatalogueError> {
        let mut attempt = 0;
        loop {
            match Catalogue::try_open(dir) {
                Err(CatalogueError::Sled(sled::Error::Io(_))) if attempt < LOCK_ATTEMPTS => {
                    attempt += 1;
                    std::thread::sleep(LOCK_PAUSE);
                }
                opened => return opened,
            }
        }
    }

    fn try_open(dir: &Path) -> Result<Catalogue, CatalogueError> {
        let database = sled::Config::new()
            .path(dir)
            .cache_capacity(SLED_CACHE_BYTES)
            .flush_every_ms(None)
            .open()?;
        // The pairs live in a tree of their own so that no key can collide with the revision.
        let pairs = database.open_tree("catalogue")?;
        let catalogue = Catalogue {
            database,
            pairs,
            file: File::open(dir.join("db"))?,
        };
        catalogue.revision()?;
        for pair in catalogue.pairs.iter() {
            pair?;
        }
        Ok(catalogue)
    }

    fn flush(&self) -> Result<(), CatalogueError> {
        self.database.flush()?;
        Ok(self.file.sync_data()?)
    }
}

/// A pair's key on disk: the revision has the empty prefix 0, pairs have 1.
fn key_of(key: &[u8]) -> Vec<u8> {
    [&[1], key].concat()
}

fn revision_key() -> Vec<u8> {
    [&[0], REVISION].concat()
}

impl CatalogueStore for Catalogue {
    fn revision(&self) -> Result<u64, CatalogueError> {
        let Some(bytes) = self.pairs.get(revision_key())? else {
            return Ok(0);
        };
        let bytes: [u8; 8] = bytes.as_ref().try_into().map_err(|_| {
            std::io::Error::new(std::io::ErrorKind::InvalidData, "revision is not 8 bytes")
        })?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn load(&self) -> Result<Pairs, CatalogueError> {
        let mut pairs = Vec::new();
        for pair in self.pairs.range::<Vec<u8>, _>(vec![1u8]..) {
            let (key, value) = pair?;
            pairs.push((key[1..].to_vec(), value.to_vec()));
        }
        Ok(pairs)
    }

    fn apply(
        &self,
        revision: u64,
        puts: Pairs,
        deletes: Vec<Vec<u8>>,
    ) -> Result<(), CatalogueError> {
        let mut batch = sled::Batch::default();
        for key in deletes {
            batch.remove(key_of(&key));
        }
        for (key, value) in puts {
            batch.insert(key_of(&key), value);
        }
        batch.insert(revision_key(), revision.to_le_bytes().as_slice());
        self.pairs.apply_batch(batch)?;
        self.flush()
    }

    fn clear(&self) -> Result<(), CatalogueError> {
        self.pairs.clear()?;
        self.flush()
    }
}

/// The catalogue in memory, for simulation: sled starts threads of its own.
#[derive(Debug, Default)]
pub struct MemoryCatalogue {
    state: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    revision: u64,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl MemoryCatalogue {
    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CatalogueStore for MemoryCatalogue {
    fn revision(&self) -> Result<u64, CatalogueError> {
        Ok(self.lock().revision)
    }

    fn load(&self) -> Result<Pairs, CatalogueError> {
        Ok(self.lock().pairs.clone().into_iter().collect())
    }

    fn apply(
        &self,
        revision: u64,
        puts: Pairs,
        deletes: Vec<Vec<u8>>,
    ) -> Result<(), CatalogueError> {
        let mut state = self.lock();
        for key in deletes {
            state.pairs.remove(&key);
        }
        state.pairs.extend(puts);
        state.revision = revision;
        Ok(())
    }

    fn clear(&self) -> Result<(), CatalogueError> {
        *self.lock() = Default::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
        (key.into(), value.into())
    }

    fn behaves(store: &dyn CatalogueStore) {
        assert_eq!(store.revision().unwrap(), 0);
        store
            .apply(3, vec![pair("b", "2"), pair("a", "1")], vec![])
            .unwrap();
        store
            .apply(4, vec![pair("c", "3")], vec![b"b".to_vec()])
            .unwrap();
        assert_eq!(store.revision().unwrap(), 4);
        assert_eq!(store.load().unwrap(), [pair("a", "1"), pair("c", "3")]);
    }

    #[test]
    fn both_twins_behave_alike() {
        let dir = tempfile::tempdir().unwrap();
        behaves(&Catalogue::open(dir.path().join("meta.sled")).unwrap());
        behaves(&MemoryCatalogue::default());
    }

    #[test]
    fn survives_a_reopen() {
        let dir = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::open(dir.path()).unwrap();
        catalogue
            .apply(9, vec![pair("queue", "descriptor")], vec![])
            .unwrap();
        drop(catalogue);
        let catalogue = Catalogue::open(dir.path()).unwrap();
        assert_eq!(catalogue.revision().unwrap(), 9);
        assert_eq!(catalogue.load().unwrap(), [pair("queue", "descriptor")]);
    }

    #[test]
    fn a_deleted_directory_costs_only_a_rebuild() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta.sled");
        let catalogue = Catalogue::open(&path).unwrap();
        catalogue
            .apply(9, vec![pair("queue", "descriptor")], vec![])
            .unwrap();
        drop(catalogue);
        std::fs::remove_dir_all(&path).unwrap();
        let catalogue = Catalogue::open(&path).unwrap();
        assert_eq!(catalogue.revision().unwrap(), 0);
        assert!(catalogue.load().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_directory_is_rebuilt_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("meta.sled");
        drop(Catalogue::open(&path).unwrap());
        std::fs::write(path.join("conf"), b"nonsense").unwrap();
        let catalogue = Catalogue::open(&path).unwrap();
        assert_eq!(catalogue.revision().unwrap(), 0);
    }

    #[test]
    fn damage_anywhere_in_the_database_opens_empty_or_whole() {
        let dir = tempfile::tempdir().unwrap();
        let pairs: Pairs = (0..200)
            .map(|n| pair(&format!("key {n:04}"), &"v".repeat(99)))
            .collect();
        let whole = dir.path().join("whole");
        let catalogue = Catalogue::open(&whole).unwrap();
        catalogue.apply(7, pairs.clone(), vec![]).unwrap();
        drop(catalogue);
        let bytes = std::fs::read(whole.join("db")).unwrap();
        for (number, at) in (0..bytes.len()).step_by(bytes.len() / 12).enumerate() {
            let copy = dir.path().join(number.to_string());
            std::fs::create_dir(&copy).unwrap();
            std::fs::copy(whole.join("conf"), copy.join("conf")).unwrap();
            let mut damaged = bytes.clone();
            damaged[at..(at + 40).min(bytes.len())].fill(0xa5);
            std::fs::write(copy.join("db"), damaged).unwrap();
            let catalogue = Catalogue::open(&copy).unwrap();
            let loaded = catalogue.load().unwrap();
            let revision = catalogue.revision().unwrap();
            assert!(
                (revision, loaded.len()) == (0, 0) || (revision == 7 && loaded == pairs),
                "{at}"
            );
        }
    }
}
