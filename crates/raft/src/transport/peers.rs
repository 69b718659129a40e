//! The other nodes of the cluster: where they are, and how connections to them are opened.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::codegen::http::Uri;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::identity::Identity;
use super::net::{BoxedStream, FarEnd, Net};
use super::tls::PeerCertificate;

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
    /// The name in its certificate, once that is known.
    certificate_name: Option<String>,
    /// When the stream of votes and heartbeats to it was opened last.
    reached: Option<Instant>,
    /// For requests that are not Raft's. It connects on first use and again after a failure.
    channel: Option<Channel>,
    /// Dropped with the peer, which ends the streams to it.
    known: watch::Sender<()>,
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

/// A node showed another's certificate.
#[derive(Debug, thiserror::Error)]
#[error("the certificate is not for {name}, which is node {node:x}")]
pub struct WrongCertificate {
    node: u64,
    name: String,
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
        match known.get_mut(&node) {
            Some(peer) if peer.address == address => {}
            Some(peer) => {
                peer.address = address;
                peer.channel = None;
            }
            None => {
                let peer = Peer {
                    address,
                    certificate_name: None,
                    reached: None,
                    channel: None,
                    known: watch::Sender::new(()),
                };
                known.insert(node, peer);
            }
        }
    }

    /// Forgets a node: its address and the name in its certificate. Streams to it end, and requests
    /// to it fail at once, until its address is set again.
    pub fn remove(&self, node: u64) {
        let gone = self.lock().remove(&node);
        // Not dropped under the lock: what ends with it may ask for a peer once more.
        drop(gone);
    }

    /// When a node was reached anew: by the first stream to it, or the first after a loss. Who was
    /// restarted last was reached last.
    pub fn reached(&self, node: u64) -> Option<Instant> {
        self.lock().get(&node)?.reached
    }

    pub(super) fn reaches(&self, node: u64) {
        if let Some(peer) = self.lock().get_mut(&node) {
            peer.reached = Some(Instant::now());
        }
    }

    /// Completes when `node` is removed; at once when it is not known.
    pub(crate) fn removal(&self, node: u64) -> impl Future<Output = ()> + Send + use<> {
        let known = self.lock().get(&node).map(|peer| peer.known.subscribe());
        async move {
            if let Some(mut known) = known {
                // Nothing is ever sent: it can only end.
                while known.changed().await.is_ok() {}
            }
        }
    }

    /// From now on only who holds a certificate for `name` (a DNS name or an IP address) speaks and is
    /// spoken to as `node`, whose address must be known. Connections without TLS prove nothing, and are
    /// not asked.
    pub fn pin(&self, node: u64, name: &str) {
        if let Some(peer) = self.lock().get_mut(&node)
            && peer.certificate_name.as_deref() != Some(name)
        {
            peer.certificate_name = Some(name.to_owned());
            peer.channel = None;
        }
    }

    /// Checks the head of a request that arrived, and that who sent it may.
    pub(crate) fn admit(&self, request: Request<()>) -> Result<Request<()>, Status> {
        let sender = self.identity().check(request.metadata())?;
        let far_end = request.extensions().get::<FarEnd>();
        let certificate = far_end.and_then(|end| end.certificate.as_ref());
        self.vouches(certificate, sender)
            .map_err(|error| Status::permission_denied(error.to_string()))?;
        Ok(request)
    }

    /// Whether who has shown `certificate` may speak as `node`.
    pub(crate) fn vouches(
        &self,
        certificate: Option<&PeerCertificate>,
        node: u64,
    ) -> Result<(), WrongCertificate> {
        let known = self.lock();
        let pinned = known
            .get(&node)
            .and_then(|peer| peer.certificate_name.as_deref());
        match (certificate, pinned) {
            (Some(certificate), Some(name)) if !certificate.is_for(name) => {
                let name = name.to_owned();
                Err(WrongCertificate { node, name })
            }
            (Some(_) | None, _) => Ok(()),
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
                .connect_with_connector_lazy(self.connector(node, peer.address.clone()))
        });
        let channel = channel.clone();
        drop(known);
        Some(self.introduced(node, channel))
    }

    /// Opens a connection to `node` for one stream alone, so that no stream waits for another's bytes.
    pub(crate) async fn connect(&self, node: u64) -> Result<Introduced, ConnectError> {
        let address = self.lock().get(&node).map(|peer| peer.address.clone());
        let address = address.ok_or(ConnectError::Unknown(node))?;
        let connector = self.connector(node, address.clone());
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

    fn connector(
        &self,
        node: u64,
        address: String,
    ) -> impl tower::Service<
        Uri,
        Response = TokioIo<BoxedStream>,
        Error = io::Error,
        Future = Connecting,
    > + Send
    + 'static {
        let net = Arc::clone(&self.0.net);
        // The channel that holds this is itself held by the peers.
        let peers = Arc::downgrade(&self.0);
        tower::service_fn(move |_: Uri| -> Connecting {
            let connecting = net.connect(address.clone());
            let peers = peers.clone();
            Box::pin(async move {
                let stream = connecting.await?;
                let gone = || io::Error::from(io::ErrorKind::NotConnected);
                let peers = Self(peers.upgrade().ok_or_else(gone)?);
                let vouched = peers.vouches(stream.certificate(), node);
                vouched.map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error))?;
                Ok(TokioIo::new(stream))
            })
        })
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

pub(super) fn endpoint() -> Endpoint {
    // The name is never resolved: the connector knows the address.
    Endpoint::from_static("http://peer.hikyaku")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
}

type Connecting = BoxFuture<'static, io::Result<TokioIo<BoxedStream>>>;
