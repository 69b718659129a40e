//! The names of the contract, as data: operations with their members, and errors.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::error::{ErrorCode, Fault};
use hikyaku_sqs::request::{Envelope, Request};

/// Operations that are read, and every member they have.
const OPERATIONS: [(&str, &[&str]); 23] = [
    (
        "StartMessageMoveTask",
        &[
            "SourceArn",
            "DestinationArn",
            "MaxNumberOfMessagesPerSecond",
        ],
    ),
    ("CancelMessageMoveTask", &["TaskHandle"]),
    ("ListMessageMoveTasks", &["SourceArn", "MaxResults"]),
    ("CreateQueue", &["QueueName", "Attributes", "tags"]),
    ("DeleteQueue", &["QueueUrl"]),
    ("PurgeQueue", &["QueueUrl"]),
    ("GetQueueUrl", &["QueueName", "QueueOwnerAWSAccountId"]),
    ("GetQueueAttributes", &["QueueUrl", "AttributeNames"]),
    ("SetQueueAttributes", &["QueueUrl", "Attributes"]),
    (
        "ListQueues",
        &["QueueNamePrefix", "MaxResults", "NextToken"],
    ),
    ("ListQueueTags", &["QueueUrl"]),
    ("TagQueue", &["QueueUrl", "Tags"]),
    ("UntagQueue", &["QueueUrl", "TagKeys"]),
    (
        "SendMessage",
        &[
            "QueueUrl",
            "MessageBody",
            "DelaySeconds",
            "MessageAttributes",
            "MessageSystemAttributes",
            "MessageDeduplicationId",
            "MessageGroupId",
        ],
    ),
    ("SendMessageBatch", &["QueueUrl", "Entries"]),
    (
        "ReceiveMessage",
        &[
            "QueueUrl",
            "AttributeNames",
            "MessageSystemAttributeNames",
            "MessageAttributeNames",
            "MaxNumberOfMessages",
            "VisibilityTimeout",
            "WaitTimeSeconds",
            "ReceiveRequestAttemptId",
        ],
    ),
    ("DeleteMessage", &["QueueUrl", "ReceiptHandle"]),
    ("DeleteMessageBatch", &["QueueUrl", "Entries"]),
    (
        "ChangeMessageVisibility",
        &["QueueUrl", "ReceiptHandle", "VisibilityTimeout"],
    ),
    ("ChangeMessageVisibilityBatch", &["QueueUrl", "Entries"]),
    (
        "AddPermission",
        &["QueueUrl", "Label", "AWSAccountIds", "Actions"],
    ),
    ("RemovePermission", &["QueueUrl", "Label"]),
    (
        "ListDeadLetterSourceQueues",
        &["QueueUrl", "NextToken", "MaxResults"],
    ),
];

/// The members of the entries of batches.
const ENTRIES: [(&str, &[&str]); 3] = [
    (
        "SendMessageBatch",
        &[
            "Id",
            "MessageBody",
            "DelaySeconds",
            "MessageAttributes",
            "MessageSystemAttributes",
            "MessageDeduplicationId",
            "MessageGroupId",
        ],
    ),
    ("DeleteMessageBatch", &["Id", "ReceiptHandle"]),
    (
        "ChangeMessageVisibilityBatch",
        &["Id", "ReceiptHandle", "VisibilityTimeout"],
    ),
];

/// A member is known if a value that fits no member's type refuses the request.
fn knows(action: &str, members: &str) -> bool {
    let action = Action::from_name(action).unwrap();
    match Request::from_json(action, members.as_bytes(), Envelope::default()) {
        Ok(_) => false,
        Err(error) => error.code == ErrorCode::Serialization,
    }
}

#[test]
fn every_member_is_known_by_its_exact_name() {
    for (action, members) in OPERATIONS {
        for member in members {
            assert!(
                knows(action, &format!("{{\"{member}\":true}}")),
                "{action}.{member}"
            );
            let other = member.to_ascii_uppercase();
            assert!(
                !knows(action, &format!("{{\"{other}\":true}}")),
                "{action}.{other}"
            );
        }
    }
}

#[test]
fn every_member_of_an_entry_is_known_by_its_exact_name() {
    for (action, members) in ENTRIES {
        for member in members {
            let entry = |name: &str| format!("{{\"Entries\":[{{\"{name}\":true}}]}}");
            assert!(knows(action, &entry(member)), "{action}.{member}");
            let other = member.to_ascii_uppercase();
            assert!(!knows(action, &entry(&other)), "{action}.{other}");
        }
    }
}

#[test]
fn every_operation_is_read() {
    assert_eq!(OPERATIONS.len(), Action::ALL.len());
}

#[test]
fn every_error_has_its_names_and_status() {
    use ErrorCode as E;
    const AWS_PREFIX: &str = "AWS.SimpleQueueService.";
    for (code, name, query_code, status) in [
        (
            E::QueueDoesNotExist,
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
            400,
        ),
        (
            E::QueueNameExists,
            "QueueNameExists",
            "QueueAlreadyExists",
            400,
        ),
        (
            E::ReceiptHandleIsInvalid,
            "ReceiptHandleIsInvalid",
            "ReceiptHandleIsInvalid",
            404,
        ),
        (E::InvalidAddress, "InvalidAddress", "InvalidAddress", 404),
        (
            E::ResourceNotFound,
            "ResourceNotFoundException",
            "ResourceNotFoundException",
            404,
        ),
        (E::OverLimit, "OverLimit", "OverLimit", 403),
        (
            E::RequestThrottled,
            "RequestThrottled",
            "RequestThrottled",
            403,
        ),
        (
            E::InvalidSecurity,
            "InvalidSecurity",
            "InvalidSecurity",
            403,
        ),
        (
            E::InvalidAttributeName,
            "InvalidAttributeName",
            "InvalidAttributeName",
            400,
        ),
        (
            E::InvalidAttributeValue,
            "InvalidAttributeValue",
            "InvalidAttributeValue",
            400,
        ),
        (
            E::InvalidMessageContents,
            "InvalidMessageContents",
            "InvalidMessageContents",
            400,
        ),
        (
            E::InvalidIdFormat,
            "InvalidIdFormat",
            "InvalidIdFormat",
            400,
        ),
        (
            E::KmsAccessDenied,
            "KmsAccessDenied",
            "KMS.AccessDeniedException",
            400,
        ),
        (E::KmsDisabled, "KmsDisabled", "KMS.DisabledException", 400),
        (
            E::KmsInvalidKeyUsage,
            "KmsInvalidKeyUsage",
            "KMS.InvalidKeyUsageException",
            400,
        ),
        (
            E::KmsInvalidState,
            "KmsInvalidState",
            "KMS.InvalidStateException",
            400,
        ),
        (E::KmsNotFound, "KmsNotFound", "KMS.NotFoundException", 400),
        (
            E::KmsThrottled,
            "KmsThrottled",
            "KMS.ThrottlingException",
            400,
        ),
        (
            E::KmsOptInRequired,
            "KmsOptInRequired",
            "KMS.OptInRequired",
            403,
        ),
    ] {
        let shape = code.shape();
        assert_eq!(
            (shape.name, shape.query_code, shape.status),
            (name, query_code, status)
        );
        assert_eq!(
            (shape.namespace, shape.fault),
            ("com.amazonaws.sqs", Fault::Sender)
        );
    }
    for (code, name, status) in [
        (E::QueueDeletedRecently, "QueueDeletedRecently", 400),
        (E::PurgeQueueInProgress, "PurgeQueueInProgress", 403),
        (E::EmptyBatchRequest, "EmptyBatchRequest", 400),
        (
            E::TooManyEntriesInBatchRequest,
            "TooManyEntriesInBatchRequest",
            400,
        ),
        (E::BatchEntryIdsNotDistinct, "BatchEntryIdsNotDistinct", 400),
        (E::InvalidBatchEntryId, "InvalidBatchEntryId", 400),
        (E::BatchRequestTooLong, "BatchRequestTooLong", 400),
        (E::MessageNotInflight, "MessageNotInflight", 400),
        (E::UnsupportedOperation, "UnsupportedOperation", 400),
    ] {
        let shape = code.shape();
        assert_eq!((shape.name, shape.status), (name, status));
        assert_eq!(shape.query_code, format!("{AWS_PREFIX}{name}"));
        assert_eq!(shape.namespace, "com.amazonaws.sqs");
    }
    for (code, name, query_code) in [
        (
            E::InvalidParameterValue,
            "InvalidParameterValueException",
            "InvalidParameterValue",
        ),
        (
            E::MissingParameter,
            "MissingRequiredParameterException",
            "MissingParameter",
        ),
    ] {
        let shape = code.shape();
        assert_eq!(
            (shape.name, shape.query_code, shape.status),
            (name, query_code, 400)
        );
        assert_eq!(shape.namespace, "com.amazon.coral.service");
    }
}
