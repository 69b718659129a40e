//! Every refusal a client can meet, as data: what it is called in each dialect, its status, its text.
//!
//! [`ErrorCode`] is the closed list with the names of SQS-CONTRACT section 3; [`SqsError`] is one of
//! them with the text that goes with it. Texts that clients or recorded answers compare byte for byte
//! have a constructor here, so that they are written once.

use std::borrow::Cow;
use std::fmt;

use crate::action::Action;
use crate::policy::{Decision, Principal, Where};

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the names are AWS's own; `shape` lists what each means on the wire"
)]
pub enum ErrorCode {
    QueueDoesNotExist,
    QueueNameExists,
    QueueDeletedRecently,
    PurgeQueueInProgress,
    EmptyBatchRequest,
    TooManyEntriesInBatchRequest,
    BatchEntryIdsNotDistinct,
    InvalidBatchEntryId,
    BatchRequestTooLong,
    MessageNotInflight,
    UnsupportedOperation,
    ReceiptHandleIsInvalid,
    InvalidAddress,
    ResourceNotFound,
    OverLimit,
    RequestThrottled,
    InvalidSecurity,
    InvalidAttributeName,
    InvalidAttributeValue,
    InvalidMessageContents,
    InvalidIdFormat,
    KmsAccessDenied,
    KmsDisabled,
    KmsInvalidKeyUsage,
    KmsInvalidState,
    KmsNotFound,
    KmsThrottled,
    KmsOptInRequired,
    InvalidParameterValue,
    MissingParameter,
    InvalidAction,
    UnknownOperation,
    Serialization,
    AccessDenied,
    SignatureDoesNotMatch,
    InvalidClientTokenId,
    RequestExpired,
    IncompleteSignature,
    MissingAuthenticationToken,
    RequestTooLarge,
    InternalError,
    ServiceUnavailable,
}

/// Who is at fault, as both dialects say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is wrong; sending it again will not help.
    Sender,
    /// We failed; it may be sent again.
    Receiver,
}

/// How a refusal looks on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorShape {
    /// The namespace of the JSON `__type`.
    pub namespace: &'static str,
    /// The name after `#` in the JSON `__type`.
    pub name: &'static str,
    /// The code in XML, in `x-amzn-query-error` and in a batch's `Failed`.
    pub query_code: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// Who is at fault.
    pub fault: Fault,
}

/// The namespace of errors in the SQS model.
const MODELLED: &str = "com.amazonaws.sqs";
/// The namespace of errors that AWS's service framework makes.
const GENERIC: &str = "com.amazon.coral.service";

const fn modelled(name: &'static str, query_code: &'static str, status: u16) -> ErrorShape {
    ErrorShape {
        namespace: MODELLED,
        name,
        query_code,
        status,
        fault: Fault::Sender,
    }
}

const fn generic(name: &'static str, query_code: &'static str, status: u16) -> ErrorShape {
    let fault = if status < 500 {
        Fault::Sender
    } else {
        Fault::Receiver
    };
    ErrorShape {
        namespace: GENERIC,
        name,
        query_code,
        status,
        fault,
    }
}

impl ErrorCode {
    /// How this refusal looks on the wire.
    #[must_use]
    #[rustfmt::skip] // a table: one line each
    pub const fn shape(self) -> ErrorShape {
        match self {
            Self::QueueDoesNotExist => modelled("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400),
            Self::QueueNameExists => modelled("QueueNameExists", "QueueAlreadyExists", 400),
            Self::QueueDeletedRecently => modelled("QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", 400),
            Self::PurgeQueueInProgress => modelled("PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress", 403),
            Self::EmptyBatchRequest => modelled("EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", 400),
            Self::TooManyEntriesInBatchRequest => modelled("TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", 400),
            Self::BatchEntryIdsNotDistinct => modelled("BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", 400),
            Self::InvalidBatchEntryId => modelled("InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId", 400),
            Self::BatchRequestTooLong => modelled("BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong", 400),
            Self::MessageNotInflight => modelled("MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight", 400),
            Self::UnsupportedOperation => modelled("UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation", 400),
            // 404 in both dialects: the model of JSON says so, that of Query says nothing (SQS-CONTRACT section 12).
            Self::ReceiptHandleIsInvalid => modelled("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404),
            Self::InvalidAddress => modelled("InvalidAddress", "InvalidAddress", 404),
            Self::ResourceNotFound => modelled("ResourceNotFoundException", "ResourceNotFoundException", 404),
            Self::OverLimit => modelled("OverLimit", "OverLimit", 403),
            Self::RequestThrottled => modelled("RequestThrottled", "RequestThrottled", 403),
            Self::InvalidSecurity => modelled("InvalidSecurity", "InvalidSecurity", 403),
            Self::InvalidAttributeName => modelled("InvalidAttributeName", "InvalidAttributeName", 400),
            Self::InvalidAttributeValue => modelled("InvalidAttributeValue", "InvalidAttributeValue", 400),
            Self::InvalidMessageContents => modelled("InvalidMessageContents", "InvalidMessageContents", 400),
            Self::InvalidIdFormat => modelled("InvalidIdFormat", "InvalidIdFormat", 400),
            Self::KmsAccessDenied => modelled("KmsAccessDenied", "KMS.AccessDeniedException", 400),
            Self::KmsDisabled => modelled("KmsDisabled", "KMS.DisabledException", 400),
            Self::KmsInvalidKeyUsage => modelled("KmsInvalidKeyUsage", "KMS.InvalidKeyUsageException", 400),
            Self::KmsInvalidState => modelled("KmsInvalidState", "KMS.InvalidStateException", 400),
            Self::KmsNotFound => modelled("KmsNotFound", "KMS.NotFoundException", 400),
            Self::KmsThrottled => modelled("KmsThrottled", "KMS.ThrottlingException", 400),
            Self::KmsOptInRequired => modelled("KmsOptInRequired", "KMS.OptInRequired", 403),
            Self::InvalidParameterValue => generic("InvalidParameterValueException", "InvalidParameterValue", 400),
            Self::MissingParameter => generic("MissingRequiredParameterException", "MissingParameter", 400),
            Self::InvalidAction => generic("InvalidAction", "InvalidAction", 400),
            Self::UnknownOperation => generic("UnknownOperationException", "UnknownOperationException", 404),
            Self::Serialization => generic("SerializationException", "SerializationException", 400),
            Self::AccessDenied => generic("AccessDeniedException", "AccessDenied", 403),
            Self::SignatureDoesNotMatch => generic("SignatureDoesNotMatch", "SignatureDoesNotMatch", 403),
            Self::InvalidClientTokenId => generic("InvalidClientTokenId", "InvalidClientTokenId", 403),
            Self::RequestExpired => generic("RequestExpired", "RequestExpired", 400),
            Self::IncompleteSignature => generic("IncompleteSignature", "IncompleteSignature", 400),
            Self::MissingAuthenticationToken => generic("MissingAuthenticationToken", "MissingAuthenticationToken", 403),
            Self::RequestTooLarge => generic("RequestEntityTooLarge", "RequestEntityTooLarge", 413),
            Self::InternalError => generic("InternalFailure", "InternalError", 500),
            Self::ServiceUnavailable => generic("ServiceUnavailable", "ServiceUnavailable", 503),
        }
    }
}

/// A refusal: its kind and the text the client reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqsError {
    /// What kind of refusal it is.
    pub code: ErrorCode,
    /// The text, in AWS's words where AWS has words for it.
    pub message: Cow<'static, str>,
}

impl fmt::Display for SqsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.shape().name, self.message)
    }
}

impl std::error::Error for SqsError {}

impl SqsError {
    /// A refusal with a text of the caller's.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// No queue has this name or URL.
    ///
    /// The text is that of JSON; the Query dialect adds " for this wsdl version".
    #[must_use]
    pub fn queue_does_not_exist() -> Self {
        Self::new(
            ErrorCode::QueueDoesNotExist,
            "The specified queue does not exist.",
        )
    }

    /// `CreateQueue` names an existing queue that differs in this attribute.
    #[must_use]
    pub fn queue_name_exists(attribute: &str) -> Self {
        let text = "A queue already exists with the same name and a different value for attribute";
        Self::new(ErrorCode::QueueNameExists, format!("{text} {attribute}"))
    }

    /// `CreateQueue` came within 60 seconds of the deletion of a queue of that name.
    #[must_use]
    pub fn queue_deleted_recently() -> Self {
        let text = "You must wait 60 seconds after deleting a queue before you can create another \
                    with the same name.";
        Self::new(ErrorCode::QueueDeletedRecently, text)
    }

    /// `PurgeQueue` came within 60 seconds of the last one.
    #[must_use]
    pub fn purge_queue_in_progress(queue_name: &str) -> Self {
        let message =
            format!("Only one PurgeQueue operation on {queue_name} is allowed every 60 seconds.");
        Self::new(ErrorCode::PurgeQueueInProgress, message)
    }

    /// A required member is absent.
    #[must_use]
    pub fn missing_parameter(name: &str) -> Self {
        let message = format!("The request must contain the parameter {name}.");
        Self::new(ErrorCode::MissingParameter, message)
    }

    /// A member has a value that is refused for this reason.
    #[must_use]
    pub fn invalid_parameter(name: &str, value: impl fmt::Display, reason: &str) -> Self {
        let message = format!("Value {value} for parameter {name} is invalid. Reason: {reason}");
        Self::new(ErrorCode::InvalidParameterValue, message)
    }

    /// A queue attribute that does not exist, may not be written or does not fit the queue's type.
    #[must_use]
    pub fn unknown_attribute(name: &str) -> Self {
        Self::new(
            ErrorCode::InvalidAttributeName,
            format!("Unknown Attribute {name}."),
        )
    }

    /// A standard queue was given an attribute of FIFO queues; AWS words the two enumerated ones
    /// differently.
    #[must_use]
    pub fn attribute_is_for_fifo(name: &str) -> Self {
        if !matches!(name, "DeduplicationScope" | "FifoThroughputLimit") {
            return Self::unknown_attribute(name);
        }
        let message = format!("You can specify the {name} only when FifoQueue is set to true.");
        Self::new(ErrorCode::InvalidAttributeName, message)
    }

    /// An attribute that only standard queues have, on a FIFO queue. Ours, so AWS has no words for it.
    #[must_use]
    pub fn attribute_is_for_standard(name: &str) -> Self {
        let message = format!("You can specify {name} only for a standard queue.");
        Self::new(ErrorCode::InvalidAttributeName, message)
    }

    /// A KMS key and SSE-SQS were asked for together.
    #[must_use]
    pub fn two_encryptions() -> Self {
        let text = "You can use one type of server-side encryption (SSE) at one time. You can \
                    either enable KMS SSE or SQS SSE.";
        Self::new(ErrorCode::InvalidAttributeName, text)
    }

    /// The throughput limit would be per message group while deduplication is per queue.
    #[must_use]
    pub fn throughput_limit_needs_message_group_scope() -> Self {
        let text = "Invalid value for the parameter FifoThroughputLimit. Reason: \
                    perMessageGroupId is allowed only when DeduplicationScope is messageGroup.";
        Self::new(ErrorCode::InvalidAttributeValue, text)
    }

    /// The queue would have more tags than a queue may have.
    #[must_use]
    pub fn too_many_tags(queue_name: &str) -> Self {
        let message = format!("Too many tags added for queue {queue_name}.");
        Self::new(ErrorCode::InvalidParameterValue, message)
    }

    /// The account has as many queues as it may have. AWS knows no such limit, but the code for it.
    #[must_use]
    pub fn too_many_queues(most: usize) -> Self {
        let message = format!("The account may have {most} queues and has as many.");
        Self::new(ErrorCode::OverLimit, message)
    }

    /// A FIFO queue without content-based deduplication got a message without a deduplication id.
    #[must_use]
    pub fn missing_deduplication_id() -> Self {
        let text = "The queue should either have ContentBasedDeduplication enabled or \
                    MessageDeduplicationId provided explicitly";
        Self::new(ErrorCode::InvalidParameterValue, text)
    }

    /// A message on a FIFO queue has a delay of its own.
    #[must_use]
    pub fn delay_on_fifo(seconds: u32) -> Self {
        let reason = "The request include parameter that is not valid for this queue type.";
        Self::invalid_parameter("DelaySeconds", seconds, reason)
    }

    /// A queue attribute has a value outside its range.
    #[must_use]
    pub fn invalid_attribute_value(name: &str) -> Self {
        let message = format!("Invalid value for the parameter {name}.");
        Self::new(ErrorCode::InvalidAttributeValue, message)
    }

    /// The receipt handle was not made by this queue.
    #[must_use]
    pub fn receipt_handle_is_invalid(handle: &str) -> Self {
        let message =
            format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
        Self::new(ErrorCode::ReceiptHandleIsInvalid, message)
    }

    /// The receipt handle of a FIFO message outlived its visibility timeout.
    #[must_use]
    pub fn receipt_handle_has_expired(handle: &str) -> Self {
        Self::invalid_parameter("ReceiptHandle", handle, "The receipt handle has expired.")
    }

    /// The visibility timeout of a message that is gone cannot be changed.
    #[must_use]
    pub fn message_does_not_exist(handle: &str) -> Self {
        let reason = "Message does not exist or is not available for visibility timeout change.";
        Self::invalid_parameter("ReceiptHandle", handle, reason)
    }

    /// The message would stay in flight longer than 12 hours since its receive.
    #[must_use]
    pub fn total_visibility_timeout_beyond_limit(seconds: u32) -> Self {
        let reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
        Self::invalid_parameter("VisibilityTimeout", seconds, reason)
    }

    /// A standard queue has as many messages in flight as it may have. The code is AWS's, the text is not
    /// recorded (SQS-CONTRACT section 12).
    #[must_use]
    pub fn too_many_in_flight() -> Self {
        let text =
            "Too many messages are in flight: delete received messages before receiving more.";
        Self::new(ErrorCode::OverLimit, text)
    }

    /// The request parsed as no operation that we know.
    #[must_use]
    pub fn invalid_action(name: &str) -> Self {
        let message = format!("The action {name} is not valid for this endpoint.");
        Self::new(ErrorCode::InvalidAction, message)
    }

    /// A parameter with an ARN names no queue, or one that the caller is not to know of.
    #[must_use]
    pub fn resource_does_not_exist(parameter: &str) -> Self {
        let message =
            format!("The resource that you specified for the {parameter} parameter doesn't exist.");
        Self::new(ErrorCode::ResourceNotFound, message)
    }

    /// Messages move back from dead-letter queues only.
    #[must_use]
    pub fn no_dead_letter_queue() -> Self {
        let text = "Source queue must be configured as a Dead Letter Queue.";
        Self::new(ErrorCode::InvalidParameterValue, text)
    }

    /// A queue has one move task at a time.
    #[must_use]
    pub fn move_task_active() -> Self {
        let text = "There is already a task running. Only one active task is allowed for a source queue \
                    arn at a given time.";
        Self::new(ErrorCode::InvalidParameterValue, text)
    }

    /// The account has as many active move tasks as it may. The limit is AWS's, the text is not recorded.
    #[must_use]
    pub fn too_many_move_tasks(most: usize) -> Self {
        let message =
            format!("The account may have {most} active message move tasks and has as many.");
        Self::new(ErrorCode::OverLimit, message)
    }

    /// The text is no task handle.
    #[must_use]
    pub fn invalid_task_handle() -> Self {
        let text = "Value for parameter TaskHandle is invalid.";
        Self::new(ErrorCode::InvalidParameterValue, text)
    }

    /// No task has this handle, or one that the caller is not to know of.
    #[must_use]
    pub fn task_does_not_exist() -> Self {
        Self::new(ErrorCode::ResourceNotFound, "Task does not exist.")
    }

    /// A task that has ended cannot be cancelled. The text is not recorded; the code is the only one of
    /// the operation's that is not about what does not exist.
    #[must_use]
    pub fn task_does_not_run() -> Self {
        let text = "The task is not running.";
        Self::new(ErrorCode::UnsupportedOperation, text)
    }

    /// The queue's dead-letter target does not exist; `policy` is the text the client sent.
    #[must_use]
    pub fn dead_letter_target_does_not_exist(policy: &str) -> Self {
        let reason = "Dead letter target does not exist.";
        Self::invalid_parameter("RedrivePolicy", policy, reason)
    }

    /// Policies do not let the caller do this; worded as IAM does, which writes the action in lower case.
    #[must_use]
    pub fn not_authorised(
        principal: &Principal,
        action: Action,
        resource: &str,
        decision: Decision,
    ) -> Self {
        let action = format!("sqs:{}", action.permission().to_ascii_lowercase());
        let reason = match decision {
            Decision::Denied(Where::Queue) => {
                "with an explicit deny in a resource-based policy".to_owned()
            }
            Decision::Denied(Where::Key) => {
                "with an explicit deny in an identity-based policy".to_owned()
            }
            Decision::Allowed | Decision::NotAllowed => {
                format!("because no identity-based policy allows the {action} action")
            }
        };
        let message = format!(
            "User: {principal} is not authorized to perform: {action} on resource: {resource} {reason}"
        );
        Self::new(ErrorCode::AccessDenied, message)
    }

    /// We failed, and whether the operation took effect is unknown.
    #[must_use]
    pub fn internal() -> Self {
        let text = "The request processing has failed because of an unknown error.";
        Self::new(ErrorCode::InternalError, text)
    }

    /// We cannot serve this now; nothing took effect.
    #[must_use]
    pub fn service_unavailable() -> Self {
        let text = "The request has failed due to a temporary failure of the server.";
        Self::new(ErrorCode::ServiceUnavailable, text)
    }

    /// The client is over its rate, or we are over our budget; nothing took effect.
    #[must_use]
    pub fn throttled() -> Self {
        Self::new(
            ErrorCode::RequestThrottled,
            "The request was denied due to request throttling.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorCode, Fault, SqsError};

    #[test]
    fn internal_failures_are_the_receivers_fault() {
        assert_eq!(ErrorCode::InternalError.shape().fault, Fault::Receiver);
        assert_eq!(ErrorCode::ServiceUnavailable.shape().fault, Fault::Receiver);
        assert_eq!(ErrorCode::RequestThrottled.shape().fault, Fault::Sender);
    }

    #[test]
    fn texts_are_those_clients_compare() {
        let texts = [
            (
                SqsError::queue_name_exists("DelaySeconds"),
                "A queue already exists with the same name and a different value for attribute DelaySeconds",
            ),
            (
                SqsError::queue_deleted_recently(),
                "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
            ),
            (
                SqsError::purge_queue_in_progress("orders"),
                "Only one PurgeQueue operation on orders is allowed every 60 seconds.",
            ),
            (
                SqsError::receipt_handle_is_invalid("garbage"),
                "The input receipt handle \"garbage\" is not a valid receipt handle.",
            ),
            (
                SqsError::receipt_handle_has_expired("h"),
                "Value h for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
            ),
            (
                SqsError::message_does_not_exist("h"),
                "Value h for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.",
            ),
            (
                SqsError::total_visibility_timeout_beyond_limit(43200),
                "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
            ),
            (
                SqsError::invalid_action("FooBar"),
                "The action FooBar is not valid for this endpoint.",
            ),
        ];
        for (error, text) in texts {
            assert_eq!(error.message, text);
        }
    }
}
