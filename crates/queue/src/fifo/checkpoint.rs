//! A FIFO slice in a checkpoint, and what must hold of one.
//!
//! Groups are written in the order of their keys and referred to by position, turns as the order
//! they mean: two slices that behave the same are written the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::group::Group;
use super::{Delayed, Fifo};
use crate::attempts::Attempts;
use crate::codec::{DecodeError, Reader, Writer};
use crate::deduplication::Deduplication;
use crate::descriptor::DeduplicationScope;
use crate::held::HeldMessages;
use crate::ids::PackedName;
use crate::runs::{Run, Runs};

impl Fifo {
    pub fn write(&self, writer: &mut Writer) {
        self.held.write(writer);
        writer.length(self.by_key.len());
        for (key, slot) in &self.by_key {
            let group = self.group(*slot);
            writer.text(key);
            writer.length(group.received.len());
            group
                .received
                .iter()
                .for_each(|name| writer.number(name.bits()));
            group.waiting.write(writer);
        }
        let positions: BTreeMap<u32, u64> = self.by_key.values().copied().zip(0..).collect();
        writer.length(self.turns.len());
        self.turns
            .iter()
            .for_each(|(_, slot)| writer.number(positions[&slot]));
        writer.length(self.delayed.len());
        for delayed in &self.delayed {
            writer.number(delayed.sent_at);
            writer.number(delayed.first.bits());
            writer.number(positions[&delayed.group]);
            writer.number(u64::from(delayed.messages));
        }
        self.deduplication.write(writer);
        self.attempts.write(writer);
    }

    pub fn read(
        reader: &mut Reader<'_>,
        scope: DeduplicationScope,
        delay_ms: u64,
    ) -> Result<Self, DecodeError> {
        let mut fifo = Self::new(scope, delay_ms);
        fifo.held = HeldMessages::read(reader)?;
        for _ in 0..reader.length("message groups")? {
            fifo.read_group(reader)?;
        }
        for slot in reader.list("turns", |reader| reader.small::<u32>("turn"))? {
            fifo.read_turn(slot)?;
        }
        for delayed in reader.list("delayed messages", read_delayed)? {
            if delayed.group as usize >= fifo.groups.len() {
                return Err(DecodeError::Impossible("delayed group"));
            }
            fifo.delayed_messages += u64::from(delayed.messages);
            fifo.delayed.push_back(delayed);
        }
        fifo.deduplication = Deduplication::read(reader)?;
        fifo.attempts = Attempts::read(reader)?;
        Ok(fifo)
    }

    fn read_group(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let key = reader.text("message group")?;
        let received: VecDeque<PackedName> = reader.list("received", read_name)?.into();
        let waiting = Runs::read(reader)?;
        let first_waiting = waiting.front().map(|run| run.first());
        let head = received.front().copied().or(first_waiting);
        let head = head.ok_or(DecodeError::Impossible("empty message group"))?;
        if self.by_key.contains_key(key) {
            return Err(DecodeError::Impossible("message group twice"));
        }
        let slot = self.slot(key, head);
        for name in &received {
            self.held.set_group(*name, slot)?;
        }
        self.group_mut(slot).received = received;
        self.change_waiting(slot, |group| group.waiting = waiting);
        Ok(())
    }

    fn read_turn(&mut self, slot: u32) -> Result<(), DecodeError> {
        let turn = self.next_turn;
        let group = self.groups.get_mut(slot as usize).and_then(Option::as_mut);
        let group = group.filter(|group| group.turn.is_none());
        group.ok_or(DecodeError::Impossible("turn"))?.turn = Some(turn);
        self.turns.insert(turn, slot);
        self.next_turn += 1;
        Ok(())
    }

    pub fn check(&self) -> Result<(), &'static str> {
        self.held.check()?;
        self.deduplication.check()?;
        self.attempts.check()?;
        self.check_moved()?;
        let (mut received, mut untouched, mut runs) = (0, 0, 0);
        for (slot, group) in (0u32..).zip(&self.groups) {
            let Some(group) = group else { continue };
            self.check_group(slot, group)?;
            received += group.received.len();
            untouched += group.waiting.messages();
            runs += group.waiting.len();
        }
        if (received, untouched, runs) != (self.held.len(), self.untouched_messages, self.runs) {
            return Err("the groups hold the slice's messages");
        }
        let groups = self.groups.iter().flatten().count();
        if [self.by_key.len(), self.oldest.len()] != [groups; 2] {
            return Err("every group has a key and a head");
        }
        let turns = self
            .groups
            .iter()
            .flatten()
            .filter(|group| group.turn.is_some())
            .count();
        if turns != self.turns.len() {
            return Err("every turn belongs to a group");
        }
        self.check_delayed()
    }

    /// A moved message is received, or waits in the run that has its name.
    fn check_moved(&self) -> Result<(), &'static str> {
        self.moved.check()?;
        if self.moved.len() == 0 {
            return Ok(());
        }
        let waiting: BTreeSet<PackedName> = self.untouched().flat_map(Run::names).collect();
        let exists = |name| self.held.get(name).is_some() || waiting.contains(&name);
        let all = self.moved.names().all(exists);
        all.then_some(()).ok_or("a moved message exists")
    }

    fn check_group(&self, slot: u32, group: &Group) -> Result<(), &'static str> {
        group.waiting.check()?;
        let of_this_group =
            |name: &PackedName| self.held.get(*name).is_some_and(|held| held.group == slot);
        if !group.received.iter().all(of_this_group) {
            return Err("a received message is held, with its group");
        }
        let first_waiting = group.waiting.front().map(|run| run.first());
        let names: Vec<_> = group
            .received
            .iter()
            .copied()
            .chain(first_waiting)
            .collect();
        if !names.is_sorted() || names.first() != Some(&group.filed_head) {
            return Err("a group is filed under its oldest message");
        }
        let filed = self.by_key.get(&group.key) == Some(&slot)
            && self.oldest.get(group.filed_head) == Some(slot)
            && group
                .turn
                .is_none_or(|turn| self.turns.get(turn) == Some(slot));
        if !filed {
            return Err("a group is filed under its key, its head and its turn");
        }
        let visible_at = self.head_visible_at(slot);
        let ready = visible_at.is_some_and(|at| at <= self.held.settled_at());
        (ready == group.turn.is_some())
            .then_some(())
            .ok_or("a group is ready or has no turn")
    }

    /// What is listed as delayed exists, once: the same number of messages per send of a group.
    fn check_delayed(&self) -> Result<(), &'static str> {
        let mut listed: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        for delayed in &self.delayed {
            *listed.entry((delayed.sent_at, delayed.group)).or_default() +=
                u64::from(delayed.messages);
        }
        let mut existing: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        for (slot, group) in (0u32..).zip(&self.groups) {
            for run in group.iter().flat_map(|group| group.waiting.iter()) {
                *existing.entry((run.sent_at(), slot)).or_default() += run.messages();
            }
        }
        let right = listed
            .iter()
            .all(|(sent, messages)| existing.get(sent) == Some(messages))
            && listed.values().sum::<u64>() == self.delayed_messages
            && self
                .delayed
                .iter()
                .map(|delayed| delayed.sent_at)
                .is_sorted();
        right
            .then_some(())
            .ok_or("delayed messages exist, are counted and in order")
    }
}

fn read_name(reader: &mut Reader<'_>) -> Result<PackedName, DecodeError> {
    PackedName::from_bits(reader.number("name")?).ok_or(DecodeError::Impossible("name"))
}

fn read_delayed(reader: &mut Reader<'_>) -> Result<Delayed, DecodeError> {
    Ok(Delayed {
        sent_at: reader.number("sent at")?,
        first: read_name(reader)?,
        group: reader.small("delayed group")?,
        messages: reader.small("delayed messages")?,
    })
}
