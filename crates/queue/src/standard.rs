//! The messages of a standard queue in one partition.
//!
//! A message starts in the runs, or held when it is delayed; once received it is held until it is
//! deleted. Receives take turns between the messages that were never handed out and those that
//! became visible by themselves: neither can starve the other, whatever a consumer keeps failing
//! on. Within each, the oldest comes first.
//!
//! Stamps are T rounded up to four seconds, so that runs grow long; retention therefore ends at most
//! four seconds late and never early.

use crate::codec::{DecodeError, Reader, Writer};
use crate::held::{HELD_BYTES, Held, HeldMessages, STAMP_MS};
use crate::ids::PackedName;
use crate::runs::{RUN_BYTES, Runs};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Standard {
    untouched: Runs,
    held: HeldMessages,
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

    /// Hands out up to `max` messages until `visible_at`.
    pub fn receive(&mut self, max: usize, now: u64, visible_at: u64) -> Vec<(PackedName, Held)> {
        let mut taken = Vec::new();
        while taken.len() < max {
            let Some(message) = self.take_next(now) else {
                break;
            };
            taken.push(message);
        }
        // Only now: with a timeout of zero a message would be taken twice.
        for (name, held) in &mut taken {
            *held = held.received(now, visible_at);
            self.held.insert(*name, *held);
        }
        taken
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
            self.held.remove(name);
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
        untouched.into_iter().chain(held).min()
    }

    pub fn untouched(&self) -> &Runs {
        &self.untouched
    }

    pub fn bytes(&self) -> usize {
        self.untouched.len() * RUN_BYTES + self.held.len() * HELD_BYTES
    }

    pub fn check(&self) -> Result<(), &'static str> {
        self.untouched.check()?;
        self.held.check()?;
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
        })
    }
}
