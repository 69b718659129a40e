//! Messages that move from one slice of the partition to another: dead letters, and those that a move
//! task brings back (SQS-CONTRACT section 9).
//!
//! A message leaves its slice when a receive finds that it was received too often, or when a task has
//! its turn, and arrives when
//! the entry's commands are done. Nobody sees the time between: an entry is applied whole. It arrives
//! under a new name, behind all that the entry sent, so that names keep rising; its body stays.
//!
//! A queue that is purged or deleted in that time takes the message with it.

use std::sync::Arc;

use super::{Hosted, Partition, effects};
use crate::command::{Command, Operation};
use crate::descriptor::{QueueKind, Redrive};
use crate::held::STAMP_MS;
use crate::ids::{ORDINAL_LIMIT, PackedName, QueueId};
use crate::moved::Moved;
use crate::parting::{Leaving, Parting};
use crate::reply::Outcome;
use crate::slice::{Messages, Slice};

/// A message between two slices.
#[derive(Debug)]
struct Arrival {
    /// The command that set it off.
    command: usize,
    target: QueueId,
    /// The target's when the message left.
    purge_epoch: u64,
    /// The queue whose dead letter it is; `None` when it comes back.
    source: Option<Arc<str>>,
    message: Leaving,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The first ordinal that no message of the entry has.
    next_ordinal: u32,
    /// The command being applied.
    pub command: usize,
    waiting: Vec<Arrival>,
}

impl Arrivals {
    /// Those of an entry with so many bodies.
    pub fn behind(bodies: u32) -> Self {
        Self {
            next_ordinal: bodies,
            ..Self::default()
        }
    }

    /// Names that are left in the entry.
    pub fn room(&self) -> usize {
        let taken = self.next_ordinal as usize + self.waiting.len();
        (ORDINAL_LIMIT as usize).saturating_sub(taken)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a message is on its way to the queue.
    pub fn has(&self, target: QueueId) -> bool {
        self.waiting.iter().any(|arrival| arrival.target == target)
    }
}

/// What can become of a message that was received too often.
enum Way {
    /// It moves within the partition.
    Here,
    /// It cannot move, and is handed out as if there were no policy.
    None,
    /// Nothing is known here of its dead-letter queue.
    Unknown,
}

impl Partition {
    /// What the command's receive does with dead letters; the dead-letter queue, if nothing is known
    /// of it.
    pub(super) fn parting(&self, command: &Command) -> Result<Parting, QueueId> {
        let redrive = self
            .descriptor(command.queue)
            .and_then(|it| it.redrive.as_ref());
        let (Operation::Receive { .. }, Some(redrive)) = (&command.operation, redrive) else {
            return Ok(Parting::default());
        };
        match self.way(command.queue, redrive) {
            Way::Here => Ok(Parting::from(
                redrive.max_receive_count,
                self.arrivals.room(),
            )),
            Way::None => Ok(Parting::default()),
            Way::Unknown => Err(redrive.target),
        }
    }

    fn way(&self, queue: QueueId, redrive: &Redrive) -> Way {
        let Some(target) = self.descriptor(redrive.target) else {
            return match self.is_gone(redrive.target) {
                true => Way::None,
                false => Way::Unknown,
            };
        };
        let fifo = |kind| matches!(kind, QueueKind::Fifo { .. });
        let source = self.descriptor(queue).map(|it| fifo(it.kind));
        let is_here = target.takes_moves(self.id);
        let fits = source == Some(fifo(target.kind)) && redrive.target != queue;
        if fits && is_here {
            Way::Here
        } else {
            Way::None
        }
    }

    /// Sets the messages that a receive took out on their way.
    pub(super) fn send_off(&mut self, queue: QueueId, parting: Parting) {
        if parting.leaving.is_empty() {
            return;
        }
        let redrive = self.descriptor(queue).and_then(|it| it.redrive.as_ref());
        let redrive = redrive.expect("messages leave by a redrive policy");
        let (target, source): (_, Arc<str>) = (redrive.target, redrive.source.as_str().into());
        for message in parting.leaving {
            self.set_off(message, target, Some(Arc::clone(&source)));
        }
    }

    /// Sets one message on its way to a slice that takes it.
    pub(super) fn set_off(&mut self, message: Leaving, target: QueueId, source: Option<Arc<str>>) {
        let hosted = self.slices.get_mut(&target);
        let slice = &mut hosted.expect("the way was found to be here").slice;
        slice.settle(self.applied.now);
        slice.used_at = self.applied.now;
        let purge_epoch = slice.descriptor.purge_epoch;
        self.refile(target);
        self.arrivals.waiting.push(Arrival {
            command: self.arrivals.command,
            target,
            purge_epoch,
            source,
            message,
        });
    }

    /// Lets the messages arrive that left in this entry.
    pub(super) fn arrive(&mut self, outcomes: &mut [Outcome]) {
        let waiting = std::mem::take(&mut self.arrivals.waiting);
        let (index, now) = (self.applied.index, self.applied.now);
        for (ordinal, arrival) in (self.arrivals.next_ordinal..).zip(waiting) {
            let target = arrival.target;
            let Some(Hosted { slice, .. }) = self.slices.get_mut(&target) else {
                continue;
            };
            if slice.descriptor.purge_epoch != arrival.purge_epoch {
                continue;
            }
            let deadline_before = slice.next_deadline(now);
            let outcome = &mut outcomes[arrival.command];
            let name = PackedName::new(index, ordinal);
            match &arrival.source {
                Some(source) => take_letter(slice, name, now, &arrival.message, source),
                None => take_back(slice, name, now, &arrival.message),
            }
            let more = effects(target, slice, deadline_before, now);
            outcome.effects.add(more);
            self.refile(target);
        }
    }
}

/// On a standard queue a dead letter keeps its time of sending; on a FIFO queue it is sent anew.
fn take_letter(slice: &mut Slice, name: PackedName, now: u64, letter: &Leaving, source: &Arc<str>) {
    let (held, before) = (letter.held, letter.moved);
    let body = before.map_or(letter.name, |moved| moved.body);
    let received = before.filter(|moved| moved.receive_count > 0);
    let first = received.map_or(held.first_received_at(), |moved| moved.first_received_at);
    let count = held.receive_count;
    match &mut slice.messages {
        Messages::Standard(standard) => {
            let sent_at = before.map_or(0, |moved| moved.sent_at);
            let moved = Moved::new(body, held.sent_at, sent_at, first, count).as_before(before);
            let group = letter.message_group.as_deref();
            standard.arrive(name, now, held, group, moved, source);
        }
        Messages::Fifo(fifo) => {
            let group = letter.message_group.as_deref().unwrap_or_default();
            let moved = Moved::new(body, now, now, first, count).as_before(before);
            fifo.arrive(name, now, group, moved, source);
        }
    }
}

/// What a task brings back counts as new: sent now, and never received.
fn take_back(slice: &mut Slice, name: PackedName, now: u64, message: &Leaving) {
    let body = message.moved.map_or(message.name, |moved| moved.body);
    let delay_ms = slice.descriptor.delay_ms;
    match &mut slice.messages {
        Messages::Standard(standard) => {
            let stamp = now.next_multiple_of(STAMP_MS);
            let moved = Moved::redriven(body, stamp, now, name);
            let group = message.message_group.as_deref();
            standard.arrive_anew(name, now, delay_ms, group, moved);
        }
        Messages::Fifo(fifo) => {
            let group = message.message_group.as_deref().unwrap_or_default();
            fifo.arrive(
                name,
                now,
                group,
                Moved::redriven(body, now, now, name),
                &"".into(),
            );
        }
    }
}
