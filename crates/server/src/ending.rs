//! Why a node ends, and how its end went.
//!
//! An orderly stop takes no new connection, answers long polls and requests under way, hands over every
//! leadership, and leaves; what is not done when its time is over is cut off, and told.

use hikyaku_admin::{StopOrder, StopReport};
use hikyaku_cluster::{HandedOver, Node};
use hikyaku_metadata::JoinNodeError;
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What leaderships get of a stop's time at the least: half of it, and no more than they need.
const HAND_OVER_RESERVE: Duration = Duration::from_secs(5);

/// Why a node ends.
pub(crate) enum Ending {
    /// The process was told to.
    Told,
    /// An operator wants it to.
    Ordered(StopOrder),
    /// The cluster does not have it.
    Refused(JoinNodeError),
}

/// An end under way.
pub(crate) struct Leaving {
    began: Instant,
    limit: Duration,
    order: Option<StopOrder>,
    refusal: Option<JoinNodeError>,
    report: StopReport,
}

/// Waits for the process to be told to end, or for an operator's order.
pub(crate) async fn told_to_end(
    shutdown: impl Future<Output = ()>,
    orders: &mut mpsc::Receiver<StopOrder>,
) -> Ending {
    tokio::select! {
        () = shutdown => Ending::Told,
        Some(order) = orders.recv() => Ending::Ordered(order),
    }
}

impl Leaving {
    /// Begins now, and takes as long as the order or the configuration allows.
    pub(crate) fn begin(ending: Ending, configured: Duration) -> Self {
        let (order, refusal) = match ending {
            Ending::Told => (None, None),
            Ending::Ordered(order) => (Some(order), None),
            Ending::Refused(refusal) => (None, Some(refusal)),
        };
        Self {
            began: Instant::now(),
            limit: order.as_ref().and_then(|it| it.limit).unwrap_or(configured),
            order,
            refusal,
            report: StopReport::default(),
        }
    }

    /// When clients must have been answered.
    pub(crate) fn front_deadline(&self) -> Instant {
        self.began + self.limit - HAND_OVER_RESERVE.min(self.limit / 2)
    }

    /// Notes how the clients were left.
    pub(crate) fn front_closed(&mut self, polls_ended: u64, connections_left: usize) {
        self.report.polls_ended = polls_ended;
        self.report.connections_left = connections_left;
    }

    /// Hands every leadership over, as far as there is time.
    pub(crate) async fn hand_over(&mut self, node: &Node) {
        let rest = self.limit.saturating_sub(self.began.elapsed());
        let HandedOver {
            handed_over,
            alone,
            left,
        } = node.hand_over(rest).await;
        self.report.handed_over = handed_over;
        self.report.alone = alone;
        self.report.left = left;
    }

    /// Tells how it went, in the log and to who ordered it; gives the reason if the cluster refused the
    /// node.
    pub(crate) fn end(mut self) -> Result<(), JoinNodeError> {
        self.report.took = self.began.elapsed();
        let StopReport {
            handed_over,
            alone,
            left,
            polls_ended,
            connections_left,
            took,
        } = &self.report;
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        let took_ms = took.as_millis();
        tracing::info!(
            handed_over,
            alone,
            ?left,
            polls_ended,
            connections_left,
            took_ms,
            "left the cluster in order"
        );
        if let Some(order) = self.order {
            // Who ordered it may have gone.
            order.report.send(self.report).ok();
        }
        self.refusal.map_or(Ok(()), Err)
    }
}
