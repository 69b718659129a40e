//! Standard queues whose load asks for more partitions.
//!
//! The leader of a partition notices that a queue has been too much for it, and says so to its own
//! node. Here it is checked with the rest of the queue, and the metadata is asked to double the spread.
//! What is lost on the way is noticed again ten seconds later.

use std::sync::Arc;

use hikyaku_metadata::{Command, QueueRecord, SPREAD_MAX, WidenSpread};
use tokio::sync::{mpsc, watch};

use crate::catalogue::Catalogue;
use crate::control::ControlPlane;
use crate::partition::{BUSY_WAITING, Busy};
use crate::router::Router;

/// Busy queues that may wait to be looked at; more are dropped.
pub const BUSY_QUEUES_WAITING: usize = 64;

/// The part of a node that widens spreads.
pub struct Growth {
    /// Where spreads are decided.
    pub control: Arc<ControlPlane>,
    /// What queues there are.
    pub catalogue: Arc<Catalogue>,
    /// The way to the rest of a queue.
    pub router: Arc<Router>,
}

impl Growth {
    /// Follows busy queues until `stop` is true.
    pub async fn run(self, mut busy: mpsc::Receiver<Busy>, mut stop: watch::Receiver<bool>) {
        let follow = async {
            while let Some(busy) = busy.recv().await {
                self.consider(busy).await;
            }
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = follow => {}
        }
    }

    async fn consider(&self, busy: Busy) {
        let (Some(record), Some(cluster)) =
            (self.catalogue.get(busy.queue), self.catalogue.cluster())
        else {
            return;
        };
        if record.descriptor.version != busy.version || !may_grow(&record, cluster.partitions) {
            return;
        }
        if !busy.by_sends && !self.is_full_everywhere(&record).await {
            return;
        }
        let queue = busy.queue;
        let partitions = record.descriptor.spread.len();
        tracing::info!(?queue, partitions, "a queue is too much for its partitions");
        let version = busy.version;
        let widen = Command::WidenSpread(WidenSpread { queue, version });
        if let Err(error) = self.control.execute(widen).await {
            tracing::warn!(?queue, %error, "a spread was not widened");
        }
    }

    /// Whether the partitions of the spread have too much each, and not only the oldest of them.
    async fn is_full_everywhere(&self, record: &QueueRecord) -> bool {
        let descriptor = &record.descriptor;
        let mut waiting = 0;
        for partition in descriptor.visited() {
            let counts = self.router.glance(partition, descriptor.id).await;
            waiting += counts.map_or(0, |counts| counts.visible);
        }
        waiting > BUSY_WAITING * descriptor.spread.len() as u64
    }
}

/// FIFO queues never grow, and neither do those whose owner said how wide they shall be.
fn may_grow(record: &QueueRecord, partitions: u32) -> bool {
    let width = record.descriptor.spread.len() as u32;
    !record.is_fifo() && record.settings.spread_width == 0 && width < partitions.min(SPREAD_MAX)
}
