//! What an operator sees the planner do.

use crate::world::World;
use hikyaku_metadata::{
    GroupKey, NodeState, PlacementLimits, ReplicaId, Reply, Role, Step, founding_placement,
};
use std::collections::{BTreeMap, BTreeSet};

const PARTITIONS: u32 = 32;

/// A cluster as founders place it, three replicas of each group.
fn founded(nodes: &[(u64, &str)]) -> World {
    let zones = nodes
        .iter()
        .map(|(node, zone)| (*node, (*zone).to_owned()))
        .collect();
    World::founded(nodes, 3, founding_placement(&zones, PARTITIONS, 3))
}

fn three() -> World {
    let mut world = founded(&[(1, ""), (2, ""), (3, "")]);
    world.settle();
    world
}

fn spread(loads: &BTreeMap<u64, usize>) -> usize {
    loads.values().max().unwrap() - loads.values().min().unwrap()
}

#[test]
fn a_new_cluster_has_nothing_to_do_but_share_its_leaders() {
    let mut world = founded(&[(1, ""), (2, ""), (3, "")]);
    assert_eq!(world.leads(), BTreeMap::from([(1, 33), (2, 0), (3, 0)]));
    world.settle();
    assert_eq!(world.moves, 0);
    assert_eq!(world.leads(), BTreeMap::from([(1, 11), (2, 11), (3, 11)]));
    assert_eq!(world.plan(), []);
}

#[test]
fn two_more_nodes_take_their_share() {
    let mut world = three();
    world.join(4, "");
    world.join(5, "");
    world.settle();
    assert!(
        world
            .groups()
            .all(|(_, replicas)| replicas.members.len() == 3)
    );
    assert!(spread(&world.load()) <= 1, "{:?}", world.load());
    assert!(spread(&world.leads()) <= 1, "{:?}", world.leads());
    // Two fifths of 99 replicas had to move, and not one more.
    assert_eq!(world.moves, 39);
    assert_eq!(world.nodes_of(GroupKey::Metadata), [1, 2, 3]);
}

#[test]
fn two_nodes_leave_and_are_gone() {
    let mut world = three();
    world.join(4, "");
    world.join(5, "");
    world.settle();
    for node in [4, 5] {
        let reply = world.set_state(node, NodeState::Decommissioned);
        assert_eq!(reply, Reply::NodeStateSet(Ok(NodeState::Decommissioning)));
    }
    world.settle();
    for node in [4, 5] {
        assert_eq!(world.cluster.metadata.replicas_on(node), 0);
        let record = world.cluster.metadata.node(node).unwrap();
        assert_eq!(record.state, NodeState::Decommissioned);
    }
    assert!(
        world
            .groups()
            .all(|(_, replicas)| replicas.members.len() == 3)
    );
    let refused = world.set_state(3, NodeState::Draining);
    assert!(
        matches!(refused, Reply::NodeStateSet(Err(_))),
        "{refused:?}"
    );
}

#[test]
fn a_drained_node_is_empty_and_stays() {
    let mut world = three();
    world.join(4, "");
    world.settle();
    world.set_state(2, NodeState::Draining);
    world.settle();
    assert_eq!(world.cluster.metadata.replicas_on(2), 0);
    assert_eq!(
        world.cluster.metadata.node(2).unwrap().state,
        NodeState::Draining
    );
    world.set_state(2, NodeState::Active);
    world.settle();
    assert!(spread(&world.load()) <= 1, "{:?}", world.load());
}

#[test]
fn a_single_node_grows_to_three() {
    let mut world = founded(&[(1, "")]);
    world.settle();
    assert_eq!(world.moves, 0);
    world.join(2, "");
    world.join(3, "");
    world.settle();
    assert!(
        world
            .groups()
            .all(|(_, replicas)| replicas.members.len() == 3)
    );
    assert_eq!(world.moves, 66);
}

#[test]
fn a_dead_node_is_replaced_when_it_stays_dead() {
    let mut world = three();
    world.join(4, "");
    world.settle();
    world.silence(2, 599_999);
    let moves = world.moves;
    world.settle();
    assert_eq!(world.moves, moves, "it may come back");
    world.silence(2, 600_000);
    world.settle();
    assert_eq!(world.cluster.metadata.replicas_on(2), 0);
    assert!(
        world
            .groups()
            .all(|(_, replicas)| replicas.members.len() == 3)
    );

    // It comes back with nothing, and takes its share anew.
    world.silence(2, 0);
    world.settle();
    assert!(spread(&world.load()) <= 1, "{:?}", world.load());
}

#[test]
fn a_dead_node_without_a_substitute_is_waited_for() {
    let mut world = three();
    world.silence(2, 3_600_000);
    world.settle();
    assert_eq!(world.moves, 0);
    assert_eq!(world.cluster.metadata.replicas_on(2), 33);
    // The node is made anew, with an empty volume and so another id.
    world.join(7, "");
    world.settle();
    assert_eq!(world.cluster.metadata.replicas_on(2), 0);
    assert_eq!(world.cluster.metadata.replicas_on(7), 33);
}

#[test]
fn dead_nodes_are_replaced_one_by_one() {
    let zones: Vec<(u64, &str)> = (1..=7).map(|node| (node, "")).collect();
    let mut world = founded(&zones);
    world.set_replication(5);
    world.settle();
    world.silence(6, 700_000);
    world.silence(7, 800_000);
    while world.cluster.metadata.replicas_on(7) > 0 {
        assert!(world.round(0));
        for (_, replicas) in world.groups() {
            assert_ne!(replicas.leaving().map(|(_, it)| it.node), Some(6));
        }
        let left = world
            .groups()
            .filter(|(_, it)| !it.is_moving() && it.on(7).is_some());
        if left.count() == 0 {
            break;
        }
    }
    world.settle();
    assert_eq!(world.cluster.metadata.replicas_on(6), 0);
}

#[test]
fn a_group_without_a_majority_is_left_alone() {
    let mut world = three();
    for node in [4, 5] {
        world.join(node, "");
    }
    world.silence(2, 700_000);
    world.silence(3, 700_000);
    assert_eq!(world.plan(), []);
    world.set_state(2, NodeState::Cordoned);
    world.set_state(1, NodeState::Draining);
    assert_eq!(world.plan(), []);
}

#[test]
fn a_node_nobody_has_heard_of_yet_is_neither_dead_nor_alive() {
    let mut world = three();
    world.join(4, "");
    world.seen.silent_ms.remove(&4);
    assert_eq!(world.plan(), [], "nothing goes there");
    world.seen.silent_ms.insert(4, 0);
    world.seen.silent_ms.remove(&2);
    world.seen.leaders.clear();
    assert_eq!(
        world.plan(),
        [],
        "nothing is balanced while a voter may be down"
    );
}

#[test]
fn zones_are_spread_when_they_become_known() {
    let mut world = three();
    for (node, zone) in [(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "c")] {
        world.join(node, zone);
    }
    world.settle();
    for (group, _) in world.groups() {
        let nodes = world.nodes_of(group);
        let zones: BTreeSet<&str> = nodes
            .iter()
            .map(|node| &*world.cluster.metadata.node(*node).unwrap().zone)
            .collect();
        assert_eq!(zones.len(), 3, "{group} is on {nodes:?}");
    }
    // The two lonely ones have every group; the three of one zone share the rest.
    let load = world.load();
    assert_eq!((load[&4], load[&5]), (33, 33));
    assert_eq!((load[&1], load[&2], load[&3]), (11, 11, 11));
}

#[test]
fn a_replica_that_cannot_catch_up_is_given_up() {
    let mut world = three();
    world.join(4, "");
    assert!(world.round(0));
    let (group, version) = {
        let moving = |(_, it): &(GroupKey, &hikyaku_metadata::Replicas)| it.joining().is_some();
        let (group, replicas) = world.groups().find(moving).expect("one is joining");
        (group, replicas.version)
    };
    let gives_up = |world: &World| world.plan().contains(&Step::Abandon { group, version });
    world.silence(4, 59_999);
    assert!(!gives_up(&world));
    world.silence(4, 60_000);
    assert!(gives_up(&world));
    world.silence(4, 0);
    world.set_state(4, NodeState::Draining);
    assert!(gives_up(&world), "what is to leave need not come");
    world.settle();
    assert_eq!(world.nodes_of(group), [1, 2, 3]);
}

#[test]
fn a_voter_that_cannot_be_spared_any_more_stays() {
    let mut world = three();
    world.set_replication(2);
    let [Step::Move { group, remove, .. }, ..] = world.plan()[..] else {
        panic!("nothing is removed: {:?}", world.plan());
    };
    assert_eq!(remove, Some(ReplicaId(1)));
    world.round(usize::MAX);
    let version = world.cluster.metadata.replicas(group).unwrap().version;
    // Of the two that stay one dies before the third is gone.
    world.silence(2, 60_000);
    let given_up = Step::Abandon { group, version };
    assert!(world.plan().contains(&given_up), "{:?}", world.plan());
    world.settle();
    assert!(
        world
            .groups()
            .all(|(_, replicas)| replicas.members.len() == 2)
    );
    assert_eq!(world.nodes_of(group), [1, 3], "the dead one went instead");
}

#[test]
fn a_cordoned_node_keeps_its_replicas_and_leads_nothing() {
    let mut world = three();
    world.set_state(1, NodeState::Cordoned);
    world.join(4, "");
    world.settle();
    assert_eq!(world.cluster.metadata.replicas_on(1), 33);
    assert_eq!(world.leads().get(&1), None);
    // It leads what nobody else can.
    world.silence(2, 20_000);
    world.silence(3, 20_000);
    world.silence(4, 20_000);
    assert_eq!(world.plan(), []);
}

#[test]
fn a_leader_that_leaves_hands_over_first() {
    let mut world = three();
    world.join(4, "");
    world.set_state(1, NodeState::Draining);
    let [Step::Move { group, remove, .. }, ..] = world.plan()[..] else {
        panic!("nothing is drained: {:?}", world.plan());
    };
    assert_eq!(remove, Some(ReplicaId(1)));
    while world
        .cluster
        .metadata
        .replicas(group)
        .unwrap()
        .on(1)
        .is_some()
    {
        world.seen.leaders.insert(group, 1);
        let leaves = |world: &World| {
            let replicas = world.cluster.metadata.replicas(group).unwrap();
            let leaving = replicas.leaving().map(|(_, it)| it.node);
            replicas.joining().is_none() && leaving == Some(1)
        };
        if leaves(&world) {
            let steps = world.plan();
            let moved = steps
                .iter()
                .any(|step| matches!(step, Step::TransferLeader { to_node, .. } if *to_node != 1));
            assert!(moved, "{steps:?}");
        }
        world.round(0);
    }
}

#[test]
fn leadership_goes_only_to_who_has_caught_up() {
    let mut world = founded(&[(1, ""), (2, ""), (3, "")]);
    for group in world.cluster.metadata.groups().keys() {
        world.seen.caught_up.insert(*group, [1, 3].into());
    }
    let steps = world.plan();
    assert!(
        matches!(steps[..], [Step::TransferLeader { to_node: 3, .. }]),
        "{steps:?}"
    );
    for nodes in world.seen.caught_up.values_mut() {
        nodes.remove(&3);
    }
    assert_eq!(world.plan(), []);
}

#[test]
fn leaders_are_left_alone_while_nodes_come_back_one_after_another() {
    let mut world = founded(&[(1, ""), (2, ""), (3, "")]);
    let lately = PlacementLimits::default().settle_ms - 1;
    world.seen.reached_ms.insert(2, lately);
    assert_eq!(world.plan(), []);
    world.silence(2, 20_000);
    assert_eq!(
        world.plan().len(),
        1,
        "who has gone again is not waited for"
    );
    world.silence(2, 0);
    world.seen.reached_ms.insert(2, lately + 1);
    assert_eq!(world.plan().len(), 1);
}

#[test]
fn fewer_replicas_are_removed_from_where_they_are_most() {
    let mut world = three();
    world.set_replication(1);
    world.settle();
    assert!(world.groups().all(|(_, replicas)| {
        replicas.members.len() == 1 && replicas.members.values().all(|it| it.role == Role::Voter)
    }));
    assert_eq!(world.load(), BTreeMap::from([(1, 11), (2, 11), (3, 11)]));
    assert_eq!(world.moves, 66, "each one removed, none moved");
}
