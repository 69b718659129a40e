//! DescriptorDelivered: a partition of the spread has applied a version of a descriptor.

use crate::codec::{DecodeError, Reader, Writer};
use crate::machine::Metadata;
use crate::reply::Reply;
use hikyaku_queue::{PartitionId, QueueId};

/// Notes what a partition has confirmed. Late, repeated and unknown confirmations change nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorDelivered {
    /// The queue.
    pub queue: QueueId,
    /// The version of its descriptor that the partition applied.
    pub version: u64,
    /// The partition.
    pub partition: PartitionId,
}

impl DescriptorDelivered {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Reply {
        metadata.confirm(self.queue, self.version, self.partition);
        Reply::DescriptorDelivered
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
