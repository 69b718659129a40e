//! CancelMoveTask: lets a running move task move no more. What it has moved stays moved.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::move_task::MoveStatus;
use hikyaku_queue::{MoveTaskId, QueueId};

/// Cancels a move task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelMoveTask {
    /// The dead-letter queue.
    pub queue: QueueId,
    /// Its task.
    pub task: MoveTaskId,
}

/// Why nothing was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CancelMoveTaskError {
    /// There is no such queue, or it has had no such task for long.
    #[error("there is no move task {0}")]
    NoSuchTask(MoveTaskId),
    /// It has ended, or is about to.
    #[error("move task {0} does not run")]
    NotRunning(MoveTaskId),
}

impl CancelMoveTask {
    /// Answers how many messages had been moved, as far as partitions had said.
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<u64, CancelMoveTaskError> {
        let none = CancelMoveTaskError::NoSuchTask(self.task);
        let record = metadata.queue(self.queue).ok_or(none)?;
        let task = record.moves.iter().find(|it| it.id == self.task);
        let task = task.ok_or(none)?;
        if task.status != MoveStatus::Running {
            return Err(CancelMoveTaskError::NotRunning(self.task));
        }
        let moved = task.moved();
        let mut record = record.clone();
        record.halt_move(MoveStatus::Cancelling);
        metadata.change(record);
        Ok(moved)
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.u128(self.task.0);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            task: MoveTaskId(reader.u128()?),
        })
    }
}

impl CancelMoveTaskError {
    pub(crate) fn write(self, writer: &mut Writer) {
        let (kind, task) = match self {
            Self::NoSuchTask(task) => (1, task),
            Self::NotRunning(task) => (2, task),
        };
        writer.u8(kind);
        writer.u128(task.0);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::NoSuchTask(MoveTaskId(reader.u128()?)),
            2 => Self::NotRunning(MoveTaskId(reader.u128()?)),
            kind => return Err(unknown("error of cancelling a move task", kind)),
        })
    }
}
