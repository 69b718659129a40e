//! PurgeQueue: a higher purge epoch, which empties each slice when it arrives there.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use hikyaku_queue::QueueId;

/// Drops every message that was sent before, deduplication memory included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeQueue {
    /// The queue.
    pub queue: QueueId,
}

/// Why a queue was not purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PurgeQueueError {
    /// It never was, or is gone.
    #[error("there is no queue {0}")]
    NoSuchQueue(QueueId),
    /// It was purged a moment ago.
    #[error("the queue was purged recently; it can be purged again in {wait_ms} ms")]
    InProgress {
        /// How long until it can be purged again.
        wait_ms: u64,
    },
}

impl PurgeQueue {
    /// Answers the version of the descriptor that raises the purge epoch.
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<u64, PurgeQueueError> {
        let Some(record) = metadata.queue(self.queue) else {
            return Err(PurgeQueueError::NoSuchQueue(self.queue));
        };
        let now = metadata.now();
        let cooldown = metadata.settings().cooldown_ms;
        let next = record
            .purged_at_ms
            .map_or(0, |at| at.saturating_add(cooldown));
        if now < next {
            return Err(PurgeQueueError::InProgress {
                wait_ms: next - now,
            });
        }
        let mut record = record.clone();
        record.purged_at_ms = Some(now);
        record.descriptor.purge_epoch += 1;
        Ok(metadata.change(record))
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.queue(self.queue);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
        })
    }
}

impl PurgeQueueError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NoSuchQueue(queue) => {
                writer.u8(1);
                writer.queue(queue);
            }
            Self::InProgress { wait_ms } => {
                writer.u8(2);
                writer.u64(wait_ms);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchQueue(reader.queue()?)),
            2 => Ok(Self::InProgress {
                wait_ms: reader.u64()?,
            }),
            kind => Err(unknown("error of purging a queue", kind)),
        }
    }
}
