//! The state of one queue inside one partition.
//!
//! Everything that time does to a slice happens in [`Slice::settle`], which runs before each command
//! of the slice and in housekeeping; no log entry is needed for a deadline to pass.

use crate::codec::{DecodeError, Reader, Writer};
use crate::descriptor::{Descriptor, QueueKind};
use crate::fair::{Fair, NoisyCounts};
use crate::fifo::Fifo;
use crate::held::{Held, HeldMessages};
use crate::ids::{MoveTaskId, PackedName};
use crate::moved::MovedMessages;
use crate::parting::Leaving;
use crate::partition::{Counts, LiveRun, QuietCounts};
use crate::standard::Standard;

/// How long an empty slice is kept after its last command.
const IDLE_LIFE_MS: u64 = 10 * 60 * 1_000;

/// A slice's messages, by the kind of its queue.
#[derive(Debug)]
pub(crate) enum Messages {
    Standard(Box<Standard>),
    Fifo(Box<Fifo>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Slice {
    pub descriptor: Descriptor,
    pub messages: Messages,
    /// T of the last command.
    pub used_at: u64,
    /// How far the move task of the descriptor's order is here.
    pub moving: Option<Moving>,
}

/// How far a move task is in a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moving {
    pub task: MoveTaskId,
    /// The index of the entry that brought the task: it moves what was named before.
    pub before: u64,
    /// Messages moved.
    pub total: u64,
}

impl Slice {
    pub fn new(descriptor: Descriptor, now: u64) -> Self {
        let messages = Messages::new(&descriptor);
        Self {
            descriptor,
            messages,
            used_at: now,
            moving: None,
        }
    }

    /// Begins with the move task that the descriptor, brought by the entry of this index, orders, if it
    /// is another than before.
    pub fn take_order(&mut self, index: u64) {
        let ordered = self.descriptor.move_order.as_ref().map(|it| it.task);
        if ordered != self.moving.map(|it| it.task) {
            self.moving = ordered.map(|task| Moving {
                task,
                before: index,
                total: 0,
            });
        }
    }

    /// The visible messages named before the entry `before`, up to `max`, in an order in which they can
    /// be taken out. The slice must be settled.
    pub fn movable(&self, before: u64, max: usize, now: u64) -> Vec<PackedName> {
        match &self.messages {
            Messages::Standard(standard) => standard.movable(before, max, now),
            Messages::Fifo(fifo) => fifo.movable(before, max, now),
        }
    }

    /// Whether any message, visible or not, was named before the entry `before`.
    pub fn has_older(&self, before: u64) -> bool {
        let oldest = match &self.messages {
            Messages::Standard(standard) => standard.first_name(),
            Messages::Fifo(fifo) => fifo.first_name(),
        };
        oldest.is_some_and(|name| name.index() < before)
    }

    /// Takes out the next message that [`Slice::movable`] found.
    pub fn take_out(&mut self, name: PackedName, now: u64) -> Leaving {
        match &mut self.messages {
            Messages::Standard(standard) => standard.take_out(name),
            Messages::Fifo(fifo) => fifo.take_out(name, now),
        }
    }

    /// Takes on a newer descriptor; the slice must be settled.
    pub fn put_descriptor(&mut self, newer: Descriptor, now: u64) {
        let purged = newer.purge_epoch > self.descriptor.purge_epoch;
        // The kind is fixed at creation; what a slice holds has no other form.
        let kind = self.descriptor.kind;
        self.descriptor = Descriptor { kind, ..newer };
        if purged {
            self.messages = Messages::new(&self.descriptor);
            self.settle(now);
        } else if let Messages::Fifo(fifo) = &mut self.messages {
            fifo.set_delay(self.descriptor.delay_ms, now);
        }
    }

    /// Lets time pass up to `now`: deadlines, and the drop of what was kept for long enough. What
    /// this costs was paid for by the sends and receives before it, once each.
    pub fn settle(&mut self, now: u64) {
        let mut budget = usize::MAX;
        self.settle_within(now, &mut budget);
    }

    /// The same, dropping only as far as `budget` goes.
    pub fn settle_within(&mut self, now: u64, budget: &mut usize) {
        let horizon = now.checked_sub(self.descriptor.retention_ms);
        match &mut self.messages {
            Messages::Standard(standard) => standard.settle(now, horizon, budget),
            Messages::Fifo(fifo) => fifo.settle(now, horizon, budget),
        }
    }

    pub fn held(&self) -> &HeldMessages {
        match &self.messages {
            Messages::Standard(standard) => standard.held(),
            Messages::Fifo(fifo) => fifo.held(),
        }
    }

    pub fn moved(&self) -> &MovedMessages {
        match &self.messages {
            Messages::Standard(standard) => standard.moved(),
            Messages::Fifo(fifo) => fifo.moved(),
        }
    }

    /// T of a message's first receive, in this queue or before.
    pub fn first_received_at(&self, name: PackedName, held: Held) -> u64 {
        match self.moved().get(name) {
            Some(moved) if moved.receive_count > 0 => moved.first_received_at,
            Some(_) | None => held.first_received_at(),
        }
    }

    /// Takes on the accounts of moved messages, just read.
    pub fn set_moved(&mut self, moved: MovedMessages) {
        match &mut self.messages {
            Messages::Standard(standard) => standard.set_moved(moved),
            Messages::Fifo(fifo) => fifo.set_moved(moved),
        }
    }

    /// The message groups of a standard queue, if there are any.
    pub fn fair(&self) -> Option<&Fair> {
        match &self.messages {
            Messages::Standard(standard) => standard.fair(),
            Messages::Fifo(_) => None,
        }
    }

    /// Takes on the message groups of a standard queue.
    pub fn read_fair(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        match &mut self.messages {
            Messages::Standard(standard) => standard.read_fair(reader),
            Messages::Fifo(_) => Err(DecodeError::Impossible("fair groups of a FIFO queue")),
        }
    }

    /// Whether a receive would find a message, or that it may not hand one out.
    pub fn has_candidate(&self, now: u64) -> bool {
        let visible = match &self.messages {
            Messages::Standard(standard) => standard.has_visible(now),
            Messages::Fifo(fifo) => fifo.has_visible(now),
        };
        visible && !self.is_full(now)
    }

    /// Whether as many messages are in flight as may be.
    pub fn is_full(&self, now: u64) -> bool {
        self.held().waiting_at(now).0 >= u64::from(self.descriptor.in_flight_limit)
    }

    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        match &self.messages {
            Messages::Standard(standard) => standard.held().next_deadline(now),
            Messages::Fifo(fifo) => fifo.next_deadline(now),
        }
    }

    pub fn counts(&self, now: u64) -> Counts {
        let (total, (in_flight, delayed), oldest) = match &self.messages {
            Messages::Standard(standard) => (
                standard.messages(),
                standard.held().waiting_at(now),
                standard.oldest(),
            ),
            Messages::Fifo(fifo) => (fifo.messages(), fifo.waiting_at(now), fifo.oldest()),
        };
        let (noisy, oldest_quiet) = match &self.messages {
            Messages::Standard(standard) => {
                (standard.noisy_counts(now), standard.oldest_quiet(now))
            }
            Messages::Fifo(_) => (NoisyCounts::default(), oldest),
        };
        let visible = |total: u64, in_flight: u64, delayed: u64| total - in_flight - delayed;
        let noisy_visible = visible(noisy.messages, noisy.in_flight, noisy.delayed);
        let visible = visible(total, in_flight, delayed);
        Counts {
            visible,
            in_flight,
            delayed,
            oldest_sent_at: oldest.map(|sent_at| sent_at.min(now)),
            noisy_groups: noisy.groups,
            quiet: QuietCounts {
                visible: visible - noisy_visible,
                in_flight: in_flight - noisy.in_flight,
                delayed: delayed - noisy.delayed,
                oldest_sent_at: oldest_quiet.map(|sent_at| sent_at.min(now)),
            },
        }
    }

    /// T from which there is something to drop; for an empty slice, the slice.
    pub fn next_chore(&self) -> u64 {
        let retention = self.descriptor.retention_ms;
        let (oldest, others) = match &self.messages {
            Messages::Standard(standard) => (standard.oldest(), [None, None]),
            Messages::Fifo(fifo) => (
                fifo.oldest(),
                [fifo.deduplication.next_end(), fifo.attempts.next_end()],
            ),
        };
        let expiry = oldest.map(|sent_at| sent_at.saturating_add(retention));
        let first = others.into_iter().flatten().chain(expiry).min();
        first.unwrap_or(match self.moving {
            // It stays until the task ends, which a descriptor says.
            Some(_) => u64::MAX,
            None => self.used_at.saturating_add(IDLE_LIFE_MS),
        })
    }

    /// Whether nothing would be lost with the slice.
    pub fn is_empty(&self) -> bool {
        self.moving.is_none() && self.holds_nothing()
    }

    fn holds_nothing(&self) -> bool {
        match &self.messages {
            Messages::Standard(standard) => standard.messages() == 0,
            Messages::Fifo(fifo) => {
                fifo.messages() == 0 && fifo.deduplication.is_empty() && fifo.attempts.is_empty()
            }
        }
    }

    /// The bytes of memory held, estimated.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.messages {
                Messages::Standard(standard) => standard.bytes(),
                Messages::Fifo(fifo) => fifo.bytes(),
            }
    }

    /// Adds where every message's body lies to `live`, in any order.
    pub fn collect_live_runs(&self, live: &mut Vec<LiveRun>) {
        let moved = self.moved();
        match &self.messages {
            Messages::Standard(standard) => {
                let runs = standard.untouched();
                runs.for_each(|run| moved.collect_run(run, live));
            }
            Messages::Fifo(fifo) => fifo
                .untouched()
                .for_each(|run| moved.collect_run(run, live)),
        }
        let held = self.held().names();
        live.extend(held.map(|name| LiveRun::from(moved.body(name))));
    }

    pub fn check(&self) -> Result<(), &'static str> {
        match &self.messages {
            Messages::Standard(standard) => standard.check(),
            Messages::Fifo(fifo) => fifo.check(),
        }
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.blob(&self.descriptor.encode());
        writer.number(self.used_at);
        match &self.messages {
            Messages::Standard(standard) => standard.write(writer),
            Messages::Fifo(fifo) => fifo.write(writer),
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let descriptor = Descriptor::decode(reader.blob("descriptor")?)?;
        let used_at = reader.number("used at")?;
        let messages = match descriptor.kind {
            QueueKind::Standard => Messages::Standard(Box::new(Standard::read(reader)?)),
            QueueKind::Fifo { dedup_scope } => Messages::Fifo(Box::new(Fifo::read(
                reader,
                dedup_scope,
                descriptor.delay_ms,
            )?)),
        };
        Ok(Self {
            descriptor,
            messages,
            used_at,
            moving: None,
        })
    }
}

impl Messages {
    fn new(descriptor: &Descriptor) -> Self {
        match descriptor.kind {
            QueueKind::Standard => Self::Standard(Box::default()),
            QueueKind::Fifo { dedup_scope } => {
                Self::Fifo(Box::new(Fifo::new(dedup_scope, descriptor.delay_ms)))
            }
        }
    }
}
