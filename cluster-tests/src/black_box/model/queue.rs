//! One queue of the model, which keeps its promises.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::history::{Attributes, Content, Delivery, Sent};

const SECOND_US: u64 = 1_000_000;
const WINDOW_US: u64 = 300 * SECOND_US;
const GROUPS: u32 = 3;

/// Most of the queues keep messages for as long as SQS does by default.
const RETENTION_S: u64 = 345_600;

/// A message that a client sends.
#[derive(Clone)]
pub(super) struct Offered {
    number: u64,
    pub body: String,
    pub group: Option<String>,
    pub deduplication_id: Option<String>,
    pub delay_s: Option<u64>,
}

/// A message that exists.
#[derive(Clone)]
pub(super) struct Held {
    id: String,
    body: String,
    group: Option<String>,
    sequence: Option<u128>,
    count: u32,
    receipt: u64,
    sent_at: u64,
    visible_at: u64,
}

/// All times are T, microseconds.
pub(super) struct ModelQueue {
    pub tenant: &'static str,
    pub name: &'static str,
    pub fifo: bool,
    by_group: bool,
    pub created_with: Attributes,
    pub timeout_s: u64,
    delay_s: u64,
    retention_s: u64,
    /// After so many receives.
    max_count: u32,
    /// To this queue.
    pub dead_letters: Option<usize>,
    pub messages: Vec<Held>,
    remembered: BTreeMap<(Option<String>, String), (u64, Sent)>,
    /// By attempt id: when, and the deliveries.
    attempts: BTreeMap<String, (u64, Vec<Delivery>)>,
    next: u64,
}

impl ModelQueue {
    /// One of each kind.
    pub fn all(tenants: [&'static str; 2]) -> Vec<Self> {
        let [one, other] = tenants;
        let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:r:444444444444:model-dead","maxReceiveCount":"3"}"#;
        let mut all = vec![
            Self::new(one, "model", &[("VisibilityTimeout", "2")]),
            Self::new(
                one,
                "model.fifo",
                &[("FifoQueue", "true"), ("VisibilityTimeout", "2")],
            ),
            Self::new(
                one,
                "groups.fifo",
                &[
                    ("FifoQueue", "true"),
                    ("DeduplicationScope", "messageGroup"),
                    ("VisibilityTimeout", "3"),
                    ("DelaySeconds", "1"),
                ],
            ),
            Self::new(
                other,
                "model-source",
                &[("VisibilityTimeout", "1"), ("RedrivePolicy", policy)],
            ),
            Self::new(other, "model-dead", &[("VisibilityTimeout", "1")]),
            Self::new(
                other,
                "brief",
                &[("VisibilityTimeout", "1"), ("MessageRetentionPeriod", "60")],
            ),
        ];
        all[3].dead_letters = Some(4);
        all[3].max_count = 3;
        all
    }

    fn new(tenant: &'static str, name: &'static str, attributes: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut queue = Self {
            tenant,
            name,
            fifo: name.ends_with(".fifo"),
            by_group: attributes.contains(&("DeduplicationScope", "messageGroup")),
            created_with: attributes.iter().map(owned).collect(),
            timeout_s: 0,
            delay_s: 0,
            retention_s: 0,
            max_count: u32::MAX,
            dead_letters: None,
            messages: Vec::new(),
            remembered: BTreeMap::new(),
            attempts: BTreeMap::new(),
            next: 0,
        };
        queue.begin();
        queue
    }

    /// As created.
    pub fn begin(&mut self) {
        let number = |name: &str| {
            self.created_with
                .get(name)
                .and_then(|text| text.parse().ok())
        };
        let timeout_s = number("VisibilityTimeout").unwrap_or(30);
        let delay_s = number("DelaySeconds").unwrap_or(0);
        let retention_s = number("MessageRetentionPeriod").unwrap_or(RETENTION_S);
        (self.timeout_s, self.delay_s, self.retention_s) = (timeout_s, delay_s, retention_s);
    }

    pub fn end(&mut self) {
        self.purge();
        self.attempts.clear();
    }

    pub fn purge(&mut self) {
        self.messages.clear();
        self.remembered.clear();
    }

    pub fn expire(&mut self, t: u64) {
        let retention = self.retention_s * SECOND_US;
        self.messages.retain(|held| t < held.sent_at + retention);
    }

    pub fn offer(&mut self, number: u64, rng: &mut StdRng) -> Offered {
        let delayed = !self.fifo && rng.random_ratio(1, 5);
        let group = format!("g{}", rng.random_range(0..GROUPS));
        Offered {
            number,
            body: format!("m{number}"),
            group: self.fifo.then_some(group),
            deduplication_id: self.fifo.then(|| format!("d{number}")),
            delay_s: delayed.then_some(1),
        }
    }

    pub fn accept(&mut self, offered: &Offered, t: u64) -> Sent {
        let key = offered.deduplication_id.clone().map(|id| {
            let group = offered.group.clone().filter(|_| self.by_group);
            (group, id)
        });
        let known = key.as_ref().and_then(|key| self.remembered.get(key));
        if let Some((at, sent)) = known
            && t < at + WINDOW_US
        {
            return sent.clone();
        }
        self.next += 1;
        let sent = Sent {
            message_id: format!("model {} {} {}", self.name, offered.number, self.next),
            sequence: self.fifo.then(|| u128::from(self.next) << 70),
        };
        let delay_s = offered.delay_s.unwrap_or(self.delay_s);
        self.messages.push(Held {
            id: sent.message_id.clone(),
            body: offered.body.clone(),
            group: offered.group.clone(),
            sequence: sent.sequence,
            count: 0,
            receipt: 0,
            sent_at: t,
            visible_at: t + delay_s * SECOND_US,
        });
        if let Some(key) = key {
            self.remembered.insert(key, (t, sent.clone()));
        }
        sent
    }

    /// What was received, and what became dead letters.
    pub fn receive(
        &mut self,
        max: usize,
        timeout_s: Option<u64>,
        attempt: Option<&str>,
        t: u64,
    ) -> (Vec<Delivery>, Vec<Held>) {
        let visible_at = t + timeout_s.unwrap_or(self.timeout_s) * SECOND_US;
        if let Some(again) = attempt.and_then(|attempt| self.repeat(attempt, visible_at, t)) {
            return (again, Vec::new());
        }
        let (mut taken, mut dead, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut blocked: Vec<String> = Vec::new();
        for mut held in std::mem::take(&mut self.messages) {
            let free = held
                .group
                .as_ref()
                .is_none_or(|group| !blocked.contains(group));
            let visible = held.visible_at <= t && free;
            if !visible || taken.len() == max {
                blocked.extend(held.group.clone());
                kept.push(held);
            } else if held.count >= self.max_count {
                dead.push(held);
            } else {
                self.next += 1;
                held.count += 1;
                held.receipt = self.next;
                held.visible_at = visible_at;
                taken.push(held.delivery());
                kept.push(held);
            }
        }
        self.messages = kept;
        if let Some(attempt) = attempt.filter(|_| !taken.is_empty()) {
            self.attempts.insert(attempt.to_owned(), (t, taken.clone()));
        }
        (taken, dead)
    }

    /// What the attempt got before, if all of it is in flight as the attempt left it.
    fn repeat(&mut self, attempt: &str, visible_at: u64, t: u64) -> Option<Vec<Delivery>> {
        let (at, got) = self.attempts.get(attempt)?;
        let held = |delivery: &Delivery| self.holds(&delivery.message_id, delivery.receipt, t);
        if t >= at + WINDOW_US || !got.iter().all(held) {
            return None;
        }
        let got = got.clone();
        for held in &mut self.messages {
            if got.iter().any(|delivery| delivery.message_id == held.id) {
                held.visible_at = visible_at;
            }
        }
        Some(got)
    }

    /// Whether this handle is the newest of a message in flight.
    fn holds(&self, id: &str, receipt: u64, t: u64) -> bool {
        let held = self.messages.iter().find(|held| held.id == id);
        held.is_some_and(|held| held.receipt == receipt && held.visible_at > t)
    }

    /// Whether the request was granted.
    pub fn delete(&mut self, id: &str, receipt: u64, t: u64) -> bool {
        let exists = self.messages.iter().any(|held| held.id == id);
        if self.fifo && exists && !self.holds(id, receipt, t) {
            return false;
        }
        self.messages.retain(|held| held.id != id);
        true
    }

    /// Whether the request was granted.
    pub fn change(&mut self, id: &str, receipt: u64, timeout_s: u64, t: u64) -> bool {
        let holds = !self.fifo || self.holds(id, receipt, t);
        match self.messages.iter_mut().find(|held| held.id == id) {
            Some(held) if holds => {
                held.visible_at = t + timeout_s * SECOND_US;
                true
            }
            _ => false,
        }
    }

    pub fn attributes(&self, t: u64) -> Attributes {
        let visible = self
            .messages
            .iter()
            .filter(|held| held.visible_at <= t)
            .count();
        let hidden = self.messages.iter().filter(|held| held.visible_at > t);
        let delayed = hidden.clone().filter(|held| held.count == 0).count();
        let in_flight = hidden.count() - delayed;
        [
            ("ApproximateNumberOfMessages", visible as u64),
            ("ApproximateNumberOfMessagesNotVisible", in_flight as u64),
            ("ApproximateNumberOfMessagesDelayed", delayed as u64),
            ("VisibilityTimeout", self.timeout_s),
            ("DelaySeconds", self.delay_s),
            ("MessageRetentionPeriod", self.retention_s),
        ]
        .map(|(name, number)| (name.to_owned(), number.to_string()))
        .into()
    }
}

impl Held {
    fn delivery(&self) -> Delivery {
        Delivery {
            message_id: self.id.clone(),
            content: Content::of(&self.body),
            receipt: self.receipt,
            receive_count: self.count,
            sent_ms: Some(self.sent_at / 1_000),
            sequence: self.sequence,
            group: self.group.clone(),
        }
    }
}
