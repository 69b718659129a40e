//! The promises, each as a test for what no order of effects explains.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::messages::{Message, Messages, Seen};
use super::{Finding, Kind, Ledger, Outcome, Rule, Send, Span};

/// Deduplication ids are remembered this long.
const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(300);

/// A timer may be early by this much, for the milliseconds in which the log counts ...
const TIMER_SLACK: Duration = Duration::from_millis(5);

/// ... and by one part in this many, for the slewing of its clock.
const TIMER_SLACK_PARTS: u32 = 2_000;

/// Collects findings about one ledger.
struct Check<'a> {
    ledger: &'a Ledger,
    messages: Messages<'a>,
    findings: Vec<Finding>,
}

/// Every broken promise of the ledger.
pub(super) fn check(ledger: &Ledger) -> Vec<Finding> {
    let mut check = Check {
        ledger,
        messages: Messages::of(ledger),
        findings: Vec::new(),
    };
    check.lost();
    check.phantom();
    check.duplicated();
    check.resurrected();
    check.held_twice();
    check.too_early();
    check.receive_count();
    check.counts();
    if ledger.kind != Kind::Standard {
        check.group_order();
        check.sequence_order();
        check.deduplication();
    }
    check.findings
}

/// The least that is left of a timer when it may be early.
fn at_least(timer: Duration) -> Duration {
    timer.saturating_sub(TIMER_SLACK + timer / TIMER_SLACK_PARTS)
}

impl<'a> Check<'a> {
    fn find(&mut self, rule: Rule, texts: Vec<String>) {
        self.findings
            .extend(texts.into_iter().map(|text| Finding { rule, text }));
    }

    /// The texts that `test` has about each message.
    fn each(&self, mut test: impl FnMut(&Message<'a>, &mut Vec<String>)) -> Vec<String> {
        let mut texts = Vec::new();
        self.messages
            .by_id
            .values()
            .for_each(|message| test(message, &mut texts));
        texts
    }

    /// When a delete or a purge may have ended the message at the earliest.
    fn may_have_ended(&self, message: &Message<'_>) -> Option<Duration> {
        let born = self.messages.born(message);
        let purges = self
            .ledger
            .purges
            .iter()
            .filter(|p| p.outcome.may_have_effect());
        let purged = purges
            .filter(|p| p.span.returned > born)
            .map(|p| p.span.invoked);
        purged
            .chain(message.deletes.iter().map(|d| d.span.invoked))
            .min()
    }

    fn lost(&mut self) {
        let Some(drain_from) = self.ledger.drain_from else {
            return;
        };
        let texts = self.each(|message, texts| {
            let ended = self
                .may_have_ended(message)
                .is_some_and(|end| end < drain_from);
            let drained = message.seen.iter().any(|s| s.span.invoked >= drain_from);
            if let (Some(at), false, false) = (message.acknowledged, ended, drained) {
                let Message { id, body, .. } = message;
                let last = message.seen.last().map(|s| s.delivery.receive_count);
                texts.push(format!(
                    "{id} {body:?} acknowledged at {at:?}, last seen: {last:?}"
                ));
            }
        });
        self.find(Rule::Lost, texts);
    }

    fn phantom(&mut self) {
        let texts = self.each(|message, texts| {
            for seen in &message.seen {
                if let Some(why) = self.why_phantom(message, seen) {
                    texts.push(format!("{} at {:?}: {why}", message.id, seen.span));
                }
            }
        });
        self.find(Rule::Phantom, texts);
    }

    fn why_phantom(&self, message: &Message<'_>, seen: &Seen<'_>) -> Option<String> {
        let delivery = seen.delivery;
        let sends = self.messages.sends_by_body.get(delivery.body.as_str());
        let sent = |s: &&&Send| s.span.invoked <= seen.span.returned;
        let Some(send) = sends.and_then(|sends| sends.iter().find(sent)) else {
            return Some(format!("nobody had sent {:?}", delivery.body));
        };
        if delivery.body != message.body {
            return Some(format!(
                "body {:?}, earlier {:?}",
                delivery.body, message.body
            ));
        }
        if delivery.message_group != send.message_group {
            let (now, then) = (&delivery.message_group, &send.message_group);
            return Some(format!("message group {now:?}, sent with {then:?}"));
        }
        if delivery.sequence != message.sequence {
            let (now, then) = (delivery.sequence, message.sequence);
            return Some(format!("sequence number {now:?}, earlier {then:?}"));
        }
        None
    }

    fn duplicated(&mut self) {
        let mut ids_by_body: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for message in self.messages.by_id.values() {
            ids_by_body
                .entry(message.body)
                .or_default()
                .push(message.id);
        }
        let mut texts = Vec::new();
        for (body, ids) in ids_by_body {
            let sends = self.messages.sends_by_body.get(body).map_or(0, Vec::len);
            if ids.len() > sends.max(1) {
                texts.push(format!("{body:?} was sent {sends} times and is {ids:?}"));
            }
        }
        self.find(Rule::Duplicated, texts);
    }

    fn resurrected(&mut self) {
        let texts = self.each(|message, texts| {
            let deleted = message.deletes.iter().filter(|d| d.outcome.ok().is_some());
            let purged = self.purges_of(message);
            let Some(gone) = deleted.map(|d| d.span.returned).chain(purged).min() else {
                return;
            };
            for seen in message.seen.iter().filter(|s| s.span.invoked > gone) {
                texts.push(format!(
                    "{} gone at {gone:?}, seen {:?}",
                    message.id, seen.span
                ));
            }
        });
        self.find(Rule::Resurrected, texts);
    }

    /// When the purges returned that certainly came after the message's send.
    fn purges_of(&self, message: &Message<'_>) -> impl Iterator<Item = Duration> {
        let purges = self
            .ledger
            .purges
            .iter()
            .filter(|p| p.outcome.ok().is_some());
        let sent = message.acknowledged;
        purges
            .filter(move |p| sent.is_some_and(|s| s < p.span.invoked))
            .map(|p| p.span.returned)
    }

    fn held_twice(&mut self) {
        let texts = self.each(|message, texts| {
            for pair in message.seen.windows(2) {
                let held_until = held_at_least_until(message, &pair[0], &pair[1]);
                if pair[1].span.returned < held_until {
                    let (first, second) = (pair[0].span, pair[1].span);
                    texts.push(format!(
                        "{} received {first:?}, held until {held_until:?}, received {second:?}",
                        message.id
                    ));
                }
            }
        });
        self.find(Rule::HeldTwice, texts);
    }

    fn too_early(&mut self) {
        let texts = self.each(|message, texts| {
            let sends = self.messages.sends_of(message).iter();
            let Some(visible) = sends.map(|s| s.span.invoked + at_least(s.delay)).min() else {
                return;
            };
            for seen in message.seen.iter().filter(|s| s.span.returned < visible) {
                texts.push(format!(
                    "{} delayed to {visible:?}, {:?}",
                    message.id, seen.span
                ));
            }
        });
        self.find(Rule::TooEarly, texts);
    }

    fn receive_count(&mut self) {
        // A receive whose answer was lost may have counted, at any time after its invocation.
        let receives = self
            .ledger
            .receives
            .iter()
            .filter(|r| r.outcome == Outcome::Info);
        let mut unknown: Vec<Duration> = receives.map(|r| r.span.invoked).collect();
        unknown.sort_unstable();
        let unknown_before = |at: Duration| unknown.partition_point(|i| *i < at);

        let texts = self.each(|message, texts| {
            let mut previous: Option<&Seen<'_>> = None;
            for seen in &message.seen {
                let count = seen.delivery.receive_count;
                let before = previous.map_or(0, |p| p.delivery.receive_count);
                let skipped = (count.saturating_sub(before) as usize).saturating_sub(1);
                let backwards = previous.is_some_and(|p| seen.span.before(&p.span));
                if count <= before || backwards || skipped > unknown_before(seen.span.returned) {
                    let last = previous.map(|p| p.span);
                    texts.push(format!(
                        "{} count {before} {last:?}, then {count} {:?}",
                        message.id, seen.span
                    ));
                }
                previous = Some(seen);
            }
        });
        self.find(Rule::ReceiveCount, texts);
    }

    fn counts(&mut self) {
        let wrong = |(counted, expected): &&(u64, _)| !RangeInclusive::contains(expected, counted);
        let texts = self.ledger.counted.iter().filter(wrong);
        let texts =
            texts.map(|(counted, expected)| format!("{counted} messages, not {expected:?}"));
        self.find(Rule::Counts, texts.collect());
    }

    /// The messages of each message group, by sequence number.
    fn groups(&self) -> BTreeMap<&'a str, Vec<&Message<'a>>> {
        let mut groups: BTreeMap<&str, Vec<&Message<'_>>> = BTreeMap::new();
        for message in self.messages.by_id.values() {
            if let (Some(group), Some(_)) = (message.message_group, message.sequence) {
                groups.entry(group).or_default().push(message);
            }
        }
        groups
            .values_mut()
            .for_each(|group| group.sort_by_key(|m| m.sequence));
        groups
    }

    /// Nothing may be received while an older message of its group exists, unless that one comes
    /// before it in the same answer. This holds for leases too: what is in flight exists.
    fn group_order(&mut self) {
        let mut texts = Vec::new();
        for (name, group) in self.groups() {
            let ends: Vec<Duration> = group
                .iter()
                .map(|m| self.may_have_ended(m).unwrap_or(Duration::MAX))
                .collect();
            let last_end_before = prefix_maxima(&ends);
            for batch in batches(&group) {
                let (first, seen) = batch[0];
                if last_end_before[first] > seen.span.returned {
                    let id = group[first].id;
                    texts.push(format!(
                        "{name}: {id} passed an older message {:?}",
                        seen.span
                    ));
                }
                for pair in batch.windows(2) {
                    let ((older, _), (newer, _)) = (pair[0], pair[1]);
                    let descending = newer <= older;
                    let between = older + 1..newer.max(older + 1);
                    if descending || ends[between].iter().any(|end| *end > seen.span.returned) {
                        let (a, b) = (group[older].id, group[newer].id);
                        texts.push(format!(
                            "{name}: {a} then {b} in one answer {:?}",
                            seen.span
                        ));
                    }
                }
            }
        }
        self.find(Rule::GroupOrder, texts);
    }

    fn sequence_order(&mut self) {
        let mut texts = Vec::new();
        for (name, group) in self.groups() {
            for pair in group
                .windows(2)
                .filter(|pair| pair[0].sequence == pair[1].sequence)
            {
                texts.push(format!(
                    "{name}: {} and {} share a number",
                    pair[0].id, pair[1].id
                ));
            }
            // From the highest number down: the earliest acknowledgement above may not lie before
            // the birth of a lower number.
            let mut known_above: Option<(Duration, &str)> = None;
            for message in group.iter().rev() {
                let born = self.messages.born(message);
                if let Some((at, id)) = known_above.filter(|(at, _)| *at < born) {
                    let late = message.id;
                    texts.push(format!(
                        "{name}: {id} known at {at:?}, {late} born {born:?}"
                    ));
                }
                let known = message.acknowledged.map(|at| (at, message.id));
                known_above = known_above.into_iter().chain(known).min();
            }
        }
        self.find(Rule::SequenceOrder, texts);
    }

    fn deduplication(&mut self) {
        let mut sends_by_key: BTreeMap<(&str, Option<&str>), Vec<&Send>> = BTreeMap::new();
        for send in self
            .ledger
            .sends
            .iter()
            .filter(|s| s.outcome.may_have_effect())
        {
            let by_group = self.ledger.kind == Kind::FifoByMessageGroup;
            let group = send.message_group.as_deref().filter(|_| by_group);
            if let Some(id) = send.deduplication_id.as_deref() {
                sends_by_key.entry((id, group)).or_default().push(send);
            }
        }
        let mut ids_by_body: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for message in self.messages.by_id.values() {
            ids_by_body
                .entry(message.body)
                .or_default()
                .push(message.id);
        }
        let mut texts = Vec::new();
        for (key, sends) in sends_by_key {
            let first = sends
                .iter()
                .map(|s| s.span.invoked)
                .min()
                .unwrap_or_default();
            let last = sends
                .iter()
                .map(|s| s.span.returned)
                .max()
                .unwrap_or_default();
            if last >= first + at_least(DEDUPLICATION_WINDOW) {
                continue; // Some may be new messages; which ones depends on the order.
            }
            let bodies: BTreeSet<&str> = sends.iter().map(|s| s.body.as_str()).collect();
            let ids: BTreeSet<&&str> = bodies
                .iter()
                .filter_map(|body| ids_by_body.get(body))
                .flatten()
                .collect();
            if ids.len() > 1 {
                texts.push(format!("{key:?} became {ids:?}"));
            }
        }
        self.find(Rule::Deduplication, texts);
    }
}

/// Something that hides a message for a while.
struct Hold {
    span: Span,
    visibility_timeout: Duration,
    /// It took effect within its span; otherwise at any time after it was invoked.
    answered: bool,
}

impl Hold {
    /// Whether the later one certainly took its place before `next`.
    fn replaced_by(&self, later: &Hold, next: &Span) -> bool {
        self.answered && later.answered && self.span.before(&later.span) && later.span.before(next)
    }
}

/// Until when the message was certainly hidden from `next`, having been handed out by `held`.
///
/// The hold is that of `held` or of a change of visibility, whichever took effect last. Where that
/// is open, the shortest of them is taken.
fn held_at_least_until(message: &Message<'_>, held: &Seen<'_>, next: &Seen<'_>) -> Duration {
    let receive = Hold {
        span: held.span,
        visibility_timeout: held.visibility_timeout,
        answered: true,
    };
    let changes = message.changes.iter().map(|change| Hold {
        span: change.span,
        visibility_timeout: change.visibility_timeout,
        answered: change.outcome.ok().is_some(),
    });
    let matters = |hold: &Hold| {
        let over = hold.answered && hold.span.before(&held.span);
        !over && hold.span.invoked < next.span.returned
    };
    let holds: Vec<Hold> = std::iter::once(receive)
        .chain(changes)
        .filter(|hold| matters(hold))
        .collect();
    let replaced = |hold: &Hold| {
        holds
            .iter()
            .any(|later| hold.replaced_by(later, &next.span))
    };
    let last = holds.iter().filter(|hold| !replaced(hold));
    last.map(|hold| hold.span.invoked + at_least(hold.visibility_timeout))
        .min()
        .unwrap_or_default()
}

/// For each position, the largest value before it.
fn prefix_maxima(values: &[Duration]) -> Vec<Duration> {
    let mut largest = Duration::ZERO;
    let before = |value: &Duration| {
        let before = largest;
        largest = before.max(*value);
        before
    };
    values.iter().map(before).collect()
}

/// What each receive returned of this group: positions in the group, in the answer's order.
fn batches<'g, 'a>(group: &'g [&'g Message<'a>]) -> Vec<Vec<(usize, Seen<'a>)>> {
    let mut by_receive: BTreeMap<usize, Vec<(usize, Seen<'a>)>> = BTreeMap::new();
    for (position, message) in group.iter().enumerate() {
        for seen in &message.seen {
            by_receive
                .entry(seen.receive)
                .or_default()
                .push((position, *seen));
        }
    }
    let mut batches: Vec<_> = by_receive.into_values().collect();
    batches
        .iter_mut()
        .for_each(|batch| batch.sort_by_key(|(_, seen)| seen.place));
    batches
}
