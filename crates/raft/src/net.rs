//! The way to other nodes: the [`Net`] port, and one lazily connected channel per peer.
//!
//! The port has two implementations outside this crate's logic: tokio's TCP for a server, turmoil's
//! for a simulation. Everything above a byte stream (HTTP/2, gRPC, deadlines) is the same code.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint};

use crate::node::{KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT};

/// How long a connection attempt to a peer may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens and accepts byte streams between nodes.
pub trait Net: Send + Sync + 'static {
    /// Connects to `address` (`host:port`).
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>>;

    /// Accepts connections on `address` until the stream is dropped.
    fn listen(
        &self,
        address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>>;
}

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection to or from a peer.
pub struct BoxedStream(Box<dyn ByteStream>);

impl BoxedStream {
    /// Wraps any byte stream.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Box::new(stream))
    }
}

impl AsyncRead for BoxedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for BoxedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

impl Connected for BoxedStream {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

/// The other nodes of the cluster: where they are, and one channel to each.
///
/// A channel connects on first use and again after a failure; requests on a broken one fail at once.
#[derive(Clone)]
pub struct Peers {
    net: Arc<dyn Net>,
    known: Arc<Mutex<BTreeMap<u64, Peer>>>,
}

struct Peer {
    address: String,
    channel: Option<Channel>,
}

impl Peers {
    /// Peers by node id and `host:port`.
    pub fn new(net: Arc<dyn Net>, addresses: impl IntoIterator<Item = (u64, String)>) -> Self {
        let known = addresses
            .into_iter()
            .map(|(node, address)| {
                (
                    node,
                    Peer {
                        address,
                        channel: None,
                    },
                )
            })
            .collect();
        Self {
            net,
            known: Arc::new(Mutex::new(known)),
        }
    }

    /// The channel to `node`; `None` when its address is not known.
    pub fn channel(&self, node: u64) -> Option<Channel> {
        let mut known = self.known.lock().expect("no panic happens under this lock");
        let peer = known.get_mut(&node)?;
        let channel = peer
            .channel
            .get_or_insert_with(|| open(&self.net, peer.address.clone()));
        Some(channel.clone())
    }

    pub(crate) fn net(&self) -> &Arc<dyn Net> {
        &self.net
    }
}

fn open(net: &Arc<dyn Net>, address: String) -> Channel {
    let net = Arc::clone(net);
    let connector = tower::service_fn(move |_: tonic::codegen::http::Uri| {
        let connect = net.connect(address.clone());
        async move { connect.await.map(TokioIo::new) }
    });
    // The name is never resolved: the connector knows the address.
    Endpoint::from_static("http://peer.hikyaku")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .connect_with_connector_lazy(connector)
}
