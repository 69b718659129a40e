//! Q4 and Q5: who received a message has it for itself.

use std::collections::HashMap;

use crate::black_box::actions::Seen;
use crate::black_box::index::Index;
use crate::black_box::message::{Hold, Message};
use crate::black_box::{Rule, Verdict};

/// AWS's limit for all of one receive's visibility timeouts together.
const TOTAL_HOLD_US: u64 = 12 * 60 * 60 * 1_000_000;

/// Beyond it, something is wrong for certain.
const TOTAL_HOLD_SLACK_US: u64 = 60_000_000;

/// Q4, one holder at a time, on both kinds of queues: two receives of a message, the first over before
/// the second began, and the second was over before the first one's visibility timeout can have been,
/// and no delete or change can have shortened it. Where a change of visibility certainly set the
/// timeout last, this is Q5: the interval rule with the last applied change.
pub(in crate::black_box) fn visibility(index: &Index<'_>, verdict: &mut Verdict) {
    for message in &index.messages {
        let ended = message.may_be_ended(index);
        for pair in message.seen.windows(2) {
            let (held, next) = (&pair[0], &pair[1]);
            if next.repeated || held.queue != next.queue || ended < next.span.returned {
                continue;
            }
            let holds = message.last_holds(held, next.span, index);
            verdict.look(holds.len());
            if holds.is_empty() {
                continue;
            }
            let received = holds.iter().any(|hold| hold.operation == held.operation);
            let rule = if received {
                Rule::Visibility
            } else {
                Rule::VisibilityChange
            };
            verdict.exercise(rule);
            // Of receives that overlap either may be the first.
            let broken = all_early(&holds, next, index)
                && (held.span.before(next.span)
                    || all_early(&message.last_holds(next, held.span, index), held, index));
            if broken {
                let hold = holds.iter().max_by_key(|hold| hold.span.invoked);
                let evidence = hold.map_or(held.operation, |hold| hold.operation);
                let text = format!(
                    "{} was hidden from {:?} us on for {:?} us and received by {} us",
                    message.id,
                    hold.map(|hold| hold.span.invoked),
                    hold.map(|hold| hold.timeout),
                    next.span.returned
                );
                let mut evidence = vec![held.operation, evidence, next.operation];
                evidence.dedup();
                verdict.find(rule, text, &evidence);
            }
        }
    }
}

/// Whether none of the timeouts can have been over.
fn all_early(holds: &[Hold], next: &Seen<'_>, index: &Index<'_>) -> bool {
    let at = next.span.returned;
    let early = |hold: &Hold| index.timers.is_early(hold.span.invoked, hold.timeout, at);
    !holds.is_empty() && holds.iter().all(early)
}

/// Q5 on FIFO queues: a handle that was certainly replaced by a later receive's neither re-times nor
/// deletes. A delete of what is gone succeeds whatever the handle, so only messages that certainly
/// existed count.
pub(in crate::black_box) fn stale_handles(index: &Index<'_>, verdict: &mut Verdict) {
    for message in index.messages.iter().filter(|m| index.queues[m.queue].fifo) {
        let replaced = Replaced::of(message);
        for change in message.changes.iter().filter(|change| change.is_certain()) {
            let by = replaced.before(change.entry.receipt, change.span.invoked, verdict);
            if let Some(by) = by {
                let text = format!("{}: a stale handle changed the visibility", message.id);
                verdict.find(Rule::VisibilityChange, text, &[by, change.operation]);
            }
        }
        for (place, delete) in message.deletes.iter().enumerate() {
            let Some(by) = replaced.before(delete.entry.receipt, delete.span.invoked, verdict)
            else {
                continue;
            };
            let other = message.deletes[usize::from(place == 0)..].first();
            let deleted = other.map_or(u64::MAX, |other| other.span.invoked);
            let queue = &index.queues[message.queue];
            let ending = queue.endings.first_possible(message.born);
            let ended = ending.map_or(u64::MAX, |ending| ending.invoked);
            let expired = index.timers.not_before(message.born, queue.least_retention);
            let existed = deleted.min(ended).min(expired) > delete.span.returned;
            if delete.is_certain() && existed && queue.redrive.is_none() {
                let text = format!("{}: a stale handle deleted it", message.id);
                verdict.find(Rule::VisibilityChange, text, &[by, delete.operation]);
            }
        }
    }
}

/// When the handles of a message were replaced by later ones.
struct Replaced<'m, 'h> {
    seen: &'m [Seen<'h>],
    by_receipt: HashMap<u64, usize>,
    /// For each delivery, which of it and the later ones returned first.
    first_returned: Vec<usize>,
}

impl<'m, 'h> Replaced<'m, 'h> {
    fn of(message: &'m Message<'h>) -> Self {
        let seen = message.seen.as_slice();
        let receipts = seen.iter().enumerate();
        let by_receipt = receipts
            .map(|(place, seen)| (seen.delivery.receipt, place))
            .collect();
        let mut first_returned: Vec<usize> = (0..seen.len()).collect();
        for place in (1..seen.len()).rev() {
            let next = first_returned[place];
            if seen[next].span.returned < seen[place - 1].span.returned {
                first_returned[place - 1] = next;
            }
        }
        Self {
            seen,
            by_receipt,
            first_returned,
        }
    }

    /// The receive that certainly replaced this handle before `at`.
    fn before(&self, receipt: u64, at: u64, verdict: &mut Verdict) -> Option<usize> {
        let held = &self.seen[*self.by_receipt.get(&receipt)?];
        let later = self
            .seen
            .partition_point(|s| s.span.invoked <= held.span.returned);
        let next = &self.seen[*self.first_returned.get(later)?];
        verdict.exercise(Rule::VisibilityChange);
        (next.span.returned < at).then_some(next.operation)
    }
}

/// Q5, the total hold is at most 12 hours from the receive on: a change beyond that is refused.
pub(in crate::black_box) fn total_hold(index: &Index<'_>, verdict: &mut Verdict) {
    for message in index.messages.iter().filter(|m| !m.changes.is_empty()) {
        let mut received = HashMap::new();
        for seen in &message.seen {
            let last = received.entry(seen.delivery.receipt).or_insert(seen);
            if seen.span.returned > last.span.returned {
                *last = seen;
            }
        }
        for change in message.changes.iter().filter(|change| change.is_certain()) {
            let Some(seen) = received.get(&change.entry.receipt) else {
                continue;
            };
            verdict.look(1);
            let until = change.span.invoked.saturating_add(change.timeout());
            let latest = seen.span.returned + TOTAL_HOLD_US + TOTAL_HOLD_SLACK_US;
            if change.timeout() > 0 && until > latest {
                let text = format!("{} is held for more than 12 hours", message.id);
                let evidence = [seen.operation, change.operation];
                verdict.find(Rule::VisibilityChange, text, &evidence);
            }
        }
    }
}
