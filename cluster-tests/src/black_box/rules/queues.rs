//! Q15, Q16 and Q17: purges, queues and tenants.

use crate::black_box::endings::{Ending, Endings};
use crate::black_box::index::{Index, Queue};
use crate::black_box::{Rule, Verdict};
use crate::history::{Action, Attributes};

/// Attributes that are read as they were written.
const PLAIN_ATTRIBUTES: [&str; 5] = [
    "VisibilityTimeout",
    "DelaySeconds",
    "MessageRetentionPeriod",
    "MaximumMessageSize",
    "ReceiveMessageWaitTimeSeconds",
];

/// Q15, a purge is one point in time: what was acknowledged before it is not received after it
/// returned. (That what is sent after it stays is judged where losses are.)
pub(in crate::black_box) fn purges(index: &Index<'_>, verdict: &mut Verdict) {
    come_back(Rule::Purge, |queue| &queue.purges, index, verdict);
}

/// Q16, a queue that is created again starts empty: no message of an older incarnation is received.
pub(in crate::black_box) fn deletions(index: &Index<'_>, verdict: &mut Verdict) {
    come_back(Rule::Queue, |queue| &queue.deletions, index, verdict);
}

/// Messages that certainly were there when all ended, and are received after that.
fn come_back(
    rule: Rule,
    of: impl for<'q> Fn(&'q Queue<'_>) -> &'q Endings,
    index: &Index<'_>,
    verdict: &mut Verdict,
) {
    for message in &index.messages {
        let Some(sent) = message.acknowledged else {
            continue;
        };
        let Some(ending) = of(&index.queues[message.queue]).first_certain_after(sent) else {
            continue;
        };
        verdict.exercise(rule);
        // A dead letter outlives its source.
        let back = message
            .seen
            .iter()
            .find(|seen| seen.queue == message.queue && seen.span.invoked > ending.returned);
        if let Some(seen) = back {
            let text = format!(
                "{} ended with all others by {} us, received from {} us on",
                message.id, ending.returned, seen.span.invoked
            );
            verdict.find(rule, text, &[ending.operation, seen.operation]);
        }
    }
}

/// Q16, attributes are linearizable: a read gives what may have been written last at that time; and a
/// queue that was deleted has none.
pub(in crate::black_box) fn attributes(index: &Index<'_>, verdict: &mut Verdict) {
    for (place, operation) in index.history.operations.iter().enumerate() {
        let Action::GetAttributes { outcome } = &operation.action else {
            continue;
        };
        let Some(read) = outcome.ok() else {
            continue;
        };
        let queue = &index.queues[index.queue_of(operation)];
        let (from, until) = (operation.invoked_us, operation.returned_us);
        if let Some(deletion) = certainly_deleted(queue, from) {
            verdict.exercise(Rule::Queue);
            let text = format!("{} answers after its delete", queue.name);
            verdict.find(Rule::Queue, text, &[deletion.operation, place]);
        }
        for name in PLAIN_ATTRIBUTES
            .iter()
            .filter(|name| queue.written.is_written(name))
        {
            if let Some(text) = misread(name, read, queue, from, until, verdict) {
                verdict.find(Rule::Queue, text, &[place]);
            }
        }
    }
}

fn misread(
    name: &str,
    read: &Attributes,
    queue: &Queue<'_>,
    from: u64,
    until: u64,
    verdict: &mut Verdict,
) -> Option<String> {
    let value = read.get(name)?;
    let writes: Vec<Option<&str>> = queue
        .written
        .candidates(name, from, until)
        .map(|write| write.value.as_deref())
        .collect();
    if writes.is_empty() || writes.contains(&None) {
        return None;
    }
    verdict.exercise(Rule::Queue);
    let fits = writes.contains(&Some(value));
    (!fits).then(|| format!("{} {name} reads {value}, not {writes:?}", queue.name))
}

/// A delete of the queue that returned before `at`, when no creation can have come after it.
fn certainly_deleted<'q>(queue: &'q Queue<'_>, at: u64) -> Option<&'q Ending> {
    let latest = queue.creations.iter().map(|creation| {
        if creation.certain {
            creation.returned
        } else {
            u64::MAX
        }
    });
    let deletion = queue.deletions.first_certain_after(latest.max()?)?;
    (deletion.returned < at).then_some(deletion)
}

/// Q16, listings: a queue that was created and never deleted is listed, one that was deleted is not.
/// Q17, every listed queue is the caller's.
pub(in crate::black_box) fn listings(index: &Index<'_>, verdict: &mut Verdict) {
    for (place, operation) in index.history.operations.iter().enumerate() {
        let Action::ListQueues { outcome } = &operation.action else {
            continue;
        };
        let Some(listed) = outcome.ok() else {
            continue;
        };
        for entry in listed {
            verdict.exercise(Rule::Tenant);
            if entry.tenant != operation.tenant {
                let text = format!("{} was shown {}'s queue", operation.tenant, entry.tenant);
                verdict.find(Rule::Tenant, text, &[place]);
            }
        }
        verdict.look(index.queues.len());
        let own = index
            .queues
            .iter()
            .filter(|queue| queue.tenant == operation.tenant);
        for queue in own {
            let is_listed = listed
                .iter()
                .any(|entry| entry.tenant == queue.tenant && entry.queue == queue.name);
            let created = queue.creations.iter().filter(|creation| creation.certain);
            let created = created.map(|creation| creation.returned).min();
            let must = created.is_some_and(|at| at < operation.invoked_us)
                && queue
                    .deletions
                    .first_possible(0)
                    .is_none_or(|deletion| deletion.invoked > operation.returned_us);
            if must {
                verdict.exercise(Rule::Queue);
            }
            if must && !is_listed {
                let text = format!("{} is missing from a listing", queue.name);
                verdict.find(Rule::Queue, text, &[place]);
            }
            if let Some(deletion) = certainly_deleted(queue, operation.invoked_us) {
                verdict.exercise(Rule::Queue);
                if is_listed {
                    let text = format!("{} is listed after its delete", queue.name);
                    verdict.find(Rule::Queue, text, &[deletion.operation, place]);
                }
            }
        }
    }
}

/// Q17, no leak between tenants: what a tenant receives was sent by that tenant. Exercised only where
/// there are two of them.
pub(in crate::black_box) fn tenants(index: &Index<'_>, verdict: &mut Verdict) {
    let first = index.queues.first().map(|queue| queue.tenant);
    if index.queues.iter().all(|queue| Some(queue.tenant) == first) {
        return;
    }
    for message in &index.messages {
        for seen in &message.seen {
            verdict.exercise(Rule::Tenant);
            let content = index.content_of(&seen.delivery.content);
            let caller = index.queues[seen.queue].tenant;
            let mut senders = index
                .effective_sends(content)
                .map(|s| index.queues[s.queue].tenant);
            let Some(sender) = senders.next() else {
                continue;
            };
            if sender != caller && senders.all(|sender| sender != caller) {
                let text = format!("{caller} received {}, which {sender} sent", message.id);
                verdict.find(Rule::Tenant, text, &[seen.operation]);
            }
        }
    }
}
