//! What the machine must know of a queue.
//!
//! The metadata keeps this record inside its own record of the queue and gives every change a higher
//! version; a slice applies commands under the version it holds, never under the caller's.

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::{PartitionId, QueueId};

/// What a descriptor without draining partitions is written as; such ones stay readable to releases
/// that know no others.
const VERSION: u8 = 1;

/// With the draining partitions at the end.
const DRAINING_VERSION: u8 = 2;

/// One version of the machine's configuration of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// The queue.
    pub id: QueueId,
    /// Rises with every change.
    pub version: u64,
    /// Whether the queue still exists.
    pub state: QueueState,
    /// Standard or FIFO; fixed at creation.
    pub kind: QueueKind,
    /// How long a received message stays invisible when the receive does not say, in milliseconds.
    pub visibility_timeout_ms: u64,
    /// How long a sent message stays invisible when the send does not say, in milliseconds.
    pub delay_ms: u64,
    /// How long a message is kept after it was sent, in milliseconds.
    pub retention_ms: u64,
    /// Rises with every purge; a slice drops everything it held under a lower one.
    pub purge_epoch: u64,
    /// How many messages may be in flight per slice at one time.
    pub in_flight_limit: u32,
    /// The partitions the queue uses: each takes sends, and receives visit them all.
    pub spread: Vec<PartitionId>,
    /// Partitions that left the spread and may still hold messages: they take no sends, and receives
    /// visit them until they are empty.
    pub draining: Vec<PartitionId>,
}

/// Whether a queue exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueState {
    /// It does.
    Active,
    /// It did; its slices are dropped and its id is never used again.
    Deleted,
}

/// The two kinds of queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Best-effort order, no deduplication.
    Standard,
    /// Ordered message groups and deduplication.
    Fifo {
        /// The scope named at creation. AWS accepts a later change and ignores it.
        dedup_scope: DeduplicationScope,
    },
}

/// Where a deduplication id is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeduplicationScope {
    /// Across the queue.
    Queue,
    /// Within each message group.
    MessageGroup,
}

impl Descriptor {
    /// Every partition that may hold messages of the queue: the spread, then the draining ones.
    pub fn visited(&self) -> impl Iterator<Item = PartitionId> {
        self.spread.iter().chain(&self.draining).copied()
    }

    /// The persisted and shipped form: version 1, or 2 while partitions are draining.
    pub fn encode(&self) -> Vec<u8> {
        if self.draining.is_empty() {
            let mut writer = Writer::versioned(VERSION);
            self.write(&mut writer);
            return writer.finish();
        }
        let mut writer = Writer::versioned(DRAINING_VERSION);
        self.write(&mut writer);
        write_partitions(&mut writer, &self.draining);
        writer.finish()
    }

    /// Reads what [`Descriptor::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let draining = bytes.first() == Some(&DRAINING_VERSION);
        let version = if draining { DRAINING_VERSION } else { VERSION };
        let mut reader = Reader::versioned(bytes, version)?;
        let mut descriptor = Self::read(&mut reader)?;
        if draining {
            descriptor.draining = reader.list("draining", Reader::partition)?;
        }
        reader.finish()?;
        Ok(descriptor)
    }

    fn write(&self, writer: &mut Writer) {
        writer.queue(self.id);
        writer.number(self.version);
        writer.byte(match self.state {
            QueueState::Active => 1,
            QueueState::Deleted => 2,
        });
        writer.byte(match self.kind {
            QueueKind::Standard => 1,
            QueueKind::Fifo {
                dedup_scope: DeduplicationScope::Queue,
            } => 2,
            QueueKind::Fifo {
                dedup_scope: DeduplicationScope::MessageGroup,
            } => 3,
        });
        writer.number(self.visibility_timeout_ms);
        writer.number(self.delay_ms);
        writer.number(self.retention_ms);
        writer.number(self.purge_epoch);
        writer.number(u64::from(self.in_flight_limit));
        write_partitions(writer, &self.spread);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: reader.queue()?,
            version: reader.number("descriptor version")?,
            state: match reader.byte("queue state")? {
                1 => QueueState::Active,
                2 => QueueState::Deleted,
                other => return Err(DecodeError::UnknownTag("queue state", other)),
            },
            kind: match reader.byte("queue kind")? {
                1 => QueueKind::Standard,
                2 => QueueKind::Fifo {
                    dedup_scope: DeduplicationScope::Queue,
                },
                3 => QueueKind::Fifo {
                    dedup_scope: DeduplicationScope::MessageGroup,
                },
                other => return Err(DecodeError::UnknownTag("queue kind", other)),
            },
            visibility_timeout_ms: reader.number("visibility timeout")?,
            delay_ms: reader.number("delay")?,
            retention_ms: reader.number("retention")?,
            purge_epoch: reader.number("purge epoch")?,
            in_flight_limit: reader.small("in-flight limit")?,
            spread: reader.list("spread", Reader::partition)?,
            draining: Vec::new(),
        })
    }
}

fn write_partitions(writer: &mut Writer, partitions: &[PartitionId]) {
    writer.length(partitions.len());
    for partition in partitions {
        writer.partition(*partition);
    }
}
