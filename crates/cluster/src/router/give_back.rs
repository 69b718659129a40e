//! Messages that a receive handed out and nobody will see: back to their queue, uncounted.
//!
//! A receive that is given up while its answer may be on its way (its client has gone, another
//! partition answered first, its time is over) leaves a claim. The claim is sent to the partition,
//! which takes back whatever the receive handed out, if it handed out anything. What does not get
//! through returns after its visibility timeout.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hikyaku_queue::{Operation, PartitionId, QueueId, RequestId};
use tokio::sync::{mpsc, watch};

use super::{Request, Router};

/// Claims that may wait; more are dropped.
pub const CLAIMS_WAITING: usize = 4_096;

/// Claims sent at once.
const CLAIMS_AT_ONCE: usize = 64;

/// A receive, and where it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The partition asked.
    pub partition: PartitionId,
    /// The queue.
    pub queue: QueueId,
    /// The request that received.
    pub receive: RequestId,
}

/// A receive under way. Dropped while it may have had its effect, it leaves its claim.
pub struct Pending<'a> {
    router: &'a Router,
    claim: Option<Claim>,
    unsure: bool,
}

impl<'a> Pending<'a> {
    /// Nothing was tried yet. Without a claim there is nothing to give back: it is no receive.
    pub fn new(router: &'a Router, claim: Option<Claim>) -> Self {
        Self {
            router,
            claim,
            unsure: false,
        }
    }

    /// An attempt is under way whose effect nobody else takes back.
    pub fn may_have_effect(&mut self) {
        self.unsure = true;
    }

    /// The answer is here, and whoever has it answers for what it hands out.
    pub fn answered(mut self) {
        self.claim = None;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.filter(|_| self.unsure) {
            self.router.give_back(claim);
        }
    }
}

/// Sends claims until `stop` is true.
pub async fn settle_claims(
    router: Arc<Router>,
    mut claims: mpsc::Receiver<Claim>,
    mut stop: watch::Receiver<bool>,
) {
    let mut under_way = FuturesUnordered::new();
    loop {
        // Losing a branch loses nothing: both streams keep what was not taken.
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            Some(claim) = claims.recv(), if under_way.len() < CLAIMS_AT_ONCE => {
                under_way.push(settle(&router, claim));
            }
            Some(()) = under_way.next() => {}
        }
    }
}

async fn settle(router: &Router, claim: Claim) {
    let request = Request {
        partition: claim.partition,
        queue: claim.queue,
        descriptor_version: 0,
        operation: Operation::ReturnUnread {
            receive: claim.receive,
            deliveries: Vec::new(),
        },
        bodies: Vec::new(),
        wait: Duration::ZERO,
    };
    if let Err(error) = router.call(&request).await {
        tracing::debug!(?claim, %error, "unread deliveries not handed back");
    }
}
