//! From a command to its partition's leader, here or one hop away, and back.
//!
//! A command keeps its request id and its partition on every attempt, so that a retry after a lost
//! answer gets the answer of the first try. A caller sees an error only when its deadline has passed,
//! or when waiting is useless.

pub(crate) mod counts;
mod give_back;
mod in_flight;
mod load;

pub use give_back::{Claim, settle_claims};
pub use in_flight::GOOD_FOR as IN_FLIGHT_GOOD_FOR;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hikyaku_proto::node as wire;
use hikyaku_proto::node::submit_response::Result as WireResult;
use hikyaku_queue::{Command, Operation, PartitionId, QueueId, Reply, RequestId};
use hikyaku_raft::Peers;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::clock::millis;
use crate::partition::{Answered, Delivered, PartitionHandle, SubmitError, is_look};
use crate::ports::Entropy;
use crate::seats::Seat;
use give_back::{CLAIMS_WAITING, Pending};
use in_flight::InFlight;
use load::Load;

/// First pause between two attempts; doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// How long one attempt at another node may take beyond a receive's own wait.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);

/// A command that did not come to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No leader answered before the deadline. Unless `no_effect`, the command may have had its
    /// effect.
    #[error("no leader answered in time")]
    Unavailable {
        /// Whether certainly no attempt had an effect.
        no_effect: bool,
    },
    /// The partition has more to do than it can; try again later. No effect.
    #[error("the partition is overloaded")]
    Overloaded,
    /// No room for new messages; try again later. No effect.
    #[error("the disk is full")]
    DiskFull,
    /// The queue was deleted.
    #[error("the queue is gone")]
    QueueGone,
}

/// What came back of a command.
pub struct Routed {
    /// The machine's answer. A receive's deliveries are in `delivered` instead.
    pub reply: Reply,
    /// A receive's messages with their bodies.
    pub delivered: Vec<Delivered>,
    /// For giving them back, should nobody come to see them.
    pub claim: Claim,
}

/// What is asked of which queue.
pub struct Request {
    /// Where.
    pub partition: PartitionId,
    /// Of which queue.
    pub queue: QueueId,
    /// The descriptor version the caller knows.
    pub descriptor_version: u64,
    /// What.
    pub operation: Operation,
    /// One per message of a send.
    pub bodies: Vec<Bytes>,
    /// How long a receive may wait for a message.
    pub wait: Duration,
}

/// A partition as the router sees it.
pub type PartitionSeat = Seat<PartitionHandle>;

/// Routes commands of this node's clients.
pub struct Router {
    node: u64,
    seats: Vec<Arc<PartitionSeat>>,
    peers: Peers,
    entropy: Arc<dyn Entropy>,
    budget: Duration,
    claims: mpsc::Sender<Claim>,
    load: Load,
    in_flight: InFlight,
}

enum Attempt {
    Done(Result<Found, CallError>),
    Again { no_effect: bool },
}

struct Found {
    reply: Reply,
    delivered: Vec<Delivered>,
}

impl Router {
    /// `seats` in order of the partitions' numbers; `budget` is how long a caller waits for a leader.
    /// What comes out beside the router is for [`settle_claims`].
    pub fn new(
        node: u64,
        seats: Vec<Arc<PartitionSeat>>,
        peers: Peers,
        entropy: Arc<dyn Entropy>,
        budget: Duration,
    ) -> (Self, mpsc::Receiver<Claim>) {
        let (claims, waiting) = mpsc::channel(CLAIMS_WAITING);
        let router = Self {
            node,
            load: Load::new(seats.len()),
            seats,
            peers,
            entropy,
            budget,
            claims,
            in_flight: InFlight::default(),
        };
        (router, waiting)
    }

    /// What is known of a partition.
    pub fn seat(&self, partition: PartitionId) -> Option<&Arc<PartitionSeat>> {
        self.seats.get(usize::try_from(partition.0).ok()?)
    }

    /// All partitions, in order of their numbers.
    pub fn seats(&self) -> &[Arc<PartitionSeat>] {
        &self.seats
    }

    /// The handle of a partition hosted here.
    pub fn partition(&self, partition: PartitionId) -> Option<PartitionHandle> {
        self.seat(partition)?.replica()
    }

    /// Whether a partition's leader is this node, as far as is known here.
    pub fn leads(&self, partition: PartitionId) -> bool {
        let seat = self.seat(partition);
        seat.is_some_and(|it| it.lead().node == Some(self.node))
    }

    /// Whether a partition is known to have a leader.
    pub fn has_leader(&self, partition: PartitionId) -> bool {
        let seat = self.seat(partition);
        seat.is_some_and(|it| it.lead().node.is_some())
    }

    /// Chooses a partition of a spread for a send, and a second one for when the first refuses: of
    /// two drawn at random, the one with a leader and the fewer requests under way comes first.
    pub fn choose(&self, spread: &[PartitionId]) -> (PartitionId, Option<PartitionId>) {
        let [first, rest @ ..] = spread else {
            unreachable!("a queue has at least one partition");
        };
        if rest.is_empty() {
            return (*first, None);
        }
        let drawn = self.entropy.draw_u128();
        let (one, other) = two_of(spread.len(), drawn);
        let burden = |at: usize| (!self.has_leader(spread[at]), self.load.of(spread[at]));
        match burden(one) <= burden(other) {
            true => (spread[one], Some(spread[other])),
            false => (spread[other], Some(spread[one])),
        }
    }

    /// Takes back what a receive handed out and nobody will see, in the background.
    pub fn give_back(&self, claim: Claim) {
        if self.claims.try_send(claim).is_err() {
            tracing::debug!(?claim, "unread deliveries not handed back");
        }
    }

    /// Runs a request to its end.
    pub async fn call(&self, request: &Request) -> Result<Routed, CallError> {
        let Some(seat) = self.seat(request.partition) else {
            tracing::error!(partition = request.partition.0, "no such partition");
            return Err(CallError::Unavailable { no_effect: true });
        };
        // A receive that waits is no burden.
        let works = request.wait.is_zero();
        let _under_way = works.then(|| self.load.begin(request.partition));
        let started = Instant::now();
        let deadline = started + self.budget + request.wait;
        let wait_until = (!request.wait.is_zero()).then(|| started + request.wait);
        let mut command = None;
        let request_id = RequestId(self.entropy.draw_u128());
        let claim = Claim {
            partition: request.partition,
            queue: request.queue,
            receive: request_id,
        };
        let receives =
            matches!(request.operation, Operation::Receive { .. }) && !is_look(&request.operation);
        let mut pending = Pending::new(self, receives.then_some(claim));
        let mut pause = FIRST_PAUSE;
        let mut no_effect = true;
        loop {
            // T must be known once, before the first attempt: `not_after` never changes.
            if command.is_none() {
                command = seat.now_ms().map(|now_ms| Command {
                    request_id,
                    not_after: now_ms + millis(deadline - Instant::now().min(deadline)),
                    queue: request.queue,
                    descriptor_version: request.descriptor_version,
                    operation: request.operation.clone(),
                });
            }
            if let Some(command) = &command {
                let bodies = request.bodies.clone();
                let place = (request.partition, &**seat);
                let attempt =
                    self.attempt(place, command, bodies, wait_until, deadline, &mut pending);
                match attempt.await {
                    Attempt::Done(result) => {
                        let Found { reply, delivered } = settle(result, no_effect)?;
                        pending.answered();
                        return Ok(Routed {
                            reply,
                            delivered,
                            claim,
                        });
                    }
                    Attempt::Again {
                        no_effect: this_had_none,
                    } => {
                        no_effect &= this_had_none;
                        if !no_effect {
                            pending.may_have_effect();
                        }
                    }
                }
            }
            if Instant::now() + pause >= deadline {
                return Err(CallError::Unavailable { no_effect });
            }
            wait_for_change(seat, pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn attempt(
        &self,
        (partition, seat): (PartitionId, &PartitionSeat),
        command: &Command,
        bodies: Vec<Bytes>,
        wait_until: Option<Instant>,
        deadline: Instant,
        pending: &mut Pending<'_>,
    ) -> Attempt {
        match seat.lead().node {
            None => Attempt::Again { no_effect: true },
            Some(leader) if leader == self.node => {
                let Some(handle) = seat.replica() else {
                    return Attempt::Again { no_effect: true };
                };
                let submitted = handle.submit(command.clone(), bodies, wait_until);
                match tokio::time::timeout_at(deadline, submitted).await {
                    Ok(result) => local_attempt(&handle, result).await,
                    // What comes of it finds nobody here, and is handed back by the leader.
                    Err(_) => Attempt::Again { no_effect: false },
                }
            }
            Some(leader) => {
                pending.may_have_effect();
                let attempt =
                    self.attempt_remote(leader, partition, command, bodies, wait_until, deadline);
                // A leader that vanished may leave its connection open: another leader is a better
                // sign than its silence. The attempt may have had its effect.
                tokio::select! {
                    attempt = attempt => attempt,
                    () = leader_is_another(seat, leader) => Attempt::Again { no_effect: false },
                }
            }
        }
    }

    async fn attempt_remote(
        &self,
        leader: u64,
        partition: PartitionId,
        command: &Command,
        bodies: Vec<Bytes>,
        wait_until: Option<Instant>,
        deadline: Instant,
    ) -> Attempt {
        let now = Instant::now();
        let remaining = deadline.saturating_duration_since(now);
        let wait = wait_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let limit = remaining.min(wait + ATTEMPT_LIMIT);
        let answer = if wait.is_zero() {
            let request = wire::SubmitRequest {
                partition: partition.0,
                command: command.encode().into(),
                bodies,
                budget_ms: millis(limit),
            };
            self.peers.submit(leader, request, limit).await
        } else {
            let request = wire::ParkRequest {
                partition: partition.0,
                command: command.encode().into(),
                wait_ms: millis(wait),
                budget_ms: millis(limit),
            };
            self.peers.park(leader, request, limit).await
        };
        match answer {
            Ok(response) => remote_attempt(response),
            Err(error) => {
                tracing::debug!(leader, partition = partition.0, %error, "attempt failed");
                Attempt::Again { no_effect: false }
            }
        }
    }
}

/// Two different places of so many, from one random number; there are at least two.
fn two_of(places: usize, drawn: u128) -> (usize, usize) {
    let places = places as u128;
    let one = drawn % places;
    let step = 1 + (drawn / places) % (places - 1);
    (one as usize, ((one + step) % places) as usize)
}

/// `Late` and `QueueGone` are failures to a router's caller. A refusal proves that *this* attempt had
/// no effect; if an earlier one may have had its effect, the caller must not hear that none had.
fn settle(result: Result<Found, CallError>, no_effect: bool) -> Result<Found, CallError> {
    match result {
        Ok(Found {
            reply: Reply::Late, ..
        }) => Err(CallError::Unavailable { no_effect }),
        Ok(Found {
            reply: Reply::QueueGone,
            ..
        }) => Err(CallError::QueueGone),
        Err(CallError::Overloaded | CallError::DiskFull) if !no_effect => {
            Err(CallError::Unavailable { no_effect })
        }
        result => result,
    }
}

/// Waits until another node is known to lead.
async fn leader_is_another(seat: &PartitionSeat, leader: u64) {
    let mut lead = seat.watch();
    let another = lead.wait_for(|now| now.node.is_some_and(|node| node != leader));
    if another.await.is_err() {
        // The seat is gone; the attempt itself will tell.
        std::future::pending::<()>().await;
    }
}

/// Waits until the leader changes, but no longer than `pause`.
async fn wait_for_change<H: Clone>(seat: &Seat<H>, pause: Duration) {
    let mut lead = seat.watch();
    // Either way the caller looks again.
    tokio::time::timeout(pause, lead.changed()).await.ok();
}

async fn local_attempt(handle: &PartitionHandle, result: Result<Answered, SubmitError>) -> Attempt {
    match result {
        Ok(Answered {
            reply,
            unseen: Some(unseen),
            ..
        }) => {
            let delivered = handle.read_bodies(unseen).await;
            Attempt::Done(Ok(Found { reply, delivered }))
        }
        Ok(Answered {
            reply,
            unseen: None,
            ..
        }) => Attempt::Done(Ok(Found {
            reply,
            delivered: Vec::new(),
        })),
        Err(SubmitError::NotLeader { no_effect, .. }) => Attempt::Again { no_effect },
        Err(SubmitError::Overloaded) => Attempt::Done(Err(CallError::Overloaded)),
        Err(SubmitError::DiskFull) => Attempt::Done(Err(CallError::DiskFull)),
    }
}

fn remote_attempt(response: wire::SubmitResponse) -> Attempt {
    let answer = match response.result {
        Some(WireResult::Answer(answer)) => answer,
        Some(WireResult::Retry(retry)) => {
            return Attempt::Again {
                no_effect: retry.no_effect,
            };
        }
        Some(WireResult::Refused(refused)) => {
            return Attempt::Done(Err(match refused.reason() {
                wire::Reason::DiskFull => CallError::DiskFull,
                wire::Reason::Overloaded | wire::Reason::Unspecified => CallError::Overloaded,
            }));
        }
        None => return Attempt::Again { no_effect: false },
    };
    let reply = match Reply::decode(&answer.reply) {
        Ok(reply) => reply,
        Err(error) => {
            tracing::error!(%error, "a leader's answer cannot be read");
            return Attempt::Again { no_effect: false };
        }
    };
    let Reply::Received(deliveries) = reply else {
        return Attempt::Done(Ok(Found {
            reply,
            delivered: Vec::new(),
        }));
    };
    let delivered = deliveries
        .into_iter()
        .zip(answer.sent_at_ms)
        .zip(answer.bodies)
        .map(|((delivery, sent_at_ms), body)| Delivered {
            delivery,
            sent_at_ms,
            body,
        })
        .collect();
    Attempt::Done(Ok(Found {
        reply: Reply::Received(Vec::new()),
        delivered,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_places_differ_and_every_pair_comes_up() {
        let mut pairs = std::collections::BTreeSet::new();
        for drawn in 0..1_000 {
            let (one, other) = two_of(5, drawn);
            assert!(one != other && one < 5 && other < 5);
            pairs.insert((one, other));
        }
        assert_eq!(pairs.len(), 20);
    }

    #[test]
    fn a_refused_retry_does_not_claim_that_nothing_happened() {
        for refusal in [CallError::Overloaded, CallError::DiskFull] {
            assert_eq!(settle(Err(refusal), true).err(), Some(refusal));
            let unknown = Some(CallError::Unavailable { no_effect: false });
            assert_eq!(settle(Err(refusal), false).err(), unknown);
        }
    }
}
