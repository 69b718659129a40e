use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn address(peer: usize) -> String {
    format!("node-{peer}:7600")
}

fn settings(node: u64, peer: usize, count: usize) -> FoundingSettings {
    FoundingSettings {
        node,
        address: address(peer),
        peers: (0..count).rev().map(address).collect(),
        partitions: 32,
    }
}

/// One machine: what runs on it, and the volume that outlives the process.
struct Machine {
    node: u64,
    volume: Stage,
    running: Option<Applicant>,
    /// Promises that the process has collected.
    promises: Vec<(u64, String)>,
}

/// Machines whose processes start, step, die and lose volumes in any order.
struct World {
    machines: Vec<Machine>,
    minted: u64,
    clusters: u128,
}

impl World {
    fn new(count: usize) -> Self {
        let mut world = Self {
            machines: Vec::new(),
            minted: 0,
            clusters: 0,
        };
        for _ in 0..count {
            let machine = world.new_machine();
            world.machines.push(machine);
        }
        world
    }

    fn new_machine(&mut self) -> Machine {
        self.minted += 1;
        Machine {
            node: self.minted,
            volume: Stage::Empty,
            running: None,
            promises: Vec::new(),
        }
    }

    fn start(&mut self, peer: usize) {
        let count = self.machines.len();
        let machine = &mut self.machines[peer];
        let stage = machine.volume.clone();
        machine.running = Some(Applicant::new(settings(machine.node, peer, count), stage));
        machine.promises.clear();
    }

    fn lose_volume(&mut self, peer: usize) {
        self.machines[peer] = self.new_machine();
    }

    fn enter(&mut self, peer: usize, stage: Stage) {
        let machine = &mut self.machines[peer];
        machine.volume = stage.clone();
        if let Some(applicant) = &mut machine.running {
            applicant.enter(stage);
        }
    }

    /// One look at the others and what follows from it; `deaf` cannot be heard.
    fn step(&mut self, peer: usize, deaf: Option<usize>) -> Option<Step> {
        let heard: Vec<(String, Option<Heard>)> = (0..self.machines.len())
            .filter(|other| *other != peer)
            .map(|other| {
                let machine = &self.machines[other];
                let applicant = machine.running.as_ref().filter(|_| deaf != Some(other));
                let heard = applicant.map(|applicant| Heard {
                    node: applicant.node(),
                    stage: applicant.stage().clone(),
                });
                (address(other), heard)
            })
            .collect();
        let step = self.machines[peer].running.as_ref()?.next(&heard);
        if let Step::Enter(stage) = &step {
            self.enter(peer, stage.clone());
        }
        Some(step)
    }

    /// The founder asks one more peer; with the last promise it founds.
    fn ask(&mut self, peer: usize) {
        let Some(founder) = &self.machines[peer].running else {
            return;
        };
        if *founder.stage()
            != (Stage::Promised {
                founder: founder.node(),
            })
        {
            return;
        }
        let (node, peers) = (founder.node(), founder.peers().to_vec());
        let asked = self.machines[peer].promises.len();
        let others: Vec<usize> = (0..self.machines.len()).filter(|o| *o != peer).collect();
        if let Some(other) = others.get(asked) {
            let Some(applicant) = &self.machines[*other].running else {
                return;
            };
            let promised = (applicant.node(), address(*other));
            match applicant.promise(node, &peers) {
                Ok(Some(stage)) => self.enter(*other, stage),
                Ok(None) => {}
                Err(_) => return,
            }
            self.machines[peer].promises.push(promised);
            return;
        }
        self.clusters += 1;
        let promises = std::mem::take(&mut self.machines[peer].promises);
        let founder = self.machines[peer].running.as_ref().expect("it runs");
        let stage = founder
            .found(self.clusters, promises)
            .expect("distinct nodes");
        let members = self.members();
        assert!(members.is_empty(), "a second cluster beside {members:?}");
        self.enter(peer, stage);
    }

    /// The clusters that volumes belong to.
    fn members(&self) -> BTreeSet<u128> {
        let volumes = self.machines.iter().map(|machine| &machine.volume);
        volumes
            .filter_map(|volume| match volume {
                Stage::Member { cluster, .. } => Some(cluster.cluster_id),
                Stage::Empty | Stage::Promised { .. } => None,
            })
            .collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Start(usize),
    Kill(usize),
    LoseVolume(usize),
    Step(usize, Option<usize>),
    Ask(usize),
}

fn act(losses: bool) -> impl Strategy<Value = Act> {
    let peer = 0..5_usize;
    prop_oneof![
        4 => peer.clone().prop_map(Act::Start),
        2 => peer.clone().prop_map(Act::Kill),
        u32::from(losses) => peer.clone().prop_map(Act::LoseVolume),
        8 => (peer.clone(), prop::option::weighted(0.2, peer.clone()))
            .prop_map(|(peer, deaf)| Act::Step(peer, deaf)),
        8 => peer.prop_map(Act::Ask),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Any order of starts, deaths and lost volumes: no cluster forms while a volume is of another.
    #[test]
    fn two_clusters_never_stand_side_by_side(
        count in 1..6_usize,
        acts in prop::collection::vec(act(true), 0..120),
    ) {
        let mut world = World::new(count);
        for act in acts {
            match act {
                Act::Start(peer) if peer < count => world.start(peer),
                Act::Kill(peer) if peer < count => world.machines[peer].running = None,
                Act::LoseVolume(peer) if peer < count => world.lose_volume(peer),
                Act::Step(peer, deaf) if peer < count => drop(world.step(peer, deaf)),
                Act::Ask(peer) if peer < count => world.ask(peer),
                _ => {}
            }
            prop_assert!(world.members().len() <= 1);
        }
    }

    /// Without lost volumes every order of starts ends in one cluster of all.
    #[test]
    fn all_are_founded_in_the_end(
        count in 1..6_usize,
        acts in prop::collection::vec(act(false), 0..60),
    ) {
        let mut world = World::new(count);
        for act in acts {
            match act {
                Act::Start(peer) if peer < count => world.start(peer),
                Act::Kill(peer) if peer < count => world.machines[peer].running = None,
                Act::Step(peer, deaf) if peer < count => drop(world.step(peer, deaf)),
                Act::Ask(peer) if peer < count => world.ask(peer),
                _ => {}
            }
        }
        (0..count).for_each(|peer| world.start(peer));
        for _ in 0..3 {
            (0..count).for_each(|peer| drop(world.step(peer, None)));
        }
        (0..count).for_each(|_| world.ask(0));
        for peer in 0..count {
            world.step(peer, None);
            let done = world.step(peer, None);
            prop_assert!(matches!(done, Some(Step::Done(_))), "{peer}: {done:?}");
        }
        prop_assert_eq!(world.members().len(), 1);
    }
}

fn founded(count: usize) -> World {
    let mut world = World::new(count);
    (0..count).for_each(|peer| world.start(peer));
    world.step(0, None);
    (0..count).for_each(|_| world.ask(0));
    (0..count).for_each(|peer| drop(world.step(peer, None)));
    assert_eq!(world.members().len(), 1, "the cluster is founded");
    world
}

#[test]
fn three_lost_volumes_of_five_found_nothing_and_join() {
    let mut world = founded(5);
    (0..3).for_each(|peer| world.lose_volume(peer));
    (0..3).for_each(|peer| world.start(peer));
    // With both members away it is not known that there is a cluster; still nobody founds one.
    (3..5).for_each(|peer| world.machines[peer].running = None);
    for _ in 0..10 {
        (0..3).for_each(|peer| world.ask(peer));
        let silent = |peer| Waiting::Silent {
            address: address(peer),
        };
        for peer in 0..3 {
            let step = world.step(peer, None);
            assert_eq!(step, Some(Step::Wait(vec![silent(3), silent(4)])));
        }
    }
    (3..5).for_each(|peer| world.start(peer));
    for peer in 0..3 {
        world.step(peer, None);
        let step = world.step(peer, None);
        let Some(Step::Done(cluster)) = step else {
            panic!("{step:?}");
        };
        let founders: Vec<u64> = cluster.founders.iter().map(|(node, _)| *node).collect();
        let node = world.machines[peer]
            .running
            .as_ref()
            .expect("it runs")
            .node();
        assert!(
            !founders.contains(&node),
            "it is another node than the one that was lost"
        );
    }
    assert_eq!(world.members().len(), 1);
}

#[test]
fn a_promise_outlives_the_founder_that_lost_its_volume() {
    let mut world = World::new(3);
    (0..3).for_each(|peer| world.start(peer));
    world.step(0, None);
    world.ask(0);
    let lost = world.machines[0].node;
    world.lose_volume(0);
    world.start(0);
    let step = world.step(0, None);
    let expected = Waiting::PromisedToAnother {
        address: address(1),
        founder: lost,
        by: address(0),
    };
    assert_eq!(step, Some(Step::Wait(vec![expected])));
}

#[test]
fn replicas_of_the_founding_are_opened_once_and_not_by_who_joins() {
    let mut world = founded(3);
    let founds = |world: &World, peer: usize| {
        let applicant = world.machines[peer].running.as_ref().expect("it runs");
        applicant.founds_groups()
    };
    assert!((0..3).all(|peer| founds(&world, peer)));
    let stage = world.machines[0]
        .running
        .as_ref()
        .and_then(Applicant::groups_founded);
    world.enter(0, stage.expect("not yet"));
    world.start(0);
    assert!(!founds(&world, 0) && founds(&world, 1));
    world.lose_volume(1);
    world.start(1);
    world.step(1, None);
    assert!(!founds(&world, 1), "another node joined");
}

#[test]
fn lists_that_differ_are_never_founded_together() {
    let one = Applicant::new(settings(1, 0, 3), Stage::Empty);
    let other = Applicant::new(settings(2, 1, 2), Stage::Empty);
    let refused = other.promise(one.node(), one.peers());
    assert!(matches!(refused, Err(Refusal::OtherPeers { .. })));
}

#[test]
fn one_node_under_two_addresses_is_noticed() {
    let mut applicant = Applicant::new(settings(1, 0, 2), Stage::Empty);
    let itself = Heard {
        node: 1,
        stage: Stage::Empty,
    };
    let heard = [(address(1), Some(itself))];
    let twice = Waiting::OneNodeTwice {
        one: address(0),
        other: address(1),
        node: 1,
    };
    assert_eq!(applicant.next(&heard), Step::Wait(vec![twice.clone()]));
    applicant.enter(Stage::Promised { founder: 1 });
    assert_eq!(applicant.found(9, vec![(1, address(1))]), Err(twice));
}

#[test]
fn who_promised_itself_joins_when_its_founder_founded_alone() {
    let mut world = World::new(3);
    (0..3).for_each(|peer| world.start(peer));
    world.step(0, None);
    world.ask(0);
    let founder = world.machines[0].running.as_ref().expect("it runs");
    let (stage, cluster) = founder.found_alone(7).expect("part of no cluster yet");
    assert_eq!(cluster.founders, [(world.machines[0].node, address(0))]);
    world.enter(0, stage);
    for peer in 0..3 {
        world.step(peer, None);
        let done = world.step(peer, None);
        assert_eq!(done, Some(Step::Done(cluster.clone())), "{peer}");
    }
}

#[test]
fn who_promised_itself_to_another_stays_out_of_what_was_founded_alone() {
    let mut world = World::new(3);
    (0..3).for_each(|peer| world.start(peer));
    world.step(0, None);
    (0..2).for_each(|_| world.ask(0));
    let alone = world.machines[1].running.as_ref().expect("it runs");
    let (stage, _) = alone.found_alone(7).expect("part of no cluster yet");
    world.enter(1, stage);
    let waits = Waiting::FoundedWithout {
        address: address(1),
        cluster: 7,
    };
    assert_eq!(world.step(2, None), Some(Step::Wait(vec![waits])));
    world.lose_volume(2);
    world.start(2);
    world.step(2, None);
    assert!(matches!(world.step(2, None), Some(Step::Done(_))));
}

#[test]
fn a_member_founds_nothing_alone() {
    let world = founded(3);
    let member = world.machines[1].running.as_ref().expect("it runs");
    let Stage::Member { cluster, .. } = member.stage() else {
        panic!("it is a member");
    };
    let refused = member.found_alone(7).expect_err("a member");
    assert_eq!(refused, AlreadyFounded(cluster.cluster_id));
}
