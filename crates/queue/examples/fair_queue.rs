//! What fair queues do and cost, measured on the machine alone.
//!
//! `dwell`: one message group floods a queue with 100,000 messages while twenty others send one message a
//! second each; 200 consumers take 50 to 150 ms for each. Told are how long messages of the others wait,
//! and how much of the consumers' time is used, with the flood, without it, and with a flood whose
//! messages have no groups. All in T, so that the figures are the same on every computer.
//!
//! `rate`: sends, receives and deletes of messages that have no groups, and of messages that have, by
//! the clock of this computer.
//!
//! ```text
//! cargo run --release -p hikyaku-queue --example fair_queue
//! ```

#![expect(clippy::print_stdout, reason = "a program whose output is its purpose")]

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use hikyaku_queue::{
    Command, Descriptor, MessageId, Name, Operation, Partition, PartitionId, QueueId, QueueKind,
    QueueState, ReceiptHandle, Reply, RequestId, SendMessage, encode_head,
};

const QUEUE: QueueId = QueueId(1);
const FLOOD: usize = 100_000;
const QUIET_GROUPS: u64 = 20;
const CONSUMERS: usize = 200;
/// How long the others send, in ms of T.
const SENDING_MS: u64 = 45_000;

struct Queue {
    partition: Partition,
    index: u64,
}

impl Queue {
    fn new() -> Self {
        let mut queue = Self {
            partition: Partition::new(PartitionId(1)),
            index: 0,
        };
        queue.apply(
            0,
            Operation::PutDescriptor(Descriptor {
                id: QUEUE,
                version: 1,
                state: QueueState::Active,
                kind: QueueKind::Standard,
                visibility_timeout_ms: 30_000,
                delay_ms: 0,
                retention_ms: 345_600_000,
                purge_epoch: 0,
                in_flight_limit: 120_000,
                spread: vec![PartitionId(1)],
                draining: vec![],
                guests: vec![],
                redrive: None,
                move_order: None,
            }),
        );
        queue
    }

    fn apply(&mut self, now: u64, operation: Operation) -> Reply {
        self.index += 1;
        let command = Command {
            request_id: RequestId(self.index.into()),
            not_after: now,
            queue: QUEUE,
            descriptor_version: 1,
            operation,
        };
        let head = encode_head(now, &[command]);
        let outcomes = self.partition.apply_entry(self.index, &head);
        outcomes
            .expect("a head that was just written")
            .remove(0)
            .reply
    }

    fn send(&mut self, now: u64, group: Option<&str>, count: usize) -> u64 {
        let message = SendMessage {
            id: MessageId([0; 16]),
            body_bytes: 0,
            delay_ms: None,
            message_group: group.map(str::to_owned),
            deduplication_id: None,
        };
        let messages = vec![message; count];
        self.apply(now, Operation::Send { messages });
        self.index
    }

    fn receive(&mut self, now: u64, max: u8) -> Vec<(Name, ReceiptHandle)> {
        let receive = Operation::Receive {
            max,
            visibility_timeout_ms: None,
            attempt_id: None,
        };
        match self.apply(now, receive) {
            Reply::Received(deliveries) => {
                let deliveries = deliveries.into_iter();
                deliveries.map(|it| (it.name, it.receipt)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn delete(&mut self, now: u64, handles: Vec<ReceiptHandle>) {
        self.apply(now, Operation::Delete { handles });
    }
}

/// Numbers without a pattern, the same in each run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

/// The flood's group; none: a flood without one.
enum Flood {
    None,
    OfGroup,
    WithoutGroup,
}

fn dwell(what: &str, flood: &Flood) {
    let (mut queue, mut draw) = (Queue::new(), Draw(7));
    let group = match flood {
        Flood::None => None,
        Flood::OfGroup => Some(Some("flood")),
        Flood::WithoutGroup => Some(None),
    };
    if let Some(group) = group {
        for _ in 0..FLOOD / 10 {
            queue.send(0, group, 10);
        }
    }
    let mut sent: BTreeMap<u64, u64> = BTreeMap::new();
    let mut busy: BTreeMap<(u64, u64), (ReceiptHandle, Option<u64>)> = BTreeMap::new();
    let (mut waits, mut whole, mut used_ms, mut now) = (Vec::new(), Vec::new(), 0, 0);
    while now < SENDING_MS || !sent.is_empty() {
        now += 1;
        if now < SENDING_MS {
            for group in (0..QUIET_GROUPS).filter(|group| (now + group * 50) % 1_000 == 0) {
                let name = format!("quiet {group}");
                sent.insert(queue.send(now, Some(&name), 1), now);
            }
        }
        while let Some(((until, _), (handle, sent_at))) = busy.pop_first() {
            if until > now {
                busy.insert(
                    (
                        until,
                        handle.name.index * 16 + u64::from(handle.name.ordinal),
                    ),
                    (handle, sent_at),
                );
                break;
            }
            queue.delete(now, vec![handle]);
            whole.extend(sent_at.map(|at| now - at));
        }
        while busy.len() < CONSUMERS && queue.partition.has_candidate(QUEUE, now) {
            for (name, handle) in queue.receive(now, 1) {
                let sent_at = sent.remove(&name.index);
                waits.extend(sent_at.map(|at| now - at));
                let until = now + 50 + draw.below(101);
                busy.insert(
                    (until, name.index * 16 + u64::from(name.ordinal)),
                    (handle, sent_at),
                );
            }
        }
        if now <= SENDING_MS {
            used_ms += busy.len();
        }
    }
    let share = used_ms as f64 * 100.0 / (CONSUMERS as u64 * SENDING_MS) as f64;
    println!(
        "{what}: wait p50 {} ms, p99 {} ms; sent to deleted p99 {} ms; consumers busy {share:.1} %",
        percentile(&mut waits, 50),
        percentile(&mut waits, 99),
        percentile(&mut whole, 99),
    );
}

fn percentile(values: &mut [u64], percent: usize) -> u64 {
    values.sort_unstable();
    values[(values.len() * percent / 100).min(values.len() - 1)]
}

/// Million messages a second through send, receive and delete, ten at a time, beside a backlog.
fn rate(groups: usize) -> f64 {
    let mut queue = Queue::new();
    let mut handles = VecDeque::new();
    let names: Vec<String> = (0..groups).map(|group| format!("group {group}")).collect();
    let begun = Instant::now();
    let rounds = 100_000;
    for round in 0..rounds {
        let now = round as u64 / 10;
        let group = names.get(round % groups.max(1)).map(String::as_str);
        queue.send(now, group, 10);
        if round > 1_000 {
            let received = queue.receive(now, 10);
            handles.push_back(received.into_iter().map(|(_, handle)| handle).collect());
        }
        if handles.len() > 100 {
            let handles = handles.pop_front().expect("there are more than a hundred");
            queue.delete(now, handles);
        }
    }
    rounds as f64 * 10.0 / begun.elapsed().as_secs_f64() / 1e6
}

fn main() {
    dwell("without a flood", &Flood::None);
    dwell("a group floods", &Flood::OfGroup);
    dwell("a flood without groups", &Flood::WithoutGroup);
    for groups in [0, 1, 20, 1_000] {
        println!(
            "{groups} groups: {:.3} million messages a second",
            rate(groups)
        );
    }
}
