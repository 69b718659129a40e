//! WidenSpread: a standard queue is too much for its partitions.

use crate::codec::{DecodeError, Reader, Writer};
use crate::machine::Metadata;
use crate::placement::{SPREAD_MAX, respread};
use crate::reply::Reply;
use hikyaku_queue::{QueueId, QueueKind};

/// Doubles the spread of a standard queue whose owner has no wish, up to [`SPREAD_MAX`] and to what
/// there is. Several partitions may ask at once: only the first that asks under a version is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WidenSpread {
    /// The queue.
    pub queue: QueueId,
    /// The version of its descriptor under which the load was seen.
    pub version: u64,
}

impl WidenSpread {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Reply {
        let record = metadata.queue(self.queue).filter(|record| {
            record.descriptor.version == self.version
                && record.descriptor.kind == QueueKind::Standard
                && record.settings.spread_width == 0
        });
        if let Some(record) = record {
            let mut record = record.clone();
            let width = record.descriptor.spread.len() as u32 * 2;
            let partitions = metadata.partitions();
            respread(&mut record.descriptor, partitions, width.min(SPREAD_MAX));
            metadata.change(record);
        }
        Reply::SpreadWidened
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.u64(self.version);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            version: reader.u64()?,
        })
    }
}
