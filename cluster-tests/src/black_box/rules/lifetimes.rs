//! Q13 and Q14: nothing is served before its delay or after its retention.

use crate::black_box::actions::{Seen, Sent};
use crate::black_box::index::{DELAY, Index};
use crate::black_box::message::Message;
use crate::black_box::{Rule, Verdict};

const SECOND_US: u64 = 1_000_000;

/// The part of RELIABILITY's five seconds for retention that is not in every timer's lateness.
const RETENTION_LATE_US: u64 = 4 * SECOND_US;

/// Q13, delay: no receive is over before `send.i + delay - eps`. That an idle queue shows the message
/// by `send.r + delay + 1 s` is not judged here: it holds only without faults, which a history does
/// not know.
pub(in crate::black_box) fn delay(index: &Index<'_>, verdict: &mut Verdict) {
    for message in &index.messages {
        let home = message
            .seen
            .iter()
            .filter(|seen| seen.queue == message.queue);
        let Some(seen) = home.min_by_key(|seen| seen.span.returned) else {
            continue;
        };
        let content = index.content_of(&seen.delivery.content);
        let sends = index.effective_sends(content);
        let sends = sends
            .filter(|send| send.queue == seen.queue && send.span.invoked <= seen.span.returned);
        let delays: Vec<(u64, u64)> = sends
            .map(|send| (send.span.invoked, least_delay(send, seen, index)))
            .collect();
        if delays.is_empty() || delays.iter().any(|(_, delay)| *delay == 0) {
            continue;
        }
        verdict.exercise(Rule::Delay);
        let at = seen.span.returned;
        let early = |(sent, delay): &(u64, u64)| index.timers.is_early(*sent, *delay, at);
        if delays.iter().all(early) {
            let (sent, delay) = delays[0];
            let text = format!(
                "{} sent from {sent} us on with a delay of {delay} us, received by {at} us",
                message.id
            );
            let evidence = shown(message, index, seen);
            verdict.find(Rule::Delay, text, &evidence);
        }
    }
}

/// The shortest delay that may have applied: on FIFO queues the queue's, changes of it included.
fn least_delay(send: &Sent<'_>, seen: &Seen<'_>, index: &Index<'_>) -> u64 {
    let queue = &index.queues[send.queue];
    if let Some(ms) = send.entry.delay_ms.filter(|_| !queue.fifo) {
        return ms.saturating_mul(1_000);
    }
    let until = if queue.fifo {
        seen.span.returned
    } else {
        send.span.returned
    };
    let (name, default) = DELAY;
    let numbers = queue
        .written
        .numbers(name, send.span.invoked, until, default);
    let least = numbers.and_then(|numbers| numbers.into_iter().min());
    least.unwrap_or(0).saturating_mul(SECOND_US)
}

fn shown(message: &Message<'_>, index: &Index<'_>, seen: &Seen<'_>) -> Vec<usize> {
    let send = message
        .sends
        .first()
        .map(|send| index.sends[*send].operation);
    send.into_iter().chain([seen.operation]).collect()
}

/// Q14, retention: never served after `send.r + retention + 5 s`. Dropping a message early is losing
/// it, which Q1 judges. In a dead-letter queue the clock may have started again.
pub(in crate::black_box) fn retention(index: &Index<'_>, verdict: &mut Verdict) {
    let returns = index
        .history
        .operations
        .iter()
        .map(|operation| operation.returned_us);
    let last = returns.max().unwrap_or(0);
    for message in &index.messages {
        let retention = index.queues[message.queue].most_retention;
        let Some(sent) = message.acknowledged.map(|at| at + RETENTION_LATE_US) else {
            continue;
        };
        if !index.timers.is_late(sent, retention, last) {
            continue;
        }
        verdict.exercise(Rule::Retention);
        let late = message.seen.iter().find(|seen| {
            seen.queue == message.queue && index.timers.is_late(sent, retention, seen.span.invoked)
        });
        if let Some(seen) = late {
            let text = format!(
                "{} received from {} us on, retained for {retention} us",
                message.id, seen.span.invoked
            );
            verdict.find(Rule::Retention, text, &shown(message, index, seen));
        }
    }
}
