//! Which leader should be another.

use crate::machine::Metadata;
use crate::node::NodeState;
use crate::planner::draft::has_majority;
use crate::planner::{Observed, PlacementLimits, Step};
use crate::replicas::{GroupKey, Replicas, Role};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The one transfer that is most wanted, of a group that no step in `planned` moves: who is to lead it
/// may be who is to leave it.
pub(crate) fn transfer(
    metadata: &Metadata,
    seen: &Observed,
    limits: &PlacementLimits,
    planned: &[Step],
) -> Option<Step> {
    let mut view = View::new(metadata, seen, limits);
    let moves = |step: &Step, group| matches!(step, Step::Move { group: it, .. } if *it == group);
    view.led
        .retain(|(group, ..)| !planned.iter().any(|step| moves(step, *group)));
    let (group, to_node) = view.banished().or_else(|| view.unbalanced())?;
    Some(Step::TransferLeader { group, to_node })
}

struct View<'a> {
    metadata: &'a Metadata,
    seen: &'a Observed,
    limits: &'a PlacementLimits,
    /// Groups whose leaders are alive, with them.
    led: Vec<(GroupKey, &'a Replicas, u64)>,
    /// Groups led by node.
    leads: BTreeMap<u64, usize>,
}

impl<'a> View<'a> {
    fn new(metadata: &'a Metadata, seen: &'a Observed, limits: &'a PlacementLimits) -> Self {
        let groups = metadata.groups().iter();
        let led = groups.filter_map(|(group, replicas)| {
            let leader = *seen.leaders.get(group)?;
            let leads = replicas.on(leader).is_some()
                && seen.is_alive(leader, limits)
                && has_majority(replicas, seen, limits);
            leads.then_some((*group, replicas, leader))
        });
        let led: Vec<_> = led.collect();
        let mut leads = BTreeMap::new();
        for (_, _, leader) in &led {
            *leads.entry(*leader).or_default() += 1;
        }
        Self {
            metadata,
            seen,
            limits,
            led,
            leads,
        }
    }

    /// A group whose leader is to lead nothing, and who should lead it.
    fn banished(&self) -> Option<(GroupKey, u64)> {
        self.led.iter().find_map(|(group, replicas, leader)| {
            let leaves = replicas.joining().is_none()
                && replicas.leaving().is_some_and(|(_, it)| it.node == *leader);
            let successor = if leaves {
                let active = self.successor(*group, replicas, *leader, true);
                active.or_else(|| self.successor(*group, replicas, *leader, false))
            } else if self.is_active(*leader) {
                None
            } else {
                self.successor(*group, replicas, *leader, true)
            };
            successor.map(|node| (*group, node))
        })
    }

    /// A group that one node leads while another, which leads two less or fewer still, could.
    fn unbalanced(&self) -> Option<(GroupKey, u64)> {
        if !self.is_settled() {
            return None;
        }
        let settled = self
            .led
            .iter()
            .filter(|(_, replicas, _)| !replicas.is_moving());
        let better = settled.filter_map(|(group, replicas, leader)| {
            let to = self.successor(*group, replicas, *leader, true)?;
            let gain = self.leads(*leader).checked_sub(self.leads(to))?;
            (gain >= 2).then_some((Reverse(gain), *group, to))
        });
        better.min().map(|(_, group, to)| (group, to))
    }

    /// Whether no node that lives has come, or come back, lately.
    fn is_settled(&self) -> bool {
        let mut reached = self.seen.reached_ms.iter();
        reached.all(|(node, ms)| {
            *ms >= self.limits.settle_ms || !self.seen.is_alive(*node, self.limits)
        })
    }

    /// The other voter that leads the fewest groups, alive and caught up.
    fn successor(
        &self,
        group: GroupKey,
        replicas: &Replicas,
        leader: u64,
        active: bool,
    ) -> Option<u64> {
        let caught_up = self.seen.caught_up.get(&group);
        let voters = replicas.members.values().filter(|member| {
            member.role == Role::Voter
                && member.node != leader
                && self.seen.is_alive(member.node, self.limits)
                && (!active || self.is_active(member.node))
                && caught_up.is_none_or(|nodes| nodes.contains(&member.node))
        });
        let nodes = voters.map(|member| member.node);
        nodes.min_by_key(|node| (self.leads(*node), *node))
    }

    fn leads(&self, node: u64) -> usize {
        self.leads.get(&node).copied().unwrap_or(0)
    }

    fn is_active(&self, node: u64) -> bool {
        let record = self.metadata.node(node);
        record.is_some_and(|it| it.state == NodeState::Active)
    }
}
