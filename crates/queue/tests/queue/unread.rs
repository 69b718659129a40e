//! Stories of deliveries whose client had gone before it saw them.
//!
//! What is handed back may be somebody else's at once, so nobody may come by it under the old receive
//! any more; and what somebody may have come by is not handed back.

use hikyaku_queue::{Command, DeleteError, Operation, Partition, QueueId, QueueState, Reply};

use crate::support::{MINUTE, QUEUE, Queue, SECOND};

/// A standard queue with one message.
fn one_message() -> Queue {
    let mut queue = Queue::standard();
    queue.send(0, &["one"]);
    queue
}

#[test]
fn comes_back_uncounted() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(5, &receive);
    queue.return_unread(6, &receive, &unread);
    assert_eq!(queue.effects.receivable, [QUEUE]);
    let read = queue.receive(7, 1).remove(0);
    assert_eq!((read.receive_count, read.first_received_at), (1, 7));
    assert_ne!(
        read.receipt.receive_number,
        unread[0].receipt.receive_number
    );
}

#[test]
fn a_retry_after_the_return_gets_no_copy_of_what_another_holds() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(1, &receive);
    queue.return_unread(2, &receive, &unread);
    assert!(!queue.partition.has_answer(receive.request_id));
    assert_eq!(queue.receive_texts(3, 1), ["one"]);
    assert!(queue.receive_as(4, &receive).is_empty());
}

#[test]
fn a_retry_after_the_return_receives_anew() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(1, &receive);
    queue.return_unread(2, &receive, &unread);
    let read = queue.receive_as(3, &receive);
    assert_eq!((read[0].receive_count, read[0].first_received_at), (1, 3));
    assert_ne!(read[0].receipt, unread[0].receipt);
    assert_eq!(queue.receive_as(4, &receive), read, "and is remembered");
}

#[test]
fn a_retry_before_the_return_keeps_what_it_got() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let given = queue.receive_as(1, &receive);
    assert_eq!(queue.receive_as(2, &receive), given);
    queue.return_unread(3, &receive, &given);
    assert_eq!(queue.counts(3), (0, 1, 0));
    assert_eq!(queue.receive_as(4, &receive), given);
    assert_eq!(queue.receive(31 * SECOND, 1)[0].receive_count, 2);
}

#[test]
fn a_checkpoint_remembers_that_an_answer_was_given_again() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let given = queue.receive_as(1, &receive);
    queue.receive_as(2, &receive);
    queue.partition = Partition::decode(&queue.partition.encode()).unwrap();
    queue.return_unread(3, &receive, &given);
    assert_eq!(queue.counts(3), (0, 1, 0));
}

#[test]
fn a_second_return_does_not_take_from_a_later_holder() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(1, &receive);
    queue.return_unread(2, &receive, &unread);
    let held = queue.receive(3, 1).remove(0);
    assert_eq!(held.receive_count, unread[0].receive_count);
    queue.return_unread(4, &receive, &unread);
    assert_eq!(queue.counts(4), (0, 1, 0));
}

#[test]
fn a_second_return_does_not_touch_what_the_retry_received() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(1, &receive);
    queue.return_unread(2, &receive, &unread);
    let read = queue.receive_as(3, &receive);
    queue.return_unread(4, &receive, &unread);
    assert_eq!(queue.counts(4), (0, 1, 0));
    assert_eq!(queue.receive_as(5, &receive), read);
}

#[test]
fn a_second_return_uncounts_nothing() {
    let mut queue = one_message();
    queue.receive(0, 1);
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(30 * SECOND, &receive);
    assert_eq!(unread[0].receive_count, 2);
    for now in [31 * SECOND, 32 * SECOND] {
        queue.return_unread(now, &receive, &unread);
    }
    assert_eq!(queue.receive(33 * SECOND, 1)[0].receive_count, 2);
}

#[test]
fn is_uncounted_after_its_timeout_too() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(0, &receive);
    queue.return_unread(31 * SECOND, &receive, &unread);
    assert_eq!(queue.counts(31 * SECOND), (1, 0, 0));
    assert_eq!(queue.receive_as(32 * SECOND, &receive)[0].receive_count, 1);
}

#[test]
fn what_was_received_since_stays_and_the_retry_does_not_share_it() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(0, &receive);
    queue.receive(30 * SECOND, 1);
    queue.return_unread(31 * SECOND, &receive, &unread);
    assert_eq!(queue.counts(31 * SECOND), (0, 1, 0));
    assert!(queue.receive_as(32 * SECOND, &receive).is_empty());
    assert_eq!(queue.receive(61 * SECOND, 1)[0].receive_count, 3);
}

#[test]
fn what_an_older_holder_has_re_timed_stays_invisible() {
    let mut queue = one_message();
    let older = queue.receive(0, 1).remove(0);
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(30 * SECOND, &receive);
    queue.change(31 * SECOND, older.receipt, MINUTE).unwrap();
    queue.return_unread(32 * SECOND, &receive, &unread);
    assert_eq!(queue.counts(90 * SECOND), (0, 1, 0));
    assert_eq!(queue.receive(91 * SECOND, 1)[0].receive_count, 2);
}

#[test]
fn what_is_re_timed_after_the_return_counts_as_in_flight() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(0, &receive);
    queue.return_unread(1, &receive, &unread);
    queue.change(2, unread[0].receipt, SECOND).unwrap();
    assert_eq!(queue.counts(2), (0, 1, 0));
    queue.send(SECOND + 2, &["two"]);
    assert_eq!(queue.counts(SECOND + 2), (2, 0, 0));
}

#[test]
fn what_was_deleted_stays_deleted() {
    let mut queue = Queue::standard();
    queue.send(0, &["one", "two"]);
    let older = queue.receive(0, 1).remove(0);
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(30 * SECOND, &receive);
    queue.delete(31 * SECOND, older.receipt).unwrap();
    queue.return_unread(32 * SECOND, &receive, &unread);
    let again = queue.receive_as(33 * SECOND, &receive);
    assert_eq!(queue.texts(&again), ["two"]);
}

#[test]
fn a_return_after_a_purge_or_a_deletion_brings_nothing_back() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(0, &receive);
    queue.put(1, |descriptor| descriptor.purge_epoch += 1);
    queue.return_unread(2, &receive, &unread);
    assert_eq!(queue.counts(2), (0, 0, 0));
    assert!(queue.receive_as(3, &receive).is_empty());
    queue.put(4, |descriptor| descriptor.state = QueueState::Deleted);
    let operation = Operation::ReturnUnread {
        receive: receive.request_id,
        deliveries: vec![(unread[0].name, 1)],
    };
    assert_eq!(queue.apply(5, operation), Reply::QueueGone);
}

#[test]
fn nothing_is_taken_back_once_a_retry_would_be_late() {
    let mut queue = one_message();
    let receive = Command {
        not_after: 10,
        ..queue.receive_command(None)
    };
    let unread = queue.receive_as(0, &receive);
    // A retry may have come before, and the table no longer says so.
    queue.return_unread(11, &receive, &unread);
    assert_eq!(queue.counts(11), (0, 1, 0));
}

#[test]
fn only_what_the_receive_handed_out_is_taken_back() {
    let mut queue = one_message();
    let others = queue.receive(0, 1);
    let receive = queue.receive_command(None);
    queue.send(1, &["two"]);
    let given = queue.receive_as(1, &receive);
    queue.return_unread(2, &receive, &others);
    assert_eq!(queue.counts(2), (0, 2, 0));
    assert_eq!(queue.receive_as(3, &receive), given);
}

#[test]
fn a_return_to_another_queue_leaves_the_answer() {
    let mut queue = one_message();
    let receive = queue.receive_command(None);
    let given = queue.receive_as(1, &receive);
    queue.descriptor.id = QueueId(8);
    queue.put(2, |_| ());
    queue.return_unread(2, &receive, &given);
    assert_eq!(queue.receive_as(3, &receive), given);
}

#[test]
fn a_message_group_keeps_its_order() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    queue.send_to(0, "a", "a2");
    let receive = queue.receive_command(None);
    let unread = queue.receive_as(1, &receive);
    queue.send_to(1, "a", "a3");
    queue.return_unread(2, &receive, &unread);
    let stale = queue.delete(3, unread[0].receipt);
    assert_eq!(stale, Err(DeleteError::HandleExpired));
    let read = queue.receive_as(3, &receive);
    assert_eq!(queue.texts(&read), ["a1", "a2", "a3"]);
    assert_eq!(read[0].receive_count, 1);
    queue.return_unread(4, &receive, &unread);
    assert!(queue.receive(4, 10).is_empty(), "the group stays locked");
    assert_eq!(
        queue.delete(5, unread[0].receipt),
        Err(DeleteError::HandleExpired)
    );
    assert_eq!(queue.delete(5, read[0].receipt), Ok(()));
}

#[test]
fn a_receive_attempt_that_was_taken_back_is_not_repeated() {
    let mut queue = Queue::fifo();
    queue.send_to(0, "a", "a1");
    let receive = queue.receive_command(Some("try"));
    let unread = queue.receive_as(1, &receive);
    queue.return_unread(2, &receive, &unread);
    assert!(!queue.partition.is_repeatable(QUEUE, "try", 2));
    assert_eq!(queue.receive_texts(3, 1), ["a1"]);
    assert!(queue.receive_with(4, 1, None, Some("try")).is_empty());
    assert!(queue.receive_as(5, &receive).is_empty());
}

/// The repeated attempt has another request id, the same messages under the same receive numbers, and
/// here even the same deadline.
#[test]
fn what_a_repeated_receive_attempt_shares_is_not_taken_back() {
    for returned in 0..2 {
        let mut queue = Queue::fifo();
        queue.send_to(0, "a", "a1");
        let receives = [Some("try"); 2].map(|attempt| queue.receive_command(attempt));
        let given = receives
            .each_ref()
            .map(|receive| queue.receive_as(1, receive));
        assert_eq!(given[0], given[1]);
        queue.return_unread(2, &receives[returned], &given[returned]);
        assert_eq!(queue.counts(2), (0, 1, 0));
        assert_eq!(queue.delete(3, given[1 - returned][0].receipt), Ok(()));
    }
}

#[test]
fn a_caller_that_never_heard_the_answer_gives_everything_back() {
    let mut queue = Queue::standard();
    queue.send(0, &["one", "two"]);
    let receive = queue.receive_command(None);
    assert_eq!(queue.receive_as(1, &receive).len(), 2);
    queue.return_unread(2, &receive, &[]);
    assert_eq!(queue.counts(2), (2, 0, 0));
    let again = queue.receive(3, 10);
    assert!(again.iter().all(|delivery| delivery.receive_count == 1));
}
