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
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::stored::StoredMessage;

use crate::attributes::{facts_of, to_ms};
use crate::call::Call;
use crate::failure;

pub(super) async fn run(request: ReceiveMessage<'_>, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let receive = request.check(facts_of(&queue))?;
    let mut received = take(&queue, &receive, call).await?;
    let messages = received
        .iter_mut()
        .filter_map(|message| present(message, &receive))
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
            () = call.stopping() => Ok(Vec::new()),
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

/// A message as it was asked for. One that cannot be read is left out, and returns to the queue after
/// its visibility timeout.
fn present<'m>(
    message: &'m mut Received,
    receive: &CheckedReceive<'_>,
) -> Option<ReceivedMessage<'m>> {
    let stored = match StoredMessage::decode(&message.body) {
        Ok(stored) => stored,
        Err(error) => {
            tracing::error!(%error, "a stored message cannot be read");
            return None;
        }
    };
    Some(receive.present(Delivery {
        receipt_handle: std::mem::take(&mut message.receipt_handle),
        stored,
        sent_ms: message.sent_at_ms,
        receive_count: message.receive_count,
        first_received_ms: message.first_received_at_ms,
        sequence_number: message.sequence,
        // Known once messages move to dead-letter queues.
        dead_letter_source: None,
    }))
}
