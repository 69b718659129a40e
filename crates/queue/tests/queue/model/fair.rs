//! The model's fair queues: every flight of every message is written down, and added up when asked.

use hikyaku_queue::{Name, QuietCounts};

use super::{Message, Queue};
use crate::support::MINUTE;

/// What is in flight from some time on: at which times how many more, or fewer.
#[derive(Debug, Clone, Default)]
struct Flights {
    since: u64,
    changes: Vec<(u64, i64)>,
}

#[derive(Debug, Clone)]
struct Group {
    key: String,
    sent_at: u64,
    noisy_since: Option<u64>,
    flights: Flights,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Fair {
    groups: Vec<Group>,
    flights: Flights,
    /// What was in flight when somebody looked last.
    flying: Vec<(Name, String)>,
}

impl Flights {
    fn from(since: u64, in_flight: usize) -> Self {
        Self {
            since,
            changes: vec![(since, in_flight as i64)],
        }
    }

    fn between(&self, from: u64, to: u64) -> i64 {
        let time = |(at, change): &(u64, i64)| change * (to - (*at).clamp(from, to)) as i64;
        self.changes.iter().map(time).sum()
    }

    /// The time in flight, halved at the end of each minute.
    fn recent(&self, now: u64) -> i64 {
        let mut recent = 0;
        let mut from = self.since;
        while from / MINUTE < now / MINUTE {
            let to = (from / MINUTE + 1) * MINUTE;
            recent = (recent + self.between(from, to)) / 2;
            from = to;
        }
        recent + self.between(from, now)
    }
}

impl Group {
    fn until(&self) -> Option<u64> {
        Some(self.noisy_since?.max(self.sent_at) + 5 * MINUTE)
    }
}

impl Queue {
    /// A message of a group is about to come.
    pub(super) fn hear_of(&mut self, message_group: &str, now: u64) {
        if self.is_fifo() || message_group.is_empty() {
            return;
        }
        if self.fair.groups.is_empty() {
            self.fair.flights = Flights::from(now, self.in_flight(now));
        }
        match self.fair_group(message_group) {
            Some(group) => group.sent_at = now,
            None => self.fair.groups.push(Group {
                key: message_group.to_owned(),
                sent_at: now,
                noisy_since: None,
                flights: Flights::from(now, 0),
            }),
        }
    }

    fn fair_group(&mut self, key: &str) -> Option<&mut Group> {
        self.fair.groups.iter_mut().find(|group| group.key == key)
    }

    fn of_group<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Message> {
        self.messages
            .iter()
            .filter(move |it| it.message_group == key)
    }

    fn flies(message: &Message, now: u64) -> bool {
        message.number > 0 && message.own_time > Some(now)
    }

    fn note(&mut self, at: u64, key: &str, change: i64) {
        self.fair.flights.changes.push((at, change));
        if let Some(group) = self.fair_group(key) {
            group.flights.changes.push((at, change));
        }
    }

    /// What was in flight and is not any more, since its time was over.
    pub(super) fn pass_fair_time(&mut self, now: u64) {
        if self.is_fifo() {
            return;
        }
        for (name, key) in self.fair.flying.clone() {
            let message = self.messages.iter().find(|message| message.name == name);
            let until = message.and_then(|message| message.own_time).unwrap();
            if until <= now {
                self.note(until, &key, -1);
                self.fair.flying.retain(|(other, _)| *other != name);
            }
        }
        for group in &mut self.fair.groups {
            if group.until().is_some_and(|until| until <= now) {
                group.noisy_since = None;
            }
        }
    }

    /// Looks what changed just now.
    pub(super) fn watch(&mut self, now: u64) {
        if self.is_fifo() {
            return;
        }
        let flying = self.messages.iter().filter(|it| Self::flies(it, now));
        let flying: Vec<(Name, String)> = flying
            .map(|it| (it.name, it.message_group.clone()))
            .collect();
        let before = std::mem::replace(&mut self.fair.flying, flying.clone());
        for (_, key) in before.iter().filter(|it| !flying.contains(it)) {
            self.note(now, key, -1);
        }
        for (_, key) in flying.iter().filter(|it| !before.contains(it)) {
            self.note(now, key, 1);
        }
        let mut groups = std::mem::take(&mut self.fair.groups);
        groups.retain(|group| self.of_group(&group.key).next().is_some());
        for group in &mut groups {
            if self.of_group(&group.key).all(|it| Self::flies(it, now)) {
                group.noisy_since = None;
            }
        }
        self.fair.groups = groups;
    }

    /// A message was handed out: does its group take too much?
    pub(super) fn judge(&mut self, now: u64, name: Name) {
        let message = self.messages.iter().find(|message| message.name == name);
        let key = message.unwrap().message_group.clone();
        let all = self.in_flight(now);
        let here = self
            .of_group(&key)
            .filter(|it| Self::flies(it, now))
            .count();
        let processed = self.fair.flights.recent(now);
        let waits = self.of_group(&key).any(|it| !Self::flies(it, now));
        if let Some(group) = self.fair_group(&key) {
            let many = here >= 30 && here * 10 > all;
            let long = group.flights.recent(now) * 10 > processed;
            if waits && (many || long) && group.noisy_since.is_none() {
                group.noisy_since = Some(now);
            }
        }
    }

    /// Groups that are noisy, the one with the fewest in flight first.
    pub(super) fn noisy_groups(&self, now: u64) -> Vec<&str> {
        let noisy = self.fair.groups.iter().filter(|it| it.until() > Some(now));
        let mut noisy: Vec<(usize, &str)> = noisy
            .map(|group| {
                let here = self.of_group(&group.key);
                let in_flight = here.filter(|it| Self::flies(it, now)).count();
                (in_flight, group.key.as_str())
            })
            .collect();
        noisy.sort();
        noisy.into_iter().map(|(_, key)| key).collect()
    }

    /// The messages that a receive may choose from.
    pub(super) fn fairest<'a>(&self, now: u64, left: Vec<&'a Message>) -> Vec<&'a Message> {
        let visible = left
            .into_iter()
            .filter(|it| it.own_time.unwrap_or(0) <= now);
        let visible: Vec<&Message> = visible.collect();
        let noisy = self.noisy_groups(now);
        let is_quiet = |message: &&&Message| !noisy.contains(&message.message_group.as_str());
        let quiet: Vec<&Message> = visible.iter().filter(is_quiet).copied().collect();
        if !quiet.is_empty() {
            return quiet;
        }
        let of = |key: &str| {
            let here = visible.iter().filter(|it| it.message_group == key);
            here.copied().collect::<Vec<&Message>>()
        };
        let mut served = noisy.into_iter().map(of).filter(|it| !it.is_empty());
        served.next().unwrap_or_default()
    }

    pub(super) fn quiet_counts(&self, now: u64) -> QuietCounts {
        let noisy = self.noisy_groups(now);
        let is_quiet =
            |it: &&Message| self.is_fifo() || !noisy.contains(&it.message_group.as_str());
        let quiet = || self.messages.iter().filter(is_quiet);
        let in_flight = quiet().filter(|it| self.is_in_flight(it, now)).count() as u64;
        let delayed = quiet().filter(|it| self.is_delayed(it, now)).count() as u64;
        let oldest = quiet().map(|message| self.stamp(message)).min();
        QuietCounts {
            visible: quiet().count() as u64 - in_flight - delayed,
            in_flight,
            delayed,
            oldest_sent_at: oldest.map(|sent_at| sent_at.min(now)),
        }
    }
}
