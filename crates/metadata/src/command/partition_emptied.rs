//! PartitionEmptied: a draining partition holds no message any more.

use crate::codec::{DecodeError, Reader, Writer};
use crate::machine::Metadata;
use crate::reply::Reply;
use hikyaku_queue::{PartitionId, QueueId};

/// Lets a draining partition go. The partition was asked under `version` of the descriptor, in which it
/// takes no sends; a newer version may have brought it back, so nothing happens under another one.
/// Late, repeated and unknown reports change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionEmptied {
    /// The queue.
    pub queue: QueueId,
    /// The version of its descriptor.
    pub version: u64,
    /// The partition.
    pub partition: PartitionId,
}

impl PartitionEmptied {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Reply {
        let record = metadata.queue(self.queue);
        if let Some(record) = record.filter(|it| it.descriptor.version == self.version) {
            let mut record = record.clone();
            record
                .descriptor
                .draining
                .retain(|partition| *partition != self.partition);
            metadata.change(record);
        }
        Reply::PartitionEmptied
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.u64(self.version);
        writer.partition(self.partition);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            version: reader.u64()?,
            partition: reader.partition()?,
        })
    }
}
