//! The messages of a standard queue in one partition.
//!
//! A message starts in the runs, or held when it is delayed; once received it is held until it is
//! deleted. Receives take turns between the messages that were never handed out and those that
//! became visible by themselves: neither can starve the other, whatever a consumer keeps failing
//! on. Within each, the oldest comes first.
//!
//! Stamps are T rounded up to four seconds, so that runs grow long; retention therefore ends at most
//! four seconds late and never early.
//!
//! A message that came from another queue is held, under a name of this day and with a stamp of old:
//! `moved_by_age` finds those whose time is over before their names' turn.

use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Writer};
use crate::dense::DenseMap;
use crate::held::{HELD_BYTES, Held, HeldMessages, STAMP_MS};
use crate::ids::PackedName;
use crate::moved::{Moved, MovedMessages};
use crate::parting::{Leaving, Parting};
use crate::runs::{RUN_BYTES, Runs};

/// What a moved message's place by age costs, in a map that is 7/8 full.
const MOVED_AGE_BYTES: usize = 16 * 8 / 7;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Standard {
    untouched: Runs,
    held: HeldMessages,
    moved: MovedMessages,
    /// Moved messages by their stamps.
    moved_by_age: DenseMap<(u64, PackedName), ()>,
    /// Whose turn it is when both have a visible message.
    held_is_next: bool,
}

impl Standard {
    pub fn send(&mut self, name: PackedName, now: u64, delay_ms: u64) {
        let sent_at = now.next_multiple_of(STAMP_MS);
        if delay_ms == 0 {
            self.untouched.push(name, sent_at);
        } else {
            self.held
                .insert(name, Held::unread(sent_at, now.saturating_add(delay_ms)));
        }
    }

    /// Takes in a message that left another queue at `now`.
    pub fn arrive(
        &mut self,
        name: PackedName,
        now: u64,
        left: Held,
        moved: Moved,
        source: &Arc<str>,
    ) {
        self.moved.insert(name, moved, source);
        self.moved_by_age.insert((moved.stamp, name), ());
        self.held.insert(name, left.visible_from(now));
    }

    /// Hands out up to `max` messages until `visible_at`; those that were received too often leave.
    pub fn receive(
        &mut self,
        max: usize,
        now: u64,
        visible_at: u64,
        parting: &mut Parting,
    ) -> Vec<(PackedName, Held)> {
        let mut taken = Vec::new();
        while taken.len() < max && parting.has_room(0) {
            let Some((name, held)) = self.take_next(now) else {
                break;
            };
            if parting.takes(self.receives_here(name, held)) {
                let moved = self.forget_move(name);
                parting.leaving.push(Leaving {
                    name,
                    held,
                    message_group: None,
                    moved,
                });
            } else {
                taken.push((name, held));
            }
        }
        // Only now: with a timeout of zero a message would be taken twice.
        for (name, held) in &mut taken {
            *held = held.received(now, visible_at);
            self.held.insert(*name, *held);
        }
        taken
    }

    fn receives_here(&self, name: PackedName, held: Held) -> u32 {
        let before = self.moved.get(name).map_or(0, |moved| moved.receive_count);
        held.receive_count.saturating_sub(before)
    }

    fn forget_move(&mut self, name: PackedName) -> Option<Moved> {
        let moved = self.moved.remove(name)?;
        self.moved_by_age.remove((moved.stamp, name));
        Some(moved)
    }

    fn take_next(&mut self, now: u64) -> Option<(PackedName, Held)> {
        let visible = self.held.first_visible(now);
        let from_held = match (visible, self.untouched.is_empty()) {
            (None, _) => None,
            (Some(name), true) => Some(name),
            (Some(name), false) => {
                let turn = self.held_is_next;
                self.held_is_next = !turn;
                turn.then_some(name)
            }
        };
        match from_held {
            Some(name) => Some((name, self.held.remove(name)?)),
            None => self
                .untouched
                .pop()
                .map(|(name, sent_at)| (name, Held::unread(sent_at, 0))),
        }
    }

    pub fn held(&self) -> &HeldMessages {
        &self.held
    }

    pub fn held_mut(&mut self) -> &mut HeldMessages {
        &mut self.held
    }

    pub fn moved(&self) -> &MovedMessages {
        &self.moved
    }

    /// Removes a message that is held.
    pub fn remove(&mut self, name: PackedName) {
        self.held.remove(name);
        self.forget_move(name);
    }

    /// Takes on the accounts of moved messages, just read.
    pub fn set_moved(&mut self, moved: MovedMessages) {
        let by_age = moved
            .names()
            .filter_map(|name| Some((moved.get(name)?.stamp, name)));
        by_age.for_each(|age| {
            self.moved_by_age.insert(age, ());
        });
        self.moved = moved;
    }

    /// Counts passed deadlines and drops what was sent at or before `horizon`, as far as `budget`
    /// goes.
    pub fn settle(&mut self, now: u64, horizon: Option<u64>, budget: &mut usize) {
        self.held.settle(now);
        let Some(horizon) = horizon else { return };
        while *budget > 0
            && self
                .untouched
                .front()
                .is_some_and(|run| run.sent_at() <= horizon)
        {
            self.untouched.drop_front();
            *budget -= 1;
        }
        while *budget > 0
            && let Some((name, held)) = self.held.oldest()
            && held.sent_at <= horizon
        {
            self.remove(name);
            *budget -= 1;
        }
        while *budget > 0
            && let Some(((stamp, name), ())) = self.moved_by_age.first()
            && stamp <= horizon
        {
            self.remove(name);
            *budget -= 1;
        }
    }

    pub fn has_visible(&self, now: u64) -> bool {
        !self.untouched.is_empty() || self.held.first_visible(now).is_some()
    }

    pub fn messages(&self) -> u64 {
        self.untouched.messages() + self.held.len() as u64
    }

    /// The stamp of the oldest message.
    pub fn oldest(&self) -> Option<u64> {
        let untouched = self.untouched.front().map(|run| run.sent_at());
        let held = self.held.oldest().map(|(_, held)| held.sent_at);
        let moved = self.moved_by_age.first().map(|((stamp, _), ())| stamp);
        untouched.into_iter().chain(held).chain(moved).min()
    }

    pub fn untouched(&self) -> &Runs {
        &self.untouched
    }

    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.untouched.len() * RUN_BYTES
            + self.held.len() * HELD_BYTES
            + self.moved.bytes()
            + self.moved_by_age.len() * MOVED_AGE_BYTES
    }

    pub fn check(&self) -> Result<(), &'static str> {
        self.untouched.check()?;
        self.held.check()?;
        self.moved.check()?;
        let stamped = |name: PackedName| {
            let stamp = self.moved.get(name).map(|moved| moved.stamp);
            stamp.is_some_and(|stamp| {
                self.held
                    .get(name)
                    .is_some_and(|held| held.sent_at == stamp)
                    && self.moved_by_age.get((stamp, name)).is_some()
            })
        };
        if self.moved_by_age.len() != self.moved.len() || !self.moved.names().all(stamped) {
            return Err("a moved message is held, and filed by its stamp");
        }
        let twice = self
            .untouched
            .names()
            .any(|(name, _)| self.held.get(name).is_some());
        (!twice)
            .then_some(())
            .ok_or("a message is in the runs or held, not both")
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.flag(self.held_is_next);
        self.untouched.write(writer);
        self.held.write(writer);
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            held_is_next: reader.flag("turn")?,
            untouched: Runs::read(reader)?,
            held: HeldMessages::read(reader)?,
            ..Self::default()
        })
    }
}
