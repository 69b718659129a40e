//! The message groups of a standard queue in a checkpoint, and what must hold of them.
//!
//! Slots and orders are made anew when they are read: nothing that a receive decides depends on them.

use super::{Fair, Filed, GROUPS_MAX, Group, Processing, TIME_BITS, place};
use crate::codec::{DecodeError, Reader, Writer};
use crate::held::{Held, HeldMessages, Wait};
use crate::ids::PackedName;
use crate::runs::{Run, Runs};

impl Fair {
    /// A group's held messages.
    fn held_of(&self, slot: u32) -> impl Iterator<Item = PackedName> {
        let from = u64::from(slot) << TIME_BITS;
        let held = self.held.range_from((from, PackedName::new(0, 0)));
        let of_this = move |(at, _): &(u64, PackedName)| at >> TIME_BITS == u64::from(slot);
        held.map(|(place, ())| place)
            .take_while(of_this)
            .map(|(_, name)| name)
    }

    pub fn write(&self, writer: &mut Writer) {
        self.processing.write(writer);
        writer.length(self.by_key.len());
        for (key, slot) in &self.by_key {
            let group = self.group(*slot);
            writer.text(key);
            writer.number(group.sent_at);
            writer.optional_number(group.noisy_since);
            group.processing.write(writer);
            group.waiting.write(writer);
            let mut held: Vec<PackedName> = self.held_of(*slot).collect();
            held.sort_unstable();
            writer.length(held.len());
            held.iter().for_each(|name| writer.number(name.bits()));
        }
    }

    /// Reads what [`Fair::write`] wrote, and tells the held messages their groups.
    pub fn read(reader: &mut Reader<'_>, held: &mut HeldMessages) -> Result<Self, DecodeError> {
        let mut fair = Self::new(held.in_flight(), 0);
        fair.processing = Processing::read(reader)?;
        for _ in 0..reader.length("fair groups")? {
            let key = reader.text("fair group")?;
            if fair.by_key.contains_key(key) || fair.by_key.len() >= GROUPS_MAX {
                return Err(DecodeError::Impossible("a fair group twice, or too many"));
            }
            let mut group = Group::new(key.into(), reader.number("last send")?);
            group.noisy_since = reader.optional_number("noisy since")?;
            group.processing = Processing::read(reader)?;
            let waiting = Runs::read(reader)?;
            let slot = fair.add_group(group);
            fair.change_waiting(slot, |group| group.waiting = waiting);
            for _ in 0..reader.length("fair group's held messages")? {
                let name = PackedName::from_bits(reader.number("held name")?);
                let name = name.ok_or(DecodeError::Impossible("held name"))?;
                let message = held.set_fair_group(name, slot)?;
                fair.held.insert(place(slot, name, message), ());
                fair.count_in(slot, held.wait(message));
            }
            if fair.group(slot).messages() == 0 {
                return Err(DecodeError::Impossible("a fair group without messages"));
            }
            fair.refile(slot);
        }
        Ok(fair)
    }

    fn count_in(&mut self, slot: u32, wait: Wait) {
        let group = self.group_mut(slot);
        group.held += 1;
        group.in_flight += u64::from(wait == Wait::InFlight);
        group.delayed += u64::from(wait == Wait::Delayed);
    }

    pub fn check(&self, held: &HeldMessages) -> Result<(), &'static str> {
        let in_groups = |(name, message): (PackedName, Held)| {
            message
                .fair_group()
                .is_none_or(|slot| self.held.get(place(slot, name, message)).is_some())
        };
        let grouped = held.iter().filter(|(_, it)| it.fair_group().is_some());
        if grouped.count() != self.held.len() || !held.iter().all(in_groups) {
            return Err("a held message of a fair group has its place there");
        }
        if self.in_flight != held.in_flight() {
            return Err("fair groups know what is in flight");
        }
        let settled_at = held.settled_at();
        if !self.processing.is_possible(settled_at) {
            return Err("no processing time is ahead of T");
        }
        for slot in self.by_key.values() {
            self.check_group(*slot, held)?;
        }
        self.check_orders()
    }

    fn check_group(&self, slot: u32, held: &HeldMessages) -> Result<(), &'static str> {
        let group = self.group(slot);
        group.waiting.check()?;
        if group.messages() == 0 {
            return Err("a fair group has messages");
        }
        let waits = |what: Wait| {
            let held_here = self.held_of(slot).filter_map(|name| held.get(name));
            held_here.filter(|it| held.wait(*it) == what).count() as u64
        };
        let counted = group.held == self.held_of(slot).count() as u64
            && group.in_flight == waits(Wait::InFlight)
            && group.delayed == waits(Wait::Delayed);
        if !counted {
            return Err("a fair group's messages are counted by what they wait for");
        }
        let settled_at = held.settled_at();
        let times = group.noisy_since.unwrap_or(0).max(group.sent_at);
        if times > settled_at || !group.processing.is_possible(settled_at) {
            return Err("no time of a fair group is ahead of T");
        }
        if group.noisy_since.is_some() && group.backlog() == 0 {
            return Err("a group without a backlog is quiet");
        }
        let filed = Filed {
            fresh: group.waiting.front().map(Run::first),
            again: self.first_held(slot),
            noisy: group.noisy(),
        };
        (filed == group.filed)
            .then_some(())
            .ok_or("a fair group is filed as it is")
    }

    fn check_orders(&self) -> Result<(), &'static str> {
        let groups = || self.groups.iter().flatten();
        let count = |of: fn(&Group) -> bool| groups().filter(|group| of(group)).count();
        let noisy = count(|group| group.filed.noisy.is_some());
        let is_filed = |group: &Group| {
            let slot = self.by_key[&group.key];
            let (fresh, again) = (group.filed.fresh, group.filed.again);
            match group.filed.noisy {
                Some((in_flight, until)) => {
                    self.noisy.contains(&(in_flight, group.key.clone(), slot))
                        && self.noisy_until.contains(&(until, slot))
                        && fresh.is_none_or(|name| self.noisy_fresh.contains(&(name, slot)))
                }
                None => {
                    fresh.is_none_or(|name| self.fresh.contains(&(name, slot)))
                        && again.is_none_or(|due| self.again.contains(&(due, slot)))
                }
            }
        };
        let fresh = count(|group| group.filed.fresh.is_some());
        let quiet_again = count(|it| it.filed.noisy.is_none() && it.filed.again.is_some());
        let sizes = self.by_key.len() == groups().count()
            && (self.noisy.len(), self.noisy_until.len()) == (noisy, noisy)
            && self.fresh.len() + self.noisy_fresh.len() == fresh
            && self.again.len() == quiet_again;
        if !sizes || !groups().all(is_filed) {
            return Err("a fair group is where it is filed, and nowhere else");
        }
        let messages: u64 = groups().map(|group| group.waiting.messages()).sum();
        let runs: usize = groups().map(|group| group.waiting.len()).sum();
        ((messages, runs) == (self.untouched_messages, self.runs))
            .then_some(())
            .ok_or("fair groups' untouched messages are counted")
    }
}

impl Processing {
    fn write(self, writer: &mut Writer) {
        writer.number(self.recent_ms);
        writer.number(self.counted_to);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            recent_ms: reader.number("processing time")?,
            counted_to: reader.number("end of processing time")?,
        })
    }
}
