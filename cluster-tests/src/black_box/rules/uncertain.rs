//! Q19: what has no answer takes effect soon or never.
//!
//! An operation without an answer takes effect within 60 s of its invocation or never: its deadline is
//! in the log entry and checked when that is applied. The other rules let it take effect at any time,
//! so what is found here is found nowhere else.

use super::existence::{must_be_drained, seen_in};
use crate::black_box::actions::Sent;
use crate::black_box::index::Index;
use crate::black_box::{Rule, Verdict};

const DEADLINE_US: u64 = 60_000_000;

/// Whether the deadline of what was invoked then was certainly over.
fn is_over(index: &Index<'_>, invoked: u64, at: u64) -> bool {
    index.timers.is_late(invoked, DEADLINE_US, at)
}

/// Q19 for sends: after its deadline the queue was drained to nothing, and later the message came.
pub(in crate::black_box) fn late_sends(index: &Index<'_>, verdict: &mut Verdict) {
    let late = |send: &&Sent<'_>, at: u64| {
        send.entry.outcome.is_info() && is_over(index, send.span.invoked, at)
    };
    for (content, messages) in index.messages_of.iter().enumerate() {
        let sends: Vec<&Sent<'_>> = index.effective_sends(content).collect();
        let Some(first) = sends.first() else {
            continue;
        };
        let drained = index.queues[first.queue].drained.iter();
        let drained = drained.filter(|drain| sends.iter().all(|send| late(send, drain.returned)));
        let Some(drain) = drained.min_by_key(|drain| drain.returned) else {
            continue;
        };
        verdict.exercise(Rule::Uncertain);
        let mut seen = messages
            .iter()
            .flat_map(|message| &index.messages[*message].seen);
        let after =
            seen.find(|seen| seen.queue == first.queue && seen.span.invoked > drain.returned);
        if let Some(seen) = after {
            let text = format!(
                "{} was sent from {} us on without an answer and came after the drain",
                seen.delivery.message_id, first.span.invoked
            );
            verdict.find(Rule::Uncertain, text, &[first.operation, seen.operation]);
        }
    }
}

/// Q19 for deletes: a message that was still received after the deadline of its only deletes is then
/// missing from the final drain.
pub(in crate::black_box) fn late_deletes(index: &Index<'_>, verdict: &mut Verdict) {
    for message in index
        .messages
        .iter()
        .filter(|message| !message.deletes.is_empty())
    {
        let Some(drain) = must_be_drained(message, index) else {
            continue;
        };
        let survived = message.seen.iter().find(|seen| {
            let over = |invoked: u64| is_over(index, invoked, seen.span.invoked);
            message
                .deletes
                .iter()
                .all(|d| !d.is_certain() && over(d.span.invoked))
        });
        let Some(survived) = survived else {
            continue;
        };
        verdict.exercise(Rule::Uncertain);
        if !seen_in(message, drain) {
            let text = format!("{} outlived its deletes' deadline and is gone", message.id);
            let delete = message.deletes[0].operation;
            verdict.find(Rule::Uncertain, text, &[delete, survived.operation]);
        }
    }
}

/// Q19 for receives: between two deliveries that follow each other, a receive count was taken by a
/// receive whose deadline was over before the first of them.
pub(in crate::black_box) fn late_receives(index: &Index<'_>, verdict: &mut Verdict) {
    for message in &index.messages {
        let receives = &index.queues[message.queue].uncertain_receives;
        let home: Vec<_> = message
            .deliveries()
            .filter(|s| s.queue == message.queue)
            .collect();
        for pair in home.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            let (before, after) = (one.delivery.receive_count, next.delivery.receive_count);
            let missed = after.saturating_sub(before).saturating_sub(1) as usize;
            if missed == 0 {
                continue;
            }
            verdict.exercise(Rule::Uncertain);
            let begun = receives.partition_point(|at| *at < next.span.returned);
            let over = receives.partition_point(|at| is_over(index, *at, one.span.invoked));
            // Without enough receives at all, the count itself is wrong: Q11.
            if begun >= missed && begun.saturating_sub(over) < missed {
                let text = format!(
                    "{} went from count {before} to {after} by receives of more than a minute ago",
                    message.id
                );
                let evidence = [one.operation, next.operation];
                verdict.find(Rule::Uncertain, text, &evidence);
            }
        }
    }
}
