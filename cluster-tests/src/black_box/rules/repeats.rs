//! Q9 and Q10: what a client repeats under one id happens once.

use std::collections::{BTreeMap, HashMap};

use crate::black_box::actions::{Seen, Sent};
use crate::black_box::index::Index;
use crate::black_box::message::Message;
use crate::black_box::{Rule, Verdict};
use crate::history::Action;

/// Deduplication ids and receive attempts are remembered this long.
const WINDOW_US: u64 = 300_000_000;

/// One message that a deduplication id became.
#[derive(Debug, Clone, Copy)]
struct Made<'i, 'h> {
    message: &'i Message<'h>,
    /// It was accepted between these two.
    earliest: u64,
    latest: u64,
}

/// Q9, deduplication for five minutes, through failover, snapshot and the delete of the first copy:
/// sends with one deduplication id (in the queue, or in the group) that were accepted within five
/// minutes are one message; one that begins after five minutes is a new one. A purge and the queue's
/// delete forget.
pub(in crate::black_box) fn deduplication(index: &Index<'_>, verdict: &mut Verdict) {
    let mut by_key: BTreeMap<(usize, Option<&str>, &str), Vec<&Sent<'_>>> = BTreeMap::new();
    for send in index.sends.iter().filter(|send| send.may_have_effect()) {
        let queue = &index.queues[send.queue];
        let group = send
            .entry
            .group
            .as_deref()
            .filter(|_| queue.deduplicates_by_group);
        if let Some(id) = send
            .entry
            .deduplication_id
            .as_deref()
            .filter(|_| queue.fifo)
        {
            by_key
                .entry((send.queue, group, id))
                .or_default()
                .push(send);
        }
    }
    for ((queue, _, id), sends) in by_key {
        if sends.len() > 1 {
            verdict.exercise(Rule::Deduplication);
        }
        verdict.look(sends.len());
        let mut made = made_by(&sends, index);
        made.sort_by_key(|made| made.latest);
        for pair in made.windows(2) {
            let earliest = pair[0].earliest.min(pair[1].earliest);
            let latest = pair[1].latest;
            let forgotten = index.queues[queue].endings.first_possible(earliest);
            let remembered = forgotten.is_none_or(|ending| ending.invoked > latest);
            if remembered && index.timers.is_early(earliest, WINDOW_US, latest) {
                let (one, other) = (pair[0].message, pair[1].message);
                let text = format!("{id:?} became {} and {}", one.id, other.id);
                let evidence: Vec<usize> = sends.iter().map(|send| send.operation).collect();
                verdict.find(Rule::Deduplication, text, &evidence);
            }
        }
        for made in &made {
            let old = |send: &&&Sent<'_>| {
                send.message_id() == Some(made.message.id)
                    && index
                        .timers
                        .is_late(made.latest, WINDOW_US, send.span.invoked)
            };
            if let Some(send) = sends.iter().find(old) {
                let text = format!("{id:?} is {} again after five minutes", made.message.id);
                verdict.find(Rule::Deduplication, text, &[send.operation]);
            }
        }
    }
}

/// The messages that these sends of one deduplication id became.
fn made_by<'i, 'h>(sends: &[&'i Sent<'h>], index: &'i Index<'h>) -> Vec<Made<'i, 'h>> {
    let uncertain = sends.iter().filter(|send| send.entry.outcome.is_info());
    let uncertain = uncertain.map(|send| send.span.invoked).min();
    let mut made: BTreeMap<&str, Made<'i, 'h>> = BTreeMap::new();
    for send in sends {
        let content = index.content_of(&send.entry.content);
        let answered = send.message_id().and_then(|id| index.message_ids.get(id));
        let seen = index.messages_of[content]
            .iter()
            .filter(|m| index.messages[**m].sends.is_empty());
        for place in answered.into_iter().chain(seen) {
            let message = &index.messages[*place];
            let first_seen = message.seen.iter().map(|seen| seen.span.returned).min();
            let latest = message.acknowledged.into_iter().chain(first_seen).min();
            let made = made.entry(message.id).or_insert(Made {
                message,
                earliest: u64::MAX,
                latest: latest.unwrap_or(u64::MAX),
            });
            made.earliest = made.earliest.min(send.span.invoked);
        }
    }
    let mut made: Vec<Made<'_, '_>> = made.into_values().collect();
    for made in &mut made {
        let uncertain = uncertain.filter(|at| *at < made.latest);
        made.earliest = made.earliest.min(uncertain.unwrap_or(u64::MAX));
    }
    made
}

/// What one receive got, in the order of its answer.
type Got<'i, 'h> = Vec<(&'i Message<'h>, &'i Seen<'h>)>;

/// Q10, `ReceiveRequestAttemptId` on FIFO queues: asked again within five minutes, while all of what
/// it got is certainly as the first attempt left it, a receive gets the same messages under the same
/// handles.
pub(in crate::black_box) fn receive_attempts(index: &Index<'_>, verdict: &mut Verdict) {
    let mut attempts: BTreeMap<(usize, &str), BTreeMap<usize, Got<'_, '_>>> = BTreeMap::new();
    for message in index.messages.iter().filter(|m| index.queues[m.queue].fifo) {
        for seen in &message.seen {
            if let Some(attempt) = seen.attempt {
                let receives = attempts.entry((seen.queue, attempt)).or_default();
                receives
                    .entry(seen.operation)
                    .or_default()
                    .push((message, seen));
            }
        }
    }
    let begun = first_invocations(index);
    for (key, receives) in attempts {
        // One without an answer may have set the timeouts anew.
        if index.queues[key.0].uncertain_attempts.contains(key.1) {
            continue;
        }
        let mut receives: Vec<_> = receives.into_values().collect();
        for receive in &mut receives {
            receive.sort_by_key(|(_, seen)| seen.place);
        }
        receives.sort_by_key(|receive| receive[0].1.span.invoked);
        let begun = begun[&key];
        for pair in receives.windows(2) {
            let (first, again) = (&pair[0], &pair[1]);
            let (one, next) = (first[0].1, again[0].1);
            let held = |(message, seen): &(&Message<'_>, &Seen<'_>)| {
                message.held_until_repeated(seen, index) > next.span.returned
            };
            let within = index.timers.is_early(begun, WINDOW_US, next.span.returned);
            if !one.span.before(next.span) || !within || !first.iter().all(held) {
                continue;
            }
            verdict.exercise(Rule::ReceiveAttempt);
            let got = |receive: &[(&Message<'_>, &Seen<'_>)]| -> Vec<(String, u64)> {
                let seen = receive.iter();
                seen.map(|(m, seen)| (m.id.to_owned(), seen.delivery.receipt))
                    .collect()
            };
            if got(first) != got(again) {
                let text = format!("attempt {:?} got something else when repeated", key.1);
                let evidence = [one.operation, next.operation];
                verdict.find(Rule::ReceiveAttempt, text, &evidence);
            }
        }
    }
}

/// When each attempt id was used first.
fn first_invocations<'h>(index: &Index<'h>) -> HashMap<(usize, &'h str), u64> {
    let mut first = HashMap::new();
    for operation in &index.history.operations {
        if let Action::Receive(receive) = &operation.action
            && let Some(attempt) = receive.attempt_id.as_deref()
        {
            let key = (index.queue_of(operation), attempt);
            let at = first.entry(key).or_insert(operation.invoked_us);
            *at = operation.invoked_us.min(*at);
        }
    }
    first
}
