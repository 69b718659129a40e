//! Stories of standard queues.

use hikyaku_queue::{
    ChangeVisibilityError, DeleteError, Operation, PartitionId, QueueId, ReceiptHandle, Reply,
};

use crate::support::{HOUR, MINUTE, QUEUE, Queue, SECOND, message};

#[test]
fn hands_out_in_the_order_sent() {
    let mut queue = Queue::standard();
    queue.send(1, &["one", "two", "three"]);
    assert_eq!(queue.receive_texts(2, 2), ["one", "two"]);
    assert_eq!(queue.receive_texts(3, 10), ["three"]);
}

#[test]
fn redelivers_after_visibility_timeout() {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    let first = queue.receive(SECOND, 1).remove(0);
    assert_eq!(
        (first.receive_count, first.first_received_at, first.deadline),
        (1, 1_000, 31_000)
    );
    assert!(queue.receive(31 * SECOND - 1, 1).is_empty());
    let again = queue.receive(31 * SECOND, 1).remove(0);
    assert_eq!((again.receive_count, again.first_received_at), (2, 1_000));
    assert_ne!(again.receipt, first.receipt);
}

#[test]
fn a_timeout_of_zero_leaves_the_message_visible_but_gives_it_once() {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    assert_eq!(queue.receive_with(1, 10, Some(0), None).len(), 1);
    assert_eq!(queue.receive_with(1, 10, Some(0), None)[0].receive_count, 2);
}

#[test]
fn a_delayed_message_waits_and_then_counts_as_visible() {
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| descriptor.delay_ms = 10 * SECOND);
    let mut prompt = message("prompt");
    prompt.delay_ms = Some(0);
    queue.send_messages(0, vec![message("queue's"), prompt]);
    assert_eq!(queue.counts(0), (1, 0, 1));
    assert_eq!(queue.receive_texts(9_999, 10), ["prompt"]);
    assert_eq!(queue.counts(10 * SECOND), (1, 1, 0));
    assert_eq!(queue.receive_texts(10 * SECOND, 10), ["queue's"]);
}

#[test]
fn a_changed_delay_leaves_waiting_messages_alone() {
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| descriptor.delay_ms = 10 * SECOND);
    queue.send(0, &["one"]);
    queue.put(0, |descriptor| descriptor.delay_ms = 0);
    assert!(queue.receive(9_999, 1).is_empty());
    assert_eq!(queue.receive_texts(10 * SECOND, 1), ["one"]);
}

#[test]
fn neither_backlog_nor_returned_messages_starve_the_other() {
    let mut queue = Queue::standard();
    queue.send(0, &["poison", "one", "two", "three"]);
    let order: Vec<_> = (1..8)
        .flat_map(|now| {
            let deliveries = queue.receive_with(now, 1, Some(0), None);
            queue.texts(&deliveries)
        })
        .collect();
    for text in ["poison", "one", "two", "three"] {
        assert!(order.contains(&text.to_owned()), "{text} in {order:?}");
    }
}

#[test]
fn any_handle_deletes_even_late_and_twice() {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    let first = queue.receive(0, 1)[0].receipt;
    assert_eq!(queue.receive(30 * SECOND, 1).len(), 1);
    assert_eq!(queue.delete(30 * SECOND, first), Ok(()));
    assert_eq!(queue.delete(30 * SECOND, first), Ok(()));
    assert_eq!(queue.counts(30 * SECOND), (0, 0, 0));
}

#[test]
fn refuses_handles_of_another_queue_or_partition() {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    let handle = queue.receive(0, 1)[0].receipt;
    for foreign in [
        ReceiptHandle {
            queue: QueueId(8),
            ..handle
        },
        ReceiptHandle {
            partition: PartitionId(4),
            ..handle
        },
    ] {
        assert_eq!(queue.delete(1, foreign), Err(DeleteError::ForeignHandle));
        assert_eq!(
            queue.change(1, foreign, 5),
            Err(ChangeVisibilityError::ForeignHandle)
        );
    }
    assert_eq!(queue.counts(1), (0, 1, 0));
}

#[test]
fn an_older_handle_re_times_and_the_change_is_not_remembered() {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    let first = queue.receive(0, 1)[0].receipt;
    assert_eq!(queue.receive(30 * SECOND, 1).len(), 1);
    assert_eq!(queue.change(31 * SECOND, first, 0), Ok(()));
    assert_eq!(queue.effects.receivable, [QUEUE]);
    let third = queue.receive(31 * SECOND, 1).remove(0);
    assert_eq!((third.receive_count, third.deadline), (3, 61 * SECOND));
}

#[test]
fn a_message_is_invisible_for_at_most_twelve_hours_since_its_receive() {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    let handle = queue.receive(SECOND, 1)[0].receipt;
    let whole = queue.change(2 * SECOND, handle, 12 * HOUR);
    assert_eq!(whole, Err(ChangeVisibilityError::TotalTimeoutTooLong));
    assert_eq!(queue.change(2 * SECOND, handle, 12 * HOUR - SECOND), Ok(()));
}

#[test]
fn what_is_gone_cannot_be_re_timed() {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    let handle = queue.receive(0, 1)[0].receipt;
    queue.delete(1, handle).unwrap();
    assert_eq!(
        queue.change(2, handle, 5),
        Err(ChangeVisibilityError::NotAvailable)
    );
}

#[test]
fn retention_is_never_early_and_at_most_four_seconds_late() {
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| descriptor.retention_ms = MINUTE);
    queue.send(1_234, &["one"]);
    assert_eq!(queue.receive(MINUTE + 1_233, 1).len(), 1);
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| descriptor.retention_ms = MINUTE);
    queue.send(1_234, &["one"]);
    assert!(queue.receive(MINUTE + 1_234 + 4 * SECOND, 1).is_empty());
    assert_eq!(queue.counts(MINUTE + 6 * SECOND), (0, 0, 0));
}

#[test]
fn a_shorter_retention_applies_to_stored_messages() {
    let mut queue = Queue::standard();
    queue.send(0, &["one", "two"]);
    queue.receive(2 * MINUTE, 1);
    queue.put(2 * MINUTE, |descriptor| descriptor.retention_ms = MINUTE);
    assert!(queue.receive(3 * MINUTE, 10).is_empty());
    assert_eq!(queue.counts(3 * MINUTE), (0, 0, 0));
}

#[test]
fn refuses_receives_at_the_in_flight_limit_until_one_is_deleted() {
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| descriptor.in_flight_limit = 2);
    queue.send(0, &["one", "two", "three"]);
    let held = queue.receive(1, 10);
    assert_eq!(held.len(), 2);
    let receive = Operation::Receive {
        max: 1,
        visibility_timeout_ms: None,
        attempt_id: None,
    };
    assert_eq!(queue.apply(2, receive), Reply::OverInFlightLimit);
    assert!(!queue.partition.has_candidate(QUEUE, 2));
    assert!(queue.partition.is_over_in_flight_limit(QUEUE, 2));
    queue.delete(3, held[0].receipt).unwrap();
    assert_eq!(queue.effects.receivable, [QUEUE]);
    assert_eq!(queue.receive_texts(3, 10), ["three"]);
}

#[test]
fn tells_the_leader_when_to_look_again() {
    let mut queue = Queue::standard();
    assert_eq!(queue.partition.next_deadline(QUEUE, 0), None);
    let mut delayed = message("delayed");
    delayed.delay_ms = Some(5 * SECOND);
    queue.send_messages(0, vec![delayed, message("prompt")]);
    assert_eq!(queue.effects.deadline_changed, [QUEUE]);
    queue.receive(SECOND, 1);
    assert_eq!(
        queue.partition.next_deadline(QUEUE, SECOND),
        Some(5 * SECOND)
    );
    assert!(!queue.partition.has_candidate(QUEUE, 5 * SECOND - 1));
    assert!(queue.partition.has_candidate(QUEUE, 5 * SECOND));
    assert_eq!(
        queue.partition.next_deadline(QUEUE, 5 * SECOND),
        Some(31 * SECOND)
    );
}
