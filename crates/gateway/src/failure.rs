//! The failures that several actions share, as clients are told of them.
//!
//! What SDKs do with an answer decides its code:
//!
//! - `ServiceUnavailable` (503) is retried by all of them, as every 5xx is.
//! - `RequestThrottled` (403, in the SQS model) is on the list of throttling codes of botocore and of
//!   the Java, JavaScript, Go and Rust SDKs: retried, after a longer pause and with fewer tokens left,
//!   which is what a node with too much to do needs. A 503 would be retried sooner.
//! - An entry of a batch that failed is retried by no SDK, only by the application. So when nothing
//!   of a batch can have had an effect the whole request is refused, and the SDK does it.

use hikyaku_cluster::{CallError, ControlUnavailable, HandleError, SendFailure};
use hikyaku_sqs::error::{ErrorCode, SqsError};

/// A call of the data plane that failed.
pub(crate) fn of_call(error: CallError) -> SqsError {
    match error {
        CallError::Unavailable { no_effect: _ } => SqsError::service_unavailable(),
        CallError::Overloaded => SqsError::throttled(),
        CallError::DiskFull => disk_full(),
        CallError::QueueGone => SqsError::queue_does_not_exist(),
    }
}

/// The control plane did not answer.
pub(crate) fn of_control(unavailable: ControlUnavailable) -> SqsError {
    let ControlUnavailable = unavailable;
    SqsError::service_unavailable()
}

/// A batch of messages sent, each with its own outcome: what to answer for the whole request, if the
/// entries need not be looked at.
pub(crate) fn of_sends<T>(results: &[Result<T, SendFailure>]) -> Option<SqsError> {
    of_batch(results.iter().map(|result| match result {
        Ok(_) | Err(SendFailure::Refused(_)) => None,
        Err(SendFailure::Call(error)) => Some(*error),
    }))
}

/// The same for a batch of receipt handles.
pub(crate) fn of_handles<E: std::error::Error>(
    results: &[Result<(), HandleError<E>>],
) -> Option<SqsError> {
    of_batch(results.iter().map(|result| match result {
        Ok(()) | Err(HandleError::Invalid | HandleError::Refused(_)) => None,
        Err(HandleError::Call(error)) => Some(*error),
    }))
}

/// The refusal of the whole batch, when the call of every entry failed and none can have had an effect.
fn of_batch(mut calls: impl Iterator<Item = Option<CallError>>) -> Option<SqsError> {
    let first = calls.next()?.filter(|error| is_without_effect(*error))?;
    calls
        .all(|call| call.is_some_and(is_without_effect))
        .then(|| of_call(first))
}

fn is_without_effect(error: CallError) -> bool {
    match error {
        CallError::Unavailable { no_effect } => no_effect,
        CallError::Overloaded | CallError::DiskFull | CallError::QueueGone => true,
    }
}

/// A call for one entry of a batch that failed while others did not.
pub(crate) fn of_entry_call(error: CallError) -> SqsError {
    match error {
        CallError::Unavailable { no_effect: _ } | CallError::Overloaded | CallError::DiskFull => {
            SqsError::internal()
        }
        CallError::QueueGone => SqsError::queue_does_not_exist(),
    }
}

/// Not the client's rate is at fault here, so it is no throttling, and it shows among the 5xx.
fn disk_full() -> SqsError {
    let text = "The service has no room for new messages. Receive and delete messages, or try again \
                later.";
    SqsError::new(ErrorCode::ServiceUnavailable, text)
}

#[cfg(test)]
mod tests {
    use hikyaku_cluster::{CallError, HandleError, SendFailure};
    use hikyaku_queue::DeleteError;
    use hikyaku_sqs::error::ErrorCode;

    use super::{of_call, of_entry_call, of_handles, of_sends};

    #[test]
    fn a_batch_without_effect_is_refused_whole_so_that_sdks_retry_it() {
        let unavailable = |no_effect| CallError::Unavailable { no_effect };
        let whole = |calls: &[CallError]| {
            let results = calls.iter().map(|error| Err(SendFailure::Call(*error)));
            of_sends::<()>(&results.collect::<Vec<_>>()).map(|whole| whole.code)
        };
        let busy = CallError::Overloaded;
        assert_eq!(whole(&[busy, busy]), Some(ErrorCode::RequestThrottled));
        let full = CallError::DiskFull;
        assert_eq!(whole(&[full, busy]), Some(ErrorCode::ServiceUnavailable));
        let gone = CallError::QueueGone;
        assert_eq!(whole(&[gone]), Some(ErrorCode::QueueDoesNotExist));
        assert!(whole(&[unavailable(true)]).is_some());
        assert_eq!(whole(&[busy, unavailable(false)]), None);
        assert_eq!(whole(&[unavailable(false), busy]), None);
        assert_eq!(whole(&[]), None);
    }

    #[test]
    fn an_entry_whose_partition_failed_fails_alone() {
        let failed = CallError::Unavailable { no_effect: false };
        let results = [Ok(()), Err(SendFailure::Call(failed))];
        assert_eq!(of_sends(&results), None);
        assert_eq!(of_entry_call(failed).code, ErrorCode::InternalError);
    }

    #[test]
    fn handles_are_refused_together_only_if_all_are_refused_so() {
        let overloaded = || Err(HandleError::<DeleteError>::Call(CallError::Overloaded));
        let refusal = of_handles(&[overloaded(), overloaded()]);
        assert_eq!(
            refusal.map(|error| error.code),
            Some(of_call(CallError::Overloaded).code)
        );
        assert_eq!(of_handles(&[overloaded(), Ok(())]), None);
        assert_eq!(
            of_handles(&[Err(HandleError::<DeleteError>::Invalid)]),
            None
        );
        assert_eq!(of_handles::<DeleteError>(&[]), None);
    }
}
