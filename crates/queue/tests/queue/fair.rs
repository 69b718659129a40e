//! Stories of fair queues: message groups on a standard queue (SQS-CONTRACT section 10).

use hikyaku_queue::{Delivery, Operation, Partition, QueueId, QueueKind, Redrive, Reply};

use crate::support::{HOUR, MINUTE, QUEUE, Queue, SECOND, descriptor, grouped, message};

/// Sends `count` messages of a group, in entries of ten.
fn flood(queue: &mut Queue, now: u64, group: &str, count: usize) {
    for _ in 0..count / 10 {
        let messages = (0..10).map(|_| grouped(group, group)).collect();
        queue.send_messages(now, messages);
    }
}

/// Receives `count` messages, in tens, all at the same T, so that nothing is processed meanwhile.
fn take(queue: &mut Queue, now: u64, count: usize) -> Vec<Delivery> {
    let receives = (0..count / 10).flat_map(|_| queue.receive(now, 10));
    let taken: Vec<Delivery> = receives.collect();
    assert_eq!(taken.len(), count);
    taken
}

fn noisy_groups(queue: &Queue, now: u64) -> u64 {
    queue.partition.counts(QUEUE, now).unwrap().noisy_groups
}

#[test]
fn a_group_with_30_in_flight_and_over_10_percent_is_noisy() {
    let mut queue = Queue::standard();
    flood(&mut queue, 0, "big", 100);
    take(&mut queue, 0, 20);
    queue.receive(0, 9);
    assert_eq!(noisy_groups(&queue, 0), 0, "29 in flight");
    queue.receive(0, 1);
    assert_eq!(noisy_groups(&queue, 0), 1, "30 in flight");
    queue.send_messages(0, vec![grouped("small", "small"), message("alone")]);
    assert_eq!(queue.receive_texts(0, 10)[..2], ["small", "alone"]);
}

#[test]
fn a_group_of_10_percent_in_flight_is_quiet() {
    let mut queue = Queue::standard();
    for _ in 0..30 {
        queue.send(0, &["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    }
    flood(&mut queue, 0, "g", 40);
    take(&mut queue, 0, 300);
    assert_eq!(noisy_groups(&queue, 0), 0, "30 of 300");
    queue.receive(0, 1);
    assert_eq!(noisy_groups(&queue, 0), 1, "31 of 301");
}

#[test]
fn a_group_with_over_10_percent_of_the_processing_time_is_noisy_whatever_is_in_flight() {
    let mut queue = Queue::standard();
    queue.send_messages(0, vec![grouped("slow", "slow"), grouped("slow", "slow")]);
    queue.send(0, &["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    let slow = queue.receive(0, 1).remove(0);
    let others = queue.receive(0, 10);
    assert_eq!(others.len(), 10, "the other of the group is among them");
    for delivery in others.iter().filter(|it| it.name.index != slow.name.index) {
        queue.delete(SECOND, delivery.receipt).unwrap();
    }
    // The group spent 2 of 11 seconds.
    queue.send_messages(SECOND, vec![grouped("slow", "one"), grouped("slow", "two")]);
    queue.receive(SECOND, 1);
    assert_eq!(noisy_groups(&queue, SECOND), 1);
    queue.send(SECOND, &["alone"]);
    assert_eq!(queue.receive_texts(SECOND, 10), ["alone", "two"]);
}

#[test]
fn of_several_noisy_groups_the_one_with_fewest_in_flight_is_first() {
    let mut queue = Queue::standard();
    flood(&mut queue, 0, "more", 60);
    take(&mut queue, 0, 40);
    flood(&mut queue, 0, "fewer", 60);
    take(&mut queue, 0, 30);
    assert_eq!(noisy_groups(&queue, 0), 2);
    let order = queue.receive_texts(0, 10);
    assert_eq!(order, ["fewer"; 10]);
    let order = queue.receive_texts(0, 10);
    assert_eq!(
        order.iter().filter(|text| *text == "fewer").count(),
        5,
        "then they are level"
    );
}

#[test]
fn a_noisy_group_alone_gets_all_there_is() {
    let mut queue = Queue::standard();
    flood(&mut queue, 0, "big", 1_000);
    let taken = take(&mut queue, 1, 1_000);
    assert_eq!(taken.len(), 1_000);
    assert!(queue.receive(1, 10).is_empty());
}

#[test]
fn a_drained_backlog_makes_quiet() {
    let mut queue = Queue::standard();
    flood(&mut queue, 0, "big", 40);
    take(&mut queue, 0, 30);
    assert_eq!(noisy_groups(&queue, 0), 1);
    take(&mut queue, 0, 10);
    assert_eq!(noisy_groups(&queue, 0), 0, "all is in flight");
}

#[test]
fn five_minutes_without_a_send_make_quiet() {
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| descriptor.visibility_timeout_ms = HOUR);
    flood(&mut queue, 0, "big", 50);
    take(&mut queue, 0, 30);
    queue.send_messages(MINUTE, vec![grouped("big", "one more")]);
    assert_eq!(noisy_groups(&queue, 6 * MINUTE - 1), 1);
    assert_eq!(noisy_groups(&queue, 6 * MINUTE), 0);
    queue.send_messages(6 * MINUTE, vec![grouped("small", "small")]);
    let first = queue.receive_texts(6 * MINUTE, 1);
    assert_eq!(first, ["big"], "the oldest of the quiet ones");
    assert_eq!(
        noisy_groups(&queue, 6 * MINUTE),
        1,
        "and it takes too much again"
    );
    assert_eq!(queue.receive_texts(6 * MINUTE, 1), ["small"]);
}

#[test]
fn messages_that_return_stay_with_their_group() {
    let mut queue = Queue::standard();
    flood(&mut queue, 0, "big", 100);
    let taken = take(&mut queue, 0, 50);
    for delivery in &taken[..10] {
        queue.change(1, delivery.receipt, 0).unwrap();
    }
    queue.send_messages(2, vec![grouped("small", "small")]);
    let late = queue.receive_with(2, 1, Some(SECOND), None);
    assert_eq!(queue.texts(&late), ["small"]);
    // A quiet group's message that was received before goes ahead of those that were as well.
    assert_eq!(queue.receive_texts(2 + SECOND, 1), ["small"]);
    let counts = queue.partition.counts(QUEUE, 2 + SECOND).unwrap();
    assert_eq!((counts.visible, counts.in_flight), (60, 41));
    assert_eq!((counts.quiet.visible, counts.quiet.in_flight), (0, 1));
}

#[test]
fn a_group_blocks_nothing_and_nobody() {
    let mut queue = Queue::standard();
    queue.send_messages(0, vec![grouped("g", "one"), grouped("g", "two")]);
    assert_eq!(queue.receive_texts(0, 1), ["one"]);
    assert_eq!(queue.receive_texts(0, 1), ["two"]);
}

#[test]
fn counts_tell_the_quiet_groups_apart() {
    let mut queue = Queue::standard();
    flood(&mut queue, 0, "big", 100);
    take(&mut queue, 0, 40);
    let mut delayed = grouped("small", "later");
    delayed.delay_ms = Some(MINUTE);
    queue.send_messages(
        8 * SECOND,
        vec![message("alone"), grouped("small", "now"), delayed],
    );
    queue.receive(8 * SECOND, 1);
    let counts = queue.partition.counts(QUEUE, 8 * SECOND).unwrap();
    assert_eq!(
        (counts.visible, counts.in_flight, counts.delayed),
        (61, 41, 1)
    );
    let quiet = counts.quiet;
    assert_eq!((quiet.visible, quiet.in_flight, quiet.delayed), (1, 1, 1));
    assert_eq!(
        (counts.oldest_sent_at, quiet.oldest_sent_at),
        (Some(0), Some(8 * SECOND))
    );
}

#[test]
fn one_group_too_many_counts_as_messages_without_a_group() {
    let mut queue = Queue::standard();
    let groups: Vec<String> = (0..10_000).map(|nth| format!("group {nth}")).collect();
    for tens in groups.chunks(1_000) {
        queue.send_messages(0, tens.iter().map(|group| grouped(group, "m")).collect());
    }
    queue.send_messages(0, (0..40).map(|_| grouped("one more", "m")).collect());
    for _ in 0..1_004 {
        assert_eq!(queue.receive(0, 10).len(), 10);
    }
    queue.partition.validate();
    assert_eq!(noisy_groups(&queue, 0), 0);
}

#[test]
fn a_dead_letter_is_of_its_group_in_its_new_queue() {
    let dead = QueueId(8);
    let mut queue = Queue::standard();
    let own = queue.descriptor.clone();
    queue.descriptor = descriptor(dead, QueueKind::Standard);
    queue.put(0, |_| ());
    queue.descriptor = own;
    queue.put(0, |descriptor| {
        descriptor.redrive = Some(Redrive {
            target: dead,
            max_receive_count: 1,
            source: "source".to_owned(),
        });
    });
    flood(&mut queue, 0, "big", 50);
    for _ in 0..5 {
        queue.receive_with(1, 10, Some(0), None);
    }
    assert!(queue.receive(2, 10).is_empty());
    queue.descriptor = descriptor(dead, QueueKind::Standard);
    take(&mut queue, 3, 30);
    assert_eq!(queue.partition.counts(dead, 3).unwrap().noisy_groups, 1);
    queue.partition.validate();
}

#[test]
fn a_purge_closes_the_books() {
    let mut queue = Queue::standard();
    flood(&mut queue, 0, "big", 50);
    take(&mut queue, 0, 30);
    queue.put(1, |descriptor| descriptor.purge_epoch += 1);
    assert_eq!(noisy_groups(&queue, 1), 0);
    assert_eq!(queue.partition.encode()[0], 1);
}

#[test]
fn retention_takes_the_messages_of_groups() {
    let mut queue = Queue::standard();
    queue.put(0, |descriptor| descriptor.retention_ms = MINUTE);
    flood(&mut queue, 0, "big", 50);
    take(&mut queue, 0, 30);
    assert!(queue.partition.housekeeping_due(MINUTE + 4 * SECOND));
    let housekept = queue.apply(MINUTE + 4 * SECOND, Operation::Housekeep);
    assert_eq!(housekept, Reply::Housekept);
    assert_eq!(queue.counts(MINUTE + 4 * SECOND), (0, 0, 0));
    assert_eq!(queue.partition.encode()[0], 1, "no group is left");
}

#[test]
fn noisy_groups_are_noisy_after_a_restart() {
    let mut queue = Queue::standard();
    flood(&mut queue, 0, "big", 100);
    take(&mut queue, 0, 30);
    queue.send_messages(1, vec![grouped("small", "small")]);
    queue.partition = Partition::decode(&queue.partition.encode()).unwrap();
    assert_eq!(noisy_groups(&queue, 1), 1);
    assert_eq!(queue.receive_texts(1, 1), ["small"]);
}
