//! Queues on several partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hikyaku_cluster::{Node, Outgoing, ReceiveRequest, Received};
use hikyaku_metadata::{Attributes, QueueRecord, SetAttributes, TenantId, message_group_partition};
use hikyaku_queue::{DeduplicationScope, PartitionId};
use hikyaku_storage::SimDisk;

use super::network::Wires;
use super::three_nodes::{cluster, disks};
use super::{bodies, message, ordered, queue, queue_with, send, start, up_to, waiting};

async fn one_node() -> Arc<Node> {
    start(&Arc::new(SimDisk::new(1))).await
}

async fn by_group(node: &Node) -> Arc<QueueRecord> {
    let attributes = Attributes {
        deduplication_scope: Some(DeduplicationScope::MessageGroup),
        ..Attributes::default()
    };
    let queue = queue_with(node, "groups.fifo", true, attributes).await;
    assert_eq!(queue.descriptor.spread.len(), 2, "as many as there are");
    queue
}

fn wide(width: u32) -> Attributes {
    Attributes {
        spread_width: Some(width),
        ..Attributes::default()
    }
}

async fn set_width(node: &Node, queue: &QueueRecord, width: u32) -> Arc<QueueRecord> {
    let change = SetAttributes {
        queue: queue.descriptor.id,
        attributes: wide(width),
    };
    node.set_attributes(change).await.expect("set");
    let read = node.read_queue(TenantId::DEFAULT, &queue.name).await;
    read.expect("answered").expect("it exists")
}

/// Two message groups on different partitions.
fn two_groups(queue: &QueueRecord) -> [String; 2] {
    let partition = |group: &str| {
        let descriptor = &queue.descriptor;
        message_group_partition(descriptor.id, &descriptor.spread, group)
    };
    let groups = (0..).map(|number| format!("g{number}"));
    let mut by_partition: BTreeMap<PartitionId, String> = BTreeMap::new();
    for group in groups {
        by_partition.entry(partition(&group)).or_insert(group);
        if by_partition.len() == 2 {
            break;
        }
    }
    let mut groups = by_partition.into_values();
    [(); 2].map(|()| groups.next().expect("there are two"))
}

/// Numbered messages, in turn of either group.
fn in_turn(groups: &[String; 2], count: u8) -> Vec<Outgoing> {
    let group = |number: u8| &groups[usize::from(number % 2)];
    (0..count)
        .map(|number| ordered(group(number), number))
        .collect()
}

fn handles(received: &[Received]) -> Vec<&str> {
    received
        .iter()
        .map(|it| it.receipt_handle.as_str())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_batch_over_message_groups_is_one_and_comes_out_whole() {
    let node = one_node().await;
    let queue = by_group(&node).await;
    let groups = two_groups(&queue);
    let batch = in_turn(&groups, 8);
    let sent = send(&node, &queue, batch.clone()).await.expect("sent");
    let ids: Vec<u8> = sent.iter().map(|sent| sent.id.0[0]).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7], "answers are in order");
    let again = send(&node, &queue, batch).await.expect("sent");
    assert!(again.iter().all(|sent| sent.duplicate));
    assert_eq!(node.counts(&queue).await.expect("counted").visible, 8);

    let received = node.receive(&queue, up_to(10)).await.expect("received");
    let of = |rest: u8| -> Vec<u8> {
        let numbers = bodies(&received).into_iter();
        numbers.filter(|number| number % 2 == rest).collect()
    };
    assert_eq!(of(0), [0, 2, 4, 6]);
    assert_eq!(of(1), [1, 3, 5, 7]);
    let results = node.delete(&queue, &handles(&received)).await;
    assert!(results.iter().all(Result::is_ok), "on both partitions");
    let counts = node.counts(&queue).await.expect("counted");
    assert_eq!((counts.visible, counts.in_flight), (0, 0));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_receive_takes_no_more_than_asked_for_and_passes_no_partition_over() {
    let node = one_node().await;
    let queue = by_group(&node).await;
    let groups = two_groups(&queue);
    send(&node, &queue, in_turn(&groups, 10))
        .await
        .expect("sent");
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        let received = node.receive(&queue, up_to(2)).await.expect("received");
        assert!(received.len() <= 2);
        node.delete(&queue, &handles(&received)).await;
        seen.extend(bodies(&received));
    }
    assert_eq!(seen.len(), 10);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_purge_empties_every_partition_and_its_memory() {
    let node = one_node().await;
    let queue = by_group(&node).await;
    let batch = in_turn(&two_groups(&queue), 4);
    send(&node, &queue, batch.clone()).await.expect("sent");
    node.purge_queue(queue.descriptor.id).await.expect("purged");
    assert_eq!(node.counts(&queue).await.expect("counted").visible, 0);
    let again = send(&node, &queue, batch).await.expect("sent");
    assert!(again.iter().all(|sent| !sent.duplicate));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_repeated_attempt_gets_the_same_messages_wherever_they_are() {
    let node = one_node().await;
    let queue = by_group(&node).await;
    let groups = two_groups(&queue);
    let attempt = |name: &str| ReceiveRequest {
        attempt_id: Some(name.to_owned()),
        ..up_to(1)
    };
    for (number, group) in groups.iter().enumerate() {
        let name = format!("attempt {number}");
        let only = ordered(group, 1);
        send(&node, &queue, vec![only]).await.expect("sent");
        let first = node
            .receive(&queue, attempt(&name))
            .await
            .expect("received");
        assert_eq!(first.len(), 1);
        // Something newer everywhere does not tempt the retry.
        let newer = groups.iter().map(|group| ordered(group, 2)).collect();
        send(&node, &queue, newer).await.expect("sent");
        let again = node
            .receive(&queue, attempt(&name))
            .await
            .expect("received");
        assert_eq!(handles(&again), handles(&first));
        node.delete(&queue, &handles(&first)).await;
        let rest = node.receive(&queue, up_to(10)).await.expect("received");
        node.delete(&queue, &handles(&rest)).await;
    }
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_is_granted_by_the_first_partition_and_counted_by_no_other() {
    let node = one_node().await;
    let queue = by_group(&node).await;
    let groups = two_groups(&queue);
    for round in 0..4 {
        let poll = {
            let (node, queue) = (Arc::clone(&node), Arc::clone(&queue));
            tokio::spawn(async move { node.receive(&queue, waiting(20)).await })
        };
        tokio::time::sleep(Duration::from_secs(3)).await;
        // Both partitions have something for the one poll, at the same moment.
        let both = groups.iter().map(|group| ordered(group, round)).collect();
        send(&node, &queue, both).await.expect("sent");
        let granted = poll.await.expect("no panic").expect("received");
        assert!(!granted.is_empty());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let others = node.receive(&queue, up_to(10)).await.expect("received");
        assert_eq!(granted.len() + others.len(), 2, "none is hidden");
        let counted = granted.iter().chain(&others).map(|it| it.receive_count);
        assert_eq!(counted.collect::<Vec<_>>(), [1, 1]);
        node.delete(&queue, &handles(&granted)).await;
        node.delete(&queue, &handles(&others)).await;
    }
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_another_node_grants_too_late_goes_back_uncounted() {
    let nodes = cluster(&Wires::default(), &disks()).await;
    let queue = by_group(&nodes[0]).await;
    let groups = two_groups(&queue);
    for (round, node) in (0..).zip(nodes.iter().cycle().take(6)) {
        let found = node.find_queue(TenantId::DEFAULT, &queue.name).await;
        assert!(found.expect("answered").is_some());
        let poll = {
            let (node, queue) = (Arc::clone(node), Arc::clone(&queue));
            tokio::spawn(async move { node.receive(&queue, waiting(20)).await })
        };
        tokio::time::sleep(Duration::from_secs(2)).await;
        let both = groups.iter().map(|group| ordered(group, round)).collect();
        send(&nodes[0], &queue, both).await.expect("sent");
        let granted = poll.await.expect("no panic").expect("received");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let others = node.receive(&queue, up_to(10)).await.expect("received");
        let counted = granted.iter().chain(&others).map(|it| it.receive_count);
        assert_eq!(counted.collect::<Vec<_>>(), [1, 1], "none is hidden");
        node.delete(&queue, &handles(&granted)).await;
        node.delete(&queue, &handles(&others)).await;
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_long_poll_proposes_nothing_anywhere() {
    let node = one_node().await;
    let queue = by_group(&node).await;
    let groups = two_groups(&queue);
    send(&node, &queue, in_turn(&groups, 2))
        .await
        .expect("sent");
    let received = node.receive(&queue, up_to(10)).await.expect("received");
    node.delete(&queue, &handles(&received)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = super::applied(&node);
    assert!(
        node.receive(&queue, waiting(10))
            .await
            .expect("received")
            .is_empty()
    );
    assert!(
        node.receive(&queue, up_to(10))
            .await
            .expect("received")
            .is_empty()
    );
    assert_eq!(super::applied(&node), before);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_standard_queue_is_spread_over_as_many_partitions_as_its_owner_says() {
    let node = one_node().await;
    let queue = queue_with(&node, "wide", false, wide(2)).await;
    for number in 0..40 {
        send(&node, &queue, vec![message(number)])
            .await
            .expect("sent");
    }
    for partition in &queue.descriptor.spread {
        let counts = node.router().counts(*partition, queue.descriptor.id).await;
        let visible = counts.expect("counted").visible;
        assert!((5..=35).contains(&visible), "{visible} of 40 in one of two");
    }
    let mut seen = BTreeSet::new();
    while seen.len() < 40 {
        let received = node.receive(&queue, up_to(10)).await.expect("received");
        assert!(!received.is_empty(), "{} of 40", seen.len());
        node.delete(&queue, &handles(&received)).await;
        seen.extend(bodies(&received));
    }
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_receive_hears_of_new_partitions() {
    let node = one_node().await;
    let queue = queue(&node, "orders", false).await;
    let poll = {
        let (node, queue) = (Arc::clone(&node), Arc::clone(&queue));
        tokio::spawn(async move { node.receive(&queue, waiting(20)).await })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    let queue = set_width(&node, &queue, 2).await;
    // One of them comes to the new partition, with all likelihood.
    let mut at_new = 0;
    while at_new == 0 {
        let _ = node.receive(&queue, up_to(10)).await;
        send(&node, &queue, vec![message(1)]).await.expect("sent");
        let new = queue.descriptor.spread[1];
        let counts = node.router().counts(new, queue.descriptor.id).await;
        let counts = counts.expect("counted");
        at_new = counts.visible + counts.in_flight;
    }
    let started = tokio::time::Instant::now();
    let granted = poll.await.expect("no panic").expect("received");
    assert!(!granted.is_empty());
    assert!(started.elapsed() < Duration::from_secs(1));
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_leaves_the_spread_is_emptied_and_let_go() {
    let node = one_node().await;
    let wide = queue_with(&node, "orders", false, wide(2)).await;
    for number in 0..20 {
        send(&node, &wide, vec![message(number)])
            .await
            .expect("sent");
    }
    let narrow = set_width(&node, &wide, 1).await;
    assert_eq!(narrow.descriptor.draining, wide.descriptor.spread[1..]);
    let left = narrow.descriptor.draining[0];
    let at_left = async || {
        let counts = node.router().counts(left, wide.descriptor.id).await;
        counts.expect("counted").visible
    };
    let before = at_left().await;
    assert!(before > 0);
    for number in 20..40 {
        // A router whose copy is old finds out.
        send(&node, &wide, vec![message(number)])
            .await
            .expect("sent");
    }
    assert_eq!(at_left().await, before, "it takes no sends");

    let mut seen = BTreeSet::new();
    while seen.len() < 40 {
        let received = node.receive(&narrow, up_to(10)).await.expect("received");
        assert!(!received.is_empty(), "{} of 40", seen.len());
        node.delete(&narrow, &handles(&received)).await;
        seen.extend(bodies(&received));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let read = node.read_queue(TenantId::DEFAULT, "orders").await;
    let read = read.expect("answered").expect("it exists");
    assert!(read.descriptor.draining.is_empty());
    assert_eq!(read.descriptor.spread, narrow.descriptor.spread);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_queue_is_gone_from_every_partition() {
    let node = one_node().await;
    let queue = by_group(&node).await;
    send(&node, &queue, in_turn(&two_groups(&queue), 2))
        .await
        .expect("sent");
    let poll = {
        let (node, queue) = (Arc::clone(&node), Arc::clone(&queue));
        tokio::spawn(async move {
            let held = node.receive(&queue, up_to(10)).await.expect("received");
            (held, node.receive(&queue, waiting(20)).await)
        })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    node.delete_queue(queue.descriptor.id)
        .await
        .expect("deleted");
    let (held, waited) = poll.await.expect("no panic");
    assert!(waited.is_err(), "whoever waits hears of it");
    assert!(
        node.delete(&queue, &handles(&held))
            .await
            .iter()
            .all(Result::is_err)
    );
    assert!(
        send(&node, &queue, in_turn(&two_groups(&queue), 2))
            .await
            .is_err()
    );
    node.stop().await;
}

/// Sends so many batches of ten over a second of (paused) time.
async fn send_for_a_second(node: &Node, queue: &QueueRecord, batches: u32) {
    let second = tokio::time::sleep(Duration::from_secs(1));
    for _ in 0..batches {
        let batch = (0..10).map(message).collect();
        send(node, queue, batch).await.expect("sent");
    }
    second.await;
}

async fn width(node: &Node, queue: &QueueRecord) -> usize {
    let read = node.read_queue(TenantId::DEFAULT, &queue.name).await;
    let read = read.expect("answered").expect("it exists");
    read.descriptor.spread.len()
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_too_busy_for_long_grows_and_no_other_does() {
    let node = one_node().await;
    let busy = queue(&node, "busy", false).await;
    let pinned = queue_with(&node, "pinned", false, wide(1)).await;
    let calm = queue(&node, "calm", false).await;
    for second in 0..14 {
        if second == 8 {
            assert_eq!(width(&node, &busy).await, 1, "not for a short time");
        }
        tokio::join!(
            send_for_a_second(&node, &busy, 110),
            send_for_a_second(&node, &pinned, 110),
            send_for_a_second(&node, &calm, 90),
        );
    }
    assert_eq!(width(&node, &busy).await, 2);
    assert_eq!(width(&node, &pinned).await, 1);
    assert_eq!(width(&node, &calm).await, 1);
    node.stop().await;
}
