//! Messages of a queue, as the front uses them: send, receive, delete, change visibility, count.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hikyaku_metadata::QueueRecord;
use hikyaku_queue::{
    ChangeVisibilityError, Counts, DeleteError, MessageId, Operation, PartitionId, ReceiptHandle,
    Reply, SendError, SendMessage, Sent, VisibilityChange,
};

use crate::node::Node;
use crate::router::{CallError, Request, Routed};

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
    /// Sends messages to a queue, all in one command and in order: one result each.
    pub async fn send(
        &self,
        queue: &QueueRecord,
        messages: Vec<Outgoing>,
    ) -> Result<Vec<Result<Sent, SendError>>, CallError> {
        let mut bodies = Vec::with_capacity(messages.len());
        let mut commands = Vec::with_capacity(messages.len());
        for message in messages {
            commands.push(SendMessage {
                id: message.id,
                body_bytes: u32::try_from(message.body.len())
                    .expect("a message is at most a few MiB"),
                delay_ms: message.delay_ms,
                message_group: message.message_group,
                deduplication_id: message.deduplication_id,
            });
            bodies.push(message.body);
        }
        let operation = Operation::Send { messages: commands };
        let routed = self
            .run(queue, home(queue), operation, bodies, Duration::ZERO)
            .await?;
        match routed.reply {
            Reply::Sent(results) => Ok(results),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Receives messages of a queue, waiting for one if asked to.
    pub async fn receive(
        &self,
        queue: &QueueRecord,
        request: ReceiveRequest,
    ) -> Result<Vec<Received>, ReceiveError> {
        let sealer = self.catalogue().sealer().ok_or(UNFOUNDED)?;
        let operation = Operation::Receive {
            max: request.max,
            visibility_timeout_ms: request.visibility_timeout_ms,
            attempt_id: request.attempt_id,
        };
        let routed = self
            .run(queue, home(queue), operation, Vec::new(), request.wait)
            .await?;
        match routed.reply {
            Reply::Received(_) => {}
            Reply::OverInFlightLimit => return Err(ReceiveError::OverInFlightLimit),
            reply => return Err(unexpected(&reply).into()),
        }
        let received = routed.delivered.into_iter().map(|delivered| Received {
            receipt_handle: sealer.seal(&delivered.delivery.receipt),
            body: delivered.body,
            sent_at_ms: delivered.sent_at_ms,
            receive_count: delivered.delivery.receive_count,
            first_received_at_ms: delivered.delivery.first_received_at,
            sequence: delivered.delivery.sequence,
        });
        Ok(received.collect())
    }

    /// Deletes messages by their receipt handles: one result each.
    pub async fn delete(
        &self,
        queue: &QueueRecord,
        handles: &[&str],
    ) -> Vec<Result<(), HandleError<DeleteError>>> {
        let (mut results, by_partition) = self.open_handles(queue, handles);
        for (partition, opened) in by_partition {
            let handles = opened.iter().map(|(_, handle)| *handle).collect();
            let operation = Operation::Delete { handles };
            let routed = self
                .run(queue, partition, operation, Vec::new(), Duration::ZERO)
                .await;
            let answers = routed.and_then(|routed| match routed.reply {
                Reply::Deleted(answers) => Ok(answers),
                reply => Err(unexpected(&reply)),
            });
            place(
                &mut results,
                opened.iter().map(|(position, _)| *position),
                answers,
            );
        }
        results
    }

    /// Sets new visibility timeouts (milliseconds from now) by receipt handle: one result each.
    pub async fn change_visibility(
        &self,
        queue: &QueueRecord,
        changes: &[(&str, u64)],
    ) -> Vec<Result<(), HandleError<ChangeVisibilityError>>> {
        let handles: Vec<&str> = changes.iter().map(|(handle, _)| *handle).collect();
        let (mut results, by_partition) = self.open_handles(queue, &handles);
        for (partition, opened) in by_partition {
            let changes = opened
                .iter()
                .map(|(position, handle)| VisibilityChange {
                    handle: *handle,
                    timeout_ms: changes[*position].1,
                })
                .collect();
            let operation = Operation::ChangeVisibility { changes };
            let routed = self
                .run(queue, partition, operation, Vec::new(), Duration::ZERO)
                .await;
            let answers = routed.and_then(|routed| match routed.reply {
                Reply::VisibilityChanged(answers) => Ok(answers),
                reply => Err(unexpected(&reply)),
            });
            place(
                &mut results,
                opened.iter().map(|(position, _)| *position),
                answers,
            );
        }
        results
    }

    /// Counts a queue's messages over its spread.
    pub async fn counts(&self, queue: &QueueRecord) -> Result<Counts, CallError> {
        let mut total = Counts {
            visible: 0,
            in_flight: 0,
            delayed: 0,
            oldest_sent_at: None,
        };
        for partition in &queue.descriptor.spread {
            let counts = self
                .router()
                .counts(*partition, queue.descriptor.id)
                .await?;
            total.visible += counts.visible;
            total.in_flight += counts.in_flight;
            total.delayed += counts.delayed;
            let oldest = [total.oldest_sent_at, counts.oldest_sent_at];
            total.oldest_sent_at = oldest.into_iter().flatten().min();
        }
        Ok(total)
    }

    async fn run(
        &self,
        queue: &QueueRecord,
        partition: PartitionId,
        operation: Operation,
        bodies: Vec<Bytes>,
        wait: Duration,
    ) -> Result<Routed, CallError> {
        let request = Request {
            partition,
            queue: queue.descriptor.id,
            descriptor_version: queue.descriptor.version,
            operation,
            bodies,
            wait,
        };
        self.router().call(request).await
    }

    /// Opens sealed handles of one queue: results with the invalid ones filled in, and the valid ones
    /// by partition with their positions.
    #[expect(
        clippy::type_complexity,
        reason = "positions and handles, used by two callers at once"
    )]
    fn open_handles<E: std::error::Error>(
        &self,
        queue: &QueueRecord,
        handles: &[&str],
    ) -> (
        Vec<Result<(), HandleError<E>>>,
        BTreeMap<PartitionId, Vec<(usize, ReceiptHandle)>>,
    ) {
        let mut results = Vec::with_capacity(handles.len());
        let mut by_partition: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let sealer = self.catalogue().sealer();
        for (position, text) in handles.iter().enumerate() {
            let opened = sealer.as_ref().and_then(|sealer| sealer.open(text).ok());
            match opened.filter(|handle| handle.queue == queue.descriptor.id) {
                Some(handle) => {
                    by_partition
                        .entry(handle.partition)
                        .or_default()
                        .push((position, handle));
                    results.push(Ok(()));
                }
                None => results.push(Err(HandleError::Invalid)),
            }
        }
        (results, by_partition)
    }
}

/// The answer of a node that does not know its cluster yet.
const UNFOUNDED: CallError = CallError::Unavailable { no_effect: true };

/// The partition a queue's sends and receives go to.
fn home(queue: &QueueRecord) -> PartitionId {
    *queue
        .descriptor
        .spread
        .first()
        .expect("a queue has at least one partition")
}

fn place<E: std::error::Error>(
    results: &mut [Result<(), HandleError<E>>],
    positions: impl Iterator<Item = usize>,
    answers: Result<Vec<Result<(), E>>, CallError>,
) {
    match answers {
        Ok(answers) => {
            for (position, answer) in positions.zip(answers) {
                results[position] = answer.map_err(HandleError::Refused);
            }
        }
        Err(error) => {
            for position in positions {
                results[position] = Err(HandleError::Call(error));
            }
        }
    }
}

fn unexpected(reply: &Reply) -> CallError {
    tracing::error!(?reply, "a machine answered another question than was asked");
    CallError::Unavailable { no_effect: false }
}
