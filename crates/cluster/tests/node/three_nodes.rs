//! Three nodes in one process: any node answers, and a leader may go.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hikyaku_cluster::{
    Clock, HostLimits, MemoryCopy, Node, NodeParts, NodeSettings, SystemClock, SystemEntropy,
    ToldClock,
};
use hikyaku_metadata::{JoinNode, PlacementLimits, TenantId};
use hikyaku_proto::founding;
use hikyaku_raft::{FoundingCalls, Identity, Peers, RaftConfig, RaftNode};
use hikyaku_storage::{Log, LogConfig, SimDisk, Work};

use super::network::Wires;
use super::{bodies, message, queue, send, up_to, waiting};

pub fn address(node: u64) -> String {
    format!("node-{node}")
}

/// Nodes whose founding is over.
struct Settled;

impl FoundingCalls for Settled {
    fn look(&self) -> BoxFuture<'_, founding::Standing> {
        Box::pin(std::future::ready(founding::Standing::default()))
    }

    fn promise(&self, _: founding::PromiseRequest) -> BoxFuture<'_, founding::PromiseResponse> {
        Box::pin(std::future::ready(founding::PromiseResponse::default()))
    }
}

pub fn settings(node: u64, founders: Vec<(u64, String)>) -> NodeSettings {
    NodeSettings {
        node,
        cluster_id: 9,
        founders,
        founds_groups: true,
        announces: None,
        replication: 3,
        placement: PlacementLimits::default(),
        partitions: 2,
        limits: HostLimits::default(),
        memory_bytes: 1 << 30,
        request_budget: Duration::from_secs(20),
        grow_spreads: true,
        cooldown_ms: None,
    }
}

/// How a node comes into the cluster.
pub struct Start {
    pub announces: Option<JoinNode>,
    pub founds_groups: bool,
}

impl Start {
    pub async fn node(self, wires: &Wires, node: u64, disk: &Arc<SimDisk>) -> Arc<Node> {
        let log = Log::open(Arc::clone(disk) as _, LogConfig::small(), Work::Task).expect("opens");
        let addresses: Vec<(u64, String)> = (1..=3).map(|node| (node, address(node))).collect();
        let net = Arc::new(wires.clone());
        let peers = Peers::new(net, Identity::new(node), addresses.clone());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let told = Arc::new(ToldClock(Arc::clone(&clock)));
        let raft = RaftNode::new(RaftConfig::default(), log, peers, told, Work::Task);
        let raft = Arc::new(raft.expect("valid"));
        let settings = NodeSettings {
            announces: self.announces,
            founds_groups: self.founds_groups,
            ..settings(node, addresses)
        };
        let parts = NodeParts {
            peers: raft.peers().clone(),
            replicas: Some(Arc::clone(&raft)),
            clock,
            entropy: Arc::new(SystemEntropy),
            catalogue: Arc::new(MemoryCopy::default()),
        };
        let started = Node::start(settings, parts).await.expect("starts");
        let listening = raft.serve(address(node), Arc::new(Settled)).await;
        listening.expect("listens");
        started
    }
}

async fn start(wires: &Wires, node: u64, disk: &Arc<SimDisk>) -> Arc<Node> {
    let start = Start {
        announces: None,
        founds_groups: true,
    };
    start.node(wires, node, disk).await
}

pub async fn cluster(wires: &Wires, disks: &[Arc<SimDisk>]) -> Vec<Arc<Node>> {
    let mut nodes = Vec::new();
    for (disk, node) in disks.iter().zip(1..) {
        nodes.push(start(wires, node, disk).await);
    }
    for node in &nodes {
        while !node.is_ready() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    nodes
}

pub fn disks() -> Vec<Arc<SimDisk>> {
    (1..=3).map(|seed| Arc::new(SimDisk::new(seed))).collect()
}

#[tokio::test(start_paused = true)]
async fn any_node_sends_and_any_node_receives() {
    let wires = Wires::default();
    let nodes = cluster(&wires, &disks()).await;
    let orders = queue(&nodes[0], "orders", false).await;
    for (node, number) in nodes.iter().zip(1..) {
        let found = node
            .find_queue(TenantId::DEFAULT, "orders")
            .await
            .expect("answered");
        assert_eq!(
            found.expect("known everywhere").descriptor,
            orders.descriptor
        );
        send(node, &orders, vec![message(number)])
            .await
            .expect("sent");
    }
    for node in &nodes {
        let received = node.receive(&orders, up_to(1)).await.expect("received");
        assert_eq!(received.len(), 1);
        let deleted = node.delete(&orders, &[&received[0].receipt_handle]).await;
        assert_eq!(deleted, [Ok(())]);
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_at_another_node_is_granted_by_the_leader() {
    let wires = Wires::default();
    let nodes = cluster(&wires, &disks()).await;
    let orders = queue(&nodes[0], "orders", false).await;
    let polls: Vec<_> = nodes
        .iter()
        .map(|node| {
            let (node, orders) = (Arc::clone(node), Arc::clone(&orders));
            tokio::spawn(async move { node.receive(&orders, waiting(20)).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    for number in 1..=3 {
        send(&nodes[1], &orders, vec![message(number)])
            .await
            .expect("sent");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let mut seen = Vec::new();
    for poll in polls {
        seen.extend(bodies(&poll.await.expect("no panic").expect("received")));
    }
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3]);
    for node in nodes {
        node.stop().await;
    }
}

/// A leader of the metadata whom nobody hears does not lead: no node is ready until there is a majority
/// again.
#[tokio::test(start_paused = true)]
async fn a_leader_without_a_majority_is_not_ready() {
    let wires = Wires::default();
    let disks = disks();
    let nodes = cluster(&wires, &disks).await;
    let leads = |node: &Arc<Node>| node.control().leads().is_some();
    let (leaders, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(leads);
    let [leader] = &leaders[..] else {
        panic!("one leads the metadata");
    };
    let mut gone = Vec::new();
    for other in others {
        wires.unplug(&address(other.id()));
        other.stop().await;
        gone.push(other.id());
    }
    until("it notices", || !leader.is_ready() && !leads(leader)).await;
    wires.plug(&address(gone[0]));
    let place = usize::try_from(gone[0]).unwrap() - 1;
    let back = start(&wires, gone[0], &disks[place]).await;
    until("two are a majority", || {
        leader.is_ready() && back.is_ready()
    })
    .await;
    leader.stop().await;
    back.stop().await;
}

/// Waits a minute for what must come.
async fn until(what: &str, came: impl Fn() -> bool) {
    let waits = async {
        while !came() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waits);
    assert!(waited.await.is_ok(), "{what}");
}

#[tokio::test(start_paused = true)]
async fn the_others_go_on_when_a_leader_goes() {
    let wires = Wires::default();
    let disks = disks();
    let nodes = cluster(&wires, &disks).await;
    let orders = queue(&nodes[0], "orders", false).await;
    send(&nodes[0], &orders, vec![message(1), message(2)])
        .await
        .expect("sent");
    let in_flight = nodes[0].receive(&orders, up_to(1)).await.expect("received");
    let home = orders.descriptor.spread[0];
    let leadership = nodes[0]
        .router()
        .partition(home)
        .expect("hosted")
        .leadership();
    let leader = leadership.leader_node.expect("known");
    wires.unplug(&address(leader));
    nodes[usize::try_from(leader).unwrap() - 1].stop().await;

    let survivor = nodes
        .iter()
        .find(|node| node.id() != leader)
        .expect("two are left");
    send(survivor, &orders, vec![message(3)])
        .await
        .expect("sent");
    let received = survivor
        .receive(&orders, up_to(10))
        .await
        .expect("received");
    assert_eq!(
        bodies(&received),
        [2, 3],
        "message 1 is in flight and stays hidden"
    );
    let deleted = survivor
        .delete(&orders, &[&in_flight[0].receipt_handle])
        .await;
    assert_eq!(deleted, [Ok(())]);

    wires.plug(&address(leader));
    let back = start(&wires, leader, &disks[usize::try_from(leader).unwrap() - 1]).await;
    let caught_up = survivor
        .router()
        .partition(home)
        .expect("hosted")
        .applied_index();
    while back
        .router()
        .partition(home)
        .expect("hosted")
        .applied_index()
        < caught_up
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counts = back.counts(&orders).await.expect("counted");
    assert_eq!((counts.visible, counts.in_flight), (0, 2));
}
