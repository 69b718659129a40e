//! `DeleteMessage`: one received message is deleted.

use hikyaku_cluster::HandleError;
use hikyaku_queue::DeleteError;
use hikyaku_sqs::actions::delete_message::DeleteMessage;
use hikyaku_sqs::error::SqsError;

use super::NO_OUTPUT;
use crate::call::Call;
use crate::failure;

pub(super) async fn run(request: DeleteMessage<'_>, call: &Call<'_>) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let handle = request.check()?;
    let mut results = call.node.delete(&queue, &[handle]).await;
    match results.pop().expect("one result per handle") {
        Ok(()) => {
            call.metrics.messages.deleted(&queue);
            Ok(NO_OUTPUT)
        }
        Err(HandleError::Invalid) => Err(SqsError::receipt_handle_is_invalid(handle)),
        Err(HandleError::Refused(error)) => Err(refusal(handle, error)),
        Err(HandleError::Call(error)) => Err(failure::of_call(error)),
    }
}

/// Why the machine did not delete one message.
pub(super) fn refusal(handle: &str, error: DeleteError) -> SqsError {
    match error {
        DeleteError::ForeignHandle => SqsError::receipt_handle_is_invalid(handle),
        DeleteError::HandleExpired => SqsError::receipt_handle_has_expired(handle),
    }
}
