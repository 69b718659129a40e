//! Small histories told by hand: one client, one call after the other, of ten milliseconds each.

use std::collections::BTreeMap;

use crate::history::{
    Action, Attributes, ChangeEntry, Content, DeleteEntry, Delivery, History, Listed, Mark,
    Operation, Outcome, Receive, SendEntry, Sent,
};

const CALL_US: u64 = 10_000;
/// Between two calls.
const PAUSE_US: u64 = 1_000;
const SECOND_US: u64 = 1_000_000;

/// A history in the making; what is `pub` may be changed while it is told.
pub(super) struct Story {
    pub history: History,
    /// Now, microseconds.
    pub now: u64,
    /// Who calls.
    pub tenant: String,
    /// Which of the caller's queues.
    pub queue: String,
    next_sequence: u128,
    next_receipt: u64,
    /// By label: how often received, and the last receipt.
    received: BTreeMap<String, (u32, u64)>,
    /// By label.
    sent: BTreeMap<String, SendEntry>,
}

impl Story {
    /// On a queue that was just created.
    pub fn on(queue: &str, attributes: &[(&str, &str)]) -> Self {
        let mut story = Self {
            history: History::default(),
            now: SECOND_US,
            tenant: "111111111111".into(),
            queue: queue.into(),
            next_sequence: 1_000,
            next_receipt: 1 << 40,
            received: BTreeMap::new(),
            sent: BTreeMap::new(),
        };
        story.create_queue(attributes);
        story
    }

    pub fn standard() -> Self {
        Self::on("story", &[])
    }

    pub fn fifo() -> Self {
        Self::on("story.fifo", &[("FifoQueue", "true")])
    }

    /// Lets time pass.
    pub fn pass(&mut self, seconds: u64) {
        self.now += seconds * SECOND_US;
    }

    /// One call; its place in the history.
    pub fn call(&mut self, action: Action) -> usize {
        self.history.operations.push(Operation {
            client: 7,
            tenant: self.tenant.clone(),
            queue: self.queue.clone(),
            invoked_us: self.now,
            returned_us: self.now + CALL_US,
            action,
        });
        self.now += CALL_US + PAUSE_US;
        self.history.operations.len() - 1
    }

    /// A call of the past, to overlap others.
    pub fn stretch(&mut self, place: usize, invoked_us: u64, returned_us: u64) {
        let operation = &mut self.history.operations[place];
        (operation.invoked_us, operation.returned_us) = (invoked_us, returned_us);
    }

    pub fn create_queue(&mut self, attributes: &[(&str, &str)]) {
        self.call(Action::CreateQueue {
            attributes: map(attributes),
            outcome: Outcome::Ok(()),
        });
    }

    pub fn delete_queue(&mut self) {
        let outcome = Outcome::Ok(());
        self.call(Action::DeleteQueue { outcome });
    }

    pub fn purge(&mut self) {
        let outcome = Outcome::Ok(());
        self.call(Action::PurgeQueue { outcome });
    }

    pub fn set(&mut self, attributes: &[(&str, &str)]) {
        self.call(Action::SetAttributes {
            attributes: map(attributes),
            outcome: Outcome::Ok(()),
        });
    }

    pub fn read(&mut self, attributes: &[(&str, &str)]) {
        let outcome = Outcome::Ok(map(attributes));
        self.call(Action::GetAttributes { outcome });
    }

    pub fn list(&mut self, queues: &[(&str, &str)]) {
        let listed = |(tenant, queue): &(&str, &str)| Listed {
            tenant: (*tenant).into(),
            queue: (*queue).into(),
        };
        let queue = std::mem::take(&mut self.queue);
        let outcome = Outcome::Ok(queues.iter().map(listed).collect());
        self.call(Action::ListQueues { outcome });
        self.queue = queue;
    }

    /// All messages are visible.
    pub fn count(&mut self, messages: u64) {
        self.read(&[
            ("ApproximateNumberOfMessages", &messages.to_string()),
            ("ApproximateNumberOfMessagesNotVisible", "0"),
            ("ApproximateNumberOfMessagesDelayed", "0"),
        ]);
    }

    /// A message that the queue will take: on FIFO in group `g` and with the label as its
    /// deduplication id.
    pub fn message(&mut self, label: &str) -> SendEntry {
        let fifo = self.queue.ends_with(".fifo");
        self.next_sequence += 10;
        SendEntry {
            content: Content::of(label),
            group: fifo.then(|| "g".into()),
            deduplication_id: fifo.then(|| label.into()),
            delay_ms: None,
            outcome: Outcome::Ok(Sent {
                message_id: format!("id of {label}"),
                sequence: fifo.then_some(self.next_sequence),
            }),
            mentions: None,
        }
    }

    /// Sends one message.
    pub fn send(&mut self, label: &str) {
        let entry = self.message(label);
        self.send_these([entry]);
    }

    /// Sends several in one call.
    pub fn send_these<const N: usize>(&mut self, entries: [SendEntry; N]) -> usize {
        for entry in &entries {
            let known = self.sent.entry(entry.content.label.clone());
            known
                .and_modify(|known| known.clone_from(entry))
                .or_insert(entry.clone());
        }
        let entries = entries.into();
        self.call(Action::Send { entries })
    }

    /// The next delivery of a message: as sent, under a new handle, its receive count one higher.
    pub fn delivery(&mut self, label: &str) -> Delivery {
        let entry = self.sent.get(label).cloned();
        let entry = entry.unwrap_or_else(|| self.message(label));
        self.next_receipt += 1;
        let (count, receipt) = self.received.entry(label.into()).or_default();
        *count += 1;
        *receipt = self.next_receipt;
        let sent = entry.outcome.ok();
        Delivery {
            message_id: sent.map_or(format!("id of {label}"), |sent| sent.message_id.clone()),
            content: entry.content,
            receipt: self.next_receipt,
            receive_count: *count,
            sent_ms: Some(0),
            sequence: sent.and_then(|sent| sent.sequence),
            group: entry.group,
        }
    }

    /// Receives these; the handles of all.
    pub fn receive(&mut self, labels: &[&str]) -> usize {
        let deliveries: Vec<Delivery> = labels.iter().map(|label| self.delivery(label)).collect();
        self.receive_these(deliveries)
    }

    pub fn receive_these(&mut self, deliveries: Vec<Delivery>) -> usize {
        self.receive_with(None, None, Outcome::Ok(deliveries))
    }

    pub fn receive_with(
        &mut self,
        timeout_s: Option<u64>,
        attempt: Option<&str>,
        outcome: Outcome<Vec<Delivery>>,
    ) -> usize {
        self.call(Action::Receive(Receive {
            max: 10,
            wait_ms: None,
            visibility_timeout_ms: timeout_s.map(|seconds| seconds * 1_000),
            attempt_id: attempt.map(Into::into),
            outcome,
        }))
    }

    /// The last handle of a message.
    pub fn receipt(&self, label: &str) -> u64 {
        self.received[label].1
    }

    /// Deletes with the last handle.
    pub fn delete(&mut self, label: &str) {
        self.delete_with(label, self.receipt(label), Outcome::Ok(()));
    }

    pub fn delete_with(&mut self, label: &str, receipt: u64, outcome: Outcome<()>) -> usize {
        let entries = vec![DeleteEntry {
            message_id: format!("id of {label}"),
            receipt,
            outcome,
            mentions: None,
        }];
        self.call(Action::Delete { entries })
    }

    /// Changes the visibility with the last handle.
    pub fn change(&mut self, label: &str, seconds: u64) {
        self.change_with(label, self.receipt(label), seconds, Outcome::Ok(()));
    }

    pub fn change_with(&mut self, label: &str, receipt: u64, seconds: u64, outcome: Outcome<()>) {
        let entries = vec![ChangeEntry {
            message_id: format!("id of {label}"),
            receipt,
            visibility_timeout_ms: seconds * 1_000,
            outcome,
            mentions: None,
        }];
        self.call(Action::ChangeVisibility { entries });
    }

    /// Receives and deletes these, after which the queue says that it is empty.
    pub fn drain(&mut self, labels: &[&str]) {
        let from_us = self.now;
        if !labels.is_empty() {
            self.receive(labels);
        }
        for label in labels {
            self.delete(label);
        }
        self.count(0);
        self.history.marks.push(Mark::Drained {
            tenant: self.tenant.clone(),
            queue: self.queue.clone(),
            from_us,
            until_us: self.now - PAUSE_US,
        });
    }
}

fn map(attributes: &[(&str, &str)]) -> Attributes {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    attributes.iter().map(owned).collect()
}
