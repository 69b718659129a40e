//! The node: storage, Raft groups, partitions, router and gateway, wired and stopped in order.
//!
//! Start: the ports of clients and operators (so that a taken port is found before anything is
//! opened), the volume and its identity, the log with its recovery, the replicas, then the front. Stop:
//! the front drains, the replicas write their last checkpoints, the log gets its closing mark.

use crate::access::{self, AccessError};
use crate::admin::{Operators, TokenError};
use crate::config::Config;
use crate::copy::SledCopy;
use crate::ending::{Ending, Leaving, told_to_end};
use crate::front::{Front, Tls};
use crate::identity::{self, IdentityError};
use crate::membership::Membership;
use crate::peer_net::PeerNet;
use crate::sealing::{self, SealingError};
use crate::storage_metrics;
use crate::tls::TlsError;
use hikyaku_cluster::{
    Clock, Entropy, Founded, Founding, FoundingSettings, HostLimits, MemoryCopy, Node, NodeParts,
    NodeSettings, StartError, SystemClock, SystemEntropy, ToldClock, find_cluster,
};
use hikyaku_metadata::{JoinNode, JoinNodeError, PlacementLimits};
use hikyaku_raft::{
    FoundingPeers, Identity, Net, OpenGroupError, Peers, RaftNode, certificate_name,
};
use hikyaku_storage::{
    Catalogue, CatalogueError, Disk, Log, LogConfig, OpenError, RealDisk, Work, set_aside,
};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Directory of the catalogue's copy in the volume; may be deleted while the node is down.
const CATALOGUE_DIR: &str = "catalogue.sled";

/// Why a node could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An access key cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The sealing keys cannot be used.
    #[error(transparent)]
    Sealing(#[from] SealingError),
    /// The operator's token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The certificate cannot be shown.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The client port cannot be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The volume cannot be used; another process may hold it.
    #[error("cannot use the data directory {}: {source}", path.display())]
    Volume {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Operators cannot be listened for.
    #[error("cannot listen for operators on {address}: {source}")]
    ListenForOperators {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Other nodes cannot be listened for.
    #[error("cannot listen for peers on {address}: {source}")]
    ListenForPeers {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// What the volume knows of its cluster cannot be read or written.
    #[error("cannot read or write which cluster this volume belongs to: {0}")]
    Membership(#[source] io::Error),
    /// The volume has no usable identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// A damaged log cannot be set aside.
    #[error("cannot set the damaged log aside: {source}")]
    SetAside {
        /// Why.
        source: io::Error,
    },
    /// The catalogue's copy can be neither opened nor built anew.
    #[error("cannot open the catalogue's copy: {0}")]
    Catalogue(#[from] CatalogueError),
    /// The replicas cannot be prepared.
    #[error(transparent)]
    Raft(#[from] OpenGroupError),
    /// The cluster does not have this node.
    #[error("the cluster refuses this node: {0}")]
    Refused(JoinNodeError),
    /// The node cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Runs a node until `shutdown` completes, then stops it in order.
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), RunError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let sealing = config.auth.sealing_key_file.as_deref();
    let sealing = sealing.map(sealing::read).transpose()?;
    let access = access::of(&config, sealing.clone(), Arc::clone(&clock))?;
    let tls = config.tls.files().map(Tls::open).transpose()?;
    let operators_tls = tls.as_ref().map(Tls::admin_port);
    let front = Front::open(&config, access, tls).await?;
    let peer_net = PeerNet::open(&config)?;
    let operators = Operators::open(&config, operators_tls, sealing, front.waits());
    let mut operators = operators.await?;
    let ended = if config.roles.storage {
        run_storage(
            config,
            front,
            &mut operators,
            peer_net.net(),
            clock,
            shutdown,
        )
        .await
    } else {
        run_router(
            config,
            front,
            &mut operators,
            peer_net.net(),
            clock,
            shutdown,
        )
        .await
    };
    peer_net.close().await;
    operators.close().await;
    ended?;
    tracing::info!("stopped");
    Ok(())
}

/// A node without a volume. It is another one at every start: nothing remembers it.
async fn run_router(
    config: Config,
    front: Front,
    operators: &mut Operators,
    net: Arc<dyn Net>,
    clock: Arc<dyn Clock>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), RunError> {
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let id = entropy.draw_nonzero_u64();
    let known: Vec<String> = config
        .cluster
        .peers
        .iter()
        .map(|peer| peer.0.clone())
        .collect();
    let founding_peers = FoundingPeers::new(Arc::clone(&net));
    let mut shutdown = Box::pin(shutdown);
    let stop_limit = Duration::from_millis(config.limits.stop_timeout_ms);
    let cluster = tokio::select! {
        cluster = find_cluster(&founding_peers, &known, |waits| front.wait(waits)) => cluster,
        ending = told_to_end(&mut shutdown, operators.orders()) => {
            let mut leaving = Leaving::begin(ending, stop_limit);
            front.close(&mut leaving).await;
            return leaving.end().map_err(RunError::Refused);
        }
    };
    let identity = Identity::new(id);
    let peers = Peers::new(net, identity, []);
    introduce(&peers, cluster.founders.iter(), &config);
    let parts = NodeParts {
        peers,
        replicas: None,
        clock,
        entropy,
        catalogue: Arc::new(MemoryCopy::default()),
    };
    let node = Node::start(node_settings(&config, id, cluster, false), parts).await?;
    front.introduce(&node);
    operators.introduce(&node);
    let ending = told_to_end(shutdown, operators.orders()).await;
    let mut leaving = Leaving::begin(ending, stop_limit);
    front.close(&mut leaving).await;
    leaving.hand_over(&node).await;
    node.stop().await;
    leaving.end().map_err(RunError::Refused)
}

async fn run_storage(
    config: Config,
    front: Front,
    operators: &mut Operators,
    net: Arc<dyn Net>,
    clock: Arc<dyn Clock>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), RunError> {
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let disk = open_volume(&config.data_dir)?;
    let id = identity::of_volume(&*disk, &*entropy)?;
    let founding = Arc::new(founding(&config, id, &disk, &entropy)?);
    let storage = config.storage.clone();
    // Whoever is configured alone has nobody to get its replicas back from.
    let others = config.cluster.peers.len() > 1 && !founding.founds_groups();
    let log = blocking(move || open_log(&disk, &storage, others)).await?;
    let shown = log.clone();
    front.add_metrics(Arc::new(move |page| {
        storage_metrics::write(&shown.stats(), page);
    }));
    let directory = config.data_dir.join(CATALOGUE_DIR);
    let catalogue = blocking(move || Catalogue::open(directory)).await?;

    let peers = Peers::new(Arc::clone(&net), Identity::new(id), []);
    let told = Arc::new(ToldClock(Arc::clone(&clock)));
    let raft = RaftNode::new(config.raft.clone(), log.clone(), peers, told, Work::Thread)?;
    if let Some(address) = config.cluster.peer_listen {
        let listening = raft.serve(address.to_string(), Arc::clone(&founding) as _);
        let failed = |source| RunError::ListenForPeers { address, source };
        listening.await.map_err(failed)?;
    }
    operators.wait(&founding);
    front.wait("waiting to be founded".to_owned());
    let mut shutdown = Box::pin(shutdown);
    let founding_peers = FoundingPeers::new(net);
    let stop_limit = Duration::from_millis(config.limits.stop_timeout_ms);
    let cluster = tokio::select! {
        cluster = founding.settle(&founding_peers, |waits| front.wait(waits)) => {
            cluster.map_err(RunError::Membership)?
        }
        ending = told_to_end(&mut shutdown, operators.orders()) => {
            let mut leaving = Leaving::begin(ending, stop_limit);
            front.close(&mut leaving).await;
            raft.stop().await;
            log.close().await;
            return leaving.end().map_err(RunError::Refused);
        }
    };
    let others = cluster.founders.iter().filter(|(node, _)| *node != id);
    introduce(raft.peers(), others, &config);
    let settings = node_settings(&config, id, cluster, founding.founds_groups());
    let parts = NodeParts {
        peers: raft.peers().clone(),
        replicas: Some(Arc::new(raft)),
        clock,
        entropy,
        catalogue: Arc::new(SledCopy::new(catalogue)),
    };
    let node = Node::start(settings, parts).await?;
    founding.groups_founded().map_err(RunError::Membership)?;
    front.introduce(&node);
    operators.introduce(&node);
    let ending = tokio::select! {
        ending = told_to_end(shutdown, operators.orders()) => ending,
        refusal = node.refused() => Ending::Refused(refusal),
    };
    let mut leaving = Leaving::begin(ending, stop_limit);
    front.close(&mut leaving).await;
    leaving.hand_over(&node).await;
    node.stop().await;
    log.close().await;
    leaving.end().map_err(RunError::Refused)
}

/// Tells where the founding nodes are, and by which certificate each is known, where there are any.
/// The metadata say the same later, and more.
fn introduce<'a>(
    peers: &Peers,
    founders: impl Iterator<Item = &'a (u64, String)>,
    config: &Config,
) {
    let encrypted = config.cluster.tls.files().is_some();
    for (node, address) in founders {
        peers.set_address(*node, address.clone());
        if let Some(name) = certificate_name(address).filter(|_| encrypted) {
            peers.pin(*node, name);
        }
    }
}

fn open_volume(path: &Path) -> Result<Arc<dyn Disk>, RunError> {
    let failed = |source| RunError::Volume {
        path: path.to_owned(),
        source,
    };
    std::fs::create_dir_all(path).map_err(failed)?;
    Ok(Arc::new(RealDisk::open(path).map_err(failed)?))
}

/// Opens the log. One that is damaged where votes or entries may have been is set aside, if other nodes
/// have replicas: those of this node are lost, and the cluster will place new ones here.
fn open_log(disk: &Arc<dyn Disk>, storage: &LogConfig, others: bool) -> Result<Log, RunError> {
    let open = || Log::open(Arc::clone(disk), storage.clone(), Work::Thread);
    match open() {
        Err(damage @ OpenError::Damaged { .. }) if others => {
            let failed = |source| RunError::SetAside { source };
            let names = set_aside(&**disk).map_err(failed)?;
            tracing::error!(%damage, ?names, "the log is damaged; it was set aside, and this node gets new replicas");
            Ok(open()?)
        }
        opened => Ok(opened?),
    }
}

/// This node's way into a cluster; without peers it founds its own.
fn founding(
    config: &Config,
    node: u64,
    disk: &Arc<dyn Disk>,
    entropy: &Arc<dyn Entropy>,
) -> Result<Founding, RunError> {
    let cluster = &config.cluster;
    let settings = FoundingSettings {
        node,
        address: cluster.address().map(|own| own.0).unwrap_or_default(),
        peers: cluster.peers.iter().map(|peer| peer.0.clone()).collect(),
        partitions: cluster.partitions,
    };
    let volume = Arc::new(Membership::new(Arc::clone(disk)));
    Founding::open(settings, volume, Arc::clone(entropy)).map_err(RunError::Membership)
}

fn node_settings(
    config: &Config,
    node: u64,
    cluster: Founded,
    founds_groups: bool,
) -> NodeSettings {
    let several = cluster.founders.len() > 1;
    NodeSettings {
        node,
        cluster_id: cluster.cluster_id,
        founders: cluster.founders,
        founds_groups,
        partitions: cluster.partitions,
        limits: HostLimits::default(),
        memory_bytes: config.limits.memory_bytes,
        announces: config.cluster.address().map(|address| JoinNode {
            node,
            address: address.0,
            zone: config.cluster.zone.clone().unwrap_or_default(),
            certificate_name: config.cluster.certificate_name(),
            storage: true,
        }),
        replication: config.cluster.replication,
        placement: placement_limits(config.cluster.replace_after_ms),
        request_budget: Duration::from_millis(config.limits.request_budget_ms),
        // On one node more partitions add no disk and no core; they only thin the batches.
        grow_spreads: config.cluster.grow_queues && several,
        cooldown_ms: config.cluster.cooldown_ms,
    }
}

fn placement_limits(replace_after_ms: u64) -> PlacementLimits {
    let usual = PlacementLimits::default();
    PlacementLimits {
        abandon_after_ms: usual.abandon_after_ms.min(replace_after_ms),
        replace_after_ms,
        ..usual
    }
}

/// Does a job that waits for a disk where that holds nobody up.
pub(crate) async fn blocking<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(job).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
