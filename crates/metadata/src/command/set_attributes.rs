//! SetAttributes: sets the given attributes and leaves the others.

use crate::attributes::{AttributeError, Attributes};
use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::placement::{first_width, respread};
use hikyaku_queue::QueueId;

/// Sets some attributes of a queue, all or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAttributes {
    /// The queue.
    pub queue: QueueId,
    /// What to set.
    pub attributes: Attributes,
}

/// Why nothing was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetAttributesError {
    /// It never was, or is gone.
    #[error("there is no queue {0}")]
    NoSuchQueue(QueueId),
    /// The attributes do not go together, or not with the queue's others.
    #[error(transparent)]
    Attributes(#[from] AttributeError),
}

impl SetAttributes {
    /// Answers the version of the descriptor, new only when partitions have to hear of the change.
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<u64, SetAttributesError> {
        let Some(record) = metadata.queue(self.queue) else {
            return Err(SetAttributesError::NoSuchQueue(self.queue));
        };
        self.attributes.check(record.is_fifo(), &record.settings)?;
        let mut record = record.clone();
        self.attributes
            .apply(&mut record.settings, &mut record.descriptor);
        if let Some(asked) = self.attributes.spread_width {
            let width = first_width(record.descriptor.kind, asked);
            respread(&mut record.descriptor, metadata.partitions(), width);
        }
        record.modified_at_ms = metadata.now();
        Ok(metadata.change(record))
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.queue(self.queue);
        self.attributes.write(writer);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            attributes: Attributes::read(reader)?,
        })
    }
}

impl SetAttributesError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NoSuchQueue(queue) => {
                writer.u8(1);
                writer.queue(queue);
            }
            Self::Attributes(error) => {
                writer.u8(2);
                error.write(writer);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchQueue(reader.queue()?)),
            2 => Ok(Self::Attributes(AttributeError::read(reader)?)),
            kind => Err(unknown("error of setting attributes", kind)),
        }
    }
}
