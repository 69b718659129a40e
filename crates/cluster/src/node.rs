//! This node's part in the cluster: its replicas and the tasks around them, started and stopped in
//! order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hikyaku_metadata::{
    Command, JoinNode, JoinNodeError, Joined, NodeState, PlacementLimits, Reply,
};
use hikyaku_queue::PartitionId;
use hikyaku_raft::{OpenGroupError, OtherCluster, Peers, ProposeError, RaftNode};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::calls::LocalCalls;
use crate::catalogue::{Catalogue, CatalogueCopy};
use crate::control::ControlPlane;
use crate::growth::{BUSY_QUEUES_WAITING, Growth};
use crate::handing_over::HandedOver;
use crate::hosting::{Hosting, until};
use crate::machines::{METADATA_GROUP, group_of};
use crate::memory::MemoryBudget;
use crate::partition::{HostLimits, PartitionHandle};
use crate::ports::{Clock, Entropy};
use crate::router::{Router, settle_claims};
use crate::seats::Seat;
use crate::watch::{News, Watch};
use crate::wishes::Wish;

/// How long a stop waits for others to take over leadership, if nobody did so before.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(3);

/// Between two attempts to be known to the cluster.
const ANNOUNCE_PAUSE: Duration = Duration::from_secs(1);

/// What this node is and whom it belongs to.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// This node's id, minted into its volume.
    pub node: u64,
    /// The cluster it belongs to.
    pub cluster_id: u128,
    /// The founding nodes and their peer addresses, this one included.
    pub founders: Vec<(u64, String)>,
    /// Whether the founding is under way: this node opens the replicas that it gets by it, and gives
    /// groups their first members where it comes first. Done again, nothing happens.
    pub founds_groups: bool,
    /// Where others reach this node, which it tells the cluster at each start; `None` for a node that
    /// nobody reaches.
    pub announces: Option<JoinNode>,
    /// How many replicas each group gets at the founding, where there are nodes for as many.
    pub replication: u8,
    /// How the metadata leader places replicas.
    pub placement: PlacementLimits,
    /// How many partitions the cluster has; decided at founding.
    pub partitions: u32,
    /// Bounds of each hosted partition.
    pub limits: HostLimits,
    /// Memory of all machines beyond which sends are refused, bytes.
    pub memory_bytes: usize,
    /// How long a request waits for a leader before the caller sees an error.
    pub request_budget: Duration,
    /// Whether standard queues without a wish of their owner get more partitions when their load asks
    /// for it.
    pub grow_spreads: bool,
    /// How long after the deletion of a queue its name stays taken, and after a purge the next one is
    /// refused, in ms and for the whole cluster, whoever said otherwise before; `None` leaves it.
    pub cooldown_ms: Option<u64>,
}

/// What a node is made of.
pub struct NodeParts {
    /// The other nodes.
    pub peers: Peers,
    /// The replicas of this node, over its log and its network; a router has none.
    pub replicas: Option<Arc<RaftNode>>,
    /// The machine's clocks.
    pub clock: Arc<dyn Clock>,
    /// Where identities come from.
    pub entropy: Arc<dyn Entropy>,
    /// Where the copy of the catalogue is kept.
    pub catalogue: Arc<dyn CatalogueCopy>,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A group cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenGroupError),
    /// A group cannot be founded.
    #[error("cannot found group {group}: {source}")]
    Found {
        /// The group.
        group: u64,
        /// Why.
        source: ProposeError,
    },
    /// The node, or what its volume holds, belongs to another cluster.
    #[error(transparent)]
    OtherCluster(#[from] OtherCluster),
    /// The records of this node were lost while the cluster was being founded: nobody knows any more
    /// what its first replicas promised.
    #[error(
        "the log was damaged while the cluster was being founded: found it anew on empty volumes"
    )]
    LostAtFounding,
    /// The metadata name a partition that the cluster does not have.
    #[error("there is no partition {0}")]
    NoSuchPartition(u32),
    /// The cluster was founded with another number of partitions, which never changes.
    #[error("the cluster has {founded} partitions, not the configured {configured}")]
    Partitions {
        /// What it was founded with.
        founded: u32,
        /// What the configuration says.
        configured: u32,
    },
}

/// A running node.
pub struct Node {
    settings: NodeSettings,
    replicas: Option<Arc<RaftNode>>,
    hosting: Option<Arc<Hosting>>,
    refusal: watch::Sender<Option<JoinNodeError>>,
    watch: Arc<Watch>,
    router: Arc<Router>,
    control: Arc<ControlPlane>,
    catalogue: Arc<Catalogue>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    memory: MemoryBudget,
    wish: Arc<Wish>,
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

impl Node {
    /// Opens all replicas, if there are to be any here, and starts to serve.
    pub async fn start(settings: NodeSettings, parts: NodeParts) -> Result<Arc<Self>, StartError> {
        parts.peers.identity().belongs_to(settings.cluster_id)?;
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        let catalogue = Arc::new(Catalogue::open(Arc::clone(&parts.catalogue)));
        let news = News::new();
        let seat = Seat::new(METADATA_GROUP, Arc::clone(&parts.clock));
        let control = Arc::new(ControlPlane::new(
            settings.node,
            Arc::new(seat),
            parts.peers.clone(),
            Arc::clone(&parts.entropy),
            Arc::clone(&catalogue),
            settings.request_budget,
            news.clone(),
        ));
        let partitions = (0..settings.partitions).map(PartitionId);
        let seats =
            partitions.map(|it| Arc::new(Seat::new(group_of(it), Arc::clone(&parts.clock))));
        let (router, claims) = Router::new(
            settings.node,
            seats.collect(),
            parts.peers.clone(),
            Arc::clone(&parts.entropy),
            settings.request_budget,
        );
        let router = Arc::new(router);
        let memory = MemoryBudget::new(settings.memory_bytes);
        let watch = Arc::new(Watch {
            node: settings.node,
            peers: parts.peers.clone(),
            router: Arc::clone(&router),
            control: Arc::clone(&control),
            catalogue: Arc::clone(&catalogue),
            news,
            heard: Mutex::default(),
        });
        let refusal = watch::Sender::new(None);
        let mut hosting = None;
        if let Some(raft) = &parts.replicas {
            let (busy, busy_queues) = mpsc::channel(BUSY_QUEUES_WAITING);
            let replicas = Arc::new(Hosting {
                settings: settings.clone(),
                raft: Arc::clone(raft),
                entropy: Arc::clone(&parts.entropy),
                watch: Arc::clone(&watch),
                memory: memory.clone(),
                busy,
                open: tokio::sync::Mutex::default(),
            });
            raft.answer(Arc::new(LocalCalls::new(Arc::clone(&watch))));
            replicas.start().await?;
            raft.start_maintenance();
            tasks.spawn(Arc::clone(&replicas).run(stop.subscribe()));
            if let Some(place) = settings.announces.clone() {
                let catalogue = Arc::clone(&catalogue);
                let announce = announce(Arc::clone(&control), catalogue, place, refusal.clone());
                tasks.spawn(until(stop.subscribe(), announce));
            }
            if settings.grow_spreads {
                let growth = Growth {
                    control: Arc::clone(&control),
                    catalogue: Arc::clone(&catalogue),
                    router: Arc::clone(&router),
                };
                tasks.spawn(growth.run(busy_queues, stop.subscribe()));
            }
            hosting = Some(replicas);
        }
        let keeping = Arc::clone(&catalogue);
        let stopped = stop.subscribe();
        tasks.spawn(until(stopped, async move { keeping.keep().await }));
        tasks.spawn(settle_claims(Arc::clone(&router), claims, stop.subscribe()));
        tasks.spawn(Arc::clone(&watch).run(stop.subscribe()));
        let wish = Arc::new(Wish::new(settings.cooldown_ms));
        let (wanted, asked) = (Arc::clone(&wish), Arc::clone(&control));
        let stopped = stop.subscribe();
        tasks.spawn(until(stopped, async move { wanted.settle(asked).await }));
        Ok(Arc::new(Self {
            settings,
            replicas: parts.replicas,
            hosting,
            refusal,
            watch,
            router,
            control,
            catalogue,
            clock: parts.clock,
            entropy: parts.entropy,
            memory,
            wish,
            stop,
            tasks: Mutex::new(tasks),
        }))
    }

    /// This node's id.
    pub fn id(&self) -> u64 {
        self.settings.node
    }

    /// This node's copy of the catalogue.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The control plane.
    pub fn control(&self) -> &ControlPlane {
        &self.control
    }

    /// What this node knows of the others.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The way to partition leaders.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// The machine's clocks.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Where identities are drawn from.
    pub fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }

    /// Memory held by this node's machines, bytes, as last reported.
    pub fn state_bytes(&self) -> usize {
        self.memory.total_bytes()
    }

    /// Hosted partitions.
    pub fn partitions(&self) -> Vec<PartitionHandle> {
        let seats = self.router.seats().iter();
        seats.filter_map(|seat| seat.replica()).collect()
    }

    /// Whether requests can be answered: the cluster is founded and known here, and a metadata leader
    /// is known that has heard what this node wants of it. If it is this node, a majority hears it. A
    /// single leaderless partition does not make a node unready.
    pub fn is_ready(&self) -> bool {
        let leader_known = self.control.has_leader();
        let known = self.catalogue.cluster().is_some();
        leader_known && known && self.wish.is_settled() && !*self.stop.borrow()
    }

    /// Waits until the cluster refuses this node, which happens to decommissioned ones.
    pub async fn refused(&self) -> JoinNodeError {
        let mut refusal = self.refusal.subscribe();
        loop {
            let known = *refusal.borrow_and_update();
            if let Some(refusal) = known {
                return refusal;
            }
            // The sender is this node's.
            refusal.changed().await.ok();
        }
    }

    /// Hands leadership away, stops serving, then the replicas, in this order, so that nothing is cut
    /// off half-way.
    pub async fn stop(&self) {
        let HandedOver { left, .. } = self.hand_over(HAND_OVER_LIMIT).await;
        if !left.is_empty() {
            tracing::warn!(
                ?left,
                "not every leadership was handed over before the stop"
            );
        }
        self.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks.lock().expect("no panic under this lock"));
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a task died before the stop");
            }
        }
        if let Some(hosting) = &self.hosting {
            hosting.close_all().await;
        }
        if let Some(raft) = &self.replicas {
            raft.stop().await;
        }
    }
}

/// Tells the cluster where this node is, by which a new node joins, and then waits to be
/// decommissioned.
async fn announce(
    control: Arc<ControlPlane>,
    catalogue: Arc<Catalogue>,
    place: JoinNode,
    refusal: watch::Sender<Option<JoinNodeError>>,
) {
    match tell(&control, &place).await {
        Ok(joined) => tracing::info!(?joined, address = place.address, "known to the cluster"),
        Err(error) => {
            refusal.send_replace(Some(error));
            return;
        }
    }
    let mut placed = catalogue.watch_placed();
    let is_gone = || {
        let cluster = catalogue.cluster();
        let record = cluster
            .as_ref()
            .and_then(|cluster| cluster.node(place.node));
        record.is_some_and(|record| record.state == NodeState::Decommissioned)
    };
    while !is_gone() {
        // The sender is the catalogue's.
        placed.changed().await.ok();
    }
    refusal.send_replace(Some(JoinNodeError::Decommissioned(place.node)));
}

async fn tell(control: &ControlPlane, place: &JoinNode) -> Result<Joined, JoinNodeError> {
    loop {
        let told = control.execute(Command::JoinNode(place.clone())).await;
        match told.map(|executed| executed.reply) {
            Ok(Reply::NodeJoined(Err(JoinNodeError::NotFounded))) | Err(_) => {}
            Ok(Reply::NodeJoined(answer)) => return answer,
            Ok(reply) => {
                tracing::error!(
                    ?reply,
                    "the metadata answered another question than was asked"
                );
            }
        }
        tokio::time::sleep(ANNOUNCE_PAUSE).await;
    }
}
