//! Stories of nodes that come and go, and of the replicas that follow them.

use crate::harness::Cluster;
use crate::script::cluster;
use hikyaku_metadata::{
    AbandonMove, ClusterRecord, Command, Found, FoundError, GroupKey, JoinNode, JoinNodeError,
    Joined, MoveStepError, NODE_TEXT_BYTES_MAX, NODES_MAX, NodeRecord, NodeState, ReplicaDamaged,
    ReplicaId, ReplicaPromoted, ReplicaRemoved, Reply, Role, SetNodeState, SetNodeStateError,
    SetReplication, StartMove, StartMoveError, founding_placement,
};
use hikyaku_queue::PartitionId;
use std::collections::BTreeMap;

const GROUP: GroupKey = GroupKey::Partition(PartitionId(2));

fn join(cluster: &mut Cluster, node: u64) -> Reply {
    let join = JoinNode {
        node,
        address: format!("node-{node}:9325"),
        zone: String::new(),
        certificate_name: None,
        storage: true,
    };
    cluster.ask(1, Command::JoinNode(join))
}

fn set_state(
    cluster: &mut Cluster,
    node: u64,
    state: NodeState,
) -> Result<NodeState, SetNodeStateError> {
    match cluster.ask(1, Command::SetNodeState(SetNodeState { node, state })) {
        Reply::NodeStateSet(result) => result,
        other => panic!("another answer: {other:?}"),
    }
}

fn start(
    cluster: &mut Cluster,
    version: u64,
    add: Option<(u64, u64)>,
    remove: Option<u64>,
) -> Result<u64, StartMoveError> {
    let start = StartMove {
        group: GROUP,
        version,
        add: add.map(|(replica, node)| (ReplicaId(replica), node)),
        remove: remove.map(ReplicaId),
    };
    match cluster.ask(1, Command::StartMove(start)) {
        Reply::MoveStarted(result) => result,
        other => panic!("another answer: {other:?}"),
    }
}

fn step(cluster: &mut Cluster, command: Command) -> Result<u64, MoveStepError> {
    match cluster.ask(1, command) {
        Reply::MoveStepped(result) => result,
        other => panic!("another answer: {other:?}"),
    }
}

fn promoted(replica: u64, version: u64) -> Command {
    let replica = ReplicaId(replica);
    Command::ReplicaPromoted(ReplicaPromoted {
        group: GROUP,
        replica,
        version,
    })
}

fn removed(replica: u64, version: u64) -> Command {
    let replica = ReplicaId(replica);
    Command::ReplicaRemoved(ReplicaRemoved {
        group: GROUP,
        replica,
        version,
    })
}

fn abandon(version: u64) -> Command {
    Command::AbandonMove(AbandonMove {
        group: GROUP,
        version,
    })
}

fn damaged(replica: u64) -> Command {
    let replica = ReplicaId(replica);
    Command::ReplicaDamaged(ReplicaDamaged {
        group: GROUP,
        replica,
    })
}

fn roles(cluster: &Cluster) -> Vec<(u64, u64, Role)> {
    let replicas = cluster.metadata.replicas(GROUP).unwrap();
    let members = replicas.members.iter();
    members
        .map(|(replica, member)| (replica.0, member.node, member.role))
        .collect()
}

#[test]
fn a_cluster_begins_where_its_founder_says() {
    let record = ClusterRecord {
        replication: 2,
        ..cluster()
    };
    let nodes = record.nodes.iter().map(|it| (it.node, it.zone.clone()));
    let placement = founding_placement(&nodes.collect(), record.partitions, 2);
    let mut cluster = Cluster::empty();
    let found = Found {
        cluster: record,
        placement: placement.clone(),
    };
    assert_eq!(
        cluster.ask(0, Command::Found(found)),
        Reply::Founded(Ok(()))
    );
    for (group, nodes) in placement {
        let replicas = cluster.metadata.replicas(group).unwrap();
        let ids: Vec<u64> = replicas.members.keys().map(|replica| replica.0).collect();
        assert_eq!(ids, nodes, "{group}");
        assert!(
            replicas
                .members
                .iter()
                .all(|(id, member)| id.0 == member.node)
        );
    }
}

#[test]
fn a_founder_cannot_misplace_groups() {
    let everywhere = Found::everywhere(cluster()).placement;
    let with = |group, nodes: &[u64]| {
        let mut placement = everywhere.clone();
        placement.insert(group, nodes.to_vec());
        placement
    };
    let beyond = GroupKey::Partition(PartitionId(4));
    let mut missing = everywhere.clone();
    missing.remove(&GroupKey::Metadata);
    let cases = [
        (GroupKey::Metadata, missing),
        (beyond, with(beyond, &[11])),
        (GROUP, with(GROUP, &[])),
        (GROUP, with(GROUP, &[11, 11])),
        (GROUP, with(GROUP, &[99])),
    ];
    for (group, placement) in cases {
        let mut founding = Cluster::empty();
        let cluster = cluster();
        let reply = founding.ask(0, Command::Found(Found { cluster, placement }));
        assert_eq!(reply, Reply::Founded(Err(FoundError::Misplaced(group))));
        assert!(founding.metadata.groups().is_empty());
    }
}

#[test]
fn a_cluster_needs_a_replication_and_distinct_nodes() {
    let twice = NodeRecord::storage(11, "again:1");
    let broken = [
        (0, None, FoundError::Replication(0)),
        (8, None, FoundError::Replication(8)),
        (3, Some(twice), FoundError::NodeTwice(11)),
    ];
    for (replication, more, error) in broken {
        let mut record = cluster();
        record.replication = replication;
        record.nodes.extend(more);
        let mut founding = Cluster::empty();
        let reply = founding.ask(0, Command::Found(Found::everywhere(record)));
        assert_eq!(reply, Reply::Founded(Err(error)));
    }
}

#[test]
fn a_node_joins_moves_and_stays_itself() {
    let mut cluster = Cluster::founded();
    assert_eq!(join(&mut cluster, 14), Reply::NodeJoined(Ok(Joined::New)));
    assert_eq!(join(&mut cluster, 14), Reply::NodeJoined(Ok(Joined::Known)));
    let moved = JoinNode {
        node: 14,
        address: "elsewhere:1".to_owned(),
        zone: "east".to_owned(),
        certificate_name: Some("fourteen".to_owned()),
        storage: true,
    };
    let reply = cluster.ask(2, Command::JoinNode(moved.clone()));
    assert_eq!(reply, Reply::NodeJoined(Ok(Joined::Changed)));
    let record = cluster.metadata.node(14).unwrap();
    assert_eq!(record.zone, "east");
    assert_eq!(record.state, NodeState::Active);

    for certificate_name in [None, Some("another".to_owned())] {
        let swapped = JoinNode {
            certificate_name,
            ..moved.clone()
        };
        let reply = cluster.ask(3, Command::JoinNode(swapped));
        let error = JoinNodeError::OtherCertificate(14);
        assert_eq!(reply, Reply::NodeJoined(Err(error)));
    }
}

#[test]
fn what_cannot_join_is_told_why() {
    let node = |node, zone: &str, storage| {
        Command::JoinNode(JoinNode {
            node,
            address: String::new(),
            zone: zone.to_owned(),
            certificate_name: None,
            storage,
        })
    };
    let refused = |error| Reply::NodeJoined(Err(error));
    let early = Cluster::empty().ask(0, node(1, "", true));
    assert_eq!(early, refused(JoinNodeError::NotFounded));

    let mut cluster = Cluster::founded();
    let long = "z".repeat(NODE_TEXT_BYTES_MAX + 1);
    let reply = cluster.ask(0, node(14, &long, true));
    let error = JoinNodeError::TextTooLong(NODE_TEXT_BYTES_MAX as u32 + 1);
    assert_eq!(reply, refused(error));
    let reply = cluster.ask(0, node(11, "", false));
    let error = JoinNodeError::HasReplicas {
        node: 11,
        replicas: 5,
    };
    assert_eq!(reply, refused(error));
    for more in 0..NODES_MAX as u64 - 3 {
        let reply = cluster.ask(0, node(1_000 + more, "", false));
        assert_eq!(reply, Reply::NodeJoined(Ok(Joined::New)));
    }
    let reply = cluster.ask(0, node(14, "", true));
    assert_eq!(reply, refused(JoinNodeError::TooManyNodes));
}

#[test]
fn a_replica_moves_step_by_step() {
    let mut cluster = Cluster::founded();
    join(&mut cluster, 14);
    assert_eq!(start(&mut cluster, 1, Some((77, 14)), Some(11)), Ok(2));
    let (voter, joining, leaving) = (Role::Voter, Role::Joining, Role::Leaving);
    let under_way = [
        (11, 11, leaving),
        (12, 12, voter),
        (13, 13, voter),
        (77, 14, joining),
    ];
    assert_eq!(roles(&cluster), under_way);

    // Nobody may take a voter away before another votes in its place.
    let early = step(&mut cluster, removed(11, 2));
    assert_eq!(early, Err(MoveStepError::SuccessorFirst(ReplicaId(77))));
    assert_eq!(roles(&cluster), under_way);

    assert_eq!(step(&mut cluster, promoted(77, 2)), Ok(3));
    assert_eq!(step(&mut cluster, promoted(77, 2)), Ok(3), "told twice");
    let late = step(&mut cluster, removed(11, 2));
    assert_eq!(late, Err(MoveStepError::Stale(3)));
    assert_eq!(step(&mut cluster, removed(11, 3)), Ok(4));
    assert_eq!(step(&mut cluster, removed(11, 3)), Ok(4), "told twice");
    assert_eq!(
        roles(&cluster),
        [(12, 12, voter), (13, 13, voter), (77, 14, voter)]
    );
    assert_eq!(cluster.metadata.replicas_on(11), 4);
}

#[test]
fn what_was_leaving_stays_when_its_successor_is_given_up() {
    let mut cluster = Cluster::founded();
    join(&mut cluster, 14);
    assert_eq!(start(&mut cluster, 1, Some((77, 14)), Some(11)), Ok(2));
    assert_eq!(step(&mut cluster, abandon(1)), Err(MoveStepError::Stale(2)));
    assert_eq!(step(&mut cluster, abandon(2)), Ok(3));
    let (voter, abandoned) = (Role::Voter, Role::Abandoned);
    assert_eq!(
        roles(&cluster),
        [
            (11, 11, voter),
            (12, 12, voter),
            (13, 13, voter),
            (77, 14, abandoned)
        ]
    );
    // A driver that had promoted it in the meantime comes too late, and it is taken out again.
    let late = step(&mut cluster, promoted(77, 2));
    assert_eq!(late, Err(MoveStepError::Stale(3)));
    assert_eq!(
        step(&mut cluster, abandon(3)),
        Err(MoveStepError::NothingToAbandon)
    );
    assert_eq!(step(&mut cluster, removed(77, 3)), Ok(4));
    assert_eq!(roles(&cluster).len(), 3);
}

#[test]
fn a_damaged_replica_goes_at_once_and_another_comes_to_its_node() {
    let mut cluster = Cluster::founded();
    assert_eq!(step(&mut cluster, damaged(11)), Ok(2));
    assert_eq!(step(&mut cluster, damaged(11)), Ok(2), "told twice");
    assert_eq!(step(&mut cluster, damaged(99)), Ok(2), "long gone");
    let replicas = cluster.metadata.replicas(GROUP).unwrap();
    assert!(replicas.is_moving() && !replicas.is_lost());
    let moving = start(&mut cluster, 2, Some((77, 11)), None);
    assert_eq!(moving, Err(StartMoveError::Moving));
    assert_eq!(step(&mut cluster, removed(11, 2)), Ok(3));
    assert_eq!(start(&mut cluster, 3, Some((77, 11)), None), Ok(4));
    assert_eq!(step(&mut cluster, promoted(77, 4)), Ok(5));
    assert_eq!(roles(&cluster).len(), 3);
}

#[test]
fn a_damaged_newcomer_ends_its_move_and_a_damaged_leaver_waits_for_nobody() {
    let mut cluster = Cluster::founded();
    join(&mut cluster, 14);
    assert_eq!(start(&mut cluster, 1, Some((77, 14)), Some(11)), Ok(2));
    assert_eq!(step(&mut cluster, damaged(77)), Ok(3));
    let (voter, damaged_role) = (Role::Voter, Role::Damaged);
    assert_eq!(
        roles(&cluster),
        [
            (11, 11, voter),
            (12, 12, voter),
            (13, 13, voter),
            (77, 14, damaged_role)
        ]
    );
    assert_eq!(step(&mut cluster, removed(77, 3)), Ok(4));

    assert_eq!(start(&mut cluster, 4, Some((78, 14)), Some(11)), Ok(5));
    assert_eq!(step(&mut cluster, damaged(11)), Ok(6));
    assert_eq!(step(&mut cluster, removed(11, 6)), Ok(7));
    assert_eq!(step(&mut cluster, promoted(78, 7)), Ok(8));
}

#[test]
fn a_group_with_most_of_its_voters_damaged_is_lost_and_keeps_them() {
    let mut cluster = Cluster::founded();
    for (replica, version) in [(11, 2), (12, 3)] {
        assert_eq!(step(&mut cluster, damaged(replica)), Ok(version));
    }
    assert!(cluster.metadata.replicas(GROUP).unwrap().is_lost());
    assert_eq!(roles(&cluster).len(), 3);
}

#[test]
fn a_voter_that_cannot_be_spared_any_more_stays() {
    let mut cluster = Cluster::founded();
    assert_eq!(start(&mut cluster, 1, None, Some(11)), Ok(2));
    assert_eq!(step(&mut cluster, abandon(2)), Ok(3));
    let late = step(&mut cluster, removed(11, 2));
    assert_eq!(late, Err(MoveStepError::Stale(3)));
    assert!(
        roles(&cluster)
            .iter()
            .all(|(.., role)| *role == Role::Voter)
    );
    let again = step(&mut cluster, abandon(3));
    assert_eq!(again, Err(MoveStepError::NothingToAbandon));
}

#[test]
fn a_founding_replica_never_comes_back_under_its_id() {
    let mut cluster = Cluster::founded();
    assert_eq!(start(&mut cluster, 1, None, Some(11)), Ok(2));
    assert_eq!(step(&mut cluster, removed(11, 2)), Ok(3));
    let again = start(&mut cluster, 3, Some((11, 11)), None);
    assert_eq!(again, Err(StartMoveError::ReplicaKnown(ReplicaId(11))));
    assert_eq!(start(&mut cluster, 3, Some((78, 11)), None), Ok(4));
}

#[test]
fn the_last_voter_goes_only_after_another() {
    let mut cluster = Cluster::founded();
    let mut version = 1;
    for node in [12, 13] {
        version = start(&mut cluster, version, None, Some(node)).unwrap();
        version = step(&mut cluster, removed(node, version)).unwrap();
    }
    let last = start(&mut cluster, version, None, Some(11));
    assert_eq!(last, Err(StartMoveError::LastVoter(ReplicaId(11))));
    version = start(&mut cluster, version, Some((77, 12)), Some(11)).unwrap();
    version = step(&mut cluster, promoted(77, version)).unwrap();
    step(&mut cluster, removed(11, version)).unwrap();
    assert_eq!(roles(&cluster), [(77, 12, Role::Voter)]);
}

#[test]
fn a_node_is_not_drained_when_its_replicas_have_nowhere_to_go() {
    let mut cluster = Cluster::founded();
    let needed = SetNodeStateError::TooFewNodes {
        group: GroupKey::Metadata,
        places: 2,
        needed: 3,
    };
    let drained = set_state(&mut cluster, 11, NodeState::Draining);
    assert_eq!(drained, Err(needed));
    assert_eq!(
        needed.to_string(),
        "without this node 2 storage nodes are left for metadata, which needs 3"
    );
    let gone = set_state(&mut cluster, 11, NodeState::Decommissioned);
    assert_eq!(gone, Err(needed));

    // A cordoned node keeps what it has and takes nothing.
    join(&mut cluster, 14);
    set_state(&mut cluster, 14, NodeState::Cordoned).unwrap();
    assert_eq!(
        set_state(&mut cluster, 11, NodeState::Draining),
        Err(needed)
    );
    set_state(&mut cluster, 14, NodeState::Active).unwrap();
    set_state(&mut cluster, 12, NodeState::Cordoned).unwrap();
    let drained = set_state(&mut cluster, 11, NodeState::Draining);
    assert_eq!(drained, Ok(NodeState::Draining));
    // The next one would take from the first what it was promised.
    assert!(set_state(&mut cluster, 13, NodeState::Draining).is_err());
    let changed = set_state(&mut cluster, 11, NodeState::Active);
    assert_eq!(changed, Ok(NodeState::Active), "a drain can be taken back");
}

#[test]
fn fewer_replicas_need_fewer_nodes() {
    let mut cluster = Cluster::founded();
    let fewer = Command::SetReplication(SetReplication { replication: 2 });
    assert_eq!(cluster.ask(1, fewer), Reply::ReplicationSet(Ok(())));
    let drained = set_state(&mut cluster, 11, NodeState::Draining);
    assert_eq!(drained, Ok(NodeState::Draining));
}

#[test]
fn a_node_is_decommissioned_when_nothing_is_left_on_it() {
    let mut cluster = Cluster::founded();
    let fewer = Command::SetReplication(SetReplication { replication: 2 });
    cluster.ask(1, fewer);
    let wanted = NodeState::Decommissioned;
    let under_way = set_state(&mut cluster, 11, wanted);
    assert_eq!(under_way, Ok(NodeState::Decommissioning));
    let groups: Vec<GroupKey> = cluster.metadata.groups().keys().copied().collect();
    for group in groups {
        let replica = ReplicaId(11);
        let still = set_state(&mut cluster, 11, wanted);
        assert_eq!(still, Ok(NodeState::Decommissioning));
        let start = StartMove {
            group,
            version: 1,
            add: None,
            remove: Some(replica),
        };
        cluster.ask(1, Command::StartMove(start));
        let removed = ReplicaRemoved {
            group,
            replica,
            version: 2,
        };
        assert_eq!(step(&mut cluster, Command::ReplicaRemoved(removed)), Ok(3));
    }
    assert_eq!(set_state(&mut cluster, 11, wanted), Ok(wanted));
    assert_eq!(
        set_state(&mut cluster, 11, wanted),
        Ok(wanted),
        "asked twice"
    );

    let back = set_state(&mut cluster, 11, NodeState::Active);
    assert_eq!(back, Err(SetNodeStateError::Decommissioned(11)));
    let joined = join(&mut cluster, 11);
    let error = JoinNodeError::Decommissioned(11);
    assert_eq!(joined, Reply::NodeJoined(Err(error)));
    let version = cluster.metadata.replicas(GROUP).unwrap().version;
    let placed = start(&mut cluster, version, Some((77, 11)), None);
    let state = wanted;
    assert_eq!(
        placed,
        Err(StartMoveError::NodeNotActive { node: 11, state })
    );
    let tombstones: BTreeMap<u64, NodeState> = cluster
        .metadata
        .cluster()
        .map(|it| it.nodes.iter().map(|it| (it.node, it.state)).collect())
        .unwrap();
    assert_eq!(tombstones[&11], wanted, "the record stays");
}
