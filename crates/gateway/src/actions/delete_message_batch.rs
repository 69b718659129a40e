//! `DeleteMessageBatch`: up to ten received messages are deleted.

use hikyaku_cluster::HandleError;
use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::delete_message_batch::{DeleteMessageBatch, DeleteMessageBatchResponse};
use hikyaku_sqs::batch::BatchSuccess;
use hikyaku_sqs::error::SqsError;

use super::delete_message::refusal;
use crate::call::Call;
use crate::failure;

pub(super) async fn run(
    request: DeleteMessageBatch<'_>,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let entries = request.check()?;
    let valid = entries
        .iter()
        .filter_map(|entry| entry.checked.as_ref().ok());
    let handles: Vec<&str> = valid.copied().collect();
    let results = call.node.delete(&queue, &handles).await;
    if let Some(whole) = failure::of_handles(&results) {
        return Err(whole);
    }
    let mut results = results.into_iter();
    let mut response = DeleteMessageBatchResponse::default();
    for entry in entries {
        let id = entry.id;
        let outcome =
            entry.checked.and_then(
                |handle| match results.next().expect("one result per handle") {
                    Ok(()) => {
                        call.metrics.messages.deleted(&queue);
                        Ok(BatchSuccess { id })
                    }
                    Err(HandleError::Invalid) => Err(SqsError::receipt_handle_is_invalid(handle)),
                    Err(HandleError::Refused(error)) => Err(refusal(handle, error)),
                    Err(HandleError::Call(error)) => Err(failure::of_entry_call(error)),
                },
            );
        response.push(id, outcome);
    }
    call.metrics
        .count_failed_entries(Action::DeleteMessageBatch, &response.failed);
    Ok(call.answer(&response))
}
