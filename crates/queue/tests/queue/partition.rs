//! Stories of what all operations share: retries, lateness, descriptors, purge, housekeeping.

use hikyaku_queue::{
    Command, Descriptor, LiveRun, Operation, Partition, PartitionId, QueueId, QueueKind,
    QueueState, Reply, RequestId, encode_head,
};

use crate::support::{MINUTE, QUEUE, Queue, SECOND, descriptor, message};

fn receive() -> Operation {
    Operation::Receive {
        max: 10,
        visibility_timeout_ms: None,
        attempt_id: None,
    }
}

#[test]
fn a_retry_gets_the_same_answer_and_changes_nothing() {
    let mut queue = Queue::standard();
    let send = queue.command(Operation::Send {
        messages: vec![message("one")],
    });
    let first = queue.apply_command(0, send.clone());
    assert_eq!(queue.apply_command(1, send), first);
    assert_eq!(queue.counts(1), (1, 0, 0));
    let receive = queue.command(receive());
    let handed_out = queue.apply_command(2, receive.clone());
    assert!(matches!(&handed_out, Reply::Received(deliveries) if deliveries.len() == 1));
    assert_eq!(queue.apply_command(3, receive), handed_out);
}

#[test]
fn a_receive_that_found_nothing_may_be_tried_again() {
    let mut queue = Queue::standard();
    let receive = queue.command(receive());
    assert_eq!(
        queue.apply_command(0, receive.clone()),
        Reply::Received(vec![])
    );
    queue.send(1, &["one"]);
    assert!(matches!(queue.apply_command(2, receive), Reply::Received(found) if found.len() == 1));
}

#[test]
fn a_late_command_has_no_effect() {
    let mut queue = Queue::standard();
    let send = queue.command(Operation::Send {
        messages: vec![message("one")],
    });
    let send = Command {
        not_after: 10,
        ..send
    };
    assert!(matches!(
        queue.apply_command(10, send.clone()),
        Reply::Sent(_)
    ));
    assert_eq!(queue.apply_command(11, send), Reply::Late);
    assert_eq!(queue.counts(11), (1, 0, 0));
}

#[test]
fn a_retry_at_the_last_moment_is_still_a_retry() {
    let mut queue = Queue::standard();
    let send = queue.command(Operation::Send {
        messages: vec![message("one")],
    });
    let send = Command {
        not_after: 10,
        ..send
    };
    queue.apply_command(0, send.clone());
    queue.apply(10, Operation::Housekeep);
    assert!(matches!(queue.apply_command(10, send), Reply::Sent(_)));
    assert_eq!(queue.counts(10), (1, 0, 0));
}

#[test]
fn asks_for_a_descriptor_it_lacks_and_then_takes_the_retry() {
    let mut partition = Partition::new(PartitionId(3));
    let send = Command {
        request_id: RequestId(1),
        not_after: 100,
        queue: QUEUE,
        descriptor_version: 2,
        operation: Operation::Send {
            messages: vec![message("one")],
        },
    };
    let put = |version| Command {
        request_id: RequestId(9),
        not_after: 0,
        queue: QUEUE,
        descriptor_version: 0,
        operation: Operation::PutDescriptor(Descriptor {
            version,
            ..descriptor(QUEUE, QueueKind::Standard)
        }),
    };
    let commands = [send.clone(), put(1), send.clone(), put(2), send];
    let outcomes = partition
        .apply_entry(1, &encode_head(5, &commands))
        .unwrap();
    assert_eq!(outcomes[0].reply, Reply::DescriptorNeeded { have: None });
    assert_eq!(outcomes[2].reply, Reply::DescriptorNeeded { have: Some(1) });
    assert!(matches!(outcomes[4].reply, Reply::Sent(_)));
    let live = LiveRun {
        first_index: 1,
        ordinal: 2,
        entries: 1,
        count: 1,
    };
    assert_eq!(
        partition.live_runs(),
        [live],
        "refused messages take their ordinals with them"
    );
}

#[test]
fn an_older_descriptor_changes_nothing() {
    let mut queue = Queue::standard();
    let old = queue.descriptor.clone();
    queue.put(0, |descriptor| descriptor.visibility_timeout_ms = SECOND);
    assert_eq!(
        queue.apply(1, Operation::PutDescriptor(old)),
        Reply::DescriptorPut
    );
    let held = queue.partition.descriptor(QUEUE).unwrap();
    assert_eq!(held.visibility_timeout_ms, SECOND);
}

#[test]
fn a_purge_drops_everything_before_it_and_nothing_after() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    queue.send_to(0, "b", "b1");
    let held = queue.receive(1, 1).remove(0);
    queue.put(2, |descriptor| descriptor.purge_epoch += 1);
    assert_eq!(queue.counts(2), (0, 0, 0));
    assert!(
        !queue.send_to(3, "a", "a1").duplicate,
        "the deduplication memory goes too"
    );
    assert_eq!(queue.delete(4, held.receipt), Ok(()));
    assert_eq!(queue.receive_texts(5, 10), ["a1"]);
}

#[test]
fn a_deleted_queue_is_gone_and_does_not_come_back() {
    let mut queue = Queue::standard();
    let old = queue.descriptor.clone();
    queue.send(0, &["one"]);
    queue.put(1, |descriptor| descriptor.state = QueueState::Deleted);
    assert_eq!(
        queue.effects.receivable,
        [QUEUE],
        "parked long polls must learn of it"
    );
    assert_eq!(queue.effects.deadline_changed, [QUEUE]);
    assert!(queue.partition.is_gone(QUEUE));
    assert!(queue.partition.live_runs().is_empty());
    queue.apply(2, Operation::PutDescriptor(old));
    assert_eq!(queue.apply(3, receive()), Reply::QueueGone);
    queue.apply(10 * MINUTE + 1, Operation::Housekeep);
    assert_eq!(
        queue.apply(10 * MINUTE + 2, receive()),
        Reply::DescriptorNeeded { have: None }
    );
}

#[test]
fn long_polls_learn_of_a_deletion_before_the_queue_was_ever_here() {
    let mut queue = Queue::standard();
    queue.descriptor = Descriptor {
        state: QueueState::Deleted,
        ..descriptor(QueueId(8), QueueKind::Standard)
    };
    queue.put(0, |_| ());
    assert_eq!(queue.effects.receivable, [QueueId(8)]);
    assert!(queue.partition.is_gone(QueueId(8)));
}

#[test]
fn a_retry_of_an_acknowledged_send_is_answered_even_after_the_queue_went() {
    let mut queue = Queue::standard();
    let send = queue.command(Operation::Send {
        messages: vec![message("one")],
    });
    let answer = queue.apply_command(0, send.clone());
    queue.put(1, |descriptor| descriptor.state = QueueState::Deleted);
    assert_eq!(queue.apply_command(2, send), answer);
}

#[test]
fn housekeeping_drops_what_nobody_asks_for() {
    let mut queue = Queue::fifo();
    queue.put(0, |descriptor| descriptor.retention_ms = MINUTE);
    queue.send_to(0, "a", "a1");
    assert!(!queue.partition.housekeeping_due(MINUTE - 1));
    assert!(queue.partition.housekeeping_due(MINUTE));
    assert_eq!(queue.apply(MINUTE, Operation::Housekeep), Reply::Housekept);
    assert!(queue.partition.live_runs().is_empty());
    assert!(
        !queue.partition.housekeeping_due(5 * MINUTE - 1),
        "deduplication lasts"
    );
    queue.apply(5 * MINUTE, Operation::Housekeep);
    assert!(
        !queue.partition.housekeeping_due(10 * MINUTE - 1),
        "the slice lasts ten minutes"
    );
    queue.apply(10 * MINUTE, Operation::Housekeep);
    assert!(queue.partition.descriptor(QUEUE).is_none());
    assert!(!queue.partition.housekeeping_due(u64::MAX - 1));
}

#[test]
fn one_round_of_housekeeping_is_bounded() {
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| descriptor.retention_ms = MINUTE);
    let mut delayed = message("delayed");
    delayed.delay_ms = Some(1);
    for _ in 0..1_200 {
        queue.send_messages(0, vec![delayed.clone(); 10]);
    }
    queue.apply(MINUTE, Operation::Housekeep);
    let left: u64 = queue.partition.live_runs().len() as u64;
    assert!(left > 0 && left < 12_000, "{left} of 12000 left");
    assert!(queue.partition.housekeeping_due(MINUTE));
    queue.apply(MINUTE, Operation::Housekeep);
    assert!(queue.partition.live_runs().is_empty());
}

#[test]
fn answered_requests_are_forgotten_after_their_time() {
    let mut queue = Queue::standard();
    for nth in 0..100 {
        let send = queue.command(Operation::Send {
            messages: vec![message("one")],
        });
        queue.apply_command(
            nth,
            Command {
                not_after: 50_000,
                ..send
            },
        );
    }
    let full = queue.partition.state_bytes();
    assert!(queue.partition.housekeeping_due(50_001));
    queue.apply(50_001, Operation::Housekeep);
    assert!(queue.partition.state_bytes() < full / 2);
    assert!(queue.partition.over_budget(1) && !queue.partition.over_budget(full));
}

#[test]
fn time_never_goes_back() {
    let mut queue = Queue::standard();
    queue.send(50, &["one"]);
    assert_eq!(queue.receive(20, 1)[0].first_received_at, 50);
    assert_eq!(queue.partition.now(), 50);
}

#[test]
fn slices_of_one_partition_do_not_mix() {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    let other = descriptor(QueueId(8), QueueKind::Standard);
    queue.apply(0, Operation::PutDescriptor(other));
    let receive = queue.command(receive());
    let receive = Command {
        queue: QueueId(8),
        ..receive
    };
    assert_eq!(queue.apply_command(1, receive), Reply::Received(vec![]));
    let found = queue.partition.counts(QueueId(8), 1).unwrap();
    assert_eq!(found, hikyaku_queue::Counts::default());
}

#[test]
fn refused_bytes_change_nothing() {
    let mut queue = Queue::standard();
    let before = queue.partition.encode();
    assert!(queue.partition.apply_entry(99, &[9, 9, 9]).is_err());
    assert_eq!(queue.partition.encode(), before);
}

#[test]
fn a_partition_outside_the_spread_takes_no_sends_and_still_hands_out() {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    queue.put(1, |descriptor| {
        descriptor.draining = std::mem::replace(&mut descriptor.spread, vec![PartitionId(9)]);
    });
    let refused = queue.send_messages(2, vec![message("two")]);
    assert_eq!(refused, Reply::TakesNoSends);
    let ask = Operation::AskEmpty;
    assert_eq!(
        queue.apply(3, ask.clone()),
        Reply::Emptiness { empty: false }
    );
    let received = queue.receive(4, 10);
    assert_eq!(queue.texts(&received), ["one"]);
    assert_eq!(
        queue.apply(5, ask.clone()),
        Reply::Emptiness { empty: false },
        "what is in flight may come back"
    );
    queue.delete(6, received[0].receipt).unwrap();
    assert_eq!(queue.apply(7, ask), Reply::Emptiness { empty: true });
}

#[test]
fn a_refused_send_may_be_tried_again_when_the_partition_is_back() {
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| descriptor.spread = vec![PartitionId(9)]);
    let send = queue.command(Operation::Send {
        messages: vec![message("one")],
    });
    assert_eq!(queue.apply_command(1, send.clone()), Reply::TakesNoSends);
    queue.put(2, |descriptor| descriptor.spread = vec![PartitionId(3)]);
    assert!(matches!(queue.apply_command(3, send), Reply::Sent(_)));
    assert_eq!(queue.counts(4), (1, 0, 0));
}
