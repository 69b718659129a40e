//! `ChangeMessageVisibilityBatch`: up to ten messages in flight get new visibility timeouts.

use hikyaku_cluster::HandleError;
use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::change_message_visibility_batch::{
    ChangeMessageVisibilityBatch, ChangeMessageVisibilityBatchResponse,
};
use hikyaku_sqs::batch::BatchSuccess;
use hikyaku_sqs::error::SqsError;

use super::change_message_visibility::refusal;
use crate::attributes::to_ms;
use crate::call::Call;
use crate::failure;

pub(super) async fn run(
    request: ChangeMessageVisibilityBatch<'_>,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let entries = request.check()?;
    let valid = entries
        .iter()
        .filter_map(|entry| entry.checked.as_ref().ok());
    let changes: Vec<_> = valid
        .map(|change| (change.receipt_handle, to_ms(change.timeout.seconds())))
        .collect();
    let results = call.node.change_visibility(&queue, &changes).await;
    if let Some(whole) = failure::of_handles(&results) {
        return Err(whole);
    }
    let mut results = results.into_iter();
    let mut response = ChangeMessageVisibilityBatchResponse::default();
    for entry in entries {
        let id = entry.id;
        let outcome =
            entry.checked.and_then(
                |change| match results.next().expect("one result per handle") {
                    Ok(()) => Ok(BatchSuccess { id }),
                    Err(HandleError::Invalid) => {
                        Err(SqsError::receipt_handle_is_invalid(change.receipt_handle))
                    }
                    Err(HandleError::Refused(error)) => Err(refusal(change, error)),
                    Err(HandleError::Call(error)) => Err(failure::of_entry_call(error)),
                },
            );
        response.push(id, outcome);
    }
    call.metrics
        .count_failed_entries(Action::ChangeMessageVisibilityBatch, &response.failed);
    Ok(call.answer(&response))
}
