//! Q1, Q2 and Q3: what was sent comes out, nothing else does, and not after its delete.

use crate::black_box::actions::{Seen, Sent, Span};
use crate::black_box::index::Index;
use crate::black_box::message::Message;
use crate::black_box::{Rule, Verdict};

/// Q1, no acknowledged send lost: the send is ok, no delete, purge or delete of the queue was ever
/// attempted, its retention is not over, and it is absent from the final full drain of its queue and
/// of that queue's dead-letter queue. After a purge that returned before the send this is Q15's.
pub(in crate::black_box) fn acknowledged_sends(index: &Index<'_>, verdict: &mut Verdict) {
    for message in &index.messages {
        let Some(drain) = must_be_drained(message, index) else {
            continue;
        };
        let purges = &index.queues[message.queue].purges;
        let purged_before = purges.one_certainly_before(message.born);
        let rule = if purged_before {
            Rule::Purge
        } else {
            Rule::AcknowledgedSend
        };
        verdict.exercise(rule);
        if is_lost(message, drain) {
            let send = &index.sends[message.sends[0]];
            let label = &send.entry.content.label;
            let counts = message.seen.iter().map(|seen| seen.delivery.receive_count);
            let text = format!(
                "{} {label:?}, acknowledged at {} us, is lost; received {} times before",
                message.id,
                send.span.returned,
                counts.max().unwrap_or(0)
            );
            let seen = message.seen.last().map(|seen| seen.operation);
            let evidence: Vec<usize> = [send.operation].into_iter().chain(seen).collect();
            verdict.find(rule, text, &evidence);
        }
    }
}

/// The drain in which an acknowledged message must come out unless it was deleted.
pub(super) fn must_be_drained(message: &Message<'_>, index: &Index<'_>) -> Option<Span> {
    let queue = &index.queues[message.queue];
    let drain = *queue.drained.last()?;
    let everywhere = queue.redrive.as_ref().is_none_or(|redrive| {
        let target = &index.queues[redrive.target];
        let drained = target.drained.last();
        drained.is_some_and(|drained| drained.invoked >= drain.invoked) && target.endings.is_empty()
    });
    let sent = message.acknowledged.is_some_and(|at| at < drain.invoked);
    let ending = queue.endings.first_possible(message.born);
    let kept = ending.is_none_or(|ending| ending.invoked > drain.returned)
        && index.timers.not_before(message.born, queue.least_retention) > drain.returned;
    (everywhere && sent && kept).then_some(drain)
}

/// Whether a message that must come out of this drain did not.
pub(super) fn is_lost(message: &Message<'_>, drain: Span) -> bool {
    message.deletes.is_empty() && !seen_in(message, drain)
}

/// Whether a message came out while the queue was drained.
pub(super) fn seen_in(message: &Message<'_>, drain: Span) -> bool {
    message
        .seen
        .iter()
        .any(|seen| seen.span.returned >= drain.invoked)
}

/// Q2, no phantom: a received id has a send attempt that was not refused and not begun after the
/// receive; its content, message group, sequence number and `SentTimestamp` are those of the send and
/// never change; it is in the queue that it was sent to; and one send makes one message.
pub(in crate::black_box) fn phantoms(index: &Index<'_>, verdict: &mut Verdict) {
    for message in &index.messages {
        let first = message.seen.first();
        for seen in &message.seen {
            verdict.exercise(Rule::Phantom);
            let why = why_phantom(message, seen, index).or_else(|| {
                let first = first?;
                let same = first.delivery.content == seen.delivery.content
                    && first.delivery.sent_ms == seen.delivery.sent_ms;
                (!same).then(|| "it was another one before".to_owned())
            });
            if let Some(why) = why {
                let text = format!("{} {:?}: {why}", message.id, seen.delivery.content.label);
                verdict.find(Rule::Phantom, text, &[seen.operation]);
                break;
            }
        }
    }
    for (content, messages) in index.messages_of.iter().enumerate() {
        duplicates(content, messages, index, verdict);
    }
}

fn why_phantom(message: &Message<'_>, seen: &Seen<'_>, index: &Index<'_>) -> Option<String> {
    let content = index.content_of(&seen.delivery.content);
    let all = &index.sends_of[content];
    if all.is_empty() {
        return Some("nobody sent it".to_owned());
    }
    let tenant = index.queues[seen.queue].tenant;
    let of_tenant = |send: &&Sent<'_>| index.queues[send.queue].tenant == tenant;
    let sends: Vec<&Sent<'_>> = index.effective_sends(content).collect();
    if sends.is_empty() {
        return Some("its send was refused".to_owned());
    }
    if !sends.iter().any(of_tenant) {
        return None; // Another tenant's: Q17.
    }
    if sends
        .iter()
        .all(|send| send.span.invoked > seen.span.returned)
    {
        return Some("it was received before it was sent".to_owned());
    }
    let leads_here = |send: &&&Sent<'_>| {
        let redrive = index.queues[send.queue].redrive.as_ref();
        send.queue == seen.queue || redrive.is_some_and(|redrive| redrive.target == seen.queue)
    };
    let here: Vec<&&Sent<'_>> = sends.iter().filter(leads_here).collect();
    if here.is_empty() {
        return Some("it was sent to another queue".to_owned());
    }
    if here
        .iter()
        .all(|send| send.entry.group != seen.delivery.group)
    {
        return Some(format!("message group {:?}", seen.delivery.group));
    }
    let fitting = |send: &usize| may_be_of(&index.sends[*send], content, &sends, index);
    if !message.sends.is_empty() && !message.sends.iter().any(fitting) {
        return Some("its send was answered with another id".to_owned());
    }
    if message.sequence != seen.delivery.sequence {
        let (now, then) = (seen.delivery.sequence, message.sequence);
        return Some(format!("sequence number {now:?}, earlier {then:?}"));
    }
    None
}

/// Whether a send that was told a message's id may have been for this content: sends with one
/// deduplication id are told the id of the first.
fn may_be_of(send: &Sent<'_>, content: usize, sends: &[&Sent<'_>], index: &Index<'_>) -> bool {
    let id = send.entry.deduplication_id.as_ref();
    index.content_of(&send.entry.content) == content
        || id.is_some()
            && sends
                .iter()
                .any(|s| s.entry.deduplication_id.as_ref() == id)
}

/// On standard queues: deduplication is Q9's, copies in dead-letter queues are Q12's.
fn duplicates(content: usize, messages: &[usize], index: &Index<'_>, verdict: &mut Verdict) {
    let sends = index.effective_sends(content).count();
    let dead = |seen: &Seen<'_>| index.queues[seen.queue].dead_letters;
    let is_elsewhere = |message: &usize| {
        let message = &index.messages[*message];
        index.queues[message.queue].fifo || message.seen.iter().any(dead)
    };
    if sends == 0 || messages.len() <= sends || messages.iter().any(is_elsewhere) {
        return;
    }
    let (ids, evidence) = names_and_evidence(messages, index);
    let text = format!("one content was sent {sends} times and is {ids:?}");
    verdict.find(Rule::Phantom, text, &evidence);
}

/// The messages' ids, and the operations that showed them.
pub(super) fn names_and_evidence<'i>(
    messages: &[usize],
    index: &'i Index<'_>,
) -> (Vec<&'i str>, Vec<usize>) {
    let messages = messages.iter().map(|message| &index.messages[*message]);
    let shown = |message: &Message<'_>| {
        let send = message
            .sends
            .first()
            .map(|send| index.sends[*send].operation);
        send.or(message.seen.first().map(|seen| seen.operation))
    };
    let ids = messages.clone().map(|message| message.id).collect();
    (ids, messages.filter_map(shown).collect())
}

/// Q3, delete is final from its return, on both kinds of queues: a receive that began after an
/// acknowledged delete returned does not hand the message out. Any handle of the message deletes on a
/// standard queue (DESIGN section 4); what a FIFO queue acknowledges was for the newest.
pub(in crate::black_box) fn deletes(index: &Index<'_>, verdict: &mut Verdict) {
    for message in &index.messages {
        if message.gone(message.queue).is_some() {
            verdict.exercise(Rule::Delete);
        }
        let back = message.seen.iter().find_map(|seen| {
            let gone = message.gone(seen.queue)?;
            gone.span.before(seen.span).then_some((gone, seen))
        });
        if let Some((gone, seen)) = back {
            let text = format!(
                "{} deleted at {} us, received from {} us on",
                message.id, gone.span.returned, seen.span.invoked
            );
            verdict.find(Rule::Delete, text, &[gone.operation, seen.operation]);
        }
    }
}
