//! Message move tasks: dead letters return, whoever leads.

use std::sync::Arc;
use std::time::Duration;

use hikyaku_cluster::{Node, ReceiveRequest};
use hikyaku_metadata::{
    Attributes, CancelMoveTask, MoveStatus, MoveTask, QueueRecord, RedriveTarget, StartMoveTask,
    TenantId,
};
use hikyaku_queue::MoveTaskId;
use hikyaku_storage::SimDisk;

use super::network::Wires;
use super::three_nodes::{address, cluster, disks};
use super::{bodies, message, queue, queue_with, send, start, up_to};

const TASK: MoveTaskId = MoveTaskId(7);

/// Messages in the dead-letter queue.
const LETTERS: u8 = 200;

fn policy(queue: &str) -> Attributes {
    Attributes {
        redrive_target: Some(Some(RedriveTarget {
            queue: queue.to_owned(),
            max_receive_count: 1,
        })),
        ..Attributes::default()
    }
}

/// A source, and its dead-letter queue with messages.
async fn with_letters(node: &Node) -> (Arc<QueueRecord>, Arc<QueueRecord>) {
    let dead = queue(node, "dead", false).await;
    let orders = queue_with(node, "orders", false, policy("dead")).await;
    let numbers: Vec<u8> = (0..LETTERS).collect();
    for batch in numbers.chunks(10) {
        let messages = batch.iter().map(|number| message(*number)).collect();
        send(node, &dead, messages).await.expect("sent");
    }
    (dead, orders)
}

async fn begin(node: &Node, dead: &QueueRecord, to: &QueueRecord, rate: Option<u16>) {
    let task = StartMoveTask {
        queue: dead.descriptor.id,
        task: TASK,
        destination: Some(to.descriptor.id),
        rate,
        to_move: u64::from(LETTERS),
    };
    node.start_move_task(task).await.expect("started");
}

async fn latest(node: &Node) -> MoveTask {
    let found = node.read_queue(TenantId::DEFAULT, "dead").await;
    let record = found.expect("answered").expect("is there");
    record.moves.first().expect("was started").clone()
}

/// Waits until the task has ended.
async fn ended(node: &Node) -> MoveTask {
    let ends = async {
        loop {
            let task = latest(node).await;
            if !task.is_active() {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let limit = Duration::from_secs(120);
    tokio::time::timeout(limit, ends).await.expect("it ends")
}

/// What is left in a queue, each message once.
async fn drain(node: &Node, queue: &QueueRecord) -> Vec<u8> {
    let found = node.find_queue(TenantId::DEFAULT, &queue.name).await;
    let queue = found.expect("answered").expect("is there");
    let mut seen = Vec::new();
    loop {
        let received = node.receive(&queue, up_to(10)).await.expect("received");
        if received.is_empty() {
            seen.sort_unstable();
            return seen;
        }
        seen.extend(bodies(&received));
    }
}

fn all() -> Vec<u8> {
    (0..LETTERS).collect()
}

#[tokio::test(start_paused = true)]
async fn a_destination_in_another_partition_becomes_a_guest() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let (dead, orders) = with_letters(&node).await;
    let home = orders.descriptor.spread.clone();
    let mut elsewhere = None;
    for number in 0..20 {
        let other = queue(&node, &format!("other{number}"), false).await;
        if other.descriptor.spread != home {
            elsewhere = Some(other);
            break;
        }
    }
    let elsewhere = elsewhere.expect("one of so many lives elsewhere");
    begin(&node, &dead, &elsewhere, None).await;
    let task = ended(&node).await;
    assert_eq!(task.status, MoveStatus::Completed);
    assert_eq!(task.moved(), u64::from(LETTERS));
    assert_eq!(drain(&node, &elsewhere).await, all());
    assert_eq!(drain(&node, &dead).await, []);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_has_told_what_it_moved() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let (dead, orders) = with_letters(&node).await;
    begin(&node, &dead, &orders, Some(20)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let cancel = CancelMoveTask {
        queue: dead.descriptor.id,
        task: TASK,
    };
    let heard = node.cancel_move_task(cancel).await.expect("cancelled");
    let task = ended(&node).await;
    assert_eq!(task.status, MoveStatus::Cancelled);
    let (back, left) = (drain(&node, &orders).await, drain(&node, &dead).await);
    assert_eq!(task.moved(), back.len() as u64);
    assert!(heard <= task.moved() && !back.is_empty() && !left.is_empty());
    let mut together = [back, left].concat();
    together.sort_unstable();
    assert_eq!(together, all());
    node.stop().await;
}

/// Kills a leader while the task runs; the others go on.
async fn survives(leader: impl Fn(&[Arc<Node>], &QueueRecord) -> u64) {
    let wires = Wires::default();
    let nodes = cluster(&wires, &disks()).await;
    let (dead, orders) = with_letters(&nodes[0]).await;
    begin(&nodes[0], &dead, &orders, Some(50)).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let gone = leader(&nodes, &dead);
    wires.unplug(&address(gone));
    nodes[usize::try_from(gone).expect("there are three") - 1]
        .stop()
        .await;
    let mut survivors = nodes.iter().filter(|node| node.id() != gone);
    let survivor = survivors.next().expect("two are left");
    assert!(latest(survivor).await.is_active(), "it was in the midst");
    let task = ended(survivor).await;
    assert_eq!(task.status, MoveStatus::Completed);
    assert_eq!(task.moved(), u64::from(LETTERS), "none twice, none not");
    assert_eq!(drain(survivor, &orders).await, all());
    assert_eq!(drain(survivor, &dead).await, []);
    for node in nodes.iter().filter(|node| node.id() != gone) {
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_goes_on_when_the_leader_of_the_partition_goes() {
    survives(|nodes, dead| {
        let home = dead.descriptor.spread[0];
        let handle = nodes[0].router().partition(home).expect("hosted");
        handle.leadership().leader_node.expect("known")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_task_goes_on_when_the_leader_of_the_metadata_goes() {
    survives(|nodes, _| {
        let leads = |node: &&Arc<Node>| node.control().leads().is_some();
        nodes.iter().find(leads).expect("one leads").id()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_moves_when_it_is_visible_again() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let dead = queue(&node, "dead", false).await;
    let orders = queue_with(&node, "orders", false, policy("dead")).await;
    send(&node, &dead, vec![message(1)]).await.expect("sent");
    let request = ReceiveRequest {
        visibility_timeout_ms: Some(20_000),
        ..up_to(1)
    };
    node.receive(&dead, request).await.expect("received");
    begin(&node, &dead, &orders, None).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(latest(&node).await.status, MoveStatus::Running);
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(latest(&node).await.status, MoveStatus::Completed);
    assert_eq!(drain(&node, &orders).await, [1]);
    node.stop().await;
}
