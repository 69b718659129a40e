//! Q11 and Q20: the queue counts right.

use std::collections::HashSet;

use super::existence::{is_lost, must_be_drained};
use crate::black_box::actions::Seen;
use crate::black_box::index::Index;
use crate::black_box::message::Message;
use crate::black_box::{Rule, Verdict};
use crate::history::{Action, Attributes, Operation};

/// The counts that together are all messages of a queue.
const COUNTS: [&str; 3] = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
];

/// Q11, the receive count is exact, 1, 2, 3 and so on for each message: it never repeats, never falls
/// in the order of real time, and misses no more numbers than receives without an answer can have
/// taken.
pub(in crate::black_box) fn receive_counts(index: &Index<'_>, verdict: &mut Verdict) {
    for message in &index.messages {
        let mut seen: Vec<&Seen<'_>> = message.deliveries().collect();
        seen.sort_by_key(|seen| (seen.delivery.receive_count, seen.span.invoked));
        let mut latest: Option<&Seen<'_>> = None;
        for (place, one) in seen.iter().enumerate() {
            verdict.exercise(Rule::ReceiveCount);
            let count = one.delivery.receive_count;
            let before = place.checked_sub(1).map(|before| seen[before]);
            let repeated = before.filter(|b| b.delivery.receive_count == count);
            let fell = latest.filter(|latest| one.span.before(latest.span));
            let missed = (count as usize).saturating_sub(place + 1);
            let skipped = missed > takers(message, one, index);
            if let Some(other) = repeated.or(fell) {
                let text = format!(
                    "{} has count {count} and {} at another time",
                    message.id, other.delivery.receive_count
                );
                let evidence = [other.operation, one.operation];
                verdict.find(Rule::ReceiveCount, text, &evidence);
                break;
            }
            if skipped || count == 0 {
                let text = format!(
                    "{} has count {count} at its receive {}",
                    message.id,
                    place + 1
                );
                verdict.find(Rule::ReceiveCount, text, &[one.operation]);
                break;
            }
            if latest.is_none_or(|latest| latest.span.invoked < one.span.invoked) {
                latest = Some(one);
            }
        }
    }
}

/// How many numbers may have been taken by what no client saw: receives without an answer, and the
/// receive that moved it to the dead-letter queue.
fn takers(message: &Message<'_>, seen: &Seen<'_>, index: &Index<'_>) -> usize {
    let uncertain = |queue: usize| {
        let receives = &index.queues[queue].uncertain_receives;
        receives.partition_point(|invoked| *invoked < seen.span.returned)
    };
    let moved = seen.queue != message.queue;
    let elsewhere = if moved { uncertain(seen.queue) + 1 } else { 0 };
    uncertain(message.queue) + elsewhere
}

/// Q20, the counts are exact when quiescent: their sum, asked for while no other call runs, is the
/// number of messages. Sends and deletes without an answer leave a range. Not for queues with dead
/// letters, where a receive moves messages.
pub(in crate::black_box) fn quiescent_counts(index: &Index<'_>, verdict: &mut Verdict) {
    let asked = asked(index);
    for (place, queue) in index.queues.iter().enumerate() {
        let here: Vec<_> = asked.iter().filter(|(at, ..)| *at == place).collect();
        if here.is_empty()
            || !queue.written.created
            || queue.redrive.is_some()
            || queue.dead_letters
        {
            continue;
        }
        let quiet = Quiet::of(index, place);
        let population = Population::of(index, place);
        for (_, operation_place, operation, counted) in here {
            let (from, until) = (operation.invoked_us, operation.returned_us);
            if !quiet.is_between(from, until) {
                continue;
            }
            verdict.exercise(Rule::Counts);
            let (least, most) = population.between(from, until);
            if *counted < least || *counted > most {
                let text = format!("{} counts {counted}, not {least} to {most}", queue.name);
                verdict.find(Rule::Counts, text, &[*operation_place]);
            }
        }
    }
}

/// Each time a queue was asked for its counts: queue, place, operation and their sum.
fn asked<'h>(index: &Index<'h>) -> Vec<(usize, usize, &'h Operation, u64)> {
    let sum = |attributes: &Attributes| {
        let number = |name: &&str| attributes.get(*name)?.parse::<u64>().ok();
        COUNTS.iter().map(number).sum::<Option<u64>>()
    };
    let operations = index.history.operations.iter().enumerate();
    let asked = operations.filter_map(|(place, operation)| match &operation.action {
        Action::GetAttributes { outcome } => {
            let sum = sum(outcome.ok()?)?;
            Some((index.queue_of(operation), place, operation, sum))
        }
        _ => None,
    });
    asked.collect()
}

/// When nothing ran.
struct Quiet {
    invoked: Vec<u64>,
    /// For each, the latest return of it and those before it.
    returned: Vec<u64>,
}

impl Quiet {
    fn of(index: &Index<'_>, queue: usize) -> Self {
        let changes = |operation: &&Operation| {
            let reads = matches!(
                operation.action,
                Action::GetAttributes { .. } | Action::ListQueues { .. }
            );
            !reads && index.queue_of(operation) == queue
        };
        let operations = index.history.operations.iter().filter(changes);
        let mut spans: Vec<(u64, u64)> =
            operations.map(|o| (o.invoked_us, o.returned_us)).collect();
        spans.sort_unstable();
        let mut latest = 0;
        let returned = spans.iter().map(|(_, returned)| {
            latest = latest.max(*returned);
            latest
        });
        Self {
            returned: returned.collect(),
            invoked: spans.iter().map(|(invoked, _)| *invoked).collect(),
        }
    }

    fn is_between(&self, from: u64, until: u64) -> bool {
        let begun = self.invoked.partition_point(|invoked| *invoked <= until);
        begun == 0 || self.returned[begun - 1] < from
    }
}

/// How many messages a queue may have had, by the instants at which the answer changes.
struct Population {
    /// From when on a message is certainly there, and until when.
    surely_from: Vec<u64>,
    surely_until: Vec<u64>,
    /// From when on a message may be there, and from when on it is certainly gone.
    maybe_from: Vec<u64>,
    gone_from: Vec<u64>,
}

impl Population {
    fn of(index: &Index<'_>, queue: usize) -> Self {
        let mut population = Self {
            surely_from: Vec::new(),
            surely_until: Vec::new(),
            maybe_from: Vec::new(),
            gone_from: Vec::new(),
        };
        let mut known = HashSet::new();
        for message in index.messages.iter().filter(|m| m.queue == queue) {
            known.insert(message.content);
            population.add(message, index);
        }
        // Each content that was sent without an answer and never seen may be a message.
        for send in index.sends.iter().filter(|send| send.queue == queue) {
            let content = index.content_of(&send.entry.content);
            if send.entry.outcome.is_info() && known.insert(content) {
                population.maybe_from.push(send.span.invoked);
            }
        }
        for instants in [
            &mut population.surely_from,
            &mut population.surely_until,
            &mut population.maybe_from,
            &mut population.gone_from,
        ] {
            instants.sort_unstable();
        }
        population
    }

    fn add(&mut self, message: &Message<'_>, index: &Index<'_>) {
        let seen = message.seen.iter().map(|seen| seen.span.returned).min();
        let known = message.acknowledged.into_iter().chain(seen).min();
        let left = message.may_have_left(index);
        // What is lost has been found already, and is counted either way.
        let lost = must_be_drained(message, index).is_some_and(|drain| is_lost(message, drain));
        if let Some(known) = known.filter(|known| !lost && *known < left) {
            self.surely_from.push(known);
            self.surely_until.push(left);
        }
        self.maybe_from.push(message.born);
        let deleted = message
            .gone(message.queue)
            .map(|delete| delete.span.returned);
        let endings = &index.queues[message.queue].endings;
        let ended = known.and_then(|known| endings.first_certain_after(known));
        let ended = ended.map(|ending| ending.returned);
        self.gone_from
            .extend(deleted.into_iter().chain(ended).min());
    }

    /// The least and the most that there may be all the time between two instants.
    fn between(&self, from: u64, until: u64) -> (u64, u64) {
        let up_to = |instants: &[u64], at: u64| instants.partition_point(|i| *i <= at) as u64;
        let surely =
            up_to(&self.surely_from, from).saturating_sub(up_to(&self.surely_until, until));
        let most = up_to(&self.maybe_from, until).saturating_sub(up_to(&self.gone_from, from));
        (surely, most)
    }
}
