//! Counts of messages, asked of partition leaders: nothing is proposed and nothing handed out.

use std::time::Duration;

use futures_util::future::join_all;
use hikyaku_proto::node as wire;
use hikyaku_queue::{Counts, Descriptor, PartitionId, QueueId, QuietCounts};
use tokio::time::Instant;

use super::{ATTEMPT_LIMIT, CallError, FIRST_PAUSE, LAST_PAUSE, Router, wait_for_change};

/// How long a glance at a partition's counts may take: it is skipped when its leader is slow to say.
const GLANCE_LIMIT: Duration = Duration::from_millis(500);

impl Router {
    /// Counts a queue's messages at the partition's leader.
    pub async fn counts(
        &self,
        partition: PartitionId,
        queue: QueueId,
    ) -> Result<Counts, CallError> {
        let unavailable = CallError::Unavailable { no_effect: true };
        let seat = self.seat(partition).ok_or(unavailable)?;
        let deadline = Instant::now() + self.budget;
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(counts) = self.counts_attempt(partition, queue, ATTEMPT_LIMIT).await {
                return Ok(counts);
            }
            if Instant::now() + pause >= deadline {
                return Err(unavailable);
            }
            wait_for_change(seat, pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Counts a queue's messages at the partition's leader if it says so at once.
    pub async fn glance(&self, partition: PartitionId, queue: QueueId) -> Option<Counts> {
        self.counts_attempt(partition, queue, GLANCE_LIMIT).await
    }

    async fn counts_attempt(
        &self,
        partition: PartitionId,
        queue: QueueId,
        limit: Duration,
    ) -> Option<Counts> {
        use wire::counts_response::Result as Answer;
        let seat = self.seat(partition)?;
        let leader = seat.lead().node?;
        if leader == self.node {
            let handle = seat.replica()?;
            return handle.leadership().serving.then(|| handle.counts(queue));
        }
        let request = wire::CountsRequest {
            partition: partition.0,
            queue: queue.0,
        };
        let answer = self.peers.queue_counts(leader, request, limit).await;
        match answer.ok()?.result? {
            Answer::Counts(counts) => Some(counts_from_wire(counts)),
            Answer::Retry(_) => None,
        }
    }

    /// Whether as many messages of the queue are in flight over all its partitions as may be, as they
    /// announced lately.
    pub async fn is_over_in_flight_limit(&self, queue: &Descriptor) -> bool {
        let limit = u64::from(queue.in_flight_limit);
        if let Some(known) = self.in_flight.known(queue.id, Instant::now()) {
            return known >= limit;
        }
        let glances = queue.visited().map(|at| self.glance(at, queue.id));
        let counts = join_all(glances).await;
        let sum = counts.iter().flatten().map(|counts| counts.in_flight).sum();
        self.in_flight.announce(queue.id, sum);
        sum >= limit
    }
}

/// What a leader answers.
pub(crate) fn counts_to_wire(counts: Counts) -> wire::Counts {
    wire::Counts {
        visible: counts.visible,
        in_flight: counts.in_flight,
        delayed: counts.delayed,
        oldest_sent_at_ms: counts.oldest_sent_at,
        noisy_groups: counts.noisy_groups,
        quiet: Some(wire::QuietCounts {
            visible: counts.quiet.visible,
            in_flight: counts.quiet.in_flight,
            delayed: counts.quiet.delayed,
            oldest_sent_at_ms: counts.quiet.oldest_sent_at,
        }),
    }
}

/// What a leader answered; one that knows nothing of noisy groups has quiet ones only.
fn counts_from_wire(counts: wire::Counts) -> Counts {
    let quiet = counts.quiet.unwrap_or(wire::QuietCounts {
        visible: counts.visible,
        in_flight: counts.in_flight,
        delayed: counts.delayed,
        oldest_sent_at_ms: counts.oldest_sent_at_ms,
    });
    Counts {
        visible: counts.visible,
        in_flight: counts.in_flight,
        delayed: counts.delayed,
        oldest_sent_at: counts.oldest_sent_at_ms,
        noisy_groups: counts.noisy_groups,
        quiet: QuietCounts {
            visible: quiet.visible,
            in_flight: quiet.in_flight,
            delayed: quiet.delayed,
            oldest_sent_at: quiet.oldest_sent_at_ms,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, QuietCounts, counts_from_wire, counts_to_wire};

    const COUNTS: Counts = Counts {
        visible: 1,
        in_flight: 2,
        delayed: 3,
        oldest_sent_at: Some(4),
        noisy_groups: 5,
        quiet: QuietCounts {
            visible: 6,
            in_flight: 7,
            delayed: 8,
            oldest_sent_at: Some(9),
        },
    };

    #[test]
    fn counts_come_back() {
        assert_eq!(counts_from_wire(counts_to_wire(COUNTS)), COUNTS);
    }

    #[test]
    fn an_older_leader_has_quiet_groups_only() {
        let mut wire = counts_to_wire(COUNTS);
        (wire.noisy_groups, wire.quiet) = (0, None);
        let counts = counts_from_wire(wire);
        let quiet = counts.quiet;
        let all = (counts.visible, counts.in_flight, counts.delayed);
        assert_eq!((quiet.visible, quiet.in_flight, quiet.delayed), all);
        assert_eq!((counts.noisy_groups, quiet.oldest_sent_at), (0, Some(4)));
    }
}
