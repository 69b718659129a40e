//! What should move: replicas between nodes, leaders between voters.
//!
//! The metadata leader asks again and again, carries out the steps, and asks anew. Nothing is kept
//! between two calls, so that it does not matter who asks: the replicated state and what the leader
//! sees of its nodes say everything.
//!
//! A group whose voters are not alive in their majority is left alone: no placement brings that back.
//! So is one that is moving, unless its move cannot go on: because its new replica's node fails or is to
//! lose its replicas, or because those that stay would be no majority. Of the other groups, in this
//! order and as far as [`PlacementLimits`] allow:
//!
//! 1. What is on a draining or decommissioning node moves to another node.
//! 2. So does what is on a node that has been silent for long, for one such node at a time. Without a
//!    node to go to it stays: it may come back.
//! 3. A group with fewer replicas than wished gets one more.
//! 4. A group with more loses one: a silent one first, then where most are in one zone, then where
//!    most are on one node.
//! 5. A replica moves out of a zone that has two more of its group than another zone with a free node.
//! 6. When nothing of that is to be done, replicas move from the fullest node to one that has two less
//!    or fewer still, unless their group's zones would be the worse for it. The metadata group stays:
//!    it weighs no more than others and everybody needs it.
//!
//! A replica goes where its group has the fewest in the zone, then where the fewest replicas are. Only
//! active, alive storage nodes take any. A node of unknown zone is a zone of its own.
//!
//! Nothing swings: each step lowers the first of these that it changes and leaves those before it
//! alone: replicas on nodes that are to lose them, replicas too few or too many, the crowding of
//! groups in zones, the crowding of replicas on nodes.
//!
//! Leaders move one per call: away from what is leaving, cordoned or on its way out, else from a node
//! that leads two groups more than another voter's node, once no node has come back lately.

mod draft;
mod leaders;

use crate::machine::Metadata;
use crate::node::NodeState;
use crate::replicas::{GroupKey, ReplicaId};
use draft::Draft;
use std::collections::{BTreeMap, BTreeSet};

/// What the metadata leader sees of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// For how long nothing was heard of each node, in ms, counted from the start of the leadership
    /// at the earliest. A node that is missing here is taken neither for alive nor for dead.
    pub silent_ms: BTreeMap<u64, u64>,
    /// For how long each node has been reached without a break, in ms. A node that is missing here has
    /// been there for long.
    pub reached_ms: BTreeMap<u64, u64>,
    /// The nodes that lead groups, as far as is known.
    pub leaders: BTreeMap<GroupKey, u64>,
    /// The nodes whose replicas have caught up, for groups of which that is known. Of others the
    /// transfer itself finds out.
    pub caught_up: BTreeMap<GroupKey, BTreeSet<u64>>,
}

/// How much may be under way, and how patient the planner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacementLimits {
    /// Moves under way in the whole cluster: each sends a snapshot.
    pub moves: usize,
    /// Moves in which one node gains or loses a replica.
    pub moves_per_node: usize,
    /// A node heard of within this time is alive, in ms.
    pub alive_within_ms: u64,
    /// After so long a silence of a node nothing waits for it that is under way, in ms.
    pub abandon_after_ms: u64,
    /// After so long a silence the replicas of a node are replaced, in ms: longer than a restart, a
    /// reboot and most repairs, since each replacement copies all that a node has.
    pub replace_after_ms: u64,
    /// Leaders are balanced when no node is younger, in ms: longer than the pause between two nodes that
    /// are restarted in turn, or leadership would be carried after each of them.
    pub settle_ms: u64,
}

impl Default for PlacementLimits {
    fn default() -> Self {
        Self {
            moves: 4,
            moves_per_node: 2,
            alive_within_ms: 10_000,
            abandon_after_ms: 60_000,
            replace_after_ms: 600_000,
            settle_ms: 30_000,
        }
    }
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Start a move ([`crate::StartMove`]) with a replica id that is drawn now.
    Move {
        /// The group.
        group: GroupKey,
        /// The version of its replicas.
        version: u64,
        /// The node that gets a replica.
        add_on: Option<u64>,
        /// The replica that goes.
        remove: Option<ReplicaId>,
    },
    /// Give up the move under way ([`crate::AbandonMove`]), unless the group has made its next step.
    Abandon {
        /// The group.
        group: GroupKey,
        /// The version of its replicas.
        version: u64,
    },
    /// Hand leadership over.
    TransferLeader {
        /// The group.
        group: GroupKey,
        /// The node that is to lead it.
        to_node: u64,
    },
    /// Nothing is left on a decommissioning node ([`crate::SetNodeState`]).
    CompleteDecommission {
        /// The node.
        node: u64,
    },
}

/// Plans the next steps. None are left when everything is in its place.
pub fn plan(metadata: &Metadata, seen: &Observed, limits: &PlacementLimits) -> Vec<Step> {
    let Some(cluster) = metadata.cluster() else {
        return Vec::new();
    };
    let mut draft = Draft::new(cluster, metadata.groups(), seen, limits);
    draft.abandon();
    draft.drain();
    draft.replace_dead();
    draft.add_missing();
    draft.remove_surplus();
    draft.spread_over_zones();
    if !draft.plans_moves() {
        draft.balance();
    }
    let mut steps = draft.steps;
    let transfer = leaders::transfer(metadata, seen, limits, &steps);
    steps.extend(transfer);
    let leaving = cluster.nodes.iter().filter(|record| {
        record.state == NodeState::Decommissioning && metadata.replicas_on(record.node) == 0
    });
    steps.extend(leaving.map(|it| Step::CompleteDecommission { node: it.node }));
    steps
}

impl Observed {
    pub(crate) fn is_alive(&self, node: u64, limits: &PlacementLimits) -> bool {
        let silent = self.silent_ms.get(&node);
        silent.is_some_and(|ms| *ms <= limits.alive_within_ms)
    }

    pub(crate) fn is_silent_for(&self, node: u64, ms: u64) -> bool {
        self.silent_ms
            .get(&node)
            .is_some_and(|silent| *silent >= ms)
    }
}
