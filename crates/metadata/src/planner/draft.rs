//! A plan in the making: the cluster as it will be when all is done that is under way or planned.

use crate::cluster::ClusterRecord;
use crate::node::NodeRecord;
use crate::planner::{Observed, PlacementLimits, Step};
use crate::replicas::{GroupKey, Member, ReplicaId, Replicas, Role};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Draft<'a> {
    cluster: &'a ClusterRecord,
    groups: &'a BTreeMap<GroupKey, Replicas>,
    seen: &'a Observed,
    limits: &'a PlacementLimits,
    nodes: BTreeMap<u64, &'a NodeRecord>,
    /// Groups that may move.
    free: BTreeSet<GroupKey>,
    /// Replicas per node.
    load: BTreeMap<u64, usize>,
    /// Moves in which a node gains or, being alive, loses a replica.
    busy: BTreeMap<u64, usize>,
    /// Moves that may still be planned.
    moves_left: usize,
    pub(crate) steps: Vec<Step>,
}

/// Nodes that fail together: a named zone, or a node of which none is known.
type Zone<'a> = (&'a str, Option<u64>);

impl<'a> Draft<'a> {
    pub(crate) fn new(
        cluster: &'a ClusterRecord,
        groups: &'a BTreeMap<GroupKey, Replicas>,
        seen: &'a Observed,
        limits: &'a PlacementLimits,
    ) -> Self {
        let mut draft = Self {
            cluster,
            groups,
            seen,
            limits,
            nodes: cluster.nodes.iter().map(|it| (it.node, it)).collect(),
            free: BTreeSet::new(),
            load: cluster.nodes.iter().map(|it| (it.node, 0)).collect(),
            busy: BTreeMap::new(),
            moves_left: limits.moves,
            steps: Vec::new(),
        };
        for (group, replicas) in groups {
            draft.take_in(*group, replicas);
        }
        draft
    }

    fn take_in(&mut self, group: GroupKey, replicas: &Replicas) {
        let staying = replicas
            .members
            .values()
            .filter(|it| it.role != Role::Leaving);
        for member in staying {
            *self.load.entry(member.node).or_default() += 1;
        }
        // A move that stands still for want of a majority is in nobody's way.
        if !has_majority(replicas, self.seen, self.limits) {
            return;
        }
        if !replicas.is_moving() {
            self.free.insert(group);
            return;
        }
        self.moves_left = self.moves_left.saturating_sub(1);
        let members = replicas.members.values();
        for member in members.filter(|it| it.role != Role::Voter) {
            self.occupy(member.node);
        }
    }

    pub(crate) fn plans_moves(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, Step::Move { .. }))
    }

    /// Gives up moves whose joining replica is on a node that fails or is to lose what it has, and
    /// those whose leaving replica cannot be spared any more.
    pub(crate) fn abandon(&mut self) {
        for (group, replicas) in self.groups {
            let stuck = match (replicas.joining(), replicas.leaving()) {
                (Some((_, member)), _) => {
                    self.is_given_up(member.node) || !self.nodes[&member.node].keeps_replicas()
                }
                (None, Some((_, member))) => {
                    let others = replicas.voters().filter(|it| it.node != member.node);
                    let (given_up, rest): (Vec<&Member>, Vec<&Member>) = others
                        .partition(|it| it.role == Role::Damaged || self.is_given_up(it.node));
                    given_up.len() >= rest.len()
                }
                (None, None) => false,
            };
            if stuck && has_majority(replicas, self.seen, self.limits) {
                let (group, version) = (*group, replicas.version);
                self.steps.push(Step::Abandon { group, version });
            }
        }
    }

    pub(crate) fn drain(&mut self) {
        let cluster = self.cluster;
        for record in cluster.nodes.iter().filter(|it| !it.keeps_replicas()) {
            if self.load[&record.node] > 0 {
                self.replace_all(record.node);
            }
        }
    }

    pub(crate) fn replace_dead(&mut self) {
        let silent = self.seen.silent_ms.iter();
        let dead = silent.filter(|(_, silent)| **silent >= self.limits.replace_after_ms);
        let mut dead: Vec<(Reverse<u64>, u64)> = dead
            .map(|(node, silent)| (Reverse(*silent), *node))
            .collect();
        dead.sort_unstable();
        for (_, node) in dead {
            let planned = self.steps.len();
            self.replace_all(node);
            let mut moving = self.groups.values().filter(|it| {
                let leaving = it.leaving().map(|(_, member)| member.node);
                leaving == Some(node) && has_majority(it, self.seen, self.limits)
            });
            if self.steps.len() > planned || moving.next().is_some() {
                return;
            }
        }
    }

    fn replace_all(&mut self, node: u64) {
        for group in self.free_groups() {
            if let Some((replica, _)) = self.groups[&group].on(node)
                && self.may_lose(node)
            {
                self.replace(group, replica, node);
            }
        }
    }

    fn replace(&mut self, group: GroupKey, replica: ReplicaId, node: u64) {
        let replicas = &self.groups[&group];
        if replicas.members.len() > self.wished() {
            if self.survives_without(replicas, node) {
                self.plan_move(group, None, Some((replica, node)));
            }
        } else if let Some((_, target)) = self.target(replicas, Some(node)) {
            self.plan_move(group, Some(target), Some((replica, node)));
        }
    }

    pub(crate) fn add_missing(&mut self) {
        let mut groups = self.free_groups();
        groups.retain(|group| self.groups[group].members.len() < self.wished());
        groups.sort_by_key(|group| self.groups[group].members.len());
        for group in groups {
            if let Some((_, target)) = self.target(&self.groups[&group], None) {
                self.plan_move(group, Some(target), None);
            }
        }
    }

    pub(crate) fn remove_surplus(&mut self) {
        for group in self.free_groups() {
            let replicas = &self.groups[&group];
            if replicas.members.len() <= self.wished() {
                continue;
            }
            let leader = self.seen.leaders.get(&group);
            // What is silent goes first, so that the rest is a majority as it was.
            let worst = replicas.members.iter().min_by_key(|(_, member)| {
                let node = member.node;
                (
                    self.is_alive(node),
                    Reverse(self.in_zone_of(replicas, node, None)),
                    Reverse(self.load[&node]),
                    leader == Some(&node),
                    node,
                )
            });
            if let Some((replica, member)) = worst
                && self.may_lose(member.node)
            {
                self.plan_move(group, None, Some((*replica, member.node)));
            }
        }
    }

    pub(crate) fn spread_over_zones(&mut self) {
        for group in self.free_groups() {
            let replicas = &self.groups[&group];
            if !self.is_whole(replicas) {
                continue;
            }
            let members = replicas.members.iter();
            let crowded = members
                .filter(|(_, it)| self.is_open(it.node))
                .max_by_key(|(_, it)| {
                    let in_zone = self.in_zone_of(replicas, it.node, None);
                    (in_zone, self.load[&it.node], Reverse(it.node))
                });
            let Some((replica, member)) = crowded else {
                continue;
            };
            let in_zone = self.in_zone_of(replicas, member.node, None);
            if let Some((fewest, target)) = self.target(replicas, Some(member.node))
                && fewest + 2 <= in_zone
            {
                self.plan_move(group, Some(target), Some((*replica, member.node)));
            }
        }
    }

    pub(crate) fn balance(&mut self) {
        while self.moves_left > 0 {
            let Some((group, from, to)) = self.heaviest() else {
                return;
            };
            let (replica, _) = self.groups[&group]
                .on(from)
                .expect("it is moved from there");
            self.plan_move(group, Some(to), Some((replica, from)));
        }
    }

    /// A group on a full node that may move to an emptier one, from the fullest to the emptiest.
    fn heaviest(&self) -> Option<(GroupKey, u64, u64)> {
        let with_load = |node: &u64| (self.load[node], *node);
        let givers = self.nodes.keys().filter(|node| self.is_open(**node));
        let mut givers: Vec<(usize, u64)> = givers.map(with_load).collect();
        givers.sort_unstable_by_key(|(load, node)| (Reverse(*load), *node));
        let takers = self.nodes.keys().filter(|node| self.is_open(**node));
        let mut takers: Vec<(usize, u64)> = takers.map(with_load).collect();
        takers.sort_unstable();
        for (from_load, from) in givers {
            let emptier = takers.iter().take_while(|(load, _)| load + 2 <= from_load);
            for (_, to) in emptier {
                if let Some(group) = self.movable(from, *to) {
                    return Some((group, from, *to));
                }
            }
        }
        None
    }

    /// A partition that may move between the nodes; rather one that the first does not lead.
    fn movable(&self, from: u64, to: u64) -> Option<GroupKey> {
        let groups = self.free.iter().filter(|group| {
            let replicas = &self.groups[group];
            **group != GroupKey::Metadata
                && replicas.on(from).is_some()
                && replicas.on(to).is_none()
                && self.is_whole(replicas)
                && self.in_zone_of(replicas, to, Some(from)) < self.in_zone_of(replicas, from, None)
        });
        let led = |group: &&GroupKey| self.seen.leaders.get(group) == Some(&from);
        groups.min_by_key(|group| (led(group), **group)).copied()
    }

    fn plan_move(
        &mut self,
        group: GroupKey,
        add_on: Option<u64>,
        remove: Option<(ReplicaId, u64)>,
    ) {
        if self.moves_left == 0 {
            return;
        }
        self.moves_left -= 1;
        self.free.remove(&group);
        if let Some(node) = add_on {
            *self.load.entry(node).or_default() += 1;
            self.occupy(node);
        }
        if let Some((_, node)) = remove {
            *self.load.entry(node).or_default() -= 1;
            self.occupy(node);
        }
        self.steps.push(Step::Move {
            group,
            version: self.groups[&group].version,
            add_on,
            remove: remove.map(|(replica, _)| replica),
        });
    }

    fn occupy(&mut self, node: u64) {
        *self.busy.entry(node).or_default() += 1;
    }
}

/// Questions.
impl<'a> Draft<'a> {
    fn wished(&self) -> usize {
        self.cluster.replication.into()
    }

    fn free_groups(&self) -> Vec<GroupKey> {
        self.free.iter().copied().collect()
    }

    fn is_alive(&self, node: u64) -> bool {
        self.seen.is_alive(node, self.limits)
    }

    fn is_given_up(&self, node: u64) -> bool {
        self.seen.is_silent_for(node, self.limits.abandon_after_ms)
    }

    fn is_idle(&self, node: u64) -> bool {
        let busy = self.busy.get(&node).copied().unwrap_or(0);
        busy < self.limits.moves_per_node
    }

    /// Whether one more replica may leave the node now; a silent node has no work with it.
    fn may_lose(&self, node: u64) -> bool {
        !self.is_alive(node) || self.is_idle(node)
    }

    /// Whether a replica may come to the node, or leave it without need.
    fn is_open(&self, node: u64) -> bool {
        self.nodes[&node].takes_replicas() && self.is_alive(node) && self.is_idle(node)
    }

    fn zone(&self, node: u64) -> Zone<'a> {
        match &*self.nodes[&node].zone {
            "" => ("", Some(node)),
            zone => (zone, None),
        }
    }

    /// How many replicas of the group, but for the one on `without`, are in the zone of `node`.
    fn in_zone_of(&self, replicas: &Replicas, node: u64, without: Option<u64>) -> usize {
        let zone = self.zone(node);
        let members = replicas.members.values();
        let others = members.filter(|it| Some(it.node) != without);
        others.filter(|it| self.zone(it.node) == zone).count()
    }

    /// The best node for a replica of the group in place of the one on `without`, and how many others
    /// are in its zone. A busy node is passed over, a worse zone is not taken instead.
    fn target(&self, replicas: &Replicas, without: Option<u64>) -> Option<(usize, u64)> {
        let nodes = self.nodes.values().filter(|record| {
            let node = record.node;
            record.takes_replicas() && self.is_alive(node) && replicas.on(node).is_none()
        });
        let candidates: Vec<(usize, u64)> = nodes
            .map(|record| (self.in_zone_of(replicas, record.node, without), record.node))
            .collect();
        let fewest = candidates.iter().map(|(in_zone, _)| *in_zone).min()?;
        let best = candidates
            .into_iter()
            .filter(|(in_zone, node)| *in_zone == fewest && self.is_idle(*node));
        best.min_by_key(|(_, node)| (self.load[node], *node))
    }

    /// Whether every voter is alive.
    fn is_whole(&self, replicas: &Replicas) -> bool {
        let mut members = replicas.members.values();
        members.all(|member| self.is_alive(member.node))
    }

    fn survives_without(&self, replicas: &Replicas, node: u64) -> bool {
        let others = replicas.voters().filter(|it| it.node != node);
        is_majority(others, self.seen, self.limits)
    }
}

/// Whether most of those who vote are alive.
pub(crate) fn has_majority(replicas: &Replicas, seen: &Observed, limits: &PlacementLimits) -> bool {
    is_majority(replicas.voters(), seen, limits)
}

fn is_majority<'a>(
    voters: impl Iterator<Item = &'a Member>,
    seen: &Observed,
    limits: &PlacementLimits,
) -> bool {
    let (mut alive, mut all) = (0, 0);
    for voter in voters {
        all += 1;
        let votes = voter.role != Role::Damaged;
        alive += usize::from(votes && seen.is_alive(voter.node, limits));
    }
    alive * 2 > all
}
