//! What a simulated disk holds: contents and names, each as readers see them and as a power cut
//! leaves them.

use super::sim::{Fault, Operation};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// What a power cut keeps or loses as a whole, in bytes.
const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub(super) struct Content {
    pub(super) seen: Vec<u8>,
    pub(super) platter: Vec<u8>,
    /// Sectors that readers see and a sync would write.
    pub(super) dirty: BTreeSet<usize>,
    /// Sectors that readers see and no sync will write.
    pub(super) forsaken: BTreeSet<usize>,
}

impl Content {
    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            self.dirty.insert(sector);
            self.forsaken.remove(&sector);
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.seen.resize(len, 0);
        self.dirty.retain(|sector| *sector < len.div_ceil(SECTOR));
    }

    fn carry(&mut self, sector: usize) {
        let from = (sector * SECTOR).min(self.platter.len());
        let to = ((sector + 1) * SECTOR)
            .min(self.platter.len())
            .min(self.seen.len());
        if from < to {
            self.platter[from..to].copy_from_slice(&self.seen[from..to]);
        }
    }

    pub(super) fn sync(&mut self) {
        self.platter.resize(self.seen.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            self.carry(sector);
        }
    }

    pub(super) fn lose_power(&mut self, random: &mut Random) {
        if random.coin() {
            self.platter.resize(self.seen.len(), 0);
        }
        for sector in std::mem::take(&mut self.dirty) {
            if random.coin() {
                self.carry(sector);
            }
        }
        self.forsaken.clear();
        self.seen.clone_from(&self.platter);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Directory,
    File(u64),
}

/// A directory operation that no `sync_dir` covered yet.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Add(String, Node),
    Move(String, String, u64),
    /// A directory, with all that is in it.
    MoveTree(String, String),
    Remove(String),
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            NameChange::Add(path, node) => {
                names.insert(path.clone(), *node);
            }
            NameChange::Move(from, to, file) => {
                if names.get(from) == Some(&Node::File(*file)) {
                    names.remove(from);
                }
                names.insert(to.clone(), Node::File(*file));
            }
            NameChange::MoveTree(from, to) => {
                let within = |path: &String| {
                    path.strip_prefix(from.as_str())
                        .is_some_and(|r| r.is_empty() || r.starts_with('/'))
                };
                let moved: Vec<String> =
                    names.keys().filter(|path| within(path)).cloned().collect();
                for path in moved {
                    if let Some(node) = names.remove(&path) {
                        names.insert(format!("{to}{}", &path[from.len()..]), node);
                    }
                }
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
        }
    }

    pub(super) fn touches(&self, dir: &str) -> bool {
        match self {
            NameChange::Add(path, _) | NameChange::Remove(path) => parent(path) == dir,
            NameChange::Move(from, to, _) | NameChange::MoveTree(from, to) => {
                parent(from) == dir || parent(to) == dir
            }
        }
    }
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// splitmix64: small, seeded, good enough to choose sectors.
#[derive(Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

pub(super) struct State {
    pub(super) files: BTreeMap<u64, Content>,
    pub(super) names: BTreeMap<String, Node>,
    pub(super) durable_names: BTreeMap<String, Node>,
    pub(super) pending: Vec<NameChange>,
    pub(super) next_file: u64,
    pub(super) capacity: Option<u64>,
    pub(super) random: Random,
    pub(super) short_writes: bool,
    pub(super) faults: Vec<Fault>,
    pub(super) mutations: u64,
    pub(super) power_fails_at: Option<u64>,
    pub(super) dead: bool,
    pub(super) aborted: Option<String>,
}

impl State {
    pub(super) fn used(&self) -> u64 {
        self.files.values().map(|file| file.seen.len() as u64).sum()
    }

    pub(super) fn free(&self) -> u64 {
        self.capacity.map_or(u64::MAX / 4, |capacity| {
            capacity.saturating_sub(self.used())
        })
    }

    /// Runs before every call: is the disk alive, and is this the call that fails?
    pub(super) fn admit(&mut self, operation: Operation) -> io::Result<()> {
        self.alive()?;
        let mut failed = None;
        for (at, fault) in self.faults.iter_mut().enumerate() {
            if fault.operation == operation {
                if fault.after == 0 {
                    failed = Some(at);
                    break;
                }
                fault.after -= 1;
            }
        }
        match failed {
            Some(at) => Err(io::Error::new(
                self.faults.remove(at).error,
                "injected fault",
            )),
            None => Ok(()),
        }
    }

    pub(super) fn alive(&self) -> io::Result<()> {
        if self.dead {
            Err(io::Error::other("the simulated disk is off"))
        } else {
            Ok(())
        }
    }

    /// Counts a change. At the fatal one the power goes: it may or may not have happened, which
    /// the power cut decides, but its caller never hears of it.
    pub(super) fn count(&mut self) -> io::Result<()> {
        self.mutations += 1;
        if self.power_fails_at == Some(self.mutations) {
            self.dead = true;
        }
        self.alive()
    }

    pub(super) fn change_name(&mut self, change: NameChange) -> io::Result<()> {
        change.apply(&mut self.names);
        self.pending.push(change);
        self.drop_unnamed();
        self.count()
    }

    /// Forgets files that no name leads to, now or after a power cut. Open handles to a removed
    /// file are not kept alive: the log never reads one.
    pub(super) fn drop_unnamed(&mut self) {
        let mut named: BTreeSet<u64> = BTreeSet::new();
        for node in self.names.values().chain(self.durable_names.values()) {
            if let Node::File(file) = node {
                named.insert(*file);
            }
        }
        for change in &self.pending {
            if let NameChange::Add(_, Node::File(file)) | NameChange::Move(_, _, file) = change {
                named.insert(*file);
            }
        }
        self.files.retain(|file, _| named.contains(file));
    }

    pub(super) fn file_of(&self, path: &str) -> io::Result<u64> {
        match self.names.get(path) {
            Some(Node::File(file)) => Ok(*file),
            _ => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no file {path}"),
            )),
        }
    }

    pub(super) fn content(&mut self, file: u64) -> io::Result<&mut Content> {
        self.files
            .get_mut(&file)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "file was removed"))
    }

    pub(super) fn lose_power(&mut self) {
        let mut names = std::mem::take(&mut self.durable_names);
        for change in std::mem::take(&mut self.pending) {
            if self.random.coin() {
                change.apply(&mut names);
            }
        }
        let directories: BTreeSet<String> = names
            .iter()
            .filter(|(_, node)| **node == Node::Directory)
            .map(|(path, _)| path.clone())
            .collect();
        names.retain(|path, _| parent(path).is_empty() || directories.contains(parent(path)));
        self.names.clone_from(&names);
        self.durable_names = names;
        self.drop_unnamed();
        let random = &mut self.random;
        for content in self.files.values_mut() {
            content.lose_power(random);
        }
    }
}
