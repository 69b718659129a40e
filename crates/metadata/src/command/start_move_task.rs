//! StartMoveTask: has the messages of a dead-letter queue moved back.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::move_task::{MOVE_TASKS_LISTED, MOVE_TASKS_MAX, MoveStatus, MoveTask, read_rate};
use hikyaku_queue::{MoveOrder, MoveTaskId, QueueId};
use std::collections::BTreeMap;

/// Starts a move task, which the metadata leader drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartMoveTask {
    /// The dead-letter queue.
    pub queue: QueueId,
    /// What the task is called; drawn by whoever asks.
    pub task: MoveTaskId,
    /// The queue to which all messages go; `None`: each to the queue it came from.
    pub destination: Option<QueueId>,
    /// Messages a second at most; `None` leaves it to the cluster.
    pub rate: Option<u16>,
    /// The messages in the queue, as they were counted.
    pub to_move: u64,
}

/// Why no task was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartMoveTaskError {
    /// It never was, or is gone.
    #[error("there is no queue {0}")]
    NoSuchQueue(QueueId),
    /// The destination never was, is gone, or is another tenant's.
    #[error("there is no queue {0} to move messages to")]
    NoSuchDestination(QueueId),
    /// No queue sends its dead letters there.
    #[error("the queue is nobody's dead-letter queue")]
    NoDeadLetterQueue,
    /// One of the two is a FIFO queue and the other is not, or they are one queue.
    #[error("messages of the queue cannot move to {0}")]
    UnfitDestination(QueueId),
    /// The queue has an active task.
    #[error("messages of the queue are being moved already")]
    Active,
    /// Its owner has as many active tasks as may be.
    #[error("the tenant has {MOVE_TASKS_MAX} active move tasks")]
    TooMany,
}

impl StartMoveTask {
    /// Answers the version of the descriptor that orders the move.
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<u64, StartMoveTaskError> {
        let record = metadata.queue(self.queue);
        let record = record.ok_or(StartMoveTaskError::NoSuchQueue(self.queue))?;
        let destination = match self.destination {
            Some(queue) => {
                let target = metadata.queue(queue);
                let target = target.filter(|it| it.tenant == record.tenant);
                let target = target.ok_or(StartMoveTaskError::NoSuchDestination(queue))?;
                if target.is_fifo() != record.is_fifo() || queue == self.queue {
                    return Err(StartMoveTaskError::UnfitDestination(queue));
                }
                Some(target.name.clone())
            }
            None => None,
        };
        if !metadata.has_sources(record) {
            return Err(StartMoveTaskError::NoDeadLetterQueue);
        }
        if record.active_move().is_some() {
            return Err(StartMoveTaskError::Active);
        }
        if metadata.active_moves(record.tenant) >= MOVE_TASKS_MAX {
            return Err(StartMoveTaskError::TooMany);
        }
        let mut record = record.clone();
        record.moves.truncate(MOVE_TASKS_LISTED);
        record.moves.insert(
            0,
            MoveTask {
                id: self.task,
                destination,
                rate: self.rate,
                to_move: self.to_move,
                started_at_ms: metadata.now(),
                status: MoveStatus::Running,
                progress: BTreeMap::new(),
            },
        );
        record.descriptor.move_order = Some(MoveOrder {
            task: self.task,
            halted: false,
            destination: self.destination,
            sources: BTreeMap::new(),
        });
        Ok(metadata.change(record))
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.u128(self.task.0);
        writer.optional_u64(self.destination.map(|queue| queue.0));
        writer.optional_u64(self.rate.map(u64::from));
        writer.u64(self.to_move);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            task: MoveTaskId(reader.u128()?),
            destination: reader.optional_u64()?.map(QueueId),
            rate: read_rate(reader)?,
            to_move: reader.u64()?,
        })
    }
}

impl StartMoveTaskError {
    pub(crate) fn write(self, writer: &mut Writer) {
        let (kind, queue) = match self {
            Self::NoSuchQueue(queue) => (1, Some(queue)),
            Self::NoSuchDestination(queue) => (2, Some(queue)),
            Self::NoDeadLetterQueue => (3, None),
            Self::UnfitDestination(queue) => (4, Some(queue)),
            Self::Active => (5, None),
            Self::TooMany => (6, None),
        };
        writer.u8(kind);
        queue.into_iter().for_each(|queue| writer.queue(queue));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::NoSuchQueue(reader.queue()?),
            2 => Self::NoSuchDestination(reader.queue()?),
            3 => Self::NoDeadLetterQueue,
            4 => Self::UnfitDestination(reader.queue()?),
            5 => Self::Active,
            6 => Self::TooMany,
            kind => return Err(unknown("error of starting a move task", kind)),
        })
    }
}
