//! Version 1 of everything persisted or sent: what it is, byte for byte, and that all of it comes
//! back. A change that breaks a pinned test breaks clusters: make a version 2 beside it.

use hikyaku_queue::{
    ChangeVisibilityError, Command, DecodeError, DeduplicationScope, DeleteError, Delivery,
    Descriptor, HandleKey, HandleSealer, LATEST_T, MessageId, MoveObstacle, MoveOrder, MoveTaskId,
    Name, Operation, Origin, Partition, PartitionId, QueueId, QueueKind, QueueState, ReceiptHandle,
    Redrive, Reply, RequestId, SendError, SendMessage, Sent, VisibilityChange, decode_head,
    encode_head,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

use crate::support::{Queue, SECOND, grouped, message};

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn handle() -> ReceiptHandle {
    ReceiptHandle {
        partition: PartitionId(3),
        queue: QueueId(300),
        name: Name {
            index: 70_000,
            ordinal: 5,
        },
        receive_number: 2,
        received_at: 1_700_000_000_000,
        deadline: 1_700_000_030_000,
    }
}

fn fifo_descriptor() -> Descriptor {
    Descriptor {
        id: QueueId(300),
        version: 2,
        state: QueueState::Active,
        kind: QueueKind::Fifo {
            dedup_scope: DeduplicationScope::MessageGroup,
        },
        visibility_timeout_ms: 30_000,
        delay_ms: 0,
        retention_ms: 345_600_000,
        purge_epoch: 1,
        in_flight_limit: 120_000,
        spread: vec![PartitionId(3), PartitionId(200)],
        draining: vec![],
        guests: Vec::new(),
        redrive: None,
        move_order: None,
    }
}

fn operations() -> Vec<Operation> {
    let message = SendMessage {
        id: MessageId([0xab; 16]),
        body_bytes: 1_000,
        delay_ms: Some(5_000),
        message_group: Some("g".to_owned()),
        deduplication_id: None,
    };
    vec![
        Operation::Send {
            messages: vec![message],
        },
        Operation::Receive {
            max: 10,
            visibility_timeout_ms: Some(0),
            attempt_id: Some("a".to_owned()),
        },
        Operation::Delete {
            handles: vec![handle()],
        },
        Operation::ChangeVisibility {
            changes: vec![VisibilityChange {
                handle: handle(),
                timeout_ms: 1_000,
            }],
        },
        Operation::ReturnUnread {
            receive: RequestId(0x0304),
            deliveries: vec![(
                Name {
                    index: 1,
                    ordinal: 2,
                },
                3,
            )],
        },
        Operation::PutDescriptor(fifo_descriptor()),
        Operation::Housekeep,
        Operation::AskEmpty,
        Operation::MoveBack {
            task: MoveTaskId(0x0506),
            max: 100,
        },
    ]
}

fn command(operation: Operation) -> Command {
    Command {
        request_id: RequestId(0x0102),
        not_after: 1_700_000_020_000,
        queue: QueueId(300),
        descriptor_version: 2,
        operation,
    }
}

fn replies() -> Vec<Reply> {
    let sent = Sent {
        id: MessageId([0xcd; 16]),
        sequence: Some(1 << 60),
        duplicate: true,
    };
    let delivery = Delivery {
        name: Name {
            index: 70_000,
            ordinal: 5,
        },
        receive_count: 1,
        first_received_at: 1_700_000_000_000,
        deadline: 1_700_000_030_000,
        sequence: None,
        receipt: handle(),
        origin: None,
    };
    vec![
        Reply::Sent(vec![
            Ok(sent),
            Err(SendError::NoMessageGroup),
            Err(SendError::NoDeduplicationId),
            Err(SendError::DelayOnFifo),
        ]),
        Reply::Received(vec![delivery]),
        Reply::Deleted(vec![
            Ok(()),
            Err(DeleteError::ForeignHandle),
            Err(DeleteError::HandleExpired),
        ]),
        Reply::VisibilityChanged(vec![
            Ok(()),
            Err(ChangeVisibilityError::ForeignHandle),
            Err(ChangeVisibilityError::HandleExpired),
            Err(ChangeVisibilityError::NotAvailable),
            Err(ChangeVisibilityError::TotalTimeoutTooLong),
        ]),
        Reply::Returned,
        Reply::DescriptorPut,
        Reply::Housekept,
        Reply::Late,
        Reply::QueueGone,
        Reply::DescriptorNeeded { have: Some(300) },
        Reply::OverInFlightLimit,
        Reply::TakesNoSends,
        Reply::Emptiness { empty: true },
        Reply::TargetNeeded {
            target: QueueId(300),
        },
        Reply::MovedBack {
            now: 100,
            total: 300,
            done: true,
        },
        Reply::MoveBlocked(MoveObstacle::NoPlace {
            source: Some("q".into()),
        }),
        Reply::MoveBlocked(MoveObstacle::NoSource),
        Reply::NoMoveTask,
    ]
}

#[test]
fn descriptors_are_pinned() {
    let bytes = fifo_descriptor().encode();
    assert_eq!(
        hex(&bytes),
        "01ac02020103b0ea010080e0e5a40101c0a9070203c801"
    );
    assert_eq!(Descriptor::decode(&bytes), Ok(fifo_descriptor()));
}

#[test]
fn descriptors_with_draining_partitions_are_pinned() {
    let draining = Descriptor {
        draining: vec![PartitionId(4)],
        ..fifo_descriptor()
    };
    let bytes = draining.encode();
    assert_eq!(
        hex(&bytes),
        "02ac02020103b0ea010080e0e5a40101c0a9070203c8010104"
    );
    assert_eq!(Descriptor::decode(&bytes), Ok(draining));
}

#[test]
fn descriptors_with_a_redrive_are_pinned() {
    let redriving = Descriptor {
        guests: vec![PartitionId(6)],
        redrive: Some(Redrive {
            target: QueueId(5),
            max_receive_count: 1_000,
            source: "q".to_owned(),
        }),
        ..fifo_descriptor()
    };
    let bytes = redriving.encode();
    assert_eq!(
        hex(&bytes),
        "03ac02020103b0ea010080e0e5a40101c0a9070203c8010001060105e8070171"
    );
    assert_eq!(Descriptor::decode(&bytes), Ok(redriving));
}

#[test]
fn descriptors_with_a_move_order_are_pinned() {
    let moving = Descriptor {
        move_order: Some(MoveOrder {
            task: MoveTaskId(0x0506),
            halted: true,
            destination: Some(QueueId(5)),
            sources: BTreeMap::from([("q".to_owned(), QueueId(6))]),
        }),
        ..fifo_descriptor()
    };
    let bytes = moving.encode();
    assert_eq!(
        hex(&bytes),
        "04ac02020103b0ea010080e0e5a40101c0a9070203c8010000000000000000000000000000000000\
         050601010501017106"
    );
    assert_eq!(Descriptor::decode(&bytes), Ok(moving));
}

#[test]
fn deliveries_of_what_came_back_are_pinned() {
    let Reply::Received(mut deliveries) = replies().swap_remove(1) else {
        panic!("the second reply is a receive's");
    };
    let (index, ordinal) = (9, 1);
    deliveries.push(deliveries[0].clone());
    deliveries[0].origin = Some(Box::new(Origin {
        body: Name { index, ordinal },
        sent_at: Some(5),
        source: None,
        redriven: Some(Name { index: 7, ordinal }),
    }));
    let reply = Reply::Received(deliveries);
    let bytes = reply.encode();
    assert_eq!(
        hex(&bytes),
        "011302f0a204050180d095ffbc31b0ba97ffbc310003ac02f0a204050280d095ffbc31b0ba97ffbc\
         31010901010500010701f0a204050180d095ffbc31b0ba97ffbc310003ac02f0a204050280d095ff\
         bc31b0ba97ffbc3100"
    );
    assert_eq!(Reply::decode(&bytes), Ok(reply));
}

#[test]
fn deliveries_of_dead_letters_are_pinned() {
    let Reply::Received(mut deliveries) = replies().swap_remove(1) else {
        panic!("the second reply is a receive's");
    };
    deliveries[0].origin = Some(Box::new(Origin {
        body: Name {
            index: 9,
            ordinal: 1,
        },
        sent_at: Some(5),
        source: Some("q".into()),
        redriven: None,
    }));
    let reply = Reply::Received(deliveries);
    let bytes = reply.encode();
    assert_eq!(
        hex(&bytes),
        "010e01f0a204050180d095ffbc31b0ba97ffbc310003ac02f0a204050280d095ffbc31b0ba97ffbc\
         3101090101050171"
    );
    assert_eq!(Reply::decode(&bytes), Ok(reply));
}

#[test]
fn commands_are_pinned() {
    for (operation, pinned) in operations().into_iter().zip(COMMANDS) {
        let command = command(operation);
        let bytes = command.encode();
        assert_eq!(hex(&bytes), pinned);
        assert_eq!(Command::decode(&bytes), Ok(command));
    }
}

#[test]
fn replies_are_pinned() {
    for (reply, pinned) in replies().into_iter().zip(REPLIES) {
        let bytes = reply.encode();
        assert_eq!(hex(&bytes), pinned);
        assert_eq!(Reply::decode(&bytes), Ok(reply));
    }
}

#[test]
fn heads_are_pinned() {
    let commands = [
        command(Operation::Housekeep),
        command(operations().swap_remove(0)),
    ];
    let bytes = encode_head(1_700_000_000_000, &commands);
    assert_eq!(hex(&bytes), HEAD);
    assert_eq!(
        decode_head(&bytes),
        Ok((1_700_000_000_000, commands.to_vec()))
    );
}

#[test]
fn heads_that_could_not_be_read_are_not_written() {
    let latest = encode_head(LATEST_T, &[command(Operation::Housekeep)]);
    assert_eq!(decode_head(&latest).unwrap().0, LATEST_T);
    let send = |count| {
        command(Operation::Send {
            messages: vec![message("m"); count],
        })
    };
    assert!(decode_head(&encode_head(5, &[send(65_535), send(1)])).is_ok());
    let too_late = std::panic::catch_unwind(|| encode_head(LATEST_T + 1, &[]));
    let too_many = std::panic::catch_unwind(|| encode_head(5, &[send(65_536), send(1)]));
    assert!(too_late.is_err() && too_many.is_err());
}

#[test]
fn sealed_handles_are_pinned() {
    let sealer = HandleSealer::new(
        HandleKey {
            id: 1,
            secret: [7; 64],
        },
        None,
    );
    assert_eq!(
        sealer.seal(&handle()),
        "AQEBPJ4dVdTu4bK/DwU7O5VQ8G3I2UeVRnzw4lampt4OErc9EmflbCJQWFRVO1+J+MPtf8URGxFXzgD3pwTU"
    );
}

/// A partition with one of everything that a checkpoint can hold.
fn partition() -> Partition {
    let mut queue = Queue::fifo();
    queue.put(0, |descriptor| descriptor.delay_ms = SECOND);
    queue.send_to(0, "a", "a1");
    queue.send_to(0, "a", "a2");
    queue.send_to(500, "b", "b1");
    queue.receive_with(SECOND, 1, None, Some("try"));
    let fifo = queue.descriptor.clone();
    queue.descriptor = crate::support::descriptor(QueueId(8), QueueKind::Standard);
    queue.put(SECOND, |_| ());
    let mut delayed = message("delayed");
    delayed.delay_ms = Some(SECOND);
    queue.send_messages(SECOND, vec![message("one"), delayed, message("two")]);
    let receive = queue.receive_command(None);
    let deliveries = queue.receive_as(SECOND, &receive);
    queue.return_unread(SECOND, &receive, &deliveries);
    let receive = queue.receive_command(None);
    queue.receive_as(SECOND, &receive);
    queue.receive_as(SECOND, &receive);
    queue.descriptor = Descriptor {
        id: QueueId(9),
        state: QueueState::Deleted,
        ..fifo
    };
    queue.put(SECOND, |_| ());
    queue.partition
}

#[test]
fn checkpoints_are_pinned() {
    let state = partition().encode();
    assert_eq!(hex(&state), CHECKPOINT);
    assert_eq!(Partition::decode(&state).unwrap().encode(), state);
}

/// A partition with one of everything that the message groups of a standard queue can have.
fn fair_partition() -> Partition {
    let mut queue = Queue::standard();
    queue.send_messages(0, vec![grouped("noisy", "m"); 3]);
    queue.receive(1, 1);
    queue.receive(SECOND, 1);
    let mut delayed = grouped("quiet", "later");
    delayed.delay_ms = Some(SECOND);
    queue.send_messages(
        SECOND,
        vec![message("alone"), grouped("quiet", "now"), delayed],
    );
    queue.partition
}

#[test]
fn checkpoints_with_fair_groups_are_pinned() {
    let state = fair_partition().encode();
    assert_eq!(
        hex(&state[state.len() - FAIR_GROUPS.len() / 2..]),
        FAIR_GROUPS
    );
    assert_eq!(Partition::decode(&state).unwrap().encode(), state);
    for length in 0..state.len() {
        assert!(Partition::decode(&state[..length]).is_err(), "{length}");
    }
}

#[test]
fn checkpoints_that_keep_all_answers_are_read() {
    let partition = Partition::decode(&unhex(CHECKPOINT_WITH_ALL_ANSWERS)).unwrap();
    assert_eq!(hex(&partition.encode()), CHECKPOINT_WITH_ALL_ANSWERS);
}

#[test]
fn unknown_versions_are_refused() {
    let mut bytes = partition().encode();
    bytes[0] = 5;
    assert_eq!(
        Partition::decode(&bytes).unwrap_err(),
        DecodeError::UnknownVersion(5)
    );
}

#[test]
fn cut_or_padded_bytes_are_refused() {
    let whole = partition().encode();
    for length in 0..whole.len() {
        assert!(
            Partition::decode(&whole[..length]).is_err(),
            "cut at {length}"
        );
    }
    let padded = [whole, vec![0]].concat();
    assert_eq!(
        Partition::decode(&padded).unwrap_err(),
        DecodeError::LeftOver(1)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// What a damaged checkpoint decodes to, if it does, keeps every invariant: decoding checks.
    #[test]
    fn damaged_checkpoints_do_not_panic(at: prop::sample::Index, to: u8) {
        let mut state = partition().encode();
        let at = at.index(state.len());
        state[at] = to;
        if let Ok(partition) = Partition::decode(&state) {
            partition.validate();
        }
    }

    #[test]
    fn damaged_fair_groups_do_not_panic(at: prop::sample::Index, to: u8) {
        let mut state = fair_partition().encode();
        let at = at.index(state.len());
        state[at] = to;
        if let Ok(partition) = Partition::decode(&state) {
            partition.validate();
        }
    }

    #[test]
    fn damaged_heads_do_not_panic(at: prop::sample::Index, to: u8) {
        let commands: Vec<Command> = operations().into_iter().map(command).collect();
        let mut head = encode_head(5, &commands);
        let at = at.index(head.len());
        head[at] = to;
        let _ = partition().apply_entry(1_000, &head);
    }

    #[test]
    fn garbage_is_refused_or_read(bytes: Vec<u8>) {
        let _ = Partition::decode(&bytes);
        let _ = decode_head(&bytes);
        let _ = Reply::decode(&bytes);
        let _ = Descriptor::decode(&bytes);
    }
}

/// The end of [`fair_partition`]'s checkpoint.
const FAIR_GROUPS: &str = "\
    000107e707e80702056e6f6973790001e807e707e807018280088120028080088180080571756965\
    74e8070000e8070181801481a080d00f01828014";

const HEAD: &str = "\
    0180d095ffbc310200000000000000000000000000000102a0ec96ffbc31ac020207000000000000\
    00000000000000000102a0ec96ffbc31ac02020101ababababababababababababababababe80701\
    882701016700";

const COMMANDS: [&str; 9] = [
    "0100000000000000000000000000000102a0ec96ffbc31ac02020101abababababababababababab\
     ababababe80701882701016700",
    "0100000000000000000000000000000102a0ec96ffbc31ac0202020a0100010161",
    "0100000000000000000000000000000102a0ec96ffbc31ac0202030103ac02f0a204050280d095ff\
     bc31b0ba97ffbc31",
    "0100000000000000000000000000000102a0ec96ffbc31ac0202040103ac02f0a204050280d095ff\
     bc31b0ba97ffbc31e807",
    "0100000000000000000000000000000102a0ec96ffbc31ac0202050000000000000000000000000000030401\
     010203",
    "0100000000000000000000000000000102a0ec96ffbc31ac0202061701ac02020103b0ea010080e0\
     e5a40101c0a9070203c801",
    "0100000000000000000000000000000102a0ec96ffbc31ac020207",
    "0100000000000000000000000000000102a0ec96ffbc31ac020208",
    "0100000000000000000000000000000102a0ec96ffbc31ac0202090000000000000000000000000000050664",
];

const REPLIES: [&str; 18] = [
    "01010400cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd0180808080808080801001010203",
    "010201f0a204050180d095ffbc31b0ba97ffbc310003ac02f0a204050280d095ffbc31b0ba97ffbc\
     31",
    "010303000102",
    "0104050001020304",
    "0105",
    "0106",
    "0107",
    "0108",
    "0109",
    "010a01ac02",
    "010b",
    "010c",
    "010d01",
    "010fac02",
    "011064ac0201",
    "0111010171",
    "0112",
    "0114",
];

const CHECKPOINT: &str = "\
    01038b0de8070700000000000000000000000000000003ffffffffffffffffff0100200101010061\
    3100000000000000000000000000000180808c80808080808b010000000000000000000000000000\
    000004ffffffffffffffffff01002001010100613200000000000000000000000000000180809080\
    808080808b010000000000000000000000000000000005ffffffffffffffffff0100200101010062\
    3100000000000000000000000000000180809480808080808b010000000000000000000000000000\
    000006ffffffffffffffffff010020010201030001e80798f2010180808c80808080808b01030703\
    0001e80798f20100000000000000000000000000000008ffffffffffffffffff0100000000000000\
    000000000000000000000affffffffffffffffff0100020105000000000000000000000000000000\
    0bffffffffffffffffff010129010202080001e80798f201000308080002e80798f201080201e807\
    98f201000308080202e80798f201010903a8d72402150107020102b0ea01e80780e0e5a40100c0a9\
    070103e807e8070180800c0098f201e80701000201610180800c0180801081200162000180801481\
    a080fa010001f403808014010103026131006131000000000000000000000000000080800c026132\
    0061320000000000000000000000000000808010026231f403623100000000000000000000000000\
    008080140103747279e8070000000000000000000000000000000601030001e80798f2010180808c\
    80808080808b010307030001e80798f201140108020101b0ea010080e0e5a40100c0a9070103e807\
    0000e80703808020a01f98f201e8070101818020a01fd00f000000828020a01f98f201e8070101";

/// Of the same partition, from when the answers to sends on standard queues were kept as well.
const CHECKPOINT_WITH_ALL_ANSWERS: &str = "\
    01038b0de8070700000000000000000000000000000003ffffffffffffffffff0100200101010061\
    3100000000000000000000000000000180808c80808080808b010000000000000000000000000000\
    000004ffffffffffffffffff01002001010100613200000000000000000000000000000180809080\
    808080808b010000000000000000000000000000000005ffffffffffffffffff0100200101010062\
    3100000000000000000000000000000180809480808080808b010000000000000000000000000000\
    000006ffffffffffffffffff010020010201030001e80798f2010180808c80808080808b01030703\
    0001e80798f20100000000000000000000000000000008ffffffffffffffffff01003c010103006f\
    6e650000000000000000000000000000000064656c6179656400000000000000000000000074776f\
    0000000000000000000000000000000000000000000000000000000000000affffffffffffffffff\
    01000201050000000000000000000000000000000bffffffffffffffffff010129010202080001e8\
    0798f201000308080002e80798f201080201e80798f201000308080202e80798f201010903a8d724\
    02150107020102b0ea01e80780e0e5a40100c0a9070103e807e8070180800c0098f201e807010002\
    01610180800c0180801081200162000180801481a080fa010001f403808014010103026131006131\
    000000000000000000000000000080800c0261320061320000000000000000000000000000808010\
    026231f403623100000000000000000000000000008080140103747279e807000000000000000000\
    0000000000000601030001e80798f2010180808c80808080808b010307030001e80798f201140108\
    020101b0ea010080e0e5a40100c0a9070103e8070000e80703808020a01f98f201e8070101818020\
    a01fd00f000000828020a01f98f201e8070101";
