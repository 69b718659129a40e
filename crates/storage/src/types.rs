//! The words that the log and its users share: who wrote an entry, where it stands, what is alive.
//!
//! These are domain types. Their form on disk is declared in `record`, `footer` and `checkpoint`.

use bytes::Bytes;
use std::fmt;

/// One Raft group, which is one partition (or the metadata) on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The leader that created an entry: a term and the replica that led it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderId {
    /// The Raft term.
    pub term: u64,
    /// The replica id of the leader.
    pub node: u64,
}

/// The identity of an entry: within one group, leader and index together name its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    /// Who wrote it.
    pub leader: LeaderId,
    /// Its place in the group's log.
    pub index: u64,
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}-{:x}-{}",
            self.leader.term, self.leader.node, self.index
        )
    }
}

/// A log entry: a head that the machine reads, and the message bodies that it never touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The entry's identity.
    pub id: LogId,
    /// What `apply` reads.
    pub head: Bytes,
    /// The message bodies; a body's ordinal is its place here.
    pub bodies: Vec<Bytes>,
}

impl Entry {
    /// The bytes of head and bodies together.
    pub fn payload_bytes(&self) -> usize {
        self.head.len() + self.bodies.iter().map(Bytes::len).sum::<usize>()
    }

    /// What a cached entry costs in memory, roughly, the structs that hold it included.
    pub(crate) fn weight(&self) -> usize {
        const OVERHEAD: usize = 160;
        self.payload_bytes() + self.bodies.len() * size_of::<Bytes>() + OVERHEAD
    }
}

/// Live bodies in consecutive entries: in each of the log indexes
/// `first_index..first_index + entries`, the ordinals `ordinal..ordinal + count` are live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveRun {
    /// The first log index.
    pub first_index: u64,
    /// How many consecutive log indexes.
    pub entries: u64,
    /// The first live ordinal in each of them.
    pub ordinal: u32,
    /// How many live ordinals in each of them.
    pub count: u32,
}

/// Where the numbers of an entry's bodies end: the machines above give them 16 bits.
const BODIES_END: u32 = 1 << 16;

impl LiveRun {
    /// Whether a checkpoint after the entry `last` can name these bodies. What is read from a disk or
    /// from another node may claim anything, and a run is laid out in memory.
    pub fn is_up_to(self, last: LogId) -> bool {
        let after = self.first_index.checked_add(self.entries);
        let bodies = self.ordinal.checked_add(self.count);
        after.is_some_and(|after| after <= last.index.saturating_add(1))
            && bodies.is_some_and(|bodies| bodies <= BODIES_END)
    }
}

/// A group's state machine at one log id, without the message bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last entry that the state contains.
    pub id: LogId,
    /// What the raft layer keeps beside the state (membership and the like), opaque here.
    pub meta: Bytes,
    /// Which leader wrote the entries from an index on, ascending; covers every live index.
    pub leaders: Vec<(u64, LeaderId)>,
    /// The bodies that the state still names, sorted.
    pub live: Vec<LiveRun>,
    /// The machine's state, opaque here.
    pub state: Bytes,
}

/// What a group's log remembers beside its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    /// The last saved vote, opaque here.
    pub vote: Option<Bytes>,
    /// The last saved committed log id; may lag.
    pub committed: Option<LogId>,
    /// The last entry that was purged.
    pub last_purged: Option<LogId>,
    /// The last entry, or the last purged one when none is left.
    pub last: Option<LogId>,
    /// The replica that the records belong to; `None` before the first claim.
    pub owner: Option<u64>,
}

/// Called once with the outcome of a write, in submission order across the whole log, after the
/// data is durable. Must be quick and must not block: it runs between two rounds.
pub type Done = Box<dyn FnOnce(std::io::Result<()>) + Send>;

/// Where the log's own work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The writer and the reclaimer are operating system threads.
    Thread,
    /// Both are tasks of the current tokio runtime and do their file access inline: for simulation.
    Task,
}
