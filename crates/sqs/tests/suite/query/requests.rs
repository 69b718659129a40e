//! Forms that are refused.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::error::ErrorCode;
use hikyaku_sqs::query::Form;
use hikyaku_sqs::request::{Envelope, Request};

use ErrorCode::{InvalidParameterValue, MissingParameter, ResourceNotFound};

/// An operation, parameters that it refuses, and how.
#[rustfmt::skip] // a table: one line each
const REFUSED: [(Action, &str, ErrorCode, &str); 19] = [
    (Action::SendMessage, "MessageBody=m", MissingParameter, "The request must contain the parameter QueueUrl."),
    (Action::CreateQueue, "", MissingParameter, "The request must contain the parameter QueueName."),
    (Action::CreateQueue, "QueueName=", MissingParameter, "The request must contain the parameter QueueName."),
    (Action::SetQueueAttributes, "QueueUrl=q&Attribute.1.Value=v", MissingParameter, "The request must contain the parameter Attribute.1.Name."),
    (Action::SetQueueAttributes, "QueueUrl=q&Attribute.3.Name=Policy", MissingParameter, "The request must contain the parameter Attribute.3.Value."),
    (Action::SetQueueAttributes, "QueueUrl=q&Attribute.Name=Policy", MissingParameter, "The request must contain the parameter Attribute.Value."),
    (Action::SetQueueAttributes, "QueueUrl=q&Attribute.Value=v", InvalidParameterValue, "The parameter Attribute.Value has no list index between 1 and 1000."),
    (Action::SetQueueAttributes, "QueueUrl=q&Attribute.1.Name.x=n&Attribute.1.Value=v", InvalidParameterValue, "The parameter Attribute is invalid: a value is missing."),
    (Action::TagQueue, "QueueUrl=q&Tag.1.Key=a&Tag.1.Value=b&Tag.2.Key=a&Tag.2.Value=c", InvalidParameterValue, "The parameter Tag is invalid: duplicate key `a`."),
    (Action::UntagQueue, "QueueUrl=q&TagKey.0=a", InvalidParameterValue, "The parameter TagKey.0 has no list index between 1 and 1000."),
    (Action::UntagQueue, "QueueUrl=q&TagKey.1001=a", InvalidParameterValue, "The parameter TagKey.1001 has no list index between 1 and 1000."),
    (Action::UntagQueue, "QueueUrl=q&TagKey.member.1=a", InvalidParameterValue, "The parameter TagKey.member.1 has no list index between 1 and 1000."),
    (Action::ReceiveMessage, "QueueUrl=q&WaitTimeSeconds=soon", InvalidParameterValue, "The parameter WaitTimeSeconds is invalid: invalid value: string \"soon\", expected an integer."),
    (Action::SendMessageBatch, "QueueUrl=q&SendMessageBatchRequestEntry.1.DelaySeconds=", InvalidParameterValue, "The parameter DelaySeconds is invalid: invalid value: string \"\", expected an integer."),
    (Action::StartMessageMoveTask, "SourceArn=", MissingParameter, "The request must contain the parameter SourceArn."),
    (Action::StartMessageMoveTask, "SourceArn=q", ResourceNotFound, "The resource that you specified for the SourceArn parameter doesn't exist."),
    (Action::StartMessageMoveTask, "SourceArn=arn:aws:sqs:r:111111111111:d&DestinationArn=q", ResourceNotFound, "The resource that you specified for the DestinationArn parameter doesn't exist."),
    (Action::CancelMessageMoveTask, "TaskHandle=", MissingParameter, "The request must contain the parameter TaskHandle."),
    (Action::CancelMessageMoveTask, "TaskHandle=h", InvalidParameterValue, "Value for parameter TaskHandle is invalid."),
];

#[test]
fn what_a_form_lacks_or_cannot_mean_is_named() {
    for (action, form, code, message) in REFUSED {
        let parsed = Form::parse(form, b"").unwrap();
        let error = Request::from_query(action, &parsed, Envelope::default()).unwrap_err();
        assert_eq!((error.code, &*error.message), (code, message), "{form}");
    }
}

#[test]
fn a_list_is_as_long_as_in_json() {
    let keys = |count| {
        (1..=count)
            .map(|n| format!("&TagKey.{n}=k{n}"))
            .collect::<String>()
    };
    for (extra, accepted) in [("", true), ("&TagKey=k", false)] {
        let form = format!("QueueUrl=q{}{extra}", keys(1_000));
        let form = Form::parse(&form, b"").unwrap();
        let read = Request::from_query(Action::UntagQueue, &form, Envelope::default());
        assert_eq!(read.is_ok(), accepted);
    }
}
