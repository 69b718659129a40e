//! Stories of move tasks: dead letters on their way back.

use std::collections::BTreeMap;

use hikyaku_queue::{
    Delivery, Descriptor, MoveObstacle, MoveOrder, MoveTaskId, Operation, Partition, PartitionId,
    QueueId, QueueKind, Redrive, Reply,
};

use crate::support::{FIFO, HOUR, QUEUE, Queue, SECOND, descriptor};

const DEAD: QueueId = QueueId(8);
const TASK: MoveTaskId = MoveTaskId(5);

/// A source and its dead-letter queue, in one partition. Whose turn it is has its descriptor in `queue`.
struct Pair {
    queue: Queue,
    other: Descriptor,
}

impl Pair {
    fn new(kind: QueueKind) -> Self {
        let mut queue = Queue::new(descriptor(DEAD, kind));
        let other = std::mem::replace(&mut queue.descriptor, descriptor(QUEUE, kind));
        queue.put(0, |descriptor| {
            descriptor.redrive = Some(Redrive {
                target: DEAD,
                max_receive_count: 1,
                source: "orders".to_owned(),
            });
        });
        Self { queue, other }
    }

    /// The same with dead letters of these texts, in order.
    fn with_letters(kind: QueueKind, texts: &[&str]) -> Self {
        let mut pair = Self::new(kind);
        for text in texts {
            pair.queue.send_to(SECOND, "g", text);
        }
        for _ in texts {
            pair.queue.receive_with(SECOND, 1, Some(0), None);
            pair.queue.receive_with(SECOND, 1, Some(0), None);
        }
        pair.turn();
        pair
    }

    /// Speaks of the other queue from now on.
    fn turn(&mut self) {
        std::mem::swap(&mut self.queue.descriptor, &mut self.other);
    }

    fn order(&mut self, now: u64, destination: Option<QueueId>) {
        let sources = BTreeMap::from([("orders".to_owned(), QUEUE)]);
        self.queue.put(now, |descriptor| {
            descriptor.move_order = Some(MoveOrder {
                task: TASK,
                halted: false,
                destination,
                sources,
            });
        });
    }

    fn move_back(&mut self, now: u64, max: u8) -> Reply {
        self.queue
            .apply(now, Operation::MoveBack { task: TASK, max })
    }

    fn receive(&mut self, now: u64) -> Vec<Delivery> {
        self.queue.receive(now, 10)
    }
}

fn moved(now: u8, total: u64, done: bool) -> Reply {
    Reply::MovedBack { now, total, done }
}

#[test]
fn a_message_comes_back_as_a_new_one() {
    for kind in [QueueKind::Standard, FIFO] {
        let mut pair = Pair::with_letters(kind, &["m1"]);
        pair.order(HOUR, None);
        assert_eq!(pair.move_back(HOUR, 10), moved(1, 1, true), "{kind:?}");
        assert_eq!(pair.queue.effects.receivable, [QUEUE]);
        assert_eq!(pair.queue.counts(HOUR), (0, 0, 0));
        pair.turn();
        // Retention counts anew: after the first one's end it is still there.
        let young = 2 * HOUR - SECOND;
        pair.queue
            .put(young, |descriptor| descriptor.retention_ms = HOUR);
        let back = pair.receive(young).remove(0);
        assert_eq!((back.receive_count, back.first_received_at), (1, young));
        let origin = back.origin.clone().expect("it came from elsewhere");
        assert_eq!((origin.source, origin.sent_at), (None, Some(HOUR)));
        assert_eq!(origin.redriven, Some(back.name));
    }
}

#[test]
fn a_message_that_dies_again_keeps_the_id_of_its_redrive() {
    let mut pair = Pair::with_letters(QueueKind::Standard, &["m1"]);
    pair.order(HOUR, None);
    pair.move_back(HOUR, 10);
    pair.turn();
    let first = pair.queue.receive_with(HOUR, 1, Some(0), None).remove(0);
    assert!(pair.receive(HOUR).is_empty());
    pair.turn();
    let letter = pair.receive(HOUR).remove(0).origin.unwrap();
    assert_eq!(letter.redriven, Some(first.name));
    assert_eq!(letter.source.as_deref(), Some("orders"));
}

#[test]
fn only_what_was_there_moves_and_what_is_in_flight_when_it_is_visible_again() {
    let mut pair = Pair::with_letters(QueueKind::Standard, &["m1", "m2"]);
    assert_eq!(pair.queue.receive(2 * SECOND, 1).len(), 1);
    pair.order(3 * SECOND, None);
    pair.queue.send(4 * SECOND, &["later"]);
    assert_eq!(pair.move_back(5 * SECOND, 10), moved(1, 1, false));
    assert_eq!(pair.move_back(6 * SECOND, 10), moved(0, 1, false));
    assert_eq!(pair.move_back(32 * SECOND, 10), moved(1, 2, true));
    assert_eq!(pair.queue.receive_texts(32 * SECOND, 10), ["later"]);
}

#[test]
fn a_message_group_comes_back_in_order_and_waits_for_its_oldest() {
    let mut pair = Pair::with_letters(FIFO, &["m1", "m2", "m3"]);
    let held = pair.queue.receive(2 * SECOND, 1);
    pair.order(3 * SECOND, None);
    assert_eq!(pair.move_back(4 * SECOND, 10), moved(0, 0, false));
    pair.queue.change(5 * SECOND, held[0].receipt, 0).unwrap();
    assert_eq!(pair.move_back(6 * SECOND, 2), moved(2, 2, false));
    assert_eq!(pair.move_back(7 * SECOND, 2), moved(1, 3, true));
    pair.turn();
    let back = pair.receive(8 * SECOND);
    let bodies: Vec<u64> = back.iter().map(|it| it.body().index).collect();
    assert_eq!(back.len(), 3);
    assert!(bodies.is_sorted());
}

#[test]
fn a_retry_moves_nothing_more() {
    let mut pair = Pair::with_letters(QueueKind::Standard, &["m1", "m2"]);
    pair.order(HOUR, None);
    let command = pair
        .queue
        .command(Operation::MoveBack { task: TASK, max: 1 });
    for _ in 0..2 {
        let reply = pair.queue.apply_command(HOUR, command.clone());
        assert_eq!(reply, moved(1, 1, false));
    }
    assert_eq!(pair.queue.counts(HOUR), (1, 0, 0));
}

#[test]
fn a_message_without_a_place_stays_until_it_has_one() {
    let mut pair = Pair::with_letters(QueueKind::Standard, &["m1"]);
    pair.order(HOUR, None);
    pair.queue.put(HOUR, |descriptor| {
        let order = descriptor.move_order.as_mut().unwrap();
        order.sources.clear();
    });
    let source = Some("orders".into());
    let no_place = Reply::MoveBlocked(MoveObstacle::NoPlace { source });
    assert_eq!(pair.move_back(HOUR, 10), no_place);
    pair.order(HOUR, None);
    pair.turn();
    pair.queue
        .put(HOUR, |descriptor| descriptor.spread = vec![PartitionId(9)]);
    pair.turn();
    assert_eq!(
        pair.move_back(HOUR, 10),
        no_place,
        "receives do not come here"
    );
    pair.turn();
    pair.queue
        .put(HOUR, |descriptor| descriptor.guests = vec![PartitionId(3)]);
    pair.turn();
    assert_eq!(pair.move_back(HOUR, 10), moved(1, 1, true));
}

#[test]
fn a_message_that_is_nobodys_dead_letter_goes_only_where_it_is_sent() {
    let mut pair = Pair::new(QueueKind::Standard);
    pair.turn();
    pair.queue.send(0, &["m1"]);
    pair.order(SECOND, None);
    let blocked = Reply::MoveBlocked(MoveObstacle::NoSource);
    assert_eq!(pair.move_back(SECOND, 10), blocked);
    pair.order(SECOND, Some(QUEUE));
    assert_eq!(pair.move_back(SECOND, 10), moved(1, 1, true));
}

#[test]
fn an_unknown_destination_is_asked_for_and_a_gone_one_takes_nothing() {
    let elsewhere = QueueId(9);
    let mut pair = Pair::with_letters(QueueKind::Standard, &["m1"]);
    pair.order(HOUR, Some(elsewhere));
    let needed = Reply::TargetNeeded { target: elsewhere };
    let command = pair.queue.command(Operation::MoveBack {
        task: TASK,
        max: 10,
    });
    assert_eq!(pair.queue.apply_command(HOUR, command.clone()), needed);
    let gone = Descriptor::of_a_gone_queue(elsewhere);
    pair.queue.apply(HOUR, Operation::PutDescriptor(gone));
    let no_place = Reply::MoveBlocked(MoveObstacle::NoPlace { source: None });
    // The same command, as the leader sends it again.
    assert_eq!(pair.queue.apply_command(HOUR, command), no_place);
    assert_eq!(pair.queue.counts(HOUR), (1, 0, 0));
}

#[test]
fn a_halted_task_moves_nothing_and_another_begins_anew() {
    let mut pair = Pair::with_letters(QueueKind::Standard, &["m1", "m2"]);
    assert_eq!(pair.move_back(HOUR, 1), Reply::NoMoveTask);
    pair.order(HOUR, None);
    assert_eq!(pair.move_back(HOUR, 1), moved(1, 1, false));
    pair.queue.put(HOUR, |descriptor| {
        descriptor.move_order.as_mut().unwrap().halted = true;
    });
    assert_eq!(pair.move_back(HOUR, 1), moved(0, 1, true));
    pair.queue.put(HOUR, |descriptor| {
        let order = descriptor.move_order.as_mut().unwrap();
        (order.task, order.halted) = (MoveTaskId(6), false);
    });
    assert_eq!(
        pair.move_back(HOUR, 1),
        Reply::NoMoveTask,
        "of another task"
    );
    let task = MoveTaskId(6);
    let reply = pair.queue.apply(HOUR, Operation::MoveBack { task, max: 1 });
    assert_eq!(reply, moved(1, 1, true));
}

#[test]
fn a_purge_leaves_nothing_to_move_and_the_count_as_it_is() {
    let mut pair = Pair::with_letters(QueueKind::Standard, &["m1", "m2"]);
    pair.order(HOUR, None);
    pair.move_back(HOUR, 1);
    pair.queue
        .put(HOUR, |descriptor| descriptor.purge_epoch += 1);
    assert_eq!(pair.move_back(HOUR, 1), moved(0, 1, true));
}

#[test]
fn a_step_moves_a_hundred_messages_at_the_most() {
    let mut pair = Pair::new(QueueKind::Standard);
    pair.turn();
    for _ in 0..15 {
        pair.queue.send(0, &["m"; 10]);
    }
    pair.order(SECOND, Some(QUEUE));
    assert_eq!(pair.move_back(SECOND, 255), moved(100, 100, false));
    assert_eq!(pair.move_back(SECOND, 255), moved(50, 150, true));
}

#[test]
fn a_slice_with_a_task_is_kept_though_it_is_empty() {
    let mut pair = Pair::new(QueueKind::Standard);
    pair.turn();
    pair.order(SECOND, None);
    let empty = Reply::Emptiness { empty: false };
    assert_eq!(pair.queue.apply(SECOND, Operation::AskEmpty), empty);
    pair.queue.apply(HOUR, Operation::Housekeep);
    assert!(pair.queue.partition.descriptor(DEAD).is_some());
    assert!(!pair.queue.partition.housekeeping_due(2 * HOUR));
    pair.queue
        .put(2 * HOUR, |descriptor| descriptor.move_order = None);
    pair.queue.apply(3 * HOUR, Operation::Housekeep);
    assert!(pair.queue.partition.descriptor(DEAD).is_none());
}

#[test]
fn a_checkpoint_of_a_task_or_of_what_came_back_is_of_its_own_version() {
    for kind in [QueueKind::Standard, FIFO] {
        let mut pair = Pair::with_letters(kind, &["m1", "m2"]);
        assert!(pair.queue.partition.encode()[0] < 4);
        pair.order(HOUR, None);
        for _ in 0..3 {
            let state = pair.queue.partition.encode();
            assert_eq!(state[0], 4);
            assert_eq!(Partition::decode(&state).unwrap().encode(), state);
            for length in 0..state.len() {
                assert!(Partition::decode(&state[..length]).is_err(), "{length}");
            }
            pair.move_back(HOUR, 1);
        }
        pair.queue
            .put(HOUR, |descriptor| descriptor.move_order = None);
        assert_eq!(pair.queue.partition.encode()[0], 4);
    }
}
