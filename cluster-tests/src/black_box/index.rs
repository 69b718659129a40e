//! A history turned around: by queue, by message and by content.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::actions::{Changed, Deleted, Seen, Sent, Span};
use super::attributes::{Write, Written};
use super::endings::{Ending, Endings};
use super::message::Message;
use super::timers::Timers;
use crate::history::{Action, Attributes, Content, History, Mark, Operation, Outcome, Receive};

const SECOND_US: u64 = 1_000_000;

/// SQS's attributes that the rules know, and SQS's own values, in seconds.
pub(super) const VISIBILITY_TIMEOUT: (&str, u64) = ("VisibilityTimeout", 30);
pub(super) const DELAY: (&str, u64) = ("DelaySeconds", 0);
pub(super) const RETENTION: (&str, u64) = ("MessageRetentionPeriod", 345_600);

/// Where messages go that were received too often.
#[derive(Debug)]
pub(super) struct Redrive {
    /// By its place in the index.
    pub target: usize,
    /// The lowest `maxReceiveCount` that ever was.
    pub least_count: usize,
    /// The highest.
    pub most_count: usize,
}

/// One queue, by its owner and name; a queue created again under the name is the same one here.
#[derive(Debug)]
pub(super) struct Queue<'h> {
    pub tenant: &'h str,
    pub name: &'h str,
    pub fifo: bool,
    /// Whether deduplication ids count in each message group alone.
    pub deduplicates_by_group: bool,
    pub written: Written,
    pub creations: Vec<Ending>,
    pub purges: Endings,
    pub deletions: Endings,
    /// Purges and deletions.
    pub endings: Endings,
    /// When receives without an answer were invoked, in order.
    pub uncertain_receives: Vec<u64>,
    /// The attempt ids of such receives: repeated, they may have set the timeout anew.
    pub uncertain_attempts: HashSet<&'h str>,
    /// From when to when it was drained, in order.
    pub drained: Vec<Span>,
    pub redrive: Option<Redrive>,
    /// Whether it is the target of a redrive.
    pub dead_letters: bool,
    pub least_retention: u64,
    pub most_retention: u64,
}

/// The history, ready for the rules.
#[derive(Debug)]
pub(super) struct Index<'h> {
    pub history: &'h History,
    pub timers: Timers,
    pub queues: Vec<Queue<'h>>,
    pub sends: Vec<Sent<'h>>,
    /// The sends of each content, by their places in `sends`.
    pub sends_of: Vec<Vec<usize>>,
    /// The messages that had each content, by their places in `messages`.
    pub messages_of: Vec<Vec<usize>>,
    pub messages: Vec<Message<'h>>,
    pub message_ids: HashMap<&'h str, usize>,
    queue_ids: HashMap<(&'h str, &'h str), usize>,
    contents: HashMap<&'h Content, usize>,
}

impl<'h> Index<'h> {
    pub fn of(history: &'h History) -> Self {
        let mut index = Self {
            history,
            timers: Timers::of(history),
            queues: Vec::new(),
            sends: Vec::new(),
            sends_of: Vec::new(),
            messages_of: Vec::new(),
            messages: Vec::new(),
            message_ids: HashMap::new(),
            queue_ids: HashMap::new(),
            contents: HashMap::new(),
        };
        index.add_queues();
        for (place, operation) in history.operations.iter().enumerate() {
            index.add_sends(place, operation);
        }
        for (place, operation) in history.operations.iter().enumerate() {
            if let Action::Receive(receive) = &operation.action {
                index.add_receive(place, operation, receive);
            }
        }
        for (place, operation) in history.operations.iter().enumerate() {
            index.add_deletes_and_changes(place, operation);
        }
        index.settle();
        index
    }

    /// The queue that an operation was for.
    pub fn queue_of(&self, operation: &'h Operation) -> usize {
        self.queue_ids[&(operation.tenant.as_str(), operation.queue.as_str())]
    }

    /// A queue by its name.
    pub fn queue_named(&self, tenant: &str, name: &str) -> Option<usize> {
        self.queue_ids.get(&(tenant, name)).copied()
    }

    /// The sends that may have made messages of this content.
    pub fn effective_sends(&self, content: usize) -> impl Iterator<Item = &Sent<'h>> {
        let sends = self.sends_of[content].iter().map(|send| &self.sends[*send]);
        sends.filter(|send| send.may_have_effect())
    }

    /// A content's place, when anybody sent it or saw it.
    pub fn content_of(&self, content: &Content) -> usize {
        self.contents[content]
    }

    fn add_queues(&mut self) {
        let operations = &self.history.operations;
        for operation in operations {
            let key = (operation.tenant.as_str(), operation.queue.as_str());
            let next = self.queue_ids.len();
            self.queue_ids.entry(key).or_insert(next);
        }
        let mut keys: Vec<_> = self.queue_ids.iter().map(|(key, at)| (*at, *key)).collect();
        keys.sort_unstable();
        let mut gathered: Vec<Gathered<'h>> = keys.iter().map(|_| Gathered::default()).collect();
        for (place, operation) in operations.iter().enumerate() {
            gathered[self.queue_of(operation)].add(place, operation);
        }
        for ((_, (tenant, name)), gathered) in keys.into_iter().zip(gathered) {
            self.queues.push(gathered.into_queue(tenant, name));
        }
        for mark in &self.history.marks {
            if let Mark::Drained {
                tenant,
                queue,
                from_us,
                until_us,
            } = mark
                && let Some(queue) = self.queue_named(tenant, queue)
            {
                let (invoked, returned) = (*from_us, *until_us);
                self.queues[queue].drained.push(Span { invoked, returned });
            }
        }
        self.link_dead_letters();
        for queue in &mut self.queues {
            queue.drained.sort_by_key(|span| span.invoked);
        }
    }

    /// Finds the queues that redrive policies name by the last part of their ARN.
    fn link_dead_letters(&mut self) {
        let always = (0, u64::MAX);
        for source in 0..self.queues.len() {
            let queue = &self.queues[source];
            let writes = queue
                .written
                .candidates("RedrivePolicy", always.0, always.1);
            let policies = writes.filter_map(|write| redrive_policy(write.value.as_deref()?));
            let (mut target, mut counts) = (None, Vec::new());
            for (name, count) in policies {
                target = target.or_else(|| self.queue_named(queue.tenant, &name));
                counts.push(count);
            }
            let (Some(target), Some(least), Some(most)) =
                (target, counts.iter().min(), counts.iter().max())
            else {
                continue;
            };
            self.queues[source].redrive = Some(Redrive {
                target,
                least_count: *least,
                most_count: *most,
            });
            self.queues[target].dead_letters = true;
        }
    }

    fn content(&mut self, content: &'h Content) -> usize {
        let next = self.sends_of.len();
        let place = *self.contents.entry(content).or_insert(next);
        if place == next {
            self.sends_of.push(Vec::new());
        }
        place
    }

    fn message(&mut self, id: &'h str, queue: usize, content: usize) -> &mut Message<'h> {
        let next = self.messages.len();
        let place = *self.message_ids.entry(id).or_insert(next);
        if place == next {
            self.messages.push(Message::new(id, queue, content));
        }
        &mut self.messages[place]
    }

    fn add_sends(&mut self, place: usize, operation: &'h Operation) {
        let Action::Send { entries } = &operation.action else {
            return;
        };
        let queue = self.queue_of(operation);
        let span = span(operation);
        for entry in entries {
            let content = self.content(&entry.content);
            let send = self.sends.len();
            self.sends_of[content].push(send);
            self.sends.push(Sent {
                operation: place,
                span,
                queue,
                entry,
            });
            let Some(sent) = entry.outcome.ok() else {
                continue;
            };
            let message = self.message(&sent.message_id, queue, content);
            message.sends.push(send);
            message.group = message.group.or(entry.group.as_deref());
            message.sequence = message.sequence.or(sent.sequence);
            message.born = message.born.min(span.invoked);
            let returned = message
                .acknowledged
                .map_or(span.returned, |at| at.min(span.returned));
            message.acknowledged = Some(returned);
        }
    }

    fn add_receive(&mut self, place: usize, operation: &'h Operation, receive: &'h Receive) {
        let queue = self.queue_of(operation);
        let span = span(operation);
        let timeout = match receive.visibility_timeout_ms {
            Some(ms) => ms.saturating_mul(1_000),
            None => {
                let (name, default) = VISIBILITY_TIMEOUT;
                let written = &self.queues[queue].written;
                let numbers = written.numbers(name, span.invoked, span.returned, default);
                let least = numbers.and_then(|numbers| numbers.into_iter().min());
                least.unwrap_or(0).saturating_mul(SECOND_US)
            }
        };
        for (at, delivery) in receive.outcome.ok().into_iter().flatten().enumerate() {
            let content = self.content(&delivery.content);
            let home = self.sends_of[content].first();
            let home = home.map_or(queue, |send| self.sends[*send].queue);
            let message = self.message(&delivery.message_id, home, content);
            message.group = message.group.or(delivery.group.as_deref());
            message.sequence = message.sequence.or(delivery.sequence);
            message.seen.push(Seen {
                operation: place,
                place: at,
                span,
                queue,
                timeout,
                attempt: receive.attempt_id.as_deref(),
                delivery,
                repeated: false,
            });
        }
    }

    fn add_deletes_and_changes(&mut self, operation_place: usize, operation: &'h Operation) {
        let span = span(operation);
        let queue = self.queue_of(operation);
        match &operation.action {
            Action::Delete { entries } => {
                for entry in entries.iter().filter(|e| e.outcome.may_have_effect()) {
                    if let Some(place) = self.message_ids.get(entry.message_id.as_str()) {
                        self.messages[*place].deletes.push(Deleted {
                            operation: operation_place,
                            span,
                            queue,
                            entry,
                        });
                    }
                }
            }
            Action::ChangeVisibility { entries } => {
                for entry in entries.iter().filter(|e| e.outcome.may_have_effect()) {
                    if let Some(place) = self.message_ids.get(entry.message_id.as_str()) {
                        self.messages[*place].changes.push(Changed {
                            operation: operation_place,
                            span,
                            entry,
                        });
                    }
                }
            }
            _ => {}
        }
    }

    /// Puts everything in order.
    fn settle(&mut self) {
        self.messages_of = vec![Vec::new(); self.sends_of.len()];
        for place in 0..self.messages.len() {
            let seen = self.messages[place].seen.iter();
            let seen = seen.map(|seen| self.contents[&seen.delivery.content]);
            let mut contents: Vec<usize> = seen.chain([self.messages[place].content]).collect();
            contents.sort_unstable();
            contents.dedup();
            // A send without an answer may have made the message before the one that was answered.
            let sends = contents.iter().flat_map(|content| &self.sends_of[*content]);
            let uncertain = sends.map(|send| &self.sends[*send]);
            let uncertain = uncertain.filter(|send| send.entry.outcome.is_info());
            let born = uncertain.map(|send| send.span.invoked).min();
            for content in contents {
                self.messages_of[content].push(place);
            }
            let message = &mut self.messages[place];
            message.born = message.born.min(born.unwrap_or(u64::MAX));
            if message.born == u64::MAX {
                message.born = 0;
            }
            message.settle();
        }
        for queue in &mut self.queues {
            queue.uncertain_receives.sort_unstable();
        }
    }
}

fn span(operation: &Operation) -> Span {
    Span {
        invoked: operation.invoked_us,
        returned: operation.returned_us,
    }
}

/// The target's name and `maxReceiveCount`.
fn redrive_policy(text: &str) -> Option<(String, usize)> {
    let policy: Value = serde_json::from_str(text).ok()?;
    let arn = policy.get("deadLetterTargetArn")?.as_str()?;
    let count = policy.get("maxReceiveCount")?;
    let count = match count.as_str() {
        Some(text) => text.parse().ok()?,
        None => count.as_u64()?,
    };
    Some((
        arn.rsplit(':').next()?.to_owned(),
        usize::try_from(count).ok()?,
    ))
}

/// What one queue's operations say, while they are gathered.
#[derive(Default)]
struct Gathered<'h> {
    written: Written,
    creations: Vec<Ending>,
    purges: Vec<Ending>,
    deletions: Vec<Ending>,
    uncertain_receives: Vec<u64>,
    uncertain_attempts: HashSet<&'h str>,
    names: BTreeSet<String>,
}

impl<'h> Gathered<'h> {
    fn add(&mut self, place: usize, operation: &'h Operation) {
        let ending = |outcome: &Outcome<()>| Ending {
            operation: place,
            invoked: operation.invoked_us,
            returned: operation.returned_us,
            certain: outcome.ok().is_some(),
        };
        match &operation.action {
            Action::CreateQueue {
                attributes,
                outcome,
            } if outcome.may_have_effect() => {
                self.written.created = true;
                self.creations.push(ending(outcome));
                self.write(ending(outcome), attributes);
            }
            Action::SetAttributes {
                attributes,
                outcome,
            } if outcome.may_have_effect() => {
                self.write(ending(outcome), attributes);
            }
            Action::DeleteQueue { outcome } if outcome.may_have_effect() => {
                self.deletions.push(ending(outcome));
            }
            Action::PurgeQueue { outcome } if outcome.may_have_effect() => {
                self.purges.push(ending(outcome));
            }
            Action::Receive(receive) if receive.outcome.is_info() => {
                self.uncertain_receives.push(operation.invoked_us);
                self.uncertain_attempts
                    .extend(receive.attempt_id.as_deref());
            }
            _ => {}
        }
    }

    fn write(&mut self, by: Ending, attributes: &Attributes) {
        for (name, value) in attributes {
            self.names.insert(name.clone());
            self.written.add(
                name,
                Write {
                    operation: by.operation,
                    invoked: by.invoked,
                    returned: by.returned,
                    certain: by.certain,
                    value: Some(value.clone()),
                },
            );
        }
    }

    fn into_queue(mut self, tenant: &'h str, name: &'h str) -> Queue<'h> {
        // What a creation does not name it gives SQS's own value, or it found the queue and left it.
        for creation in &self.creations {
            for attribute in &self.names {
                let named = self.written.candidates(attribute, 0, u64::MAX);
                let named = named
                    .map(|write| write.operation)
                    .any(|by| by == creation.operation);
                if !named {
                    self.written.add(
                        attribute,
                        Write {
                            operation: creation.operation,
                            invoked: creation.invoked,
                            returned: creation.returned,
                            // The only creation made the queue; of several, some only found it.
                            certain: creation.certain && self.creations.len() == 1,
                            value: None,
                        },
                    );
                }
            }
        }
        let (attribute, default) = RETENTION;
        let retention = self.written.numbers(attribute, 0, u64::MAX, default);
        let retention = retention.unwrap_or_else(|| vec![0, u64::MAX]);
        let least = retention.iter().min().copied().unwrap_or(0);
        let most = retention.iter().max().copied().unwrap_or(u64::MAX);
        let both = [self.purges.as_slice(), self.deletions.as_slice()].concat();
        Queue {
            tenant,
            name,
            fifo: name.ends_with(".fifo"),
            deduplicates_by_group: self.written.first("DeduplicationScope") == Some("messageGroup"),
            written: self.written,
            creations: self.creations,
            purges: Endings::of(self.purges),
            deletions: Endings::of(self.deletions),
            endings: Endings::of(both),
            uncertain_receives: self.uncertain_receives,
            uncertain_attempts: self.uncertain_attempts,
            drained: Vec::new(),
            redrive: None,
            dead_letters: false,
            least_retention: least.saturating_mul(SECOND_US),
            most_retention: most.saturating_mul(SECOND_US),
        }
    }
}
