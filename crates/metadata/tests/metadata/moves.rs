//! Random lives of nodes and replicas: joins, drains and moves, with the confirmations of their
//! drivers in time, late and twice.

use crate::script::{Entry, PARTITIONS, cluster, envelope};
use hikyaku_metadata::{
    AbandonMove, Command, Found, GroupKey, JoinNode, NodeState, ReplicaId, ReplicaPromoted,
    ReplicaRemoved, SetNodeState, SetReplication, StartMove,
};
use hikyaku_queue::PartitionId;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::sample::select;

/// Commands about nodes and replicas, which mostly name what may be there.
pub fn command() -> impl Strategy<Value = Command> {
    let stepped = || (group(), replica(), version());
    prop_oneof![
        3 => join().prop_map(Command::JoinNode),
        3 => (node(), state()).prop_map(|(node, state)| {
            Command::SetNodeState(SetNodeState { node, state })
        }),
        1 => (0_u8..9).prop_map(|replication| {
            Command::SetReplication(SetReplication { replication })
        }),
        6 => start().prop_map(Command::StartMove),
        5 => stepped().prop_map(|(group, replica, version)| {
            Command::ReplicaPromoted(ReplicaPromoted { group, replica, version })
        }),
        5 => stepped().prop_map(|(group, replica, version)| {
            Command::ReplicaRemoved(ReplicaRemoved { group, replica, version })
        }),
        2 => (group(), version()).prop_map(|(group, version)| {
            Command::AbandonMove(AbandonMove { group, version })
        }),
    ]
}

/// A life of nothing but nodes and replicas, one command per entry.
pub fn entries() -> impl Strategy<Value = Vec<Entry>> {
    vec(command(), 1..100).prop_map(|commands| {
        let found = Command::Found(Found::everywhere(cluster()));
        let commands = std::iter::once(found).chain(commands);
        let entry = |(id, command)| Entry {
            now: 1_000,
            envelopes: vec![envelope(id, 2_000, command)],
        };
        (1..).zip(commands).map(entry).collect()
    })
}

fn join() -> impl Strategy<Value = JoinNode> {
    let certificate = option::of(select(vec!["one", "two"]));
    let zone = select(vec!["", "east", "west"]);
    let storage = prop_oneof![4 => Just(true), 1 => Just(false)];
    (
        node(),
        select(vec!["a:1", "b:1"]),
        zone,
        certificate,
        storage,
    )
        .prop_map(|(node, address, zone, certificate, storage)| JoinNode {
            node,
            address: address.to_owned(),
            zone: zone.to_owned(),
            certificate_name: certificate.map(str::to_owned),
            storage,
        })
}

/// Founders, some that may come, and one that never does.
fn node() -> impl Strategy<Value = u64> {
    11_u64..17
}

fn state() -> impl Strategy<Value = NodeState> {
    prop_oneof![
        4 => Just(NodeState::Active),
        1 => Just(NodeState::Cordoned),
        1 => Just(NodeState::Draining),
        1 => Just(NodeState::Decommissioning),
        1 => Just(NodeState::Decommissioned),
    ]
}

/// Mostly one group, so that its moves get far.
fn group() -> impl Strategy<Value = GroupKey> {
    prop_oneof![
        8 => Just(GroupKey::Partition(PartitionId(0))),
        1 => Just(GroupKey::Metadata),
        1 => Just(GroupKey::Partition(PartitionId(PARTITIONS))),
    ]
}

fn replica() -> impl Strategy<Value = ReplicaId> {
    prop_oneof![11_u64..14, 100_u64..103].prop_map(ReplicaId)
}

fn version() -> impl Strategy<Value = u64> {
    1_u64..6
}

fn start() -> impl Strategy<Value = StartMove> {
    let add = option::of((replica(), node()));
    (group(), version(), add, option::of(replica())).prop_map(|(group, version, add, remove)| {
        StartMove {
            group,
            version,
            add,
            remove,
        }
    })
}
