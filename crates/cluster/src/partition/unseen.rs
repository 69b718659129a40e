//! Deliveries on their way to a client that may be gone.
//!
//! Wherever they are dropped before the client's side has them (in a channel, in a cancelled future,
//! while their bodies are read), they are handed back uncounted. If that does not get through, the
//! messages return after their visibility timeout.

use std::sync::Arc;

use hikyaku_queue::{Command, Delivery, Operation, RequestId};
use tokio::sync::mpsc;

use super::{Call, own_call};
use crate::clock::PartitionClock;
use crate::ports::Entropy;

/// How long a handed-back delivery may stay on its way, in T.
const RETURN_BUDGET_MS: u64 = 20_000;

/// The way back to the leader's task that granted a delivery.
pub struct WayBack {
    /// Weak: deliveries must not keep a stopped task's channel open.
    pub calls: mpsc::WeakSender<Call>,
    pub clock: Arc<PartitionClock>,
    pub entropy: Arc<dyn Entropy>,
}

impl WayBack {
    fn hand_back(&self, receive: RequestId, deliveries: &[Delivery]) {
        let (Some(first), Some(now_ms), Some(calls)) = (
            deliveries.first(),
            self.clock.now_ms(),
            self.calls.upgrade(),
        ) else {
            return;
        };
        let names = deliveries.iter();
        let names = names.map(|delivery| (delivery.name, delivery.receipt.receive_number));
        let command = Command {
            request_id: RequestId(self.entropy.draw_u128()),
            not_after: now_ms + RETURN_BUDGET_MS,
            queue: first.receipt.queue,
            descriptor_version: 0,
            operation: Operation::ReturnUnread {
                receive,
                deliveries: names.collect(),
            },
        };
        if calls.try_send(own_call(command)).is_err() {
            tracing::debug!("unread deliveries not handed back");
        }
    }
}

/// One receive's deliveries, not seen by their client yet.
pub struct Unseen {
    receive: RequestId,
    deliveries: Vec<Delivery>,
    way_back: Arc<WayBack>,
}

impl Unseen {
    /// What `receive` handed out.
    pub(super) fn new(
        receive: RequestId,
        deliveries: Vec<Delivery>,
        way_back: Arc<WayBack>,
    ) -> Self {
        Self {
            receive,
            deliveries,
            way_back,
        }
    }

    /// What was delivered.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// The client's side has them.
    pub fn seen(mut self) {
        self.deliveries.clear();
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        if !self.deliveries.is_empty() {
            self.way_back.hand_back(self.receive, &self.deliveries);
        }
    }
}
