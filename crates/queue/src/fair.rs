//! The message groups of a standard queue: fair queues (SQS-CONTRACT section 10).
//!
//! A message with a `MessageGroupId` belongs to that group; one without is a group of its own, of
//! which nothing is kept here. A group is *noisy* when it takes more of the consumers than the others
//! leave it: more than a tenth of what is in flight, from 30 messages on, or more than a tenth of the
//! recent processing time. Quiet groups' messages are handed out first, the oldest of them all next;
//! then those of the noisy group with the fewest in flight. Nothing is dropped, limited or blocked, and
//! no order is promised within a group.
//!
//! A group is judged when a message of it is handed out, since that is when its part grows. It is quiet
//! again when its backlog is drained (all it has is in flight), or five minutes after it sent its last
//! message or became noisy, whichever is later; if it still takes too much, the next message handed out
//! makes it noisy again.
//!
//! Each partition judges by its own slice: of a queue that spreads, what one partition sees of a group
//! is a sample of the whole, and a group is noisy in some of them before others.
//!
//! A group is known as long as it has messages, and as long as there is room for it: the messages of
//! one group more than [`GROUPS_MAX`] count as messages without a group, until one is forgotten.
//!
//! Invariants: no group is empty; each is filed once, under what is true of it; in flight and delayed
//! are counted as [`HeldMessages`] counts them.

mod checkpoint;
mod group;
mod noise;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::dense::DenseMap;
use crate::held::{Held, HeldMessages, Wait};
use crate::ids::PackedName;
use crate::runs::{RUN_BYTES, Run};
use group::{Filed, GROUP_BYTES, Group, Processing};

pub(crate) use noise::NoisyCounts;

/// Message groups that a slice knows at one time: at some 500 bytes each, 5 MB.
pub(crate) const GROUPS_MAX: usize = 10_000;

/// In flight, a group with fewer messages is quiet whatever its share: AWS's number.
const NOISY_IN_FLIGHT: u64 = 30;

/// A noisy group has more than one in so many of all in flight, or of the processing time: AWS's 10 %.
const NOISY_ONE_IN: u64 = 10;

/// A group that sent nothing for so long is quiet again: AWS's 5 minutes.
const QUIET_AFTER_MS: u64 = 5 * 60 * 1_000;

/// What a held message's place in its group costs, in a map that is 7/8 full.
const FAIR_HELD_BYTES: usize = 16 * 8 / 7;

/// Bits of the time in a place by group: T has no more.
const TIME_BITS: u32 = 44;

/// When a held message is visible, as far as T goes, and which it is.
type Due = (u64, PackedName);

/// See the module.
#[derive(Debug)]
pub(crate) struct Fair {
    /// Message groups by slot; a slot is reused and means nothing outside this slice.
    groups: Vec<Option<Group>>,
    free_slots: Vec<u32>,
    by_key: BTreeMap<Arc<str>, u32>,
    /// Held messages by their group's slot and when they are visible, in one number, and by name.
    held: DenseMap<(u64, PackedName), ()>,
    /// Quiet groups by the oldest message that was never handed out.
    fresh: BTreeSet<(PackedName, u32)>,
    /// Quiet groups by the held message that is visible first.
    again: BTreeSet<(Due, u32)>,
    /// Noisy groups by what they have in flight.
    noisy: BTreeSet<(u64, Arc<str>, u32)>,
    /// Noisy groups by the oldest message that was never handed out.
    noisy_fresh: BTreeSet<(PackedName, u32)>,
    /// Noisy groups by when they are quiet again, if they send nothing more.
    noisy_until: BTreeSet<(u64, u32)>,
    /// All messages in flight, of groups or not.
    in_flight: u64,
    processing: Processing,
    untouched_messages: u64,
    runs: usize,
    key_bytes: usize,
}

/// What can be handed out next: a message that never was, and one that is visible again.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Offer {
    /// The oldest untouched message, and its group's slot.
    pub fresh: Option<(PackedName, Option<u32>)>,
    /// The held message that has been visible for longest.
    pub again: Option<Due>,
}

impl Offer {
    pub fn is_empty(self) -> bool {
        self.fresh.is_none() && self.again.is_none()
    }

    /// The older ones of two offers.
    pub fn or_older(self, other: Self) -> Self {
        let older_fresh = [self.fresh, other.fresh].into_iter().flatten().min();
        let older_again = [self.again, other.again].into_iter().flatten().min();
        Self {
            fresh: older_fresh,
            again: older_again,
        }
    }
}

impl Fair {
    /// The books of a slice without groups yet that has so many messages in flight.
    pub fn new(in_flight: u64, now: u64) -> Self {
        Self {
            groups: Vec::new(),
            free_slots: Vec::new(),
            by_key: BTreeMap::new(),
            held: DenseMap::default(),
            fresh: BTreeSet::new(),
            again: BTreeSet::new(),
            noisy: BTreeSet::new(),
            noisy_fresh: BTreeSet::new(),
            noisy_until: BTreeSet::new(),
            in_flight,
            processing: Processing::from(now),
            untouched_messages: 0,
            runs: 0,
            key_bytes: 0,
        }
    }

    /// The slot of the group `key`, made if it is new, to which a message is about to be added. `None`
    /// when there is no room for one more group.
    pub fn slot(&mut self, key: &str, now: u64) -> Option<u32> {
        let known = self.by_key.get(key).copied();
        if known.is_none() && self.by_key.len() >= GROUPS_MAX {
            return None;
        }
        let slot = known.unwrap_or_else(|| self.add_group(Group::new(key.into(), now)));
        self.group_mut(slot).sent_at = now;
        Some(slot)
    }

    fn add_group(&mut self, group: Group) -> u32 {
        let key = Arc::clone(&group.key);
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.groups[slot as usize] = Some(group);
                slot
            }
            None => {
                self.groups.push(Some(group));
                u32::try_from(self.groups.len() - 1).expect("groups are limited")
            }
        };
        self.key_bytes += key.len();
        self.by_key.insert(key, slot);
        slot
    }

    fn group(&self, slot: u32) -> &Group {
        self.groups[slot as usize]
            .as_ref()
            .expect("a slot in use has its group")
    }

    fn group_mut(&mut self, slot: u32) -> &mut Group {
        self.groups[slot as usize]
            .as_mut()
            .expect("a slot in use has its group")
    }

    /// The text of a group.
    pub fn key(&self, slot: u32) -> Arc<str> {
        Arc::clone(&self.group(slot).key)
    }

    /// Whether no group is known.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Adds a message that is visible at once.
    pub fn push(&mut self, slot: u32, name: PackedName, sent_at: u64) {
        self.change_waiting(slot, |group| group.waiting.push(name, sent_at));
        self.refile(slot);
    }

    /// Takes a group's oldest untouched message, which is now being handed out.
    pub fn pop(&mut self, slot: u32) -> Option<(PackedName, u64)> {
        let popped = self.change_waiting(slot, |group| group.waiting.pop())?;
        self.group_mut(slot).held += 1;
        self.refile(slot);
        Some(popped)
    }

    /// The group with the oldest untouched message, and its oldest run.
    pub fn oldest_run(&self) -> Option<(u32, Run)> {
        let oldest = [self.fresh.first(), self.noisy_fresh.first()];
        let (_, slot) = oldest.into_iter().flatten().min()?;
        Some((*slot, self.group(*slot).waiting.front()?))
    }

    /// The first `max` messages that were never handed out and were named before the entry `before`, and
    /// perhaps others of that time, in no order.
    pub fn older(&self, before: u64, max: usize) -> Vec<PackedName> {
        let older = |name: &PackedName| name.index() < before;
        let mut heads: Vec<(PackedName, u32)> = Vec::new();
        for order in [&self.fresh, &self.noisy_fresh] {
            let older = order.iter().take_while(|(head, _)| older(head));
            heads.extend(older.take(max));
        }
        // What comes first is of the groups that come first.
        heads.sort_unstable();
        let names = heads.into_iter().take(max).flat_map(|(_, slot)| {
            let names = self.group(slot).waiting.names().map(|(name, _)| name);
            names.take_while(older).take(max)
        });
        names.collect()
    }

    /// The group whose oldest message that was never handed out has this name.
    pub fn with_oldest(&self, name: PackedName) -> Option<u32> {
        let orders = [&self.fresh, &self.noisy_fresh].into_iter();
        let mut found = orders.filter_map(|order| order.range((name, 0)..).next());
        found.find(|(head, _)| *head == name).map(|(_, slot)| *slot)
    }

    /// Drops a group's oldest run.
    pub fn drop_run(&mut self, slot: u32) {
        self.change_waiting(slot, |group| group.waiting.drop_front());
        self.refile(slot);
    }

    fn change_waiting<T>(&mut self, slot: u32, change: impl FnOnce(&mut Group) -> T) -> T {
        let group = self.group_mut(slot);
        let (messages, runs) = (group.waiting.messages(), group.waiting.len());
        let result = change(group);
        let (messages_now, runs_now) = (group.waiting.messages(), group.waiting.len());
        self.untouched_messages = self.untouched_messages + messages_now - messages;
        self.runs = self.runs + runs_now - runs;
        result
    }

    /// What the quiet groups have to hand out.
    pub fn quiet_offer(&self, now: u64) -> Offer {
        let fresh = self.fresh.first();
        let again = self.again.first().map(|(due, _)| *due);
        Offer {
            fresh: fresh.map(|(name, slot)| (*name, Some(*slot))),
            again: again.filter(|(visible_at, _)| *visible_at <= now),
        }
    }

    /// What the noisy group with the fewest in flight has to hand out, of those that have something.
    pub fn noisy_offer(&self, now: u64) -> Offer {
        let offers = self.noisy.iter().map(|(.., slot)| {
            let filed = self.group(*slot).filed;
            Offer {
                fresh: filed.fresh.map(|name| (name, Some(*slot))),
                again: filed.again.filter(|(visible_at, _)| *visible_at <= now),
            }
        });
        let mut offers = offers.filter(|offer| !offer.is_empty());
        offers.next().unwrap_or_default()
    }

    /// Takes a held message, which is visible, out of its place: it is being handed out.
    pub fn take_again(&mut self, name: PackedName, held: Held) {
        if let Some(slot) = held.fair_group() {
            self.held.remove(place(slot, name, held));
            self.refile(slot);
        }
    }

    /// A message is being handed out; unless its timeout is zero, it is in flight from here on.
    pub fn hand_out(&mut self, held: Held, in_flight: bool, now: u64) {
        if in_flight {
            self.pass(held.fair_group(), Wait::Receive, Wait::InFlight, now);
        }
        if let Some(slot) = held.fair_group() {
            self.judge(slot, now);
            self.refile(slot);
        }
    }

    /// A message that was handed out has its place among the held ones.
    pub fn put(&mut self, name: PackedName, held: Held) {
        if let Some(slot) = held.fair_group() {
            self.held.insert(place(slot, name, held), ());
            self.refile(slot);
        }
    }

    /// Adds a message that is held, or goes on being held when it gets here.
    pub fn join(&mut self, name: PackedName, held: Held, wait: Wait, now: u64) {
        if let Some(slot) = held.fair_group() {
            self.group_mut(slot).held += 1;
        }
        self.pass(held.fair_group(), Wait::Receive, wait, now);
        self.put(name, held);
    }

    /// A held message got another account.
    pub fn replace(
        &mut self,
        name: PackedName,
        before: (Held, Wait),
        after: (Held, Wait),
        now: u64,
    ) {
        if let Some(slot) = before.0.fair_group() {
            self.held.remove(place(slot, name, before.0));
        }
        self.pass(after.0.fair_group(), before.1, after.1, now);
        self.put(name, after.0);
    }

    /// Forgets a held message.
    pub fn remove(&mut self, name: PackedName, held: Held, wait: Wait, now: u64) {
        self.pass(held.fair_group(), wait, Wait::Receive, now);
        if let Some(slot) = held.fair_group() {
            self.held.remove(place(slot, name, held));
            self.group_mut(slot).held -= 1;
            self.refile(slot);
        }
    }

    /// Forgets a message that was taken to be handed out and leaves instead; its group's text.
    pub fn leave(&mut self, held: Held) -> Option<Arc<str>> {
        let slot = held.fair_group()?;
        let key = self.key(slot);
        self.group_mut(slot).held -= 1;
        self.refile(slot);
        Some(key)
    }

    /// Lets time pass up to `now`, before the held messages do.
    pub fn settle(&mut self, held: &HeldMessages, now: u64) {
        let mut passed: Vec<(u64, PackedName)> = held.released(now).collect();
        passed.sort_unstable();
        for (at, name) in passed {
            let message = held.get(name).expect("what is in one order is in both");
            let slot = message.fair_group();
            self.pass(slot, held.wait(message), Wait::Receive, at);
            if let Some(slot) = slot {
                self.refile(slot);
            }
        }
        while let Some((until, slot)) = self.noisy_until.first().copied()
            && until <= now
        {
            self.group_mut(slot).noisy_since = None;
            self.refile(slot);
        }
    }

    /// Counts that a message waits for something else from `now` on. What was processed until then is
    /// counted first.
    fn pass(&mut self, slot: Option<u32>, from: Wait, to: Wait, now: u64) {
        let before = self.in_flight;
        self.processing.pass(before, now);
        self.in_flight = after(before, Wait::InFlight, from, to);
        if let Some(slot) = slot {
            let group = self.group_mut(slot);
            group.processing.pass(group.in_flight, now);
            group.in_flight = after(group.in_flight, Wait::InFlight, from, to);
            group.delayed = after(group.delayed, Wait::Delayed, from, to);
        }
    }

    /// Finds a group noisy if it takes too much.
    fn judge(&mut self, slot: u32, now: u64) {
        self.processing.pass(self.in_flight, now);
        let (in_flight, processed) = (self.in_flight, self.processing.recent());
        let group = self.group_mut(slot);
        group.processing.pass(group.in_flight, now);
        let many = group.in_flight >= NOISY_IN_FLIGHT && is_too_much(group.in_flight, in_flight);
        let long = is_too_much(group.processing.recent(), processed);
        if group.noisy_since.is_none() && (many || long) {
            group.noisy_since = Some(now);
        }
    }

    /// Files a group under what is true of it now.
    fn refile(&mut self, slot: u32) {
        let again = self.first_held(slot);
        let group = self.group_mut(slot);
        if group.backlog() == 0 {
            group.noisy_since = None;
        }
        let filed = Filed {
            fresh: group.waiting.front().map(Run::first),
            again,
            noisy: group.noisy(),
        };
        let before = std::mem::replace(&mut group.filed, filed);
        if before != filed {
            self.unfile(slot, before);
            self.file(slot, filed);
        }
        if self.group(slot).messages() == 0 {
            self.forget(slot);
        }
    }

    fn unfile(&mut self, slot: u32, filed: Filed) {
        match filed.noisy {
            Some((in_flight, until)) => {
                self.noisy.remove(&(in_flight, self.key(slot), slot));
                self.noisy_until.remove(&(until, slot));
                if let Some(name) = filed.fresh {
                    self.noisy_fresh.remove(&(name, slot));
                }
            }
            None => {
                if let Some(name) = filed.fresh {
                    self.fresh.remove(&(name, slot));
                }
                if let Some(due) = filed.again {
                    self.again.remove(&(due, slot));
                }
            }
        }
    }

    fn file(&mut self, slot: u32, filed: Filed) {
        match filed.noisy {
            Some((in_flight, until)) => {
                self.noisy.insert((in_flight, self.key(slot), slot));
                self.noisy_until.insert((until, slot));
                if let Some(name) = filed.fresh {
                    self.noisy_fresh.insert((name, slot));
                }
            }
            None => {
                if let Some(name) = filed.fresh {
                    self.fresh.insert((name, slot));
                }
                if let Some(due) = filed.again {
                    self.again.insert((due, slot));
                }
            }
        }
    }

    /// The held message of a group that is visible first.
    fn first_held(&self, slot: u32) -> Option<Due> {
        let from = u64::from(slot) << TIME_BITS;
        let first = PackedName::new(0, 0);
        let ((at, name), ()) = self.held.range_from((from, first)).next()?;
        (at >> TIME_BITS == u64::from(slot)).then_some((at & LAST_TIME, name))
    }

    /// Forgets a group without messages, which is filed nowhere.
    fn forget(&mut self, slot: u32) {
        if let Some(group) = self.groups[slot as usize].take() {
            self.key_bytes -= group.key.len();
            self.by_key.remove(&group.key);
            self.free_slots.push(slot);
        }
    }

    /// Whether an untouched message waits.
    pub fn has_untouched(&self) -> bool {
        self.untouched_messages > 0
    }

    /// Messages that were never handed out and are not delayed.
    pub fn untouched_messages(&self) -> u64 {
        self.untouched_messages
    }

    pub fn untouched(&self) -> impl Iterator<Item = Run> {
        let groups = self.groups.iter().flatten();
        groups.flat_map(|group| group.waiting.iter())
    }

    /// The stamp of the quiet groups' oldest untouched message.
    pub fn oldest_quiet_untouched(&self) -> Option<u64> {
        let (_, slot) = self.fresh.first()?;
        self.group(*slot).waiting.front().map(Run::sent_at)
    }

    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.by_key.len() * GROUP_BYTES
            + self.key_bytes
            + self.runs * RUN_BYTES
            + self.held.len() * FAIR_HELD_BYTES
    }
}

/// The last time that has a place of its own; what is visible later is visible never.
const LAST_TIME: u64 = (1 << TIME_BITS) - 1;

fn place(slot: u32, name: PackedName, held: Held) -> (u64, PackedName) {
    let at = held.visible_at.min(LAST_TIME);
    (u64::from(slot) << TIME_BITS | at, name)
}

fn is_too_much(part: u64, whole: u64) -> bool {
    part * NOISY_ONE_IN > whole
}

/// A count of what waits for `what`, once a message that waited for `from` waits for `to`.
fn after(count: u64, what: Wait, from: Wait, to: Wait) -> u64 {
    count + u64::from(to == what) - u64::from(from == what)
}
