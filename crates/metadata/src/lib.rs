//! The control plane's state machine: which queues exist, how they are configured, and which
//! partitions still have to hear of it.
//!
//! One `Metadata` value is what the cluster's metadata group replicates. It is pure like
//! `hikyaku-queue`: no clock, no randomness, no hash order, no I/O. Time is what entries say, new
//! queue ids are counted, and homes are computed by a hash of our own.
//!
//! It knows the cluster's nodes and which [`Replicas`] each Raft group has on them; [`plan`] says what
//! should move, and the metadata leader drives it.
//!
//! It knows the tenants and their access keys, whose secrets it holds [sealed](SealedSecret): no copy
//! of it opens them.
//!
//! It owns the [`QueueRecord`]s and the one versioned [`hikyaku_queue::Descriptor`] inside each. A
//! change of a descriptor is *pending* until every partition of the queue's spread has confirmed
//! it; the metadata leader drives those deliveries from [`Metadata::pending_deliveries`]. It never
//! holds messages, counts or anything that changes with traffic.
//!
//! Invariants: a queue id is never given twice; a name belongs to one live queue; the revision rises
//! by one with each record changed or removed, so a copy that knows its revision can ask for the
//! difference alone.

mod attributes;
mod changes;
mod checkpoint;
mod cluster;
mod codec;
mod command;
mod entry;
mod founding;
mod machine;
mod move_task;
mod node;
mod placement;
mod planner;
mod record;
mod redrive;
mod replicas;
mod reply;
mod requests;
mod sealing;
mod tenant;
mod tenants;
mod validate;

pub use attributes::{AttributeError, AttributeName, Attributes};
pub use changes::{Changes, Difference};
pub use cluster::{ClusterRecord, ClusterSettings};
pub use codec::DecodeError;
pub use command::Command;
pub use command::abandon_move::AbandonMove;
pub use command::cancel_move_task::{CancelMoveTask, CancelMoveTaskError};
pub use command::change_access_key::{ChangeAccessKey, ChangeAccessKeyError};
pub use command::change_settings::{ChangeSettings, ChangeSettingsError};
pub use command::create_access_key::{CreateAccessKey, CreateAccessKeyError};
pub use command::create_queue::{CreateQueue, CreateQueueError, Created};
pub use command::create_tenant::{CreateTenant, CreateTenantError};
pub use command::delete_queue::{DeleteQueue, DeleteQueueError};
pub use command::descriptor_delivered::DescriptorDelivered;
pub use command::found::{Found, FoundError};
pub use command::housekeep::{HOUSEKEEP_LIMIT, QUEUES_DROPPED_LIMIT};
pub use command::join_node::{JoinNode, JoinNodeError, Joined};
pub use command::move_task_blocked::MoveTaskBlocked;
pub use command::move_task_reported::MoveTaskReported;
pub use command::partition_emptied::PartitionEmptied;
pub use command::purge_queue::{PurgeQueue, PurgeQueueError};
pub use command::replace_policy::{ReplacePolicy, ReplacePolicyError};
pub use command::replica_damaged::ReplicaDamaged;
pub use command::replica_promoted::ReplicaPromoted;
pub use command::replica_removed::ReplicaRemoved;
pub use command::set_attributes::{SetAttributes, SetAttributesError};
pub use command::set_node_state::{SetNodeState, SetNodeStateError};
pub use command::set_replication::{SetReplication, SetReplicationError};
pub use command::set_tenant_state::{SetTenantState, SetTenantStateError};
pub use command::start_move::{StartMove, StartMoveError};
pub use command::start_move_task::{StartMoveTask, StartMoveTaskError};
pub use command::tag_queue::{TAGS_MAX, TagQueue, TagQueueError};
pub use command::untag_queue::{UntagQueue, UntagQueueError};
pub use command::widen_spread::WidenSpread;
pub use entry::{Envelope, decode_entry, encode_entry};
pub use founding::{Placement, founding_placement};
pub use machine::{Metadata, Outcome, REMOVAL_MEMORY_MS};
pub use move_task::{
    MOVE_TASK_LIFE_MS, MOVE_TASKS_LISTED, MOVE_TASKS_MAX, MoveFailure, MoveProgress, MoveStatus,
    MoveTask,
};
pub use node::{NODE_TEXT_BYTES_MAX, NODES_MAX, NodeRecord, NodeState};
pub use placement::{
    FIFO_SPREAD, MESSAGE_GROUP_SLOTS, SPREAD_MAX, home_partition, message_group_partition,
    message_group_slot, spread,
};
pub use planner::{Observed, PlacementLimits, Step, plan};
pub use record::{FifoThroughputLimit, IN_FLIGHT_LIMIT, QueueRecord, RedriveTarget, Settings};
pub use replicas::{
    DEFAULT_REPLICATION, GroupKey, MAX_REPLICATION, Member, MoveStepError, ReplicaId, Replicas,
    Role,
};
pub use reply::Reply;
pub use sealing::{SEALING_KEY_BYTES, SealedSecret, SealingKey, SealingKeys, StaysSealed};
pub use tenant::{InvalidTenantId, TenantId};
pub use tenants::{
    ACCESS_KEYS_MAX, ACCESS_KEYS_PER_TENANT_MAX, AccessKeyRecord, AccessKeyState,
    DEFAULT_TENANT_NAME, DESCRIPTION_BYTES_MAX, TENANT_NAME_BYTES_MAX, TENANTS_MAX, TenantRecord,
    TenantState,
};
