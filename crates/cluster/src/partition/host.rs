//! The leader's task of one partition. See the module's head.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hikyaku_queue::{
    Command, Descriptor, Effects, Operation, Outcome, PartitionId, QueueId, Reply, RequestId,
};
use hikyaku_raft::{Applied, Group, Leadership, ProposeError, RaftNode};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::batch::next_batch;
use super::handle::PartitionHandle;
use super::parking::Parking;
use super::unseen::{Unseen, WayBack};
use super::{Answered, Call, SubmitError, own_call};
use crate::clock::PartitionClock;
use crate::machines::PartitionMachine;
use crate::memory::MemoryShare;
use crate::ports::Entropy;

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
    housekeeping_at: Instant,
}

/// What a host needs of its node.
pub struct HostParts {
    /// This node's id.
    pub node: u64,
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
            parts.node,
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

    fn admit(&mut self, call: Call) {
        if !self.serving {
            let leader_node = self.leadership.borrow().leader_node;
            refuse(
                call,
                SubmitError::NotLeader {
                    leader_node,
                    no_effect: true,
                },
            );
            return;
        }
        match call.command.operation {
            // A retry of a send that was applied gets its answer, room or not.
            Operation::Send { .. } if self.is_short_of_room() && !self.has_answer(&call) => {
                let full = !self.raft.has_room();
                refuse(
                    call,
                    if full {
                        SubmitError::DiskFull
                    } else {
                        SubmitError::Overloaded
                    },
                );
            }
            Operation::Receive { .. } => self.admit_receive(call),
            _ => self.waiting.push_back(call),
        }
    }

    fn is_short_of_room(&self) -> bool {
        !self.raft.has_room() || self.memory.is_exceeded()
    }

    fn has_answer(&self, call: &Call) -> bool {
        self.group
            .with_machine(|machine| machine.0.has_answer(call.command.request_id))
    }

    /// Proposes a receive that may find something, or that has an answer already; the others wait or
    /// are answered without an entry.
    fn admit_receive(&mut self, call: Call) {
        let now_ms = self.now_ms();
        let queue = call.command.queue;
        let (candidate, at_once) = self.group.with_machine(|machine| {
            let machine = &machine.0;
            let again = match &call.command.operation {
                Operation::Receive {
                    attempt_id: Some(attempt_id),
                    ..
                } => machine.is_repeatable(queue, attempt_id, now_ms),
                _ => false,
            };
            let at_once = again
                || machine.has_answer(call.command.request_id)
                || machine.is_gone(queue)
                || (call.wait_until.is_none() && machine.is_over_in_flight_limit(queue, now_ms));
            (machine.has_candidate(queue, now_ms), at_once)
        });
        // Polls that came before are served before.
        let first_in_line = !self.parking.knows(queue) || call.wait_until.is_none();
        if at_once || (candidate && first_in_line) {
            self.waiting.push_back(call);
            return;
        }
        self.park_or_answer(call, now_ms);
        if candidate {
            self.grant(queue);
        }
    }

    fn park_or_answer(&mut self, call: Call, now_ms: u64) {
        let queue = call.command.queue;
        match call.wait_until {
            Some(until)
                if until > Instant::now() && self.parking.len() < self.limits.parked_polls =>
            {
                self.parking.park(call, until);
                self.refresh_deadline(queue);
            }
            _ => answer_empty(call, now_ms),
        }
    }

    fn refresh_deadline(&mut self, queue: QueueId) {
        let now_ms = self.now_ms();
        let deadline = self
            .group
            .with_machine(|machine| machine.0.next_deadline(queue, now_ms));
        self.parking.set_deadline(queue, deadline);
    }

    /// Proposes parked polls of a queue while it has candidates and its window is open.
    fn grant(&mut self, queue: QueueId) {
        let now_ms = self.now_ms();
        while self
            .group
            .with_machine(|machine| machine.0.has_candidate(queue, now_ms))
        {
            let Some(call) = self.parking.grant(queue) else {
                return;
            };
            self.waiting.push_back(call);
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

    fn answer(&mut self, call: Call, reply: Reply, now_ms: u64) {
        let queue = call.command.queue;
        let granted = call.granted;
        let found = matches!(&reply, Reply::Received(deliveries) if !deliveries.is_empty());
        match reply {
            Reply::DescriptorNeeded { .. } => self.stall(call),
            Reply::Received(_) if !found => self.park_or_answer(call, now_ms),
            Reply::Received(deliveries) => {
                let receive = call.command.request_id;
                let way_back = Arc::clone(&self.way_back);
                let unseen = Some(Unseen::new(receive, deliveries, way_back));
                let reply = Reply::Received(Vec::new());
                call.finish(Ok(Answered {
                    reply,
                    unseen,
                    now_ms,
                }));
            }
            reply => answer_plainly(call, reply, now_ms),
        }
        if granted {
            self.parking.granted(queue, found);
        }
        if self.parking.knows(queue) {
            self.grant(queue);
            self.refresh_deadline(queue);
        }
    }

    fn follow_up(&mut self, effects: Effects) {
        for queue in effects.receivable {
            if !self.parking.knows(queue) {
                continue;
            }
            if self.group.with_machine(|machine| machine.0.is_gone(queue)) {
                let now_ms = self.now_ms();
                for call in self.parking.take_all(queue) {
                    answer_plainly(call, Reply::QueueGone, now_ms);
                }
            } else {
                self.grant(queue);
            }
        }
        for queue in effects.deadline_changed {
            if self.parking.knows(queue) {
                self.refresh_deadline(queue);
            }
        }
    }

    /// Sets a call aside until its queue's descriptor is here.
    fn stall(&mut self, mut call: Call) {
        call.granted = false;
        let queue = call.command.queue;
        let waiting = self.stalled.entry(queue).or_default();
        waiting.push(call);
        if waiting.len() == 1 {
            let fetch = self.descriptors.descriptor(queue);
            self.fetches
                .push(Box::pin(async move { (queue, fetch.await) }));
        }
    }

    fn fetched(
        &mut self,
        queue: QueueId,
        descriptor: Result<Option<Descriptor>, MetadataUnreachable>,
    ) {
        let calls = self.stalled.remove(&queue).unwrap_or_default();
        match descriptor {
            Ok(Some(descriptor)) => {
                self.waiting.push_back(own_call(
                    self.own_command(queue, Operation::PutDescriptor(descriptor)),
                ));
                self.waiting.extend(calls);
            }
            Ok(None) => {
                let now_ms = self.now_ms();
                for call in calls {
                    answer_plainly(call, Reply::QueueGone, now_ms);
                }
            }
            Err(MetadataUnreachable) => {
                for call in calls {
                    let leader_node = self.leadership.borrow().leader_node;
                    refuse(
                        call,
                        SubmitError::NotLeader {
                            leader_node,
                            no_effect: true,
                        },
                    );
                }
            }
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
            self.housekeeping_at = now + HOUSEKEEPING_INTERVAL;
            self.parking.tidy();
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

    fn now_ms(&self) -> u64 {
        self.clock.now_ms().unwrap_or(0)
    }
}

fn refuse(call: Call, error: SubmitError) {
    call.finish(Err(error));
}

fn answer_empty(call: Call, now_ms: u64) {
    answer_plainly(call, Reply::Received(Vec::new()), now_ms);
}

fn answer_plainly(call: Call, reply: Reply, now_ms: u64) {
    call.finish(Ok(Answered {
        reply,
        unseen: None,
        now_ms,
    }));
}
