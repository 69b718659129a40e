//! TagQueue: adds tags, overwriting those of the same key.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use hikyaku_queue::QueueId;
use std::collections::BTreeMap;

/// Tags a queue may have (SQS's own limit).
pub const TAGS_MAX: usize = 50;

/// Adds tags to a queue, all or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagQueue {
    /// The queue.
    pub queue: QueueId,
    /// The tags by key.
    pub tags: BTreeMap<String, String>,
}

/// Why no tag was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TagQueueError {
    /// It never was, or is gone.
    #[error("there is no queue {0}")]
    NoSuchQueue(QueueId),
    /// There would be too many.
    #[error("the queue would have {0} tags, more than {TAGS_MAX}")]
    TooManyTags(u32),
}

impl TagQueue {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), TagQueueError> {
        let Some(record) = metadata.queue(self.queue) else {
            return Err(TagQueueError::NoSuchQueue(self.queue));
        };
        let mut record = record.clone();
        record.tags.extend(self.tags);
        if record.tags.len() > TAGS_MAX {
            let count = u32::try_from(record.tags.len()).unwrap_or(u32::MAX);
            return Err(TagQueueError::TooManyTags(count));
        }
        metadata.change(record);
        Ok(())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.texts(&self.tags);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            tags: reader.texts()?,
        })
    }
}

impl TagQueueError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NoSuchQueue(queue) => {
                writer.u8(1);
                writer.queue(queue);
            }
            Self::TooManyTags(count) => {
                writer.u8(2);
                writer.u32(count);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchQueue(reader.queue()?)),
            2 => Ok(Self::TooManyTags(reader.u32()?)),
            kind => Err(unknown("error of tagging a queue", kind)),
        }
    }
}
