//! Nodes that come and go: replicas move to them and away, and nothing is lost meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_cluster::Node;
use hikyaku_metadata::{
    Command, GroupKey, JoinNode, JoinNodeError, NodeState, Reply, Role, SetNodeState,
};
use hikyaku_queue::PartitionId;
use hikyaku_storage::SimDisk;

use super::network::Wires;
use super::three_nodes::{Start, address, cluster, disks};
use super::{bodies, message, queue, send, up_to};

/// How long moves may take, in the test's time.
const PATIENCE: Duration = Duration::from_secs(600);

async fn join(wires: &Wires, node: u64, disk: &Arc<SimDisk>) -> Arc<Node> {
    let joins = JoinNode {
        node,
        address: address(node),
        zone: String::new(),
        certificate_name: None,
        storage: true,
    };
    let start = Start {
        announces: Some(joins),
        founds_groups: false,
    };
    start.node(wires, node, disk).await
}

/// The nodes of each group as `node` sees them, once no move is under way; `None` before.
fn settled(node: &Node) -> Option<Vec<BTreeSet<u64>>> {
    let cluster = node.catalogue().cluster()?;
    let partitions = (0..cluster.partitions).map(|it| GroupKey::Partition(PartitionId(it)));
    let groups = [GroupKey::Metadata].into_iter().chain(partitions);
    let nodes = groups.map(|group| {
        let replicas = node.catalogue().replicas(group)?;
        let members = replicas.members.values();
        let voting = members.clone().all(|member| member.role == Role::Voter);
        voting.then(|| members.map(|member| member.node).collect())
    });
    nodes.collect()
}

async fn settle(node: &Node, what: &str, good: impl Fn(&[BTreeSet<u64>]) -> bool) {
    let moved = async {
        loop {
            if settled(node).is_some_and(|groups| good(&groups)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let moved = tokio::time::timeout(PATIENCE, moved).await;
    assert!(moved.is_ok(), "not {what}: {:?}", settled(node));
}

async fn set_state(node: &Node, of: u64, state: NodeState) -> Reply {
    let set = Command::SetNodeState(SetNodeState { node: of, state });
    node.control().execute(set).await.expect("answered").reply
}

#[tokio::test(start_paused = true)]
async fn three_nodes_become_five_and_three_again_and_nothing_is_lost() {
    let wires = Wires::default();
    let mut nodes = cluster(&wires, &disks()).await;
    let orders = queue(&nodes[0], "orders", false).await;
    let mut sent = 0;
    let mut load = async |node: &Node| {
        sent += 1;
        send(node, &orders, vec![message(sent)])
            .await
            .expect("sent");
    };
    for _ in 0..50 {
        load(&nodes[0]).await;
    }
    let more: Vec<_> = (4..=5).map(|seed| Arc::new(SimDisk::new(seed))).collect();
    for (disk, node) in more.iter().zip(4..) {
        nodes.push(join(&wires, node, disk).await);
    }
    settle(&nodes[0], "spread over five", |groups| {
        let used: BTreeSet<u64> = groups.iter().flatten().copied().collect();
        groups.iter().all(|nodes| nodes.len() == 3) && used.len() == 5
    })
    .await;
    for node in &nodes {
        load(node).await;
    }
    for node in [4, 5] {
        let reply = set_state(&nodes[0], node, NodeState::Decommissioned).await;
        assert_eq!(reply, Reply::NodeStateSet(Ok(NodeState::Decommissioning)));
    }
    settle(&nodes[0], "on three again", |groups| {
        let first = BTreeSet::from([1, 2, 3]);
        groups.iter().all(|nodes| *nodes == first)
    })
    .await;
    for node in &nodes {
        load(node).await;
    }
    let mut seen = BTreeSet::new();
    while seen.len() < usize::from(sent) {
        let received = nodes[4]
            .receive(&orders, up_to(10))
            .await
            .expect("received");
        assert!(!received.is_empty(), "{} of {sent} are there", seen.len());
        for message in &received {
            assert_eq!(message.receive_count, 1);
        }
        seen.extend(bodies(&received));
    }
    // Nothing brings a decommissioned node back.
    let gone = nodes.pop().expect("five");
    gone.stop().await;
    let back = join(&wires, 5, &more[1]).await;
    let refused = tokio::time::timeout(PATIENCE, back.refused()).await;
    assert_eq!(refused, Ok(JoinNodeError::Decommissioned(5)));
}
