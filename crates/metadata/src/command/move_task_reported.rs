//! MoveTaskReported: how far partitions are with a move task.

use crate::codec::{DecodeError, Reader, Writer};
use crate::machine::Metadata;
use crate::move_task::{MOVE_TASK_LIFE_MS, MoveFailure, MoveProgress, MoveStatus};
use crate::reply::Reply;
use hikyaku_queue::{MoveTaskId, PartitionId, QueueId};

/// Notes what partitions have said, and ends the task when all are done. A task that has run for too
/// long fails. Late, repeated and unknown reports change nothing: what a partition moved only grows, and
/// being done is final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveTaskReported {
    /// The dead-letter queue.
    pub queue: QueueId,
    /// Its task.
    pub task: MoveTaskId,
    /// How far partitions are.
    pub progress: Vec<(PartitionId, MoveProgress)>,
}

impl MoveTaskReported {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Reply {
        let now = metadata.now();
        let record = metadata.queue(self.queue);
        if let Some(mut record) = record.cloned()
            && let Some(task) = record.active_move_mut(self.task)
        {
            for (partition, said) in self.progress {
                let known = task.progress.entry(partition).or_default();
                known.moved = known.moved.max(said.moved);
                known.done |= said.done;
            }
            if now >= task.started_at_ms.saturating_add(MOVE_TASK_LIFE_MS) {
                record.halt_move(MoveStatus::Failing(MoveFailure::TimedOut));
            }
            record.end_move_when_done();
            metadata.change(record);
        }
        Reply::MoveTaskAdvanced
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.u128(self.task.0);
        writer.count(self.progress.len());
        for (partition, progress) in &self.progress {
            writer.partition(*partition);
            progress.write(writer);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            task: MoveTaskId(reader.u128()?),
            progress: reader
                .list(|reader| Ok((reader.partition()?, MoveProgress::read(reader)?)))?,
        })
    }
}
