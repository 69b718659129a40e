//! Messages of a queue, as the front uses them: send, receive, delete, change visibility, count.

mod handles;
mod receiving;
mod sending;

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use hikyaku_metadata::QueueRecord;
use hikyaku_queue::{Counts, MessageId, Name, Operation, PartitionId, Reply, SendError};

use crate::node::Node;
use crate::router::{CallError, Request};

/// A message to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// What the client is told, unless the message is a duplicate.
    pub id: MessageId,
    /// The stored bytes: body, attributes and whatever else a receive must give back.
    pub body: Bytes,
    /// Overrides the queue's delay, milliseconds.
    pub delay_ms: Option<u64>,
    /// `MessageGroupId`.
    pub message_group: Option<String>,
    /// `MessageDeduplicationId`, or the content's hash.
    pub deduplication_id: Option<String>,
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    /// The machine refused.
    #[error(transparent)]
    Refused(#[from] SendError),
    /// Its partition could not be asked.
    #[error(transparent)]
    Call(CallError),
}

/// What a receive asks for.
#[derive(Clone, Debug)]
pub struct ReceiveRequest {
    /// One to ten messages.
    pub max: u8,
    /// Overrides the queue's visibility timeout, milliseconds.
    pub visibility_timeout_ms: Option<u64>,
    /// `ReceiveRequestAttemptId`.
    pub attempt_id: Option<String>,
    /// How long to wait for a message.
    pub wait: Duration,
}

/// A received message.
#[derive(Clone, Debug)]
pub struct Received {
    /// The sealed receipt handle.
    pub receipt_handle: String,
    /// The bytes of [`Outgoing::body`].
    pub body: Bytes,
    /// When it was sent, milliseconds since the epoch (T).
    pub sent_at_ms: u64,
    /// How often it was received, this time included.
    pub receive_count: u32,
    /// When it was received first, milliseconds since the epoch (T).
    pub first_received_at_ms: u64,
    /// `SequenceNumber`, on FIFO queues.
    pub sequence: Option<u64>,
    /// The name of the queue whose dead letter it is.
    pub dead_letter_source: Option<String>,
    /// What the latest redrive named it, where it was redriven: its id is another since.
    pub redriven: Option<Redriven>,
}

/// A redrive of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redriven {
    partition: PartitionId,
    name: Name,
}

impl Redriven {
    /// The id of the message that was sent with this one.
    #[must_use]
    pub fn id(self, sent: MessageId) -> MessageId {
        sent.redriven(self.partition, self.name)
    }
}

/// Why a receive failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The partition could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A standard queue has as many messages in flight as it may.
    #[error("too many messages are in flight")]
    OverInFlightLimit,
}

/// Why one handle could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError<E: std::error::Error> {
    /// It is not a handle of this queue.
    #[error("the receipt handle is not valid")]
    Invalid,
    /// The machine refused.
    #[error(transparent)]
    Refused(E),
    /// The partition could not be asked.
    #[error(transparent)]
    Call(CallError),
}

impl Node {
    /// Counts a queue's messages over its partitions.
    pub async fn counts(&self, queue: &QueueRecord) -> Result<Counts, CallError> {
        let partitions = queue.descriptor.visited();
        let counts = partitions.map(|at| self.router().counts(at, queue.descriptor.id));
        let mut total = Counts::default();
        for counts in try_join_all(counts).await? {
            total.add(counts);
        }
        Ok(total)
    }

    fn request(
        &self,
        queue: &QueueRecord,
        partition: PartitionId,
        operation: Operation,
    ) -> Request {
        Request {
            partition,
            queue: queue.descriptor.id,
            descriptor_version: queue.descriptor.version,
            operation,
            bodies: Vec::new(),
            wait: Duration::ZERO,
        }
    }
}

/// The answer of a node that does not know its cluster yet.
const UNFOUNDED: CallError = CallError::Unavailable { no_effect: true };

fn unexpected(reply: &Reply) -> CallError {
    tracing::error!(?reply, "a machine answered another question than was asked");
    CallError::Unavailable { no_effect: false }
}
