//! Where connections come from: a trait for the server's loop, and the TCP port behind it.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

/// A source of connections. A simulation brings its own.
pub trait Listener: Send {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Waits for the next connection, and says which address it is from. Dropping the future loses
    /// none.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Io, IpAddr)>> + Send;
}

/// A TCP port.
pub struct TcpFront(TcpListener);

/// Opens a TCP port for clients.
pub async fn listen_tcp(address: impl ToSocketAddrs) -> io::Result<TcpFront> {
    TcpListener::bind(address).await.map(TcpFront)
}

impl TcpFront {
    /// The address that was opened; tells the port if any was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Listener for TcpFront {
    type Io = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, IpAddr)> {
        let (stream, peer) = self.0.accept().await?;
        // An answer is written at once; waiting for more to send would only delay it.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection ended before it was served");
        }
        Ok((stream, peer.ip()))
    }
}
