//! An order to stop the node that is asked, and the report of how that went.

use std::time::Duration;

use hikyaku_metadata::GroupKey;
use hikyaku_proto::admin as wire;
use tokio::sync::oneshot;
use tonic::Status;

/// The longest that an orderly stop may take by order: who waits for it is not kept longer.
pub const STOP_LIMIT_MAX: Duration = Duration::from_secs(100);

/// Somebody wants this node to stop.
pub struct StopOrder {
    /// How long it may take; `None` leaves it to the configuration.
    pub limit: Option<Duration>,
    /// Who wants to hear how it went.
    pub report: oneshot::Sender<StopReport>,
}

/// How an orderly stop went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Groups that others lead now.
    pub handed_over: usize,
    /// Groups that nobody else votes in.
    pub alone: usize,
    /// Groups that nobody took over in time.
    pub left: Vec<GroupKey>,
    /// Long polls answered early.
    pub polls_ended: u64,
    /// Connections cut off with a request under way.
    pub connections_left: usize,
    /// How long it took.
    pub took: Duration,
}

impl StopOrder {
    pub(crate) fn new(
        request: wire::StopRequest,
        report: oneshot::Sender<StopReport>,
    ) -> Result<Self, Status> {
        let limit = Duration::from_millis(request.timeout_ms);
        if limit > STOP_LIMIT_MAX {
            let most = STOP_LIMIT_MAX.as_secs();
            let text = format!("a stop takes {most} s at the most");
            return Err(Status::invalid_argument(text));
        }
        Ok(Self {
            limit: (!limit.is_zero()).then_some(limit),
            report,
        })
    }
}

impl From<StopReport> for wire::StopReport {
    fn from(report: StopReport) -> Self {
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            handed_over: count(report.handed_over),
            alone: count(report.alone),
            left: report.left.iter().map(ToString::to_string).collect(),
            polls_ended: report.polls_ended,
            connections_left: count(report.connections_left),
            took_ms: u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
