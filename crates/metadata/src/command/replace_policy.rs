//! ReplacePolicy: another access policy for a queue whose policy is still the one that was read.
//!
//! A statement is added to a policy by reading it, changing it and writing it back. The text that was
//! read makes that exact: of two who change the same policy at once, the second is told to read again.
//! What the text says is for the gateway to know.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use hikyaku_queue::QueueId;

/// Replaces the access policy of a queue, unless it was replaced meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacePolicy {
    /// The queue.
    pub queue: QueueId,
    /// The policy that was read, empty for none.
    pub current: String,
    /// The new policy, JSON; an empty text removes it.
    pub policy: String,
}

/// Why the policy is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplacePolicyError {
    /// It never was, or is gone.
    #[error("there is no queue {0}")]
    NoSuchQueue(QueueId),
    /// The queue has another policy than the one that was read.
    #[error("the queue's policy was replaced meanwhile")]
    Changed,
}

impl ReplacePolicy {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), ReplacePolicyError> {
        let Some(record) = metadata.queue(self.queue) else {
            return Err(ReplacePolicyError::NoSuchQueue(self.queue));
        };
        if record.settings.policy != self.current {
            return Err(ReplacePolicyError::Changed);
        }
        let mut record = record.clone();
        record.settings.policy = self.policy;
        record.modified_at_ms = metadata.now();
        metadata.change(record);
        Ok(())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.text(&self.current);
        writer.text(&self.policy);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            current: reader.text()?,
            policy: reader.text()?,
        })
    }
}

impl ReplacePolicyError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NoSuchQueue(queue) => {
                writer.u8(1);
                writer.queue(queue);
            }
            Self::Changed => writer.u8(2),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchQueue(reader.queue()?)),
            2 => Ok(Self::Changed),
            kind => Err(unknown("error of replacing a policy", kind)),
        }
    }
}
