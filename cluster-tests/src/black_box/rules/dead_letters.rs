//! Q12: who was received too often moves, once.

use super::existence::names_and_evidence;
use crate::black_box::actions::Seen;
use crate::black_box::index::Index;
use crate::black_box::message::Message;
use crate::black_box::{Rule, Verdict};

/// Q12, dead letters: at most `maxReceiveCount` deliveries from the source, then moved exactly once;
/// never in both. A receive from the source that begins after the first receive from the dead-letter
/// queue returned breaks it, and so do two copies of one send.
pub(in crate::black_box) fn dead_letters(index: &Index<'_>, verdict: &mut Verdict) {
    for message in &index.messages {
        let Some(redrive) = &index.queues[message.queue].redrive else {
            continue;
        };
        let dead = message
            .seen
            .iter()
            .filter(|seen| seen.queue == redrive.target);
        let moved = dead.min_by_key(|seen| seen.span.returned);
        let source = || {
            message
                .deliveries()
                .filter(|seen| seen.queue == message.queue)
        };
        if moved.is_some() || source().count() >= redrive.least_count {
            verdict.exercise(Rule::DeadLetter);
        }
        let allowed = redrive.most_count;
        let too_often = source().find(|seen| seen.delivery.receive_count as usize > allowed);
        if let Some(seen) = too_often {
            let count = seen.delivery.receive_count;
            let text = format!(
                "{} delivered for the {count}th time of {allowed}",
                message.id
            );
            verdict.find(Rule::DeadLetter, text, &[seen.operation]);
        }
        let back = moved.and_then(|moved| Some((moved, came_back(source(), moved)?)));
        if let Some((moved, seen)) = back {
            let text = format!("{} is a dead letter and in its source", message.id);
            verdict.find(Rule::DeadLetter, text, &[moved.operation, seen.operation]);
        }
    }
    for (content, messages) in index.messages_of.iter().enumerate() {
        let sends = index.effective_sends(content).count();
        let is_dead = |seen: &Seen<'_>| index.queues[seen.queue].dead_letters;
        let dead = |message: &Message<'_>| message.seen.iter().any(is_dead);
        let any_dead = messages
            .iter()
            .any(|message| dead(&index.messages[*message]));
        if any_dead && sends > 0 && messages.len() > sends {
            let (ids, evidence) = names_and_evidence(messages, index);
            let text = format!("one content was sent {sends} times and is {ids:?}");
            verdict.find(Rule::DeadLetter, text, &evidence);
        }
    }
}

fn came_back<'m, 'h: 'm>(
    mut source: impl Iterator<Item = &'m Seen<'h>>,
    moved: &Seen<'_>,
) -> Option<&'m Seen<'h>> {
    source.find(|seen| moved.span.before(seen.span))
}
