//! One node's storage: the shared log, its checkpoints, and the catalogue cache.
//!
//! The log is the message store: entries, votes and markers of all Raft groups go into one sequence
//! of preallocated, recycled segments, with one write and one fdatasync per round for all that
//! waits. A message body is written once; the state machine names it by (log index, ordinal) and
//! `GroupLog::read_body` finds it until it is dead in every kept checkpoint.
//!
//! This crate knows nothing of Raft's rules or of queues. It promises: what `Done` answered is
//! durable; what is damaged is never served and never mistaken for the end of the log; nothing that
//! a kept checkpoint names is reclaimed.

mod ahead;
mod aside;
mod cache;
mod catalogue;
mod checkpoint;
mod codec;
mod cold;
mod compact;
mod config;
mod damage;
mod disk;
mod driver;
mod engine;
mod error;
mod files;
mod footer;
mod install;
mod live;
mod log;
mod markers;
mod mend;
mod owner;
mod pin;
mod reader;
mod reclaim;
mod record;
mod recovery;
mod round;
mod scan;
mod scrub;
mod section;
mod segment;
mod signal;
mod snapshots;
mod stats;
mod types;
mod writer;

pub use aside::{is_set_aside, loss_is_told, set_aside};
pub use catalogue::{Catalogue, CatalogueError, CatalogueStore, MemoryCatalogue, Pairs};
pub use config::{ConfigError, LogConfig};
pub use damage::{BodyName, Damages, Grade};
pub use disk::{CrashKind, Disk, DiskFile, Fault, Operation, RealDisk, SimDisk};
pub use error::{CheckpointError, ClaimError, OpenError, ReadError};
pub use install::Install;
pub use log::{GroupLog, Log};
pub use pin::SnapshotPin;
pub use stats::{DamageCounts, LogStats};
pub use types::{Checkpoint, Done, Entry, GroupId, GroupState, LeaderId, LiveRun, LogId, Work};
