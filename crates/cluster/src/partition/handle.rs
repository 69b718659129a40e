//! How the rest of the node talks to a hosted partition.

use std::sync::Arc;

use bytes::Bytes;
use hikyaku_queue::{Command, Counts, Delivery, Operation, PartitionId, QueueId, Reply, RequestId};
use hikyaku_raft::{Group, Leadership, ReadError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::batch::unstamp;
use super::{Answered, Call, SubmitError};
use crate::clock::PartitionClock;
use crate::machines::PartitionMachine;
use crate::ports::Entropy;

/// How long a handed-back delivery may stay on its way, in T.
const RETURN_BUDGET_MS: u64 = 20_000;

/// A hosted partition. Cheap to clone.
#[derive(Clone)]
pub struct PartitionHandle {
    partition: PartitionId,
    calls: mpsc::Sender<Call>,
    group: Group<PartitionMachine>,
    clock: Arc<PartitionClock>,
    entropy: Arc<dyn Entropy>,
}

/// A delivered message with its body: when it was sent (T), and the bytes the sender gave.
pub struct Delivered {
    /// What the machine said.
    pub delivery: Delivery,
    /// T of the send, milliseconds.
    pub sent_at_ms: u64,
    /// The stored bytes.
    pub body: Bytes,
}

impl PartitionHandle {
    pub(super) fn new(
        partition: PartitionId,
        calls: mpsc::Sender<Call>,
        group: Group<PartitionMachine>,
        clock: Arc<PartitionClock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self {
            partition,
            calls,
            group,
            clock,
            entropy,
        }
    }

    /// The partition's number.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Who leads, as this node's replica sees it.
    pub fn leadership(&self) -> Leadership {
        self.group.leadership()
    }

    /// Follows who leads.
    pub fn watch_leadership(&self) -> watch::Receiver<Leadership> {
        self.group.watch_leadership()
    }

    /// T as this replica believes it; `None` when it has heard none since its start.
    pub fn now_ms(&self) -> Option<u64> {
        self.clock.now_ms()
    }

    /// Runs a command here, if this replica leads. A receive with `wait_until` may wait.
    pub async fn submit(
        &self,
        command: Command,
        bodies: Vec<Bytes>,
        wait_until: Option<Instant>,
    ) -> Result<Answered, SubmitError> {
        assert!(
            command.message_count() == bodies.len(),
            "one body per message"
        );
        let (answer, waiting) = oneshot::channel();
        let call = Call {
            command,
            bodies,
            wait_until,
            granted: false,
            answer,
        };
        match self.calls.try_send(call) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(SubmitError::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(stopped(true)),
        }
        // The host drops a call only when it stops.
        waiting.await.unwrap_or_else(|_| Err(stopped(false)))
    }

    /// Reads the bodies of deliveries. A body that went through a later delete is left out; so is a
    /// damaged one, whose message returns after its visibility timeout.
    pub async fn read_bodies(&self, deliveries: Vec<Delivery>) -> Vec<Delivered> {
        let mut pending = PendingDeliveries::new(self, deliveries);
        let mut delivered = Vec::with_capacity(pending.deliveries.len());
        for delivery in pending.deliveries.clone() {
            let name = delivery.name;
            match self
                .group
                .read_body(name.index, name.ordinal)
                .await
                .map(unstamp)
            {
                Ok(Some((sent_at_ms, body))) => {
                    delivered.push(Delivered {
                        delivery,
                        sent_at_ms,
                        body,
                    });
                }
                Ok(None) => tracing::error!(?name, "a stored body is shorter than its stamp"),
                Err(ReadError::Gone { .. }) => {}
                Err(error) => tracing::error!(?name, %error, "a body cannot be read"),
            }
        }
        pending.deliveries.clear();
        delivered
    }

    /// Counts a queue's messages here.
    pub fn counts(&self, queue: QueueId) -> Counts {
        let now = self.clock.now_ms().unwrap_or(0);
        let counts = self
            .group
            .with_machine(|machine| machine.0.counts(queue, now));
        counts.unwrap_or(Counts {
            visible: 0,
            in_flight: 0,
            delayed: 0,
            oldest_sent_at: None,
        })
    }

    /// The replicated index applied here, for metrics.
    pub fn applied_index(&self) -> u64 {
        self.group.watch_applied().borrow().index
    }

    /// Hands deliveries back uncounted, for a client that has gone. Best effort: if it does not get
    /// through, the messages return after their visibility timeout.
    pub fn return_unread(&self, deliveries: &[Delivery]) {
        if let Some(command) = return_command(&*self.entropy, &self.clock, deliveries) {
            let (answer, _) = oneshot::channel();
            let call = Call {
                command,
                bodies: Vec::new(),
                wait_until: None,
                granted: false,
                answer,
            };
            if self.calls.try_send(call).is_err() {
                tracing::debug!(
                    partition = self.partition.0,
                    "unread deliveries not handed back"
                );
            }
        }
    }
}

/// The command that takes deliveries back.
pub(super) fn return_command(
    entropy: &dyn Entropy,
    clock: &PartitionClock,
    deliveries: &[Delivery],
) -> Option<Command> {
    let first = deliveries.first()?;
    let deliveries_back = deliveries
        .iter()
        .map(|delivery| (delivery.name, delivery.receive_count))
        .collect();
    Some(Command {
        request_id: RequestId(entropy.draw_u128()),
        not_after: clock.now_ms()? + RETURN_BUDGET_MS,
        queue: first.receipt.queue,
        descriptor_version: 0,
        operation: Operation::ReturnUnread {
            deliveries: deliveries_back,
        },
    })
}

fn stopped(no_effect: bool) -> SubmitError {
    SubmitError::NotLeader {
        leader_node: None,
        no_effect,
    }
}

/// The deliveries of an answer, if it is one of a receive.
pub fn deliveries_of(reply: &Reply) -> &[Delivery] {
    match reply {
        Reply::Received(deliveries) => deliveries,
        _ => &[],
    }
}

/// Deliveries that a client has not seen yet. Dropped on the way, they are handed back.
pub struct PendingDeliveries<'a> {
    handle: &'a PartitionHandle,
    deliveries: Vec<Delivery>,
}

impl<'a> PendingDeliveries<'a> {
    fn new(handle: &'a PartitionHandle, deliveries: Vec<Delivery>) -> Self {
        Self { handle, deliveries }
    }
}

impl Drop for PendingDeliveries<'_> {
    fn drop(&mut self) {
        if !self.deliveries.is_empty() {
            self.handle.return_unread(&self.deliveries);
        }
    }
}
