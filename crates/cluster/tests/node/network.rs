//! A network in memory: pipes between nodes of one process, which can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use hikyaku_raft::{BoxedStream, Net};
use tokio::sync::mpsc;

const PIPE_BYTES: usize = 64 << 10;

/// All nodes' listeners by address, and the addresses nobody reaches.
#[derive(Clone, Default)]
pub struct Wires(Arc<Mutex<Hub>>);

#[derive(Default)]
struct Hub {
    listeners: BTreeMap<String, mpsc::Sender<BoxedStream>>,
    cut: BTreeSet<String>,
}

impl Wires {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.0.lock().expect("no panic happens under this lock")
    }

    /// Nobody reaches `address` any more; connections that stand go on.
    pub fn unplug(&self, address: &str) {
        let mut hub = self.hub();
        hub.listeners.remove(address);
        hub.cut.insert(address.to_owned());
    }

    /// `address` can be reached again once somebody listens.
    pub fn plug(&self, address: &str) {
        self.hub().cut.remove(address);
    }
}

impl Net for Wires {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>> {
        let hub = self.hub();
        let listener = hub
            .listeners
            .get(&address)
            .filter(|_| !hub.cut.contains(&address))
            .cloned();
        Box::pin(async move {
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let (near, far) = tokio::io::duplex(PIPE_BYTES);
            let listener = listener.ok_or_else(refused)?;
            listener
                .send(BoxedStream::new(far))
                .await
                .map_err(|_| refused())?;
            Ok(BoxedStream::new(near))
        })
    }

    fn listen(
        &self,
        address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>> {
        let (sender, receiver) = mpsc::channel(16);
        self.hub().listeners.insert(address, sender);
        let incoming = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let stream = receiver.recv().await?;
            Some((Ok(stream), receiver))
        });
        Box::pin(async move { Ok(incoming.boxed()) })
    }
}
