//! Q6, Q7 and Q8: message groups of FIFO queues keep their order.

use std::collections::{BTreeMap, HashMap};

use super::maxima::Maxima;
use crate::black_box::actions::{Seen, Span};
use crate::black_box::index::Index;
use crate::black_box::message::Message;
use crate::black_box::{Rule, Verdict};

/// The messages of each message group, by sequence number.
fn groups<'i, 'h>(index: &'i Index<'h>) -> BTreeMap<(usize, &'h str), Vec<&'i Message<'h>>> {
    let mut groups: BTreeMap<(usize, &str), Vec<&Message<'_>>> = BTreeMap::new();
    for message in index.messages.iter().filter(|m| index.queues[m.queue].fifo) {
        if let (Some(group), Some(_)) = (message.group, message.sequence) {
            groups
                .entry((message.queue, group))
                .or_default()
                .push(message);
        }
    }
    for group in groups.values_mut() {
        group.sort_by_key(|message| (message.sequence, message.born));
    }
    groups
}

/// What one receive returned of one group.
struct Batch {
    operation: usize,
    span: Span,
    /// Positions in the group, in the order of the answer.
    positions: Vec<usize>,
}

/// The receives of a group, in the order of their invocation.
fn batches(group: &[&Message<'_>]) -> Vec<Batch> {
    let mut by_operation: BTreeMap<usize, Vec<(usize, usize, Span)>> = BTreeMap::new();
    for (position, message) in group.iter().enumerate() {
        let home = |seen: &&Seen<'_>| seen.queue == message.queue;
        for seen in message.deliveries().filter(home) {
            let batch = by_operation.entry(seen.operation).or_default();
            batch.push((seen.place, position, seen.span));
        }
    }
    let in_order = |(operation, mut batch): (usize, Vec<(usize, usize, Span)>)| {
        batch.sort_unstable_by_key(|(place, ..)| *place);
        Batch {
            operation,
            span: batch[0].2,
            positions: batch.iter().map(|(_, position, _)| *position).collect(),
        }
    };
    let mut batches: Vec<Batch> = by_operation.into_iter().map(in_order).collect();
    batches.sort_by_key(|batch| batch.span.invoked);
    batches
}

impl Batch {
    /// Among the messages that are older than one of the batch and not in it: the largest value, and
    /// whose it is.
    fn largest_passed(&self, values: &Maxima) -> (u64, usize) {
        let mut from = 0;
        let mut sorted = self.positions.clone();
        sorted.sort_unstable();
        let mut largest = (0, 0);
        for position in sorted {
            largest = largest.max(values.largest(from..position.max(from)));
            from = position + 1;
        }
        largest
    }

    fn is_in_order(&self) -> bool {
        self.positions.is_sorted_by(|one, next| one < next)
    }
}

/// Q6, FIFO order per group, through failover: sorted by sequence number, nothing is received before
/// the earliest possible end (delete, dead letters, purge, expiry) of an older one that is not in the
/// same answer.
///
/// Q7, exclusivity: nothing is received while an older message of the group is certainly in flight.
/// What breaks Q7 breaks Q6 too and is reported as Q7. (A *younger* one in flight forbids nothing: a
/// group delivers the longest run of its oldest visible messages, SQS-CONTRACT section 8.)
pub(in crate::black_box) fn order(index: &Index<'_>, verdict: &mut Verdict) {
    for ((queue, name), group) in groups(index) {
        let mut ends = Maxima::new(group.len());
        for (position, message) in group.iter().enumerate() {
            ends.raise(position, message.may_have_left(index), position);
        }
        let mut leases = Leases::of(&group, index);
        for batch in batches(&group) {
            leases.begin_before(batch.span.invoked);
            verdict.look(batch.positions.len() * group.len().ilog2().max(1) as usize);
            let passed_any = batch.positions != [0];
            if passed_any {
                verdict.exercise(Rule::GroupOrder);
            }
            if leases.any() {
                verdict.exercise(Rule::GroupInFlight);
            }
            let id = group[batch.positions[0]].id;
            let (until, holder) = batch.largest_passed(&leases.until);
            if until > batch.span.returned {
                let older = group[holder].id;
                let text = format!("{name}: {id} received while {older} was in flight");
                let held = leases.operation(holder);
                verdict.find(Rule::GroupInFlight, text, &[held, batch.operation]);
                continue;
            }
            let (end, older) = batch.largest_passed(&ends);
            // A queue made again may count again from below: then the older one must have been there.
            let again = !index.queues[queue].deletions.is_empty();
            let existed = group[older]
                .acknowledged
                .is_some_and(|at| at < batch.span.invoked);
            if end > batch.span.returned && (existed || !again) {
                let text = format!("{name}: {id} passed the older {}", group[older].id);
                let send = group[older]
                    .sends
                    .first()
                    .map(|s| index.sends[*s].operation);
                let evidence: Vec<usize> = send.into_iter().chain([batch.operation]).collect();
                verdict.find(Rule::GroupOrder, text, &evidence);
            } else if !batch.is_in_order() {
                let text = format!("{name}: one answer is not in order, from {id} on");
                verdict.find(Rule::GroupOrder, text, &[batch.operation]);
            }
        }
    }
}

/// The times in which messages of a group were certainly in flight, as they begin.
struct Leases {
    /// From, until, position, operation; the next one to begin last.
    waiting: Vec<(u64, u64, usize, usize)>,
    /// The latest end of those that began, by position.
    until: Maxima,
    last: HashMap<usize, (u64, usize)>,
}

impl Leases {
    fn of(group: &[&Message<'_>], index: &Index<'_>) -> Self {
        let mut waiting = Vec::new();
        for (position, message) in group.iter().enumerate() {
            for seen in message
                .seen
                .iter()
                .filter(|seen| seen.queue == message.queue)
            {
                let until = message.certainly_held_until(seen, index);
                if until > seen.span.returned {
                    waiting.push((seen.span.returned, until, position, seen.operation));
                }
            }
            for (place, change) in message.changes.iter().enumerate() {
                let until = message.certainly_changed_until(place, index);
                if until > change.span.returned {
                    waiting.push((change.span.returned, until, position, change.operation));
                }
            }
        }
        waiting.sort_unstable_by(|one, other| other.cmp(one));
        Self {
            waiting,
            until: Maxima::new(group.len()),
            last: HashMap::new(),
        }
    }

    /// Lets all begin that began before `at`.
    fn begin_before(&mut self, at: u64) {
        while let Some((from, until, position, operation)) = self.waiting.pop() {
            if from >= at {
                self.waiting.push((from, until, position, operation));
                return;
            }
            self.until.raise(position, until, position);
            let last = self.last.entry(position).or_insert((until, operation));
            *last = (*last).max((until, operation));
        }
    }

    fn any(&self) -> bool {
        !self.last.is_empty()
    }

    /// What holds the message at this position.
    fn operation(&self, position: usize) -> usize {
        self.last[&position].1
    }
}

/// Q8, sequence numbers strictly rise within a group and respect real time: `s1.r < s2.i` but
/// `seq1 >= seq2`. The entries of one batch rise in their order.
pub(in crate::black_box) fn sequence_numbers(index: &Index<'_>, verdict: &mut Verdict) {
    for ((queue, name), group) in groups(index) {
        for pair in group
            .windows(2)
            .filter(|pair| pair[0].sequence == pair[1].sequence)
        {
            let text = format!("{name}: {} and {} share a number", pair[0].id, pair[1].id);
            verdict.find(Rule::Sequence, text, &evidence(pair, index));
        }
        // From the highest number down: the earliest acknowledgement above may not lie before the
        // birth of a lower number. A queue made again may count again from below.
        let mut known_above: Option<(u64, &Message<'_>)> = None;
        for message in group.iter().rev() {
            verdict.exercise(Rule::Sequence);
            let deletions = &index.queues[queue].deletions;
            let above = known_above.filter(|(at, _)| *at < message.born);
            if let Some((_, above)) = above
                && deletions.first_possible(above.born).is_none()
            {
                let text = format!(
                    "{name}: {} is numbered below the older {}",
                    message.id, above.id
                );
                verdict.find(Rule::Sequence, text, &evidence(&[above, message], index));
            }
            if let Some(at) = message.acknowledged
                && known_above.is_none_or(|(earliest, _)| at < earliest)
            {
                known_above = Some((at, message));
            }
        }
        // Two messages of one call, each sent once: in the order of the call.
        for pair in group.windows(2) {
            if let ([one], [next]) = (pair[0].sends.as_slice(), pair[1].sends.as_slice()) {
                let sent_once = |send: usize| {
                    let content = index.content_of(&index.sends[send].entry.content);
                    index.effective_sends(content).count() == 1
                };
                let same_call = index.sends[*one].operation == index.sends[*next].operation;
                if same_call && next < one && sent_once(*one) && sent_once(*next) {
                    let text = format!("{name}: {} before {} in one call", pair[1].id, pair[0].id);
                    verdict.find(Rule::Sequence, text, &evidence(pair, index));
                }
            }
        }
    }
}

fn evidence(messages: &[&Message<'_>], index: &Index<'_>) -> Vec<usize> {
    let send = |message: &&Message<'_>| Some(index.sends[*message.sends.first()?].operation);
    messages.iter().filter_map(send).collect()
}

/// Q8, ids are unique: two sends are answered with one id only when they have one content, or one
/// deduplication id.
pub(in crate::black_box) fn unique_ids(index: &Index<'_>, verdict: &mut Verdict) {
    for message in index
        .messages
        .iter()
        .filter(|message| message.sends.len() > 1)
    {
        verdict.exercise(Rule::Sequence);
        let sends = || message.sends.iter().map(|send| &index.sends[*send]);
        let first = &index.sends[message.sends[0]];
        let id = &first.entry.deduplication_id;
        let strange = sends().find(|send| {
            let one_content = send.entry.content == first.entry.content;
            let one_id = id.is_some() && send.entry.deduplication_id == *id;
            let sent_again = index.queues[send.queue].fifo && one_content;
            !(one_id || sent_again)
        });
        if let Some(strange) = strange {
            let text = format!("{} is the id of two messages", message.id);
            let evidence = [first.operation, strange.operation];
            verdict.find(Rule::Sequence, text, &evidence);
        }
    }
}
