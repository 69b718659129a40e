//! What this node has with each peer: a control lane, an append lane, and bytes to fill it with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::clocks::Clocks;
use super::lane::{Lane, LaneKind, LaneSettings};
use super::peers::Peers;
use super::stats::{LaneCounters, TransportStats};

/// Entries on their way to one peer and not answered, bytes. A group may have [`GROUP_BYTES`] of them;
/// who finds no room waits, first come first served.
///
/// [`GROUP_BYTES`]: crate::pipeline::GROUP_BYTES
pub const PEER_BYTES: usize = 32 << 20;

/// Requests on the control lane that follow another within this time go together.
const WINDOW: Duration = Duration::from_millis(3);

/// Sessions by node. Cheap to clone; the tasks end with [`Sessions::stop`].
#[derive(Clone)]
pub struct Sessions(Arc<Shared>);

struct Shared {
    peers: Peers,
    clocks: Clocks,
    patience: Duration,
    open: Mutex<Open>,
    control: LaneCounters,
    append: LaneCounters,
}

#[derive(Default)]
struct Open {
    by_node: BTreeMap<u64, Session>,
    tasks: JoinSet<()>,
}

/// The lanes to one peer.
#[derive(Clone)]
pub struct Session {
    pub control: Lane,
    pub append: Lane,
    /// One permit for each byte that may be under way on the append lane.
    pub append_bytes: Arc<Semaphore>,
}

impl Sessions {
    /// `patience` is how long a peer may give no sign of life while something waits.
    pub fn new(peers: Peers, clocks: Clocks, patience: Duration) -> Self {
        Self(Arc::new(Shared {
            peers,
            clocks,
            patience,
            open: Mutex::default(),
            control: LaneCounters::default(),
            append: LaneCounters::default(),
        }))
    }

    /// The session with `node`; its streams are opened on first use.
    pub fn with(&self, node: u64) -> Session {
        let shared = &self.0;
        let mut open = self.lock();
        if let Some(session) = open.by_node.get(&node) {
            return session.clone();
        }
        let lane = |tasks: &mut JoinSet<()>, kind, window, counters: &LaneCounters| {
            let patience = shared.patience;
            let (lane, task) = Lane::new(
                node,
                kind,
                LaneSettings { patience, window },
                shared.peers.clone(),
                shared.clocks.clone(),
                counters.clone(),
            );
            tasks.spawn(task);
            lane
        };
        let control = lane(&mut open.tasks, LaneKind::Control, WINDOW, &shared.control);
        let append = lane(
            &mut open.tasks,
            LaneKind::Append,
            Duration::ZERO,
            &shared.append,
        );
        let session = Session {
            control,
            append,
            append_bytes: Arc::new(Semaphore::new(PEER_BYTES)),
        };
        open.by_node.insert(node, session.clone());
        session
    }

    /// Keeps the control lanes to all known peers open, for their clocks are read over them, and lets
    /// go of the sessions with nodes that were removed.
    pub fn keep_open(&self) {
        let nodes = self.0.peers.nodes();
        {
            let mut open = self.lock();
            open.by_node.retain(|node, _| nodes.contains(node));
            while open.tasks.try_join_next().is_some() {}
        }
        for node in nodes {
            self.with(node).control.wake();
        }
    }

    /// Runs a task until [`Sessions::stop`].
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.lock().tasks.spawn(task);
    }

    pub fn peers(&self) -> &Peers {
        &self.0.peers
    }

    pub fn clocks(&self) -> &Clocks {
        &self.0.clocks
    }

    pub fn stats(&self) -> TransportStats {
        TransportStats {
            control: self.0.control.read(),
            append: self.0.append.read(),
        }
    }

    /// Ends all streams; what waits for an answer learns it at once.
    pub fn stop(&self) {
        // Not dropped under the lock: what ends here may look for a session once more.
        let open = std::mem::take(&mut *self.lock());
        drop(open);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0
            .open
            .lock()
            .expect("no panic happens under this lock")
    }
}
