//! The front's numbers, and the page that shows them with the node's.
//!
//! The number of series is bounded: actions, error codes and partitions are, and queues are only
//! counted but for those that the configuration names.

mod messages;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::ShownQueue;
use crate::connections::TooMany;
use hikyaku_cluster::Node;
use hikyaku_sqs::action::Action;
use hikyaku_sqs::batch::BatchFailure;
use hikyaku_sqs::error::ErrorCode;
use messages::MessageMetrics;

/// Adds metrics of another part of the server to the page, in Prometheus's text format.
pub type MetricsSource = Arc<dyn Fn(&mut String) + Send + Sync>;

/// The label of an action for requests that name none of the API.
const UNKNOWN_ACTION: &str = "unknown";

/// Counters of the front.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) messages: MessageMetrics,
    succeeded: [AtomicU64; Action::ALL.len()],
    /// By action and code. Refusals are rare enough for a lock.
    refused: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    /// By action and query code, as the entries carry it.
    failed_entries: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    connections_refused: [AtomicU64; RefusedConnection::ALL.len()],
    handshakes_failed: AtomicU64,
    /// Long polls answered early, since the server stops.
    polls_ended: AtomicU64,
    durations: [Durations; Action::ALL.len()],
}

/// The limit for which a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedConnection {
    /// That of all connections.
    InAll,
    /// That of one address.
    FromOne,
    /// That of bytes from clients who have proved nothing.
    Unproved,
}

impl RefusedConnection {
    const ALL: [Self; 3] = [Self::InAll, Self::FromOne, Self::Unproved];

    /// The limit as the configuration calls it.
    const fn limit(self) -> &'static str {
        match self {
            Self::InAll => "connections",
            Self::FromOne => "connections_per_address",
            Self::Unproved => "unproved_bytes",
        }
    }
}

impl From<TooMany> for RefusedConnection {
    fn from(too_many: TooMany) -> Self {
        match too_many {
            TooMany::InAll => Self::InAll,
            TooMany::FromOne => Self::FromOne,
        }
    }
}

/// Upper bounds of the duration buckets in microseconds, and as Prometheus writes them: from a round
/// of the log to the longest poll.
const BUCKETS: [(u64, &str); 10] = [
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (100_000, "0.1"),
    (500_000, "0.5"),
    (2_500_000, "2.5"),
    (10_000_000, "10"),
    (25_000_000, "25"),
];

/// How long one action took, counted in the first bucket that holds it.
#[derive(Default)]
struct Durations {
    buckets: [AtomicU64; BUCKETS.len()],
    longer: AtomicU64,
    sum_us: AtomicU64,
}

impl Metrics {
    /// Counters that tell the messages of these queues apart.
    pub(crate) fn showing(queues: &[ShownQueue]) -> Self {
        Self {
            messages: MessageMetrics::showing(queues),
            ..Self::default()
        }
    }

    /// Counts an answer.
    pub(crate) fn count(&self, action: Option<Action>, refusal: Option<ErrorCode>) {
        match (action, refusal) {
            (Some(action), None) => {
                self.succeeded[action as usize].fetch_add(1, Ordering::Relaxed);
            }
            (action, refusal) => {
                let action = action.map_or(UNKNOWN_ACTION, Action::name);
                let code = refusal.map_or("OK", |code| code.shape().name);
                let mut refused = self.refused.lock().expect("no panic under this lock");
                *refused.entry((action, code)).or_default() += 1;
            }
        }
    }

    /// Counts how long an answer took.
    pub(crate) fn time(&self, action: Action, took: Duration) {
        let durations = &self.durations[action as usize];
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|(bound, _)| us <= *bound);
        let bucket = bucket.map_or(&durations.longer, |place| &durations.buckets[place]);
        bucket.fetch_add(1, Ordering::Relaxed);
        durations.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Counts entries of a batch that failed while the batch itself was answered.
    pub(crate) fn count_failed_entries(&self, action: Action, failed: &[BatchFailure<'_>]) {
        if failed.is_empty() {
            return;
        }
        let mut counts = self
            .failed_entries
            .lock()
            .expect("no panic under this lock");
        for failure in failed {
            *counts.entry((action.name(), failure.code)).or_default() += 1;
        }
    }

    /// Counts a connection that was closed for the sake of others.
    pub(crate) fn count_refused_connection(&self, by: RefusedConnection) {
        self.connections_refused[by as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that did not become an encrypted one.
    pub(crate) fn count_failed_handshake(&self) {
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a long poll that was answered early, since the server stops.
    pub(crate) fn count_ended_poll(&self) {
        self.polls_ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Long polls that were answered early.
    pub(crate) fn ended_polls(&self) -> u64 {
        self.polls_ended.load(Ordering::Relaxed)
    }

    /// Writes the page.
    pub(crate) fn page(
        &self,
        node: &Node,
        connections: usize,
        sources: &[MetricsSource],
    ) -> String {
        let mut page = String::with_capacity(16 << 10);
        self.write_requests(&mut page);
        self.write_failed_entries(&mut page);
        self.write_durations(&mut page);
        self.write_refused_connections(&mut page);
        let simple = [
            (
                "hikyaku_connections",
                "gauge",
                "Open connections of clients.",
                connections as u64,
            ),
            (
                "hikyaku_tls_handshakes_failed_total",
                "counter",
                "Connections that did not become encrypted ones.",
                self.handshakes_failed.load(Ordering::Relaxed),
            ),
            (
                "hikyaku_ready",
                "gauge",
                "Whether this node can answer requests.",
                u64::from(node.is_ready()),
            ),
            (
                "hikyaku_queues",
                "gauge",
                "Queues in the cluster.",
                node.catalogue().queue_count() as u64,
            ),
            (
                "hikyaku_state_bytes",
                "gauge",
                "Memory that this node holds for the state of queues.",
                node.state_bytes() as u64,
            ),
        ];
        for (name, kind, help, value) in simple {
            family(&mut page, name, kind, help);
            line(&mut page, format_args!("{name} {value}"));
        }
        self.messages.write(&mut page, node);
        write_partitions(&mut page, node);
        for source in sources {
            source(&mut page);
        }
        page
    }

    fn write_requests(&self, page: &mut String) {
        let name = "hikyaku_requests_total";
        family(
            page,
            name,
            "counter",
            "Answered requests by action and error code.",
        );
        for action in Action::ALL {
            let count = self.succeeded[action as usize].load(Ordering::Relaxed);
            if count > 0 {
                let action = action.name();
                line(
                    page,
                    format_args!("{name}{{action=\"{action}\",code=\"OK\"}} {count}"),
                );
            }
        }
        let refused = self.refused.lock().expect("no panic under this lock");
        for ((action, code), count) in &*refused {
            line(
                page,
                format_args!("{name}{{action=\"{action}\",code=\"{code}\"}} {count}"),
            );
        }
    }

    fn write_refused_connections(&self, page: &mut String) {
        let name = "hikyaku_connections_refused_total";
        let help = "Connections closed for the sake of others, by the limit that was reached.";
        family(page, name, "counter", help);
        for by in RefusedConnection::ALL {
            let count = self.connections_refused[by as usize].load(Ordering::Relaxed);
            let limit = by.limit();
            line(page, format_args!("{name}{{limit=\"{limit}\"}} {count}"));
        }
    }

    fn write_failed_entries(&self, page: &mut String) {
        let name = "hikyaku_batch_entries_failed_total";
        family(
            page,
            name,
            "counter",
            "Entries that failed in batches that were answered, by action and error code.",
        );
        let counts = self
            .failed_entries
            .lock()
            .expect("no panic under this lock");
        for ((action, code), count) in &*counts {
            line(
                page,
                format_args!("{name}{{action=\"{action}\",code=\"{code}\"}} {count}"),
            );
        }
    }

    fn write_durations(&self, page: &mut String) {
        let name = "hikyaku_request_duration_seconds";
        family(
            page,
            name,
            "histogram",
            "From a request's head to its answer, by action; long polls include their wait.",
        );
        for action in Action::ALL {
            self.durations[action as usize].write(page, name, action.name());
        }
    }
}

impl Durations {
    fn write(&self, page: &mut String, name: &str, action: &str) {
        let counts = self
            .buckets
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed));
        let total = counts.iter().sum::<u64>() + self.longer.load(Ordering::Relaxed);
        if total == 0 {
            return;
        }
        let mut so_far = 0;
        for ((_, bound), count) in BUCKETS.iter().zip(counts) {
            so_far += count;
            line(
                page,
                format_args!("{name}_bucket{{action=\"{action}\",le=\"{bound}\"}} {so_far}"),
            );
        }
        line(
            page,
            format_args!("{name}_bucket{{action=\"{action}\",le=\"+Inf\"}} {total}"),
        );
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed)).as_secs_f64();
        line(
            page,
            format_args!("{name}_sum{{action=\"{action}\"}} {sum}"),
        );
        line(
            page,
            format_args!("{name}_count{{action=\"{action}\"}} {total}"),
        );
    }
}

fn write_partitions(page: &mut String, node: &Node) {
    let name = "hikyaku_replicas";
    family(
        page,
        name,
        "gauge",
        "Replicas that the metadata place on this node.",
    );
    let replicas = node.catalogue().replicas_on(node.id()).len();
    line(page, format_args!("{name} {replicas}"));
    let name = "hikyaku_moves";
    family(
        page,
        name,
        "gauge",
        "Groups of the cluster with a move of a replica under way.",
    );
    line(page, format_args!("{name} {}", node.catalogue().moves()));
    let name = "hikyaku_raft_applied_index";
    family(
        page,
        name,
        "gauge",
        "Last log index applied by this node's replica.",
    );
    for partition in node.partitions() {
        let (number, index) = (partition.partition().0, partition.applied_index());
        line(
            page,
            format_args!("{name}{{partition=\"{number}\"}} {index}"),
        );
    }
    let name = "hikyaku_raft_leader";
    family(
        page,
        name,
        "gauge",
        "Whether this node leads the partition.",
    );
    for partition in node.partitions() {
        let leads = partition.leadership().leader_node == Some(node.id());
        let (number, leads) = (partition.partition().0, u8::from(leads));
        line(
            page,
            format_args!("{name}{{partition=\"{number}\"}} {leads}"),
        );
    }
    let name = "hikyaku_raft_term";
    family(
        page,
        name,
        "gauge",
        "Term that this node's replica is in: it rises with each change of the leader.",
    );
    for partition in node.partitions() {
        let (number, term) = (partition.partition().0, partition.leadership().term);
        line(
            page,
            format_args!("{name}{{partition=\"{number}\"}} {term}"),
        );
    }
}

fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    line(page, format_args!("# HELP {name} {help}"));
    line(page, format_args!("# TYPE {name} {kind}"));
}

fn line(page: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(page, "{line}").expect("a String takes every character");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hikyaku_sqs::action::Action;
    use hikyaku_sqs::error::ErrorCode;

    use super::Metrics;

    #[test]
    fn requests_are_counted_by_action_and_code() {
        let metrics = Metrics::default();
        metrics.count(Some(Action::SendMessage), None);
        metrics.count(Some(Action::SendMessage), None);
        metrics.count(
            Some(Action::SendMessage),
            Some(ErrorCode::QueueDoesNotExist),
        );
        metrics.count(None, Some(ErrorCode::UnknownOperation));
        let mut page = String::new();
        metrics.write_requests(&mut page);
        let expected = "\
# HELP hikyaku_requests_total Answered requests by action and error code.
# TYPE hikyaku_requests_total counter
hikyaku_requests_total{action=\"SendMessage\",code=\"OK\"} 2
hikyaku_requests_total{action=\"SendMessage\",code=\"QueueDoesNotExist\"} 1
hikyaku_requests_total{action=\"unknown\",code=\"UnknownOperationException\"} 1
";
        assert_eq!(page, expected);
    }

    #[test]
    fn durations_are_a_cumulative_histogram_in_seconds() {
        let metrics = Metrics::default();
        for ms in [1, 3, 30_000] {
            metrics.time(Action::SendMessage, Duration::from_millis(ms));
        }
        let mut page = String::new();
        metrics.write_durations(&mut page);
        let name = "hikyaku_request_duration_seconds";
        for line in [
            "_bucket{action=\"SendMessage\",le=\"0.001\"} 1",
            "_bucket{action=\"SendMessage\",le=\"0.0025\"} 1",
            "_bucket{action=\"SendMessage\",le=\"0.005\"} 2",
            "_bucket{action=\"SendMessage\",le=\"25\"} 2",
            "_bucket{action=\"SendMessage\",le=\"+Inf\"} 3",
            "_sum{action=\"SendMessage\"} 30.004",
            "_count{action=\"SendMessage\"} 3",
        ] {
            assert!(
                page.contains(&format!("{name}{line}\n")),
                "no {line} in\n{page}"
            );
        }
        assert!(
            !page.contains("PurgeQueue"),
            "what never happened has no series"
        );
    }

    #[test]
    fn an_actions_number_is_its_place() {
        for (place, action) in Action::ALL.into_iter().enumerate() {
            assert_eq!(action as usize, place);
        }
    }
}
