//! One Raft group on this node: entries in, answers out, who leads.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hikyaku_storage::{GroupLog, LogId, ReadError, Work};
use openraft::ReadPolicy;
use openraft::errors::{ClientWriteError, InitializeError, LinearizableReadError, RaftError};
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use tokio::sync::{oneshot, watch};

use crate::healing::Mender;
use crate::hosting::{GroupSpec, Opener};
use crate::log_store::on_disk;
use crate::machine::{GroupClock, Machine};
use crate::snapshot::Incoming;
use crate::state_machine::{AnyMachine, AppliedPoint, Hosted};
use crate::types::{AnyReply, EntryData, Placement, Raft, TypeConfig};

/// Who leads a group, as this replica sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The term this replica is in.
    pub term: u64,
    /// The leader's node, when one is known.
    pub leader_node: Option<u64>,
    /// This replica leads *and* has applied an entry of its own term: only then does it serve.
    pub serving: bool,
}

/// An entry that was applied.
#[derive(Debug)]
pub struct Applied<R> {
    /// The entry's index.
    pub index: u64,
    /// The machine's answer.
    pub reply: R,
}

/// A point up to which the log was committed when it was asked for, and which is applied here now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Index of the last entry covered.
    pub index: u64,
}

/// Why an entry was not answered.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// This replica did not lead, and the entry was not taken: it has no effect.
    #[error("not the leader; the leader's node is {leader_node:?}")]
    NotLeader {
        /// Where to go, when known.
        leader_node: Option<u64>,
    },
    /// Leadership was lost or the group stopped while the entry was under way: it may still be
    /// applied. Only a retry with the same request id is safe.
    #[error("the outcome is unknown; the leader's node is {leader_node:?}")]
    Unknown {
        /// Where to go, when known.
        leader_node: Option<u64>,
    },
}

/// What of a group does not depend on its machine's type.
pub struct GroupCore {
    pub id: u64,
    pub replica: u64,
    pub log: GroupLog,
    pub work: Work,
    /// A follower that was not heard for longer is not thought to be alive.
    pub silence_max: Duration,
    pub clock: Arc<dyn GroupClock>,
    pub machine: Arc<dyn AnyMachine>,
    pub leadership: watch::Sender<Leadership>,
    /// A snapshot that is being received.
    pub incoming: Incoming,
    /// Where damaged bodies come from.
    pub mender: Mender,
    raft: RwLock<Raft>,
}

impl GroupCore {
    pub fn new(
        spec: &GroupSpec,
        log: GroupLog,
        machine: Arc<dyn AnyMachine>,
        raft: Raft,
        opener: &Opener,
    ) -> Self {
        Self {
            id: spec.group,
            replica: spec.replica,
            log,
            work: opener.work,
            silence_max: opener.settings.silence_max(),
            clock: Arc::clone(&spec.clock),
            machine,
            leadership: watch::Sender::default(),
            incoming: Incoming::default(),
            mender: opener.mender.clone(),
            raft: RwLock::new(raft),
        }
    }

    pub fn raft(&self) -> Raft {
        self.raft
            .read()
            .expect("no panic happens under this lock")
            .clone()
    }

    /// Puts a freshly opened core in the place of one that died.
    pub fn replace(&self, raft: Raft) {
        *self.raft.write().expect("no panic happens under this lock") = raft;
    }
}

/// A group and its machine. Cheap to clone.
pub struct Group<M> {
    core: Arc<GroupCore>,
    hosted: Arc<Hosted<M>>,
}

impl<M> Clone for Group<M> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            hosted: Arc::clone(&self.hosted),
        }
    }
}

impl<M: Machine> Group<M> {
    pub(crate) fn new(core: Arc<GroupCore>, hosted: Arc<Hosted<M>>) -> Self {
        Self { core, hosted }
    }

    pub(crate) fn core(&self) -> &Arc<GroupCore> {
        &self.core
    }

    /// The group's id, the same on all nodes.
    pub fn id(&self) -> u64 {
        self.core.id
    }

    /// Founds the group with these voters (node by replica id). Does nothing when it was founded
    /// before. Every founding member may call it with the same list.
    pub async fn found(&self, voters: BTreeMap<u64, u64>) -> Result<(), ProposeError> {
        let members: BTreeMap<u64, Placement> = voters
            .into_iter()
            .map(|(replica, node)| (replica, Placement { node }))
            .collect();
        match self.core.raft().initialize(members).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(RaftError::APIError(InitializeError::NotInMembers(_)))
            | Err(RaftError::Fatal(_)) => Err(ProposeError::NotLeader { leader_node: None }),
        }
    }

    /// Hands one entry to the group. Returns when its place in the order of this caller is certain;
    /// the result then waits for quorum and apply.
    pub async fn submit(
        &self,
        head: Bytes,
        bodies: Vec<Bytes>,
    ) -> Result<Submitted<M::Reply>, ProposeError> {
        let (responder, receiver) =
            ProgressResponder::<TypeConfig, ClientWriteResult<TypeConfig>>::complete_only();
        let data = EntryData { head, bodies };
        match self
            .core
            .raft()
            .client_write_ff(data, Some(responder))
            .await
        {
            Ok(()) => Ok(Submitted {
                receiver,
                reply: std::marker::PhantomData,
            }),
            // The core is gone and never saw the entry.
            Err(_) => Err(ProposeError::NotLeader { leader_node: None }),
        }
    }

    /// Who leads now.
    pub fn leadership(&self) -> Leadership {
        *self.core.leadership.borrow()
    }

    /// Follows who leads.
    pub fn watch_leadership(&self) -> watch::Receiver<Leadership> {
        self.core.leadership.subscribe()
    }

    /// Whether this replica leads, and has heard from no majority of the voters for as long as
    /// `silence`: another may lead by now, and nothing can be done here.
    pub fn is_cut_off(&self, silence: Duration) -> bool {
        self.core.is_cut_off(silence)
    }

    /// Confirms leadership with a quorum and waits until everything committed before is applied here.
    pub async fn read_barrier(&self) -> Result<Barrier, ProposeError> {
        match self
            .core
            .raft()
            .ensure_linearizable(ReadPolicy::ReadIndex)
            .await
        {
            Ok(read) => Ok(Barrier {
                index: read.index(),
            }),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
                Err(ProposeError::NotLeader {
                    leader_node: forward.leader_node.map(|p| p.node),
                })
            }
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)))
            | Err(RaftError::Fatal(_)) => Err(ProposeError::NotLeader { leader_node: None }),
        }
    }

    /// Follows the index of the last applied entry.
    pub fn watch_applied(&self) -> watch::Receiver<AppliedPoint> {
        self.core.machine.applied()
    }

    /// Looks at the machine. Keep it short: apply waits meanwhile.
    pub fn with_machine<R>(&self, read: impl FnOnce(&M) -> R) -> R {
        self.hosted.with_machine(read)
    }

    /// The bodies of applied messages by index and ordinal, from memory or by one checked read each;
    /// all that must go to the disk go there in one job. What is damaged here comes from another
    /// replica, and is written here again.
    pub async fn read_bodies(&self, names: &[(u64, u32)]) -> Vec<Result<Bytes, ReadError>> {
        let log = self.core.log.clone();
        let cached = names.iter().all(|(index, _)| log.body_cached(*index));
        let wanted: Vec<(LogId, u32)> = names
            .iter()
            .map(|(index, ordinal)| {
                // An index that was never applied here has no leader; the log answers that it is gone.
                let leader = self.core.machine.leader_of(*index).unwrap_or_default();
                (
                    LogId {
                        leader,
                        index: *index,
                    },
                    *ordinal,
                )
            })
            .collect();
        let names = wanted.clone();
        let read = move || -> Vec<Result<Bytes, ReadError>> {
            let names = names.into_iter();
            names
                .map(|(id, ordinal)| log.read_body(id, ordinal))
                .collect()
        };
        if cached {
            return read();
        }
        let mut bodies = on_disk(self.core.work, read).await;
        let damaged: Vec<(LogId, u32)> = wanted
            .iter()
            .zip(&bodies)
            .filter(|(_, body)| !matches!(body, Ok(_) | Err(ReadError::Gone { .. })))
            .map(|(name, _)| *name)
            .collect();
        if !damaged.is_empty() {
            let found = self
                .core
                .mender
                .mend(self.core.id, &self.core.log, &damaged);
            let found = found.await;
            for (name, body) in wanted.iter().zip(&mut bodies) {
                if let Some(whole) = found.get(name) {
                    *body = Ok(whole.clone());
                }
            }
        }
        bodies
    }

    /// The voters by replica id, with their nodes.
    pub fn voters(&self) -> BTreeMap<u64, u64> {
        let (_, membership) = self.core.machine.applied_state();
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        membership
            .nodes()
            .filter(|(replica, _)| voters.contains(replica))
            .map(|(replica, placement)| (*replica, placement.node))
            .collect()
    }
}

/// An entry under way. Dropping it gives up the answer, not the entry.
pub struct Submitted<R> {
    receiver: oneshot::Receiver<ClientWriteResult<TypeConfig>>,
    reply: std::marker::PhantomData<fn() -> R>,
}

impl<R: 'static> Future for Submitted<R> {
    type Output = Result<Applied<R>, ProposeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(received) = Pin::new(&mut self.receiver).poll(cx) else {
            return Poll::Pending;
        };
        Poll::Ready(match received {
            Ok(Ok(written)) => Ok(Applied {
                index: written.log_id.index(),
                reply: unwrap_reply(written.data),
            }),
            // Refused before it was appended.
            Ok(Err(ClientWriteError::ForwardToLeader(forward))) => Err(ProposeError::NotLeader {
                leader_node: forward.leader_node.map(|p| p.node),
            }),
            Ok(Err(ClientWriteError::LogEntryDiscarded(forward))) => Err(ProposeError::Unknown {
                leader_node: forward.leader_node.map(|p| p.node),
            }),
            Ok(Err(
                ClientWriteError::ChangeMembershipError(_)
                | ClientWriteError::PreconditionFailed(_),
            ))
            | Err(_) => Err(ProposeError::Unknown { leader_node: None }),
        })
    }
}

fn unwrap_reply<R: 'static>(reply: AnyReply) -> R {
    let boxed = reply
        .0
        .expect("an entry with data is answered by the machine");
    *boxed
        .downcast()
        .expect("a group's machine answers with its own reply type")
}
