//! The messages of a FIFO queue in one partition.
//!
//! A message group delivers the longest run of its oldest messages that are all visible; the first
//! invisible one stops it. So a group is *ready* exactly when its oldest message is visible, and the
//! ready groups stand in turn: a group that was handed out, or became ready again, goes behind.
//! Messages that were received are the oldest of their group, and at most ten, because nothing
//! behind an invisible message is handed out.
//!
//! The queue's delay holds for untouched messages and is retroactive. It is the same for all, so
//! they come due in the order in which they were sent.
//!
//! Invariants, at the time of the last settling: a group has a turn exactly when its oldest message
//! is visible; no group is empty; `oldest` has every group once, under its oldest message.

mod checkpoint;
mod group;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::attempts::Attempts;
use crate::deduplication::Deduplication;
use crate::dense::DenseMap;
use crate::descriptor::DeduplicationScope;
use crate::held::{HELD_BYTES, Held, HeldMessages};
use crate::ids::PackedName;
use crate::moved::{Moved, MovedMessages};
use crate::parting::{Leaving, Parting};
use crate::runs::{RUN_BYTES, Run};
use group::{GROUP_BYTES, Group};

/// Untouched messages of one message group, sent at one T while the queue has a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Delayed {
    sent_at: u64,
    first: PackedName,
    group: u32,
    messages: u32,
}

/// What one message group gives to a receive.
struct Pick {
    slot: u32,
    leaving: Vec<PackedName>,
    again: Vec<PackedName>,
    fresh: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Fifo {
    pub scope: DeduplicationScope,
    pub deduplication: Deduplication,
    pub attempts: Attempts,
    delay_ms: u64,
    held: HeldMessages,
    moved: MovedMessages,
    /// Message groups by slot; a slot is reused and means nothing outside this value.
    groups: Vec<Option<Group>>,
    free_slots: Vec<u32>,
    by_key: BTreeMap<Arc<str>, u32>,
    turns: DenseMap<u64, u32>,
    next_turn: u64,
    oldest: DenseMap<PackedName, u32>,
    delayed: VecDeque<Delayed>,
    delayed_messages: u64,
    untouched_messages: u64,
    runs: usize,
    key_bytes: usize,
}

impl Fifo {
    pub fn new(scope: DeduplicationScope, delay_ms: u64) -> Self {
        Self {
            scope,
            delay_ms,
            deduplication: Deduplication::default(),
            attempts: Attempts::default(),
            held: HeldMessages::default(),
            moved: MovedMessages::default(),
            groups: Vec::new(),
            free_slots: Vec::new(),
            by_key: BTreeMap::new(),
            turns: DenseMap::default(),
            next_turn: 0,
            oldest: DenseMap::default(),
            delayed: VecDeque::new(),
            delayed_messages: 0,
            untouched_messages: 0,
            runs: 0,
            key_bytes: 0,
        }
    }

    pub fn send(&mut self, name: PackedName, now: u64, message_group: &str) {
        let slot = self.slot(message_group, name);
        self.change_waiting(slot, |group| group.waiting.push(name, now));
        if self.delay_ms > 0 {
            self.delay(Delayed {
                sent_at: now,
                first: name,
                group: slot,
                messages: 1,
            });
        }
        self.refile(slot, now, false);
    }

    /// Takes in a message that left another queue, as if it had been sent at `now`.
    pub fn arrive(
        &mut self,
        name: PackedName,
        now: u64,
        message_group: &str,
        moved: Moved,
        source: &Arc<str>,
    ) {
        self.moved.insert(name, moved, source);
        self.send(name, now, message_group);
    }

    /// See [`crate::slice::Slice::movable`]: the message groups by their oldest messages, and of each what
    /// it would hand out, in order.
    pub fn movable(&self, before: u64, max: usize, now: u64) -> Vec<PackedName> {
        let mut names = Vec::new();
        let heads = self.oldest.iter();
        for (_, slot) in heads.take_while(|(head, _)| head.index() < before) {
            let movable = self.group_visible(slot, now);
            let movable = movable.take_while(|name| name.index() < before);
            names.extend(movable.take(max - names.len()));
            if names.len() == max {
                break;
            }
        }
        names
    }

    /// The messages of a group before the first that is not visible, oldest first.
    fn group_visible(&self, slot: u32, now: u64) -> impl Iterator<Item = PackedName> {
        let group = self.group(slot);
        let held = |name: &PackedName| self.held.get(*name).map_or(u64::MAX, |it| it.visible_at);
        let received = group.received.iter().map(move |name| (*name, held(name)));
        let untouched = group.waiting.names();
        let untouched =
            untouched.map(|(name, sent_at)| (name, sent_at.saturating_add(self.delay_ms)));
        let all = received.chain(untouched);
        all.take_while(move |(_, visible_at)| *visible_at <= now)
            .map(|(name, _)| name)
    }

    /// The oldest message's name.
    pub fn first_name(&self) -> Option<PackedName> {
        self.oldest.first().map(|(name, _)| name)
    }

    /// Takes out the oldest message of its group.
    pub fn take_out(&mut self, name: PackedName, now: u64) -> Leaving {
        let slot = self.oldest.get(name);
        let slot = slot.expect("a message is taken out when it is its group's oldest");
        let leaving = match self.held.get(name) {
            Some(_) => self.let_go(slot, name),
            None => {
                let popped = self.change_waiting(slot, |group| group.waiting.pop());
                let (_, sent_at) = popped.expect("what is not held was never touched");
                Leaving {
                    name,
                    held: Held::unread(sent_at, now),
                    message_group: Some(Arc::clone(&self.group(slot).key)),
                    moved: self.moved.remove(name),
                }
            }
        };
        self.refile(slot, now, false);
        leaving
    }

    /// Hands out up to `max` messages until `visible_at`: from one message group as many as it
    /// gives, then from the next. Those that were received too often leave.
    pub fn receive(
        &mut self,
        max: usize,
        now: u64,
        visible_at: u64,
        parting: &mut Parting,
    ) -> Vec<(PackedName, Held)> {
        let mut left = max;
        let mut picks = Vec::new();
        let mut leaving = 0;
        for (_, slot) in self.turns.iter() {
            if left == 0 || !parting.has_room(leaving) {
                break;
            }
            let pick = self.pick(slot, left, now, parting, leaving);
            left -= pick.again.len() + pick.fresh;
            leaving += pick.leaving.len();
            picks.push(pick);
        }
        // Only now: with a timeout of zero a group would be visited twice.
        let mut taken = Vec::new();
        for pick in picks {
            for name in pick.leaving {
                parting.leaving.push(self.let_go(pick.slot, name));
            }
            self.take_again(&pick.again, now, visible_at, &mut taken);
            self.take_fresh(pick.slot, pick.fresh, now, visible_at, &mut taken);
            self.refile(pick.slot, now, true);
        }
        taken
    }

    /// What a group gives: messages received before and visible again, and then untouched ones.
    /// Those that leave stop nothing that stands behind them.
    fn pick(&self, slot: u32, max: usize, now: u64, parting: &Parting, picked: usize) -> Pick {
        let group = self.group(slot);
        let mut pick = Pick {
            slot,
            leaving: Vec::new(),
            again: Vec::new(),
            fresh: 0,
        };
        for name in &group.received {
            let held = self.held.get(*name).expect("a received message is held");
            let leaves = parting.takes(self.receives_here(*name, held));
            let room = parting.has_room(picked + pick.leaving.len());
            if held.visible_at > now || pick.again.len() == max || (leaves && !room) {
                return pick;
            }
            match leaves {
                true => pick.leaving.push(*name),
                false => pick.again.push(*name),
            }
        }
        let due = |sent_at: u64| sent_at.saturating_add(self.delay_ms) <= now;
        let untouched = group.waiting.names().take(max - pick.again.len());
        pick.fresh = untouched.take_while(|(_, sent_at)| due(*sent_at)).count();
        pick
    }

    fn receives_here(&self, name: PackedName, held: Held) -> u32 {
        let before = self.moved.get(name).map_or(0, |moved| moved.receive_count);
        held.receive_count.saturating_sub(before)
    }

    /// Takes out a message that was received; its group is to be filed anew.
    fn let_go(&mut self, slot: u32, name: PackedName) -> Leaving {
        let held = self.held.remove(name).expect("a received message is held");
        let moved = self.moved.remove(name);
        let group = self.group_mut(slot);
        group.received.retain(|other| *other != name);
        Leaving {
            name,
            held,
            message_group: Some(Arc::clone(&group.key)),
            moved,
        }
    }

    fn take_again(
        &mut self,
        names: &[PackedName],
        now: u64,
        visible_at: u64,
        taken: &mut Vec<(PackedName, Held)>,
    ) {
        for name in names {
            let before = self.held.remove(*name).expect("a received message is held");
            let held = before.received(now, visible_at);
            self.held.insert(*name, held);
            taken.push((*name, held));
        }
    }

    fn take_fresh(
        &mut self,
        slot: u32,
        count: usize,
        now: u64,
        visible_at: u64,
        taken: &mut Vec<(PackedName, Held)>,
    ) {
        for _ in 0..count {
            let popped = self.change_waiting(slot, |group| group.waiting.pop());
            let (name, sent_at) = popped.expect("the group was asked for as many as it has");
            let before = self.moved.get(name).map_or(0, |moved| moved.receive_count);
            let unread = Held::unread(sent_at, now).in_group(slot);
            let held = unread.received_before(before).received(now, visible_at);
            self.held.insert(name, held);
            self.group_mut(slot).received.push_back(name);
            taken.push((name, held));
        }
    }

    pub fn moved(&self) -> &MovedMessages {
        &self.moved
    }

    /// Takes on the accounts of moved messages, just read.
    pub fn set_moved(&mut self, moved: MovedMessages) {
        self.moved = moved;
    }

    pub fn held(&self) -> &HeldMessages {
        &self.held
    }

    /// Removes a message that was received.
    pub fn delete(&mut self, name: PackedName, now: u64) {
        if let Some(held) = self.held.remove(name) {
            self.moved.remove(name);
            self.group_mut(held.group)
                .received
                .retain(|other| *other != name);
            self.refile(held.group, now, false);
        }
    }

    /// Gives a received message a new account; one that becomes visible frees its group.
    pub fn replace(&mut self, name: PackedName, held: Held, now: u64) {
        self.held.replace(name, held);
        self.refile(held.group, now, false);
    }

    /// Counts passed deadlines, drops what was sent at or before `horizon` as far as `budget` goes,
    /// and gives the groups that became ready their turns, in the order in which they did.
    pub fn settle(&mut self, now: u64, horizon: Option<u64>, budget: &mut usize) {
        self.deduplication.settle(now, budget);
        self.attempts.settle(now, budget);
        let mut ready = self.passed_deadlines(now, horizon);
        if let Some(horizon) = horizon {
            self.drop_expired(now, horizon, budget);
        }
        ready.sort_unstable();
        for (_, name, slot) in ready {
            // Only its head makes a group ready; one behind it must not bring the turn forward.
            let group = self.groups.get(slot as usize).and_then(Option::as_ref);
            if group.is_some_and(|group| group.filed_head == name) {
                self.refile(slot, now, false);
            }
        }
    }

    /// What became visible since the last settling: when, the message, and its group's slot.
    fn passed_deadlines(&mut self, now: u64, horizon: Option<u64>) -> Vec<(u64, PackedName, u32)> {
        let group = |name| self.held.get(name).map(|held| held.group);
        let passed = self.held.released(now);
        let mut passed: Vec<_> = passed
            .filter_map(|(at, name)| Some((at, name, group(name)?)))
            .collect();
        self.held.settle(now);
        while let Some(front) = self.delayed.front().copied() {
            let due = front.sent_at.saturating_add(self.delay_ms);
            let expired = horizon.is_some_and(|horizon| front.sent_at <= horizon);
            if due > now && !expired {
                break;
            }
            passed.push((due, front.first, front.group));
            self.delayed_messages -= u64::from(front.messages);
            self.delayed.pop_front();
        }
        passed
    }

    fn drop_expired(&mut self, now: u64, horizon: u64, budget: &mut usize) {
        while *budget > 0
            && let Some((_, slot)) = self.oldest.first()
            && self.head_sent_at(slot) <= horizon
        {
            while *budget > 0 && self.head_sent_at(slot) <= horizon {
                self.drop_head(slot);
                *budget -= 1;
            }
            self.refile(slot, now, false);
        }
    }

    /// T of the send of a group's oldest message; the end of time for a group without messages.
    fn head_sent_at(&self, slot: u32) -> u64 {
        let group = self.group(slot);
        let received = group.received.front().and_then(|name| self.held.get(*name));
        let untouched = group.waiting.front().map(Run::sent_at);
        received
            .map(|held| held.sent_at)
            .or(untouched)
            .unwrap_or(u64::MAX)
    }

    /// Drops a group's oldest message, or its oldest run if none was received.
    fn drop_head(&mut self, slot: u32) {
        match self.group_mut(slot).received.pop_front() {
            Some(name) => {
                self.held.remove(name);
                self.moved.remove(name);
            }
            None => {
                if let Some(run) = self.group(slot).waiting.front() {
                    self.moved.remove_run(run);
                }
                self.change_waiting(slot, |group| group.waiting.drop_front());
            }
        }
    }

    /// Takes on another delay for all untouched messages. Looks at every message group: the price
    /// of a change of the attribute, not of a receive.
    pub fn set_delay(&mut self, delay_ms: u64, now: u64) {
        if delay_ms == self.delay_ms {
            return;
        }
        self.delay_ms = delay_ms;
        self.delayed_messages = 0;
        let mut delayed = Vec::new();
        for (slot, group) in (0u32..).zip(&self.groups) {
            for run in group.iter().flat_map(|group| group.waiting.iter()) {
                if run.sent_at().saturating_add(delay_ms) > now {
                    let messages = run.messages() as u32;
                    let (sent_at, first) = (run.sent_at(), run.first());
                    delayed.push(Delayed {
                        sent_at,
                        first,
                        group: slot,
                        messages,
                    });
                }
            }
        }
        delayed.sort_unstable_by_key(|delayed| delayed.first);
        self.delayed.clear();
        delayed.into_iter().for_each(|delayed| self.delay(delayed));
        let heads: Vec<u32> = self.oldest.iter().map(|(_, slot)| slot).collect();
        heads
            .into_iter()
            .for_each(|slot| self.refile(slot, now, false));
    }

    fn delay(&mut self, delayed: Delayed) {
        self.delayed_messages += u64::from(delayed.messages);
        if let Some(last) = self.delayed.back_mut()
            && (last.sent_at, last.group) == (delayed.sent_at, delayed.group)
        {
            last.messages += delayed.messages;
        } else {
            self.delayed.push_back(delayed);
        }
    }

    /// Messages in flight and delayed at `now`, which may be ahead of the last settling.
    pub fn waiting_at(&self, now: u64) -> (u64, u64) {
        let due = |delayed: &&Delayed| delayed.sent_at.saturating_add(self.delay_ms) <= now;
        let passed = self.delayed.iter().take_while(due);
        let passed: u64 = passed.map(|delayed| u64::from(delayed.messages)).sum();
        (self.held.waiting_at(now).0, self.delayed_messages - passed)
    }

    /// Whether a group is ready at `now`, which may be ahead of the last settling.
    pub fn has_visible(&self, now: u64) -> bool {
        let ready = |slot: u32| self.head_visible_at(slot).is_some_and(|at| at <= now);
        let held_group = |(_, name)| self.held.get(name).map(|held| held.group);
        let due = |delayed: &&Delayed| delayed.sent_at.saturating_add(self.delay_ms) <= now;
        self.turns.len() > 0
            || self.held.released(now).filter_map(held_group).any(ready)
            || self
                .delayed
                .iter()
                .take_while(due)
                .any(|delayed| ready(delayed.group))
    }

    /// The next T after `now` at which a message becomes visible by itself.
    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        let due = |delayed: &Delayed| delayed.sent_at.saturating_add(self.delay_ms);
        let next = self.delayed.partition_point(|delayed| due(delayed) <= now);
        let delayed = self.delayed.get(next).map(due);
        delayed
            .into_iter()
            .chain(self.held.next_deadline(now))
            .min()
    }

    pub fn messages(&self) -> u64 {
        self.untouched_messages + self.held.len() as u64
    }

    /// The stamp of the oldest message.
    pub fn oldest(&self) -> Option<u64> {
        self.oldest.first().map(|(_, slot)| self.head_sent_at(slot))
    }

    pub fn untouched(&self) -> impl Iterator<Item = Run> {
        self.groups
            .iter()
            .flatten()
            .flat_map(|group| group.waiting.iter())
    }

    pub fn bytes(&self) -> usize {
        self.runs * RUN_BYTES
            + self.held.len() * HELD_BYTES
            + self.groups.len() * GROUP_BYTES
            + self.key_bytes
            + self.moved.bytes()
            + self.delayed.len() * size_of::<Delayed>()
            + self.deduplication.bytes()
            + self.attempts.bytes()
    }
}
