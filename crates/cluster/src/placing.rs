//! Replicas in their places: what the metadata leader does about nodes that come, go and fail.
//!
//! The planner says what should move. Each move is in the replicated state before anything of it
//! happens, and its steps are confirmed there, so that the next leader goes on where this one fell.
//! Whoever leads the group itself changes its voters; here it is only asked to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hikyaku_metadata::{
    AbandonMove, Command, GroupKey, Metadata, NodeState, Observed, PlacementLimits, ReplicaId,
    ReplicaPromoted, ReplicaRemoved, Replicas, Reply, Role, SetNodeState, StartMove, Step, plan,
};
use hikyaku_proto::node as wire;
use hikyaku_raft::{Group, Machine};
use tokio::time::Instant;

use crate::clock::millis;
use crate::machines::{METADATA_GROUP, group_number};
use crate::ports::Entropy;
use crate::watch::Watch;

/// How often places are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a group's leader may take to change the voters before it is asked again: a replica that
/// joins has to catch up meanwhile.
const CHANGE_LIMIT: Duration = Duration::from_secs(20);

/// How long the transfer of a leadership may take.
const TRANSFER_LIMIT: Duration = Duration::from_secs(2);

/// Places replicas, where the metadata are led.
pub struct Placer {
    /// What is known of the cluster.
    pub watch: Arc<Watch>,
    /// Where replica ids are drawn from.
    pub entropy: Arc<dyn Entropy>,
    /// How much at once, and how soon.
    pub limits: PlacementLimits,
}

impl Placer {
    /// Runs until it is dropped; acts only where the leader is.
    pub async fn run(self) {
        // The term in which this node leads, and since when.
        let mut leading: Option<(u64, Instant)> = None;
        // Each move goes on by itself, so that one that waits holds up no other.
        let mut drives = FuturesUnordered::new();
        let mut driven = BTreeSet::new();
        loop {
            match self.watch.control.leads() {
                Some((term, _)) => {
                    let since = match leading {
                        Some((known, since)) if known == term => since,
                        Some(_) | None => Instant::now(),
                    };
                    leading = Some((term, since));
                    self.plan(since).await;
                    for (group, replicas) in self.moving() {
                        if driven.insert(group) {
                            drives.push(self.drive(group, replicas));
                        }
                    }
                }
                None => {
                    leading = None;
                    drives.clear();
                    driven.clear();
                }
            }
            let next = tokio::time::timeout(INTERVAL, drives.next()).await;
            if let Ok(Some(group)) = next {
                driven.remove(&group);
            } else if drives.is_empty() {
                tokio::time::sleep(INTERVAL).await;
            }
        }
    }

    async fn plan(&self, since: Instant) {
        let planned = self.watch.control.with_metadata(|metadata| {
            let seen = self.observed(metadata, since);
            plan(metadata, &seen, &self.limits)
        });
        for step in planned.unwrap_or_default() {
            self.take(step).await;
        }
    }

    /// The groups whose replicas move.
    fn moving(&self) -> Vec<(GroupKey, Replicas)> {
        let moving = self.watch.control.with_metadata(|metadata| {
            let groups = metadata.groups().iter();
            let moving = groups.filter(|(_, replicas)| replicas.is_moving());
            moving
                .map(|(group, replicas)| (*group, replicas.clone()))
                .collect()
        });
        moving.unwrap_or_default()
    }

    /// What this node sees of the others. Before it led it did not look.
    fn observed(&self, metadata: &Metadata, since: Instant) -> Observed {
        let nodes = metadata.cluster().map(|cluster| &cluster.nodes);
        let silent = |node: u64| {
            if node == self.watch.node {
                return Some(0);
            }
            silence(self.watch.heard(node), since, self.limits.alive_within_ms)
        };
        let nodes = nodes.into_iter().flatten().filter(|record| record.storage);
        let silent = nodes.filter_map(|it| Some((it.node, silent(it.node)?)));
        let peers = &self.watch.peers;
        let reached = peers.nodes().into_iter().filter_map(|node| {
            let at = peers.reached(node)?;
            Some((node, millis(at.elapsed())))
        });
        let lead = |(group, seat_lead): (GroupKey, Option<u64>)| Some((group, seat_lead?));
        let partitions = metadata.groups().keys().map(|group| {
            let node = match group {
                GroupKey::Metadata => self.watch.control.seat().lead().node,
                GroupKey::Partition(partition) => {
                    let seat = self.watch.router.seat(*partition);
                    seat.and_then(|seat| seat.lead().node)
                }
            };
            (*group, node)
        });
        Observed {
            silent_ms: silent.collect(),
            reached_ms: reached.collect(),
            leaders: partitions.filter_map(lead).collect(),
            caught_up: BTreeMap::new(),
        }
    }

    async fn take(&self, step: Step) {
        match step {
            Step::Move {
                group,
                version,
                add_on,
                remove,
            } => {
                let add = add_on.map(|node| (ReplicaId(self.entropy.draw_nonzero_u64()), node));
                tracing::info!(%group, ?add_on, ?remove, "moving a replica");
                let start = StartMove {
                    group,
                    version,
                    add,
                    remove,
                };
                self.execute(Command::StartMove(start)).await;
            }
            Step::Abandon { group, version } => {
                tracing::warn!(%group, "giving up a move: its new node does not answer");
                let abandon = AbandonMove { group, version };
                self.execute(Command::AbandonMove(abandon)).await;
            }
            Step::TransferLeader { group, to_node } => self.transfer(group, to_node).await,
            Step::CompleteDecommission { node } => {
                tracing::info!(node = format_args!("{node:x}"), "decommissioned");
                let state = NodeState::Decommissioned;
                let set = SetNodeState { node, state };
                self.execute(Command::SetNodeState(set)).await;
            }
        }
    }

    /// Brings a group's move one step further, or pauses when that cannot be done now.
    async fn drive(&self, group: GroupKey, replicas: Replicas) -> GroupKey {
        let version = replicas.version;
        if replicas.is_lost() {
            // Its nodes have said so; nothing is taken away from what may still be read by hand.
            tokio::time::sleep(INTERVAL).await;
            return group;
        }
        let joining = replicas.joining();
        let set = match joining {
            Some(_) => {
                let votes = |role| !matches!(role, Role::Abandoned | Role::Damaged);
                self.set_voters(group, &replicas, votes).await
            }
            None => {
                self.set_voters(group, &replicas, |role| role == Role::Voter)
                    .await
            }
        };
        let leaving = replicas.leaving().or(replicas.abandoned());
        let gone = leaving.or(replicas.damaged());
        match (set, joining, gone) {
            (true, Some((replica, _)), _) => {
                let promoted = ReplicaPromoted {
                    group,
                    replica,
                    version,
                };
                self.execute(Command::ReplicaPromoted(promoted)).await;
            }
            (true, None, Some((replica, _))) => {
                let removed = ReplicaRemoved {
                    group,
                    replica,
                    version,
                };
                self.execute(Command::ReplicaRemoved(removed)).await;
            }
            (false, _, _) | (true, None, None) => tokio::time::sleep(INTERVAL).await,
        }
        group
    }

    /// Gives a group the voters of these roles; `false` when it could not be done now.
    async fn set_voters(
        &self,
        group: GroupKey,
        replicas: &Replicas,
        votes: impl Fn(Role) -> bool,
    ) -> bool {
        let members = replicas.members.iter();
        let voters = members.filter(|(_, member)| votes(member.role));
        let voters: BTreeMap<u64, u64> = voters.map(|(id, member)| (id.0, member.node)).collect();
        let number = group_number(group);
        let Some(leader) = self.watch.leader_of(number) else {
            return false;
        };
        let reason = if leader == self.watch.node {
            let set = self.watch.set_voters_here(number, voters, CHANGE_LIMIT);
            set.await.err()
        } else {
            let voters = voters.into_iter();
            let request = wire::SetVotersRequest {
                group: number,
                voters: voters
                    .map(|(replica, node)| wire::Placed { replica, node })
                    .collect(),
                budget_ms: millis(CHANGE_LIMIT),
            };
            let limit = CHANGE_LIMIT + TRANSFER_LIMIT;
            match self.watch.peers.set_voters(leader, request, limit).await {
                Ok(answer) => (!answer.done).then_some(answer.reason),
                Err(error) => Some(error.to_string()),
            }
        };
        if let Some(reason) = &reason {
            tracing::info!(%group, reason, "the voters are not changed yet");
        }
        reason.is_none()
    }

    async fn transfer(&self, group: GroupKey, node: u64) {
        let number = group_number(group);
        let asked = match self.watch.leader_of(number) {
            Some(leader) if leader == self.watch.node => {
                self.watch.transfer_here(number, node).await
            }
            Some(leader) => {
                let request = wire::TransferLeaderRequest {
                    group: number,
                    node,
                };
                let peers = &self.watch.peers;
                let answer = peers.transfer_leader(leader, request, TRANSFER_LIMIT).await;
                answer.is_ok_and(|answer| answer.asked)
            }
            None => false,
        };
        let node = format_args!("{node:x}");
        tracing::debug!(%group, node, asked, "a leadership is to move");
    }

    async fn execute(&self, command: Command) {
        let executed = self.watch.control.execute(command).await;
        match executed.map(|executed| executed.reply) {
            Ok(Reply::Late) | Err(_) => tracing::debug!("a step was not confirmed"),
            Ok(reply) => tracing::debug!(?reply, "a step of a move"),
        }
    }
}

/// For how long nothing was heard of a node that answered last at `heard`, by a node that leads since
/// `since`, in ms; `None` when it has not led long enough to tell. It did not ask before, and a node that
/// was not asked is not dead; but neither is it alive: nothing must be handed to it on trust.
fn silence(heard: Option<Instant>, since: Instant, alive_within_ms: u64) -> Option<u64> {
    let silent = heard.map(|at| millis(at.elapsed()));
    if silent.is_some_and(|ms| ms <= alive_within_ms) {
        return silent;
    }
    let asked = heard.map_or(since, |at| at.max(since));
    let ms = millis(asked.elapsed());
    (ms > alive_within_ms).then_some(ms)
}

/// Members of groups that this node leads.
impl Watch {
    /// Who leads the group with this number.
    fn leader_of(&self, group: u64) -> Option<u64> {
        if group == METADATA_GROUP {
            return self.control.seat().lead().node;
        }
        let seat = self.router.seats().iter().find(|it| it.group() == group);
        seat?.lead().node
    }

    /// Gives a group that is led here the voters that it is to have, or says why not.
    pub async fn set_voters_here(
        &self,
        group: u64,
        voters: BTreeMap<u64, u64>,
        budget: Duration,
    ) -> Result<(), String> {
        let absent = || "no replica of the group here".to_owned();
        let deadline = Instant::now() + budget;
        if group == METADATA_GROUP {
            let group = self.control.seat().replica().ok_or_else(absent)?;
            return set_voters(&group, voters, deadline).await;
        }
        let seat = self.router.seats().iter().find(|it| it.group() == group);
        let handle = seat.and_then(|seat| seat.replica()).ok_or_else(absent)?;
        set_voters(handle.group(), voters, deadline).await
    }

    /// Asks a group that is led here to hand leadership to a node; whether it was asked.
    pub async fn transfer_here(&self, group: u64, node: u64) -> bool {
        if group == METADATA_GROUP {
            return match self.control.seat().replica() {
                Some(group) => transfer(&group, node).await,
                None => false,
            };
        }
        let seat = self.router.seats().iter().find(|it| it.group() == group);
        match seat.and_then(|seat| seat.replica()) {
            Some(handle) => transfer(handle.group(), node).await,
            None => false,
        }
    }
}

async fn set_voters<M: Machine>(
    group: &Group<M>,
    voters: BTreeMap<u64, u64>,
    deadline: Instant,
) -> Result<(), String> {
    let set = group.set_voters(voters, deadline).await;
    set.map_err(|error| error.to_string())
}

async fn transfer<M: Machine>(group: &Group<M>, node: u64) -> bool {
    let voters = group.voters();
    let Some((replica, _)) = voters.iter().find(|(_, placed)| **placed == node) else {
        return false;
    };
    let asked = group.transfer_leader(*replica).await;
    if let Err(error) = &asked {
        tracing::info!(group = group.id(), node = format_args!("{node:x}"), %error, "a leadership stays");
    }
    asked.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIVE_WITHIN_MS: u64 = 10_000;

    /// The silence of a node so many seconds after it answered last, in a leadership of so many seconds.
    fn silent(heard: Option<u64>, led: u64) -> Option<u64> {
        let now = Instant::now();
        let ago = |seconds| now - Duration::from_secs(seconds);
        silence(heard.map(ago), ago(led), ALIVE_WITHIN_MS)
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_not_heard_yet_is_neither_alive_nor_dead() {
        tokio::time::advance(Duration::from_secs(1_000)).await;
        assert_eq!(silent(None, 0), None);
        assert_eq!(silent(None, 10), None);
        assert_eq!(silent(None, 11), Some(11_000));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_answer_or_the_leadership() {
        tokio::time::advance(Duration::from_secs(1_000)).await;
        assert_eq!(silent(Some(3), 500), Some(3_000));
        assert_eq!(silent(Some(3), 1), Some(3_000));
        assert_eq!(silent(Some(70), 500), Some(70_000));
        assert_eq!(silent(Some(70), 20), Some(20_000));
        assert_eq!(silent(Some(70), 5), None);
    }
}
