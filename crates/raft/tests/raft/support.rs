//! A machine that adds up, clocks set by hand, and nodes in one process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hikyaku_proto::{founding, node as wire};
use hikyaku_raft::{
    FoundingCalls, Group, GroupClock, GroupSpec, Identity, LiveRun, Machine, MachineError, Net,
    NodeCalls, OpenGroupError, Peers, ProposeError, RaftConfig, RaftNode, WallClock,
};
use hikyaku_storage::{Log, LogConfig, SimDisk, Work};

use crate::wires::{Wires, address};

/// A partition's clock that knows nothing and forgets what it hears.
pub struct NoClock;

impl GroupClock for NoClock {
    fn leader_time_ms(&self) -> u64 {
        0
    }
    fn heard_leader_time(&self, _time_ms: u64) {}
    fn believed_time_ms(&self) -> u64 {
        0
    }
    fn heard_follower(&self, _node: u64, _wall_clock_ms: u64, _believed_time_ms: u64) {}
}

/// A wall clock that shows what it is set to.
#[derive(Default)]
pub struct Hands(pub AtomicU64);

impl WallClock for Hands {
    fn wall_clock_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Adds up the numbers it is given and needs the bodies of all but the even ones; dies of the first
/// entry after its fuse was lit.
pub struct Sum {
    pub total: u64,
    live: BTreeSet<u64>,
    fuse: Arc<AtomicBool>,
}

impl Sum {
    pub fn new(fuse: Arc<AtomicBool>) -> Self {
        Self {
            total: 0,
            live: BTreeSet::new(),
            fuse,
        }
    }

    /// The entries whose bodies it needs.
    pub fn live(&self) -> &BTreeSet<u64> {
        &self.live
    }
}

fn number(bytes: &[u8]) -> Result<u64, MachineError> {
    let bytes = bytes.try_into();
    let bytes = bytes.map_err(|_| MachineError("not a number".to_owned()))?;
    Ok(u64::from_be_bytes(bytes))
}

impl Machine for Sum {
    type Reply = u64;

    fn apply(&mut self, index: u64, head: &[u8]) -> Result<u64, MachineError> {
        assert!(!self.fuse.swap(false, Ordering::SeqCst), "the fuse was lit");
        let added = number(head)?;
        self.total += added;
        if added % 2 == 1 {
            self.live.insert(index);
        }
        Ok(self.total)
    }

    fn live_runs(&self) -> Vec<LiveRun> {
        let run = |first_index: &u64| LiveRun {
            first_index: *first_index,
            entries: 1,
            ordinal: 0,
            count: 1,
        };
        self.live.iter().map(run).collect()
    }

    fn encode(&self) -> Vec<u8> {
        let numbers = std::iter::once(&self.total).chain(&self.live);
        numbers.flat_map(|number| number.to_be_bytes()).collect()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), MachineError> {
        let mut numbers = state.chunks(8).map(number);
        self.total = numbers.next().unwrap_or(Ok(0))?;
        self.live = numbers.collect::<Result<_, _>>()?;
        Ok(())
    }
}

/// Adds a number to a group; its body is the number in words.
pub async fn add(group: &Group<Sum>, number: u64) -> Result<u64, ProposeError> {
    add_with(group, number, Bytes::from(number.to_string())).await
}

/// Adds a number with a body of one's own.
pub async fn add_with(group: &Group<Sum>, number: u64, body: Bytes) -> Result<u64, ProposeError> {
    let head = number.to_be_bytes().to_vec();
    let submitted = group.submit(head.into(), vec![body]).await?;
    submitted.await.map(|applied| applied.reply)
}

/// Nodes only replicate here.
struct NoCalls;

impl NodeCalls for NoCalls {
    fn submit(&self, _: wire::SubmitRequest) -> BoxFuture<'_, wire::SubmitResponse> {
        Box::pin(async { wire::SubmitResponse::default() })
    }
    fn park(&self, _: wire::ParkRequest) -> BoxFuture<'_, wire::SubmitResponse> {
        Box::pin(async { wire::SubmitResponse::default() })
    }
    fn queue_counts(&self, _: wire::CountsRequest) -> BoxFuture<'_, wire::CountsResponse> {
        Box::pin(async { wire::CountsResponse::default() })
    }
    fn control(&self, _: wire::ControlRequest) -> BoxFuture<'_, wire::ControlResponse> {
        Box::pin(async { wire::ControlResponse::default() })
    }
    fn barrier(&self, _: wire::BarrierRequest) -> BoxFuture<'_, wire::BarrierResponse> {
        Box::pin(async { wire::BarrierResponse::default() })
    }
    fn watch(&self, _: wire::WatchRequest) -> BoxFuture<'_, wire::WatchResponse> {
        Box::pin(async { wire::WatchResponse::default() })
    }
    fn delivered(&self, _: wire::DeliveredRequest) -> BoxFuture<'_, wire::DeliveredResponse> {
        Box::pin(async { wire::DeliveredResponse::default() })
    }
    fn describe(&self, _: wire::DescribeRequest) -> BoxFuture<'_, wire::DescribeResponse> {
        Box::pin(async { wire::DescribeResponse::default() })
    }
    fn set_voters(&self, _: wire::SetVotersRequest) -> BoxFuture<'_, wire::SetVotersResponse> {
        Box::pin(async { wire::SetVotersResponse::default() })
    }
    fn transfer_leader(
        &self,
        _: wire::TransferLeaderRequest,
    ) -> BoxFuture<'_, wire::TransferLeaderResponse> {
        Box::pin(async { wire::TransferLeaderResponse::default() })
    }
}

/// Nodes know each other from the start here.
struct NoFounding;

impl FoundingCalls for NoFounding {
    fn look(&self) -> BoxFuture<'_, founding::Standing> {
        Box::pin(async { founding::Standing::default() })
    }
    fn promise(&self, _: founding::PromiseRequest) -> BoxFuture<'_, founding::PromiseResponse> {
        Box::pin(async { founding::PromiseResponse::default() })
    }
}

/// A node, with replicas of some groups.
pub struct Member {
    pub node: RaftNode,
    pub groups: Vec<Group<Sum>>,
    pub wall: Arc<Hands>,
    pub log: Log,
}

/// What a member is started with.
#[derive(Clone)]
pub struct Setup {
    pub wires: Wires,
    /// They know each other's addresses.
    pub nodes: u64,
    pub groups: u64,
    pub config: RaftConfig,
    pub storage: LogConfig,
    /// Of the cluster; `None` when it is not known yet.
    pub cluster: Option<u128>,
    /// Makes a node's end of the wires secure.
    pub secured: Option<Arc<Secured>>,
}

/// What makes a network secure, for a node.
pub type Secured = dyn Fn(u64, Arc<dyn Net>) -> Arc<dyn Net> + Send + Sync;

impl Default for Setup {
    fn default() -> Self {
        Self {
            wires: Wires::default(),
            nodes: 3,
            groups: 1,
            config: RaftConfig::default(),
            storage: LogConfig::small(),
            cluster: Some(77),
            secured: None,
        }
    }
}

impl Setup {
    /// Starts node `id` from its disk; its replicas have the node's number.
    pub async fn start(&self, id: u64, disk: &Arc<SimDisk>) -> Member {
        let mut member = self.start_empty(id, disk).await;
        for group in 1..=self.groups {
            let opened = open(&member.node, group, id).await;
            member.groups.push(opened.expect("opens"));
        }
        member
    }

    /// Starts node `id` from its disk without opening anything.
    pub async fn start_empty(&self, id: u64, disk: &Arc<SimDisk>) -> Member {
        let log =
            Log::open(Arc::clone(disk) as _, self.storage.clone(), Work::Task).expect("opens");
        let plug: Arc<dyn Net> = self.wires.plug(id);
        let net = match &self.secured {
            Some(secured) => secured(id, plug),
            None => plug,
        };
        let identity = Identity::new(id);
        if let Some(cluster) = self.cluster {
            identity.belongs_to(cluster).expect("the first");
        }
        let addresses = (1..=self.nodes).map(|node| (node, address(node)));
        let peers = Peers::new(net, identity, addresses);
        let wall = Arc::new(Hands::default());
        let told = Arc::clone(&wall);
        let node = RaftNode::new(self.config.clone(), log.clone(), peers, told, Work::Task);
        let node = node.expect("valid");
        node.answer(Arc::new(NoCalls));
        node.serve(address(id), Arc::new(NoFounding))
            .await
            .expect("listens");
        node.start_maintenance();
        Member {
            node,
            groups: Vec::new(),
            wall,
            log,
        }
    }

    /// Starts all three and founds the groups from node 1.
    pub async fn found(&self, disks: &[Arc<SimDisk>]) -> Vec<Member> {
        let mut members = Vec::new();
        for (disk, id) in disks.iter().zip(1..) {
            members.push(self.start(id, disk).await);
        }
        for group in &members[0].groups {
            let voters = BTreeMap::from([(1, 1), (2, 2), (3, 3)]);
            group.found(voters).await.expect("founded");
        }
        members
    }
}

/// Opens a group as a replica, with an empty sum.
pub async fn open(node: &RaftNode, group: u64, replica: u64) -> Result<Group<Sum>, OpenGroupError> {
    let spec = GroupSpec {
        group,
        replica,
        clock: Arc::new(NoClock),
    };
    let fuse = Arc::new(AtomicBool::new(false));
    node.open_group(spec, move || Sum::new(Arc::clone(&fuse)))
        .await
}

/// Fresh disks of three nodes.
pub fn disks() -> Vec<Arc<SimDisk>> {
    (1..=3).map(|seed| Arc::new(SimDisk::new(seed))).collect()
}

/// Waits until `done`; fails after a minute of simulated time.
pub async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within a minute: {what}");
}

/// The member that leads a group, by its place, once there is one.
pub async fn leader_of(members: &[Member], group: usize) -> usize {
    let serving = |member: &Member| member.groups[group].leadership().serving;
    until("a leader", || members.iter().any(serving)).await;
    let place = members.iter().position(serving);
    place.expect("one serves")
}
