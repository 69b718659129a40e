//! The operator's port: few connections, short requests, and nothing waits for it at the end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use crate::door::Door;
use crate::service::Desk;
use crate::token::Token;
use hikyaku_proto::admin::admin_server::AdminServer;

/// Connections at one time; further ones wait to be accepted. Operators are few.
const CONNECTIONS: usize = 64;

/// Requests at one time on one connection.
const REQUESTS_PER_CONNECTION: usize = 8;

/// The largest request, in bytes: all of them name one thing.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// How long a request may take: a minute more than the cluster may need for one command.
const REQUEST_LIMIT: Duration = Duration::from_secs(120);

/// How often an idle connection is probed, and how long the probe may take.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long answers under way may take once the port is to be closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// The rest after a failed accept: out of file descriptors, say, which must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where operators come in.
pub struct AdminPort {
    listener: TcpListener,
    token: Option<Token>,
    tls: Option<Arc<ServerConfig>>,
}

impl AdminPort {
    /// Opens the port. Who presents `token` is let in; without one everybody is, and without `tls`
    /// nothing is encrypted.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn open(
        address: SocketAddr,
        token: Option<Token>,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self {
            listener,
            token,
            tls,
        })
    }
}

/// Answers operators until `stop` completes and what is under way is answered, or is too slow.
pub async fn serve(port: AdminPort, desk: Desk, stop: impl Future<Output = ()> + Send + 'static) {
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let stop = async move {
        stop.await;
        // The receiver is gone only when the port is closed already.
        stopping.send(()).ok();
    };
    let service = AdminServer::new(desk).max_decoding_message_size(REQUEST_BYTES_MAX);
    let service =
        tonic::service::interceptor::InterceptedService::new(service, Door::new(port.token));
    let serving = Server::builder()
        .timeout(REQUEST_LIMIT)
        .concurrency_limit_per_connection(REQUESTS_PER_CONNECTION)
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
        .add_service(service)
        .serve_with_incoming_shutdown(connections(port.listener, port.tls), stop);
    let out_of_time = async {
        // An error means that the port closed by itself.
        stopped.await.ok();
        tokio::time::sleep(CLOSE_LIMIT).await;
    };
    tokio::select! {
        served = serving => if let Err(error) = served {
            tracing::error!(%error, "operators are no longer answered");
        },
        // Whoever is still connected is cut off.
        () = out_of_time => {}
    }
}

/// Connections as they come, after their handshake where there is one.
fn connections(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
) -> impl Stream<Item = io::Result<Connection>> {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let accepted = stream::unfold((listener, room), |(listener, room)| async move {
        let place = Arc::clone(&room).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let stream = accept(&listener).await;
        Some(((stream, place), (listener, room)))
    });
    let tls = tls.map(TlsAcceptor::from);
    accepted
        .map(move |(stream, place)| shaken(tls.clone(), stream, place))
        .buffer_unordered(CONNECTIONS)
        .filter_map(|connection| std::future::ready(connection.map(Ok)))
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "an operator's connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn shaken(
    tls: Option<TlsAcceptor>,
    stream: TcpStream,
    place: OwnedSemaphorePermit,
) -> Option<Connection> {
    let bytes: Box<dyn ByteStream> = match tls {
        None => Box::new(stream),
        Some(tls) => match tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(stream)).await {
            Ok(Ok(stream)) => Box::new(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "no TLS handshake of an operator");
                return None;
            }
            Err(_) => {
                tracing::debug!("an operator's TLS handshake took too long");
                return None;
            }
        },
    };
    Some(Connection {
        bytes,
        _place: place,
    })
}

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection, counted as long as it lives.
struct Connection {
    bytes: Box<dyn ByteStream>,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(cx)
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}
