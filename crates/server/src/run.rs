//! The node: storage, Raft groups, partitions, router and gateway, wired and stopped in order.
//!
//! Start: the ports of clients and operators (so that a taken port is found before anything is
//! opened), the volume and its identity, the log with its recovery, the replicas, then the front. Stop:
//! the front drains, the replicas write their last checkpoints, the log gets its closing mark.

use crate::access::{self, AccessError};
use crate::admin::{Operators, TokenError};
use crate::config::Config;
use crate::copy::SledCopy;
use crate::identity::{self, IdentityError};
use crate::membership::Membership;
use crate::peer_net::PeerNet;
use crate::storage_metrics;
use crate::tls::{Certificate, PairFiles, TlsError};
use hikyaku_cluster::{
    Clock, Entropy, Founded, Founding, FoundingSettings, HostLimits, MemoryCopy, Node, NodeParts,
    NodeSettings, StartError, SystemClock, SystemEntropy, ToldClock, find_cluster,
};
use hikyaku_gateway::{Access, Gateway, GatewayConfig, GatewayLimits, TcpFront, listen_tcp};
use hikyaku_metadata::{JoinNode, JoinNodeError, PlacementLimits};
use hikyaku_raft::{
    FoundingPeers, Identity, Net, OpenGroupError, Peers, RaftNode, certificate_name,
};
use hikyaku_storage::{Catalogue, CatalogueError, Disk, Log, OpenError, RealDisk, Work};
use rustls::ServerConfig;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Directory of the catalogue's copy in the volume; may be deleted while the node is down.
const CATALOGUE_DIR: &str = "catalogue.sled";

/// Why a node could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An access key cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
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
    let access = access::of(&config, Arc::clone(&clock))?;
    let tls = config.tls.files().map(Tls::open).transpose()?;
    let address = config.listen;
    let front = listen_tcp(address)
        .await
        .map_err(|source| RunError::Listen { address, source })?;
    let peer_net = PeerNet::open(&config)?;
    let operators_tls = tls.as_ref().map(|tls| Arc::clone(&tls.admin_port));
    let operators = Operators::open(&config, operators_tls).await?;
    let front = Front {
        port: front,
        access,
        tls,
    };
    let ended = if config.roles.storage {
        run_storage(config, front, &operators, peer_net.net(), clock, shutdown).await
    } else {
        run_router(config, front, &operators, peer_net.net(), clock, shutdown).await
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
    operators: &Operators,
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
    let cluster = tokio::select! {
        cluster = find_cluster(&founding_peers, &known) => cluster,
        () = &mut shutdown => return Ok(()),
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
    operators.introduce(&node);
    serve_clients(&config, front, &node, None, shutdown).await;
    node.stop().await;
    Ok(())
}

async fn run_storage(
    config: Config,
    front: Front,
    operators: &Operators,
    net: Arc<dyn Net>,
    clock: Arc<dyn Clock>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), RunError> {
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let disk = open_volume(&config.data_dir)?;
    let id = identity::of_volume(&*disk, &*entropy)?;
    let founding = Arc::new(founding(&config, id, &disk, &entropy)?);
    let storage = config.storage.clone();
    let log = blocking(move || Log::open(disk, storage, Work::Thread)).await?;
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
    let mut shutdown = Box::pin(shutdown);
    let founding_peers = FoundingPeers::new(net);
    let cluster = tokio::select! {
        cluster = founding.settle(&founding_peers) => cluster.map_err(RunError::Membership)?,
        () = &mut shutdown => {
            raft.stop().await;
            log.close().await;
            return Ok(());
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
    operators.introduce(&node);
    let (refuse, refused) = oneshot::channel();
    let watched = Arc::clone(&node);
    let ended = async move {
        tokio::select! {
            () = shutdown => {}
            refusal = watched.refused() => {
                // The receiver waits until the node is stopped.
                refuse.send(refusal).ok();
            }
        }
    };
    serve_clients(&config, front, &node, Some(&log), ended).await;
    node.stop().await;
    log.close().await;
    if let Ok(refusal) = refused.await {
        return Err(RunError::Refused(refusal));
    }
    Ok(())
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

/// Where clients come in: the port, who may ask, and what the node shows of itself.
struct Front {
    port: TcpFront,
    access: Access,
    /// Without, nothing is encrypted.
    tls: Option<Tls>,
}

/// What an encrypted port needs.
struct Tls {
    certificate: Certificate,
    port: Arc<ServerConfig>,
    admin_port: Arc<ServerConfig>,
}

impl Tls {
    fn open(files: PairFiles) -> Result<Self, TlsError> {
        let certificate = Certificate::open(files)?;
        let port = Arc::new(certificate.client_port()?);
        let admin_port = Arc::new(certificate.admin_port()?);
        Ok(Self {
            certificate,
            port,
            admin_port,
        })
    }
}

/// Answers clients until `shutdown` completes and requests under way are answered.
async fn serve_clients(
    config: &Config,
    front: Front,
    node: &Arc<Node>,
    log: Option<&Log>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let stop = watch::Sender::new(false);
    let stopping = stop.subscribe();
    let address = front.port.local_addr().unwrap_or(config.listen);
    tracing::info!(node = format_args!("{:x}", node.id()), %address, "serving");
    let mut gateway = Gateway::new(Arc::clone(node), gateway_config(config), front.access);
    if let Some(log) = log.cloned() {
        let write = move |page: &mut String| storage_metrics::write(&log.stats(), page);
        gateway = gateway.with_metrics(Arc::new(write));
    }
    let mut certificate = None;
    if let Some(tls) = front.tls {
        let metrics = tls.certificate.metrics();
        gateway = gateway.with_tls(tls.port);
        gateway = gateway.with_metrics(Arc::new(move |page| metrics.write(page)));
        certificate = Some(tls.certificate);
    }
    let stop_following = stop.subscribe();
    let every = Duration::from_millis(config.tls.reload_ms);
    let following = async move {
        if let Some(certificate) = certificate {
            certificate.follow(every, stop_following).await;
        }
    };
    let serving = Arc::new(gateway).serve(front.port, stopping);
    let ask = async move {
        shutdown.await;
        stop.send_replace(true);
    };
    tokio::join!(serving, following, ask);
}

fn gateway_config(config: &Config) -> GatewayConfig {
    let limits = &config.limits;
    GatewayConfig {
        public_url: config.public_url.clone(),
        region: config.region.clone(),
        limits: GatewayLimits {
            connections: limits.connections,
            connections_per_address: limits.connections_per_address,
            request_bytes: limits.request_bytes,
            bodies_bytes: limits.bodies_bytes,
            unproved_bytes: limits.unproved_bytes,
            tenant_requests_per_second: limits.tenant_requests_per_second.and_then(NonZeroU32::new),
            tenant_queues: limits.tenant_queues.and_then(NonZeroU32::new),
            header_bytes: limits.header_bytes,
            header_fields: limits.header_fields,
            header_timeout: Duration::from_millis(limits.header_timeout_ms),
            body_stall_timeout: Duration::from_millis(limits.body_stall_timeout_ms),
            read_timeout: Duration::from_millis(limits.read_timeout_ms),
            handshake_timeout: Duration::from_millis(config.tls.handshake_timeout_ms),
            ..GatewayLimits::default()
        },
    }
}

/// Does a job that waits for a disk where that holds nobody up.
pub(crate) async fn blocking<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(job).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
