//! Messages in numbers: what CloudWatch shows of a queue, in Prometheus's form.
//!
//! What was done is counted at the node that answered; what waits is counted at the nodes that lead, so
//! that the sum over all nodes is the cluster's. The table in the project's README says which of these is
//! which of CloudWatch's; a test holds it against the page.
//!
//! Series are bounded whatever the number of queues: a queue has its own when the configuration names
//! it, and all others are one, `_other`. Nothing names a queue here that the operator did not name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hikyaku_cluster::Node;
use hikyaku_metadata::{QueueRecord, TenantId};
use hikyaku_queue::{Counts, Sent};

use super::{family, line};
use crate::config::ShownQueue;

/// The tenant and the queue in the labels of all queues that are not shown by themselves.
const OTHER: &str = "_other";

/// What clients did with the messages of some queues.
#[derive(Default)]
struct Traffic {
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    deduplicated: AtomicU64,
    received: AtomicU64,
    empty_receives: AtomicU64,
    deleted: AtomicU64,
}

/// What waits in some queues, as the partitions have it that are led here.
#[derive(Clone, Copy, Default)]
struct Waiting {
    counts: Counts,
    oldest_ms: u64,
    oldest_quiet_ms: u64,
}

/// Numbers of each queue that is shown by itself, and of all others together.
#[derive(Default)]
struct ByQueue<T> {
    shown: BTreeMap<TenantId, BTreeMap<String, T>>,
    others: T,
}

/// See the module.
#[derive(Default)]
pub(crate) struct MessageMetrics {
    traffic: ByQueue<Traffic>,
}

/// A family of series: name, help and where the number is.
type Family<T> = (&'static str, &'static str, fn(&T) -> u64);

const COUNTERS: [Family<Traffic>; 6] = [
    (
        "hikyaku_messages_sent_total",
        "Messages sent to queues, duplicates apart.",
        |traffic| traffic.sent.load(Ordering::Relaxed),
    ),
    (
        "hikyaku_messages_sent_bytes_total",
        "Bytes of the bodies and attributes of messages sent.",
        |traffic| traffic.sent_bytes.load(Ordering::Relaxed),
    ),
    (
        "hikyaku_messages_deduplicated_total",
        "Messages sent to FIFO queues that were there already.",
        |traffic| traffic.deduplicated.load(Ordering::Relaxed),
    ),
    (
        "hikyaku_messages_received_total",
        "Messages handed out.",
        |traffic| traffic.received.load(Ordering::Relaxed),
    ),
    (
        "hikyaku_empty_receives_total",
        "Receives that were answered without a message.",
        |traffic| traffic.empty_receives.load(Ordering::Relaxed),
    ),
    (
        "hikyaku_messages_deleted_total",
        "Deletes that succeeded.",
        |traffic| traffic.deleted.load(Ordering::Relaxed),
    ),
];

const GAUGES: [Family<Waiting>; 7] = [
    (
        "hikyaku_messages_visible",
        "Messages to receive.",
        |waiting| waiting.counts.visible,
    ),
    (
        "hikyaku_messages_in_flight",
        "Messages received and not yet deleted or visible again.",
        |waiting| waiting.counts.in_flight,
    ),
    (
        "hikyaku_messages_delayed",
        "Messages whose delay is not over.",
        |waiting| waiting.counts.delayed,
    ),
    (
        "hikyaku_noisy_groups",
        "Message groups of standard queues that take too much, in each partition for itself.",
        |waiting| waiting.counts.noisy_groups,
    ),
    (
        "hikyaku_quiet_messages_visible",
        "Messages to receive that are in no noisy group.",
        |waiting| waiting.counts.quiet.visible,
    ),
    (
        "hikyaku_quiet_messages_in_flight",
        "Messages in flight that are in no noisy group.",
        |waiting| waiting.counts.quiet.in_flight,
    ),
    (
        "hikyaku_quiet_messages_delayed",
        "Delayed messages that are in no noisy group.",
        |waiting| waiting.counts.quiet.delayed,
    ),
];

const AGES: [Family<Waiting>; 2] = [
    (
        "hikyaku_oldest_message_age_seconds",
        "Age of the oldest message.",
        |waiting| waiting.oldest_ms,
    ),
    (
        "hikyaku_quiet_oldest_message_age_seconds",
        "Age of the oldest message that is in no noisy group, approximately.",
        |waiting| waiting.oldest_quiet_ms,
    ),
];

impl<T: Default> ByQueue<T> {
    fn like<U>(other: &ByQueue<U>) -> Self {
        let none = |names: &BTreeMap<String, U>| {
            let names = names.keys().cloned();
            names.map(|name| (name, T::default())).collect()
        };
        let shown = other.shown.iter();
        Self {
            shown: shown
                .map(|(tenant, names)| (*tenant, none(names)))
                .collect(),
            others: T::default(),
        }
    }

    fn of(&self, queue: &QueueRecord) -> &T {
        let names = self.shown.get(&queue.tenant);
        let shown = names.and_then(|names| names.get(&queue.name));
        shown.unwrap_or(&self.others)
    }

    fn of_mut(&mut self, queue: Option<&QueueRecord>) -> &mut T {
        let shown = queue.and_then(|queue| {
            let names = self.shown.get_mut(&queue.tenant)?;
            names.get_mut(&queue.name)
        });
        shown.unwrap_or(&mut self.others)
    }

    fn write(
        &self,
        page: &mut String,
        kind: &str,
        (name, help, number): Family<T>,
        show: impl Fn(u64) -> String,
    ) {
        family(page, name, kind, help);
        for (tenant, names) in &self.shown {
            for (queue, numbers) in names {
                let value = show(number(numbers));
                let labels = format_args!("tenant=\"{tenant}\",queue=\"{queue}\"");
                line(page, format_args!("{name}{{{labels}}} {value}"));
            }
        }
        let value = show(number(&self.others));
        let labels = format_args!("tenant=\"{OTHER}\",queue=\"{OTHER}\"");
        line(page, format_args!("{name}{{{labels}}} {value}"));
    }
}

impl MessageMetrics {
    /// Numbers that show these queues by themselves.
    pub(crate) fn showing(queues: &[ShownQueue]) -> Self {
        let mut traffic = ByQueue::<Traffic>::default();
        for ShownQueue { tenant, name } in queues {
            let names = traffic.shown.entry(*tenant).or_default();
            names.insert(name.clone(), Traffic::default());
        }
        Self { traffic }
    }

    /// Counts a message that was accepted, of so many bytes with its attributes.
    pub(crate) fn sent(&self, queue: &QueueRecord, bytes: usize, sent: &Sent) {
        let traffic = self.traffic.of(queue);
        if sent.duplicate {
            traffic.deduplicated.fetch_add(1, Ordering::Relaxed);
        } else {
            traffic.sent.fetch_add(1, Ordering::Relaxed);
            traffic
                .sent_bytes
                .fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Counts an answered receive.
    pub(crate) fn received(&self, queue: &QueueRecord, messages: usize) {
        let traffic = self.traffic.of(queue);
        if messages == 0 {
            traffic.empty_receives.fetch_add(1, Ordering::Relaxed);
        } else {
            traffic
                .received
                .fetch_add(messages as u64, Ordering::Relaxed);
        }
    }

    /// Counts a delete that succeeded.
    pub(crate) fn deleted(&self, queue: &QueueRecord) {
        self.traffic
            .of(queue)
            .deleted
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Writes all series.
    pub(super) fn write(&self, page: &mut String, node: &Node) {
        for counter in COUNTERS {
            self.traffic.write(page, "counter", counter, plain);
        }
        let waiting = self.waiting(node);
        for gauge in GAUGES {
            waiting.write(page, "gauge", gauge, plain);
        }
        for age in AGES {
            waiting.write(page, "gauge", age, seconds);
        }
    }

    /// Looks at every queue of the partitions that are led here.
    fn waiting(&self, node: &Node) -> ByQueue<Waiting> {
        let mut waiting = ByQueue::<Waiting>::like(&self.traffic);
        for partition in node.partitions() {
            if !partition.leadership().serving {
                continue;
            }
            let now_ms = partition.now_ms().unwrap_or(0);
            for (queue, counts) in partition.all_counts(now_ms) {
                let record = node.catalogue().get(queue);
                waiting.of_mut(record.as_deref()).add(counts, now_ms);
            }
        }
        waiting
    }
}

impl Waiting {
    fn add(&mut self, counts: Counts, now_ms: u64) {
        let age = |sent_at: Option<u64>| sent_at.map_or(0, |at| now_ms.saturating_sub(at));
        self.oldest_ms = self.oldest_ms.max(age(counts.oldest_sent_at));
        self.oldest_quiet_ms = self.oldest_quiet_ms.max(age(counts.quiet.oldest_sent_at));
        self.counts.add(counts);
    }
}

fn plain(count: u64) -> String {
    count.to_string()
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}
