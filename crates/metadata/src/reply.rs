//! Answers, kept for retries and sent between nodes.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::command::cancel_move_task::CancelMoveTaskError;
use crate::command::change_access_key::ChangeAccessKeyError;
use crate::command::change_settings::ChangeSettingsError;
use crate::command::create_access_key::CreateAccessKeyError;
use crate::command::create_queue::{CreateQueueError, Created};
use crate::command::create_tenant::CreateTenantError;
use crate::command::delete_queue::DeleteQueueError;
use crate::command::found::FoundError;
use crate::command::join_node::{JoinNodeError, Joined};
use crate::command::purge_queue::PurgeQueueError;
use crate::command::replace_policy::ReplacePolicyError;
use crate::command::set_attributes::SetAttributesError;
use crate::command::set_node_state::SetNodeStateError;
use crate::command::set_replication::SetReplicationError;
use crate::command::set_tenant_state::SetTenantStateError;
use crate::command::start_move::StartMoveError;
use crate::command::start_move_task::StartMoveTaskError;
use crate::command::tag_queue::TagQueueError;
use crate::command::untag_queue::UntagQueueError;
use crate::node::NodeState;
use crate::replicas::MoveStepError;
use crate::tenants::TenantState;

/// What a command came to. A number inside is the version that carries the change: of the queue's
/// descriptor, or of the group's replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The command came after its `not_after` and had no effect.
    Late,
    /// To `Found`.
    Founded(Result<(), FoundError>),
    /// To `CreateQueue`.
    QueueCreated(Result<Created, CreateQueueError>),
    /// To `DeleteQueue`.
    QueueDeleted(Result<u64, DeleteQueueError>),
    /// To `PurgeQueue`.
    QueuePurged(Result<u64, PurgeQueueError>),
    /// To `SetAttributes`.
    AttributesSet(Result<u64, SetAttributesError>),
    /// To `TagQueue`.
    Tagged(Result<(), TagQueueError>),
    /// To `UntagQueue`.
    Untagged(Result<(), UntagQueueError>),
    /// To `DescriptorDelivered`.
    DescriptorDelivered,
    /// To `Housekeep`.
    Housekept,
    /// To `ChangeSettings`.
    SettingsChanged(Result<(), ChangeSettingsError>),
    /// To `PartitionEmptied`.
    PartitionEmptied,
    /// To `WidenSpread`.
    SpreadWidened,
    /// To `JoinNode`.
    NodeJoined(Result<Joined, JoinNodeError>),
    /// To `SetNodeState`: the state that the node has now.
    NodeStateSet(Result<NodeState, SetNodeStateError>),
    /// To `SetReplication`.
    ReplicationSet(Result<(), SetReplicationError>),
    /// To `StartMove`.
    MoveStarted(Result<u64, StartMoveError>),
    /// To `ReplicaPromoted`, `ReplicaRemoved`, `AbandonMove` and `ReplicaDamaged`.
    MoveStepped(Result<u64, MoveStepError>),
    /// To `ReplacePolicy`.
    PolicyReplaced(Result<(), ReplacePolicyError>),
    /// To `CreateTenant`: whether it was there before.
    TenantCreated(Result<bool, CreateTenantError>),
    /// To `SetTenantState`: the state that the tenant has now.
    TenantStateSet(Result<TenantState, SetTenantStateError>),
    /// To `CreateAccessKey`.
    AccessKeyCreated(Result<(), CreateAccessKeyError>),
    /// To `ChangeAccessKey`.
    AccessKeyChanged(Result<(), ChangeAccessKeyError>),
    /// To `StartMoveTask`.
    MoveTaskStarted(Result<u64, StartMoveTaskError>),
    /// To `CancelMoveTask`: the messages that had been moved.
    MoveTaskCancelled(Result<u64, CancelMoveTaskError>),
    /// To `MoveTaskReported` and `MoveTaskBlocked`.
    MoveTaskAdvanced,
}

impl Reply {
    const VERSION: u8 = 1;

    /// Writes the answer in its versioned form, for the node that asked.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::versioned(Self::VERSION);
        self.write(&mut writer);
        writer.finish()
    }

    /// Reads what [`Reply::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::versioned(bytes, Self::VERSION)?;
        let reply = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(reply)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        match *self {
            Self::Late => writer.u8(0),
            Self::Founded(result) => {
                write_result(writer, 1, result, |_, ()| {}, |w, error| error.write(w));
            }
            Self::QueueCreated(result) => {
                write_result(
                    writer,
                    2,
                    result,
                    |w, made| made.write(w),
                    |w, error| error.write(w),
                );
            }
            Self::QueueDeleted(result) => {
                write_result(writer, 3, result, Writer::u64, |w, error| error.write(w));
            }
            Self::QueuePurged(result) => {
                write_result(writer, 4, result, Writer::u64, |w, error| error.write(w));
            }
            Self::AttributesSet(result) => {
                write_result(writer, 5, result, Writer::u64, |w, error| error.write(w));
            }
            Self::Tagged(result) => {
                write_result(writer, 6, result, |_, ()| {}, |w, error| error.write(w));
            }
            Self::Untagged(result) => {
                write_result(writer, 7, result, |_, ()| {}, |w, error| error.write(w));
            }
            Self::DescriptorDelivered => writer.u8(8),
            Self::Housekept => writer.u8(9),
            Self::SettingsChanged(result) => {
                write_result(writer, 10, result, |_, ()| {}, |w, error| error.write(w));
            }
            Self::PartitionEmptied => writer.u8(11),
            Self::SpreadWidened => writer.u8(12),
            Self::NodeJoined(result) => {
                write_result(
                    writer,
                    13,
                    result,
                    |w, joined| joined.write(w),
                    |w, error| error.write(w),
                );
            }
            Self::NodeStateSet(result) => {
                write_result(
                    writer,
                    14,
                    result,
                    |w, state| state.write(w),
                    |w, error| error.write(w),
                );
            }
            Self::ReplicationSet(result) => {
                write_result(writer, 15, result, |_, ()| {}, |w, error| error.write(w));
            }
            Self::MoveStarted(result) => {
                write_result(writer, 16, result, Writer::u64, |w, error| error.write(w));
            }
            Self::MoveStepped(result) => {
                write_result(writer, 17, result, Writer::u64, |w, error| error.write(w));
            }
            Self::PolicyReplaced(result) => {
                write_result(writer, 18, result, |_, ()| {}, |w, error| error.write(w));
            }
            Self::TenantCreated(result) => {
                write_result(writer, 30, result, Writer::flag, |w, error| error.write(w));
            }
            Self::TenantStateSet(result) => {
                write_result(
                    writer,
                    31,
                    result,
                    |w, state| state.write(w),
                    |w, error| error.write(w),
                );
            }
            Self::AccessKeyCreated(result) => {
                write_result(writer, 32, result, |_, ()| {}, |w, error| error.write(w));
            }
            Self::AccessKeyChanged(result) => {
                write_result(writer, 33, result, |_, ()| {}, |w, error| error.write(w));
            }
            Self::MoveTaskStarted(result) => {
                write_result(writer, 19, result, Writer::u64, |w, error| error.write(w));
            }
            Self::MoveTaskCancelled(result) => {
                write_result(writer, 20, result, Writer::u64, |w, error| error.write(w));
            }
            Self::MoveTaskAdvanced => writer.u8(21),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Late,
            1 => Self::Founded(read_result(reader, |_| Ok(()), FoundError::read)?),
            2 => Self::QueueCreated(read_result(reader, Created::read, CreateQueueError::read)?),
            3 => Self::QueueDeleted(read_result(reader, Reader::u64, DeleteQueueError::read)?),
            4 => Self::QueuePurged(read_result(reader, Reader::u64, PurgeQueueError::read)?),
            5 => Self::AttributesSet(read_result(reader, Reader::u64, SetAttributesError::read)?),
            6 => Self::Tagged(read_result(reader, |_| Ok(()), TagQueueError::read)?),
            7 => Self::Untagged(read_result(reader, |_| Ok(()), UntagQueueError::read)?),
            8 => Self::DescriptorDelivered,
            9 => Self::Housekept,
            10 => {
                Self::SettingsChanged(read_result(reader, |_| Ok(()), ChangeSettingsError::read)?)
            }
            11 => Self::PartitionEmptied,
            12 => Self::SpreadWidened,
            13 => Self::NodeJoined(read_result(reader, Joined::read, JoinNodeError::read)?),
            14 => Self::NodeStateSet(read_result(
                reader,
                NodeState::read,
                SetNodeStateError::read,
            )?),
            15 => Self::ReplicationSet(read_result(reader, |_| Ok(()), SetReplicationError::read)?),
            16 => Self::MoveStarted(read_result(reader, Reader::u64, StartMoveError::read)?),
            17 => Self::MoveStepped(read_result(reader, Reader::u64, MoveStepError::read)?),
            18 => Self::PolicyReplaced(read_result(reader, |_| Ok(()), ReplacePolicyError::read)?),
            30 => Self::TenantCreated(read_result(reader, Reader::flag, CreateTenantError::read)?),
            31 => Self::TenantStateSet(read_result(
                reader,
                TenantState::read,
                SetTenantStateError::read,
            )?),
            32 => {
                Self::AccessKeyCreated(read_result(reader, |_| Ok(()), CreateAccessKeyError::read)?)
            }
            33 => {
                Self::AccessKeyChanged(read_result(reader, |_| Ok(()), ChangeAccessKeyError::read)?)
            }
            19 => {
                Self::MoveTaskStarted(read_result(reader, Reader::u64, StartMoveTaskError::read)?)
            }
            20 => Self::MoveTaskCancelled(read_result(
                reader,
                Reader::u64,
                CancelMoveTaskError::read,
            )?),
            21 => Self::MoveTaskAdvanced,
            kind => return Err(unknown("reply", kind)),
        })
    }
}

fn write_result<T, E>(
    writer: &mut Writer,
    kind: u8,
    result: Result<T, E>,
    write_value: impl FnOnce(&mut Writer, T),
    write_error: impl FnOnce(&mut Writer, E),
) {
    writer.u8(kind);
    writer.flag(result.is_ok());
    match result {
        Ok(value) => write_value(writer, value),
        Err(error) => write_error(writer, error),
    }
}

fn read_result<'a, T, E>(
    reader: &mut Reader<'a>,
    read_value: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    read_error: impl FnOnce(&mut Reader<'a>) -> Result<E, DecodeError>,
) -> Result<Result<T, E>, DecodeError> {
    Ok(if reader.flag()? {
        Ok(read_value(reader)?)
    } else {
        Err(read_error(reader)?)
    })
}
