//! MoveTaskBlocked: a partition has a message to move and no place for it.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::move_task::{MoveFailure, MoveStatus};
use crate::record::QueueRecord;
use crate::reply::Reply;
use hikyaku_queue::{MoveObstacle, MoveTaskId, PartitionId, QueueId};

/// Makes a place for the message, or fails the task. Where the place is there already the partition has
/// only not heard of it yet, and nothing changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveTaskBlocked {
    /// The dead-letter queue.
    pub queue: QueueId,
    /// Its task.
    pub task: MoveTaskId,
    /// Where the message is.
    pub partition: PartitionId,
    /// What is in its way.
    pub obstacle: MoveObstacle,
}

impl MoveTaskBlocked {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Reply {
        let runs = |record: &&QueueRecord| {
            let task = record.active_move().filter(|it| it.id == self.task);
            task.is_some_and(|it| it.status == MoveStatus::Running)
        };
        let Some(record) = metadata.queue(self.queue).filter(runs) else {
            return Reply::MoveTaskAdvanced;
        };
        match self.target(metadata, record) {
            Ok(target) => self.make_place(metadata, target),
            Err(reason) => {
                let mut record = record.clone();
                record.halt_move(MoveStatus::Failing(reason));
                metadata.change(record);
            }
        }
        Reply::MoveTaskAdvanced
    }

    /// The queue that the message belongs to now.
    fn target(&self, metadata: &Metadata, from: &QueueRecord) -> Result<QueueId, MoveFailure> {
        let target = match &self.obstacle {
            MoveObstacle::NoSource => return Err(MoveFailure::NoSource),
            MoveObstacle::NoPlace { source: Some(name) } => {
                metadata.queue_by_name(from.tenant, name)
            }
            MoveObstacle::NoPlace { source: None } => {
                let order = from.descriptor.move_order.as_ref();
                metadata.queue(
                    order
                        .and_then(|order| order.destination)
                        .unwrap_or(QueueId(0)),
                )
            }
        };
        let target = target.filter(|it| it.is_fifo() == from.is_fifo());
        target
            .map(|it| it.descriptor.id)
            .ok_or(MoveFailure::NonExistentQueue)
    }

    fn make_place(&self, metadata: &mut Metadata, target: QueueId) {
        if let Some(mut record) = metadata.queue(target).cloned() {
            record.descriptor.take_guest(self.partition);
            metadata.change(record);
        }
        // Only now: the queue's dead-letter queue follows it, and may be this one.
        if let Some(mut record) = metadata.queue(self.queue).cloned()
            && let MoveObstacle::NoPlace { source: Some(name) } = &self.obstacle
            && let Some(order) = &mut record.descriptor.move_order
        {
            order.sources.insert(name.to_string(), target);
            metadata.change(record);
        }
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.u128(self.task.0);
        writer.partition(self.partition);
        match &self.obstacle {
            MoveObstacle::NoPlace { source } => {
                writer.u8(1);
                writer.optional_text(source.as_deref());
            }
            MoveObstacle::NoSource => writer.u8(2),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            task: MoveTaskId(reader.u128()?),
            partition: reader.partition()?,
            obstacle: match reader.u8()? {
                1 => MoveObstacle::NoPlace {
                    source: reader.optional_text()?.map(Into::into),
                },
                2 => MoveObstacle::NoSource,
                kind => return Err(unknown("obstacle of a move", kind)),
            },
        })
    }
}
