//! The control plane as this node uses it: commands for the metadata leader, and reads that see
//! everything committed before they were asked. With or without a replica of the metadata here.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hikyaku_metadata::{Command, Envelope, Metadata, Reply, encode_entry};
use hikyaku_proto::node as wire;
use hikyaku_queue::{Descriptor, QueueId, RequestId};
use hikyaku_raft::{Group, Peers, ProposeError};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::barriers::Barriers;
use crate::catalogue::Catalogue;
use crate::clock::millis;
use crate::machines::MetadataMachine;
use crate::partition::{
    DescriptorSource, HEAR_VOTERS_INTERVAL, HEAR_VOTERS_LIMIT, MetadataUnreachable,
};
use crate::ports::Entropy;
use crate::seats::Seat;
use crate::watch::News;

/// Pauses between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// How long one attempt at another node may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);

/// A leader that has heard from no majority for so long says no more that it leads, and does not count
/// as one: longer than an election, so that what passes is not noticed.
pub const CUT_OFF_AFTER: Duration = Duration::from_secs(3);

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

/// The metadata's group as this node sees it.
pub type MetadataSeat = Seat<Group<MetadataMachine>>;

/// The way to the metadata's leader, and this node's replica of them, if it has one.
pub struct ControlPlane {
    node: u64,
    seat: Arc<MetadataSeat>,
    peers: Peers,
    entropy: Arc<dyn Entropy>,
    catalogue: Arc<Catalogue>,
    budget: Duration,
    barriers: Barriers,
    /// Whether this replica leads and its clock runs.
    serving: watch::Sender<bool>,
    news: News,
}

impl ControlPlane {
    /// `budget` is how long a caller waits for a leader.
    pub fn new(
        node: u64,
        seat: Arc<MetadataSeat>,
        peers: Peers,
        entropy: Arc<dyn Entropy>,
        catalogue: Arc<Catalogue>,
        budget: Duration,
        news: News,
    ) -> Self {
        let serving = watch::Sender::new(false);
        Self {
            node,
            seat,
            peers,
            entropy,
            catalogue,
            budget,
            barriers: Barriers::default(),
            serving,
            news,
        }
    }

    /// What is known of the metadata's group.
    pub fn seat(&self) -> &Arc<MetadataSeat> {
        &self.seat
    }

    /// Looks at the replica of the metadata here; `None` when there is none.
    pub fn with_metadata<R>(&self, read: impl FnOnce(&Metadata) -> R) -> Option<R> {
        let group = self.seat.replica()?;
        Some(group.with_machine(|machine| read(&machine.0)))
    }

    /// The replica here, if it shows all that the copy shows: one on its way in or out does not.
    fn current_replica(&self) -> Option<Group<MetadataMachine>> {
        let group = self.seat.replica()?;
        let applied = group.watch_applied().borrow().index;
        (applied >= *self.catalogue.watch_synced().borrow()).then_some(group)
    }

    /// After a full stop, waits a little to hear the clocks of the other voters.
    pub async fn hear_voters(&self) {
        let Some(group) = self.seat.replica() else {
            return;
        };
        let others = group.voters().len().saturating_sub(1);
        let deadline = Instant::now() + HEAR_VOTERS_LIMIT;
        while !self.seat.clock().is_ready_to_lead(others) && Instant::now() < deadline {
            tokio::time::sleep(HEAR_VOTERS_INTERVAL).await;
        }
    }

    /// Takes over or gives up the metadata's T.
    pub fn set_serving(&self, serving: bool) {
        match self.with_metadata(|metadata| metadata.now()) {
            Some(applied_ms) if serving => self.seat.clock().lead(applied_ms),
            Some(_) | None => self.seat.clock().follow(),
        }
        self.serving.send_replace(serving);
        self.news.tell();
    }

    /// T of the metadata as this node believes it, milliseconds.
    pub fn now_ms(&self) -> Option<u64> {
        self.seat.now_ms()
    }

    /// How long ago this node last heard from the metadata's leader; nothing if it leads them, `None` when
    /// it has not since its start, or has no copy of them yet.
    pub fn heard(&self) -> Option<Duration> {
        let synced = *self.catalogue.watch_synced().borrow() > 0;
        self.seat.clock().leader_age().filter(|_| synced)
    }

    /// Whether this node leads the metadata and answers for them: its term and T then.
    pub fn leads(&self) -> Option<(u64, u64)> {
        let serves = *self.serving.borrow() && !self.is_cut_off();
        let now_ms = self.seat.now_ms().filter(|_| serves)?;
        Some((self.seat.lead().term, now_ms))
    }

    /// Whether a leader of the metadata is known, and may do something.
    pub fn has_leader(&self) -> bool {
        self.seat.lead().node.is_some() && !self.is_cut_off()
    }

    /// Whether this node leads the metadata and has heard from no majority of late.
    fn is_cut_off(&self) -> bool {
        let group = self.seat.replica();
        group.is_some_and(|group| group.is_cut_off(CUT_OFF_AFTER))
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
                let budget_ms = millis(self.budget);
                envelope = self.seat.now_ms().map(|now_ms| Envelope {
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
        let leader = self.seat.lead().node?;
        if leader == self.node {
            return tokio::time::timeout_at(deadline, self.execute_here(envelope))
                .await
                .ok()?
                .ok();
        }
        let limit = ATTEMPT_LIMIT.min(deadline.saturating_duration_since(Instant::now()));
        let request = wire::ControlRequest {
            command: envelope.encode().into(),
            budget_ms: millis(limit),
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
        let (Some((_, now_ms)), Some(group)) = (self.leads(), self.seat.replica()) else {
            return Err(self.elsewhere());
        };
        let head = encode_entry(now_ms, std::slice::from_ref(envelope));
        let submitted = group
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
        let (node, seat, peers) = (self.node, Arc::clone(&self.seat), self.peers.clone());
        Box::pin(async move {
            let leader = seat.lead().node?;
            if leader == node {
                let group = seat.replica()?;
                let barrier = tokio::time::timeout(ATTEMPT_LIMIT, group.read_barrier()).await;
                return Some(barrier.ok()?.ok()?.index);
            }
            let request = wire::BarrierRequest {
                budget_ms: millis(ATTEMPT_LIMIT),
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
        let group = self.seat.replica().ok_or_else(|| self.elsewhere())?;
        let barrier = group.read_barrier().await.map_err(not_here)?;
        Ok(barrier.index)
    }

    fn elsewhere(&self) -> NotHere {
        NotHere {
            leader_node: self.seat.lead().node,
            no_effect: true,
        }
    }

    /// Waits until every partition of the queue's spread holds this descriptor version.
    pub async fn wait_delivered(
        &self,
        queue: QueueId,
        version: u64,
    ) -> Result<(), ControlUnavailable> {
        if let Some(delivered) = self.delivered_here(queue, version, self.budget).await {
            return if delivered {
                Ok(())
            } else {
                Err(ControlUnavailable)
            };
        }
        let deadline = Instant::now() + self.budget;
        while Instant::now() < deadline {
            let limit = ATTEMPT_LIMIT.min(deadline.saturating_duration_since(Instant::now()));
            let request = wire::DeliveredRequest {
                queue: queue.0,
                version,
                budget_ms: millis(limit),
            };
            if let Some(leader) = self.seat.lead().node
                && let Ok(answer) = self.peers.delivered(leader, request, limit).await
                && answer.delivered
            {
                return Ok(());
            }
            self.wait_for_change(LAST_PAUSE).await;
        }
        Err(ControlUnavailable)
    }

    /// Whether the descriptor was delivered within `budget`, as the replica here sees it; `None` when
    /// there is none.
    pub async fn delivered_here(
        &self,
        queue: QueueId,
        version: u64,
        budget: Duration,
    ) -> Option<bool> {
        let group = self.current_replica()?;
        let mut applied = group.watch_applied();
        let delivered = async {
            while !group.with_machine(|machine| machine.0.is_delivered(queue, version)) {
                if applied.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        Some(
            tokio::time::timeout(budget, delivered)
                .await
                .unwrap_or(false),
        )
    }

    /// The descriptor of a queue, live or deleted, as of now.
    pub async fn describe(&self, queue: QueueId) -> Result<Option<Descriptor>, ControlUnavailable> {
        if self.current_replica().is_some() {
            self.barrier().await?;
            if let Some(group) = self.current_replica() {
                return Ok(group.with_machine(|machine| machine.0.descriptor(queue).cloned()));
            }
        }
        let deadline = Instant::now() + self.budget;
        loop {
            if let Some(descriptor) = self.describe_there(queue).await {
                return Ok(descriptor);
            }
            if Instant::now() + LAST_PAUSE >= deadline {
                return Err(ControlUnavailable);
            }
            self.wait_for_change(LAST_PAUSE).await;
        }
    }

    async fn describe_there(&self, queue: QueueId) -> Option<Option<Descriptor>> {
        let leader = self.seat.lead().node?;
        let request = wire::DescribeRequest { queue: queue.0 };
        let answer = self.peers.describe(leader, request, ATTEMPT_LIMIT).await;
        let wire::describe_response::Result::Described(described) = answer.ok()?.result? else {
            return None;
        };
        if described.descriptor.is_empty() {
            return Some(None);
        }
        let descriptor = Descriptor::decode(&described.descriptor);
        let descriptor =
            descriptor.inspect_err(|error| tracing::error!(%error, "descriptor unreadable"));
        descriptor.ok().map(Some)
    }

    /// The descriptor of a queue as of now, if this node leads.
    pub async fn describe_here(&self, queue: QueueId) -> Result<Option<Descriptor>, NotHere> {
        self.barrier_here().await?;
        let look = |metadata: &Metadata| metadata.descriptor(queue).cloned();
        self.with_metadata(look).ok_or_else(|| self.elsewhere())
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
        let mut lead = self.seat.watch();
        // Either way the caller looks again.
        tokio::time::timeout(pause, lead.changed()).await.ok();
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
            let described = control.describe(queue).await;
            described.map_err(|ControlUnavailable| MetadataUnreachable)
        })
    }
}
