//! Stories of FIFO queues: message groups, deduplication, receive attempts.

use hikyaku_queue::{
    ChangeVisibilityError, DeduplicationScope, DeleteError, QueueKind, Reply, SendError,
};

use crate::support::{MINUTE, QUEUE, Queue, SECOND, descriptor, grouped, message};

#[test]
fn fills_from_one_group_before_the_next() {
    let mut queue = Queue::fifo();
    for (group, text) in [("a", "a1"), ("b", "b1"), ("a", "a2"), ("b", "b2")] {
        queue.send_to(0, group, text);
    }
    assert_eq!(queue.receive_texts(1, 3), ["a1", "a2", "b1"]);
}

#[test]
fn nothing_behind_an_in_flight_message_is_delivered() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    let head = queue.receive(1, 1).remove(0);
    queue.send_to(2, "a", "a2");
    assert!(queue.effects.receivable.is_empty());
    assert!(queue.receive(3, 10).is_empty());
    assert_eq!(queue.counts(3), (1, 1, 0));
    queue.delete(4, head.receipt).unwrap();
    assert_eq!(queue.effects.receivable, [QUEUE]);
    assert_eq!(queue.receive_texts(4, 10), ["a2"]);
}

#[test]
fn a_group_stays_blocked_while_part_of_a_batch_is_in_flight() {
    let mut queue = Queue::fifo();
    for text in ["a1", "a2", "a3"] {
        queue.send_to(0, "a", text);
    }
    let held = queue.receive(1, 2);
    queue.delete(2, held[0].receipt).unwrap();
    assert!(queue.receive(3, 10).is_empty());
}

#[test]
fn releasing_the_first_while_the_second_is_in_flight_yields_the_first_only() {
    let mut queue = Queue::fifo();
    for text in ["a1", "a2", "a3"] {
        queue.send_to(0, "a", text);
    }
    let held = queue.receive(1, 2);
    queue.change(2, held[0].receipt, 0).unwrap();
    assert_eq!(queue.receive_texts(3, 10), ["a1"]);
}

#[test]
fn groups_take_turns() {
    let mut queue = Queue::fifo();
    for (group, text) in [("a", "a1"), ("a", "a2"), ("b", "b1")] {
        queue.send_to(0, group, text);
    }
    let first = queue.receive(1, 1);
    assert_eq!(queue.texts(&first), ["a1"]);
    queue.delete(2, first[0].receipt).unwrap();
    assert_eq!(queue.receive_texts(3, 1), ["b1"]);
    assert_eq!(queue.receive_texts(3, 1), ["a2"]);
}

#[test]
fn groups_become_ready_in_the_order_of_their_heads_deadlines() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    queue.send_to(0, "a", "a2");
    queue.send_to(0, "b", "b1");
    let held = queue.receive(0, 2);
    queue.receive(0, 1);
    queue.change(0, held[0].receipt, 40 * SECOND).unwrap();
    assert_eq!(queue.receive_texts(50 * SECOND, 1), ["b1"]);
    assert_eq!(queue.receive_texts(50 * SECOND, 1), ["a1"]);
}

#[test]
fn a_timeout_of_zero_keeps_group_and_order() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    queue.send_to(0, "a", "a2");
    for _ in 0..2 {
        let deliveries = queue.receive_with(1, 10, Some(0), None);
        assert_eq!(queue.texts(&deliveries), ["a1", "a2"]);
    }
}

#[test]
fn an_expired_or_superseded_handle_is_refused() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    let first = queue.receive(0, 1)[0].receipt;
    assert_eq!(
        queue.delete(30 * SECOND, first),
        Err(DeleteError::HandleExpired)
    );
    assert_eq!(queue.receive(30 * SECOND, 1).len(), 1);
    assert_eq!(
        queue.delete(31 * SECOND, first),
        Err(DeleteError::HandleExpired)
    );
    let change = queue.change(31 * SECOND, first, 0);
    assert_eq!(change, Err(ChangeVisibilityError::HandleExpired));
    assert_eq!(queue.counts(31 * SECOND), (0, 1, 0));
}

#[test]
fn an_extended_handle_still_deletes_and_deleting_twice_succeeds() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    let handle = queue.receive(0, 1)[0].receipt;
    queue.change(29 * SECOND, handle, MINUTE).unwrap();
    assert_eq!(queue.delete(80 * SECOND, handle), Ok(()));
    assert_eq!(queue.delete(80 * SECOND, handle), Ok(()));
    assert_eq!(
        queue.change(80 * SECOND, handle, 1),
        Err(ChangeVisibilityError::NotAvailable)
    );
}

#[test]
fn the_queues_delay_is_retroactive() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    queue.put(SECOND, |descriptor| descriptor.delay_ms = 10 * SECOND);
    assert_eq!(queue.counts(SECOND), (0, 0, 1));
    assert!(queue.receive(2 * SECOND, 1).is_empty());
    assert_eq!(
        queue.partition.next_deadline(QUEUE, 2 * SECOND),
        Some(10 * SECOND)
    );
    queue.put(3 * SECOND, |descriptor| descriptor.delay_ms = 0);
    assert_eq!(queue.effects.receivable, [QUEUE]);
    assert_eq!(queue.receive_texts(3 * SECOND, 1), ["a1"]);
}

#[test]
fn a_received_message_is_not_delayed_again() {
    let mut queue = Queue::fifo();
    queue.put(0, |descriptor| descriptor.delay_ms = 10 * SECOND);
    queue.send_to(0, "a", "a1");
    let held = queue.receive(10 * SECOND, 1).remove(0);
    queue.change(11 * SECOND, held.receipt, 0).unwrap();
    assert_eq!(queue.receive_texts(11 * SECOND, 1), ["a1"]);
}

#[test]
fn a_duplicate_is_answered_with_the_first_id_and_number() {
    let mut queue = Queue::fifo();
    let first = queue.send_to(0, "a", "a1");
    assert!(first.sequence.unwrap().to_string().len() == 20 && !first.duplicate);
    let mut other = grouped("b", "other");
    other.deduplication_id = Some("a1".to_owned());
    let Reply::Sent(results) = queue.send_messages(5 * MINUTE - 1, vec![other.clone()]) else {
        panic!("a send is answered as one");
    };
    let duplicate = results[0].unwrap();
    assert_eq!(
        (duplicate.id, duplicate.sequence),
        (first.id, first.sequence)
    );
    assert!(duplicate.duplicate);
    assert_eq!(queue.counts(5 * MINUTE - 1), (1, 0, 0));
    let Reply::Sent(results) = queue.send_messages(5 * MINUTE, vec![other]) else {
        panic!("a send is answered as one");
    };
    assert!(
        !results[0].unwrap().duplicate,
        "a duplicate does not extend the window"
    );
}

#[test]
fn deduplication_outlives_receive_and_delete() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    let held = queue.receive(1, 1).remove(0);
    queue.delete(2, held.receipt).unwrap();
    assert!(queue.send_to(3, "a", "a1").duplicate);
}

#[test]
fn scope_message_group_keeps_groups_apart() {
    let kind = QueueKind::Fifo {
        dedup_scope: DeduplicationScope::MessageGroup,
    };
    let mut queue = Queue::new(descriptor(QUEUE, kind));
    assert!(!queue.send_to(0, "a", "bc").duplicate);
    let mut joined = grouped("ab", "x");
    joined.deduplication_id = Some("c".to_owned());
    queue.send_messages(0, vec![joined]);
    assert_eq!(queue.counts(0), (2, 0, 0));
    assert!(queue.send_to(0, "a", "bc").duplicate);
}

#[test]
fn refuses_messages_that_lack_group_or_id_or_bring_a_delay() {
    let mut queue = Queue::fifo();
    let mut no_id = grouped("a", "a1");
    no_id.deduplication_id = None;
    let mut delayed = grouped("a", "a2");
    delayed.delay_ms = Some(1);
    let mut zero = grouped("a", "a3");
    zero.delay_ms = Some(0);
    let reply = queue.send_messages(0, vec![message("m"), no_id, delayed, zero]);
    let Reply::Sent(results) = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(results[0], Err(SendError::NoMessageGroup));
    assert_eq!(results[1], Err(SendError::NoDeduplicationId));
    assert_eq!(results[2], Err(SendError::DelayOnFifo));
    assert!(results[3].is_ok());
}

#[test]
fn a_repeated_attempt_gets_the_same_handles_and_restarts_visibility() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    let first = queue.receive_with(0, 1, None, Some("try"));
    assert!(queue.partition.is_repeatable(QUEUE, "try", 20 * SECOND));
    let again = queue.receive_with(20 * SECOND, 1, None, Some("try"));
    assert_eq!(again[0].receipt, first[0].receipt);
    assert_eq!(
        (again[0].receive_count, again[0].deadline),
        (1, 50 * SECOND)
    );
    assert_eq!(queue.delete(49 * SECOND, first[0].receipt), Ok(()));
}

#[test]
fn an_attempt_whose_message_was_touched_is_an_ordinary_receive() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    queue.send_to(0, "b", "b1");
    let first = queue.receive_with(0, 1, None, Some("try"));
    queue.change(1, first[0].receipt, MINUTE).unwrap();
    assert!(!queue.partition.is_repeatable(QUEUE, "try", 2));
    let next = queue.receive_with(2, 1, None, Some("try"));
    assert_eq!(queue.texts(&next), ["b1"]);
    assert_eq!(queue.receive_with(3, 1, None, Some("try")), {
        let mut renewed = next;
        renewed[0].deadline = 3 + 30 * SECOND;
        renewed
    });
}

#[test]
fn an_attempt_lasts_five_minutes() {
    let mut queue = Queue::fifo();
    queue.put(0, |descriptor| {
        descriptor.visibility_timeout_ms = 10 * MINUTE
    });
    queue.send_to(0, "a", "a1");
    assert_eq!(queue.receive_with(0, 1, None, Some("try")).len(), 1);
    assert_eq!(
        queue
            .receive_with(5 * MINUTE - 1, 1, None, Some("try"))
            .len(),
        1
    );
    assert!(
        queue
            .receive_with(5 * MINUTE, 1, None, Some("try"))
            .is_empty()
    );
}

#[test]
fn an_expired_head_frees_its_group() {
    let mut queue = Queue::fifo();
    queue.put(0, |descriptor| descriptor.retention_ms = MINUTE);
    queue.send_to(0, "a", "a1");
    queue.receive_with(1, 1, Some(10 * MINUTE), None);
    queue.send_to(30 * SECOND, "a", "a2");
    assert!(queue.receive(MINUTE - 1, 1).is_empty());
    assert_eq!(queue.receive_texts(MINUTE, 1), ["a2"]);
}

#[test]
fn the_in_flight_limit_answers_nothing() {
    let mut queue = Queue::fifo();
    queue.put(0, |descriptor| descriptor.in_flight_limit = 1);
    queue.send_to(0, "a", "a1");
    queue.send_to(0, "b", "b1");
    assert_eq!(queue.receive(1, 10).len(), 1);
    assert!(queue.receive(1, 10).is_empty());
}

#[test]
fn a_receive_of_nothing_hands_out_only_what_its_attempt_did() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    queue.send_to(0, "b", "b1");
    assert!(queue.receive_with(1, 0, None, Some("try")).is_empty());
    let first = queue.receive_with(2, 1, None, Some("try"));
    let again = queue.receive_with(3, 0, None, Some("try"));
    assert_eq!(queue.texts(&again), queue.texts(&first));
    assert_eq!(again[0].receipt, first[0].receipt);
    assert!(queue.receive_with(4, 0, None, Some("other")).is_empty());
}
