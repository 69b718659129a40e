//! `ReceiveMessage`: up to ten messages, perhaps after waiting for the first.
//!
//! A poll that waits when the server is to stop is answered at once, without messages: the client
//! polls again, elsewhere. What the cluster granted it in that moment goes back uncounted, because
//! the future that would have taken it is dropped.

use std::time::Duration;

use hikyaku_cluster::{ReceiveError, ReceiveRequest, Received};
use hikyaku_metadata::QueueRecord;
use hikyaku_sqs::actions::receive_message::{
    CheckedReceive, Delivery, ReceiveMessage, ReceiveMessageResponse, ReceivedMessage,
};
use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::stored::{MessageId, StoredMessage};
use hikyaku_sqs::queue_name::QueueName;

use crate::attributes::{facts_of, to_ms};
use crate::call::Call;
use crate::failure;

pub(super) async fn run(request: ReceiveMessage<'_>, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let receive = request.check(facts_of(&queue))?;
    let mut received = take(&queue, &receive, call).await?;
    call.metrics.messages.received(&queue, received.len());
    let sources: Vec<Option<QueueArn>> = received
        .iter()
        .map(|message| source_of(message, &queue, call))
        .collect();
    let messages = received
        .iter_mut()
        .zip(&sources)
        .filter_map(|(message, source)| present(message, source.as_ref(), &receive))
        .collect();
    Ok(call.answer(&ReceiveMessageResponse { messages }))
}

async fn take(
    queue: &QueueRecord,
    receive: &CheckedReceive<'_>,
    call: &Call<'_>,
) -> Result<Vec<Received>, SqsError> {
    let wait_seconds = receive
        .wait_time
        .map_or(queue.settings.receive_wait_seconds, |wait| wait.seconds());
    let request = ReceiveRequest {
        max: receive.max_number_of_messages.get(),
        visibility_timeout_ms: receive
            .visibility_timeout
            .map(|timeout| to_ms(timeout.seconds())),
        attempt_id: receive.attempt_id.as_ref().map(|id| id.as_str().to_owned()),
        wait: Duration::from_secs(wait_seconds.into()),
    };
    let taking = call.node.receive(queue, request);
    let taken = if wait_seconds == 0 {
        taking.await
    } else {
        tokio::select! {
            // Messages that are here already are handed out even in a stop.
            biased;
            taken = taking => taken,
            () = call.stopping() => {
                call.metrics.count_ended_poll();
                Ok(Vec::new())
            }
        }
    };
    match taken {
        Ok(received) => Ok(received),
        Err(ReceiveError::Call(error)) => Err(failure::of_call(error)),
        // AWS tells only those who do not wait.
        Err(ReceiveError::OverInFlightLimit) if wait_seconds > 0 => Ok(Vec::new()),
        Err(ReceiveError::OverInFlightLimit) => Err(SqsError::too_many_in_flight()),
    }
}

/// The queue whose dead letter a message is: one of the same owner.
fn source_of(message: &Received, queue: &QueueRecord, call: &Call<'_>) -> Option<QueueArn> {
    let name = QueueName::try_new(message.dead_letter_source.as_deref()?)?;
    Some(QueueArn {
        name,
        ..call.arn_of(queue)
    })
}

/// A message as it was asked for. One that cannot be read is left out, and returns to the queue after
/// its visibility timeout.
fn present<'m>(
    message: &'m mut Received,
    source: Option<&'m QueueArn>,
    receive: &CheckedReceive<'_>,
) -> Option<ReceivedMessage<'m>> {
    let mut stored = match StoredMessage::decode(&message.body) {
        Ok(stored) => stored,
        Err(error) => {
            tracing::error!(%error, "a stored message cannot be read");
            return None;
        }
    };
    if let Some(redriven) = message.redriven {
        stored.id = MessageId(redriven.id(hikyaku_queue::MessageId(stored.id.0)).0);
    }
    let moved = source.is_some() || message.redriven.is_some();
    if moved && stored.deduplication_id.is_some() {
        // Two messages that moved, of equal ids, must not look like duplicates of each other.
        stored.deduplication_id = Some(stored.id.to_string().into());
    }
    Some(receive.present(Delivery {
        receipt_handle: std::mem::take(&mut message.receipt_handle),
        stored,
        sent_ms: message.sent_at_ms,
        receive_count: message.receive_count,
        first_received_ms: message.first_received_at_ms,
        sequence_number: message.sequence,
        dead_letter_source: source,
    }))
}
