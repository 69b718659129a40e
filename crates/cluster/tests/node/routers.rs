//! Nodes without replicas: they follow the others and do all that the others do.

use std::sync::Arc;
use std::time::Duration;

use hikyaku_cluster::{MemoryCopy, Node, NodeParts, SystemClock, SystemEntropy};
use hikyaku_metadata::TenantId;
use hikyaku_raft::{Identity, Peers};

use super::network::Wires;
use super::three_nodes::{address, cluster, disks, settings};
use super::{bodies, message, queue, send, up_to, waiting};

/// The id of the router.
const ROUTER: u64 = 9;

async fn router(wires: &Wires) -> Arc<Node> {
    let addresses: Vec<(u64, String)> = (1..=3).map(|node| (node, address(node))).collect();
    let parts = NodeParts {
        peers: Peers::new(
            Arc::new(wires.clone()),
            Identity::new(ROUTER),
            addresses.clone(),
        ),
        replicas: None,
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        catalogue: Arc::new(MemoryCopy::default()),
    };
    let router = Node::start(settings(ROUTER, addresses), parts).await;
    let router = router.expect("starts");
    while !router.is_ready() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    router
}

#[tokio::test(start_paused = true)]
async fn a_router_does_all_that_a_node_with_replicas_does() {
    let wires = Wires::default();
    let nodes = cluster(&wires, &disks()).await;
    let router = router(&wires).await;
    assert!(router.partitions().is_empty());

    let orders = queue(&router, "orders", false).await;
    send(&router, &orders, vec![message(1)])
        .await
        .expect("sent");
    let received = router.receive(&orders, up_to(1)).await.expect("received");
    assert_eq!(bodies(&received), [1]);
    let counts = router.counts(&orders).await.expect("counted");
    assert_eq!((counts.visible, counts.in_flight), (0, 1));
    let deleted = router.delete(&orders, &[&received[0].receipt_handle]).await;
    assert_eq!(deleted, [Ok(())]);

    let poll = {
        let (router, orders) = (Arc::clone(&router), Arc::clone(&orders));
        tokio::spawn(async move { router.receive(&orders, waiting(20)).await })
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    send(&nodes[1], &orders, vec![message(2)])
        .await
        .expect("sent");
    let granted = poll.await.expect("no panic").expect("received");
    assert_eq!(bodies(&granted), [2]);

    router
        .purge_queue(orders.descriptor.id)
        .await
        .expect("purged");
    let counts = router.counts(&orders).await.expect("counted");
    assert_eq!((counts.visible, counts.in_flight), (0, 0));
    router
        .delete_queue(orders.descriptor.id)
        .await
        .expect("deleted");
    let gone = nodes[2].read_queue(TenantId::DEFAULT, "orders").await;
    assert_eq!(gone.expect("answered"), None);
    router.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_router_sees_at_once_what_was_answered_elsewhere() {
    let wires = Wires::default();
    let nodes = cluster(&wires, &disks()).await;
    let router = router(&wires).await;
    for number in 0..20 {
        let name = format!("queue-{number}");
        let made = queue(&nodes[number % 3], &name, false).await;
        let seen = router.read_queue(TenantId::DEFAULT, &name).await;
        let seen = seen.expect("answered").expect("there");
        assert_eq!(seen.descriptor.id, made.descriptor.id);
    }
    let listed = router
        .list_queues(TenantId::DEFAULT, "queue-", None, 100)
        .await;
    assert_eq!(listed.expect("answered").len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_router_finds_the_new_leader_when_one_goes() {
    let wires = Wires::default();
    let nodes = cluster(&wires, &disks()).await;
    let router = router(&wires).await;
    let orders = queue(&router, "orders", false).await;
    let home = orders.descriptor.spread[0];
    for (number, gone) in [(1, true), (2, false)] {
        send(&router, &orders, vec![message(number)])
            .await
            .expect("sent");
        if gone {
            let handle = nodes[0].router().partition(home).expect("hosted");
            let leader = handle.leadership().leader_node.expect("known");
            wires.unplug(&address(leader));
            nodes[usize::try_from(leader).expect("small") - 1]
                .stop()
                .await;
        }
    }
    let received = router.receive(&orders, up_to(10)).await.expect("received");
    assert_eq!(bodies(&received), [1, 2]);
}
