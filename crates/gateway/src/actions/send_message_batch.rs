//! `SendMessageBatch`: up to ten messages join a queue, in their order on a FIFO queue.

use hikyaku_metadata::QueueRecord;
use hikyaku_queue::{SendError, Sent};
use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::send_message_batch::{
    SendMessageBatch, SendMessageBatchResponse, SendMessageBatchSuccess,
};
use hikyaku_sqs::batch::BatchEntry;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::CheckedMessage;
use hikyaku_sqs::message::stored::MessageId;

use super::send_message::{outgoing, refusal};
use crate::attributes::facts_of;
use crate::call::Call;
use crate::failure;
use crate::ids::draw_uuids;

pub(super) async fn run(
    request: SendMessageBatch<'_>,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let entries = request.check(facts_of(&queue))?;
    let mut results = send(&queue, &entries, call).await?.into_iter();
    let mut response = SendMessageBatchResponse::default();
    for entry in entries {
        let id = entry.id;
        let outcome = entry.checked.and_then(|message| {
            match results.next().expect("one result per message") {
                Ok(Ok(sent)) => Ok(SendMessageBatchSuccess::new(
                    id,
                    MessageId(sent.id.0),
                    message.digests(),
                    sent.sequence,
                )),
                Ok(Err(error)) => Err(refusal(&message, error)),
                Err(error) => Err(error),
            }
        });
        response.push(id, outcome);
    }
    call.metrics
        .count_failed_entries(Action::SendMessageBatch, &response.failed);
    Ok(call.answer(&response))
}

/// Sends the entries that passed their check: one result each, or the refusal of the whole batch.
async fn send(
    queue: &QueueRecord,
    entries: &[BatchEntry<'_, CheckedMessage<'_>>],
    call: &Call<'_>,
) -> Result<Vec<Result<Result<Sent, SendError>, SqsError>>, SqsError> {
    let messages: Vec<_> = entries
        .iter()
        .filter_map(|entry| entry.checked.as_ref().ok())
        .zip(draw_uuids(call.node.entropy(), entries.len()))
        .map(|(message, id)| outgoing(message, id, call))
        .collect();
    let count = messages.len();
    if count == 0 {
        return Ok(Vec::new());
    }
    match call.node.send(queue, messages).await {
        Ok(results) => Ok(results.into_iter().map(Ok).collect()),
        Err(error) => Ok(vec![Err(failure::of_batch(error)?); count]),
    }
}
