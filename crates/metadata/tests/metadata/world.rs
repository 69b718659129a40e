//! A cluster that does what the planner says: nodes live and die, joining replicas catch up, leaving
//! ones go, leaders are elected. Every step is checked as it is taken.

use crate::harness::Cluster;
use hikyaku_metadata::{
    AbandonMove, ClusterRecord, Command, Found, GroupKey, JoinNode, Member, NodeRecord, NodeState,
    Observed, Placement, PlacementLimits, ReplicaId, ReplicaPromoted, ReplicaRemoved, Replicas,
    Reply, Role, SetNodeState, SetReplication, StartMove, Step, plan,
};
use std::collections::{BTreeMap, BTreeSet};

pub struct World {
    pub cluster: Cluster,
    pub seen: Observed,
    pub limits: PlacementLimits,
    /// Moves started.
    pub moves: usize,
    next_replica: u64,
}

impl World {
    /// Founds a cluster whose nodes are given with their zones.
    pub fn founded(nodes: &[(u64, &str)], replication: u8, placement: Placement) -> Self {
        let node = |(node, zone): &(u64, &str)| NodeRecord {
            zone: (*zone).to_owned(),
            ..NodeRecord::storage(*node, "")
        };
        let cluster = ClusterRecord {
            cluster_id: 1,
            partitions: placement.len() as u32 - 1,
            replication,
            handle_keys: vec![(1, [7; 64])],
            nodes: nodes.iter().map(node).collect(),
        };
        let mut world = Self {
            cluster: Cluster::empty(),
            seen: Observed::default(),
            limits: PlacementLimits::default(),
            moves: 0,
            next_replica: 1_000,
        };
        let found = Command::Found(Found { cluster, placement });
        assert_eq!(world.cluster.ask(1, found), Reply::Founded(Ok(())));
        for (node, _) in nodes {
            world.seen.silent_ms.insert(*node, 0);
        }
        world.elect();
        world
    }

    pub fn join(&mut self, node: u64, zone: &str) {
        let join = JoinNode {
            node,
            address: String::new(),
            zone: zone.to_owned(),
            certificate_name: None,
            storage: true,
        };
        let reply = self.cluster.ask(1, Command::JoinNode(join));
        assert!(matches!(reply, Reply::NodeJoined(Ok(_))), "{reply:?}");
        self.seen.silent_ms.insert(node, 0);
    }

    pub fn set_state(&mut self, node: u64, state: NodeState) -> Reply {
        let set = SetNodeState { node, state };
        self.cluster.ask(1, Command::SetNodeState(set))
    }

    pub fn set_replication(&mut self, replication: u8) {
        let set = Command::SetReplication(SetReplication { replication });
        assert_eq!(self.cluster.ask(1, set), Reply::ReplicationSet(Ok(())));
    }

    pub fn silence(&mut self, node: u64, ms: u64) {
        self.seen.silent_ms.insert(node, ms);
        self.elect();
    }

    pub fn plan(&self) -> Vec<Step> {
        plan(&self.cluster.metadata, &self.seen, &self.limits)
    }

    /// Plans once, does it, and lets every second move that is under way get on, from `first`. Tells
    /// whether anything happened.
    pub fn round(&mut self, first: usize) -> bool {
        let steps = self.plan();
        self.check(&steps);
        for step in &steps {
            self.carry_out(*step);
        }
        let moving: Vec<GroupKey> = self
            .groups()
            .filter(|(_, it)| it.is_moving())
            .map(|(group, _)| group)
            .collect();
        let mut happened = !steps.is_empty();
        for (number, group) in moving.into_iter().enumerate() {
            // Once nothing is planned, everybody gets on.
            if steps.is_empty() || number % 2 == first % 2 {
                happened |= self.get_on(group);
            }
        }
        self.elect();
        happened
    }

    /// Goes on until nothing is left to do.
    ///
    /// # Panics
    /// When that takes so long that the planner must be swinging.
    pub fn settle(&mut self) {
        let replicas: usize = self.groups().map(|(_, it)| it.members.len().max(7)).sum();
        let limit = self.moves + 3 * replicas;
        let mut rounds = 0;
        while self.round(rounds) {
            rounds += 1;
            assert!(self.moves <= limit, "{} moves and no end", self.moves);
            assert!(rounds < 2_000, "no end after {rounds} rounds");
        }
    }

    fn check(&self, steps: &[Step]) {
        let transfers = steps
            .iter()
            .filter(|it| matches!(it, Step::TransferLeader { .. }));
        assert!(transfers.count() <= 1, "leaders move one by one");
        let mut moved = BTreeSet::new();
        let mut busy: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, replicas) in self.groups().filter(|(_, it)| self.has_majority(it)) {
            let moving = replicas
                .members
                .values()
                .filter(|it| it.role != Role::Voter);
            for member in moving {
                *busy.entry(member.node).or_default() += 1;
            }
        }
        for step in steps {
            let Step::Move {
                group,
                add_on,
                remove,
                ..
            } = *step
            else {
                continue;
            };
            assert!(moved.insert(group), "{group} moves twice at once");
            let replicas = &self.cluster.metadata.groups()[&group];
            assert!(
                self.has_majority(replicas),
                "{group} is lost, and was moved"
            );
            let from = remove.map(|replica| replicas.members[&replica].node);
            for node in add_on.into_iter().chain(from) {
                *busy.entry(node).or_default() += 1;
                let bounded = busy[&node] <= self.limits.moves_per_node;
                assert!(
                    bounded || !self.is_alive(node),
                    "too much for {node}: {steps:?}"
                );
            }
        }
        let under_way = self
            .groups()
            .filter(|(_, it)| it.is_moving() && self.has_majority(it));
        assert!(moved.is_empty() || moved.len() + under_way.count() <= self.limits.moves);
    }

    fn carry_out(&mut self, step: Step) {
        match step {
            Step::Move {
                group,
                version,
                add_on,
                remove,
            } => {
                self.moves += 1;
                self.next_replica += 1;
                let replica = ReplicaId(self.next_replica);
                let add = add_on.map(|node| (replica, node));
                let start = StartMove {
                    group,
                    version,
                    add,
                    remove,
                };
                let reply = self.cluster.ask(1, Command::StartMove(start));
                assert_eq!(reply, Reply::MoveStarted(Ok(version + 1)), "{start:?}");
                let replicas = &self.cluster.metadata.groups()[&group];
                let stays = |(_, replicas): (ReplicaId, _)| replicas;
                let node = replicas.joining().map(stays);
                assert!(node.is_none_or(|it| self.is_alive(it.node)));
            }
            Step::Abandon { group, version } => {
                let abandon = Command::AbandonMove(AbandonMove { group, version });
                assert_eq!(
                    self.cluster.ask(1, abandon),
                    Reply::MoveStepped(Ok(version + 1))
                );
            }
            Step::TransferLeader { group, to_node } => {
                let (_, member) = self.cluster.metadata.groups()[&group].on(to_node).unwrap();
                assert_eq!(member.role, Role::Voter);
                assert!(self.is_alive(to_node));
                let before = self.seen.leaders.insert(group, to_node);
                assert_ne!(before, Some(to_node));
            }
            Step::CompleteDecommission { node } => {
                let state = NodeState::Decommissioned;
                assert_eq!(self.set_state(node, state), Reply::NodeStateSet(Ok(state)));
            }
        }
    }

    /// Takes the next step of a move, if the group can.
    fn get_on(&mut self, group: GroupKey) -> bool {
        let replicas = &self.cluster.metadata.groups()[&group];
        if !self.has_majority(replicas) {
            return false;
        }
        let version = replicas.version;
        let command = if let Some((replica, member)) = replicas.joining() {
            if !self.is_alive(member.node) {
                return false;
            }
            Command::ReplicaPromoted(ReplicaPromoted {
                group,
                replica,
                version,
            })
        } else if let Some((replica, member)) = replicas.leaving().or(replicas.abandoned()) {
            let others = replicas.voters().filter(|it| it.node != member.node);
            if !self.is_majority(others) {
                return false;
            }
            Command::ReplicaRemoved(ReplicaRemoved {
                group,
                replica,
                version,
            })
        } else {
            return false;
        };
        assert_eq!(
            self.cluster.ask(1, command),
            Reply::MoveStepped(Ok(version + 1))
        );
        let replicas = &self.cluster.metadata.groups()[&group];
        assert!(
            self.has_majority(replicas),
            "{group} lost its majority by a move"
        );
        true
    }

    /// Gives every group that can have one a leader that is alive and votes.
    fn elect(&mut self) {
        let mut leaders = BTreeMap::new();
        for (group, replicas) in self.groups().filter(|(_, it)| self.has_majority(it)) {
            let able: Vec<u64> = replicas
                .voters()
                .map(|it| it.node)
                .filter(|it| self.is_alive(*it))
                .collect();
            let before = self.seen.leaders.get(&group).copied();
            let stays = before.filter(|leader| able.contains(leader));
            leaders.insert(group, stays.unwrap_or(able[0]));
        }
        self.seen.leaders = leaders;
    }
}

/// Looking.
impl World {
    pub fn groups(&self) -> impl Iterator<Item = (GroupKey, &Replicas)> {
        self.cluster
            .metadata
            .groups()
            .iter()
            .map(|(group, replicas)| (*group, replicas))
    }

    pub fn nodes(&self) -> &[NodeRecord] {
        &self.cluster.metadata.cluster().unwrap().nodes
    }

    pub fn is_alive(&self, node: u64) -> bool {
        self.seen.silent_ms[&node] <= self.limits.alive_within_ms
    }

    pub fn has_majority(&self, replicas: &Replicas) -> bool {
        self.is_majority(replicas.voters())
    }

    fn is_majority<'a>(&self, voters: impl Iterator<Item = &'a Member>) -> bool {
        let (alive, silent): (Vec<u64>, Vec<u64>) =
            voters.map(|it| it.node).partition(|it| self.is_alive(*it));
        alive.len() > silent.len()
    }

    /// Replicas that stay per node, of those nodes that take some.
    pub fn load(&self) -> BTreeMap<u64, usize> {
        let takers = self.nodes().iter();
        let takers = takers.filter(|it| it.takes_replicas() && self.is_alive(it.node));
        let stays = |node, replicas: &Replicas| replicas.staying().any(|it| it.node == node);
        let on = |node| self.groups().filter(|(_, it)| stays(node, it)).count();
        takers.map(|it| (it.node, on(it.node))).collect()
    }

    pub fn leads(&self) -> BTreeMap<u64, usize> {
        let mut leads: BTreeMap<u64, usize> = self.load().keys().map(|node| (*node, 0)).collect();
        for leader in self.seen.leaders.values() {
            *leads.entry(*leader).or_default() += 1;
        }
        leads
    }

    pub fn nodes_of(&self, group: GroupKey) -> Vec<u64> {
        let members = self.cluster.metadata.groups()[&group].members.values();
        let nodes: BTreeSet<u64> = members.map(|it| it.node).collect();
        nodes.into_iter().collect()
    }
}
