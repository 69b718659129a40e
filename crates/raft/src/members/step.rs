//! What a replica knows of its group's members, and the next step of a change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::metrics::RaftMetrics;
use openraft::{ChangeMembers, Instant as _, ServerState};

use crate::group::GroupCore;
use crate::members::{Members, Replica};
use crate::types::{LogId, Placement, TypeConfig};

/// What a replica knows of the membership.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub log_id: Option<LogId>,
    /// One set of voters, or two while they change: those before and those after.
    sets: Vec<BTreeSet<u64>>,
    nodes: BTreeMap<u64, u64>,
    /// It is committed.
    pub settled: bool,
    pub leads: bool,
    /// Entries that each member has not confirmed; empty unless this replica leads.
    behind: BTreeMap<u64, u64>,
    /// Members that the leader has heard from lately, itself included.
    heard: BTreeSet<u64>,
}

impl GroupCore {
    pub fn view(&self) -> View {
        let raft = self.raft();
        let metrics = raft.metrics();
        let seen = metrics.borrow_watched();
        View::of(&seen, self.silence_max)
    }

    /// Whether this replica leads, and has heard from no majority for as long as `silence`.
    pub fn is_cut_off(&self, silence: Duration) -> bool {
        let raft = self.raft();
        let metrics = raft.metrics();
        let seen = metrics.borrow_watched();
        let heard = |replica: &&u64| {
            let at = seen
                .heartbeat
                .as_ref()
                .and_then(|beats| *beats.get(*replica)?);
            **replica == seen.id || at.is_some_and(|at| at.elapsed() < silence)
        };
        let mut sets = seen
            .membership_config
            .membership()
            .get_joint_config()
            .iter();
        seen.state == ServerState::Leader
            && sets.any(|set| 2 * set.iter().filter(heard).count() <= set.len())
    }
}

impl View {
    fn of(seen: &RaftMetrics<TypeConfig>, silence_max: Duration) -> Self {
        let membership = seen.membership_config.membership();
        let nodes: BTreeMap<u64, u64> = membership
            .nodes()
            .map(|(replica, placement)| (*replica, placement.node))
            .collect();
        let end = seen.last_log_index.map_or(0, |last| last + 1);
        let lacks = |replica: &u64, has: Option<u64>| {
            let own = *replica == seen.id;
            if own {
                0
            } else {
                end.saturating_sub(has.map_or(0, |has| has + 1))
            }
        };
        let behind = seen
            .replication
            .as_ref()
            .map_or_else(BTreeMap::new, |progress| {
                let confirmed =
                    |replica: &u64| progress.get(replica)?.as_ref().map(|id| id.index());
                let replicas = nodes.keys();
                replicas
                    .map(|replica| (*replica, lacks(replica, confirmed(replica))))
                    .collect()
            });
        let heard = seen.heartbeat.iter().flatten().filter(|(replica, at)| {
            let lately = at.is_some_and(|at| at.elapsed() <= silence_max);
            **replica == seen.id || lately
        });
        Self {
            heard: heard.map(|(replica, _)| *replica).collect(),
            leads: seen.state == ServerState::Leader,
            log_id: *seen.membership_config.log_id(),
            sets: membership.get_joint_config().clone(),
            nodes,
            settled: seen.committed_membership_config == seen.membership_config,
            behind,
        }
    }

    fn voters(&self) -> BTreeSet<u64> {
        self.sets.iter().flatten().copied().collect()
    }

    pub fn members(&self) -> Members {
        let voters = self.voters();
        let replica = |(replica, node): (&u64, &u64)| {
            let seen = Replica {
                node: *node,
                behind: self.behind.get(replica).copied(),
                heard: self.heard.contains(replica),
            };
            (*replica, seen)
        };
        let (voters, learners) = self
            .nodes
            .iter()
            .map(replica)
            .partition(|(replica, _)| voters.contains(replica));
        Members {
            voters,
            learners,
            changing: !self.settled || self.sets.len() > 1,
        }
    }

    /// Of the voters that may lead at once, the one whose node is preferred most; then the one that has
    /// the most of the log.
    pub fn best_heir<P: Ord>(&self, own: u64, preference: impl Fn(u64) -> P) -> Option<u64> {
        let members = self.members();
        // Of two sets, the one that stays.
        let voters = self.sets.last()?.iter();
        voters
            .filter(|replica| **replica != own)
            .filter_map(|replica| members.voters.get(replica).map(|seen| (seen, *replica)))
            .filter(|(seen, _)| seen.is_caught_up())
            .map(|(seen, replica)| (Reverse(preference(seen.node)), seen.behind, replica))
            .min()
            .map(|(_, _, replica)| replica)
    }

    /// Whether leadership may go to this voter: with any other the group would be without a leader
    /// until an election.
    pub fn is_fit(&self, replica: u64) -> bool {
        let voter = self.members().voters.get(&replica).copied();
        voter.is_some_and(|voter| voter.is_caught_up())
    }
}

/// What a change of voters needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It is done.
    Nothing,
    /// The last change must be committed first.
    Settle,
    /// A newcomer must catch up first.
    CatchUp {
        replica: u64,
        behind: u64,
    },
    Propose(ChangeMembers<u64, Placement>),
}

/// The step that leads from `view` towards `goal`, or why there is none.
pub fn next_step(view: &View, goal: &BTreeMap<u64, u64>) -> Result<Step, String> {
    check(view, goal)?;
    let wanted: BTreeSet<u64> = goal.keys().copied().collect();
    let begun = view.sets.last().cloned().unwrap_or_default();
    let voters = if view.sets.contains(&wanted) {
        &wanted
    } else {
        &begun
    };
    if voters.is_disjoint(&wanted) {
        return Err(format!("none of the voters {voters:?} would stay"));
    }
    if !view.settled {
        return Ok(Step::Settle);
    }
    if view.sets.len() > 1 {
        // Forward to what was begun, or back, if either is the goal; else forward first.
        let voters = ChangeMembers::ReplaceAllVoters(voters.clone());
        return Ok(Step::Propose(voters));
    }
    let strangers: BTreeSet<u64> = view
        .nodes
        .keys()
        .filter(|replica| !wanted.contains(replica) && !voters.contains(replica))
        .copied()
        .collect();
    let missing: BTreeMap<u64, Placement> = goal
        .iter()
        .filter(|(replica, _)| !view.nodes.contains_key(replica))
        .map(|(replica, node)| (*replica, Placement { node: *node }))
        .collect();
    if !missing.is_empty() {
        let missing = ChangeMembers::AddNodes(missing);
        return Ok(Step::Propose(without(strangers, missing)));
    }
    let learners = view.members().learners;
    let furthest = wanted
        .difference(voters)
        .filter_map(|replica| learners.get(replica).map(|seen| (seen, *replica)))
        .filter(|(seen, _)| !seen.is_caught_up())
        .map(|(seen, replica)| (seen.behind.unwrap_or(u64::MAX), replica))
        .max();
    Ok(match furthest {
        Some((behind, replica)) => Step::CatchUp { replica, behind },
        _ if *voters != wanted => {
            let voters = ChangeMembers::ReplaceAllVoters(wanted);
            Step::Propose(without(strangers, voters))
        }
        _ if strangers.is_empty() => Step::Nothing,
        _ => Step::Propose(ChangeMembers::RemoveNodes(strangers)),
    })
}

/// A change, and before it the removal of learners that nobody wants.
fn without(
    strangers: BTreeSet<u64>,
    change: ChangeMembers<u64, Placement>,
) -> ChangeMembers<u64, Placement> {
    if strangers.is_empty() {
        return change;
    }
    ChangeMembers::Batch(vec![ChangeMembers::RemoveNodes(strangers), change])
}

/// What no group can have.
fn check(view: &View, goal: &BTreeMap<u64, u64>) -> Result<(), String> {
    if goal.is_empty() {
        return Err("a group needs voters".to_owned());
    }
    let nodes: BTreeSet<u64> = goal.values().copied().collect();
    if nodes.len() < goal.len() {
        return Err("two voters on one node".to_owned());
    }
    for (replica, node) in goal {
        if let Some(placed) = view.nodes.get(replica).filter(|placed| *placed != node) {
            return Err(format!(
                "replica {replica:x} is on node {placed:x}, not {node:x}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::BEHIND_MAX;

    /// Voters 1, 2 and 3, all caught up.
    fn three() -> View {
        View {
            sets: vec![BTreeSet::from([1, 2, 3])],
            nodes: goal(&[1, 2, 3]),
            settled: true,
            behind: BTreeMap::from([(1, 0), (2, 0), (3, 2)]),
            heard: BTreeSet::from([1, 2, 3]),
            ..View::default()
        }
    }

    /// Each on the node ten times its number.
    fn goal(replicas: &[u64]) -> BTreeMap<u64, u64> {
        replicas
            .iter()
            .map(|replica| (*replica, replica * 10))
            .collect()
    }

    fn step(view: &View, replicas: &[u64]) -> Step {
        next_step(view, &goal(replicas)).expect("not refused")
    }

    fn replace(replicas: &[u64]) -> ChangeMembers<u64, Placement> {
        ChangeMembers::ReplaceAllVoters(replicas.iter().copied().collect())
    }

    fn remove(replicas: &[u64]) -> ChangeMembers<u64, Placement> {
        ChangeMembers::RemoveNodes(replicas.iter().copied().collect())
    }

    fn learner(mut view: View, replica: u64, behind: u64) -> View {
        view.nodes.insert(replica, replica * 10);
        view.behind.insert(replica, behind);
        view.heard.insert(replica);
        view
    }

    #[test]
    fn a_newcomer_is_added_then_caught_up_then_a_voter() {
        let wanted = [2, 3, 4];
        let missing = ChangeMembers::AddNodes(BTreeMap::from([(4, Placement { node: 40 })]));
        assert_eq!(step(&three(), &wanted), Step::Propose(missing));
        let behind = learner(three(), 4, BEHIND_MAX + 1);
        let lags = Step::CatchUp {
            replica: 4,
            behind: BEHIND_MAX + 1,
        };
        assert_eq!(step(&behind, &wanted), lags);
        let mut silent = learner(three(), 4, 0);
        silent.heard.remove(&4);
        let lags = Step::CatchUp {
            replica: 4,
            behind: 0,
        };
        assert_eq!(step(&silent, &wanted), lags);
        let caught_up = learner(three(), 4, BEHIND_MAX);
        assert_eq!(step(&caught_up, &wanted), Step::Propose(replace(&wanted)));
    }

    #[test]
    fn nothing_is_proposed_over_a_change_that_is_not_committed() {
        let mut view = three();
        view.settled = false;
        assert_eq!(step(&view, &[1, 2, 3]), Step::Settle);
        assert_eq!(step(&view, &[1, 2]), Step::Settle);
    }

    #[test]
    fn a_change_left_half_way_goes_forward_back_or_forward_first() {
        let mut view = learner(three(), 4, 0);
        view.sets.push(BTreeSet::from([2, 3, 4]));
        assert_eq!(step(&view, &[2, 3, 4]), Step::Propose(replace(&[2, 3, 4])));
        assert_eq!(step(&view, &[1, 2, 3]), Step::Propose(replace(&[1, 2, 3])));
        assert_eq!(step(&view, &[2, 3, 5]), Step::Propose(replace(&[2, 3, 4])));
    }

    #[test]
    fn who_is_not_wanted_is_removed_at_the_first_occasion() {
        let view = learner(three(), 9, 700);
        assert_eq!(step(&view, &[1, 2, 3]), Step::Propose(remove(&[9])));
        let both = ChangeMembers::Batch(vec![remove(&[9]), replace(&[1, 2])]);
        assert_eq!(step(&view, &[1, 2]), Step::Propose(both));
        let missing = ChangeMembers::AddNodes(BTreeMap::from([(4, Placement { node: 40 })]));
        let both = ChangeMembers::Batch(vec![remove(&[9]), missing]);
        assert_eq!(step(&view, &[1, 2, 4]), Step::Propose(both));
    }

    #[test]
    fn voters_as_wanted_need_nothing_however_far_behind() {
        let mut view = three();
        view.behind.insert(3, 1_000_000);
        assert_eq!(step(&view, &[1, 2, 3]), Step::Nothing);
    }

    #[test]
    fn what_no_group_can_have_is_refused() {
        let refused = |goal: BTreeMap<u64, u64>| next_step(&three(), &goal).expect_err("refused");
        refused(BTreeMap::new());
        refused(goal(&[4, 5, 6]));
        refused(BTreeMap::from([(1, 10), (4, 10)]));
        refused(BTreeMap::from([(1, 10), (2, 21)]));
        let mut joint = three();
        joint.sets.push(BTreeSet::from([3, 4]));
        next_step(&joint, &goal(&[1, 2])).expect_err("none of those begun would stay");
    }

    #[test]
    fn the_heir_is_the_most_advanced_that_was_heard() {
        let mut view = learner(three(), 4, 0);
        let heir = |view: &View| view.best_heir(1, |_| ());
        assert_eq!(heir(&view), Some(2));
        assert_eq!(
            view.best_heir(1, |node| node),
            Some(3),
            "if that is preferred"
        );
        view.heard.remove(&2);
        assert_eq!(heir(&view), Some(3));
        assert!(!view.is_fit(2) && view.is_fit(3));
        view.behind.insert(3, BEHIND_MAX + 1);
        assert_eq!(heir(&view), None);
        view.heard.insert(2);
        view.behind.clear();
        assert_eq!(heir(&view), None);
    }
}
