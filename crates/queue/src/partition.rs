//! A partition: the state machine of one Raft group.
//!
//! Entries go in, in the order of the log; replies and effects come out, the same on every replica.
//! Between entries the leader asks read-only questions about times that may be ahead of the last
//! entry's.
//!
//! Invariants: T never falls; a queue is hosted or has a tombstone, not both; the agenda and the
//! estimate of memory follow every change of a slice.

mod arrivals;
mod checkpoint;
mod housekeeping;
mod moving_back;

use std::collections::{BTreeMap, BTreeSet};

use crate::codec::DecodeError;
use crate::command::{Command, Operation, decode_head};
use crate::descriptor::{Descriptor, QueueState};
use crate::ids::{FIRST_EPOCH, INDEX_LIMIT, PackedName, PartitionId, QueueId, RequestId};
use crate::operation::{self, Site};
use crate::reply::{Effects, Outcome, Reply};
use crate::requests::Requests;
use crate::runs::Run;
use crate::slice::Slice;
use arrivals::Arrivals;

/// How long a deleted queue is remembered.
const TOMBSTONE_LIFE_MS: u64 = 10 * 60 * 1_000;

/// Requests forgotten with each entry, per command: more than arrive, so the table follows its load
/// without help.
const REQUESTS_FORGOTTEN_PER_COMMAND: usize = 4;

/// How far the partition has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    /// Log index of the last entry.
    pub index: u64,
    /// T.
    pub now: u64,
}

/// How many messages a slice has, by what they wait for.
///
/// Messages kept for long enough count until a command of the slice or housekeeping drops them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages to receive, including those of a blocked message group.
    pub visible: u64,
    /// Messages received and not yet deleted or visible again.
    pub in_flight: u64,
    /// Messages that were never visible yet.
    pub delayed: u64,
    /// T of the oldest message's send; on a standard queue up to four seconds late.
    pub oldest_sent_at: Option<u64>,
    /// Message groups of a standard queue that take too much of its consumers.
    pub noisy_groups: u64,
    /// The messages of no such group; on a FIFO queue all.
    pub quiet: QuietCounts,
}

/// How many messages are in no noisy group, by what they wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuietCounts {
    /// Messages to receive.
    pub visible: u64,
    /// Messages received and not yet deleted or visible again.
    pub in_flight: u64,
    /// Messages that were never visible yet.
    pub delayed: u64,
    /// T of the oldest message's send, approximately: among messages that were received only a
    /// thousand of the slice's oldest are looked at.
    pub oldest_sent_at: Option<u64>,
}

impl Counts {
    /// Adds what another partition has of the same queue. A message group is noisy in each for itself.
    pub fn add(&mut self, more: Self) {
        let older = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        self.visible += more.visible;
        self.in_flight += more.in_flight;
        self.delayed += more.delayed;
        self.oldest_sent_at = older(self.oldest_sent_at, more.oldest_sent_at);
        self.noisy_groups += more.noisy_groups;
        let quiet = &mut self.quiet;
        quiet.visible += more.quiet.visible;
        quiet.in_flight += more.quiet.in_flight;
        quiet.delayed += more.quiet.delayed;
        quiet.oldest_sent_at = older(quiet.oldest_sent_at, more.quiet.oldest_sent_at);
    }
}

/// Messages that exist: the same ordinals of consecutive entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveRun {
    /// Index of the first entry.
    pub first_index: u64,
    /// First ordinal in each entry.
    pub ordinal: u32,
    /// How many entries.
    pub entries: u64,
    /// How many messages in each entry.
    pub count: u32,
}

impl LiveRun {
    /// Index of the last entry.
    fn last_index(&self) -> u64 {
        self.first_index + self.entries - 1
    }
}

/// A slice with what the partition's totals have been charged for it.
#[derive(Debug)]
struct Hosted {
    slice: Slice,
    chore_at: u64,
    bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Tombstone {
    version: u64,
    until: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Partition {
    id: PartitionId,
    /// Leads every sequence number; a restored backup gets a higher one.
    epoch: u8,
    applied: Applied,
    requests: Requests,
    slices: BTreeMap<QueueId, Hosted>,
    tombstones: BTreeMap<QueueId, Tombstone>,
    /// When each slice and tombstone has something to drop.
    agenda: BTreeSet<(u64, QueueId)>,
    slice_bytes: usize,
    /// Messages on their way from one slice to another, within one entry.
    arrivals: Arrivals,
}

impl Partition {
    /// An empty partition, before the first entry.
    pub fn new(id: PartitionId) -> Self {
        Self {
            id,
            epoch: FIRST_EPOCH,
            applied: Applied::default(),
            requests: Requests::default(),
            slices: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            agenda: BTreeSet::new(),
            slice_bytes: 0,
            arrivals: Arrivals::default(),
        }
    }

    /// Applies one entry and answers its commands in order. T becomes the entry's, unless it was
    /// later already. Refused bytes change nothing.
    ///
    /// # Panics
    /// If `index` is not above the last one's: an entry applied twice would break every promise.
    pub fn apply_entry(&mut self, index: u64, head: &[u8]) -> Result<Vec<Outcome>, DecodeError> {
        let (now, commands) = decode_head(head)?;
        assert!(
            index > self.applied.index,
            "entries are applied once, in order"
        );
        assert!(index < INDEX_LIMIT, "log indexes have 40 bits");
        self.applied = Applied {
            index,
            now: self.applied.now.max(now),
        };
        let mut budget = commands.len() * REQUESTS_FORGOTTEN_PER_COMMAND;
        self.requests.settle(self.applied.now, &mut budget);
        let bodies: usize = commands.iter().map(Command::message_count).sum();
        self.arrivals = Arrivals::behind(bodies as u32);
        let mut ordinal = 0;
        let mut outcomes = Vec::with_capacity(commands.len());
        for command in commands {
            let messages = command.message_count() as u32;
            self.arrivals.command = outcomes.len();
            outcomes.push(self.apply(command, ordinal));
            ordinal += messages;
        }
        self.arrive(&mut outcomes);
        if cfg!(debug_assertions) {
            self.validate_often();
        }
        Ok(outcomes)
    }

    fn apply(&mut self, command: Command, first_ordinal: u32) -> Outcome {
        match command.operation {
            Operation::PutDescriptor(descriptor) => self.put_descriptor(descriptor),
            Operation::Housekeep => self.housekeep(),
            Operation::MoveBack { task, max } => match self.refusal(&command) {
                Some(reply) => without_effect(reply),
                None => self.move_back(&command, task, max),
            },
            _ => self.apply_once(&command, first_ordinal),
        }
    }

    /// The answer to a command that is late, was answered before, or meets another descriptor than its
    /// caller knew.
    fn refusal(&mut self, command: &Command) -> Option<Reply> {
        if self.applied.now > command.not_after {
            return Some(Reply::Late);
        }
        if let Some(reply) = self.requests.answer_again(command) {
            return Some(reply);
        }
        if self.tombstones.contains_key(&command.queue) {
            return Some(Reply::QueueGone);
        }
        let have = self
            .descriptor(command.queue)
            .map(|descriptor| descriptor.version);
        let older = have.is_none() || have < Some(command.descriptor_version);
        older.then_some(Reply::DescriptorNeeded { have })
    }

    /// Applies an operation on a slice, unless it is refused.
    fn apply_once(&mut self, command: &Command, first_ordinal: u32) -> Outcome {
        let Applied { now, .. } = self.applied;
        if let Some(reply) = self.refusal(command) {
            return without_effect(reply);
        }
        let mut parting = match self.parting(command) {
            Ok(parting) => parting,
            Err(target) => return without_effect(Reply::TargetNeeded { target }),
        };
        let hosted = self.slices.get_mut(&command.queue);
        let hosted = hosted.expect("a slice with a descriptor is hosted");
        let slice = &mut hosted.slice;
        let deadline_before = slice.next_deadline(now);
        slice.settle(now);
        slice.used_at = now;
        let site = Site {
            partition: self.id,
            epoch: self.epoch,
            queue: command.queue,
            request: command.request_id,
            applied: self.applied,
            first_ordinal,
        };
        let repeated = repeated_receive(slice, &command.operation, now);
        let requests = &mut self.requests;
        let reply = operation::apply(slice, requests, &mut parting, &site, &command.operation)
            .expect("the other operations were taken out before");
        let reply = match reply {
            Reply::Emptiness { empty } => Reply::Emptiness {
                empty: empty && !self.arrivals.has(command.queue),
            },
            reply => reply,
        };
        let effects = effects(command.queue, slice, deadline_before, now);
        if has_taken_effect(&reply) {
            self.requests.remember(command, &reply);
        }
        if let Some(first) = repeated {
            self.requests.mark_given_again(first);
            self.requests.mark_given_again(command.request_id);
        }
        self.refile(command.queue);
        self.send_off(command.queue, parting);
        Outcome { reply, effects }
    }

    fn put_descriptor(&mut self, descriptor: Descriptor) -> Outcome {
        let (queue, now) = (descriptor.id, self.applied.now);
        let is_newer = match (self.descriptor(queue), self.tombstones.get(&queue)) {
            (Some(held), _) => descriptor.version > held.version,
            // An old descriptor must not bring a deleted queue back.
            (None, Some(tombstone)) => {
                descriptor.state == QueueState::Deleted && descriptor.version > tombstone.version
            }
            (None, None) => true,
        };
        if !is_newer {
            return without_effect(Reply::DescriptorPut);
        }
        let mut deadline_before = None;
        match (descriptor.state, self.slices.get_mut(&queue)) {
            (QueueState::Deleted, _) => {
                self.remove_slice(queue);
                self.bury(queue, descriptor.version);
            }
            (QueueState::Active, Some(Hosted { slice, .. })) => {
                deadline_before = slice.next_deadline(now);
                slice.settle(now);
                slice.put_descriptor(descriptor, now);
                slice.take_order(self.applied.index);
            }
            (QueueState::Active, None) => {
                let mut slice = Slice::new(descriptor, now);
                slice.take_order(self.applied.index);
                self.host(queue, slice);
            }
        }
        self.refile(queue);
        let effects = match self.slices.get(&queue) {
            Some(Hosted { slice, .. }) => effects(queue, slice, deadline_before, now),
            // Parked long polls of a deleted queue must learn of it.
            None => Effects {
                receivable: vec![queue],
                deadline_changed: vec![queue],
            },
        };
        Outcome {
            reply: Reply::DescriptorPut,
            effects,
        }
    }

    fn host(&mut self, queue: QueueId, slice: Slice) {
        let (chore_at, bytes) = (slice.next_chore(), slice.bytes());
        self.agenda.insert((chore_at, queue));
        self.slice_bytes += bytes;
        self.slices.insert(
            queue,
            Hosted {
                slice,
                chore_at,
                bytes,
            },
        );
    }

    fn remove_slice(&mut self, queue: QueueId) {
        if let Some(hosted) = self.slices.remove(&queue) {
            self.agenda.remove(&(hosted.chore_at, queue));
            self.slice_bytes -= hosted.bytes;
        }
    }

    fn bury(&mut self, queue: QueueId, version: u64) {
        let until = self.applied.now.saturating_add(TOMBSTONE_LIFE_MS);
        if let Some(before) = self.tombstones.insert(queue, Tombstone { version, until }) {
            self.agenda.remove(&(before.until, queue));
        }
        self.agenda.insert((until, queue));
    }

    /// Brings the agenda and the estimate of memory up to a changed slice.
    fn refile(&mut self, queue: QueueId) {
        let Some(hosted) = self.slices.get_mut(&queue) else {
            return;
        };
        let (chore_at, bytes) = (hosted.slice.next_chore(), hosted.slice.bytes());
        if chore_at != hosted.chore_at {
            self.agenda.remove(&(hosted.chore_at, queue));
            self.agenda.insert((chore_at, queue));
            hosted.chore_at = chore_at;
        }
        self.slice_bytes = self.slice_bytes - hosted.bytes + bytes;
        hosted.bytes = bytes;
    }

    fn slice(&self, queue: QueueId) -> Option<&Slice> {
        self.slices.get(&queue).map(|hosted| &hosted.slice)
    }

    /// The partition's id.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Index and T of the last entry.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// T of the last entry.
    pub fn now(&self) -> u64 {
        self.applied.now
    }

    /// Whether a receive at `now` may find a message. For the leader, who proposes none that finds
    /// nothing; the rare receive that finds only expired messages also removes them.
    pub fn has_candidate(&self, queue: QueueId, now: u64) -> bool {
        self.slice(queue)
            .is_some_and(|slice| slice.has_candidate(now))
    }

    /// Whether a receive at `now` with this `ReceiveRequestAttemptId` would hand out again what the
    /// attempt did: such a receive is worth proposing without any other candidate.
    pub fn is_repeatable(&self, queue: QueueId, attempt_id: &str, now: u64) -> bool {
        self.slice(queue)
            .is_some_and(|slice| operation::repeated_receive(slice, attempt_id, now).is_some())
    }

    /// Whether a command with this id was applied and its answer is still kept: a retry is worth
    /// proposing, whatever else there is to receive.
    pub fn has_answer(&self, request: RequestId) -> bool {
        self.requests.contains(request)
    }

    /// Whether the slice has as many messages in flight as it may; then it has no candidate, and a
    /// short poll of a standard queue is answered [`Reply::OverInFlightLimit`] without a proposal.
    pub fn is_over_in_flight_limit(&self, queue: QueueId, now: u64) -> bool {
        self.slice(queue).is_some_and(|slice| slice.is_full(now))
    }

    /// The next T after `now` at which a receive may find something that it would not find now.
    pub fn next_deadline(&self, queue: QueueId, now: u64) -> Option<u64> {
        self.slice(queue)?.next_deadline(now)
    }

    /// The descriptor a slice applies commands under.
    pub fn descriptor(&self, queue: QueueId) -> Option<&Descriptor> {
        self.slice(queue).map(|slice| &slice.descriptor)
    }

    /// Whether the queue was deleted, as far as the partition remembers.
    pub fn is_gone(&self, queue: QueueId) -> bool {
        self.tombstones.contains_key(&queue)
    }

    /// The queues that are hosted, by id.
    pub fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.slices.keys().copied()
    }

    /// The messages of a slice at `now`, which may be ahead of the last entry.
    pub fn counts(&self, queue: QueueId, now: u64) -> Option<Counts> {
        self.slice(queue).map(|slice| slice.counts(now))
    }

    /// The bytes of memory the partition holds, estimated.
    pub fn state_bytes(&self) -> usize {
        self.slice_bytes + self.requests.bytes()
    }

    /// Whether the partition holds more than `budget` bytes: the leader then refuses sends before
    /// proposing them. Not part of apply, so that replicas may have different budgets.
    pub fn over_budget(&self, budget: usize) -> bool {
        self.state_bytes() > budget
    }

    /// Every message that exists, ordered by first index and ordinal; runs of several entries may
    /// interleave. Bodies of other messages are garbage.
    pub fn live_runs(&self) -> Vec<LiveRun> {
        let mut live = Vec::new();
        for Hosted { slice, .. } in self.slices.values() {
            slice.collect_live_runs(&mut live);
        }
        live.sort_unstable_by_key(|run| (run.first_index, run.ordinal));
        live
    }
}

fn without_effect(reply: Reply) -> Outcome {
    Outcome {
        reply,
        effects: Effects::default(),
    }
}

/// The receive whose deliveries `operation` would hand out again.
fn repeated_receive(slice: &Slice, operation: &Operation, now: u64) -> Option<RequestId> {
    let Operation::Receive { attempt_id, .. } = operation else {
        return None;
    };
    operation::repeated_receive(slice, attempt_id.as_deref()?, now)
}

/// Whether a retry must get this reply again. One that changed nothing is better tried again.
fn has_taken_effect(reply: &Reply) -> bool {
    match reply {
        Reply::Received(deliveries) => !deliveries.is_empty(),
        Reply::MovedBack { now, .. } => *now > 0,
        Reply::TargetNeeded { .. } | Reply::MoveBlocked(_) | Reply::NoMoveTask => false,
        Reply::OverInFlightLimit | Reply::TakesNoSends | Reply::Emptiness { .. } => false,
        _ => true,
    }
}

fn effects(queue: QueueId, slice: &Slice, deadline_before: Option<u64>, now: u64) -> Effects {
    let receivable = slice.has_candidate(now);
    let deadline_changed = slice.next_deadline(now) != deadline_before;
    Effects {
        receivable: receivable.then_some(queue).into_iter().collect(),
        deadline_changed: deadline_changed.then_some(queue).into_iter().collect(),
    }
}

impl From<Run> for LiveRun {
    fn from(run: Run) -> Self {
        let first = run.first();
        Self {
            first_index: first.index(),
            ordinal: first.ordinal(),
            entries: run.entries(),
            count: run.count() as u32,
        }
    }
}

impl From<PackedName> for LiveRun {
    fn from(name: PackedName) -> Self {
        Self {
            first_index: name.index(),
            ordinal: name.ordinal(),
            entries: 1,
            count: 1,
        }
    }
}
