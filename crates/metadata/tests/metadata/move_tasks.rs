//! Stories of message move tasks.

use crate::harness::{Cluster, SECOND, create};
use crate::script::{PARTITIONS, tenant};
use hikyaku_metadata::{
    Attributes, CancelMoveTask, CancelMoveTaskError, Command, CreateQueue, MOVE_TASK_LIFE_MS,
    MOVE_TASKS_LISTED, MOVE_TASKS_MAX, Metadata, MoveFailure, MoveProgress, MoveStatus,
    MoveTaskBlocked, MoveTaskReported, QueueRecord, RedriveTarget, Reply, StartMoveTask,
    StartMoveTaskError,
};
use hikyaku_queue::{MoveObstacle, MoveTaskId, PartitionId, QueueId};

const TASK: MoveTaskId = MoveTaskId(5);

fn policy(queue: &str) -> Attributes {
    Attributes {
        redrive_target: Some(Some(RedriveTarget {
            queue: queue.to_owned(),
            max_receive_count: 3,
        })),
        ..Attributes::default()
    }
}

fn no_place(source: Option<&str>) -> MoveObstacle {
    let source = source.map(Into::into);
    MoveObstacle::NoPlace { source }
}

struct Redrive {
    cluster: Cluster,
    dead: QueueId,
    orders: QueueId,
}

impl Redrive {
    fn new() -> Self {
        let mut cluster = Cluster::founded();
        let dead = cluster.create(0, "dead");
        cluster.ask(0, create("orders", policy("dead")));
        let orders = QueueId(dead.0 + 1);
        Self {
            cluster,
            dead,
            orders,
        }
    }

    fn start(&mut self, task: MoveTaskId, destination: Option<QueueId>) -> Reply {
        let start = StartMoveTask {
            queue: self.dead,
            task,
            destination,
            rate: Some(50),
            to_move: 9,
        };
        self.cluster.ask(SECOND, Command::StartMoveTask(start))
    }

    /// With a task that runs.
    fn started(destination: Option<&str>) -> Self {
        let mut redrive = Self::new();
        let destination = destination.map(|name| redrive.cluster.create(0, name));
        let started = redrive.start(TASK, destination);
        assert_eq!(started, Reply::MoveTaskStarted(Ok(2)));
        redrive
    }

    fn cancel(&mut self, queue: QueueId, task: MoveTaskId) -> Reply {
        let cancel = CancelMoveTask { queue, task };
        self.cluster
            .ask(2 * SECOND, Command::CancelMoveTask(cancel))
    }

    /// Every partition says that it moved so many, and whether it is done.
    fn report(&mut self, now: u64, moved: u64, done: bool) {
        let visited = self.record().descriptor.visited();
        let progress = visited
            .map(|at| (at, MoveProgress { moved, done }))
            .collect();
        let reported = MoveTaskReported {
            queue: self.dead,
            task: TASK,
            progress,
        };
        let reply = self.cluster.ask(now, Command::MoveTaskReported(reported));
        assert_eq!(reply, Reply::MoveTaskAdvanced);
    }

    fn block(&mut self, partition: PartitionId, obstacle: MoveObstacle) {
        let blocked = MoveTaskBlocked {
            queue: self.dead,
            task: TASK,
            partition,
            obstacle,
        };
        let now = self.cluster.metadata.now();
        let reply = self.cluster.ask(now, Command::MoveTaskBlocked(blocked));
        assert_eq!(reply, Reply::MoveTaskAdvanced);
    }

    fn record(&self) -> &QueueRecord {
        self.cluster.record(self.dead)
    }

    fn status(&self) -> MoveStatus {
        self.record().moves[0].status
    }

    /// A partition in which the queue takes nothing.
    fn elsewhere(&self, queue: QueueId) -> PartitionId {
        let descriptor = &self.cluster.record(queue).descriptor;
        let mut others = (0..PARTITIONS).map(PartitionId);
        others.find(|at| !descriptor.takes_moves(*at)).unwrap()
    }
}

#[test]
fn a_task_is_ordered_everywhere_and_completes_when_all_are_done() {
    let mut redrive = Redrive::started(None);
    let order = redrive.record().descriptor.move_order.clone().unwrap();
    assert_eq!((order.task, order.halted), (TASK, false));
    assert_eq!(redrive.cluster.pending()[0].0, redrive.dead);
    redrive.report(3 * SECOND, 4, false);
    assert_eq!(redrive.status(), MoveStatus::Running);
    redrive.report(4 * SECOND, 9, true);
    let record = redrive.record();
    let task = &record.moves[0];
    assert_eq!((task.status, task.moved()), (MoveStatus::Completed, 9));
    assert_eq!((task.to_move, task.rate), (9, Some(50)));
    assert_eq!(task.started_at_ms, SECOND);
    assert_eq!(record.descriptor.move_order, None);
    redrive.report(5 * SECOND, 99, true);
    assert_eq!(redrive.record().moves[0].moved(), 9, "it has ended");
}

#[test]
fn what_a_partition_said_last_counts_and_less_does_not() {
    let mut redrive = Redrive::started(None);
    redrive.report(3 * SECOND, 4, false);
    redrive.report(4 * SECOND, 3, false);
    assert_eq!(redrive.record().moves[0].moved(), 4);
}

#[test]
fn a_queue_that_is_nobodys_dead_letter_queue_has_no_task() {
    let mut redrive = Redrive::new();
    let (dead, orders) = (redrive.dead, redrive.orders);
    let other = redrive.cluster.create(0, "other.fifo");
    redrive.dead = orders;
    let refused = Reply::MoveTaskStarted(Err(StartMoveTaskError::NoDeadLetterQueue));
    assert_eq!(redrive.start(TASK, None), refused);
    redrive.dead = QueueId(99);
    let refused = StartMoveTaskError::NoSuchQueue(QueueId(99));
    assert_eq!(
        redrive.start(TASK, None),
        Reply::MoveTaskStarted(Err(refused))
    );
    redrive.dead = dead;
    let refused = StartMoveTaskError::NoSuchDestination(QueueId(99));
    let reply = redrive.start(TASK, Some(QueueId(99)));
    assert_eq!(reply, Reply::MoveTaskStarted(Err(refused)));
    for unfit in [dead, other] {
        let refused = StartMoveTaskError::UnfitDestination(unfit);
        let reply = redrive.start(TASK, Some(unfit));
        assert_eq!(reply, Reply::MoveTaskStarted(Err(refused)));
    }
    // What was one before, and is none any more.
    redrive.cluster.delete(0, orders);
    let refused = Reply::MoveTaskStarted(Err(StartMoveTaskError::NoDeadLetterQueue));
    assert_eq!(redrive.start(TASK, None), refused);
}

#[test]
fn another_tenants_queue_is_no_destination() {
    let mut redrive = Redrive::new();
    let create = Command::CreateQueue(CreateQueue {
        tenant: tenant(1),
        name: "theirs".to_owned(),
        fifo: false,
        attributes: Attributes::default(),
        tags: std::collections::BTreeMap::new(),
    });
    redrive.cluster.ask(0, create);
    let theirs = QueueId(redrive.orders.0 + 1);
    let refused = StartMoveTaskError::NoSuchDestination(theirs);
    let reply = redrive.start(TASK, Some(theirs));
    assert_eq!(reply, Reply::MoveTaskStarted(Err(refused)));
}

#[test]
fn a_queue_has_one_active_task_and_a_list_of_ended_ones() {
    let mut redrive = Redrive::new();
    for number in 0..15 {
        let task = MoveTaskId(number);
        assert!(matches!(
            redrive.start(task, None),
            Reply::MoveTaskStarted(Ok(_))
        ));
        let refused = Reply::MoveTaskStarted(Err(StartMoveTaskError::Active));
        assert_eq!(redrive.start(TASK, None), refused);
        let visited: Vec<PartitionId> = redrive.record().descriptor.visited().collect();
        let done = MoveProgress {
            moved: 1,
            done: true,
        };
        let reported = MoveTaskReported {
            queue: redrive.dead,
            task,
            progress: visited.into_iter().map(|at| (at, done)).collect(),
        };
        redrive
            .cluster
            .ask(SECOND, Command::MoveTaskReported(reported));
    }
    let moves = &redrive.record().moves;
    assert_eq!(moves.len(), MOVE_TASKS_LISTED + 1);
    assert_eq!(moves[0].id, MoveTaskId(14));
}

#[test]
fn a_tenant_has_a_hundred_active_tasks_at_the_most() {
    let mut redrive = Redrive::new();
    for number in 0..=MOVE_TASKS_MAX {
        let name = format!("dead{number}");
        redrive.dead = redrive.cluster.create(0, &name);
        let source = create(&format!("source{number}"), policy(&name));
        redrive.cluster.ask(0, source);
        let reply = redrive.start(TASK, None);
        let expected = match number {
            MOVE_TASKS_MAX => Err(StartMoveTaskError::TooMany),
            _ => Ok(2),
        };
        assert_eq!(reply, Reply::MoveTaskStarted(expected));
    }
}

#[test]
fn a_cancelled_task_waits_for_the_last_word_of_each_partition() {
    let mut redrive = Redrive::started(None);
    redrive.report(3 * SECOND, 4, false);
    let cancelled = Reply::MoveTaskCancelled(Ok(4));
    assert_eq!(redrive.cancel(redrive.dead, TASK), cancelled);
    assert_eq!(redrive.status(), MoveStatus::Cancelling);
    assert!(
        redrive
            .record()
            .descriptor
            .move_order
            .as_ref()
            .unwrap()
            .halted
    );
    let refused = Reply::MoveTaskCancelled(Err(CancelMoveTaskError::NotRunning(TASK)));
    assert_eq!(redrive.cancel(redrive.dead, TASK), refused);
    let refused = Reply::MoveTaskStarted(Err(StartMoveTaskError::Active));
    assert_eq!(redrive.start(MoveTaskId(6), None), refused);
    redrive.report(4 * SECOND, 5, true);
    let task = &redrive.record().moves[0];
    assert_eq!((task.status, task.moved()), (MoveStatus::Cancelled, 5));
    for (queue, task) in [(redrive.dead, MoveTaskId(6)), (redrive.orders, TASK)] {
        let refused = Reply::MoveTaskCancelled(Err(CancelMoveTaskError::NoSuchTask(task)));
        assert_eq!(redrive.cancel(queue, task), refused);
    }
}

#[test]
fn a_source_is_looked_for_by_its_name_and_becomes_a_guest_where_it_was() {
    let mut redrive = Redrive::started(None);
    let at = redrive.elsewhere(redrive.orders);
    redrive.block(at, no_place(Some("orders")));
    let order = redrive.record().descriptor.move_order.clone().unwrap();
    assert_eq!(order.sources["orders"], redrive.orders);
    let orders = &redrive.cluster.record(redrive.orders).descriptor;
    assert!(orders.takes_moves(at));
    assert!(redrive.record().descriptor.takes_moves(at), "it follows");
    let version = redrive.record().descriptor.version;
    redrive.block(at, no_place(Some("orders")));
    assert_eq!(
        redrive.record().descriptor.version,
        version,
        "nothing is new"
    );
    // What has the name now is the queue.
    redrive.cluster.delete(0, redrive.orders);
    let anew = create("orders", Attributes::default());
    redrive.cluster.ask(600 * SECOND, anew);
    redrive.block(at, no_place(Some("orders")));
    let order = redrive.record().descriptor.move_order.clone().unwrap();
    assert!(order.sources["orders"] > redrive.orders);
    assert_eq!(redrive.status(), MoveStatus::Running);
}

#[test]
fn a_destination_becomes_a_guest() {
    let mut redrive = Redrive::started(Some("other"));
    let other = QueueId(redrive.orders.0 + 1);
    let at = redrive.elsewhere(other);
    redrive.block(at, no_place(None));
    assert!(redrive.cluster.record(other).descriptor.takes_moves(at));
    assert_eq!(
        redrive.record().moves[0].destination.as_deref(),
        Some("other")
    );
}

#[test]
fn a_task_fails_when_a_message_has_nowhere_to_go() {
    let gone = MoveFailure::NonExistentQueue;
    for (obstacle, reason) in [
        (no_place(Some("nobody")), gone),
        (no_place(Some("fifo.fifo")), gone),
        (MoveObstacle::NoSource, MoveFailure::NoSource),
    ] {
        let mut redrive = Redrive::started(None);
        redrive.cluster.create(0, "fifo.fifo");
        redrive.block(PartitionId(0), obstacle);
        assert_eq!(redrive.status(), MoveStatus::Failing(reason));
        assert!(
            redrive
                .record()
                .descriptor
                .move_order
                .as_ref()
                .unwrap()
                .halted
        );
        redrive.report(3 * SECOND, 1, true);
        assert_eq!(redrive.status(), MoveStatus::Failed(reason));
    }
}

#[test]
fn a_task_fails_with_its_destination_and_goes_with_its_queue() {
    let mut redrive = Redrive::started(Some("other"));
    redrive
        .cluster
        .delete(2 * SECOND, QueueId(redrive.orders.0 + 1));
    let gone = MoveFailure::NonExistentQueue;
    assert_eq!(redrive.status(), MoveStatus::Failing(gone));
    redrive.report(3 * SECOND, 0, true);
    assert_eq!(redrive.status(), MoveStatus::Failed(gone));

    let mut redrive = Redrive::started(None);
    redrive.cluster.delete(2 * SECOND, redrive.dead);
    assert_eq!(redrive.cluster.metadata.moving().count(), 0);
    redrive.block(PartitionId(0), MoveObstacle::NoSource);
}

#[test]
fn a_task_runs_for_36_hours_at_the_most() {
    let mut redrive = Redrive::started(None);
    redrive.report(SECOND + MOVE_TASK_LIFE_MS - 1, 1, false);
    assert_eq!(redrive.status(), MoveStatus::Running);
    redrive.report(SECOND + MOVE_TASK_LIFE_MS, 1, false);
    assert_eq!(redrive.status(), MoveStatus::Failing(MoveFailure::TimedOut));
}

#[test]
fn records_and_checkpoints_with_tasks_are_of_their_own_version_and_come_back() {
    let mut redrive = Redrive::started(Some("other"));
    let check = |redrive: &Redrive| {
        let bytes = redrive.record().encode();
        assert_eq!(bytes[0], 6);
        assert_eq!(&QueueRecord::decode(&bytes).unwrap(), redrive.record());
        for length in 0..bytes.len() {
            assert!(QueueRecord::decode(&bytes[..length]).is_err(), "{length}");
        }
        let bytes = redrive.cluster.metadata.encode();
        assert_eq!(bytes[0], 6);
        assert_eq!(Metadata::decode(&bytes).unwrap(), redrive.cluster.metadata);
    };
    check(&redrive);
    redrive.report(3 * SECOND, 4, false);
    check(&redrive);
    redrive.cancel(redrive.dead, TASK);
    check(&redrive);
    redrive.report(3 * SECOND, 4, true);
    check(&redrive);
    assert_eq!(redrive.cluster.record(redrive.orders).encode()[0], 4);
}
