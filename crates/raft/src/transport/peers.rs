//! The other nodes of the cluster: where they are, and how connections to them are opened.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tonic::codegen::http::Uri;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::identity::Identity;
use super::net::{BoxedStream, Net};

/// How long a connection attempt to a peer may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often an idle connection for forwarded requests is probed, and how long the probe may take: a
/// peer that lost its power leaves no reset behind.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// The other nodes of the cluster. Cheap to clone; clones share what they know.
#[derive(Clone)]
pub struct Peers(Arc<Shared>);

struct Shared {
    net: Arc<dyn Net>,
    identity: Identity,
    known: Mutex<BTreeMap<u64, Peer>>,
}

struct Peer {
    address: String,
    /// For requests that are not Raft's. It connects on first use and again after a failure.
    channel: Option<Channel>,
}

/// A channel whose requests carry the head for one receiver.
pub type Introduced = InterceptedService<Channel, Introduction>;

/// Writes the head of each request to one receiver.
#[derive(Clone)]
pub struct Introduction {
    identity: Identity,
    receiver: u64,
}

impl Interceptor for Introduction {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        self.identity
            .introduce(self.receiver, request.metadata_mut());
        Ok(request)
    }
}

/// Why there is no connection to a peer.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the address of node {0:x} is not known")]
    Unknown(u64),
    #[error("cannot connect to node {node:x} at {address}: {cause}")]
    Failed {
        node: u64,
        address: String,
        cause: String,
    },
}

impl Peers {
    /// Peers of this node by node id and `host:port`.
    pub fn new(
        net: Arc<dyn Net>,
        identity: Identity,
        addresses: impl IntoIterator<Item = (u64, String)>,
    ) -> Self {
        let peers = Self(Arc::new(Shared {
            net,
            identity,
            known: Mutex::default(),
        }));
        for (node, address) in addresses {
            peers.set_address(node, address);
        }
        peers
    }

    /// Who this node is.
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Notes where a node is from now on (`host:port`). What goes on at its old address goes on.
    pub fn set_address(&self, node: u64, address: String) {
        let mut known = self.lock();
        if known.get(&node).is_none_or(|peer| peer.address != address) {
            let channel = None;
            known.insert(node, Peer { address, channel });
        }
    }

    /// The nodes whose address is known, but for this one.
    pub fn nodes(&self) -> Vec<u64> {
        let known = self.lock();
        let others = known.keys().filter(|node| **node != self.0.identity.node());
        others.copied().collect()
    }

    /// The shared channel to `node` for requests that are not Raft's; `None` when its address is not
    /// known.
    pub(crate) fn channel(&self, node: u64) -> Option<Introduced> {
        let mut known = self.lock();
        let peer = known.get_mut(&node)?;
        let channel = peer.channel.get_or_insert_with(|| {
            endpoint()
                .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .keep_alive_while_idle(true)
                .connect_with_connector_lazy(connector(&self.0.net, peer.address.clone()))
        });
        let channel = channel.clone();
        drop(known);
        Some(self.introduced(node, channel))
    }

    /// Opens a connection to `node` for one stream alone, so that no stream waits for another's bytes.
    pub(crate) async fn connect(&self, node: u64) -> Result<Introduced, ConnectError> {
        let address = self.lock().get(&node).map(|peer| peer.address.clone());
        let address = address.ok_or(ConnectError::Unknown(node))?;
        let connector = connector(&self.0.net, address.clone());
        match endpoint().connect_with_connector(connector).await {
            Ok(channel) => Ok(self.introduced(node, channel)),
            Err(error) => Err(ConnectError::Failed {
                node,
                address,
                cause: root_cause(&error),
            }),
        }
    }

    pub(crate) fn net(&self) -> &Arc<dyn Net> {
        &self.0.net
    }

    fn introduced(&self, receiver: u64, channel: Channel) -> Introduced {
        let identity = self.0.identity.clone();
        let introduction = Introduction { identity, receiver };
        InterceptedService::new(channel, introduction)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Peer>> {
        self.0
            .known
            .lock()
            .expect("no panic happens under this lock")
    }
}

/// The transport's own errors only say that they are errors of the transport.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn endpoint() -> Endpoint {
    // The name is never resolved: the connector knows the address.
    Endpoint::from_static("http://peer.hikyaku")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
}

type Connecting = futures_util::future::BoxFuture<'static, std::io::Result<TokioIo<BoxedStream>>>;

fn connector(
    net: &Arc<dyn Net>,
    address: String,
) -> impl tower::Service<
    Uri,
    Response = TokioIo<BoxedStream>,
    Error = std::io::Error,
    Future = Connecting,
> + Send
+ 'static {
    let net = Arc::clone(net);
    tower::service_fn(move |_: Uri| -> Connecting {
        let connect = net.connect(address.clone());
        Box::pin(async move { connect.await.map(TokioIo::new) })
    })
}
