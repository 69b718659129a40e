//! Receives of one queue, over all partitions that may hold messages of it.
//!
//! With one partition the leader does everything: it answers, or parks a receive that waits. With
//! several, the partitions are asked in a random order, so that none is passed over for long. The
//! first is asked for all that is wanted; what is missing comes from others that have something to
//! give now. A receive that found nothing anywhere and may wait looks at each partition, which tells it
//! when there is something to take.
//!
//! Whatever was handed out and is not returned to the caller goes back uncounted: a late grant, an
//! answer that came too slowly, everything in hand when the caller goes.

mod attempts;
mod hand;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use hikyaku_metadata::QueueRecord;
use hikyaku_queue::{Descriptor, Operation, PartitionId, QueueKind, Reply};
use tokio::time::{Instant, timeout, timeout_at};

use super::{ReceiveError, ReceiveRequest, Received, Redriven, UNFOUNDED, unexpected};
use crate::node::Node;
use crate::partition::Delivered;
use crate::router::{CallError, IN_FLIGHT_GOOD_FOR, Request};
use hand::{Hand, Said, Taken, Tally};

/// How long one of several partitions may take to answer a receive that does not wait: longer than a
/// leader change. Then the others are asked.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long others may take to fill up what is in hand, whose visibility timeout runs.
const FILL_PATIENCE: Duration = Duration::from_millis(500);

/// Partitions led elsewhere that are looked at to fill up what is in hand: each costs a message to
/// another node, and a receive may return less than it could.
const FILLED_FROM_ELSEWHERE: usize = 8;

/// A partition that had something, and nothing for this receive, is looked at again after so long.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// How much longer than asked for a receive waits for partitions that have not answered.
const GRACE: Duration = Duration::from_secs(1);

impl Node {
    /// Receives messages of a queue, waiting for one if asked to.
    pub async fn receive(
        &self,
        queue: &QueueRecord,
        request: ReceiveRequest,
    ) -> Result<Vec<Received>, ReceiveError> {
        let sealer = self.catalogue().sealer().ok_or(UNFOUNDED)?;
        let delivered = self.take(queue, &request).await?;
        let received = delivered.into_iter().map(|delivered| {
            let origin = delivered.delivery.origin.as_deref();
            let partition = delivered.delivery.receipt.partition;
            let redriven = origin.and_then(|it| it.redriven);
            let source = origin.and_then(|it| it.source.as_deref());
            Received {
                receipt_handle: sealer.seal(&delivered.delivery.receipt),
                body: delivered.body,
                sent_at_ms: delivered.sent_at_ms,
                receive_count: delivered.delivery.receive_count,
                first_received_at_ms: delivered.delivery.first_received_at,
                sequence: delivered.delivery.sequence,
                dead_letter_source: source.map(str::to_owned),
                redriven: redriven.map(|name| Redriven { partition, name }),
            }
        });
        Ok(received.collect())
    }

    /// Starts over when the queue's partitions become others: messages may come to new ones.
    async fn take(
        &self,
        queue: &QueueRecord,
        request: &ReceiveRequest,
    ) -> Result<Vec<Delivered>, ReceiveError> {
        let until = Instant::now() + request.wait;
        let mut newer: Option<Arc<QueueRecord>> = None;
        loop {
            let descriptor = &newer.as_deref().unwrap_or(queue).descriptor;
            let receive = Receive {
                node: self,
                queue: descriptor,
                request,
                until,
            };
            tokio::select! {
                // What is there is handed out even when the partitions are becoming others.
                biased;
                found = receive.run() => return found,
                record = self.catalogue().respread(descriptor) => newer = Some(record),
            }
        }
    }
}

/// One receive under one version of the queue's descriptor.
struct Receive<'a> {
    node: &'a Node,
    queue: &'a Descriptor,
    request: &'a ReceiveRequest,
    until: Instant,
}

impl Receive<'_> {
    async fn run(&self) -> Result<Vec<Delivered>, ReceiveError> {
        let partitions: Vec<PartitionId> = self.queue.visited().collect();
        if let [only] = partitions[..] {
            return self.ask_one(only).await;
        }
        if !self.wait_for_room().await {
            return match self.queue.kind {
                QueueKind::Standard => Err(ReceiveError::OverInFlightLimit),
                QueueKind::Fifo { .. } => Ok(Vec::new()),
            };
        }
        let attempt = self.request.attempt_id.as_deref();
        match (self.queue.kind, attempt) {
            (QueueKind::Fifo { .. }, Some(attempt)) => self.ask_attempt(partitions, attempt).await,
            (QueueKind::Standard | QueueKind::Fifo { .. }, _) => self.ask_several(partitions).await,
        }
    }

    async fn ask_one(&self, partition: PartitionId) -> Result<Vec<Delivered>, ReceiveError> {
        let mut hand = Hand::of(self.node.router());
        let mut tally = Tally::default();
        let said = self
            .ask(partition, self.request.max, self.left(), self.attempt_id())
            .await;
        hand.put(tally.note(said));
        hand.give_or(tally)
    }

    async fn ask_several(
        &self,
        partitions: Vec<PartitionId>,
    ) -> Result<Vec<Delivered>, ReceiveError> {
        let mut hand = Hand::of(self.node.router());
        let mut tally = Tally::default();
        let partitions = self.in_turn(partitions);
        let (first, others) = partitions.split_first().expect("there are several");
        let said = self.ask_now(*first, self.request.max, None).await;
        hand.put(tally.note(said));
        self.fill(&mut hand, &mut tally, others).await;
        if hand.is_empty() && !tally.is_gone() && self.until > Instant::now() {
            self.park(&mut hand, &mut tally, &partitions, None).await;
        }
        hand.give_or(tally)
    }

    /// Takes what is missing from partitions that have something now.
    async fn fill(&self, hand: &mut Hand<'_>, tally: &mut Tally, others: &[PartitionId]) {
        if self.missing(hand) == 0 || tally.is_gone() {
            return;
        }
        let mut ends = (!hand.is_empty()).then(|| Instant::now() + FILL_PATIENCE);
        let mut givers = self
            .with_something(others, !hand.is_empty())
            .await
            .into_iter();
        while self.missing(hand) > 0 && givers.len() > 0 {
            let missing = self.missing(hand);
            let wave: Vec<PartitionId> = givers.by_ref().take(missing).collect();
            let asks = wave.iter().zip(shares(missing, wave.len()));
            let mut asks: FuturesUnordered<_> = asks
                .map(|(partition, share)| self.ask_now(*partition, share, None))
                .collect();
            loop {
                // Asks that are dropped here give back what they took.
                let said = match ends {
                    Some(ends) => match timeout_at(ends, asks.next()).await {
                        Ok(said) => said,
                        Err(_) => return,
                    },
                    None => asks.next().await,
                };
                let Some(said) = said else { break };
                hand.put(tally.note(said));
                if !hand.is_empty() {
                    ends.get_or_insert_with(|| Instant::now() + FILL_PATIENCE);
                }
            }
        }
    }

    /// Looks at every partition until one has something, and takes it there. One is asked at a time: a
    /// second one would hand out what nobody sees, if this node went down before it could say so.
    async fn park(
        &self,
        hand: &mut Hand<'_>,
        tally: &mut Tally,
        partitions: &[PartitionId],
        attempt: Option<&str>,
    ) {
        let looks = partitions.iter();
        let looks = looks.map(|partition| self.look(*partition, Duration::ZERO));
        let mut looks: FuturesUnordered<_> = looks.collect();
        while hand.is_empty() && !tally.is_gone() {
            let said = match timeout_at(self.until + GRACE, looks.next()).await {
                Ok(Some(Ok(partition))) if !self.left().is_zero() => {
                    looks.push(self.look(partition, LOOK_PAUSE));
                    self.ask_now(partition, self.request.max, attempt).await
                }
                Ok(Some(Ok(_))) => Ok(Said::Nothing),
                Ok(Some(Err(error))) => Err(error),
                Ok(None) | Err(_) => return,
            };
            hand.put(tally.note(said));
        }
    }

    /// Returns when the partition has something to hand out, or the wait is over.
    async fn look(
        &self,
        partition: PartitionId,
        pause: Duration,
    ) -> Result<PartitionId, CallError> {
        tokio::time::sleep(pause.min(self.left())).await;
        self.ask(partition, 0, self.left(), None).await?;
        Ok(partition)
    }

    /// The partitions whose leaders say that they have a visible message, in the same order. A slow
    /// leader is passed over, and to fill up what is `in_hand` few other nodes are asked.
    async fn with_something(&self, partitions: &[PartitionId], in_hand: bool) -> Vec<PartitionId> {
        let router = self.node.router();
        let mut elsewhere = 0;
        let asked = partitions.iter().filter(|partition| {
            elsewhere += usize::from(!router.leads(**partition));
            !in_hand || router.leads(**partition) || elsewhere <= FILLED_FROM_ELSEWHERE
        });
        let glances = asked.map(|partition| async {
            let counts = router.glance(*partition, self.queue.id).await?;
            (counts.visible > 0).then_some(*partition)
        });
        join_all(glances).await.into_iter().flatten().collect()
    }

    /// Asks without waiting for messages, and not for long for the answer either.
    async fn ask_now(
        &self,
        partition: PartitionId,
        max: u8,
        attempt: Option<&str>,
    ) -> Result<Said, CallError> {
        let asked = self.ask(partition, max, Duration::ZERO, attempt);
        match timeout(PATIENCE, asked).await {
            Ok(said) => said,
            Err(_) => Err(CallError::Unavailable { no_effect: false }),
        }
    }

    async fn ask(
        &self,
        partition: PartitionId,
        max: u8,
        wait: Duration,
        attempt: Option<&str>,
    ) -> Result<Said, CallError> {
        let request = Request {
            partition,
            queue: self.queue.id,
            descriptor_version: self.queue.version,
            operation: Operation::Receive {
                max,
                visibility_timeout_ms: self.request.visibility_timeout_ms,
                attempt_id: attempt.map(str::to_owned),
            },
            bodies: Vec::new(),
            wait,
        };
        let routed = self.node.router().call(&request).await?;
        match routed.reply {
            Reply::Received(_) if routed.delivered.is_empty() => Ok(Said::Nothing),
            Reply::Received(_) => Ok(Said::Messages(Taken {
                claim: routed.claim,
                delivered: routed.delivered,
            })),
            Reply::OverInFlightLimit => Ok(Said::Full),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Whether fewer messages are in flight over all partitions than may be, or become so in time.
    async fn wait_for_room(&self) -> bool {
        while self.node.router().is_over_in_flight_limit(self.queue).await {
            if self.left().is_zero() {
                return false;
            }
            tokio::time::sleep(self.left().min(IN_FLIGHT_GOOD_FOR)).await;
        }
        true
    }

    /// The partitions in random order, those without a known leader last.
    fn in_turn(&self, mut partitions: Vec<PartitionId>) -> Vec<PartitionId> {
        let mut drawn = self.node.entropy().draw_u128();
        for last in (1..partitions.len()).rev() {
            let places = last as u128 + 1;
            partitions.swap(last, (drawn % places) as usize);
            drawn /= places;
        }
        partitions.sort_by_key(|partition| !self.node.router().has_leader(*partition));
        partitions
    }

    fn missing(&self, hand: &Hand<'_>) -> usize {
        usize::from(self.request.max).saturating_sub(hand.len())
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn attempt_id(&self) -> Option<&str> {
        self.request.attempt_id.as_deref()
    }
}

/// As even parts of `whole` as there can be.
fn shares(whole: usize, parts: usize) -> impl Iterator<Item = u8> {
    let (each, more) = (whole / parts, whole % parts);
    let share = move |part| each + usize::from(part < more);
    (0..parts).map(move |part| u8::try_from(share(part)).expect("a receive is of ten messages"))
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn shares_make_up_the_whole() {
        for whole in 1..=10 {
            for parts in 1..=whole {
                let shares: Vec<u8> = shares(whole, parts).collect();
                let sum: usize = shares.iter().map(|share| usize::from(*share)).sum();
                assert_eq!((shares.len(), sum), (parts, whole));
                assert!(shares.iter().all(|share| *share > 0));
            }
        }
    }
}
