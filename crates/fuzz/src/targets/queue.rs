//! The queue machine: its state as it is kept, its log entries as they are applied, its values as they
//! are sent between nodes.
//!
//! These bytes come from other nodes of the cluster and from its disks, under checksums: what is wanted
//! of damaged ones is that they are refused, or are a state or an entry as good as any other.

use std::collections::BTreeMap;

use hikyaku_queue::{
    Command, DeduplicationScope, Descriptor, LATEST_T, MessageId, MoveOrder, MoveTaskId, Name,
    Operation, Partition, PartitionId, QueueId, QueueKind, QueueState, ReceiptHandle, Reply,
    RequestId, SendMessage, VisibilityChange, decode_head, encode_head,
};

use super::{Seen, Target, magnitude};
use crate::memory::Bound;

/// A message that waits is some bytes of state, and some more words of index.
const MEMORY: Bound = Bound {
    fixed: 256 << 10,
    per_byte: 256,
};

/// The state of a partition.
pub const CHECKPOINTS: Target = Target {
    name: "queue_checkpoints",
    seeds: || {
        let states = [empty(), standard(), fifo(), prepared()];
        states.iter().map(Partition::encode).collect()
    },
    words: &[],
    memory: MEMORY,
    judge: || {
        Box::new(|input| match Partition::decode(input) {
            Ok(mut partition) => {
                let written = assert_sound(&partition);
                // Decoding checks what a state is, and not all that it can become.
                go_on(&mut partition);
                Seen::accepted((magnitude(written.len()), partition.live_runs().len()))
            }
            Err(error) => Seen::refused(&error.to_string()),
        })
    },
};

/// Log entries, applied to a partition with something of everything.
pub const ENTRIES: Target = Target {
    name: "queue_entries",
    seeds: || {
        operations()
            .into_iter()
            .map(|some| encode_head(NOW, &some))
            .collect()
    },
    words: &["g", "d", "again"],
    memory: MEMORY,
    judge: || {
        let state = prepared().encode();
        Box::new(move |input| {
            let mut partition = Partition::decode(&state).expect("a state that was written");
            let index = partition.applied().index + 1;
            let applied = partition.apply_entry(index, input);
            let (now, commands) = match decode_head(input) {
                Ok(head) => head,
                Err(error) => {
                    assert_eq!(applied.err(), Some(error), "an entry that cannot be read");
                    return Seen::refused(&error.to_string());
                }
            };
            let written = encode_head(now, &commands);
            assert_eq!(decode_head(&written).as_ref(), Ok(&(now, commands)));
            let outcomes = applied.expect("an entry that can be read is applied");
            let mut kinds = Vec::new();
            for outcome in &outcomes {
                let reply = outcome.reply.encode();
                assert_eq!(Reply::decode(&reply).as_ref(), Ok(&outcome.reply));
                kinds.push((
                    std::mem::discriminant(&outcome.reply),
                    magnitude(reply.len()),
                ));
            }
            assert_sound(&partition);
            Seen::accepted(kinds)
        })
    },
};

/// Commands, replies and descriptors; the first byte says which.
pub const VALUES: Target = Target {
    name: "queue_values",
    seeds: values,
    words: &["g", "again"],
    memory: Bound {
        fixed: 8 << 10,
        per_byte: 64,
    },
    judge: || {
        Box::new(|input| {
            let Some((kind, bytes)) = input.split_first() else {
                return Seen::refused("nothing");
            };
            let read = match kind % 3 {
                0 => Command::decode(bytes).map(|command| {
                    assert_eq!(Command::decode(&command.encode()).as_ref(), Ok(&command));
                    std::mem::size_of_val(&command) + command.message_count()
                }),
                1 => Reply::decode(bytes).map(|reply| {
                    assert_eq!(Reply::decode(&reply.encode()).as_ref(), Ok(&reply));
                    usize::from(bytes[1])
                }),
                _ => Descriptor::decode(bytes).map(|descriptor| {
                    let written = descriptor.encode();
                    assert_eq!(Descriptor::decode(&written).as_ref(), Ok(&descriptor));
                    descriptor.visited().count()
                }),
            };
            match read {
                Ok(size) => Seen::accepted((kind % 3, magnitude(size))),
                Err(error) => Seen::refused(&error.to_string()),
            }
        })
    },
};

/// Checks a state: it keeps its invariants, and comes back as it is written.
fn assert_sound(partition: &Partition) -> Vec<u8> {
    partition.validate();
    let written = partition.encode();
    let again = Partition::decode(&written).expect("a state that was written is read");
    assert!(
        again.encode() == written,
        "a state comes back as it was written"
    );
    written
}

/// Later than all that happens in the states here, in ms since the epoch.
const NOW: u64 = 1_700_000_100_000;

const PARTITION: PartitionId = PartitionId(3);
const STANDARD: QueueId = QueueId(7);
const FIFO: QueueId = QueueId(8);

/// Up to this index, a state has room for what may still happen to it.
const LATE_INDEX: u64 = 1 << 39;

/// What usually happens next to a partition.
fn go_on(partition: &mut Partition) {
    let now = partition.now();
    if partition.applied().index > LATE_INDEX || now > LATEST_T / 2 {
        return;
    }
    let operations = operations().into_iter().take(3).flatten();
    for (step, command) in (1..).zip(operations) {
        let index = partition.applied().index + 1;
        let entry = encode_head(now + step * 20_000, &[command]);
        let applied = partition.apply_entry(index, &entry);
        applied.expect("an entry that was written is applied");
    }
}

fn descriptor(id: QueueId, kind: QueueKind) -> Descriptor {
    Descriptor {
        id,
        version: 1,
        state: QueueState::Active,
        kind,
        visibility_timeout_ms: 30_000,
        delay_ms: 0,
        retention_ms: 345_600_000,
        purge_epoch: 0,
        in_flight_limit: 120_000,
        spread: vec![PARTITION],
        draining: vec![],
        guests: Vec::new(),
        redrive: None,
        move_order: None,
    }
}

fn message(number: u8, message_group: Option<&str>) -> SendMessage {
    SendMessage {
        id: MessageId([number; 16]),
        body_bytes: 1_000,
        delay_ms: (number == 3).then_some(5_000),
        message_group: message_group.map(str::to_owned),
        deduplication_id: message_group.map(|_| format!("d{number}")),
    }
}

fn command(request: u128, queue: QueueId, operation: Operation) -> Command {
    Command {
        request_id: RequestId(request),
        not_after: NOW + 20_000,
        queue,
        descriptor_version: 1,
        operation,
    }
}

fn receive(attempt_id: Option<&str>) -> Operation {
    Operation::Receive {
        max: 2,
        visibility_timeout_ms: None,
        attempt_id: attempt_id.map(str::to_owned),
    }
}

/// The first receive of a message of the prepared state.
fn handle(queue: QueueId, index: u64, ordinal: u32) -> ReceiptHandle {
    ReceiptHandle {
        partition: PARTITION,
        queue,
        name: Name { index, ordinal },
        receive_number: 1,
        received_at: NOW - 1_000,
        deadline: NOW + 29_000,
    }
}

fn apply(partition: &mut Partition, now: u64, commands: &[Command]) {
    let index = partition.applied().index + 1;
    let applied = partition.apply_entry(index, &encode_head(now, commands));
    applied.expect("an entry that was written is applied");
}

fn empty() -> Partition {
    Partition::new(PARTITION)
}

fn hosting(id: QueueId, kind: QueueKind) -> Partition {
    let mut partition = empty();
    put(&mut partition, id, kind);
    partition
}

fn put(partition: &mut Partition, id: QueueId, kind: QueueKind) {
    let put = Operation::PutDescriptor(descriptor(id, kind));
    apply(
        partition,
        NOW - 60_000,
        &[command(u128::from(id.0), id, put)],
    );
}

fn standard() -> Partition {
    let mut partition = hosting(STANDARD, QueueKind::Standard);
    let messages = (1..6).map(|number| message(number, None)).collect();
    let send = Operation::Send { messages };
    apply(&mut partition, NOW - 50_000, &[command(20, STANDARD, send)]);
    partition
}

fn by_group() -> QueueKind {
    QueueKind::Fifo {
        dedup_scope: DeduplicationScope::MessageGroup,
    }
}

fn fifo() -> Partition {
    let mut partition = hosting(FIFO, by_group());
    send_to_groups(&mut partition);
    partition
}

fn send_to_groups(partition: &mut Partition) {
    let groups = ["g", "h", "g", "h"];
    let messages = (4..)
        .zip(groups)
        .map(|(number, group)| message(number, Some(group)));
    let send = Operation::Send {
        messages: messages.collect(),
    };
    apply(partition, NOW - 40_000, &[command(21, FIFO, send)]);
}

/// Both kinds of queue with messages that wait, are delayed and in flight, and a queue that is gone.
fn prepared() -> Partition {
    let mut partition = standard();
    put(&mut partition, FIFO, by_group());
    send_to_groups(&mut partition);
    let gone = Descriptor {
        state: QueueState::Deleted,
        ..descriptor(QueueId(9), QueueKind::Standard)
    };
    let commands = [
        command(22, gone.id, Operation::PutDescriptor(gone.clone())),
        command(23, STANDARD, receive(None)),
        command(24, FIFO, receive(Some("again"))),
    ];
    apply(&mut partition, NOW - 1_000, &commands);
    partition
}

/// Entries of one operation each, and one of them all.
fn operations() -> Vec<Vec<Command>> {
    let one = |operation| vec![command(30, STANDARD, operation)];
    let fifo = |operation| vec![command(31, FIFO, operation)];
    let send = |group| Operation::Send {
        messages: vec![message(9, group), message(3, group)],
    };
    let change = |queue, index, timeout_ms| VisibilityChange {
        handle: handle(queue, index, 0),
        timeout_ms,
    };
    let wider = Descriptor {
        version: 2,
        purge_epoch: 1,
        delay_ms: 1_000,
        draining: vec![PartitionId(4)],
        ..descriptor(STANDARD, QueueKind::Standard)
    };
    let moving = Descriptor {
        version: 3,
        move_order: Some(MoveOrder {
            task: MoveTaskId(5),
            halted: false,
            destination: Some(STANDARD),
            sources: BTreeMap::from([("q".to_owned(), FIFO)]),
        }),
        ..wider.clone()
    };
    let mut entries = vec![
        one(Operation::Housekeep),
        one(receive(None)),
        fifo(receive(None)),
        fifo(receive(Some("again"))),
        one(send(None)),
        fifo(send(Some("g"))),
        one(Operation::Delete {
            handles: vec![handle(STANDARD, 2, 0), handle(STANDARD, 2, 1)],
        }),
        fifo(Operation::Delete {
            handles: vec![handle(FIFO, 4, 0)],
        }),
        one(Operation::ChangeVisibility {
            changes: vec![change(STANDARD, 2, 0), change(STANDARD, 2, 43_200_000)],
        }),
        fifo(Operation::ChangeVisibility {
            changes: vec![change(FIFO, 4, 1_000)],
        }),
        one(Operation::ReturnUnread {
            receive: RequestId(23),
            deliveries: vec![(handle(STANDARD, 2, 0).name, 1)],
        }),
        one(Operation::PutDescriptor(wider)),
        one(Operation::AskEmpty),
        one(Operation::PutDescriptor(moving)),
        one(Operation::MoveBack {
            task: MoveTaskId(5),
            max: 100,
        }),
    ];
    let all = entries.iter().flatten().cloned();
    let numbered = (40..).zip(all).map(|(request, command)| Command {
        request_id: RequestId(request),
        ..command
    });
    entries.push(numbered.collect());
    entries
}

fn values() -> Vec<Vec<u8>> {
    let tagged = |tag: u8| move |bytes: Vec<u8>| [vec![tag], bytes].concat();
    let commands = operations().into_iter().flatten();
    let commands = commands.map(|command| command.encode()).map(tagged(0));
    let mut partition = prepared();
    let index = partition.applied().index + 1;
    let all = operations().pop().expect("there are some");
    let outcomes = partition.apply_entry(index, &encode_head(NOW, &all));
    let outcomes = outcomes.expect("an entry that was written is applied");
    let replies = outcomes.into_iter().map(|outcome| outcome.reply.encode());
    let descriptors = [
        descriptor(STANDARD, QueueKind::Standard),
        descriptor(FIFO, by_group()),
    ];
    let descriptors = descriptors
        .map(|descriptor| descriptor.encode())
        .map(tagged(2));
    commands
        .chain(replies.map(tagged(1)))
        .chain(descriptors)
        .collect()
}
