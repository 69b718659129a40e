//! Something of everything that is written down: commands, answers and a small cluster.

use crate::script::{envelope, tenant};
use crate::tenants::sealed;
use hikyaku_metadata::{
    AbandonMove, AccessKeyState, AttributeError, AttributeName, Attributes, ChangeAccessKey,
    ChangeAccessKeyError, ChangeSettings, ChangeSettingsError, ClusterRecord, ClusterSettings,
    Command, CreateAccessKey, CreateAccessKeyError, CreateQueue, CreateQueueError, CreateTenant,
    CreateTenantError, Created, DeleteQueue, DeleteQueueError, DescriptorDelivered, Envelope,
    FifoThroughputLimit, Found, FoundError, GroupKey, JoinNode, JoinNodeError, Joined, Metadata,
    MoveStepError, NodeRecord, NodeState, PartitionEmptied, PurgeQueue, PurgeQueueError,
    ReplacePolicy, ReplacePolicyError, ReplicaDamaged, ReplicaId, ReplicaPromoted, ReplicaRemoved,
    Reply, SetAttributes, SetAttributesError, SetNodeState, SetNodeStateError, SetReplication,
    SetReplicationError, SetTenantState, SetTenantStateError, StartMove, StartMoveError, TagQueue,
    TagQueueError, TenantId, TenantState, UntagQueue, UntagQueueError, WidenSpread, encode_entry,
};
use hikyaku_queue::{DeduplicationScope, PartitionId, QueueId};
use std::collections::BTreeMap;

pub const QUEUE: QueueId = QueueId(1);
pub const PARTITION: GroupKey = GroupKey::Partition(PartitionId(0));

/// What could be said of a cluster before there were placements.
pub fn cluster() -> ClusterRecord {
    ClusterRecord {
        cluster_id: 0x0102_0304,
        partitions: 32,
        replication: 3,
        handle_keys: vec![(5, [0xaa; 64])],
        nodes: vec![NodeRecord::storage(6, "a:1")],
    }
}

/// A cluster of two partitions, with nodes in every state.
pub fn placed() -> Found {
    let node = |(node, state)| NodeRecord {
        node,
        address: "a:1".to_owned(),
        zone: "z".to_owned(),
        certificate_name: Some("c".to_owned()),
        storage: state != NodeState::Decommissioned,
        state,
    };
    let states = [
        NodeState::Active,
        NodeState::Cordoned,
        NodeState::Draining,
        NodeState::Decommissioning,
        NodeState::Decommissioned,
    ];
    let cluster = ClusterRecord {
        partitions: 2,
        replication: 2,
        nodes: (1..).zip(states).map(node).collect(),
        ..cluster()
    };
    let groups = [
        GroupKey::Metadata,
        PARTITION,
        GroupKey::Partition(PartitionId(1)),
    ];
    let placement = groups.into_iter().zip([vec![1], vec![1, 2], vec![3]]);
    let placement = placement.collect();
    Found { cluster, placement }
}

/// Every attribute given.
fn attributes() -> Attributes {
    Attributes {
        visibility_timeout_ms: Some(1),
        delay_ms: Some(2),
        retention_ms: Some(3),
        max_message_bytes: Some(4),
        receive_wait_seconds: Some(5),
        content_based_deduplication: Some(true),
        deduplication_scope: Some(DeduplicationScope::MessageGroup),
        fifo_throughput_limit: Some(FifoThroughputLimit::PerMessageGroupId),
        policy: Some("p".to_owned()),
        redrive_policy: Some("r".to_owned()),
        redrive_allow_policy: Some("a".to_owned()),
        kms_master_key_id: Some("k".to_owned()),
        kms_data_key_reuse_seconds: Some(6),
        sqs_managed_sse: Some(false),
        spread_width: None,
        redrive_target: None,
    }
}

fn tags() -> BTreeMap<String, String> {
    BTreeMap::from([("t".to_owned(), "u".to_owned())])
}

fn create() -> CreateQueue {
    CreateQueue {
        tenant: tenant(7),
        name: "q.fifo".to_owned(),
        fifo: true,
        attributes: attributes(),
        tags: tags(),
    }
}

fn join(node: u64) -> Command {
    Command::JoinNode(JoinNode {
        node,
        address: "b:2".to_owned(),
        zone: "z".to_owned(),
        certificate_name: Some("c".to_owned()),
        storage: true,
    })
}

fn start() -> Command {
    Command::StartMove(StartMove {
        group: PARTITION,
        version: 1,
        add: Some((ReplicaId(99), 7)),
        remove: Some(ReplicaId(6)),
    })
}

/// One of each command, in the order in which they came to be.
pub fn commands() -> Vec<Command> {
    vec![
        Command::Found(Found::everywhere(cluster())),
        Command::CreateQueue(create()),
        Command::DeleteQueue(DeleteQueue { queue: QUEUE }),
        Command::PurgeQueue(PurgeQueue { queue: QUEUE }),
        Command::SetAttributes(SetAttributes {
            queue: QUEUE,
            attributes: Attributes {
                delay_ms: Some(9),
                ..Attributes::default()
            },
        }),
        Command::TagQueue(TagQueue {
            queue: QUEUE,
            tags: tags(),
        }),
        Command::UntagQueue(UntagQueue {
            queue: QUEUE,
            keys: ["t".to_owned()].into(),
        }),
        Command::DescriptorDelivered(DescriptorDelivered {
            queue: QUEUE,
            version: 8,
            partition: PartitionId(9),
        }),
        Command::Housekeep,
        Command::ChangeSettings(ChangeSettings(ClusterSettings { cooldown_ms: 10 })),
        Command::PartitionEmptied(PartitionEmptied {
            queue: QUEUE,
            version: 8,
            partition: PartitionId(9),
        }),
        Command::SetAttributes(SetAttributes {
            queue: QUEUE,
            attributes: Attributes {
                spread_width: Some(11),
                ..Attributes::default()
            },
        }),
        Command::WidenSpread(WidenSpread {
            queue: QUEUE,
            version: 12,
        }),
        Command::Found(placed()),
        join(7),
        Command::SetNodeState(SetNodeState {
            node: 6,
            state: NodeState::Draining,
        }),
        Command::SetReplication(SetReplication { replication: 5 }),
        start(),
        Command::StartMove(StartMove {
            group: GroupKey::Metadata,
            version: 2,
            add: None,
            remove: None,
        }),
        Command::ReplicaPromoted(ReplicaPromoted {
            group: PARTITION,
            replica: ReplicaId(99),
            version: 2,
        }),
        Command::ReplicaRemoved(ReplicaRemoved {
            group: PARTITION,
            replica: ReplicaId(6),
            version: 3,
        }),
        Command::AbandonMove(AbandonMove {
            group: PARTITION,
            version: 2,
        }),
        Command::ReplacePolicy(ReplacePolicy {
            queue: QUEUE,
            current: "c".to_owned(),
            policy: "p".to_owned(),
        }),
        Command::ReplicaDamaged(ReplicaDamaged {
            group: PARTITION,
            replica: ReplicaId(6),
        }),
        Command::CreateTenant(CreateTenant {
            tenant: tenant(8),
            name: "n".to_owned(),
        }),
        Command::SetTenantState(SetTenantState {
            tenant: tenant(8),
            state: TenantState::Suspended,
        }),
        give(tenant(8)),
        disable(None),
        disable(Some(AccessKeyState::Active)),
        disable(Some(AccessKeyState::Disabled)),
    ]
}

fn give(tenant: TenantId) -> Command {
    Command::CreateAccessKey(CreateAccessKey {
        tenant,
        key: format!("K{tenant}"),
        sealed: sealed(0xbb),
        description: "d".to_owned(),
    })
}

fn disable(state: Option<AccessKeyState>) -> Command {
    let key = format!("K{}", tenant(8));
    Command::ChangeAccessKey(ChangeAccessKey { key, state })
}

/// Every shape of every answer.
pub fn replies() -> Vec<Reply> {
    let wait_ms = 3;
    let attribute = AttributeError::TwoEncryptions;
    vec![
        Reply::Late,
        Reply::Founded(Ok(())),
        Reply::Founded(Err(FoundError::AlreadyFounded { cluster_id: 4 })),
        Reply::Founded(Err(FoundError::NoPartitions)),
        Reply::Founded(Err(FoundError::NoNodes)),
        Reply::Founded(Err(FoundError::HandleKeys(3))),
        Reply::QueueCreated(Ok(Created {
            queue: QUEUE,
            existed: true,
        })),
        Reply::QueueCreated(Err(CreateQueueError::ExistsWithDifferent(
            AttributeName::FifoQueue,
        ))),
        Reply::QueueCreated(Err(CreateQueueError::DeletedRecently { wait_ms })),
        Reply::QueueCreated(Err(CreateQueueError::Attributes(attribute))),
        Reply::QueueCreated(Err(CreateQueueError::NotFounded)),
        Reply::QueueDeleted(Ok(2)),
        Reply::QueueDeleted(Err(DeleteQueueError::NoSuchQueue(QUEUE))),
        Reply::QueuePurged(Ok(2)),
        Reply::QueuePurged(Err(PurgeQueueError::NoSuchQueue(QUEUE))),
        Reply::QueuePurged(Err(PurgeQueueError::InProgress { wait_ms })),
        Reply::AttributesSet(Ok(2)),
        Reply::AttributesSet(Err(SetAttributesError::NoSuchQueue(QUEUE))),
        Reply::AttributesSet(Err(SetAttributesError::Attributes(
            AttributeError::FifoOnly(AttributeName::DeduplicationScope),
        ))),
        Reply::AttributesSet(Err(SetAttributesError::Attributes(
            AttributeError::ThroughputLimitNeedsMessageGroupScope,
        ))),
        Reply::Tagged(Ok(())),
        Reply::Tagged(Err(TagQueueError::NoSuchQueue(QUEUE))),
        Reply::Tagged(Err(TagQueueError::TooManyTags(51))),
        Reply::Untagged(Ok(())),
        Reply::Untagged(Err(UntagQueueError::NoSuchQueue(QUEUE))),
        Reply::DescriptorDelivered,
        Reply::Housekept,
        Reply::SettingsChanged(Ok(())),
        Reply::SettingsChanged(Err(ChangeSettingsError::CooldownTooLong(9))),
        Reply::PartitionEmptied,
        Reply::AttributesSet(Err(SetAttributesError::Attributes(
            AttributeError::StandardOnly(AttributeName::Spread),
        ))),
        Reply::SpreadWidened,
        Reply::Founded(Err(FoundError::Replication(8))),
        Reply::Founded(Err(FoundError::NodeTwice(6))),
        Reply::Founded(Err(FoundError::Misplaced(GroupKey::Metadata))),
        Reply::NodeJoined(Ok(Joined::New)),
        Reply::NodeJoined(Ok(Joined::Changed)),
        Reply::NodeJoined(Ok(Joined::Known)),
        Reply::NodeJoined(Err(JoinNodeError::NotFounded)),
        Reply::NodeJoined(Err(JoinNodeError::Decommissioned(6))),
        Reply::NodeJoined(Err(JoinNodeError::OtherCertificate(6))),
        Reply::NodeJoined(Err(JoinNodeError::HasReplicas {
            node: 6,
            replicas: 3,
        })),
        Reply::NodeJoined(Err(JoinNodeError::TooManyNodes)),
        Reply::NodeJoined(Err(JoinNodeError::TextTooLong(600))),
        Reply::NodeStateSet(Ok(NodeState::Decommissioning)),
        Reply::NodeStateSet(Err(SetNodeStateError::NoSuchNode(6))),
        Reply::NodeStateSet(Err(SetNodeStateError::Decommissioned(6))),
        Reply::NodeStateSet(Err(SetNodeStateError::TooFewNodes {
            group: PARTITION,
            places: 2,
            needed: 3,
        })),
        Reply::ReplicationSet(Ok(())),
        Reply::ReplicationSet(Err(SetReplicationError::NotFounded)),
        Reply::ReplicationSet(Err(SetReplicationError::OutOfRange(8))),
        Reply::MoveStarted(Ok(2)),
        Reply::MoveStarted(Err(StartMoveError::NoSuchGroup(PARTITION))),
        Reply::MoveStarted(Err(StartMoveError::Stale(2))),
        Reply::MoveStarted(Err(StartMoveError::Moving)),
        Reply::MoveStarted(Err(StartMoveError::Nothing)),
        Reply::MoveStarted(Err(StartMoveError::ReplicaKnown(ReplicaId(99)))),
        Reply::MoveStarted(Err(StartMoveError::NoSuchNode(6))),
        Reply::MoveStarted(Err(StartMoveError::NoStorage(6))),
        Reply::MoveStarted(Err(StartMoveError::NodeNotActive {
            node: 6,
            state: NodeState::Cordoned,
        })),
        Reply::MoveStarted(Err(StartMoveError::NodeHasReplica(6))),
        Reply::MoveStarted(Err(StartMoveError::NoSuchReplica(ReplicaId(99)))),
        Reply::MoveStarted(Err(StartMoveError::LastVoter(ReplicaId(6)))),
        Reply::MoveStepped(Ok(3)),
        Reply::MoveStepped(Err(MoveStepError::NoSuchGroup(PARTITION))),
        Reply::MoveStepped(Err(MoveStepError::Stale(3))),
        Reply::MoveStepped(Err(MoveStepError::NotJoining(ReplicaId(99)))),
        Reply::MoveStepped(Err(MoveStepError::NotLeaving(ReplicaId(6)))),
        Reply::MoveStepped(Err(MoveStepError::SuccessorFirst(ReplicaId(99)))),
        Reply::MoveStepped(Err(MoveStepError::NothingToAbandon)),
        Reply::PolicyReplaced(Ok(())),
        Reply::PolicyReplaced(Err(ReplacePolicyError::NoSuchQueue(QUEUE))),
        Reply::PolicyReplaced(Err(ReplacePolicyError::Changed)),
        Reply::QueueCreated(Err(CreateQueueError::TenantNotActive)),
        Reply::TenantCreated(Ok(true)),
        Reply::TenantCreated(Err(CreateTenantError::IdTaken)),
        Reply::TenantCreated(Err(CreateTenantError::NameTaken(tenant(8)))),
        Reply::TenantCreated(Err(CreateTenantError::InvalidName)),
        Reply::TenantCreated(Err(CreateTenantError::TooMany)),
        Reply::TenantStateSet(Ok(TenantState::Active)),
        Reply::TenantStateSet(Ok(TenantState::Suspended)),
        Reply::TenantStateSet(Ok(TenantState::Deleting)),
        Reply::TenantStateSet(Ok(TenantState::Deleted)),
        Reply::TenantStateSet(Err(SetTenantStateError::NoSuchTenant(tenant(8)))),
        Reply::TenantStateSet(Err(SetTenantStateError::Deleted(tenant(8)))),
        Reply::TenantStateSet(Err(SetTenantStateError::DefaultStays)),
        Reply::AccessKeyCreated(Ok(())),
        Reply::AccessKeyCreated(Err(CreateAccessKeyError::NoSuchTenant(tenant(8)))),
        Reply::AccessKeyCreated(Err(CreateAccessKeyError::Deleted(tenant(8)))),
        Reply::AccessKeyCreated(Err(CreateAccessKeyError::IdTaken)),
        Reply::AccessKeyCreated(Err(CreateAccessKeyError::TooMany)),
        Reply::AccessKeyCreated(Err(CreateAccessKeyError::TooManyInAll)),
        Reply::AccessKeyCreated(Err(CreateAccessKeyError::TooLong)),
        Reply::AccessKeyChanged(Ok(())),
        Reply::AccessKeyChanged(Err(ChangeAccessKeyError::NoSuchKey)),
    ]
}

/// A small cluster in which something of everything has happened.
pub fn metadata() -> Metadata {
    let mut metadata = moving();
    let gone = SetTenantState {
        tenant: tenant(9),
        state: TenantState::Deleted,
    };
    let create = |number, name: &str| {
        let (tenant, name) = (tenant(number), name.to_owned());
        Command::CreateTenant(CreateTenant { tenant, name })
    };
    let commands = [
        create(8, "n"),
        create(9, "gone"),
        Command::SetTenantState(gone),
        give(tenant(8)),
        give(tenant(0)),
        disable(Some(AccessKeyState::Disabled)),
    ];
    let envelopes = (8..).zip(commands);
    let envelopes = envelopes.map(|(id, command)| envelope(id, 100 + id as u64, command));
    let envelopes: Vec<Envelope> = envelopes.collect();
    metadata
        .apply_entry(3, &encode_entry(52, &envelopes))
        .unwrap();
    metadata
}

/// The same before there were tenants.
pub fn moving() -> Metadata {
    let mut metadata = queues();
    let commands = (6..).zip([join(7), start()]);
    let envelopes = commands.map(|(id, command)| envelope(id, 100 + id as u64, command));
    let envelopes: Vec<Envelope> = envelopes.collect();
    metadata
        .apply_entry(2, &encode_entry(51, &envelopes))
        .unwrap();
    metadata
}

/// The same before nodes could join.
pub fn queues() -> Metadata {
    let mut metadata = Metadata::new();
    let commands = [
        Command::Found(Found::everywhere(cluster())),
        Command::CreateQueue(create()),
        Command::SetAttributes(SetAttributes {
            queue: QUEUE,
            attributes: Attributes {
                delay_ms: Some(9),
                ..Attributes::default()
            },
        }),
        Command::CreateQueue(CreateQueue {
            name: "gone.fifo".to_owned(),
            ..create()
        }),
        Command::DeleteQueue(DeleteQueue { queue: QueueId(2) }),
    ];
    let envelopes: Vec<Envelope> = (1..)
        .zip(commands)
        .map(|(id, command)| envelope(id, 100 + id as u64, command))
        .collect();
    metadata
        .apply_entry(1, &encode_entry(50, &envelopes))
        .unwrap();
    metadata
}
