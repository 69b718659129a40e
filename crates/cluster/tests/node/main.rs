//! Nodes over simulated disks and a paused clock: what a front sees.

mod elastic;
mod moves;
mod network;
mod routers;
mod spread;
mod three_nodes;
mod wishes;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hikyaku_cluster::{
    CallError, Clock, ControlError, HandleError, HostLimits, MemoryCopy, Node, NodeParts,
    NodeSettings, Outgoing, ReceiveRequest, Received, SendFailure, SystemClock, SystemEntropy,
    ToldClock,
};
use hikyaku_metadata::{
    Attributes, CreateQueue, CreateQueueError, PlacementLimits, PurgeQueueError, QueueRecord,
    SetAttributes, TenantId,
};
use hikyaku_queue::{Command, MessageId, Operation, Reply, RequestId, Sent};
use hikyaku_raft::{Identity, Peers, RaftConfig, RaftNode};
use hikyaku_storage::{CrashKind, Log, LogConfig, SimDisk, Work};
use network::Wires;

async fn start(disk: &Arc<SimDisk>) -> Arc<Node> {
    start_with(disk, None).await
}

/// A node whose configuration says something of the cluster's cooldown, or nothing.
async fn start_with(disk: &Arc<SimDisk>, cooldown_ms: Option<u64>) -> Arc<Node> {
    let log = Log::open(Arc::clone(disk) as _, LogConfig::small(), Work::Task).expect("opens");
    let peers = Peers::new(Arc::new(Wires::default()), Identity::new(7), []);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let told = Arc::new(ToldClock(Arc::clone(&clock)));
    let raft = RaftNode::new(RaftConfig::default(), log, peers, told, Work::Task).expect("valid");
    let settings = NodeSettings {
        node: 7,
        cluster_id: 9,
        founders: vec![(7, String::new())],
        founds_groups: true,
        announces: None,
        replication: 3,
        placement: PlacementLimits::default(),
        partitions: 2,
        limits: HostLimits::default(),
        memory_bytes: 1 << 30,
        request_budget: Duration::from_secs(20),
        grow_spreads: true,
        cooldown_ms,
    };
    let parts = NodeParts {
        peers: raft.peers().clone(),
        replicas: Some(Arc::new(raft)),
        clock,
        entropy: Arc::new(SystemEntropy),
        catalogue: Arc::new(MemoryCopy::default()),
    };
    let node = Node::start(settings, parts).await.expect("starts");
    while !node.is_ready() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    node
}

/// Sends messages, all or none as far as the test is concerned.
async fn send(
    node: &Node,
    queue: &QueueRecord,
    messages: Vec<Outgoing>,
) -> Result<Vec<Sent>, SendFailure> {
    node.send(queue, messages).await.into_iter().collect()
}

async fn queue(node: &Node, name: &str, fifo: bool) -> Arc<QueueRecord> {
    queue_with(node, name, fifo, Attributes::default()).await
}

async fn queue_with(
    node: &Node,
    name: &str,
    fifo: bool,
    attributes: Attributes,
) -> Arc<QueueRecord> {
    let create = CreateQueue {
        tenant: TenantId::DEFAULT,
        name: name.to_owned(),
        fifo,
        attributes,
        tags: BTreeMap::new(),
    };
    node.create_queue(create).await.expect("created");
    let found = node
        .find_queue(TenantId::DEFAULT, name)
        .await
        .expect("answered");
    found.expect("just created")
}

fn message(number: u8) -> Outgoing {
    Outgoing {
        id: MessageId([number; 16]),
        body: Bytes::from(vec![number; 3]),
        delay_ms: None,
        message_group: None,
        deduplication_id: None,
    }
}

fn ordered(group: &str, number: u8) -> Outgoing {
    Outgoing {
        message_group: Some(group.to_owned()),
        deduplication_id: Some(format!("{group}-{number}")),
        ..message(number)
    }
}

fn up_to(max: u8) -> ReceiveRequest {
    ReceiveRequest {
        max,
        visibility_timeout_ms: None,
        attempt_id: None,
        wait: Duration::ZERO,
    }
}

fn waiting(seconds: u64) -> ReceiveRequest {
    ReceiveRequest {
        wait: Duration::from_secs(seconds),
        ..up_to(10)
    }
}

fn bodies(received: &[Received]) -> Vec<u8> {
    received.iter().map(|message| message.body[0]).collect()
}

fn applied(node: &Node) -> u64 {
    node.partitions()
        .iter()
        .map(|partition| partition.applied_index())
        .sum()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_received_and_deleted() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    let sent = send(&node, &queue, vec![message(1), message(2)])
        .await
        .expect("sent");
    assert_eq!(sent.len(), 2);
    let received = node.receive(&queue, up_to(10)).await.expect("received");
    assert_eq!(bodies(&received), [1, 2]);
    assert_eq!(received[0].receive_count, 1);
    assert!(
        node.receive(&queue, up_to(10))
            .await
            .expect("received")
            .is_empty()
    );
    let handles: Vec<&str> = received.iter().map(|m| m.receipt_handle.as_str()).collect();
    assert_eq!(node.delete(&queue, &handles).await, [Ok(()), Ok(())]);
    let counts = node.counts(&queue).await.expect("counted");
    assert_eq!(
        (counts.visible, counts.in_flight, counts.delayed),
        (0, 0, 0)
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_returns_after_its_visibility_timeout() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    send(&node, &queue, vec![message(1)]).await.expect("sent");
    assert_eq!(
        node.receive(&queue, up_to(1))
            .await
            .expect("received")
            .len(),
        1
    );
    tokio::time::sleep(Duration::from_millis(29_900)).await;
    assert!(
        node.receive(&queue, up_to(1))
            .await
            .expect("received")
            .is_empty()
    );
    tokio::time::sleep(Duration::from_millis(200)).await;
    let again = node.receive(&queue, up_to(1)).await.expect("received");
    assert_eq!(again[0].receive_count, 2);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fifo_keeps_order_and_drops_duplicates() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q.fifo", true).await;
    let first = send(&node, &queue, vec![ordered("a", 1), ordered("a", 2)])
        .await
        .expect("sent");
    let again = send(&node, &queue, vec![ordered("a", 1)])
        .await
        .expect("sent");
    let (first, again) = (first[0], again[0]);
    assert_eq!(
        (again.id, again.sequence, again.duplicate),
        (first.id, first.sequence, true)
    );
    let received = node.receive(&queue, up_to(10)).await.expect("received");
    assert_eq!(bodies(&received), [1, 2]);
    assert!(received[0].sequence < received[1].sequence);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_wakes_when_a_message_comes() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    let poll = {
        let (node, queue) = (Arc::clone(&node), Arc::clone(&queue));
        tokio::spawn(async move { node.receive(&queue, waiting(20)).await })
    };
    tokio::time::sleep(Duration::from_secs(5)).await;
    send(&node, &queue, vec![message(4)]).await.expect("sent");
    let received = poll.await.expect("no panic").expect("received");
    assert_eq!(bodies(&received), [4]);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_wakes_when_a_delay_ends() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    let delayed = Outgoing {
        delay_ms: Some(3_000),
        ..message(9)
    };
    send(&node, &queue, vec![delayed]).await.expect("sent");
    let started = tokio::time::Instant::now();
    let received = node.receive(&queue, waiting(20)).await.expect("received");
    assert_eq!(bodies(&received), [9]);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(2_990) && waited < Duration::from_secs(4));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn idle_long_polls_write_nothing() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    let before = applied(&node);
    let polls: Vec<_> = (0..100)
        .map(|_| {
            let (node, queue) = (Arc::clone(&node), Arc::clone(&queue));
            tokio::spawn(async move { node.receive(&queue, waiting(20)).await })
        })
        .collect();
    for poll in polls {
        assert!(poll.await.expect("no panic").expect("answered").is_empty());
    }
    assert_eq!(applied(&node), before);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_client_has_gone_is_returned_uncounted() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    let gone = tokio::time::timeout(Duration::from_secs(1), node.receive(&queue, waiting(20)));
    assert!(gone.await.is_err());
    send(&node, &queue, vec![message(1)]).await.expect("sent");
    let received = node.receive(&queue, waiting(20)).await.expect("received");
    assert_eq!(received[0].receive_count, 1);
    node.stop().await;
}

/// The two travel apart: a receive that its router has taken back must find nothing afterwards, even if
/// its call is still there.
#[tokio::test(start_paused = true)]
async fn a_receive_that_was_given_up_hands_nothing_out() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    let home = queue.descriptor.spread[0];
    let handle = node.router().partition(home).expect("hosted");
    let command = |number, operation| Command {
        request_id: RequestId(number),
        not_after: u64::MAX,
        queue: queue.descriptor.id,
        descriptor_version: queue.descriptor.version,
        operation,
    };
    let receive = |number| {
        let operation = Operation::Receive {
            max: 10,
            visibility_timeout_ms: None,
            attempt_id: None,
        };
        let until = tokio::time::Instant::now() + Duration::from_secs(20);
        handle.submit(command(number, operation), Vec::new(), Some(until))
    };
    let give_up = |number| {
        let operation = Operation::ReturnUnread {
            receive: RequestId(number),
            deliveries: Vec::new(),
        };
        handle.submit(command(number + 100, operation), Vec::new(), None)
    };
    let mut parked = Box::pin(receive(1));
    let started = std::future::poll_fn(|cx| Poll::Ready(parked.as_mut().poll(cx).is_pending()));
    assert!(started.await, "nothing to receive yet");
    for number in [1, 2] {
        assert_eq!(
            give_up(number).await.expect("answered").reply,
            Reply::Returned
        );
    }
    send(&node, &queue, vec![message(1)]).await.expect("sent");
    for late in [parked.await, receive(2).await] {
        assert!(late.expect("answered").unseen.is_none());
    }
    let received = node.receive(&queue, waiting(20)).await.expect("received");
    assert_eq!(received[0].receive_count, 1);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_nobody_fetched_is_returned_uncounted() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    let mut poll = Box::pin(node.receive(&queue, waiting(20)));
    let started = std::future::poll_fn(|cx| Poll::Ready(poll.as_mut().poll(cx).is_pending()));
    assert!(started.await, "nothing to receive yet");
    send(&node, &queue, vec![message(1)]).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        node.counts(&queue).await.expect("counted").in_flight,
        1,
        "granted"
    );
    drop(poll);
    let received = node.receive(&queue, waiting(20)).await.expect("received");
    assert_eq!(received[0].receive_count, 1);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_acknowledged_survives_a_power_cut() {
    let disk = Arc::new(SimDisk::new(3));
    let node = start(&disk).await;
    let orders = queue(&node, "orders", false).await;
    send(&node, &orders, vec![message(1), message(2), message(3)])
        .await
        .expect("sent");
    let received = node.receive(&orders, up_to(2)).await.expect("received");
    node.delete(&orders, &[&received[0].receipt_handle]).await;
    let disk = Arc::new(disk.crash(CrashKind::PowerCut));
    drop(node);

    let node = start(&disk).await;
    let orders = queue(&node, "orders", false).await;
    assert_eq!(
        bodies(&node.receive(&orders, up_to(10)).await.expect("received")),
        [3]
    );
    let counts = node.counts(&orders).await.expect("counted");
    assert_eq!((counts.visible, counts.in_flight), (0, 2));
    assert_eq!(
        node.delete(&orders, &[&received[1].receipt_handle]).await,
        [Ok(())]
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_sends_and_lets_receives_and_deletes_go_on() {
    let disk = Arc::new(SimDisk::new(1));
    let node = start(&disk).await;
    let queue = queue(&node, "q", false).await;
    disk.set_capacity(Some(disk.used_bytes() + (1 << 20)));
    let large = || Outgoing {
        body: Bytes::from(vec![0; 8_192]),
        ..message(0)
    };
    let mut accepted = 0;
    let refused = loop {
        match send(&node, &queue, vec![large()]).await {
            Ok(sent) => accepted += sent.len(),
            Err(refused) => break refused,
        }
        assert!(accepted < 10_000, "the disk is never full");
    };
    assert_eq!(refused, SendFailure::Call(CallError::DiskFull));
    let mut deleted = 0;
    while deleted < accepted {
        let received = node
            .receive(&queue, up_to(10))
            .await
            .expect("receives go on");
        assert!(!received.is_empty(), "what was accepted can be received");
        let handles: Vec<&str> = received.iter().map(|m| m.receipt_handle.as_str()).collect();
        assert!(
            node.delete(&queue, &handles)
                .await
                .iter()
                .all(Result::is_ok)
        );
        deleted += received.len();
    }
    disk.set_capacity(None);
    let mut tries = 0;
    while send(&node, &queue, vec![large()]).await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        tries += 1;
        assert!(tries < 60, "sends come back without a restart");
    }
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn purge_and_delete_are_points_in_time() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    send(&node, &queue, vec![message(1)]).await.expect("sent");
    node.purge_queue(queue.descriptor.id).await.expect("purged");
    send(&node, &queue, vec![message(2)]).await.expect("sent");
    assert_eq!(
        bodies(&node.receive(&queue, up_to(10)).await.expect("received")),
        [2]
    );
    let refused = node.purge_queue(queue.descriptor.id).await;
    assert!(matches!(
        refused,
        Err(ControlError::Refused(PurgeQueueError::InProgress { .. }))
    ));
    node.delete_queue(queue.descriptor.id)
        .await
        .expect("deleted");
    let sent = send(&node, &queue, vec![message(3)]).await;
    assert_eq!(sent.unwrap_err(), SendFailure::Call(CallError::QueueGone));
    assert_eq!(
        node.read_queue(TenantId::DEFAULT, "q")
            .await
            .expect("answered"),
        None
    );
    let create = CreateQueue {
        tenant: TenantId::DEFAULT,
        name: "q".to_owned(),
        fifo: false,
        attributes: Attributes::default(),
        tags: BTreeMap::new(),
    };
    let refused = node.create_queue(create).await;
    assert!(matches!(
        refused,
        Err(ControlError::Refused(
            CreateQueueError::DeletedRecently { .. }
        ))
    ));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn attributes_reach_the_partition_before_the_answer() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let queue = queue(&node, "q", false).await;
    send(&node, &queue, vec![message(1)]).await.expect("sent");
    let attributes = Attributes {
        visibility_timeout_ms: Some(1_000),
        ..Attributes::default()
    };
    let change = SetAttributes {
        queue: queue.descriptor.id,
        attributes,
    };
    node.set_attributes(change).await.expect("set");
    assert_eq!(
        node.receive(&queue, up_to(1))
            .await
            .expect("received")
            .len(),
        1
    );
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(
        node.receive(&queue, up_to(1))
            .await
            .expect("received")
            .len(),
        1
    );
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_another_queue_is_refused() {
    let node = start(&Arc::new(SimDisk::new(1))).await;
    let (one, other) = (
        queue(&node, "one", false).await,
        queue(&node, "other", false).await,
    );
    send(&node, &one, vec![message(1)]).await.expect("sent");
    let received = node.receive(&one, up_to(1)).await.expect("received");
    let handle = received[0].receipt_handle.as_str();
    assert_eq!(
        node.delete(&other, &[handle, "garbage"]).await,
        [Err(HandleError::Invalid), Err(HandleError::Invalid)]
    );
    assert_eq!(node.delete(&one, &[handle]).await, [Ok(())]);
    node.stop().await;
}
