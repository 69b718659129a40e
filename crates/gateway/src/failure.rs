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

use hikyaku_cluster::{CallError, ControlUnavailable, HandleError};
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

/// A batch that went to one partition and failed there: what to answer for the whole request, or
/// else for each entry.
pub(crate) fn of_batch(error: CallError) -> Result<SqsError, SqsError> {
    match error {
        CallError::Unavailable { no_effect: true }
        | CallError::Overloaded
        | CallError::DiskFull
        | CallError::QueueGone => Err(of_call(error)),
        CallError::Unavailable { no_effect: false } => Ok(SqsError::internal()),
    }
}

/// A batch of receipt handles, each with its own outcome: what to answer for the whole request, if
/// the entries need not be looked at.
pub(crate) fn of_handles<E: std::error::Error>(
    results: &[Result<(), HandleError<E>>],
) -> Option<SqsError> {
    let mut refusals = results.iter().map(|result| match result {
        Ok(()) | Err(HandleError::Invalid | HandleError::Refused(_)) => None,
        Err(HandleError::Call(error)) => of_batch(*error).err(),
    });
    let first = refusals.next()??;
    refusals.all(|refusal| refusal.is_some()).then_some(first)
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
    use hikyaku_cluster::{CallError, HandleError};
    use hikyaku_queue::DeleteError;
    use hikyaku_sqs::error::ErrorCode;

    use super::{of_batch, of_call, of_handles};

    #[test]
    fn a_batch_without_effect_is_refused_whole_so_that_sdks_retry_it() {
        let code = |error| of_batch(error).map_or_else(|whole| whole.code, |entry| entry.code);
        let unavailable = |no_effect| CallError::Unavailable { no_effect };
        assert!(of_batch(unavailable(true)).is_err());
        assert!(of_batch(unavailable(false)).is_ok());
        assert_eq!(code(unavailable(false)), ErrorCode::InternalError);
        assert_eq!(code(CallError::Overloaded), ErrorCode::RequestThrottled);
        assert_eq!(code(CallError::DiskFull), ErrorCode::ServiceUnavailable);
        assert_eq!(code(CallError::QueueGone), ErrorCode::QueueDoesNotExist);
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
