//! Receives with a `ReceiveRequestAttemptId` over several partitions.
//!
//! The messages of an attempt come from one partition, whose slice remembers them. A retry asks every
//! partition first whether it has the attempt, and only if none has, receives anew. Partitions are
//! asked in an order that depends on the attempt alone, so that a retry beside its first try meets it
//! at the same partition. One that does not answer fails the receive: the attempt may be there.

use futures_util::future::join_all;
use hikyaku_metadata::message_group_slot;
use hikyaku_queue::PartitionId;
use tokio::time::Instant;

use super::{Hand, Receive, Tally};
use crate::messages::ReceiveError;
use crate::partition::Delivered;

impl Receive<'_> {
    pub(super) async fn ask_attempt(
        &self,
        mut partitions: Vec<PartitionId>,
        attempt: &str,
    ) -> Result<Vec<Delivered>, ReceiveError> {
        let mut hand = Hand::of(self.node.router());
        let mut tally = Tally::default();
        partitions.sort_unstable();
        let first = usize::from(message_group_slot(attempt)) % partitions.len();
        partitions.rotate_left(first);

        let repeats = partitions.iter();
        let repeats = repeats.map(|partition| self.ask_now(*partition, 0, Some(attempt)));
        let mut unknown = None;
        for said in join_all(repeats).await {
            unknown = unknown.or(said.as_ref().err().copied());
            let taken = tally.note(said);
            // An attempt that two hold went wrong before; the later one's messages stay hidden.
            if hand.is_empty() {
                hand.put(taken);
            }
        }
        if hand.is_empty() {
            if let Some(error) = unknown {
                return Err(error.into());
            }
            for partition in self.with_something(&partitions, false).await {
                let said = self
                    .ask_now(partition, self.request.max, Some(attempt))
                    .await;
                hand.put(tally.note(said));
                if !hand.is_empty() || tally.is_gone() {
                    break;
                }
            }
        }
        if hand.is_empty() && !tally.is_gone() && self.until > Instant::now() {
            self.park(&mut hand, &mut tally, &partitions, Some(attempt))
                .await;
        }
        hand.give_or(tally)
    }
}
