//! The metadata machine: its state as it is kept, its log entries as they are applied, its values as
//! they are kept and sent.
//!
//! As with the queue machine, the bytes come from the cluster itself: damaged ones are refused, or are
//! as good as any other.

use std::collections::BTreeMap;

use hikyaku_metadata::{
    AbandonMove, AccessKeyState, Attributes, CancelMoveTask, ChangeAccessKey, ChangeSettings,
    ClusterRecord, ClusterSettings, Command, CreateAccessKey, CreateQueue, CreateTenant,
    DeleteQueue, DescriptorDelivered, Envelope, Found, GroupKey, JoinNode, Metadata, MoveProgress,
    MoveTaskBlocked, MoveTaskReported, NodeRecord, NodeState, PartitionEmptied, PurgeQueue,
    QueueRecord, ReplacePolicy, ReplicaDamaged, ReplicaId, ReplicaPromoted, ReplicaRemoved,
    Replicas, Reply, SealedSecret, SetAttributes, SetNodeState, SetReplication, SetTenantState,
    StartMove, StartMoveTask, TagQueue, TenantId, TenantRecord, TenantState, UntagQueue,
    WidenSpread, decode_entry, encode_entry,
};
use hikyaku_queue::{MoveObstacle, MoveTaskId, PartitionId, QueueId, RequestId};

use super::{Seen, Target, magnitude};
use crate::memory::Bound;

/// A record is many small texts and maps, and in four indexes. What follows from the number of
/// partitions, and there may be 65,536 of them, is written nowhere: the spread of a new FIFO queue, the
/// replicas of a cluster whose groups are on all nodes.
const MEMORY: Bound = Bound {
    fixed: 16 << 20,
    per_byte: 256,
};

/// The whole state.
pub const CHECKPOINTS: Target = Target {
    name: "metadata_checkpoints",
    seeds: || vec![Metadata::new().encode(), prepared().encode()],
    words: &["orders", "orders.fifo"],
    memory: MEMORY,
    judge: || {
        Box::new(|input| match Metadata::decode(input) {
            Ok(mut metadata) => {
                let written = assert_sound(&metadata);
                go_on(&mut metadata, applied_index(&written));
                assert_sound(&metadata);
                Seen::accepted((magnitude(written.len()), magnitude(input.len())))
            }
            Err(error) => Seen::refused(&error.to_string()),
        })
    },
};

/// Log entries, applied to a cluster with some queues.
pub const ENTRIES: Target = Target {
    name: "metadata_entries",
    seeds: || {
        let one = |envelope: &Envelope| encode_entry(NOW, std::slice::from_ref(envelope));
        let entries = envelopes();
        let mut seeds: Vec<Vec<u8>> = entries.iter().map(one).collect();
        seeds.push(encode_entry(NOW, &entries));
        seeds
    },
    words: &["orders", "orders.fifo", "{}"],
    memory: MEMORY,
    judge: || {
        let prepared = prepared();
        Box::new(move |input| {
            let mut metadata = prepared.clone();
            let applied = metadata.apply_entry(LAST_INDEX + 1, input);
            let (now, envelopes) = match decode_entry(input) {
                Ok(entry) => entry,
                Err(error) => {
                    assert!(applied.is_err() && metadata == prepared);
                    return Seen::refused(&error.to_string());
                }
            };
            let written = encode_entry(now, &envelopes);
            assert_eq!(decode_entry(&written).as_ref(), Ok(&(now, envelopes)));
            let mut kinds = Vec::new();
            for outcome in applied.expect("an entry that can be read is applied") {
                let reply = outcome.reply.encode();
                assert_eq!(Reply::decode(&reply), Ok(outcome.reply));
                kinds.push((reply[1], reply.get(2).copied(), outcome.changed.len()));
            }
            assert_sound(&metadata);
            Seen::accepted(kinds)
        })
    },
};

/// Commands, replies, records of queues, of replicas, of tenants and of the cluster; the first byte says which.
pub const VALUES: Target = Target {
    name: "metadata_values",
    seeds: values,
    words: &["orders", "{}"],
    memory: MEMORY,
    judge: || {
        Box::new(|input| {
            let Some((kind, bytes)) = input.split_first() else {
                return Seen::refused("nothing");
            };
            let read = match kind % 6 {
                0 => Envelope::decode(bytes).map(|envelope| {
                    assert_eq!(Envelope::decode(&envelope.encode()), Ok(envelope));
                }),
                1 => Reply::decode(bytes).map(|reply| {
                    assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
                }),
                2 => QueueRecord::decode(bytes).map(|record| {
                    assert_eq!(QueueRecord::decode(&record.encode()), Ok(record));
                }),
                3 => Replicas::decode(bytes).map(|replicas| {
                    assert_eq!(Replicas::decode(&replicas.encode()), Ok(replicas));
                }),
                4 => TenantRecord::decode(bytes).map(|record| {
                    assert_eq!(TenantRecord::decode(&record.encode()), Ok(record));
                }),
                _ => ClusterRecord::decode(bytes).map(|record| {
                    assert_eq!(ClusterRecord::decode(&record.encode()), Ok(record));
                }),
            };
            match read {
                Ok(()) => Seen::accepted((kind % 6, bytes.get(25), magnitude(bytes.len()))),
                Err(error) => Seen::refused(&error.to_string()),
            }
        })
    },
};

/// Checks a state: it keeps its invariants, and comes back as it is written.
fn assert_sound(metadata: &Metadata) -> Vec<u8> {
    metadata.validate();
    let written = metadata.encode();
    let again = Metadata::decode(&written).expect("a state that was written is read");
    assert!(again == *metadata, "a state comes back as it was written");
    written
}

/// In ms since the epoch.
const NOW: u64 = 1_700_000_000_000;

/// The index of the last entry of the prepared state.
const LAST_INDEX: u64 = 7;

/// Up to these, a state has room for what may still happen to it.
const LATE_INDEX: u64 = 1 << 40;
const LATE_T: u64 = 1 << 45;

/// What usually happens next to a cluster.
fn go_on(metadata: &mut Metadata, index: u64) {
    let now = metadata.now();
    if now > LATE_T || index > LATE_INDEX {
        return;
    }
    for (step, envelope) in (1..).zip(envelopes()) {
        let entry = encode_entry(now + step, &[envelope]);
        let applied = metadata.apply_entry(index + step, &entry);
        applied.expect("an entry that was written is applied");
    }
}

/// The index of the last entry of a state, which follows its version and its time.
fn applied_index(written: &[u8]) -> u64 {
    let bytes = written[9..17].try_into();
    u64::from_le_bytes(bytes.expect("eight bytes"))
}

fn cluster() -> ClusterRecord {
    ClusterRecord {
        cluster_id: 0x0102_0304,
        partitions: 4,
        replication: 3,
        handle_keys: vec![(5, [0xaa; 64])],
        nodes: [6, 7, 8]
            .map(|node| NodeRecord::storage(node, "a:1"))
            .to_vec(),
    }
}

fn create(name: &str) -> CreateQueue {
    CreateQueue {
        tenant: TenantId::DEFAULT,
        name: name.to_owned(),
        fifo: name.ends_with(".fifo"),
        attributes: Attributes::default(),
        tags: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
    }
}

fn envelope((request, command): (u128, Command)) -> Envelope {
    Envelope {
        request_id: RequestId(request),
        not_after: NOW + 60_000,
        command,
    }
}

/// A cluster with two queues, one purged and changed, and a third one deleted.
fn prepared() -> Metadata {
    let delay = Attributes {
        delay_ms: Some(9_000),
        policy: Some("{}".to_owned()),
        ..Attributes::default()
    };
    let entries = [
        vec![Command::Found(Found::everywhere(cluster()))],
        vec![
            Command::CreateQueue(create("orders")),
            Command::CreateQueue(create("orders.fifo")),
            Command::CreateQueue(create("gone")),
        ],
        vec![Command::SetAttributes(SetAttributes {
            queue: QueueId(1),
            attributes: delay,
        })],
        vec![Command::PurgeQueue(PurgeQueue { queue: QueueId(1) })],
        vec![Command::DeleteQueue(DeleteQueue { queue: QueueId(3) })],
        vec![
            Command::JoinNode(join(9)),
            Command::StartMove(start_move(0)),
        ],
        vec![
            Command::CreateTenant(create_tenant(1)),
            Command::CreateAccessKey(create_key("OLD")),
            Command::CreateQueue(CreateQueue {
                tenant: tenant(1),
                ..create("theirs")
            }),
        ],
    ];
    let mut metadata = Metadata::new();
    for (index, commands) in (1..).zip(entries) {
        let requests = (1_000 * u128::from(index)..).zip(commands);
        let envelopes: Vec<Envelope> = requests.map(envelope).collect();
        let entry = encode_entry(NOW - 10_000 + index, &envelopes);
        let applied = metadata.apply_entry(index, &entry);
        applied.expect("an entry that was written is applied");
    }
    metadata
}

fn join(node: u64) -> JoinNode {
    JoinNode {
        node,
        address: "b:1".to_owned(),
        zone: "z".to_owned(),
        certificate_name: Some("c".to_owned()),
        storage: true,
    }
}

fn tenant(number: u8) -> TenantId {
    TenantId::parse(&format!("{number:012}")).expect("twelve digits")
}

fn create_tenant(number: u8) -> CreateTenant {
    CreateTenant {
        tenant: tenant(number),
        name: format!("t{number}"),
    }
}

fn create_key(key: &str) -> CreateAccessKey {
    CreateAccessKey {
        tenant: tenant(1),
        key: key.to_owned(),
        sealed: SealedSecret {
            key: 3,
            bytes: vec![0xcc; 56],
        },
        description: "d".to_owned(),
    }
}

/// What may become of tenants and their keys; last, the one that owns a queue goes.
fn tenancy() -> [Command; 7] {
    let set = |state| {
        let tenant = tenant(1);
        Command::SetTenantState(SetTenantState { tenant, state })
    };
    let change = |state| {
        let key = "OLD".to_owned();
        Command::ChangeAccessKey(ChangeAccessKey { key, state })
    };
    [
        Command::CreateTenant(create_tenant(2)),
        Command::CreateAccessKey(create_key("NEW")),
        change(Some(AccessKeyState::Disabled)),
        change(None),
        set(TenantState::Suspended),
        set(TenantState::Deleted),
        Command::Housekeep,
    ]
}

/// The version of every group's replicas before it first moves.
const PLACED: u64 = 1;

/// Moves a partition's replica from one of its founders to the node that joined.
fn start_move(partition: u32) -> StartMove {
    StartMove {
        group: GroupKey::Partition(PartitionId(partition)),
        version: PLACED,
        add: Some((ReplicaId(77), 9)),
        remove: Some(ReplicaId(6)),
    }
}

/// The life of a task that moves dead letters back.
fn move_tasks() -> [Command; 4] {
    let queue = QueueId(1);
    [
        Command::StartMoveTask(StartMoveTask {
            queue,
            task: MoveTaskId(5),
            destination: Some(QueueId(2)),
            rate: Some(500),
            to_move: 9,
        }),
        Command::MoveTaskReported(MoveTaskReported {
            queue,
            task: MoveTaskId(5),
            progress: vec![(
                PartitionId(3),
                MoveProgress {
                    moved: 7,
                    done: true,
                },
            )],
        }),
        Command::MoveTaskBlocked(MoveTaskBlocked {
            queue,
            task: MoveTaskId(5),
            partition: PartitionId(3),
            obstacle: MoveObstacle::NoPlace {
                source: Some("q".into()),
            },
        }),
        Command::CancelMoveTask(CancelMoveTask {
            queue,
            task: MoveTaskId(5),
        }),
    ]
}

/// What follows a move that was started: the new replica votes, the old one is gone; or it is given up.
fn steps() -> [Command; 5] {
    let group = GroupKey::Partition(PartitionId(0));
    let version = PLACED + 1;
    let replica = ReplicaId(77);
    [
        Command::StartMove(start_move(1)),
        Command::ReplicaPromoted(ReplicaPromoted {
            group,
            replica,
            version,
        }),
        Command::ReplicaRemoved(ReplicaRemoved {
            group,
            replica: ReplicaId(6),
            version: version + 1,
        }),
        Command::AbandonMove(AbandonMove { group, version }),
        Command::ReplicaDamaged(ReplicaDamaged { group, replica }),
    ]
}

/// One of each command.
fn envelopes() -> Vec<Envelope> {
    let queue = QueueId(1);
    let attributes = Attributes {
        visibility_timeout_ms: Some(1_000),
        spread_width: Some(2),
        redrive_policy: Some(String::new()),
        ..Attributes::default()
    };
    let commands = [
        Command::Found(Found::everywhere(cluster())),
        Command::CreateQueue(create("new")),
        Command::CreateQueue(create("orders")),
        Command::CreateQueue(create("gone")),
        Command::DeleteQueue(DeleteQueue { queue: QueueId(2) }),
        Command::PurgeQueue(PurgeQueue { queue }),
        Command::SetAttributes(SetAttributes { queue, attributes }),
        Command::ReplacePolicy(ReplacePolicy {
            queue,
            current: "{}".to_owned(),
            policy: String::new(),
        }),
        Command::TagQueue(TagQueue {
            queue,
            tags: BTreeMap::from([("k".to_owned(), "w".to_owned())]),
        }),
        Command::UntagQueue(UntagQueue {
            queue,
            keys: ["k".to_owned()].into(),
        }),
        Command::DescriptorDelivered(DescriptorDelivered {
            queue,
            version: 3,
            partition: PartitionId(0),
        }),
        Command::Housekeep,
        Command::ChangeSettings(ChangeSettings(ClusterSettings { cooldown_ms: 0 })),
        Command::PartitionEmptied(PartitionEmptied {
            queue,
            version: 3,
            partition: PartitionId(1),
        }),
        Command::WidenSpread(WidenSpread { queue, version: 3 }),
        Command::JoinNode(join(10)),
        Command::SetNodeState(SetNodeState {
            node: 7,
            state: NodeState::Draining,
        }),
        Command::SetReplication(SetReplication { replication: 5 }),
    ];
    let commands = commands.into_iter().chain(steps()).chain(tenancy());
    let commands = commands.chain(move_tasks());
    (10..).zip(commands).map(envelope).collect()
}

fn values() -> Vec<Vec<u8>> {
    let tagged = |tag: u8| move |bytes: Vec<u8>| [vec![tag], bytes].concat();
    let envelopes_of = envelopes();
    let commands = envelopes_of.iter().map(|envelope| envelope.encode());
    let mut metadata = prepared();
    let entry = encode_entry(NOW, &envelopes_of);
    let outcomes = metadata.apply_entry(LAST_INDEX + 1, &entry);
    let outcomes = outcomes.expect("an entry that was written is applied");
    let replies = outcomes.into_iter().map(|outcome| outcome.reply.encode());
    let prepared = prepared();
    let record = prepared.queue(QueueId(1)).expect("it was created");
    let owner = prepared.tenant(tenant(1)).expect("it was created");
    let group = GroupKey::Partition(PartitionId(0));
    let replicas = prepared.replicas(group).expect("it was founded");
    assert!(replicas.is_moving(), "a move was started");
    commands
        .map(tagged(0))
        .chain(replies.map(tagged(1)))
        .chain([
            tagged(2)(record.encode()),
            tagged(3)(replicas.encode()),
            tagged(4)(owner.encode()),
            tagged(5)(cluster().encode()),
        ])
        .collect()
}
