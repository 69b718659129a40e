//! The leader's task of one partition. See the module's head.

mod admission;
mod answers;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hikyaku_queue::{
    Command, Descriptor, Operation, Outcome, PartitionId, QueueId, Reply, RequestId,
};
use hikyaku_raft::{Applied, Group, Leadership, ProposeError, RaftNode};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::batch::next_batch;
use super::given_up::GivenUp;
use super::handle::PartitionHandle;
use super::parking::Parking;
use super::traffic::{Busy, Traffic};
use super::unseen::WayBack;
use super::{Answered, Call, SubmitError, own_call};
use crate::clock::PartitionClock;
use crate::machines::PartitionMachine;
use crate::memory::MemoryShare;
use crate::ports::Entropy;
use admission::answer_empty;

/// Entries under way per partition: the next is gathered while the last ones reach their quorum.
const ENTRIES_IN_FLIGHT: usize = 4;

/// Calls taken off the channel at once.
const CALLS_AT_ONCE: usize = 1_024;

/// How often housekeeping is considered, and the idle wake-up of the task.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);

/// How long a leader after a full stop waits to hear the clocks of all voters.
pub const HEAR_VOTERS_LIMIT: Duration = Duration::from_secs(1);

/// How often it looks whether it has.
pub const HEAR_VOTERS_INTERVAL: Duration = Duration::from_millis(20);

/// How long housekeeping and descriptors may stay on their way, in T.
const OWN_BUDGET_MS: u64 = 20_000;

/// Bounds of one hosted partition.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// Calls that may wait for the leader's task.
    pub calls: usize,
    /// Long polls parked at once; more are answered at once as if their wait were over.
    pub parked_polls: usize,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            calls: 16_384,
            parked_polls: 100_000,
        }
    }
}

/// Where a leader gets a descriptor that its slice lacks: the metadata leader, behind a read barrier.
pub trait DescriptorSource: Send + Sync + 'static {
    /// The newest descriptor, deleted ones included while they are remembered. `Ok(None)`: no such
    /// queue. `Err`: the metadata cannot be reached now.
    fn descriptor(
        &self,
        queue: QueueId,
    ) -> BoxFuture<'static, Result<Option<Descriptor>, MetadataUnreachable>>;
}

/// The metadata leader could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("the metadata cannot be reached")]
pub struct MetadataUnreachable;

type Proposal = BoxFuture<'static, (Result<Applied<Vec<Outcome>>, ProposeError>, Vec<Call>)>;
type Fetch = BoxFuture<'static, (QueueId, Result<Option<Descriptor>, MetadataUnreachable>)>;

/// The task's state. Built by [`Host::start`], owned by its task.
pub struct Host {
    partition: PartitionId,
    group: Group<PartitionMachine>,
    raft: Arc<RaftNode>,
    clock: Arc<PartitionClock>,
    entropy: Arc<dyn Entropy>,
    descriptors: Arc<dyn DescriptorSource>,
    limits: HostLimits,
    memory: MemoryShare,
    way_back: Arc<WayBack>,
    calls: mpsc::Receiver<Call>,
    leadership: watch::Receiver<Leadership>,
    serving: bool,
    term: u64,
    /// Leads, but does not know T yet: serves at this moment at the latest.
    lead_by: Option<Instant>,
    waiting: VecDeque<Call>,
    proposals: FuturesUnordered<Proposal>,
    fetches: FuturesUnordered<Fetch>,
    /// Calls that wait for their queue's descriptor.
    stalled: BTreeMap<QueueId, Vec<Call>>,
    parking: Parking,
    given_up: GivenUp,
    traffic: Traffic,
    busy: mpsc::Sender<Busy>,
    housekeeping_at: Instant,
}

/// What a host needs of its node.
pub struct HostParts {
    /// The partition's number.
    pub partition: PartitionId,
    /// Its Raft group.
    pub group: Group<PartitionMachine>,
    /// The node's groups, asked for room on the disk.
    pub raft: Arc<RaftNode>,
    /// The partition's T.
    pub clock: Arc<PartitionClock>,
    /// Where request ids of the host's own commands come from.
    pub entropy: Arc<dyn Entropy>,
    /// Where descriptors come from.
    pub descriptors: Arc<dyn DescriptorSource>,
    /// Bounds.
    pub limits: HostLimits,
    /// What the machine may hold of the node's memory.
    pub memory: MemoryShare,
    /// Where queues are named that have been too much for the partition.
    pub busy: mpsc::Sender<Busy>,
}

impl Host {
    /// The partition's handle, and the task that serves it until `stop` is true.
    pub fn start(
        parts: HostParts,
        stop: watch::Receiver<bool>,
    ) -> (PartitionHandle, impl Future<Output = ()> + Send + 'static) {
        let (sender, calls) = mpsc::channel(parts.limits.calls);
        let way_back = Arc::new(WayBack {
            calls: sender.downgrade(),
            clock: Arc::clone(&parts.clock),
            entropy: Arc::clone(&parts.entropy),
        });
        let handle = PartitionHandle::new(
            parts.partition,
            sender,
            parts.group.clone(),
            Arc::clone(&parts.clock),
        );
        let host = Self {
            partition: parts.partition,
            leadership: parts.group.watch_leadership(),
            group: parts.group,
            raft: parts.raft,
            clock: parts.clock,
            entropy: parts.entropy,
            descriptors: parts.descriptors,
            limits: parts.limits,
            memory: parts.memory,
            way_back,
            calls,
            serving: false,
            term: 0,
            lead_by: None,
            waiting: VecDeque::new(),
            proposals: FuturesUnordered::new(),
            fetches: FuturesUnordered::new(),
            stalled: BTreeMap::new(),
            parking: Parking::default(),
            given_up: GivenUp::default(),
            traffic: Traffic::default(),
            busy: parts.busy,
            housekeeping_at: Instant::now() + HOUSEKEEPING_INTERVAL,
        };
        (handle, host.run(stop))
    }

    async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut arrived = Vec::with_capacity(CALLS_AT_ONCE);
        self.observe_leadership();
        loop {
            let wake_at = self.wake_at();
            // Every branch only takes something out of a queue that it owns: losing one loses
            // nothing.
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                count = self.calls.recv_many(&mut arrived, CALLS_AT_ONCE), if self.has_capacity() => {
                    if count == 0 {
                        break;
                    }
                    for call in arrived.drain(..) {
                        self.admit(call);
                    }
                }
                Some((result, calls)) = self.proposals.next() => self.finish(result, calls),
                Some((queue, descriptor)) = self.fetches.next() => self.fetched(queue, descriptor),
                changed = self.leadership.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.observe_leadership();
                }
                () = tokio::time::sleep_until(wake_at) => self.on_time(),
            }
            if self.serving {
                self.propose().await;
            } else {
                // Whatever an answer, a fetch or a late grant has queued belongs to the leader now.
                let leader_node = self.leadership.borrow().leader_node;
                self.give_up(leader_node);
            }
        }
        self.give_up(None);
    }

    fn observe_leadership(&mut self) {
        let now = *self.leadership.borrow_and_update();
        // A new term of one's own counts as a loss and a gain: another leader was in between.
        let held_on = self.serving && now.serving && now.term == self.term;
        if self.serving && !held_on {
            self.clock.follow();
            self.serving = false;
            self.give_up(now.leader_node);
            tracing::info!(
                partition = self.partition.0,
                term = now.term,
                "no longer leads"
            );
        }
        self.term = now.term;
        self.lead_by = (now.serving && !self.serving).then(|| Instant::now() + HEAR_VOTERS_LIMIT);
        self.try_to_lead();
    }

    /// Takes over as soon as T may be known: at once when any was heard, and after a full stop when
    /// the other voters' clocks are known, or do not answer.
    fn try_to_lead(&mut self) {
        let Some(lead_by) = self.lead_by else {
            return;
        };
        let others = self.group.voters().len().saturating_sub(1);
        if self.clock.is_ready_to_lead(others) || Instant::now() >= lead_by {
            let applied_ms = self.group.with_machine(|machine| machine.0.now());
            self.clock.lead(applied_ms);
            self.lead_by = None;
            self.serving = true;
            tracing::info!(
                partition = self.partition.0,
                term = self.term,
                "became leader"
            );
        }
    }

    /// Whether more calls may be taken in; when not, they wait in the channel and overflow it, which
    /// their callers see as overload.
    fn has_capacity(&self) -> bool {
        let stalled: usize = self.stalled.values().map(Vec::len).sum();
        self.waiting.len() + stalled < self.limits.calls
    }

    /// Sends everybody who waits to the leader. Entries under way are answered when their fate is
    /// known.
    fn give_up(&mut self, leader_node: Option<u64>) {
        let stalled = std::mem::take(&mut self.stalled).into_values().flatten();
        let everybody = self
            .waiting
            .drain(..)
            .chain(self.parking.drain())
            .chain(stalled);
        for call in everybody {
            refuse(
                call,
                SubmitError::NotLeader {
                    leader_node,
                    no_effect: true,
                },
            );
        }
    }

    async fn propose(&mut self) {
        while self.serving && !self.waiting.is_empty() && self.proposals.len() < ENTRIES_IN_FLIGHT {
            let now_ms = self.now_ms();
            let Some(batch) = next_batch(&mut self.waiting, now_ms) else {
                return;
            };
            let calls = batch.calls;
            match self.group.submit(batch.head, batch.bodies).await {
                Ok(submitted) => {
                    self.proposals
                        .push(Box::pin(async move { (submitted.await, calls) }));
                }
                Err(error) => self.failed(&error, calls),
            }
        }
    }

    fn finish(&mut self, result: Result<Applied<Vec<Outcome>>, ProposeError>, calls: Vec<Call>) {
        let applied = match result {
            Ok(applied) => applied,
            Err(error) => return self.failed(&error, calls),
        };
        assert!(
            applied.reply.len() == calls.len(),
            "every command of an entry is answered"
        );
        let now_ms = self.group.with_machine(|machine| machine.0.now());
        for (call, outcome) in calls.into_iter().zip(applied.reply) {
            self.answer(call, outcome.reply, now_ms);
            self.follow_up(outcome.effects);
        }
    }

    fn failed(&mut self, error: &ProposeError, calls: Vec<Call>) {
        let (leader_node, no_effect) = match *error {
            ProposeError::NotLeader { leader_node } => (leader_node, true),
            ProposeError::Unknown { leader_node } => (leader_node, false),
        };
        for call in calls {
            if call.granted {
                self.parking.granted(call.command.queue, false);
            }
            refuse(
                call,
                SubmitError::NotLeader {
                    leader_node,
                    no_effect,
                },
            );
        }
    }

    fn own_command(&self, queue: QueueId, operation: Operation) -> Command {
        Command {
            request_id: RequestId(self.entropy.draw_u128()),
            not_after: self.now_ms() + OWN_BUDGET_MS,
            queue,
            descriptor_version: 0,
            operation,
        }
    }

    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let now_ms = self.now_ms();
        let deadline = self.parking.next_deadline();
        let deadline = deadline.map(|at| now + Duration::from_millis(at.saturating_sub(now_ms)));
        let lead = self
            .lead_by
            .map(|lead_by| lead_by.min(now + HEAR_VOTERS_INTERVAL));
        let wishes = [deadline, self.parking.next_end(), lead];
        wishes
            .into_iter()
            .flatten()
            .fold(self.housekeeping_at, Instant::min)
    }

    fn on_time(&mut self) {
        self.try_to_lead();
        let now = Instant::now();
        let now_ms = self.now_ms();
        for call in self.parking.ended(now) {
            answer_empty(call, now_ms);
        }
        for queue in self.parking.due(now_ms) {
            self.grant(queue);
            self.refresh_deadline(queue);
        }
        if now >= self.housekeeping_at {
            let since = now + HOUSEKEEPING_INTERVAL - self.housekeeping_at;
            self.housekeeping_at = now + HOUSEKEEPING_INTERVAL;
            self.parking.tidy();
            self.name_busy_queues(since, now_ms);
            self.memory
                .report(self.group.with_machine(|machine| machine.0.state_bytes()));
            let due = self
                .group
                .with_machine(|machine| machine.0.housekeeping_due(now_ms));
            if self.serving && due {
                let command = self.own_command(QueueId(0), Operation::Housekeep);
                self.waiting.push_back(own_call(command));
            }
        }
    }

    fn name_busy_queues(&mut self, since: Duration, now_ms: u64) {
        let (traffic, busy) = (&mut self.traffic, &self.busy);
        self.group.with_machine(|machine| {
            let machine = &machine.0;
            let waiting = |queue| machine.counts(queue, now_ms).map_or(0, |it| it.visible);
            for (queue, by_sends) in traffic.look(since, waiting) {
                let Some(descriptor) = machine.descriptor(queue) else {
                    continue;
                };
                // Nobody listens where spreads do not grow.
                let version = descriptor.version;
                busy.try_send(Busy {
                    queue,
                    version,
                    by_sends,
                })
                .ok();
            }
        });
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms().unwrap_or(0)
    }
}

fn refuse(call: Call, error: SubmitError) {
    call.finish(Err(error));
}

fn answer_plainly(call: Call, reply: Reply, now_ms: u64) {
    call.finish(Ok(Answered {
        reply,
        unseen: None,
        now_ms,
    }));
}
