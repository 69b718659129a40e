//! Scripts: what happens to a partition, in terms that stay meaningful when a script is shortened.
//!
//! A step that needs a receipt handle or an earlier command names it by its place among those there
//! are; the script turns into commands as it runs.

use hikyaku_queue::{
    Command, DeduplicationScope, Delivery, Descriptor, MessageId, MoveOrder, MoveTaskId, Operation,
    PartitionId, QueueId, QueueKind, QueueState, Redrive, Reply, RequestId, SendMessage,
    VisibilityChange,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::model::PARTITION;
use crate::support::{FIFO, HOUR, MINUTE, SECOND, descriptor};

pub const QUEUES: [QueueId; 4] = [QueueId(1), QueueId(2), QueueId(3), QueueId(4)];

#[derive(Debug, Clone)]
pub enum Step {
    Send(Vec<Sending>),
    /// Many messages of one group.
    Flood(u8),
    Receive {
        max: u8,
        timeout: Option<u64>,
        attempt: Option<u8>,
    },
    Delete(Vec<Index>),
    Change(Vec<(Index, u64)>),
    Return {
        receive: Index,
        /// All that it handed out, beside the strays.
        whole: bool,
        strays: Vec<Index>,
    },
    Configure(Setting),
    OldDescriptor,
    Housekeep,
    AskEmpty,
    MoveBack(u8),
    Retry(Index),
}

#[derive(Debug, Clone)]
pub struct Sending {
    delay: Option<u64>,
    group: Option<u8>,
    deduplication: Option<u8>,
}

#[derive(Debug, Clone)]
pub enum Setting {
    Visibility(u64),
    Delay(u64),
    Retention(u64),
    Limit(u32),
    Purge,
    Delete,
    /// The partition leaves the spread, or comes back.
    Leave,
    /// The partition is one of a source, or is not.
    Guest,
    /// Messages leave after so many receives, for another queue of the kind.
    Redrive(Option<u32>),
    /// A new move task, to a queue or to the sources.
    Move(Option<usize>),
    HaltMove,
    EndMove,
}

/// One command: on which queue, whether it comes too late, and the step.
#[derive(Debug, Clone)]
pub struct Act {
    queue: QueueId,
    late: bool,
    step: Step,
}

/// One entry: how far T moves, and the commands.
#[derive(Debug, Clone)]
pub struct Entry {
    pub advance: u64,
    pub acts: Vec<Act>,
}

fn sending() -> impl Strategy<Value = Sending> {
    let some_delay = select(vec![0, SECOND, 2 * MINUTE]);
    let delay = prop::option::weighted(0.2, some_delay);
    let group = prop::option::weighted(0.95, 0u8..3);
    // Mostly new ids; the low ones repeat.
    let deduplication = prop::option::weighted(0.95, prop_oneof![1 => 0u8..4, 4 => 4u8..=255]);
    (delay, group, deduplication).prop_map(|(delay, group, deduplication)| Sending {
        delay,
        group,
        deduplication,
    })
}

fn setting() -> impl Strategy<Value = Setting> {
    prop_oneof![
        1 => select(vec![0, SECOND, 30 * SECOND]).prop_map(Setting::Visibility),
        3 => select(vec![0, 5 * SECOND, 2 * MINUTE]).prop_map(Setting::Delay),
        1 => select(vec![MINUTE, 4 * 24 * HOUR]).prop_map(Setting::Retention),
        1 => select(vec![0, 3, 120_000]).prop_map(Setting::Limit),
        1 => Just(Setting::Purge),
        1 => Just(Setting::Delete),
        1 => Just(Setting::Leave),
        1 => Just(Setting::Guest),
        4 => select(vec![None, Some(1), Some(1), Some(2)]).prop_map(Setting::Redrive),
        4 => select(vec![None, None, None, Some(0), Some(1), Some(2)]).prop_map(Setting::Move),
        1 => Just(Setting::HaltMove),
        1 => Just(Setting::EndMove),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let timeout = select(vec![None, None, Some(0), Some(SECOND), Some(10 * MINUTE)]);
    let change = select(vec![0, 0, SECOND, MINUTE, 12 * HOUR]);
    prop_oneof![
        8 => vec(sending(), 1..5).prop_map(Step::Send),
        8 => (0u8..=10, timeout, prop::option::weighted(0.6, 0u8..2))
            .prop_map(|(max, timeout, attempt)| Step::Receive { max, timeout, attempt }),
        4 => vec(any::<Index>(), 1..4).prop_map(Step::Delete),
        4 => vec((any::<Index>(), change), 1..4).prop_map(Step::Change),
        6 => (any::<Index>(), prop::bool::weighted(0.8), vec(any::<Index>(), 0..2))
            .prop_map(|(receive, whole, strays)| Step::Return { receive, whole, strays }),
        2 => setting().prop_map(Step::Configure),
        1 => Just(Step::OldDescriptor),
        2 => Just(Step::Housekeep),
        1 => Just(Step::AskEmpty),
        4 => select(vec![0, 1, 2, 100]).prop_map(Step::MoveBack),
        4 => any::<Index>().prop_map(Step::Retry),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let advance = select(vec![
        0,
        0,
        1,
        1,
        SECOND,
        SECOND,
        3_999,
        4 * SECOND,
        20 * SECOND,
        30 * SECOND,
        MINUTE,
        5 * MINUTE,
        10 * MINUTE,
    ]);
    let queue = select(vec![
        QUEUES[0], QUEUES[1], QUEUES[2], QUEUES[0], QUEUES[1], QUEUES[3],
    ]);
    let act = (queue, prop::bool::weighted(0.03), step());
    let act = act.prop_map(|(queue, late, step)| Act { queue, late, step });
    (advance, vec(act, 1..4)).prop_map(|(advance, acts)| Entry { advance, acts })
}

/// What happens to one standard queue with message groups.
fn fair_entry() -> impl Strategy<Value = Entry> {
    let timeout = select(vec![
        None,
        None,
        None,
        Some(0),
        Some(SECOND),
        Some(10 * MINUTE),
    ]);
    let step = prop_oneof![
        2 => (0u8..3).prop_map(Step::Flood),
        4 => vec(sending(), 1..5).prop_map(Step::Send),
        9 => (7u8..=10, timeout).prop_map(|(max, timeout)| Step::Receive { max, timeout, attempt: None }),
        1 => step(),
    ];
    let queue = select(vec![QUEUES[0], QUEUES[0], QUEUES[0], QUEUES[3]]);
    let act = (queue, step).prop_map(|(queue, step)| Act {
        queue,
        late: false,
        step,
    });
    let advance = select(vec![
        0,
        1,
        SECOND,
        5 * SECOND,
        20 * SECOND,
        MINUTE,
        5 * MINUTE,
    ]);
    (advance, vec(act, 1..4)).prop_map(|(advance, acts)| Entry { advance, acts })
}

pub fn fair_scripts() -> impl Strategy<Value = Vec<Entry>> {
    vec(fair_entry(), 1..50)
}

pub fn scripts() -> impl Strategy<Value = Vec<Entry>> {
    vec(entry(), 1..80)
}

/// Turns entries into commands.
pub struct Script {
    descriptors: Vec<Descriptor>,
    deliveries: Vec<Delivery>,
    receives: Vec<(RequestId, Vec<Delivery>)>,
    commands: Vec<Command>,
    messages: u64,
    requests: u128,
    tasks: u128,
}

impl Script {
    pub fn new() -> Self {
        let grouped = QueueKind::Fifo {
            dedup_scope: DeduplicationScope::MessageGroup,
        };
        let kinds = [QueueKind::Standard, FIFO, grouped, QueueKind::Standard];
        let mut descriptors: Vec<Descriptor> = QUEUES
            .into_iter()
            .zip(kinds)
            .map(|(id, kind)| descriptor(id, kind))
            .collect();
        // From the start, so that most scripts see dead letters.
        for (from, to) in [(0, 3), (1, 2)] {
            descriptors[from].redrive = Some(Redrive {
                target: QUEUES[to],
                max_receive_count: 2,
                source: "source".to_owned(),
            });
        }
        Self {
            descriptors,
            deliveries: vec![],
            receives: vec![],
            commands: vec![],
            messages: 0,
            requests: 0,
            tasks: 0,
        }
    }

    /// The command for an act at `now`; none if it refers to something that is not there.
    pub fn command(&mut self, now: u64, act: &Act) -> Option<Command> {
        let operation = match &act.step {
            Step::Retry(index) => return self.recent(&self.commands, index).cloned(),
            Step::Send(sendings) => Operation::Send {
                messages: sendings.iter().map(|s| self.message(s)).collect(),
            },
            Step::Flood(group) => Operation::Send {
                messages: (0..40).map(|_| self.one_of_many(*group)).collect(),
            },
            Step::Receive {
                max,
                timeout,
                attempt,
            } => Operation::Receive {
                max: *max,
                visibility_timeout_ms: *timeout,
                attempt_id: attempt.map(|attempt| format!("attempt {attempt}")),
            },
            Step::Delete(picks) => {
                let handles = picks.iter().map(|pick| Some(self.delivery(pick)?.receipt));
                Operation::Delete {
                    handles: handles.collect::<Option<_>>()?,
                }
            }
            Step::Change(picks) => {
                let change = |(pick, timeout_ms): &(Index, u64)| {
                    let handle = self.delivery(pick)?.receipt;
                    Some(VisibilityChange {
                        handle,
                        timeout_ms: *timeout_ms,
                    })
                };
                Operation::ChangeVisibility {
                    changes: picks.iter().map(change).collect::<Option<_>>()?,
                }
            }
            Step::Return {
                receive,
                whole,
                strays,
            } => {
                let (receive, deliveries) = self.recent(&self.receives, receive)?;
                let deliveries = deliveries.iter().filter(|_| *whole).cloned();
                let strays = strays.iter().filter_map(|pick| self.delivery(pick));
                let deliveries = deliveries.chain(strays);
                Operation::ReturnUnread {
                    receive: *receive,
                    deliveries: deliveries
                        .map(|delivery| (delivery.name, delivery.receipt.receive_number))
                        .collect(),
                }
            }
            Step::Configure(setting) => Operation::PutDescriptor(self.configure(act, setting)),
            Step::OldDescriptor => {
                let version = 1;
                Operation::PutDescriptor(Descriptor {
                    version,
                    ..self.descriptor(act).clone()
                })
            }
            Step::Housekeep => Operation::Housekeep,
            Step::AskEmpty => Operation::AskEmpty,
            Step::MoveBack(max) => {
                let order = self.descriptor(act).move_order.as_ref();
                let task = order.map_or(MoveTaskId(0), |order| order.task);
                Operation::MoveBack { task, max: *max }
            }
        };
        self.requests += 1;
        let command = Command {
            request_id: RequestId(self.requests),
            not_after: if act.late {
                now.saturating_sub(1)
            } else {
                now + 20 * SECOND
            },
            queue: self.queue_of(act, &operation),
            descriptor_version: self.descriptor(act).version,
            operation,
        };
        self.commands.push(command.clone());
        Some(command)
    }

    /// Handles mostly go to the queue that gave them out, whatever the act says.
    fn queue_of(&self, act: &Act, operation: &Operation) -> QueueId {
        match operation {
            Operation::ReturnUnread {
                receive,
                deliveries,
            } if deliveries.len() < 9 => {
                let given = self.receives.iter().find(|(id, _)| id == receive);
                given.map_or(act.queue, |(_, deliveries)| deliveries[0].receipt.queue)
            }
            Operation::Delete { handles } if handles.len() < 3 => handles[0].queue,
            Operation::ChangeVisibility { changes } if changes.len() < 3 => changes[0].handle.queue,
            _ => act.queue,
        }
    }

    pub fn note(&mut self, request: RequestId, reply: &Reply) {
        if let Reply::Received(deliveries) = reply
            && !deliveries.is_empty()
        {
            self.deliveries.extend(deliveries.iter().cloned());
            self.receives.push((request, deliveries.clone()));
        }
    }

    /// The descriptor a leader would put after [`Reply::DescriptorNeeded`].
    pub fn put(&mut self, queue: QueueId) -> Command {
        let at = QUEUES.iter().position(|id| *id == queue).unwrap();
        self.requests += 1;
        Command {
            request_id: RequestId(self.requests),
            not_after: 0,
            queue,
            descriptor_version: 0,
            operation: Operation::PutDescriptor(self.descriptors[at].clone()),
        }
    }

    fn descriptor(&self, act: &Act) -> &Descriptor {
        self.descriptors
            .iter()
            .find(|descriptor| descriptor.id == act.queue)
            .unwrap()
    }

    fn configure(&mut self, act: &Act, setting: &Setting) -> Descriptor {
        self.tasks += 1;
        let task = MoveTaskId(self.tasks);
        let descriptor = self
            .descriptors
            .iter_mut()
            .find(|d| d.id == act.queue)
            .unwrap();
        descriptor.version += 1;
        match setting {
            Setting::Visibility(timeout) => descriptor.visibility_timeout_ms = *timeout,
            Setting::Delay(delay) => descriptor.delay_ms = *delay,
            Setting::Retention(retention) => descriptor.retention_ms = *retention,
            Setting::Limit(limit) => descriptor.in_flight_limit = *limit,
            Setting::Purge => descriptor.purge_epoch += 1,
            // Only the fourth queue is ever deleted: the others shall have long lives.
            Setting::Delete if act.queue == QUEUES[3] => descriptor.state = QueueState::Deleted,
            Setting::Delete => descriptor.spread.push(PartitionId(9)),
            Setting::Leave if descriptor.draining.is_empty() => {
                descriptor
                    .spread
                    .retain(|partition| *partition != PARTITION);
                descriptor.draining.push(PARTITION);
            }
            Setting::Guest if descriptor.guests.is_empty() => descriptor.guests.push(PARTITION),
            Setting::Guest => descriptor.guests.clear(),
            Setting::Redrive(limit) => {
                let other = [QUEUES[3], QUEUES[2], QUEUES[1], QUEUES[0]];
                let at = QUEUES.iter().position(|id| *id == act.queue).unwrap();
                descriptor.redrive = limit.map(|max_receive_count| Redrive {
                    target: other[at],
                    max_receive_count,
                    source: format!("queue {}", act.queue),
                });
            }
            Setting::Move(destination) => {
                let named = QUEUES.map(|queue| (format!("queue {queue}"), queue));
                let first = if descriptor.kind == QueueKind::Standard {
                    0
                } else {
                    1
                };
                let first = ("source".to_owned(), QUEUES[first]);
                let named = named.into_iter().skip(1).chain([first]);
                descriptor.move_order = Some(MoveOrder {
                    task,
                    halted: false,
                    destination: destination.map(|at| QUEUES[at]),
                    sources: named.collect(),
                });
            }
            Setting::HaltMove => {
                if let Some(order) = &mut descriptor.move_order {
                    order.halted = true;
                }
            }
            Setting::EndMove => descriptor.move_order = None,
            Setting::Leave => {
                descriptor.draining.clear();
                descriptor.spread.push(PARTITION);
            }
        }
        descriptor.clone()
    }

    fn delivery(&self, index: &Index) -> Option<Delivery> {
        self.recent(&self.deliveries, index).cloned()
    }

    /// The most recent ones are the interesting ones.
    fn recent<'a, T>(&self, from: &'a [T], index: &Index) -> Option<&'a T> {
        let recent = &from[from.len().saturating_sub(12)..];
        (!recent.is_empty()).then(|| index.get(recent))
    }

    fn one_of_many(&mut self, group: u8) -> SendMessage {
        let message = self.message(&Sending {
            delay: None,
            group: Some(group),
            deduplication: None,
        });
        SendMessage {
            deduplication_id: Some(format!("message {}", self.messages)),
            ..message
        }
    }

    fn message(&mut self, sending: &Sending) -> SendMessage {
        self.messages += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.messages.to_be_bytes());
        SendMessage {
            id: MessageId(id),
            body_bytes: 5,
            delay_ms: sending.delay,
            message_group: sending.group.map(|group| format!("group {group}")),
            deduplication_id: sending.deduplication.map(|id| format!("id {id}")),
        }
    }
}
