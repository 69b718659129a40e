//! The disk port in memory: deterministic, and able to die in every way that matters.
//!
//! Each file keeps two contents, the one that readers see and the one that is on the platter; each
//! name has the same two lives. `sync_data` and `sync_dir` carry the first over to the second. A
//! **process death** keeps what readers see, still unsynced, so that a *later* power cut can take
//! it. A **power cut** keeps what is on the platter and an arbitrary subset, by sector and by
//! directory operation, of what is not. A failed `sync_data` leaves its pages clean, as Linux does:
//! readers go on seeing them, no later sync writes them, a power cut takes them.
//!
//! A crash ends the handle: every later call on it fails. The surviving disk is a new handle.

use super::sim_state::{Content, NameChange, Node, Random, State, parent};
use super::{Disk, DiskFile};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard};

/// How the machine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// The process ends; the page cache survives, unsynced.
    ProcessDeath,
    /// The machine ends; of unsynced bytes and names any subset survives.
    PowerCut,
}

/// The calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `DiskFile::write_vectored_at`.
    Write,
    /// `DiskFile::sync_data`.
    Sync,
    /// `DiskFile::read_at`.
    Read,
    /// `DiskFile::allocate`.
    Allocate,
    /// `Disk::create` and `create_dir`.
    Create,
    /// `Disk::rename`.
    Rename,
    /// `Disk::remove` and `remove_dir`.
    Remove,
    /// `Disk::sync_dir`.
    SyncDir,
    /// `DiskFile::truncate`.
    Truncate,
}

/// One call that will fail.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The kind of call.
    pub operation: Operation,
    /// How many such calls still succeed before it.
    pub after: u64,
    /// The error that it answers.
    pub error: io::ErrorKind,
}

/// A simulated disk. Clones are the same disk, in the same life.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// An empty disk without a size limit whose choices follow `seed`.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::from_state(State {
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending: Vec::new(),
            next_file: 0,
            capacity: None,
            random: Random(seed),
            short_writes: false,
            faults: Vec::new(),
            mutations: 0,
            power_fails_at: None,
            dead: false,
            aborted: None,
        })
    }

    fn from_state(state: State) -> SimDisk {
        SimDisk {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Ends this life of the disk and returns the next one. Faults do not carry over.
    pub fn crash(&self, kind: CrashKind) -> SimDisk {
        let mut old = self.lock();
        old.dead = true;
        let mut next = State {
            files: old.files.clone(),
            names: old.names.clone(),
            durable_names: old.durable_names.clone(),
            pending: old.pending.clone(),
            next_file: old.next_file,
            capacity: old.capacity,
            random: Random(old.random.next()),
            short_writes: old.short_writes,
            faults: Vec::new(),
            mutations: 0,
            power_fails_at: None,
            dead: false,
            aborted: None,
        };
        if kind == CrashKind::PowerCut {
            next.lose_power();
        }
        SimDisk::from_state(next)
    }

    /// How many calls of this life changed something (writes, syncs, names).
    pub fn mutations(&self) -> u64 {
        self.lock().mutations
    }

    /// Lets the power fail during the `nth` change of this life (the first is 1). Call `crash` to
    /// find out what survived.
    pub fn cut_power_at(&self, nth: u64) {
        self.lock().power_fails_at = Some(nth);
    }

    /// Whether the power failed or the disk was crashed.
    pub fn is_dead(&self) -> bool {
        self.lock().dead
    }

    /// Makes a later call fail.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Makes every other write take only a part of what it is given.
    pub fn set_short_writes(&self, short: bool) {
        self.lock().short_writes = short;
    }

    /// Limits the bytes that all files together may have.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        self.lock().capacity = capacity;
    }

    /// Why `abort` was called, if it was.
    pub fn aborted(&self) -> Option<String> {
        self.lock().aborted.clone()
    }

    /// The paths of all files.
    pub fn files(&self) -> Vec<String> {
        let state = self.lock();
        let files = state
            .names
            .iter()
            .filter(|(_, node)| matches!(node, Node::File(_)));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// All bytes of a file as readers see them; none when it does not exist.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let mut state = self.lock();
        let file = state.file_of(path).ok()?;
        Some(state.content(file).ok()?.seen.clone())
    }

    /// Bytes of all files together.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used()
    }

    /// Flips one bit where it lies, on the platter and in the cache.
    pub fn flip_bit(&self, path: &str, offset: u64, bit: u8) {
        let mut state = self.lock();
        let file = state
            .file_of(path)
            .unwrap_or_else(|_| panic!("no file {path} to damage"));
        if let Ok(content) = state.content(file) {
            for side in [&mut content.seen, &mut content.platter] {
                if let Some(byte) = side.get_mut(offset as usize) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
    }

    /// Overwrites bytes where they lie, on the platter and in the cache.
    pub fn overwrite(&self, path: &str, offset: u64, bytes: &[u8]) {
        let mut state = self.lock();
        let file = state
            .file_of(path)
            .unwrap_or_else(|_| panic!("no file {path} to damage"));
        if let Ok(content) = state.content(file) {
            for side in [&mut content.seen, &mut content.platter] {
                let from = (offset as usize).min(side.len());
                let to = (from + bytes.len()).min(side.len());
                side[from..to].copy_from_slice(&bytes[..to - from]);
            }
        }
    }
}

impl Disk for SimDisk {
    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.admit(Operation::Create)?;
        if state.names.contains_key(path) {
            return Ok(());
        }
        state.change_name(NameChange::Add(path.to_owned(), Node::Directory))
    }

    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        state.admit(Operation::Create)?;
        let dir = parent(path);
        if !dir.is_empty() && state.names.get(dir) != Some(&Node::Directory) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no directory {dir}"),
            ));
        }
        let file = state.next_file;
        state.next_file += 1;
        state.files.insert(file, Content::default());
        state.names.insert(path.to_owned(), Node::File(file));
        state.change_name(NameChange::Add(path.to_owned(), Node::File(file)))?;
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            file,
        }))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.lock();
        state.alive()?;
        let file = state.file_of(path)?;
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            file,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.admit(Operation::Rename)?;
        if state.names.get(from) == Some(&Node::Directory) {
            return state.change_name(NameChange::MoveTree(from.to_owned(), to.to_owned()));
        }
        let file = state.file_of(from)?;
        state.change_name(NameChange::Move(from.to_owned(), to.to_owned(), file))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.admit(Operation::Remove)?;
        state.file_of(path)?;
        state.change_name(NameChange::Remove(path.to_owned()))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.admit(Operation::Remove)?;
        let within = format!("{path}/");
        if state.names.keys().any(|name| name.starts_with(&within)) {
            return Err(io::Error::new(
                io::ErrorKind::DirectoryNotEmpty,
                path.to_owned(),
            ));
        }
        state.change_name(NameChange::Remove(path.to_owned()))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let state = self.lock();
        state.alive()?;
        let names = state.names.keys().filter(|path| parent(path) == dir);
        Ok(names
            .map(|path| path[dir.len()..].trim_start_matches('/').to_owned())
            .collect())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.admit(Operation::SyncDir)?;
        state.count()?;
        let (covered, rest): (Vec<NameChange>, Vec<NameChange>) =
            std::mem::take(&mut state.pending)
                .into_iter()
                .partition(|c| c.touches(dir));
        state.pending = rest;
        for change in covered {
            change.apply(&mut state.durable_names);
        }
        state.drop_unnamed();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = self.lock();
        state.alive()?;
        Ok(state.free())
    }

    fn abort(&self, reason: &str) {
        self.lock().aborted.get_or_insert_with(|| reason.to_owned());
    }
}

struct SimFile {
    disk: SimDisk,
    file: u64,
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.lock();
        state.admit(Operation::Read)?;
        let content = state.content(self.file)?;
        let from = (offset as usize).min(content.seen.len());
        let to = (from + buffer.len()).min(content.seen.len());
        buffer[..to - from].copy_from_slice(&content.seen[from..to]);
        Ok(to - from)
    }

    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.lock();
        state.admit(Operation::Write)?;
        let mut bytes: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        if state.short_writes && bytes.len() > 1 && state.random.coin() {
            let keep = 1 + (state.random.next() as usize) % (bytes.len() - 1);
            bytes.truncate(keep);
        }
        let free = state.free();
        let content = state.content(self.file)?;
        let end = offset + bytes.len() as u64;
        if end.saturating_sub(content.seen.len() as u64) > free {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "simulated disk is full",
            ));
        }
        content.write(&bytes, offset as usize);
        state.count()?;
        Ok(bytes.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        if let Err(error) = state.admit(Operation::Sync) {
            if let Ok(content) = state.content(self.file) {
                let clean = std::mem::take(&mut content.dirty);
                content.forsaken.extend(clean);
            }
            return Err(error);
        }
        state.count()?;
        state.content(self.file)?.sync();
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.admit(Operation::Allocate)?;
        let free = state.free();
        let content = state.content(self.file)?;
        let more = len.saturating_sub(content.seen.len() as u64);
        if more > free {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "simulated disk is full",
            ));
        }
        if more > 0 {
            content.seen.resize(len as usize, 0);
        }
        state.count()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.admit(Operation::Truncate)?;
        state.content(self.file)?.truncate(len as usize);
        state.count()
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.lock();
        state.alive()?;
        Ok(state.content(self.file)?.seen.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{read_exact_at, write_at};
    use super::*;

    fn disk_with(path: &str, bytes: &[u8]) -> SimDisk {
        let disk = SimDisk::new(7);
        let file = disk.create(path).unwrap();
        write_at(&*file, bytes, 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir("").unwrap();
        disk
    }

    #[test]
    fn synced_bytes_survive_a_power_cut() {
        let disk = disk_with("a", b"kept").crash(CrashKind::PowerCut);
        assert_eq!(disk.content("a").unwrap(), b"kept");
    }

    #[test]
    fn unsynced_bytes_survive_process_death_but_may_go_with_a_later_power_cut() {
        let mut lost = 0;
        for seed in 0..20 {
            let disk = SimDisk::new(seed);
            let file = disk.create("a").unwrap();
            file.allocate(512).unwrap();
            file.sync_data().unwrap();
            disk.sync_dir("").unwrap();
            write_at(&*file, b"x", 0).unwrap();
            let disk = disk.crash(CrashKind::ProcessDeath);
            assert_eq!(disk.content("a").unwrap()[0], b'x');
            let disk = disk.crash(CrashKind::PowerCut);
            lost += usize::from(disk.content("a").unwrap()[0] == 0);
        }
        assert!(
            (1..20).contains(&lost),
            "a power cut keeps some and loses some: {lost} of 20"
        );
    }

    #[test]
    fn a_name_without_directory_sync_may_vanish() {
        let kept = (0..20).filter(|seed| {
            let disk = SimDisk::new(*seed);
            disk.create("a").unwrap().sync_data().unwrap();
            disk.crash(CrashKind::PowerCut).files().len() == 1
        });
        assert!((1..20).contains(&kept.count()));
    }

    #[test]
    fn a_failed_sync_leaves_pages_that_no_later_sync_writes() {
        let disk = disk_with("a", b"old");
        let file = disk.open("a").unwrap();
        write_at(&*file, b"new", 0).unwrap();
        disk.inject(Fault {
            operation: Operation::Sync,
            after: 0,
            error: io::ErrorKind::Other,
        });
        assert!(file.sync_data().is_err());
        assert!(file.sync_data().is_ok(), "the retry lies, as Linux does");
        assert_eq!(read_exact_at(&*file, 3, 0).unwrap(), b"new");
        assert_eq!(
            disk.crash(CrashKind::PowerCut).content("a").unwrap(),
            b"old"
        );
    }

    #[test]
    fn the_handle_of_an_earlier_life_is_dead() {
        let disk = disk_with("a", b"x");
        let file = disk.open("a").unwrap();
        disk.crash(CrashKind::ProcessDeath);
        assert!(write_at(&*file, b"y", 0).is_err());
        assert!(disk.create("b").is_err());
    }

    #[test]
    fn a_full_disk_says_so() {
        let disk = SimDisk::new(1);
        disk.set_capacity(Some(100));
        let file = disk.create("a").unwrap();
        assert_eq!(
            file.allocate(101).unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
        assert_eq!(disk.free_bytes().unwrap(), 100);
    }
}
