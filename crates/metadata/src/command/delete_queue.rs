//! DeleteQueue: ends a queue at once and for ever; its partitions hear of it afterwards.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use hikyaku_queue::QueueId;

/// Deletes a queue with all its messages. Its name stays taken for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteQueue {
    /// The queue.
    pub queue: QueueId,
}

/// Why a queue was not deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeleteQueueError {
    /// It never was, or is gone already.
    #[error("there is no queue {0}")]
    NoSuchQueue(QueueId),
}

impl DeleteQueue {
    /// Answers the version of the descriptor that says so.
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<u64, DeleteQueueError> {
        let version = metadata.remove(self.queue);
        version.ok_or(DeleteQueueError::NoSuchQueue(self.queue))
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

impl DeleteQueueError {
    pub(crate) fn write(self, writer: &mut Writer) {
        let Self::NoSuchQueue(queue) = self;
        writer.u8(1);
        writer.queue(queue);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchQueue(reader.queue()?)),
            kind => Err(unknown("error of deleting a queue", kind)),
        }
    }
}
