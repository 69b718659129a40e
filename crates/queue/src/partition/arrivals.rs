//! Messages that move from one slice of the partition to another: dead letters (SQS-CONTRACT section
//! 9).
//!
//! A message leaves its slice when a receive finds that it was received too often, and arrives when
//! the entry's commands are done. Nobody sees the time between: an entry is applied whole. It arrives
//! under a new name, behind all that the entry sent, so that names keep rising; its body stays.
//!
//! A queue that is purged or deleted in that time takes the message with it.

use std::sync::Arc;

use super::{Hosted, Partition, effects};
use crate::command::{Command, Operation};
use crate::descriptor::{QueueKind, Redrive};
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
    source: Arc<str>,
    message: Leaving,
    /// T of its first receive.
    first_received_at: u64,
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
    fn room(&self) -> usize {
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
        let is_here = target.takes_dead_letters(self.id);
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
        let hosted = self.slices.get_mut(&target);
        let slice = &mut hosted.expect("the way was found to be here").slice;
        slice.settle(self.applied.now);
        slice.used_at = self.applied.now;
        let purge_epoch = slice.descriptor.purge_epoch;
        self.refile(target);
        for message in parting.leaving {
            let before = message.moved.filter(|moved| moved.receive_count > 0);
            let first = message.held.first_received_at();
            self.arrivals.waiting.push(Arrival {
                command: self.arrivals.command,
                target,
                purge_epoch,
                source: Arc::clone(&source),
                first_received_at: before.map_or(first, |moved| moved.first_received_at),
                message,
            });
        }
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
            take_in(slice, PackedName::new(index, ordinal), now, arrival);
            let more = effects(target, slice, deadline_before, now);
            outcome.effects.add(more);
            self.refile(target);
        }
    }
}

/// On a standard queue a dead letter keeps its time of sending; on a FIFO queue it is sent anew.
fn take_in(slice: &mut Slice, name: PackedName, now: u64, arrival: Arrival) {
    let Arrival {
        message:
            Leaving {
                name: old,
                held,
                message_group,
                moved,
            },
        source,
        first_received_at,
        ..
    } = arrival;
    let body = moved.map_or(old, |moved| moved.body);
    let count = held.receive_count;
    match &mut slice.messages {
        Messages::Standard(standard) => {
            let sent_at = moved.map_or(0, |moved| moved.sent_at);
            let moved = Moved::new(body, held.sent_at, sent_at, first_received_at, count);
            standard.arrive(name, now, held, message_group.as_deref(), moved, &source);
        }
        Messages::Fifo(fifo) => {
            let group = message_group.as_deref().unwrap_or_default();
            let moved = Moved::new(body, now, now, first_received_at, count);
            fifo.arrive(name, now, group, moved, &source);
        }
    }
}
