//! UntagQueue: takes tags off by key; a key that is not there is no error.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use hikyaku_queue::QueueId;
use std::collections::BTreeSet;

/// Takes tags off a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntagQueue {
    /// The queue.
    pub queue: QueueId,
    /// The keys of the tags.
    pub keys: BTreeSet<String>,
}

/// Why no tag was taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UntagQueueError {
    /// It never was, or is gone.
    #[error("there is no queue {0}")]
    NoSuchQueue(QueueId),
}

impl UntagQueue {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), UntagQueueError> {
        let Some(record) = metadata.queue(self.queue) else {
            return Err(UntagQueueError::NoSuchQueue(self.queue));
        };
        let mut record = record.clone();
        record.tags.retain(|key, _| !self.keys.contains(key));
        metadata.change(record);
        Ok(())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.count(self.keys.len());
        for key in &self.keys {
            writer.text(key);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let queue = reader.queue()?;
        let keys = reader.list(Reader::text)?;
        Ok(Self { queue, keys })
    }
}

impl UntagQueueError {
    pub(crate) fn write(self, writer: &mut Writer) {
        let Self::NoSuchQueue(queue) = self;
        writer.u8(1);
        writer.queue(queue);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchQueue(reader.queue()?)),
            kind => Err(unknown("error of untagging a queue", kind)),
        }
    }
}
