//! Message move tasks: dead letters on their way back (redrive, SQS-CONTRACT section 9).
//!
//! A task is kept with the record of its dead-letter queue. While it is active the queue's descriptor
//! orders the move, so that every partition with a slice of the queue knows the task; the metadata
//! leader has them move messages and reports here how far they are. The task ends when each partition
//! has said that it is done: nothing is left of what was there at the start, or the order was halted.
//! So the number moved is exact in the end, however the task ends.
//!
//! A partition that meets a message without a place for it says so. The metadata then make the queue it
//! belongs to a guest there, or fail the task: its destination, or the queue a message came from, is
//! gone, or it came from none. What has not moved stays in the dead-letter queue.
//!
//! Invariants: of a queue's tasks only the latest is active, and its descriptor orders that one; the
//! order is halted unless the task runs.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::record::QueueRecord;
use crate::tenant::TenantId;
use hikyaku_queue::{MoveTaskId, PartitionId, QueueId};
use std::collections::BTreeMap;

/// How long a task may run, in ms (SQS-CONTRACT section 11).
pub const MOVE_TASK_LIFE_MS: u64 = 36 * 60 * 60 * 1_000;

/// Active tasks of one owner (SQS-CONTRACT section 11).
pub const MOVE_TASKS_MAX: usize = 100;

/// Tasks of a queue that have ended and are still listed: as many as one answer can list.
pub const MOVE_TASKS_LISTED: usize = 10;

/// One task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveTask {
    /// Its id.
    pub id: MoveTaskId,
    /// The name of the queue to which all messages go; `None`: each to the queue it came from.
    pub destination: Option<String>,
    /// Messages a second at most; `None` leaves it to the cluster.
    pub rate: Option<u16>,
    /// The messages in the queue at the start.
    pub to_move: u64,
    /// When it was started, in ms of the metadata group's time.
    pub started_at_ms: u64,
    /// Where it stands.
    pub status: MoveStatus,
    /// How far partitions are, as they said last.
    pub progress: BTreeMap<PartitionId, MoveProgress>,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveStatus {
    /// It moves messages.
    Running,
    /// It was cancelled, and waits to hear how many messages were moved.
    Cancelling,
    /// It has failed, and waits to hear that too.
    Failing(MoveFailure),
    /// All messages were moved.
    Completed,
    /// It was cancelled.
    Cancelled,
    /// It has failed.
    Failed(MoveFailure),
}

/// Why a task failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveFailure {
    /// The destination, or the queue that a message came from, does not exist, or is of the other kind.
    NonExistentQueue,
    /// A message is nobody's dead letter, and there is no destination.
    NoSource,
    /// It ran for longer than a task may.
    TimedOut,
}

/// How far a task is in one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoveProgress {
    /// Messages moved.
    pub moved: u64,
    /// Whether there will be no more.
    pub done: bool,
}

impl MoveTask {
    /// Messages moved, as far as partitions said.
    pub fn moved(&self) -> u64 {
        self.progress.values().map(|it| it.moved).sum()
    }

    /// Whether it has not ended.
    pub fn is_active(&self) -> bool {
        match self.status {
            MoveStatus::Running | MoveStatus::Cancelling | MoveStatus::Failing(_) => true,
            MoveStatus::Completed | MoveStatus::Cancelled | MoveStatus::Failed(_) => false,
        }
    }
}

impl QueueRecord {
    /// The queue's active task.
    pub fn active_move(&self) -> Option<&MoveTask> {
        self.moves.first().filter(|task| task.is_active())
    }

    /// The active task, if it is this one.
    pub(crate) fn active_move_mut(&mut self, task: MoveTaskId) -> Option<&mut MoveTask> {
        let latest = self.moves.first_mut();
        latest.filter(|it| it.is_active() && it.id == task)
    }

    /// Ends a running task's moves; it has ended when partitions have said how far they are.
    pub(crate) fn halt_move(&mut self, status: MoveStatus) {
        let running = |task: &&mut MoveTask| task.status == MoveStatus::Running;
        if let Some(task) = self.moves.first_mut().filter(running)
            && let Some(order) = &mut self.descriptor.move_order
        {
            task.status = status;
            order.halted = true;
        }
    }

    /// Ends the active task if every partition is done.
    pub(crate) fn end_move_when_done(&mut self) {
        let Some(task) = self.moves.first_mut().filter(|task| task.is_active()) else {
            return;
        };
        let done = |at: PartitionId| task.progress.get(&at).is_some_and(|it| it.done);
        if self.descriptor.visited().all(done) {
            task.status = match task.status {
                MoveStatus::Cancelling => MoveStatus::Cancelled,
                MoveStatus::Failing(reason) => MoveStatus::Failed(reason),
                _ => MoveStatus::Completed,
            };
            self.descriptor.move_order = None;
        }
    }
}

impl Metadata {
    /// The records of queues with an active task, by id.
    pub fn moving(&self) -> impl Iterator<Item = &QueueRecord> {
        self.moving.iter().map(|queue| &self.queues[queue])
    }

    /// How many active tasks a tenant has.
    pub(crate) fn active_moves(&self, tenant: TenantId) -> usize {
        self.moving().filter(|it| it.tenant == tenant).count()
    }

    /// Whether some queue of the same kind sends its dead letters to this one.
    pub(crate) fn has_sources(&self, record: &QueueRecord) -> bool {
        let sources = self.sources.get(&(record.tenant, record.name.clone()));
        let mut sources = sources.into_iter().flatten();
        sources.any(|queue| {
            let redrive = self.queues[queue].descriptor.redrive.as_ref();
            redrive.is_some_and(|it| it.target == record.descriptor.id)
        })
    }

    /// Fails the tasks that move messages to a queue that was removed.
    pub(crate) fn fail_moves_to(&mut self, destination: QueueId) {
        let to_it = |record: &&QueueRecord| {
            let order = record.descriptor.move_order.as_ref();
            order.is_some_and(|order| order.destination == Some(destination))
        };
        let failed: Vec<QueueRecord> = self.moving().filter(to_it).cloned().collect();
        for mut record in failed {
            record.halt_move(MoveStatus::Failing(MoveFailure::NonExistentQueue));
            self.change(record);
        }
    }
}

impl MoveTask {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u128(self.id.0);
        writer.optional_text(self.destination.as_deref());
        writer.optional_u64(self.rate.map(u64::from));
        writer.u64(self.to_move);
        writer.u64(self.started_at_ms);
        self.status.write(writer);
        writer.count(self.progress.len());
        for (partition, progress) in &self.progress {
            writer.partition(*partition);
            progress.write(writer);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: MoveTaskId(reader.u128()?),
            destination: reader.optional_text()?,
            rate: read_rate(reader)?,
            to_move: reader.u64()?,
            started_at_ms: reader.u64()?,
            status: MoveStatus::read(reader)?,
            progress: reader
                .list(|reader| Ok((reader.partition()?, MoveProgress::read(reader)?)))?,
        })
    }
}

pub(crate) fn read_rate(reader: &mut Reader<'_>) -> Result<Option<u16>, DecodeError> {
    let rate = reader.optional_u64()?.map(u16::try_from).transpose();
    rate.map_err(|_| DecodeError::Impossible("a rate has 16 bits"))
}

impl MoveProgress {
    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u64(self.moved);
        writer.flag(self.done);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            moved: reader.u64()?,
            done: reader.flag()?,
        })
    }
}

impl MoveStatus {
    fn write(self, writer: &mut Writer) {
        match self {
            Self::Running => writer.u8(1),
            Self::Cancelling => writer.u8(2),
            Self::Failing(reason) => {
                writer.u8(3);
                writer.u8(reason.number());
            }
            Self::Completed => writer.u8(4),
            Self::Cancelled => writer.u8(5),
            Self::Failed(reason) => {
                writer.u8(6);
                writer.u8(reason.number());
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::Running,
            2 => Self::Cancelling,
            3 => Self::Failing(MoveFailure::read(reader)?),
            4 => Self::Completed,
            5 => Self::Cancelled,
            6 => Self::Failed(MoveFailure::read(reader)?),
            status => return Err(unknown("status of a move task", status)),
        })
    }
}

impl MoveFailure {
    fn number(self) -> u8 {
        match self {
            Self::NonExistentQueue => 1,
            Self::NoSource => 2,
            Self::TimedOut => 3,
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::NonExistentQueue,
            2 => Self::NoSource,
            3 => Self::TimedOut,
            reason => return Err(unknown("reason of a move task's failure", reason)),
        })
    }
}
