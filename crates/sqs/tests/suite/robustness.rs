//! Whatever arrives is answered: no bytes of a client make the crate panic.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::QueueFacts;
use hikyaku_sqs::queue_attributes::QueueAttributes;
use hikyaku_sqs::queue_name::QueueName;
use hikyaku_sqs::request::{Envelope, Request};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{CONTENT_BASED, FIFO, STANDARD};

/// A body with every member that any operation has, each in a shape that it may have.
const EVERYTHING: &str = r#"{"QueueUrl":"http://h/000000000000/q","QueueName":"q","MessageBody":"é\n",
"Attributes":{"DelaySeconds":"1","Policy":"{\"Statement\":[]}"},"tags":{"k":"v"},"Tags":{"k":"v"},"TagKeys":["k"],
"AttributeNames":["All"],"MessageAttributeNames":["a.*"],"MaxNumberOfMessages":1,"MaxResults":3,
"MessageAttributes":{"n":{"DataType":"Number","StringValue":"-1.5e3"},
"b":{"DataType":"Binary","BinaryValue":"AA=="}},"DelaySeconds":1,"VisibilityTimeout":1,
"ReceiptHandle":"h","MessageGroupId":"g","MessageDeduplicationId":"d","WaitTimeSeconds":1,
"SourceArn":"arn:aws:sqs:r:111111111111:d","DestinationArn":"arn:aws:sqs:r:111111111111:q",
"MaxNumberOfMessagesPerSecond":9,"TaskHandle":"eyJ0YXNrSWQiOiIwMTIzNDU2Ny04OWFiLWNkZWYtMDEyMy00NTY3ODlhYmNkZWYiLCJzb3VyY2VBcm4iOiJhcm46YXdzOnNxczpyOjExMTExMTExMTExMTpkIn0=",
"Label":"l","AWSAccountIds":["111111111111"],"Actions":["SendMessage"],
"Entries":[{"Id":"a","MessageBody":"m","ReceiptHandle":"h","VisibilityTimeout":1}]}"#;

/// Reads and checks the request to the end.
fn answer(action: Action, body: &[u8], facts: QueueFacts) -> Result<(), SqsError> {
    let name = QueueName::parse("orders").unwrap();
    let attributes = QueueAttributes::create(&name, &Default::default()).unwrap();
    let envelope = Envelope {
        path: "/000000000000/orders",
        trace_header: None,
    };
    let arn = QueueArn::try_parse("arn:aws:sqs:r:000000000000:orders").unwrap();
    match Request::from_json(action, body, envelope)? {
        Request::AddPermission(request) => {
            let permission = request.check()?;
            let policy = attributes.policy.as_deref();
            permission.add_to(policy, &arn).map(drop)
        }
        Request::ChangeMessageVisibility(request) => request.check().map(drop),
        Request::ChangeMessageVisibilityBatch(request) => request.check().map(drop),
        Request::CreateQueue(request) => request.check_existing(&attributes),
        Request::DeleteMessage(request) => request.check().map(drop),
        Request::DeleteMessageBatch(request) => request.check().map(drop),
        Request::GetQueueAttributes(request) => request.check().map(drop),
        Request::ReceiveMessage(request) => request.check(facts).map(drop),
        Request::RemovePermission(request) => request.check().map(drop),
        Request::SendMessage(request) => request.check(facts).map(drop),
        Request::SendMessageBatch(request) => request.check(facts).map(drop),
        Request::SetQueueAttributes(request) => request.check(&attributes).map(drop),
        Request::TagQueue(request) => request.check().map(drop),
        Request::UntagQueue(request) => request.check().map(drop),
        Request::DeleteQueue(_)
        | Request::CancelMessageMoveTask(_)
        | Request::GetQueueUrl(_)
        | Request::ListMessageMoveTasks(_)
        | Request::StartMessageMoveTask(_)
        | Request::ListDeadLetterSourceQueues(_)
        | Request::ListQueueTags(_)
        | Request::ListQueues(_)
        | Request::PurgeQueue(_) => Ok(()),
    }
}

fn any_facts() -> impl Strategy<Value = QueueFacts> {
    prop::sample::select(vec![STANDARD, FIFO, CONTENT_BASED])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_damaged_body_is_answered(
        action in prop::sample::select(Action::ALL.to_vec()),
        facts in any_facts(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut body = EVERYTHING.as_bytes().to_vec();
        for (position, byte) in damage {
            let position = position.index(body.len());
            body[position] = byte;
        }
        if cut {
            body.truncate(length.index(body.len()));
        }
        let _ = answer(action, &body, facts);
    }

    #[test]
    fn noise_is_answered(
        action in prop::sample::select(Action::ALL.to_vec()),
        body in vec(any::<u8>(), 0..100),
    ) {
        let _ = answer(action, &body, STANDARD);
    }
}

/// Otherwise the damage above would mostly be refused at its first step.
#[test]
fn the_undamaged_body_is_read_to_the_end() {
    for action in Action::ALL {
        if let Err(error) = answer(action, EVERYTHING.as_bytes(), STANDARD) {
            let expected = ["different value", "not valid for this queue type"];
            let known = expected.iter().any(|text| error.message.contains(text));
            assert!(known, "{action:?}: {error}");
        }
    }
}
