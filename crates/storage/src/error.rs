//! The ways in which storage can fail, named for what is true.

use crate::config::ConfigError;
use crate::types::{GroupId, LogId};
use std::io;

/// The log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The disk failed.
    #[error("cannot open the log: {0}")]
    Io(#[from] io::Error),
    /// Bytes that were durable are damaged where votes, markers or framing may have been.
    /// Every group named may have lost records: its replica must be dropped, never guessed. See
    /// `set_aside`.
    #[error("segment {segment:016x} is damaged at offset {offset}: {what}; groups {groups:?}")]
    Damaged {
        /// The damaged segment.
        segment: u64,
        /// The first bad byte known.
        offset: u64,
        /// What was found.
        what: &'static str,
        /// The groups that may have records there; empty when not even that is known.
        groups: Vec<GroupId>,
    },
    /// A file has a format that this version does not know.
    #[error("segment {segment:016x} has format version {version}, this program knows {known}")]
    Version {
        /// The segment.
        segment: u64,
        /// The version found.
        version: u32,
        /// The newest version known.
        known: u32,
    },
}

/// A group that cannot be opened for a replica.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The group's records here are another replica's. They are its promises and not a newcomer's:
    /// that replica has to be dropped first.
    #[error("group {group} is replica {here:x} here, not {asked:x}")]
    OtherReplica {
        /// The group.
        group: GroupId,
        /// The replica whose records these are.
        here: u64,
        /// The replica that was asked for.
        asked: u64,
    },
    /// The disk failed, or the log is closed.
    #[error("cannot open a group for a replica: {0}")]
    Io(#[from] io::Error),
}

/// A read that cannot be answered from this node's disk.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The body is not here: it was deleted and reclaimed, or never was.
    #[error("entry {entry} ordinal {ordinal} of group {group} is gone")]
    Gone {
        /// The group.
        group: GroupId,
        /// The entry.
        entry: LogId,
        /// The ordinal within the entry.
        ordinal: u32,
    },
    /// The bytes are there and wrong, or missing where they must be.
    #[error("group {group} index {index} is damaged in segment {segment:016x} at {offset}: {what}")]
    Damaged {
        /// The group.
        group: GroupId,
        /// The log index.
        index: u64,
        /// The segment, 0 if none holds the entry.
        segment: u64,
        /// Where in the segment.
        offset: u64,
        /// What was found.
        what: &'static str,
    },
    /// An entry is there, but not all of its bodies: another replica has them.
    #[error("entry {entry} of group {group} is damaged in the bodies {ordinals:?}")]
    Bodies {
        /// The group.
        group: GroupId,
        /// The entry.
        entry: LogId,
        /// The ordinals of the bodies that are missing here.
        ordinals: Vec<u32>,
    },
    /// The disk failed.
    #[error("cannot read the log: {0}")]
    Io(#[from] io::Error),
}

/// A checkpoint that cannot be written, read or installed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The disk failed.
    #[error("cannot access the checkpoint: {0}")]
    Io(#[from] io::Error),
    /// No kept checkpoint of the group is whole and reaches the log that is left.
    #[error("group {group} has no usable checkpoint: {what}")]
    Damaged {
        /// The group.
        group: GroupId,
        /// What was found.
        what: String,
    },
    /// A pin needs a checkpoint to hold.
    #[error("group {0} has no checkpoint")]
    None(GroupId),
}
