//! How the rest of the node talks to a hosted partition.

use std::sync::Arc;

use bytes::Bytes;
use hikyaku_queue::{Command, Counts, Delivery, PartitionId, QueueId};
use hikyaku_raft::{Group, Leadership, ReadError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::batch::unstamp;
use super::{Answered, Call, SubmitError, Unseen};
use crate::clock::PartitionClock;
use crate::control::CUT_OFF_AFTER;
use crate::machines::PartitionMachine;

/// A hosted partition. Cheap to clone.
#[derive(Clone)]
pub struct PartitionHandle {
    partition: PartitionId,
    calls: mpsc::Sender<Call>,
    group: Group<PartitionMachine>,
    clock: Arc<PartitionClock>,
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
    ) -> Self {
        Self {
            partition,
            calls,
            group,
            clock,
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

    /// Whether this replica leads, and has heard from no majority for [`CUT_OFF_AFTER`].
    pub fn is_cut_off(&self) -> bool {
        self.group.is_cut_off(CUT_OFF_AFTER)
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
            answer: Some(answer),
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
    pub async fn read_bodies(&self, unseen: Unseen) -> Vec<Delivered> {
        let deliveries = unseen.deliveries();
        let names: Vec<(u64, u32)> = deliveries
            .iter()
            .map(|delivery| (delivery.body().index, delivery.body().ordinal))
            .collect();
        let bodies = self.group.read_bodies(&names).await;
        let mut delivered = Vec::with_capacity(names.len());
        for (delivery, body) in deliveries.iter().zip(bodies) {
            let name = delivery.name;
            match body.map(unstamp) {
                Ok(Some((sent_at_ms, body))) => {
                    let origin = delivery.origin.as_ref();
                    let moved_at_ms = origin.and_then(|origin| origin.sent_at);
                    delivered.push(Delivered {
                        delivery: delivery.clone(),
                        sent_at_ms: moved_at_ms.unwrap_or(sent_at_ms),
                        body,
                    });
                }
                Ok(None) => tracing::error!(?name, "a stored body is shorter than its stamp"),
                Err(ReadError::Gone { .. }) => {}
                Err(error) => tracing::error!(?name, %error, "a body cannot be read"),
            }
        }
        unseen.seen();
        delivered
    }

    /// The group, for whoever changes its members.
    pub fn group(&self) -> &Group<PartitionMachine> {
        &self.group
    }

    /// Counts a queue's messages here.
    pub fn counts(&self, queue: QueueId) -> Counts {
        let now = self.clock.now_ms().unwrap_or(0);
        let counts = self
            .group
            .with_machine(|machine| machine.0.counts(queue, now));
        counts.unwrap_or_default()
    }

    /// Counts the messages of every queue that has some here, at `now_ms`. Looks at each of them: for
    /// metrics.
    pub fn all_counts(&self, now_ms: u64) -> Vec<(QueueId, Counts)> {
        self.group.with_machine(|machine| {
            let machine = &machine.0;
            let counts = |queue| Some((queue, machine.counts(queue, now_ms)?));
            machine.queues().filter_map(counts).collect()
        })
    }

    /// The replicated index applied here, for metrics.
    pub fn applied_index(&self) -> u64 {
        self.group.watch_applied().borrow().index
    }
}

fn stopped(no_effect: bool) -> SubmitError {
    SubmitError::NotLeader {
        leader_node: None,
        no_effect,
    }
}
