//! The product's ports to network and time, over the simulation.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use hikyaku_cluster::{Clock, SystemClock};
use hikyaku_gateway::Listener;
use hikyaku_raft::{BoxedStream, Net};
use turmoil::net::{TcpListener, TcpStream};

/// The network between nodes.
pub struct Wires;

impl Net for Wires {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>> {
        Box::pin(async move { TcpStream::connect(address).await.map(BoxedStream::new) })
    }

    fn listen(
        &self,
        address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>> {
        Box::pin(async move {
            let port = address
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse::<u16>().ok());
            let port = port.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
            let accept = |listener: TcpListener| async move {
                let accepted = listener
                    .accept()
                    .await
                    .map(|(stream, _)| BoxedStream::new(stream));
                Some((accepted, listener))
            };
            Ok(stream::unfold(listener, accept).boxed())
        })
    }
}

/// Clients' connections to one node.
pub struct Front(pub TcpListener);

impl Listener for Front {
    type Io = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, IpAddr)> {
        let (stream, peer) = self.0.accept().await?;
        Ok((stream, peer.ip()))
    }
}

/// A node's clocks: the wall clock is off by a little.
pub struct SkewedClock {
    monotonic: SystemClock,
    skew_ms: i64,
}

impl SkewedClock {
    /// A node's clocks from its start on.
    pub fn new(skew_ms: i64) -> Self {
        Self {
            monotonic: SystemClock::new(),
            skew_ms,
        }
    }
}

impl Clock for SkewedClock {
    fn monotonic(&self) -> Duration {
        self.monotonic.monotonic()
    }

    fn wall_ms(&self) -> u64 {
        let now = turmoil::since_epoch().unwrap_or_default();
        (now.as_millis() as u64).saturating_add_signed(self.skew_ms)
    }
}
