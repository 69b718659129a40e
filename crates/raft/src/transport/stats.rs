//! What the transport counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counted since the start, over all peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportStats {
    /// Votes, heartbeats and transfers.
    pub control: LaneStats,
    /// Requests with entries.
    pub append: LaneStats,
}

/// Counted since the start, over the streams of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// Streams opened. More than one for each peer means that some were lost.
    pub opened: u64,
    /// Messages sent, each with any number of requests.
    pub messages: u64,
    /// Requests sent.
    pub requests: u64,
}

/// The counters of the streams of one kind. Clones count together.
#[derive(Clone, Default)]
pub struct LaneCounters(Arc<Counters>);

#[derive(Default)]
struct Counters {
    opened: AtomicU64,
    messages: AtomicU64,
    requests: AtomicU64,
}

impl LaneCounters {
    pub fn opened(&self) {
        self.0.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub fn sent(&self, requests: usize) {
        self.0.messages.fetch_add(1, Ordering::Relaxed);
        self.0
            .requests
            .fetch_add(requests as u64, Ordering::Relaxed);
    }

    pub fn read(&self) -> LaneStats {
        LaneStats {
            opened: self.0.opened.load(Ordering::Relaxed),
            messages: self.0.messages.load(Ordering::Relaxed),
            requests: self.0.requests.load(Ordering::Relaxed),
        }
    }
}
