//! The control plane as this node uses it: commands for the metadata leader, and reads that see
//! everything committed before they were asked.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hikyaku_metadata::{Command, Envelope, Reply, encode_entry};
use hikyaku_proto::node as wire;
use hikyaku_queue::{Descriptor, QueueId, RequestId};
use hikyaku_raft::{Group, Peers, ProposeError};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::barriers::Barriers;
use crate::catalogue::Catalogue;
use crate::clock::PartitionClock;
use crate::machines::MetadataMachine;
use crate::node::hand_off;
use crate::partition::{
    DescriptorSource, HEAR_VOTERS_INTERVAL, HEAR_VOTERS_LIMIT, MetadataUnreachable,
};
use crate::ports::Entropy;

/// Pauses between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// How long one attempt at another node may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);

/// The metadata leader did not answer in time; a command may have had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the metadata leader did not answer in time")]
pub struct ControlUnavailable;

/// A command that was applied.
pub struct Executed {
    /// The machine's answer.
    pub reply: Reply,
    /// Where in the metadata's log.
    pub index: u64,
}

/// Why this node did not execute a command.
pub struct NotHere {
    /// Who leads, when known.
    pub leader_node: Option<u64>,
    /// Whether the command certainly had no effect.
    pub no_effect: bool,
}

/// This node's replica of the metadata, and the way to its leader.
pub struct ControlPlane {
    node: u64,
    group: Group<MetadataMachine>,
    clock: Arc<PartitionClock>,
    peers: Peers,
    entropy: Arc<dyn Entropy>,
    catalogue: Arc<Catalogue>,
    budget: Duration,
    barriers: Barriers,
    /// Whether this replica leads and its clock runs.
    serving: watch::Sender<bool>,
}

impl ControlPlane {
    /// `budget` is how long a caller waits for a leader.
    pub fn new(
        node: u64,
        group: Group<MetadataMachine>,
        clock: Arc<PartitionClock>,
        peers: Peers,
        entropy: Arc<dyn Entropy>,
        catalogue: Arc<Catalogue>,
        budget: Duration,
    ) -> Self {
        let serving = watch::Sender::new(false);
        Self {
            node,
            group,
            clock,
            peers,
            entropy,
            catalogue,
            budget,
            barriers: Barriers::default(),
            serving,
        }
    }

    /// The metadata's group.
    pub fn group(&self) -> &Group<MetadataMachine> {
        &self.group
    }

    /// After a full stop, waits a little to hear the clocks of the other voters.
    pub async fn hear_voters(&self) {
        let others = self.group.voters().len().saturating_sub(1);
        let deadline = Instant::now() + HEAR_VOTERS_LIMIT;
        while !self.clock.is_ready_to_lead(others) && Instant::now() < deadline {
            tokio::time::sleep(HEAR_VOTERS_INTERVAL).await;
        }
    }

    /// Takes over or gives up the metadata's T.
    pub fn set_serving(&self, serving: bool) {
        if serving {
            let applied_ms = self.group.with_machine(|machine| machine.0.now());
            self.clock.lead(applied_ms);
        } else {
            self.clock.follow();
        }
        self.serving.send_replace(serving);
    }

    /// Hands leadership of the metadata to another node.
    pub async fn hand_off(&self) {
        hand_off(&self.group, self.node).await;
    }

    /// T of the metadata as this node believes it, milliseconds.
    pub fn now_ms(&self) -> Option<u64> {
        self.clock.now_ms()
    }

    /// Runs a command, wherever the leader is. Returns when this node's copy shows its effect.
    pub async fn execute(&self, command: Command) -> Result<Executed, ControlUnavailable> {
        let deadline = Instant::now() + self.budget;
        let request_id = RequestId(self.entropy.draw_u128());
        let mut envelope = None;
        let mut pause = FIRST_PAUSE;
        loop {
            // T must be known once: `not_after` never changes.
            if envelope.is_none() {
                let budget_ms = u64::try_from(self.budget.as_millis()).unwrap_or(u64::MAX);
                envelope = self.clock.now_ms().map(|now_ms| Envelope {
                    request_id,
                    not_after: now_ms + budget_ms,
                    command: command.clone(),
                });
            }
            if let Some(envelope) = &envelope
                && let Some(executed) = self.attempt(envelope, deadline).await
            {
                if executed.reply == Reply::Late {
                    return Err(ControlUnavailable);
                }
                self.wait_synced(executed.index, deadline).await?;
                return Ok(executed);
            }
            if Instant::now() + pause >= deadline {
                return Err(ControlUnavailable);
            }
            self.wait_for_change(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn attempt(&self, envelope: &Envelope, deadline: Instant) -> Option<Executed> {
        let leader = self.group.leadership().leader_node?;
        if leader == self.node {
            return tokio::time::timeout_at(deadline, self.execute_here(envelope))
                .await
                .ok()?
                .ok();
        }
        let limit = ATTEMPT_LIMIT.min(deadline.saturating_duration_since(Instant::now()));
        let request = wire::ControlRequest {
            command: envelope.encode().into(),
            budget_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        };
        match self.peers.control(leader, request, limit).await {
            Ok(response) => match response.result? {
                wire::control_response::Result::Answer(answer) => {
                    let reply = Reply::decode(&answer.reply);
                    let reply =
                        reply.inspect_err(|error| tracing::error!(%error, "answer unreadable"));
                    Some(Executed {
                        reply: reply.ok()?,
                        index: answer.index,
                    })
                }
                wire::control_response::Result::Retry(_) => None,
            },
            Err(error) => {
                tracing::debug!(leader, %error, "control-plane attempt failed");
                None
            }
        }
    }

    /// Runs a command on this node, if it leads.
    pub async fn execute_here(&self, envelope: &Envelope) -> Result<Executed, NotHere> {
        let now_ms = self.clock.now_ms().filter(|_| *self.serving.borrow());
        let Some(now_ms) = now_ms else {
            let leader_node = self.group.leadership().leader_node;
            return Err(NotHere {
                leader_node,
                no_effect: true,
            });
        };
        let head = encode_entry(now_ms, std::slice::from_ref(envelope));
        let submitted = self
            .group
            .submit(head.into(), Vec::new())
            .await
            .map_err(not_here)?;
        let mut applied = submitted.await.map_err(not_here)?;
        let outcome = applied.reply.pop().expect("one command, one answer");
        Ok(Executed {
            reply: outcome.reply,
            index: applied.index,
        })
    }

    /// Returns when this node's copy shows everything that was committed when it was called.
    pub async fn barrier(&self) -> Result<(), ControlUnavailable> {
        let deadline = Instant::now() + self.budget;
        let mut pause = FIRST_PAUSE;
        loop {
            let round = self.barriers.join(self.ask_committed());
            if let Ok(Some(index)) = tokio::time::timeout_at(deadline, round).await {
                return self.wait_synced(index, deadline).await;
            }
            if Instant::now() + pause >= deadline {
                return Err(ControlUnavailable);
            }
            self.wait_for_change(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Asks the leader once for the committed index.
    fn ask_committed(&self) -> BoxFuture<'static, Option<u64>> {
        let (node, group, peers) = (self.node, self.group.clone(), self.peers.clone());
        Box::pin(async move {
            let leader = group.leadership().leader_node?;
            if leader == node {
                let barrier = tokio::time::timeout(ATTEMPT_LIMIT, group.read_barrier()).await;
                return Some(barrier.ok()?.ok()?.index);
            }
            let request = wire::BarrierRequest {
                budget_ms: u64::try_from(ATTEMPT_LIMIT.as_millis()).unwrap_or(u64::MAX),
            };
            let answer = peers.barrier(leader, request, ATTEMPT_LIMIT).await;
            match answer.ok()?.result? {
                wire::barrier_response::Result::Index(index) => Some(index),
                wire::barrier_response::Result::Retry(_) => None,
            }
        })
    }

    /// The committed index, if this node leads.
    pub async fn barrier_here(&self) -> Result<u64, NotHere> {
        let barrier = self.group.read_barrier().await.map_err(not_here)?;
        Ok(barrier.index)
    }

    /// Waits until every partition of the queue's spread holds this descriptor version.
    pub async fn wait_delivered(
        &self,
        queue: QueueId,
        version: u64,
    ) -> Result<(), ControlUnavailable> {
        let mut applied = self.group.watch_applied();
        let delivered = async {
            while !self
                .group
                .with_machine(|machine| machine.0.is_delivered(queue, version))
            {
                if applied.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(self.budget, delivered)
            .await
            .map_err(|_| ControlUnavailable)
    }

    async fn wait_synced(&self, index: u64, deadline: Instant) -> Result<(), ControlUnavailable> {
        let mut synced = self.catalogue.watch_synced();
        let reached = synced.wait_for(|synced| *synced >= index);
        match tokio::time::timeout_at(deadline, reached).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(ControlUnavailable),
        }
    }

    async fn wait_for_change(&self, pause: Duration) {
        let mut leadership = self.group.watch_leadership();
        // Either way the caller looks again.
        tokio::time::timeout(pause, leadership.changed()).await.ok();
    }
}

fn not_here(error: ProposeError) -> NotHere {
    match error {
        ProposeError::NotLeader { leader_node } => NotHere {
            leader_node,
            no_effect: true,
        },
        ProposeError::Unknown { leader_node } => NotHere {
            leader_node,
            no_effect: false,
        },
    }
}

/// Descriptors for partition leaders, each read behind a barrier.
pub struct BarrierDescriptors(pub Arc<ControlPlane>);

impl DescriptorSource for BarrierDescriptors {
    fn descriptor(
        &self,
        queue: QueueId,
    ) -> BoxFuture<'static, Result<Option<Descriptor>, MetadataUnreachable>> {
        let control = Arc::clone(&self.0);
        Box::pin(async move {
            control
                .barrier()
                .await
                .map_err(|ControlUnavailable| MetadataUnreachable)?;
            Ok(control
                .group
                .with_machine(|machine| machine.0.descriptor(queue).cloned()))
        })
    }
}
