//! The messages of a standard queue in one partition.
//!
//! A message starts in the runs, or held when it is delayed; once received it is held until it is
//! deleted. Receives take turns between the messages that were never handed out and those that
//! became visible by themselves: neither can starve the other, whatever a consumer keeps failing
//! on. Within each, the oldest comes first. Where messages have message groups, those that take too
//! much come last: see `fair.rs`, which knows nothing as long as no message has one.
//!
//! Stamps are T rounded up to four seconds, so that runs grow long; retention therefore ends at most
//! four seconds late and never early.
//!
//! A message that came from another queue is held, under a name of this day and with a stamp of old:
//! `moved_by_age` finds those whose time is over before their names' turn.

use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Writer};
use crate::dense::DenseMap;
use crate::fair::{Fair, NoisyCounts, Offer};
use crate::held::{HELD_BYTES, Held, HeldMessages, STAMP_MS};
use crate::ids::PackedName;
use crate::moved::{Moved, MovedMessages};
use crate::parting::{Leaving, Parting};
use crate::runs::{RUN_BYTES, Run, Runs};

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
    /// The message groups, while there are any. `untouched` has the messages without one.
    fair: Option<Box<Fair>>,
}

/// Held messages, oldest first, that are looked at for the oldest one of a quiet group.
const LOOKED_AT: usize = 1_000;

impl Standard {
    pub fn send(&mut self, name: PackedName, now: u64, delay_ms: u64, message_group: Option<&str>) {
        let sent_at = now.next_multiple_of(STAMP_MS);
        let slot = message_group.and_then(|key| self.slot(key, now));
        match (slot, &mut self.fair) {
            _ if delay_ms > 0 => {
                let held = Held::unread(sent_at, now.saturating_add(delay_ms));
                self.join(name, in_group(held, slot), now);
            }
            (Some(slot), Some(fair)) => fair.push(slot, name, sent_at),
            _ => self.untouched.push(name, sent_at),
        }
    }

    /// The slot of a message group that gets a message; none if there is no room for one more group.
    fn slot(&mut self, key: &str, now: u64) -> Option<u32> {
        let in_flight = self.held.in_flight();
        let fair = &mut self.fair;
        let fair = fair.get_or_insert_with(|| Box::new(Fair::new(in_flight, now)));
        fair.slot(key, now)
    }

    /// Takes in a message that left another queue at `now`.
    pub fn arrive(
        &mut self,
        name: PackedName,
        now: u64,
        left: Held,
        message_group: Option<&str>,
        moved: Moved,
        source: &Arc<str>,
    ) {
        let held = left.in_no_group().visible_from(now);
        self.arrive_held(name, now, held, message_group, moved, source);
    }

    fn arrive_held(
        &mut self,
        name: PackedName,
        now: u64,
        held: Held,
        message_group: Option<&str>,
        moved: Moved,
        source: &Arc<str>,
    ) {
        self.moved.insert(name, moved, source);
        self.moved_by_age.insert((moved.stamp, name), ());
        let slot = message_group.and_then(|key| self.slot(key, now));
        self.join(name, in_group(held, slot), now);
    }

    /// Adds a message that is held.
    fn join(&mut self, name: PackedName, held: Held, now: u64) {
        self.held.insert(name, held);
        if let Some(fair) = &mut self.fair {
            fair.join(name, held, self.held.wait(held), now);
        }
    }

    /// Takes in a message that comes back from a dead-letter queue at `now`, as if it had been sent.
    pub fn arrive_anew(
        &mut self,
        name: PackedName,
        now: u64,
        delay_ms: u64,
        message_group: Option<&str>,
        moved: Moved,
    ) {
        let held = Held::unread(moved.stamp, now.saturating_add(delay_ms));
        self.arrive_held(name, now, held, message_group, moved, &"".into());
    }

    /// See [`crate::slice::Slice::movable`]: in the order of the names.
    pub fn movable(&self, before: u64, max: usize, now: u64) -> Vec<PackedName> {
        let older = |name: &PackedName| name.index() < before;
        let held = self.held.older(before, now).take(max);
        let untouched = self.untouched.names().map(|(name, _)| name);
        let mut names: Vec<PackedName> = untouched.take_while(older).take(max).collect();
        names.extend(held);
        names.extend(self.fair.iter().flat_map(|fair| fair.older(before, max)));
        names.sort_unstable();
        names.truncate(max);
        names
    }

    /// The oldest message's name.
    pub fn first_name(&self) -> Option<PackedName> {
        let untouched = self.untouched.front().map(|run| run.first());
        let grouped = self.fair.as_ref().and_then(|fair| fair.oldest_run());
        let grouped = grouped.map(|(_, run)| run.first());
        let held = self.held.oldest().map(|(name, _)| name);
        [untouched, grouped, held].into_iter().flatten().min()
    }

    /// Takes out a message that is held, or the oldest of its group, or of those without one, that is
    /// not.
    pub fn take_out(&mut self, name: PackedName) -> Leaving {
        let held = match (self.held.remove(name), &mut self.fair) {
            (Some(held), Some(fair)) => {
                fair.take_again(name, held);
                held
            }
            (Some(held), None) => held,
            (None, fair) => {
                let slot = fair.as_ref().and_then(|fair| fair.with_oldest(name));
                let popped = match (slot, fair) {
                    (Some(slot), Some(fair)) => fair.pop(slot),
                    _ => self.untouched.pop(),
                };
                let (popped, sent_at) = popped.expect("what is not held was never touched");
                assert!(popped == name, "the oldest message is taken out first");
                in_group(Held::unread(sent_at, 0), slot)
            }
        };
        self.let_go(name, held)
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
                parting.leaving.push(self.let_go(name, held));
            } else {
                if let Some(fair) = &mut self.fair {
                    fair.hand_out(held, visible_at > now, now);
                }
                taken.push((name, held));
            }
        }
        // Only now: with a timeout of zero a message would be taken twice.
        for (name, held) in &mut taken {
            *held = held.received(now, visible_at);
            self.held.insert(*name, *held);
            if let Some(fair) = &mut self.fair {
                fair.put(*name, *held);
            }
        }
        taken
    }

    fn receives_here(&self, name: PackedName, held: Held) -> u32 {
        let before = self.moved.get(name).map_or(0, |moved| moved.receive_count);
        held.receive_count.saturating_sub(before)
    }

    /// A message that was taken leaves the slice.
    fn let_go(&mut self, name: PackedName, held: Held) -> Leaving {
        let message_group = self.fair.as_mut().and_then(|fair| fair.leave(held));
        self.close_empty_books();
        Leaving {
            name,
            held,
            message_group,
            moved: self.forget_move(name),
        }
    }

    fn forget_move(&mut self, name: PackedName) -> Option<Moved> {
        let moved = self.moved.remove(name)?;
        self.moved_by_age.remove((moved.stamp, name));
        Some(moved)
    }

    /// Slices whose messages have no groups keep no books of them.
    fn close_empty_books(&mut self) {
        if self.fair.as_ref().is_some_and(|fair| fair.is_empty()) {
            self.fair = None;
        }
    }

    fn take_next(&mut self, now: u64) -> Option<(PackedName, Held)> {
        let offer = self.offer(now);
        let is_again = match (offer.again, offer.fresh) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(_), Some(_)) => {
                let turn = self.held_is_next;
                self.held_is_next = !turn;
                turn
            }
        };
        if is_again {
            let (_, name) = offer.again?;
            let held = self.held.remove(name)?;
            if let Some(fair) = &mut self.fair {
                fair.take_again(name, held);
            }
            return Some((name, held));
        }
        let (_, slot) = offer.fresh?;
        let (name, sent_at) = match (slot, &mut self.fair) {
            (Some(slot), Some(fair)) => fair.pop(slot)?,
            _ => self.untouched.pop()?,
        };
        Some((name, in_group(Held::unread(sent_at, 0), slot)))
    }

    /// What can be handed out next: of messages without a group and of quiet groups the oldest, and of
    /// noisy groups only when there are none.
    fn offer(&self, now: u64) -> Offer {
        let own = Offer {
            fresh: self.untouched.front().map(|run| (run.first(), None)),
            again: self.held.first_visible(now),
        };
        let Some(fair) = &self.fair else { return own };
        let quiet = own.or_older(fair.quiet_offer(now));
        match quiet.is_empty() {
            true => fair.noisy_offer(now),
            false => quiet,
        }
    }

    pub fn held(&self) -> &HeldMessages {
        &self.held
    }

    pub fn moved(&self) -> &MovedMessages {
        &self.moved
    }

    /// Gives a held message another account.
    pub fn replace(&mut self, name: PackedName, held: Held, now: u64) {
        let before = self
            .held
            .remove(name)
            .expect("only held messages are replaced");
        let before = (before, self.held.wait(before));
        self.held.insert(name, held);
        if let Some(fair) = &mut self.fair {
            fair.replace(name, before, (held, self.held.wait(held)), now);
        }
    }

    /// Removes a message that is held.
    pub fn remove(&mut self, name: PackedName, now: u64) {
        if let Some(held) = self.held.remove(name) {
            self.forget_move(name);
            if let Some(fair) = &mut self.fair {
                fair.remove(name, held, self.held.wait(held), now);
            }
            self.close_empty_books();
        }
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
        if let Some(fair) = &mut self.fair {
            fair.settle(&self.held, now);
        }
        self.held.settle(now);
        if let Some(horizon) = horizon {
            self.drop_expired(now, horizon, budget);
        }
    }

    fn drop_expired(&mut self, now: u64, horizon: u64, budget: &mut usize) {
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
            && let Some(fair) = &mut self.fair
            && let Some((slot, run)) = fair.oldest_run()
            && run.sent_at() <= horizon
        {
            fair.drop_run(slot);
            self.close_empty_books();
            *budget -= 1;
        }
        while *budget > 0
            && let Some((name, held)) = self.held.oldest()
            && held.sent_at <= horizon
        {
            self.remove(name, now);
            *budget -= 1;
        }
        while *budget > 0
            && let Some(((stamp, name), ())) = self.moved_by_age.first()
            && stamp <= horizon
        {
            self.remove(name, now);
            *budget -= 1;
        }
    }

    pub fn has_visible(&self, now: u64) -> bool {
        let grouped = self.fair.as_ref().is_some_and(|fair| fair.has_untouched());
        !self.untouched.is_empty() || grouped || self.held.has_visible(now)
    }

    pub fn messages(&self) -> u64 {
        let grouped = self
            .fair
            .as_ref()
            .map_or(0, |fair| fair.untouched_messages());
        self.untouched.messages() + grouped + self.held.len() as u64
    }

    /// The messages of groups that are noisy at `now`.
    pub fn noisy_counts(&self, now: u64) -> NoisyCounts {
        let fair = self.fair.as_ref();
        fair.map_or(NoisyCounts::default(), |fair| {
            fair.noisy_counts(&self.held, now)
        })
    }

    /// The stamp of the oldest message.
    pub fn oldest(&self) -> Option<u64> {
        let untouched = self.untouched.front().map(|run| run.sent_at());
        let grouped = self.fair.as_ref().and_then(|fair| fair.oldest_run());
        let grouped = grouped.map(|(_, run)| run.sent_at());
        let held = self.held.oldest().map(|(_, held)| held.sent_at);
        let moved = self.moved_by_age.first().map(|((stamp, _), ())| stamp);
        [untouched, grouped, held, moved]
            .into_iter()
            .flatten()
            .min()
    }

    /// The stamp of the oldest message that is in no noisy group, as far as it is found quickly: of
    /// messages that were received, only a number of the oldest is looked at.
    pub fn oldest_quiet(&self, now: u64) -> Option<u64> {
        let Some(fair) = &self.fair else {
            return self.oldest();
        };
        let untouched = self.untouched.front().map(|run| run.sent_at());
        let is_quiet = |held: &Held| !fair.is_noisy(*held, now);
        let held = self.held.iter().map(|(_, held)| held).take(LOOKED_AT);
        let moved = self.moved_by_age.iter().take(LOOKED_AT);
        let moved = moved.filter_map(|((_, name), ())| self.held.get(name));
        let held = held.chain(moved).filter(is_quiet).map(|held| held.sent_at);
        let untouched = untouched.into_iter().chain(fair.oldest_quiet_untouched());
        held.chain(untouched).min()
    }

    pub fn untouched(&self) -> impl Iterator<Item = Run> {
        let grouped = self.fair.iter().flat_map(|fair| fair.untouched());
        self.untouched.iter().chain(grouped)
    }

    /// The message groups, if there are any.
    pub fn fair(&self) -> Option<&Fair> {
        self.fair.as_deref()
    }

    /// Takes on the message groups, just read.
    pub fn read_fair(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let fair = Fair::read(reader, &mut self.held)?;
        if fair.is_empty() || self.fair.is_some() {
            return Err(DecodeError::Impossible("fair groups of a slice"));
        }
        self.fair = Some(Box::new(fair));
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.untouched.len() * RUN_BYTES
            + self.held.len() * HELD_BYTES
            + self.moved.bytes()
            + self.moved_by_age.len() * MOVED_AGE_BYTES
            + self.fair.as_ref().map_or(0, |fair| fair.bytes())
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
        match &self.fair {
            Some(fair) if fair.is_empty() => return Err("empty books are closed"),
            Some(fair) => fair.check(&self.held)?,
            None if self.held.iter().any(|(_, it)| it.fair_group().is_some()) => {
                return Err("a message's group is in the books");
            }
            None => (),
        }
        let mut untouched = self.untouched().flat_map(Run::names);
        let twice = untouched.any(|name| self.held.get(name).is_some());
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

fn in_group(held: Held, slot: Option<u32>) -> Held {
    match slot {
        Some(slot) => held.in_fair_group(slot),
        None => held,
    }
}
