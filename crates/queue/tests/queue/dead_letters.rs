//! Stories of messages that were received too often.

use hikyaku_queue::{
    Descriptor, Operation, Partition, PartitionId, QueueId, QueueKind, Redrive, Reply,
};

use crate::support::{FIFO, HOUR, QUEUE, Queue, SECOND, descriptor, grouped};

const DEAD: QueueId = QueueId(8);

/// A queue whose messages move after so many receives, and its dead-letter queue, which is first.
fn source(kind: QueueKind, max_receive_count: u32) -> (Queue, Descriptor) {
    let mut queue = Queue::new(descriptor(DEAD, kind));
    let dead = std::mem::replace(&mut queue.descriptor, descriptor(QUEUE, kind));
    queue.put(0, |descriptor| {
        descriptor.redrive = Some(Redrive {
            target: DEAD,
            max_receive_count,
            source: "orders".to_owned(),
        });
    });
    (queue, dead)
}

#[test]
fn the_receive_beyond_the_limit_moves_the_message() {
    let (mut queue, dead) = source(QueueKind::Standard, 2);
    queue.send(SECOND, &["m1"]);
    let first = queue.receive_with(2 * SECOND, 1, Some(0), None).remove(0);
    queue.receive_with(3 * SECOND, 1, Some(0), None);
    assert!(queue.receive(4 * SECOND, 1).is_empty());
    assert_eq!(queue.effects.receivable, [DEAD]);

    queue.descriptor = dead;
    let letter = queue.receive(5 * SECOND, 1).remove(0);
    assert_eq!(letter.receive_count, 3);
    assert_eq!(letter.first_received_at, 2 * SECOND);
    assert_eq!(letter.body(), first.name);
    let origin = letter.origin.expect("it came from elsewhere");
    assert_eq!(origin.source.as_deref(), Some("orders"));
    assert_eq!((origin.sent_at, origin.redriven), (None, None));
    // Its body lives on under the dead-letter queue.
    let live = queue.partition.live_runs();
    assert_eq!(live.len(), 1);
    assert_eq!(live[0].first_index, first.name.index);
}

#[test]
fn a_dead_letter_keeps_its_age_on_standard_and_is_young_again_on_fifo() {
    let sent = 10 * HOUR;
    for (kind, lives) in [(QueueKind::Standard, false), (FIFO, true)] {
        let (mut queue, mut dead) = source(kind, 1);
        dead.retention_ms = HOUR;
        let source = std::mem::replace(&mut queue.descriptor, dead);
        queue.put(sent, |_| ());
        let dead = std::mem::replace(&mut queue.descriptor, source);
        queue.send_to(sent, "g", "m1");
        queue.receive_with(sent + SECOND, 1, Some(0), None);
        assert!(queue.receive(sent + HOUR / 2, 1).is_empty());
        queue.descriptor = dead;
        let letters = queue.receive(sent + HOUR + 5 * SECOND, 1);
        assert_eq!(!letters.is_empty(), lives, "{kind:?}");
    }
}

#[test]
fn a_limit_counts_the_receives_in_its_own_queue() {
    let (mut queue, dead) = source(QueueKind::Standard, 1);
    queue.send(0, &["m1"]);
    queue.receive_with(1, 1, Some(0), None);
    assert!(queue.receive(2, 1).is_empty());
    queue.descriptor = dead;
    queue.put(3, |descriptor| {
        descriptor.redrive = Some(Redrive {
            target: QUEUE,
            max_receive_count: 1,
            source: "dead".to_owned(),
        });
    });
    assert_eq!(queue.receive_with(4, 1, Some(0), None).len(), 1);
    assert!(queue.receive(5, 1).is_empty(), "it went back");
}

#[test]
fn an_unknown_dead_letter_queue_is_asked_for_and_a_gone_one_takes_nothing() {
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| {
        descriptor.redrive = Some(Redrive {
            target: DEAD,
            max_receive_count: 1,
            source: "orders".to_owned(),
        });
    });
    queue.send(0, &["m1"]);
    let receive = queue.receive_command(None);
    let reply = queue.apply_command(1, receive.clone());
    assert_eq!(reply, Reply::TargetNeeded { target: DEAD });
    let gone = Descriptor::of_a_gone_queue(DEAD);
    queue.apply(1, Operation::PutDescriptor(gone));
    assert_eq!(queue.receive_as(1, &receive).len(), 1);
    assert_eq!(queue.receive(31 * SECOND, 1).len(), 1);
}

#[test]
fn a_dead_letter_queue_of_other_partitions_takes_messages_as_a_guest() {
    for (guests, received) in [(vec![], 1), (vec![PartitionId(3)], 0)] {
        let (mut queue, dead) = source(FIFO, 1);
        let source = std::mem::replace(&mut queue.descriptor, dead);
        queue.put(0, |descriptor| {
            descriptor.spread = vec![PartitionId(9)];
            descriptor.guests = guests;
        });
        let sent = queue.send_messages(0, vec![grouped("g", "no")]);
        assert_eq!(sent, Reply::TakesNoSends);
        queue.descriptor = source;
        queue.send_to(0, "g", "m1");
        queue.receive_with(1, 1, Some(0), None);
        assert_eq!(queue.receive(2, 1).len(), received);
    }
}

#[test]
fn a_checkpoint_with_dead_letters_is_of_its_own_version() {
    for kind in [QueueKind::Standard, FIFO] {
        let (mut queue, _) = source(kind, 1);
        let mut sent = grouped("g", "m1");
        if kind == QueueKind::Standard {
            sent.message_group = None;
        }
        queue.send_messages(0, vec![sent]);
        queue.receive_with(1, 1, Some(0), None);
        assert_eq!(queue.partition.encode()[0], 1);
        assert!(queue.receive(2, 1).is_empty());
        let state = queue.partition.encode();
        assert_eq!(state[0], 2);
        assert_eq!(Partition::decode(&state).unwrap().encode(), state);
        for length in 0..state.len() {
            assert!(Partition::decode(&state[..length]).is_err(), "{length}");
        }
    }
}
