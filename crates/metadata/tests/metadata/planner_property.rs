//! From wherever a cluster is, the planner brings it to rest, and to rest where it should be.

use crate::world::World;
use hikyaku_metadata::{GroupKey, NodeRecord, NodeState, Placement, Replicas};
use hikyaku_queue::PartitionId;
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};
use proptest::sample::select;

/// Something that happens to the node of that number, counted round.
#[derive(Debug, Clone)]
enum Event {
    Silent(usize, u64),
    State(usize, NodeState),
    Join(&'static str),
    Replication(u8),
    /// The planner is asked so often.
    Rounds(usize),
}

#[derive(Debug, Clone)]
struct Life {
    zones: Vec<&'static str>,
    replication: u8,
    /// For each group the nodes that have it, as bits.
    placement: Vec<u8>,
    moves: usize,
    moves_per_node: usize,
    events: Vec<Event>,
}

const ALIVE: u64 = 0;
const SILENT: u64 = 30_000;
const GIVEN_UP: u64 = 90_000;
const DEAD: u64 = 700_000;

fn zone() -> impl Strategy<Value = &'static str> {
    select(vec!["", "a", "b", "c"])
}

fn life() -> impl Strategy<Value = Life> {
    let shape = (vec(zone(), 1..8), 1_u8..6, vec(1_u8..=255, 2..14));
    let limits = (1_usize..6, 1_usize..4);
    (shape, limits, vec(event(), 0..12)).prop_map(
        |((zones, replication, placement), (moves, moves_per_node), events)| Life {
            zones,
            replication,
            placement,
            moves,
            moves_per_node,
            events,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let silent = prop_oneof![
        3 => Just(ALIVE),
        1 => Just(SILENT),
        1 => Just(GIVEN_UP),
        2 => Just(DEAD)
    ];
    let states = vec![
        NodeState::Active,
        NodeState::Cordoned,
        NodeState::Draining,
        NodeState::Decommissioned,
    ];
    prop_oneof![
        3 => (0_usize..8, silent).prop_map(|(node, ms)| Event::Silent(node, ms)),
        3 => (0_usize..8, select(states)).prop_map(|(node, state)| Event::State(node, state)),
        2 => zone().prop_map(Event::Join),
        1 => (1_u8..6).prop_map(Event::Replication),
        4 => (1_usize..20).prop_map(Event::Rounds),
    ]
}

impl Life {
    fn begin(&self) -> World {
        let nodes: Vec<(u64, &str)> = (1..).zip(self.zones.iter().copied()).collect();
        let mut placement = Placement::new();
        for (number, bits) in self.placement.iter().enumerate() {
            let group = match number {
                0 => GroupKey::Metadata,
                number => GroupKey::Partition(PartitionId(number as u32 - 1)),
            };
            let on = nodes
                .iter()
                .map(|(node, _)| *node)
                .filter(|node| bits >> (node - 1) & 1 == 1);
            let mut on: Vec<u64> = on.collect();
            if on.is_empty() {
                on.push(1 + u64::from(*bits) % nodes.len() as u64);
            }
            placement.insert(group, on);
        }
        let mut world = World::founded(&nodes, self.replication, placement);
        world.limits.moves = self.moves;
        world.limits.moves_per_node = self.moves_per_node;
        world
    }

    fn run(&self) -> World {
        let mut world = self.begin();
        for event in &self.events {
            let node = |number: usize| world.nodes()[number % world.nodes().len()].node;
            match *event {
                Event::Silent(number, ms) => world.silence(node(number), ms),
                // What is refused changes nothing.
                Event::State(number, state) => drop(world.set_state(node(number), state)),
                Event::Join(zone) => world.join(1 + world.nodes().len() as u64, zone),
                Event::Replication(replication) => world.set_replication(replication),
                Event::Rounds(rounds) => {
                    for round in 0..rounds {
                        world.round(round);
                    }
                }
            }
        }
        // In the end what is silent has been so for long enough to be given up.
        let silent: Vec<u64> = world
            .seen
            .silent_ms
            .iter()
            .filter(|(_, ms)| **ms == SILENT)
            .map(|(node, _)| *node)
            .collect();
        for node in silent {
            world.silence(node, GIVEN_UP);
        }
        world
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_cluster_comes_to_rest_where_it_should(life in life()) {
        let mut world = life.run();
        let lost: Vec<(GroupKey, Replicas)> = world
            .groups()
            .filter(|(_, it)| !world.has_majority(it))
            .map(|(group, replicas)| (group, replicas.clone()))
            .collect();
        world.settle();
        for (group, replicas) in lost {
            assert_eq!(world.cluster.metadata.groups()[&group], replicas, "a lost group was touched");
        }
        let rest = Rest { world: &world };
        for (group, replicas) in world.groups().filter(|(_, it)| world.has_majority(it)) {
            assert!(!replicas.is_moving(), "{group} stopped on its way");
            rest.is_where_it_may_be(group, replicas);
            rest.is_spread(group, replicas);
        }
        rest.is_balanced();
        rest.leaders_are_in_their_places();
        rest.empty_nodes_are_decommissioned();
    }

    /// Without zones and failures nothing is in the way.
    #[test]
    fn healthy_nodes_have_equally_many_replicas(
        placement in vec(1_u8..=255, 2..30), nodes in 1_u64..8, replication in 1_u8..6,
    ) {
        let life = Life {
            zones: vec![""; nodes as usize],
            replication,
            placement,
            moves: 4,
            moves_per_node: 2,
            events: Vec::new(),
        };
        let mut world = life.run();
        world.settle();
        let (load, leads) = (world.load(), world.leads());
        let wished = nodes.min(replication.into()) as usize;
        assert!(world.groups().all(|(_, it)| it.members.len() == wished));
        let uneven = load.values().max().unwrap() - load.values().min().unwrap();
        assert!(uneven <= 1, "{load:?}");
        if nodes <= replication.into() {
            let uneven = leads.values().max().unwrap() - leads.values().min().unwrap();
            assert!(uneven <= 1, "everybody can lead everything: {leads:?}");
        }
    }
}

/// What holds of a cluster at rest.
struct Rest<'a> {
    world: &'a World,
}

impl Rest<'_> {
    fn takers(&self, replicas: &Replicas) -> impl Iterator<Item = &NodeRecord> {
        let takers = self.world.nodes().iter();
        takers.filter(|it| {
            it.takes_replicas() && self.world.is_alive(it.node) && replicas.on(it.node).is_none()
        })
    }

    fn record(&self, node: u64) -> &NodeRecord {
        self.world.cluster.metadata.node(node).unwrap()
    }

    fn same_zone(&self, one: u64, other: u64) -> bool {
        let zone = &self.record(one).zone;
        one == other || (!zone.is_empty() && *zone == self.record(other).zone)
    }

    /// Replicas in the zone of a node, were the one on `from` on `to`.
    fn in_zone(&self, replicas: &Replicas, node: u64, from: u64, to: u64) -> usize {
        let nodes = replicas
            .members
            .values()
            .map(|it| if it.node == from { to } else { it.node });
        nodes.filter(|it| self.same_zone(*it, node)).count()
    }

    fn is_whole(&self, replicas: &Replicas) -> bool {
        replicas
            .members
            .values()
            .all(|it| self.world.is_alive(it.node))
    }

    fn is_where_it_may_be(&self, group: GroupKey, replicas: &Replicas) {
        let wished = usize::from(self.world.cluster.metadata.cluster().unwrap().replication);
        let room = self.takers(replicas).next().is_some();
        let count = replicas.members.len();
        assert!(
            count >= wished || !room,
            "{group} has too few: {replicas:?}"
        );
        let alive = replicas
            .members
            .values()
            .filter(|it| self.world.is_alive(it.node))
            .count();
        // A silent one goes first; then one that is alive, if the rest is a majority.
        let removable = alive < count || count > 1;
        assert!(
            count <= wished || !removable,
            "{group} has too many: {replicas:?}"
        );
        for member in replicas.members.values() {
            let silent = self.world.seen.silent_ms[&member.node];
            let stays = self.record(member.node).keeps_replicas() && silent < 600_000;
            assert!(stays || !room, "{group} should have left {}", member.node);
        }
    }

    fn is_spread(&self, group: GroupKey, replicas: &Replicas) {
        if !self.is_whole(replicas) {
            return;
        }
        for member in replicas
            .members
            .values()
            .filter(|it| self.record(it.node).takes_replicas())
        {
            let before = self.in_zone(replicas, member.node, member.node, member.node);
            for other in self.takers(replicas) {
                let after = self.in_zone(replicas, other.node, member.node, other.node);
                assert!(
                    after >= before,
                    "{group} is crowded: {replicas:?}, {} is free",
                    other.node
                );
            }
        }
    }

    fn is_balanced(&self) {
        let load = self.world.load();
        let groups = self.world.groups().filter(|(group, replicas)| {
            *group != GroupKey::Metadata && !replicas.is_moving() && self.is_whole(replicas)
        });
        for (group, replicas) in groups {
            for (from, more) in load
                .iter()
                .filter(|(from, _)| replicas.on(**from).is_some())
            {
                let free = load.iter().filter(|(to, _)| replicas.on(**to).is_none());
                for (to, _) in free.filter(|(_, less)| **less + 2 <= *more) {
                    let before = self.in_zone(replicas, *from, *from, *from);
                    let after = self.in_zone(replicas, *to, *from, *to);
                    assert!(
                        after > before,
                        "{group} could go from {from} to {to}: {load:?}"
                    );
                }
            }
        }
    }

    fn leaders_are_in_their_places(&self) {
        let leads = self.world.leads();
        for (group, replicas) in self.world.groups().filter(|(_, it)| !it.is_moving()) {
            let Some(leader) = self.world.seen.leaders.get(&group) else {
                continue;
            };
            let others = replicas.members.values().map(|it| it.node);
            let others = others.filter(|it| {
                let active = self.record(*it).state == NodeState::Active;
                active && it != leader && self.world.is_alive(*it)
            });
            for other in others {
                let active = self.record(*leader).state == NodeState::Active;
                assert!(active, "{leader} leads {group}, and {other} could");
                let few = leads[leader] < leads[&other] + 2;
                assert!(
                    few,
                    "{leader} leads {group}, and {other} leads less: {leads:?}"
                );
            }
        }
    }

    fn empty_nodes_are_decommissioned(&self) {
        let nodes = self.world.nodes().iter();
        for record in nodes.filter(|it| it.state == NodeState::Decommissioning) {
            assert!(self.world.cluster.metadata.replicas_on(record.node) > 0);
        }
    }
}
