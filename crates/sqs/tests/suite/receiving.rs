//! Receiving, deleting and re-timing messages.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::receive_message::{CheckedReceive, Delivery, ReceiveMessageResponse};
use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::error::{ErrorCode, SqsError};
use hikyaku_sqs::message::QueueFacts;
use hikyaku_sqs::message::attributes::{AttributeValue, MessageAttribute, MessageAttributes};
use hikyaku_sqs::message::stored::{MessageId, StoredMessage};
use hikyaku_sqs::request::Request;

use crate::{FIFO, STANDARD, with_request};

fn receive<T>(
    facts: QueueFacts,
    members: &str,
    act: impl FnOnce(&CheckedReceive<'_>) -> T,
) -> Result<T, SqsError> {
    with_request(Action::ReceiveMessage, members, |request| {
        let Request::ReceiveMessage(request) = request else {
            panic!("{request:?}")
        };
        Ok(act(&request.check(facts)?))
    })
}

fn text_attribute(name: &'static str, value: &'static str) -> MessageAttribute<'static> {
    MessageAttribute {
        name: name.into(),
        data_type: "String".into(),
        value: AttributeValue::Text(value.into()),
    }
}

fn stored() -> StoredMessage<'static> {
    let attributes = vec![
        text_attribute("test-key", "test-value"),
        text_attribute("test-key-alt", "test-value-alt"),
    ];
    StoredMessage {
        id: MessageId([7; 16]),
        sender_id: "AKIA".into(),
        message_group: Some("g".into()),
        deduplication_id: Some("d".into()),
        trace_header: Some("Root=1".into()),
        body: "hello".into(),
        attributes: MessageAttributes::try_new(attributes).unwrap(),
    }
}

fn delivery(stored: StoredMessage<'_>) -> Delivery<'_> {
    Delivery {
        receipt_handle: "h".to_owned(),
        stored,
        sent_ms: 1_000,
        receive_count: 2,
        first_received_ms: 1_500,
        sequence_number: Some(9),
        dead_letter_source: None,
    }
}

/// The answer's JSON for one delivery, asked for with these members.
fn answer(members: &str, delivery: Delivery<'_>) -> String {
    receive(FIFO, members, |receive| {
        let messages = vec![receive.present(delivery)];
        String::from_utf8(ReceiveMessageResponse { messages }.to_json()).unwrap()
    })
    .unwrap()
}

#[test]
fn an_empty_receive_has_no_members() {
    assert_eq!(
        ReceiveMessageResponse {
            messages: Vec::new()
        }
        .to_json(),
        b"{}"
    );
}

#[test]
fn nothing_asked_is_nothing_told() {
    assert_eq!(
        answer("{}", delivery(stored())),
        r#"{"Messages":[{"MessageId":"07070707-0707-0707-0707-070707070707","ReceiptHandle":"h","MD5OfBody":"5d41402abc4b2a76b9719d911017c592","Body":"hello"}]}"#
    );
}

#[test]
fn all_system_attributes_are_told_as_strings() {
    let source = QueueArn::try_parse("arn:aws:sqs:eu-north-1:000000000000:source").unwrap();
    let delivery = Delivery {
        dead_letter_source: Some(&source),
        ..delivery(stored())
    };
    let json = answer(
        r#"{"AttributeNames":["SenderId"],"MessageSystemAttributeNames":["All"]}"#,
        delivery,
    );
    assert!(json.ends_with(
        r#""Body":"hello","Attributes":{"SenderId":"AKIA","SentTimestamp":"1000","ApproximateReceiveCount":"2","ApproximateFirstReceiveTimestamp":"1500","SequenceNumber":"00000000000000000009","MessageDeduplicationId":"d","MessageGroupId":"g","AWSTraceHeader":"Root=1","DeadLetterQueueSourceArn":"arn:aws:sqs:eu-north-1:000000000000:source"}}]}"#
    ), "{json}");
}

#[test]
fn a_plain_message_has_four_system_attributes() {
    let plain = StoredMessage {
        message_group: None,
        deduplication_id: None,
        trace_header: None,
        ..stored()
    };
    let delivery = Delivery {
        sequence_number: None,
        ..delivery(plain)
    };
    let json = answer(r#"{"AttributeNames":["All"]}"#, delivery);
    assert!(json.ends_with(
        r#""Attributes":{"SenderId":"AKIA","SentTimestamp":"1000","ApproximateReceiveCount":"2","ApproximateFirstReceiveTimestamp":"1500"}}]}"#
    ), "{json}");
}

#[test]
fn the_digest_is_of_the_attributes_returned() {
    let json = answer(
        r#"{"MessageAttributeNames":["test-key"]}"#,
        delivery(stored()),
    );
    assert!(json.ends_with(
        r#""MD5OfMessageAttributes":"befa18540a897f7d022bf07057754a03","MessageAttributes":{"test-key":{"StringValue":"test-value","DataType":"String"}}}]}"#
    ), "{json}");
    let json = answer(
        r#"{"MessageAttributeNames":["test.*"]}"#,
        delivery(stored()),
    );
    assert!(json.contains(r#""MD5OfMessageAttributes":"2256c3b617e2b4b3ae4f2d455dcf54d0""#));
    let json = answer(r#"{"MessageAttributeNames":["other"]}"#, delivery(stored()));
    assert!(!json.contains("MessageAttributes"));
}

#[test]
fn binary_values_are_told_in_base64() {
    let binary = MessageAttribute {
        name: "k".into(),
        data_type: "Binary".into(),
        value: AttributeValue::Binary(b"\0\xff".as_slice().into()),
    };
    let attributes = MessageAttributes::try_new(vec![binary]).unwrap();
    let json = answer(
        r#"{"MessageAttributeNames":["All"]}"#,
        delivery(StoredMessage {
            attributes,
            ..stored()
        }),
    );
    assert!(
        json.contains(r#""k":{"BinaryValue":"AP8=","DataType":"Binary"}"#),
        "{json}"
    );
}

#[test]
fn numbers_are_those_given_or_left_to_the_queue() {
    let numbers = |members: &str| {
        receive(STANDARD, members, |receive| {
            (
                receive.max_number_of_messages.get(),
                receive.visibility_timeout.map(|timeout| timeout.seconds()),
                receive.wait_time.map(|wait| wait.seconds()),
            )
        })
    };
    assert_eq!(numbers("{}").unwrap(), (1, None, None));
    let given = r#"{"MaxNumberOfMessages":10,"VisibilityTimeout":0,"WaitTimeSeconds":0}"#;
    assert_eq!(numbers(given).unwrap(), (10, Some(0), Some(0)));
    for bad in [
        r#"{"MaxNumberOfMessages":0}"#,
        r#"{"VisibilityTimeout":43201}"#,
        r#"{"WaitTimeSeconds":21}"#,
    ] {
        assert_eq!(
            numbers(bad).unwrap_err().code,
            ErrorCode::InvalidParameterValue,
            "{bad}"
        );
    }
}

#[test]
fn an_attempt_id_matters_on_fifo_queues_only() {
    let id = |facts, id: &str| {
        let members = format!("{{\"ReceiveRequestAttemptId\":\"{id}\"}}");
        receive(facts, &members, |receive| {
            receive.attempt_id.as_ref().map(|id| id.as_str().to_owned())
        })
    };
    assert_eq!(id(FIFO, "a1").unwrap().as_deref(), Some("a1"));
    assert_eq!(id(STANDARD, "a1").unwrap(), None);
    assert!(id(FIFO, "a b").is_err());
}

#[test]
fn a_delete_needs_a_handle() {
    let handle = |members: &str| {
        with_request(Action::DeleteMessage, members, |request| {
            let Request::DeleteMessage(request) = request else {
                panic!("{request:?}")
            };
            request.check().map(str::to_owned)
        })
    };
    assert_eq!(handle(r#"{"ReceiptHandle":"h"}"#).unwrap(), "h");
    assert_eq!(
        handle("{}").unwrap_err(),
        SqsError::missing_parameter("ReceiptHandle")
    );
}

#[test]
fn a_batch_of_deletes_fails_entry_by_entry() {
    let entries = r#"{"Entries":[{"Id":"a","ReceiptHandle":"h"},{"Id":"b"}]}"#;
    let outcome = with_request(Action::DeleteMessageBatch, entries, |request| {
        let Request::DeleteMessageBatch(request) = request else {
            panic!("{request:?}")
        };
        let entries = request.check()?;
        Ok(entries
            .into_iter()
            .map(|entry| entry.checked.map(str::to_owned))
            .collect::<Vec<_>>())
    })
    .unwrap();
    let missing = SqsError::missing_parameter("ReceiptHandle");
    assert_eq!(outcome, [Ok("h".to_owned()), Err(missing)]);
}

#[test]
fn a_change_needs_handle_and_timeout() {
    let change = |members: &str| {
        with_request(Action::ChangeMessageVisibility, members, |request| {
            let Request::ChangeMessageVisibility(request) = request else {
                panic!("{request:?}")
            };
            let change = request.check()?;
            Ok((change.receipt_handle.to_owned(), change.timeout.seconds()))
        })
    };
    let given = change(r#"{"ReceiptHandle":"h","VisibilityTimeout":43200}"#).unwrap();
    assert_eq!(given, ("h".to_owned(), 43_200));
    let error = change(r#"{"ReceiptHandle":"h"}"#).unwrap_err();
    assert_eq!(error, SqsError::missing_parameter("VisibilityTimeout"));
    let error = change(r#"{"ReceiptHandle":"h","VisibilityTimeout":-1}"#).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidParameterValue);
}

#[test]
fn a_batch_of_changes_is_refused_as_a_whole_by_its_ids() {
    let code = |entries: &str| {
        let members = format!("{{\"Entries\":{entries}}}");
        with_request(Action::ChangeMessageVisibilityBatch, &members, |request| {
            let Request::ChangeMessageVisibilityBatch(request) = request else {
                panic!("{request:?}")
            };
            request.check().map(|entries| entries.len())
        })
    };
    let error = code("[]").unwrap_err();
    assert_eq!(
        error.message,
        "There should be at least one ChangeMessageVisibilityBatchRequestEntry in the request."
    );
    assert_eq!(
        code(r#"[{"Id":"?"}]"#).unwrap_err().code,
        ErrorCode::InvalidBatchEntryId
    );
    assert_eq!(code(r#"[{"Id":"a"},{"Id":"b"}]"#).unwrap(), 2);
}
