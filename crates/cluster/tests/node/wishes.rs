//! What one node's configuration says of the whole cluster.

use std::sync::Arc;

use hikyaku_cluster::Node;
use hikyaku_storage::{CrashKind, SimDisk};

use super::start_with;

fn cooldown_ms(node: &Node) -> u64 {
    let settings = node.control().with_metadata(|metadata| metadata.settings());
    settings.expect("there is a replica here").cooldown_ms
}

/// Starts a node over what the last one left on its disk.
async fn restarted(node: Arc<Node>, disk: &mut Arc<SimDisk>, wish: Option<u64>) -> Arc<Node> {
    node.stop().await;
    *disk = Arc::new(disk.crash(CrashKind::ProcessDeath));
    start_with(disk, wish).await
}

#[tokio::test(start_paused = true)]
async fn the_last_node_that_says_something_of_the_cooldown_wins() {
    let mut disk = Arc::new(SimDisk::new(5));
    let node = start_with(&disk, None).await;
    assert_eq!(cooldown_ms(&node), 60_000);
    let node = restarted(node, &mut disk, Some(0)).await;
    assert_eq!(
        cooldown_ms(&node),
        0,
        "a node is ready when the cluster was told"
    );
    let node = restarted(node, &mut disk, None).await;
    assert_eq!(
        cooldown_ms(&node),
        0,
        "a node that says nothing changes nothing"
    );
    let node = restarted(node, &mut disk, Some(30_000)).await;
    assert_eq!(cooldown_ms(&node), 30_000);
    node.stop().await;
}
