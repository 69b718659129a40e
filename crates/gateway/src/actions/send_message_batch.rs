//! `SendMessageBatch`: up to ten messages join a queue, those of one message group in their order.

use hikyaku_cluster::SendFailure;
use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::send_message_batch::{
    SendMessageBatch, SendMessageBatchResponse, SendMessageBatchSuccess,
};
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::stored::MessageId;

use super::send_message::{outgoing, refusal, size_bytes};
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
    let valid = entries
        .iter()
        .filter_map(|entry| entry.checked.as_ref().ok());
    let messages = valid
        .zip(draw_uuids(call.node.entropy(), entries.len()))
        .map(|(message, id)| outgoing(message, id, call))
        .collect();
    let results = call.node.send(&queue, messages).await;
    if let Some(whole) = failure::of_sends(&results) {
        return Err(whole);
    }
    let mut results = results.into_iter();
    let mut response = SendMessageBatchResponse::default();
    for entry in entries {
        let id = entry.id;
        let outcome = entry.checked.and_then(|message| {
            match results.next().expect("one result per message") {
                Ok(sent) => {
                    let messages = &call.metrics.messages;
                    messages.sent(&queue, size_bytes(&message), &sent);
                    Ok(SendMessageBatchSuccess::new(
                        id,
                        MessageId(sent.id.0),
                        message.digests(),
                        sent.sequence,
                    ))
                }
                Err(SendFailure::Refused(error)) => Err(refusal(&message, error)),
                Err(SendFailure::Call(error)) => Err(failure::of_entry_call(error)),
            }
        });
        response.push(id, outcome);
    }
    call.metrics
        .count_failed_entries(Action::SendMessageBatch, &response.failed);
    Ok(call.answer(&response))
}
