//! A network in memory whose links lose, delay and break what they carry, as told.
//!
//! Each connection goes through a relay. What a relay swallows is gone for that connection and all
//! that follows on it: there is no retransmission, as after a power cut or in a partition.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use hikyaku_raft::{BoxedStream, Net};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

const PIPE_BYTES: usize = 64 << 10;

/// What happens to what one node sends to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weather {
    /// It arrives.
    #[default]
    Fair,
    /// It arrives later.
    Slow(Duration),
    /// It vanishes, and nobody is told.
    Swallows,
}

#[derive(Default)]
struct Hub {
    listeners: BTreeMap<String, mpsc::Sender<BoxedStream>>,
    /// By sender and receiver.
    weather: BTreeMap<(u64, u64), Weather>,
    carried: BTreeMap<(u64, u64), u64>,
    /// The link breaks when it has carried so many bytes more.
    breaks_after: BTreeMap<(u64, u64), u64>,
}

/// All links.
#[derive(Clone, Default)]
pub struct Wires(Arc<Mutex<Hub>>);

/// One node's end of them.
pub struct Plug {
    wires: Wires,
    node: u64,
}

/// Where a node listens.
pub fn address(node: u64) -> String {
    format!("node-{node}:1")
}

impl Wires {
    /// The end of `node`.
    pub fn plug(&self, node: u64) -> Arc<Plug> {
        let wires = self.clone();
        Arc::new(Plug { wires, node })
    }

    /// From now on, both ways between two nodes.
    pub fn between(&self, one: u64, other: u64, weather: Weather) {
        let mut hub = self.hub();
        hub.weather.insert((one, other), weather);
        hub.weather.insert((other, one), weather);
    }

    /// Bytes that `from` has sent to `to` and that arrived.
    pub fn carried(&self, from: u64, to: u64) -> u64 {
        self.hub().carried.get(&(from, to)).copied().unwrap_or(0)
    }

    /// Breaks the connection over which `from` sends the byte that comes after so many others, once.
    pub fn break_after(&self, from: u64, to: u64, bytes: u64) {
        self.hub().breaks_after.insert((from, to), bytes);
    }

    /// Nobody listens at `node` any more; what stands goes on.
    pub fn unplug(&self, node: u64) {
        self.hub().listeners.remove(&address(node));
    }

    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.0.lock().expect("no panic happens under this lock")
    }

    fn weather(&self, link: (u64, u64)) -> Weather {
        self.hub().weather.get(&link).copied().unwrap_or_default()
    }

    /// Notes what arrives; false when the link breaks here.
    fn carry(&self, link: (u64, u64), bytes: u64) -> bool {
        let mut hub = self.hub();
        *hub.carried.entry(link).or_default() += bytes;
        match hub.breaks_after.get_mut(&link) {
            Some(left) if *left <= bytes => {
                hub.breaks_after.remove(&link);
                false
            }
            Some(left) => {
                *left -= bytes;
                true
            }
            None => true,
        }
    }
}

async fn relay(
    wires: Wires,
    link: (u64, u64),
    mut from: ReadHalf<tokio::io::DuplexStream>,
    mut to: WriteHalf<tokio::io::DuplexStream>,
) {
    let mut piece = vec![0; 16 << 10];
    let mut swallowed = false;
    // Both ends of the relay close when either direction has ended.
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        match wires.weather(link) {
            Weather::Fair => {}
            Weather::Slow(delay) => tokio::time::sleep(delay).await,
            Weather::Swallows => swallowed = true,
        }
        if swallowed {
            continue;
        }
        if !wires.carry(link, length as u64) || to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

impl Net for Plug {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>> {
        let (wires, node) = (self.wires.clone(), self.node);
        Box::pin(async move {
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let to = address.strip_prefix("node-");
            let to = to.and_then(|to| to.strip_suffix(":1")?.parse().ok());
            let to: u64 = to.ok_or_else(refused)?;
            match wires.weather((node, to)) {
                Weather::Fair | Weather::Slow(_) => {}
                Weather::Swallows => std::future::pending().await,
            }
            let listener = wires.hub().listeners.get(&address).cloned();
            let listener = listener.ok_or_else(refused)?;
            let (near, near_relay) = tokio::io::duplex(PIPE_BYTES);
            let (far, far_relay) = tokio::io::duplex(PIPE_BYTES);
            listener
                .send(BoxedStream::new(far))
                .await
                .map_err(|_| refused())?;
            let (near_read, near_write) = tokio::io::split(near_relay);
            let (far_read, far_write) = tokio::io::split(far_relay);
            tokio::spawn(async move {
                let there = relay(wires.clone(), (node, to), near_read, far_write);
                let back = relay(wires, (to, node), far_read, near_write);
                tokio::select! {
                    () = there => {}
                    () = back => {}
                }
            });
            Ok(BoxedStream::new(near))
        })
    }

    fn listen(
        &self,
        address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>> {
        let (sender, receiver) = mpsc::channel(16);
        self.wires.hub().listeners.insert(address, sender);
        let incoming = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let stream = receiver.recv().await?;
            Some((Ok(stream), receiver))
        });
        Box::pin(async move { Ok(incoming.boxed()) })
    }
}
