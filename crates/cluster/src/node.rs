//! This node's part in the cluster: its replicas and the tasks around them, started and stopped in
//! order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hikyaku_metadata::Metadata;
use hikyaku_queue::{Partition, PartitionId};
use hikyaku_raft::{Group, GroupSpec, Machine, OpenGroupError, ProposeError, RaftNode};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::calls::LocalCalls;
use crate::catalogue::{Catalogue, CatalogueCopy};
use crate::clock::PartitionClock;
use crate::control::{BarrierDescriptors, ControlPlane};
use crate::driver::{Driver, Founding};
use crate::growth::{BUSY_QUEUES_WAITING, Growth};
use crate::machines::{METADATA_GROUP, MetadataMachine, PartitionMachine, group_of};
use crate::memory::MemoryBudget;
use crate::partition::{Host, HostLimits, HostParts, PartitionHandle};
use crate::ports::{Clock, Entropy};
use crate::router::{Router, settle_claims};

/// How long a stop waits for others to take over leadership.
const HAND_OFF_LIMIT: Duration = Duration::from_secs(3);

/// What this node is and whom it belongs to.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// This node's id, minted into its volume.
    pub node: u64,
    /// The cluster it belongs to.
    pub cluster_id: u128,
    /// The founding nodes and their peer addresses, this one included.
    pub founders: Vec<(u64, String)>,
    /// Whether this node gives the groups their first members. One node does; when it does so again,
    /// nothing happens.
    pub founds_groups: bool,
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
}

/// What a node is made of.
pub struct NodeParts {
    /// The replicas of this node, over its log and its network.
    pub raft: Arc<RaftNode>,
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
    raft: Arc<RaftNode>,
    router: Arc<Router>,
    control: Arc<ControlPlane>,
    catalogue: Arc<Catalogue>,
    entropy: Arc<dyn Entropy>,
    memory: MemoryBudget,
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

impl Node {
    /// Opens all replicas and starts to serve. Founds the groups if this is the first founder and
    /// nothing is there yet.
    pub async fn start(settings: NodeSettings, parts: NodeParts) -> Result<Arc<Self>, StartError> {
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        let raft = parts.raft;
        let catalogue = Arc::new(Catalogue::open(parts.catalogue));
        let metadata_clock = Arc::new(PartitionClock::new(Arc::clone(&parts.clock)));
        let spec = GroupSpec {
            group: METADATA_GROUP,
            replica: settings.node,
            clock: Arc::clone(&metadata_clock) as _,
        };
        let metadata: Group<MetadataMachine> = raft
            .open_group(spec, || MetadataMachine(Metadata::new()))
            .await?;
        check_partitions(&settings, &metadata, &catalogue)?;
        let control = Arc::new(ControlPlane::new(
            settings.node,
            metadata.clone(),
            metadata_clock,
            raft.peers().clone(),
            Arc::clone(&parts.entropy),
            Arc::clone(&catalogue),
            settings.request_budget,
        ));
        tasks.spawn(follow(
            Arc::clone(&catalogue),
            metadata.clone(),
            stop.subscribe(),
        ));

        tasks.spawn(learn_cluster(
            Arc::clone(&raft),
            metadata.clone(),
            stop.subscribe(),
        ));

        let memory = MemoryBudget::new(settings.memory_bytes);
        let (busy, busy_queues) = mpsc::channel(BUSY_QUEUES_WAITING);
        let mut handles = Vec::new();
        let mut groups = Vec::new();
        for number in 0..settings.partitions {
            let partition = PartitionId(number);
            let clock = Arc::new(PartitionClock::new(Arc::clone(&parts.clock)));
            let spec = GroupSpec {
                group: group_of(partition),
                replica: settings.node,
                clock: Arc::clone(&clock) as _,
            };
            let group = raft
                .open_group(spec, move || PartitionMachine(Partition::new(partition)))
                .await?;
            groups.push(group.clone());
            let parts = HostParts {
                node: settings.node,
                partition,
                group,
                raft: Arc::clone(&raft),
                clock,
                entropy: Arc::clone(&parts.entropy),
                descriptors: Arc::new(BarrierDescriptors(Arc::clone(&control))),
                limits: settings.limits,
                memory: memory.share(),
                busy: busy.clone(),
            };
            let (handle, serve) = Host::start(parts, stop.subscribe());
            tasks.spawn(serve);
            handles.push(handle);
        }
        let (router, claims) = Router::new(
            settings.node,
            handles,
            raft.peers().clone(),
            Arc::clone(&parts.entropy),
            settings.request_budget,
        );
        let router = Arc::new(router);
        tasks.spawn(settle_claims(Arc::clone(&router), claims, stop.subscribe()));
        if settings.grow_spreads {
            let growth = Growth {
                control: Arc::clone(&control),
                catalogue: Arc::clone(&catalogue),
                router: Arc::clone(&router),
            };
            tasks.spawn(growth.run(busy_queues, stop.subscribe()));
        }
        raft.answer(Arc::new(LocalCalls::new(
            Arc::clone(&router),
            Arc::clone(&control),
        )));
        found_groups(&settings, &metadata, &groups).await?;
        let founding = Founding {
            cluster_id: settings.cluster_id,
            partitions: settings.partitions,
            nodes: settings.founders.clone(),
        };
        let driver = Driver::new(
            Arc::clone(&control),
            Arc::clone(&router),
            Arc::clone(&parts.entropy),
            founding,
        );
        tasks.spawn(driver.run(stop.subscribe()));
        raft.start_maintenance();
        Ok(Arc::new(Self {
            settings,
            raft,
            router,
            control,
            catalogue,
            entropy: parts.entropy,
            memory,
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

    /// The way to partition leaders.
    pub fn router(&self) -> &Router {
        &self.router
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
    pub fn partitions(&self) -> &[PartitionHandle] {
        self.router.partitions()
    }

    /// Whether requests can be answered: the cluster is founded and known here, and a metadata leader
    /// is known. A single leaderless partition does not make a node unready.
    pub fn is_ready(&self) -> bool {
        let leader_known = self.control.group().leadership().leader_node.is_some();
        leader_known && self.catalogue.cluster().is_some() && !*self.stop.borrow()
    }

    /// Hands leadership away, stops serving, then the replicas, in this order, so that nothing is cut
    /// off half-way.
    pub async fn stop(&self) {
        self.hand_off().await;
        self.stop.send_replace(true);
        let mut tasks = std::mem::take(&mut *self.tasks.lock().expect("no panic under this lock"));
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a task died before the stop");
            }
        }
        self.raft.stop().await;
    }

    /// Asks another voter to lead each group that this node leads, and waits a little for it. What is
    /// not taken over in time elects a leader when this node falls silent.
    async fn hand_off(&self) {
        let partitions = self
            .partitions()
            .iter()
            .map(|partition| partition.hand_off());
        let everything = async {
            self.control.hand_off().await;
            futures_util::future::join_all(partitions).await;
        };
        if tokio::time::timeout(HAND_OFF_LIMIT, everything)
            .await
            .is_err()
        {
            tracing::warn!("not every leadership was handed off before the stop");
        }
    }
}

/// Hands leadership of one group to another voter; returns when this replica leads no more, or at
/// once when it does not lead or is alone.
pub async fn hand_off<M: Machine>(group: &Group<M>, node: u64) {
    if !group.leadership().serving {
        return;
    }
    let voters = group.voters();
    let Some((heir, _)) = voters.iter().find(|(_, placed)| **placed != node) else {
        return;
    };
    if group.transfer_leader(*heir).await.is_ok() {
        let mut leadership = group.watch_leadership();
        // An error means that the group is gone, and its leadership with it.
        leadership.wait_for(|now| !now.serving).await.ok();
    }
}

async fn follow(
    catalogue: Arc<Catalogue>,
    metadata: Group<MetadataMachine>,
    mut stop: watch::Receiver<bool>,
) {
    tokio::select! {
        () = catalogue.follow(metadata) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Tells the transport which cluster this is, once the metadata say so.
async fn learn_cluster(
    raft: Arc<RaftNode>,
    metadata: Group<MetadataMachine>,
    mut stop: watch::Receiver<bool>,
) {
    let mut applied = metadata.watch_applied();
    let known = async {
        loop {
            applied.borrow_and_update();
            let cluster = metadata.with_machine(|machine| Some(machine.0.cluster()?.cluster_id));
            if cluster.is_some() || applied.changed().await.is_err() {
                return cluster;
            }
        }
    };
    let cluster = tokio::select! {
        cluster = known => cluster,
        _ = stop.wait_for(|stop| *stop) => None,
    };
    if let Some(cluster) = cluster
        && let Err(error) = raft.identity().belongs_to(cluster)
    {
        tracing::error!(%error, "the metadata are another cluster's");
    }
}

/// A node that opened fewer partitions than there are would never serve the queues on the others.
fn check_partitions(
    settings: &NodeSettings,
    metadata: &Group<MetadataMachine>,
    catalogue: &Catalogue,
) -> Result<(), StartError> {
    let checkpointed =
        metadata.with_machine(|machine| machine.0.cluster().map(|cluster| cluster.partitions));
    let copied = catalogue.cluster().map(|cluster| cluster.partitions);
    let configured = settings.partitions;
    match checkpointed.or(copied) {
        Some(founded) if founded != configured => Err(StartError::Partitions {
            founded,
            configured,
        }),
        Some(_) | None => Ok(()),
    }
}

/// One founder founds; the others hear of it from the first leader.
async fn found_groups(
    settings: &NodeSettings,
    metadata: &Group<MetadataMachine>,
    partitions: &[Group<PartitionMachine>],
) -> Result<(), StartError> {
    if !settings.founds_groups {
        return Ok(());
    }
    let voters: BTreeMap<u64, u64> = settings
        .founders
        .iter()
        .map(|(node, _)| (*node, *node))
        .collect();
    let failed = |group| move |source| StartError::Found { group, source };
    metadata
        .found(voters.clone())
        .await
        .map_err(failed(METADATA_GROUP))?;
    for group in partitions {
        group
            .found(voters.clone())
            .await
            .map_err(failed(group.id()))?;
    }
    Ok(())
}
