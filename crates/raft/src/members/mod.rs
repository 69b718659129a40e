//! Who the members of a group are, and changing them.
//!
//! A change of voters is driven in small steps, each decided anew from what the group's membership is
//! by then: newcomers become learners, catch up, become voters by joint consensus together with the
//! removal of all that are not wanted. So a change that was cut short anywhere, by a deadline or by a
//! new leader, goes on where it was when it is asked for again; and one that is no longer wanted is
//! undone by asking for the old voters.
//!
//! A newcomer is counted only when it has nearly all of the log: a voter without it would take part
//! in no quorum for as long as it takes to send it.

mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::raft::Precondition;
use tokio::time::Instant;

use crate::group::{Group, GroupCore};
use crate::machine::Machine;
use crate::members::step::{Step, View, next_step};
use crate::types::{Membership, Placement};

/// Entries that a replica may lack and still count as caught up: under load some are always on their
/// way, and the last of them take no longer than a vote.
const BEHIND_MAX: u64 = 64;

/// How often a change looks how far it is.
const LOOK: Duration = Duration::from_millis(20);

/// The members of a group, as one of its replicas knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// By replica id. During a change of voters, those before it and those after it.
    pub voters: BTreeMap<u64, Replica>,
    /// By replica id.
    pub learners: BTreeMap<u64, Replica>,
    /// A change is not complete: it is under way, or was cut short.
    pub changing: bool,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The node it is placed on.
    pub node: u64,
    /// Entries that it has not confirmed to have on disk. `None` unless the replica that was asked
    /// leads.
    pub behind: Option<u64>,
    /// The leader has heard from it lately. False unless the replica that was asked leads.
    pub heard: bool,
}

impl Replica {
    /// Whether it has so much of the log that it may vote or lead without anybody waiting for it.
    pub fn is_caught_up(&self) -> bool {
        self.heard && self.behind.is_some_and(|behind| behind <= BEHIND_MAX)
    }
}

/// Why leadership stays.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TransferError {
    /// This replica does not lead, or its core is gone.
    #[error("not the leader")]
    NotLeader,
    /// It is no voter, lacks too much of the log, or is not heard from.
    #[error("replica {0:x} could not lead at once")]
    Unfit(u64),
}

/// Why the voters are not those that were asked for. Whatever the reason, asking again goes on where
/// the change is.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MembersError {
    /// This replica does not lead (any longer).
    #[error("not the leader; the leader's node is {leader_node:?}")]
    NotLeader {
        /// Where to go, when known.
        leader_node: Option<u64>,
    },
    /// A newcomer did not catch up before the deadline, or is not heard from. It is a learner and goes
    /// on catching up.
    #[error("replica {replica:x} is {behind} entries behind")]
    Lagging {
        /// The one that is furthest behind.
        replica: u64,
        /// Entries that it has not confirmed.
        behind: u64,
    },
    /// The group cannot have these voters, or not from where it is.
    #[error("refused: {0}")]
    Refused(String),
    /// The deadline passed, or leadership was lost, while a step was under way.
    #[error("the outcome is unknown")]
    Unknown,
}

impl<M: Machine> Group<M> {
    /// The members, as this replica knows them; the newest that it has heard of, committed or not.
    pub fn members(&self) -> Members {
        self.core().view().members()
    }

    /// The voter that leadership can go to at the least cost: caught up, heard from lately, and with
    /// the most of the log. `None` when this replica does not lead, or nobody is fit.
    ///
    /// Of several that are fit, the one whose node has the highest `preference`.
    pub fn best_heir<P: Ord>(&self, preference: impl Fn(u64) -> P) -> Option<u64> {
        self.core()
            .view()
            .best_heir(self.core().replica, preference)
    }

    /// Asks the group to hand leadership to a voter.
    ///
    /// # Errors
    /// When this replica does not lead, or the other could not lead at once.
    pub async fn transfer_leader(&self, replica: u64) -> Result<(), TransferError> {
        let view = self.core().view();
        if !view.leads {
            return Err(TransferError::NotLeader);
        }
        if !view.is_fit(replica) {
            return Err(TransferError::Unfit(replica));
        }
        let transfer = self.core().raft().trigger().transfer_leader(replica).await;
        transfer.map_err(|_| TransferError::NotLeader)
    }

    /// Makes `goal` (node by replica id) the voters, and the only members; the leader's to do.
    ///
    /// Newcomers must be open on their nodes ([`RaftNode::open_group`]). They are added as learners;
    /// when they have caught up the voters are changed by joint consensus, and all others are removed
    /// altogether. A leader that is not in the goal answers what it owes, and then hands over.
    ///
    /// Asking again is harmless at any time and goes on with what is left to do, also on another
    /// leader; asking for the voters before abandons the change. `Ok` when the change is committed.
    ///
    /// [`RaftNode::open_group`]: crate::RaftNode::open_group
    pub async fn set_voters(
        &self,
        goal: BTreeMap<u64, u64>,
        deadline: Instant,
    ) -> Result<(), MembersError> {
        let change = Change {
            core: self.core(),
            goal,
            deadline,
        };
        change.run().await
    }
}

/// A change of voters that was asked for.
struct Change<'a> {
    core: &'a Arc<GroupCore>,
    goal: BTreeMap<u64, u64>,
    deadline: Instant,
}

impl Change<'_> {
    async fn run(&self) -> Result<(), MembersError> {
        loop {
            let view = self.look()?;
            let waits_for = match next_step(&view, &self.goal).map_err(MembersError::Refused)? {
                Step::Nothing => return Ok(()),
                Step::Propose(changes) => match self.propose(&view, changes).await? {
                    Proposed::Reached => return Ok(()),
                    Proposed::Committed => continue,
                    Proposed::NotNow => MembersError::Unknown,
                },
                Step::Settle => MembersError::Unknown,
                Step::CatchUp { replica, behind } => MembersError::Lagging { replica, behind },
            };
            if Instant::now() >= self.deadline {
                return Err(waits_for);
            }
            tokio::time::sleep_until(self.deadline.min(Instant::now() + LOOK)).await;
        }
    }

    fn look(&self) -> Result<View, MembersError> {
        let mut view = self.core.view();
        if !view.leads {
            let leader_node = self.core.leadership.borrow().leader_node;
            return Err(MembersError::NotLeader { leader_node });
        }
        // Before it has applied an entry of its own term it does not know what is committed.
        view.settled &= self.core.leadership.borrow().serving;
        Ok(view)
    }

    async fn propose(
        &self,
        view: &View,
        changes: ChangeMembers<u64, Placement>,
    ) -> Result<Proposed, MembersError> {
        let raft = self.core.raft();
        // Two that change the members at once must not undo each other's steps.
        let unchanged = Precondition::LastMembershipLogId {
            last_membership_log_id: view.log_id,
        };
        let change = raft.change_membership_if(changes, false, [unchanged]);
        let Ok(outcome) = tokio::time::timeout_at(self.deadline, change).await else {
            return Err(MembersError::Unknown);
        };
        let error = match outcome {
            Ok(written) => {
                let now = written.membership.as_ref();
                let reached = now.is_some_and(|now| self.is_goal(now));
                return Ok(if reached {
                    Proposed::Reached
                } else {
                    Proposed::Committed
                });
            }
            Err(RaftError::APIError(error)) => error,
            // The core is gone; what it had begun may go on elsewhere.
            Err(RaftError::Fatal(_)) => return Err(MembersError::Unknown),
        };
        match error {
            // A leader that has just begun, or hears too little, refuses; the next look tells whether
            // it still is one.
            ClientWriteError::ForwardToLeader(_)
            | ClientWriteError::PreconditionFailed(_)
            | ClientWriteError::ChangeMembershipError(
                ChangeMembershipError::InProgress(_)
                | ChangeMembershipError::UncommittedLeaderLog(_),
            ) => Ok(Proposed::NotNow),
            ClientWriteError::LogEntryDiscarded(_) => Err(MembersError::Unknown),
            ClientWriteError::ChangeMembershipError(
                refusal @ (ChangeMembershipError::EmptyMembership(_)
                | ChangeMembershipError::LearnerNotFound(_)
                | ChangeMembershipError::UnsupportedMembershipTransition(_)
                | ChangeMembershipError::NodeMetadataChanged(_)),
            ) => Err(MembersError::Refused(refusal.to_string())),
        }
    }

    fn is_goal(&self, membership: &Membership) -> bool {
        let sets = membership.get_joint_config();
        let wanted: BTreeSet<u64> = self.goal.keys().copied().collect();
        let members = membership.nodes().map(|(replica, _)| *replica);
        sets.len() == 1 && sets[0] == wanted && members.eq(wanted.iter().copied())
    }
}

/// What came of a proposed step.
enum Proposed {
    /// The goal.
    Reached,
    Committed,
    /// It had no effect; later it may.
    NotNow,
}
