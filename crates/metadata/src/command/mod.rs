//! What can be asked of the metadata, one file per command.
//!
//! Each file holds the command, the ways it can fail, what it does and how both are written.

pub(crate) mod abandon_move;
pub(crate) mod cancel_move_task;
pub(crate) mod change_access_key;
pub(crate) mod change_settings;
pub(crate) mod create_access_key;
pub(crate) mod create_queue;
pub(crate) mod create_tenant;
pub(crate) mod delete_queue;
pub(crate) mod descriptor_delivered;
pub(crate) mod found;
pub(crate) mod housekeep;
pub(crate) mod join_node;
pub(crate) mod move_task_blocked;
pub(crate) mod move_task_reported;
pub(crate) mod partition_emptied;
pub(crate) mod purge_queue;
pub(crate) mod replace_policy;
pub(crate) mod replica_damaged;
pub(crate) mod replica_promoted;
pub(crate) mod replica_removed;
pub(crate) mod set_attributes;
pub(crate) mod set_node_state;
pub(crate) mod set_replication;
pub(crate) mod set_tenant_state;
pub(crate) mod start_move;
pub(crate) mod start_move_task;
pub(crate) mod tag_queue;
pub(crate) mod untag_queue;
pub(crate) mod widen_spread;

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::reply::Reply;

/// One change asked of the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Founds the cluster, once.
    Found(found::Found),
    /// Creates a queue, or finds the one of that name.
    CreateQueue(create_queue::CreateQueue),
    /// Deletes a queue.
    DeleteQueue(delete_queue::DeleteQueue),
    /// Empties a queue.
    PurgeQueue(purge_queue::PurgeQueue),
    /// Sets some attributes of a queue.
    SetAttributes(set_attributes::SetAttributes),
    /// Adds tags to a queue.
    TagQueue(tag_queue::TagQueue),
    /// Takes tags off a queue.
    UntagQueue(untag_queue::UntagQueue),
    /// A partition holds a version of a descriptor.
    DescriptorDelivered(descriptor_delivered::DescriptorDelivered),
    /// Drops what has outlived its time.
    Housekeep,
    /// Changes settings of the whole cluster.
    ChangeSettings(change_settings::ChangeSettings),
    /// A draining partition is empty.
    PartitionEmptied(partition_emptied::PartitionEmptied),
    /// A queue is too much for its partitions.
    WidenSpread(widen_spread::WidenSpread),
    /// A node makes itself known.
    JoinNode(join_node::JoinNode),
    /// Changes what is wanted of a node.
    SetNodeState(set_node_state::SetNodeState),
    /// Changes how many replicas each group is to have.
    SetReplication(set_replication::SetReplication),
    /// Starts a move of a group.
    StartMove(start_move::StartMove),
    /// A joining replica votes.
    ReplicaPromoted(replica_promoted::ReplicaPromoted),
    /// A leaving or abandoned replica is out of its group.
    ReplicaRemoved(replica_removed::ReplicaRemoved),
    /// A move is given up.
    AbandonMove(abandon_move::AbandonMove),
    /// Replaces the access policy of a queue that is as it was read.
    ReplacePolicy(replace_policy::ReplacePolicy),
    /// A replica is damaged.
    ReplicaDamaged(replica_damaged::ReplicaDamaged),
    /// Creates a tenant.
    CreateTenant(create_tenant::CreateTenant),
    /// Suspends, resumes or deletes a tenant.
    SetTenantState(set_tenant_state::SetTenantState),
    /// Gives a tenant an access key.
    CreateAccessKey(create_access_key::CreateAccessKey),
    /// Enables, disables or deletes an access key.
    ChangeAccessKey(change_access_key::ChangeAccessKey),
    /// Has the messages of a dead-letter queue moved back.
    StartMoveTask(start_move_task::StartMoveTask),
    /// Lets a move task move no more.
    CancelMoveTask(cancel_move_task::CancelMoveTask),
    /// Partitions have moved messages.
    MoveTaskReported(move_task_reported::MoveTaskReported),
    /// A partition has no place for a message to move.
    MoveTaskBlocked(move_task_blocked::MoveTaskBlocked),
}

impl Command {
    /// Whether the answer is kept for retries. The others may be applied twice without harm.
    pub(crate) fn keeps_answer(&self) -> bool {
        !matches!(
            self,
            Self::DescriptorDelivered(_)
                | Self::Housekeep
                | Self::PartitionEmptied(_)
                | Self::WidenSpread(_)
                | Self::ReplicaPromoted(_)
                | Self::ReplicaRemoved(_)
                | Self::AbandonMove(_)
                | Self::ReplicaDamaged(_)
                | Self::MoveTaskReported(_)
                | Self::MoveTaskBlocked(_)
        )
    }

    pub(crate) fn apply(self, metadata: &mut Metadata) -> Reply {
        match self {
            Self::Found(command) => Reply::Founded(command.apply(metadata)),
            Self::CreateQueue(command) => Reply::QueueCreated(command.apply(metadata)),
            Self::DeleteQueue(command) => Reply::QueueDeleted(command.apply(metadata)),
            Self::PurgeQueue(command) => Reply::QueuePurged(command.apply(metadata)),
            Self::SetAttributes(command) => Reply::AttributesSet(command.apply(metadata)),
            Self::TagQueue(command) => Reply::Tagged(command.apply(metadata)),
            Self::UntagQueue(command) => Reply::Untagged(command.apply(metadata)),
            Self::DescriptorDelivered(command) => command.apply(metadata),
            Self::Housekeep => housekeep::apply(metadata),
            Self::ChangeSettings(command) => Reply::SettingsChanged(command.apply(metadata)),
            Self::PartitionEmptied(command) => command.apply(metadata),
            Self::WidenSpread(command) => command.apply(metadata),
            Self::JoinNode(command) => Reply::NodeJoined(command.apply(metadata)),
            Self::SetNodeState(command) => Reply::NodeStateSet(command.apply(metadata)),
            Self::SetReplication(command) => Reply::ReplicationSet(command.apply(metadata)),
            Self::StartMove(command) => Reply::MoveStarted(command.apply(metadata)),
            Self::ReplicaPromoted(command) => Reply::MoveStepped(command.apply(metadata)),
            Self::ReplicaRemoved(command) => Reply::MoveStepped(command.apply(metadata)),
            Self::AbandonMove(command) => Reply::MoveStepped(command.apply(metadata)),
            Self::ReplacePolicy(command) => Reply::PolicyReplaced(command.apply(metadata)),
            Self::ReplicaDamaged(command) => Reply::MoveStepped(command.apply(metadata)),
            Self::CreateTenant(command) => Reply::TenantCreated(command.apply(metadata)),
            Self::SetTenantState(command) => Reply::TenantStateSet(command.apply(metadata)),
            Self::CreateAccessKey(command) => Reply::AccessKeyCreated(command.apply(metadata)),
            Self::ChangeAccessKey(command) => Reply::AccessKeyChanged(command.apply(metadata)),
            Self::StartMoveTask(command) => Reply::MoveTaskStarted(command.apply(metadata)),
            Self::CancelMoveTask(command) => Reply::MoveTaskCancelled(command.apply(metadata)),
            Self::MoveTaskReported(command) => command.apply(metadata),
            Self::MoveTaskBlocked(command) => command.apply(metadata),
        }
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u8(self.kind());
        match self {
            Self::Found(command) => command.write(writer),
            Self::CreateQueue(command) => command.write(writer),
            Self::DeleteQueue(command) => command.write(writer),
            Self::PurgeQueue(command) => command.write(writer),
            Self::SetAttributes(command) => command.write(writer),
            Self::TagQueue(command) => command.write(writer),
            Self::UntagQueue(command) => command.write(writer),
            Self::DescriptorDelivered(command) => command.write(writer),
            Self::Housekeep => {}
            Self::ChangeSettings(command) => command.write(writer),
            Self::PartitionEmptied(command) => command.write(writer),
            Self::WidenSpread(command) => command.write(writer),
            Self::JoinNode(command) => command.write(writer),
            Self::SetNodeState(command) => command.write(writer),
            Self::SetReplication(command) => command.write(writer),
            Self::StartMove(command) => command.write(writer),
            Self::ReplicaPromoted(command) => command.write(writer),
            Self::ReplicaRemoved(command) => command.write(writer),
            Self::AbandonMove(command) => command.write(writer),
            Self::ReplacePolicy(command) => command.write(writer),
            Self::ReplicaDamaged(command) => command.write(writer),
            Self::CreateTenant(command) => command.write(writer),
            Self::SetTenantState(command) => command.write(writer),
            Self::CreateAccessKey(command) => command.write(writer),
            Self::ChangeAccessKey(command) => command.write(writer),
            Self::StartMoveTask(command) => command.write(writer),
            Self::CancelMoveTask(command) => command.write(writer),
            Self::MoveTaskReported(command) => command.write(writer),
            Self::MoveTaskBlocked(command) => command.write(writer),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::Found(found::Found::read_1(reader)?),
            2 => Self::CreateQueue(create_queue::CreateQueue::read(reader)?),
            3 => Self::DeleteQueue(delete_queue::DeleteQueue::read(reader)?),
            4 => Self::PurgeQueue(purge_queue::PurgeQueue::read(reader)?),
            5 => Self::SetAttributes(set_attributes::SetAttributes::read(reader)?),
            6 => Self::TagQueue(tag_queue::TagQueue::read(reader)?),
            7 => Self::UntagQueue(untag_queue::UntagQueue::read(reader)?),
            8 => {
                Self::DescriptorDelivered(descriptor_delivered::DescriptorDelivered::read(reader)?)
            }
            9 => Self::Housekeep,
            10 => Self::ChangeSettings(change_settings::ChangeSettings::read(reader)?),
            11 => Self::PartitionEmptied(partition_emptied::PartitionEmptied::read(reader)?),
            12 => Self::WidenSpread(widen_spread::WidenSpread::read(reader)?),
            13 => Self::Found(found::Found::read(reader)?),
            14 => Self::JoinNode(join_node::JoinNode::read(reader)?),
            15 => Self::SetNodeState(set_node_state::SetNodeState::read(reader)?),
            16 => Self::SetReplication(set_replication::SetReplication::read(reader)?),
            17 => Self::StartMove(start_move::StartMove::read(reader)?),
            18 => Self::ReplicaPromoted(replica_promoted::ReplicaPromoted::read(reader)?),
            19 => Self::ReplicaRemoved(replica_removed::ReplicaRemoved::read(reader)?),
            20 => Self::AbandonMove(abandon_move::AbandonMove::read(reader)?),
            21 => Self::ReplacePolicy(replace_policy::ReplacePolicy::read(reader)?),
            22 => Self::ReplicaDamaged(replica_damaged::ReplicaDamaged::read(reader)?),
            30 => Self::CreateTenant(create_tenant::CreateTenant::read(reader)?),
            31 => Self::SetTenantState(set_tenant_state::SetTenantState::read(reader)?),
            32 => Self::CreateAccessKey(create_access_key::CreateAccessKey::read(reader)?),
            33 => Self::ChangeAccessKey(change_access_key::ChangeAccessKey::read(reader)?),
            23 => Self::StartMoveTask(start_move_task::StartMoveTask::read(reader)?),
            24 => Self::CancelMoveTask(cancel_move_task::CancelMoveTask::read(reader)?),
            25 => Self::MoveTaskReported(move_task_reported::MoveTaskReported::read(reader)?),
            26 => Self::MoveTaskBlocked(move_task_blocked::MoveTaskBlocked::read(reader)?),
            kind => return Err(unknown("command", kind)),
        })
    }

    fn kind(&self) -> u8 {
        match self {
            // 1 founds a cluster with every group on every node.
            Self::Found(_) => 13,
            Self::CreateQueue(_) => 2,
            Self::DeleteQueue(_) => 3,
            Self::PurgeQueue(_) => 4,
            Self::SetAttributes(_) => 5,
            Self::TagQueue(_) => 6,
            Self::UntagQueue(_) => 7,
            Self::DescriptorDelivered(_) => 8,
            Self::Housekeep => 9,
            Self::ChangeSettings(_) => 10,
            Self::PartitionEmptied(_) => 11,
            Self::WidenSpread(_) => 12,
            Self::JoinNode(_) => 14,
            Self::SetNodeState(_) => 15,
            Self::SetReplication(_) => 16,
            Self::StartMove(_) => 17,
            Self::ReplicaPromoted(_) => 18,
            Self::ReplicaRemoved(_) => 19,
            Self::AbandonMove(_) => 20,
            Self::ReplacePolicy(_) => 21,
            Self::ReplicaDamaged(_) => 22,
            Self::CreateTenant(_) => 30,
            Self::SetTenantState(_) => 31,
            Self::CreateAccessKey(_) => 32,
            Self::ChangeAccessKey(_) => 33,
            Self::StartMoveTask(_) => 23,
            Self::CancelMoveTask(_) => 24,
            Self::MoveTaskReported(_) => 25,
            Self::MoveTaskBlocked(_) => 26,
        }
    }
}
