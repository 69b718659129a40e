//! `ChangeMessageVisibility`: one message in flight gets a new visibility timeout.

use hikyaku_cluster::HandleError;
use hikyaku_queue::ChangeVisibilityError;
use hikyaku_sqs::actions::change_message_visibility::{ChangeMessageVisibility, VisibilityChange};
use hikyaku_sqs::error::SqsError;

use super::NO_OUTPUT;
use crate::attributes::to_ms;
use crate::call::Call;
use crate::failure;

pub(super) async fn run(
    request: ChangeMessageVisibility<'_>,
    call: &Call<'_>,
) -> Result<Vec<u8>, SqsError> {
    let queue = call.find_queue(&request.queue).await?;
    let change = request.check()?;
    let changes = [(change.receipt_handle, to_ms(change.timeout.seconds()))];
    let mut results = call.node.change_visibility(&queue, &changes).await;
    match results.pop().expect("one result per handle") {
        Ok(()) => Ok(NO_OUTPUT),
        Err(HandleError::Invalid) => {
            Err(SqsError::receipt_handle_is_invalid(change.receipt_handle))
        }
        Err(HandleError::Refused(error)) => Err(refusal(change, error)),
        Err(HandleError::Call(error)) => Err(failure::of_call(error)),
    }
}

/// Why the machine did not change one visibility timeout.
///
/// `MessageNotInflight` is never said: the model has it, but every recorded answer of AWS to a message
/// that is not in flight is the one below. That an expired handle of a FIFO queue is told so here, as
/// for a delete, no source shows (SQS-CONTRACT section 12).
pub(super) fn refusal(change: VisibilityChange<'_>, error: ChangeVisibilityError) -> SqsError {
    let handle = change.receipt_handle;
    match error {
        ChangeVisibilityError::ForeignHandle => SqsError::receipt_handle_is_invalid(handle),
        ChangeVisibilityError::HandleExpired => SqsError::receipt_handle_has_expired(handle),
        ChangeVisibilityError::NotAvailable => SqsError::message_does_not_exist(handle),
        ChangeVisibilityError::TotalTimeoutTooLong => {
            SqsError::total_visibility_timeout_beyond_limit(change.timeout.seconds())
        }
    }
}
