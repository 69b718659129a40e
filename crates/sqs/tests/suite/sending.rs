//! Sending messages, one and in batches.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::send_message::SendMessageResponse;
use hikyaku_sqs::actions::send_message_batch::{SendMessageBatchResponse, SendMessageBatchSuccess};
use hikyaku_sqs::batch::MAX_ENTRIES;
use hikyaku_sqs::error::{ErrorCode, SqsError};
use hikyaku_sqs::message::stored::{MessageId, StoredMessage};
use hikyaku_sqs::message::{CheckedMessage, QueueFacts};
use hikyaku_sqs::request::{Envelope, Request};

use crate::{CONTENT_BASED, FIFO, STANDARD, with_request};

const ID: MessageId = MessageId([7; 16]);

fn send<T>(
    facts: QueueFacts,
    members: &str,
    act: impl FnOnce(&CheckedMessage<'_>) -> T,
) -> Result<T, SqsError> {
    with_request(Action::SendMessage, members, |request| {
        let Request::SendMessage(request) = request else {
            panic!("{request:?}")
        };
        Ok(act(&request.check(facts)?))
    })
}

fn refusal(facts: QueueFacts, members: &str) -> SqsError {
    send(facts, members, |_| ()).unwrap_err()
}

/// The outcome of each entry of a batch: its id, and the text of its failure.
fn send_batch(
    facts: QueueFacts,
    entries: &str,
) -> Result<Vec<(String, Option<SqsError>)>, SqsError> {
    let members = format!("{{\"Entries\":{entries}}}");
    with_request(Action::SendMessageBatch, &members, |request| {
        let Request::SendMessageBatch(request) = request else {
            panic!("{request:?}")
        };
        let entries = request.check(facts)?;
        let outcome = entries
            .into_iter()
            .map(|e| (e.id.as_str().to_owned(), e.checked.err()));
        Ok(outcome.collect())
    })
}

#[test]
fn a_message_is_answered_with_its_digests() {
    let members = r#"{"MessageBody":"hello",
        "MessageAttributes":{"k":{"DataType":"String","StringValue":"x"}},
        "MessageSystemAttributes":{"AWSTraceHeader":{"DataType":"String","StringValue":
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"}}}"#;
    let json = send(STANDARD, members, |message| {
        SendMessageResponse::new(ID, message.digests(), None).to_json()
    });
    assert_eq!(
        String::from_utf8(json.unwrap()).unwrap(),
        r#"{"MessageId":"07070707-0707-0707-0707-070707070707","MD5OfMessageBody":"5d41402abc4b2a76b9719d911017c592","MD5OfMessageAttributes":"a45daa70926828a2f0a1db3418e6feb4","MD5OfMessageSystemAttributes":"5ae4d5d7636402d80f4eb6d213245a88"}"#
    );
}

#[test]
fn a_plain_message_is_answered_with_one_digest() {
    let json = send(
        CONTENT_BASED,
        r#"{"MessageBody":"hello","MessageGroupId":"g"}"#,
        |message| SendMessageResponse::new(ID, message.digests(), Some(42)).to_json(),
    );
    assert_eq!(
        String::from_utf8(json.unwrap()).unwrap(),
        r#"{"MessageId":"07070707-0707-0707-0707-070707070707","MD5OfMessageBody":"5d41402abc4b2a76b9719d911017c592","SequenceNumber":"00000000000000000042"}"#
    );
}

#[test]
fn what_is_stored_reads_back() {
    let members = r#"{"MessageBody":"a\"b\r\n","MessageGroupId":"g","MessageDeduplicationId":"d",
        "MessageAttributes":{"k":{"DataType":"Binary","BinaryValue":"AP8="}}}"#;
    let bytes = send(FIFO, members, |message| {
        message.to_stored(ID, "sender").encode()
    })
    .unwrap();
    let stored = StoredMessage::decode(&bytes).unwrap();
    assert_eq!(
        (stored.id, &*stored.sender_id, &*stored.body),
        (ID, "sender", "a\"b\r\n")
    );
    assert_eq!(stored.message_group.as_deref(), Some("g"));
    assert_eq!(stored.deduplication_id.as_deref(), Some("d"));
    assert_eq!(stored.trace_header, None);
    assert_eq!(
        stored.attributes.iter().next().unwrap().value.as_bytes(),
        b"\0\xff"
    );
}

#[test]
fn the_trace_of_the_request_is_taken_unless_the_message_has_its_own() {
    let traced = |body: &str| {
        let envelope = Envelope {
            path: "/000000000000/q",
            trace_header: Some("Root=header"),
        };
        let request = Request::from_json(Action::SendMessage, body.as_bytes(), envelope).unwrap();
        let Request::SendMessage(request) = &request else {
            panic!("{request:?}")
        };
        let message = request.check(STANDARD).unwrap();
        let digest = message.digests().system_attributes;
        (
            message.trace_header.unwrap().as_str().to_owned(),
            digest.is_some(),
        )
    };
    assert_eq!(
        traced(r#"{"MessageBody":"m"}"#),
        ("Root=header".to_owned(), false)
    );
    let own = r#"{"MessageBody":"m","MessageSystemAttributes":
        {"AWSTraceHeader":{"DataType":"String","StringValue":"Root=own"}}}"#;
    assert_eq!(traced(own), ("Root=own".to_owned(), true));
}

#[test]
fn the_queues_limit_counts_body_and_attributes_and_may_be_met_exactly() {
    let small = QueueFacts {
        maximum_message_size: 1_024,
        ..STANDARD
    };
    let with_body = |length: usize| {
        let body = "é".repeat(length / 2);
        format!(
            r#"{{"MessageBody":"{body}","MessageAttributes":{{"ab":{{"DataType":"String","StringValue":"xy"}}}}}}"#
        )
    };
    assert_eq!(
        send(small, &with_body(1_014), |message| message.size_bytes()).unwrap(),
        1_024
    );
    let error = refusal(small, &with_body(1_016));
    assert_eq!(error.code, ErrorCode::InvalidParameterValue);
    assert_eq!(
        error.message,
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."
    );
}

#[test]
fn a_fifo_queue_needs_group_and_deduplication_id() {
    let error = refusal(FIFO, r#"{"MessageBody":"m"}"#);
    assert_eq!(error, SqsError::missing_parameter("MessageGroupId"));
    let error = refusal(FIFO, r#"{"MessageBody":"m","MessageGroupId":"g"}"#);
    assert_eq!(error.code, ErrorCode::InvalidParameterValue);
    assert_eq!(
        error.message,
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
    );
}

#[test]
fn an_explicit_deduplication_id_wins_over_the_content() {
    let id = |members: &str| {
        send(CONTENT_BASED, members, |message| {
            message
                .deduplication_id
                .as_ref()
                .unwrap()
                .as_str()
                .to_owned()
        })
        .unwrap()
    };
    let derived = id(r#"{"MessageBody":"abc","MessageGroupId":"g"}"#);
    assert_eq!(
        derived,
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    let explicit = r#"{"MessageBody":"abc","MessageGroupId":"g","MessageDeduplicationId":"d"}"#;
    assert_eq!(id(explicit), "d");
}

#[test]
fn a_standard_queue_takes_a_message_group_and_no_deduplication_id() {
    let group = send(
        STANDARD,
        r#"{"MessageBody":"m","MessageGroupId":"g"}"#,
        |message| {
            assert!(message.deduplication_id.is_none());
            message
                .message_group
                .as_ref()
                .map(|group| group.as_str().to_owned())
        },
    );
    assert_eq!(group.unwrap().as_deref(), Some("g"));
    let error = refusal(
        STANDARD,
        r#"{"MessageBody":"m","MessageDeduplicationId":"d"}"#,
    );
    assert_eq!(
        error.message,
        "Value d for parameter MessageDeduplicationId is invalid. Reason: The request includes a parameter that is not valid for this queue type."
    );
}

#[test]
fn a_delay_is_the_messages_own_only_on_standard_queues() {
    let delay = |facts, seconds: u32| {
        let members =
            format!(r#"{{"MessageBody":"m","MessageGroupId":"g","DelaySeconds":{seconds}}}"#);
        send(facts, &members, |message| {
            message.delay.map(|delay| delay.seconds())
        })
    };
    assert_eq!(delay(STANDARD, 900).unwrap(), Some(900));
    assert_eq!(delay(STANDARD, 0).unwrap(), Some(0));
    assert_eq!(delay(CONTENT_BASED, 0).unwrap(), None);
    assert_eq!(
        delay(CONTENT_BASED, 2).unwrap_err().message,
        "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type."
    );
    assert_eq!(
        delay(STANDARD, 54_524).unwrap_err().message,
        "Value 54524 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
    );
}

#[test]
fn a_batch_fails_entry_by_entry() {
    let small = QueueFacts {
        maximum_message_size: 1_024,
        ..STANDARD
    };
    let large = "x".repeat(1_025);
    let entries = format!(
        r#"[{{"Id":"ok","MessageBody":"m"}},{{"Id":"empty","MessageBody":""}},
            {{"Id":"control","MessageBody":"\u0000"}},{{"Id":"large","MessageBody":"{large}"}}]"#
    );
    let outcome = send_batch(small, &entries).unwrap();
    let ids: Vec<_> = outcome.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["ok", "empty", "control", "large"]);
    let codes: Vec<_> = outcome
        .iter()
        .map(|(_, error)| error.as_ref().map(|e| e.code))
        .collect();
    assert_eq!(
        codes,
        [
            None,
            Some(ErrorCode::MissingParameter),
            Some(ErrorCode::InvalidMessageContents),
            Some(ErrorCode::InvalidParameterValue)
        ]
    );
    assert_eq!(
        outcome[3].1.as_ref().unwrap().message,
        "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes."
    );
}

#[test]
fn what_a_fifo_queue_needs_refuses_the_whole_batch() {
    let entries =
        r#"[{"Id":"a","MessageBody":"m","MessageGroupId":"g"},{"Id":"b","MessageBody":"m"}]"#;
    let error = send_batch(CONTENT_BASED, entries).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidParameterValue);
    assert_eq!(
        error.message,
        "The request must contain the parameter MessageGroupId."
    );
    let error = send_batch(
        FIFO,
        r#"[{"Id":"a","MessageBody":"m","MessageGroupId":"g"}]"#,
    );
    assert!(
        error
            .unwrap_err()
            .message
            .starts_with("The queue should either have")
    );
}

#[test]
fn the_sum_of_a_batch_is_bounded_whatever_the_queues_limit() {
    let small = QueueFacts {
        maximum_message_size: 1_024,
        ..STANDARD
    };
    let of_total = |total: usize| {
        let half = "x".repeat(total / 2);
        let rest = "x".repeat(total - total / 2);
        format!(r#"[{{"Id":"a","MessageBody":"{half}"}},{{"Id":"b","MessageBody":"{rest}"}}]"#)
    };
    assert!(send_batch(small, &of_total(1_048_576)).is_ok());
    let error = send_batch(small, &of_total(1_048_577)).unwrap_err();
    assert_eq!(error.code, ErrorCode::BatchRequestTooLong);
    assert_eq!(
        error.message,
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."
    );
}

#[test]
fn binary_attributes_count_as_bytes_in_a_batch_too() {
    let body = "x".repeat(1_048_576 - "k".len() - "Binary".len() - 4);
    let of_value = |base64: &str| {
        format!(
            r#"[{{"Id":"a","MessageBody":"{body}","MessageAttributes":{{"k":{{"DataType":"Binary","BinaryValue":"{base64}"}}}}}}]"#
        )
    };
    assert!(send_batch(STANDARD, &of_value("AAAAAA==")).is_ok());
    let error = send_batch(STANDARD, &of_value("AAAAAAA=")).unwrap_err();
    assert_eq!(error.code, ErrorCode::BatchRequestTooLong);
}

#[test]
fn a_batch_is_checked_as_a_whole_first() {
    let code = |entries: &str| send_batch(STANDARD, entries).unwrap_err().code;
    assert_eq!(code("[]"), ErrorCode::EmptyBatchRequest);
    assert_eq!(
        code(r#"[{"MessageBody":""}]"#),
        ErrorCode::InvalidBatchEntryId
    );
    assert_eq!(
        code(r#"[{"Id":"a"},{"Id":"a"}]"#),
        ErrorCode::BatchEntryIdsNotDistinct
    );
    let many: Vec<_> = (0..=MAX_ENTRIES)
        .map(|n| format!("{{\"Id\":\"{n}\"}}"))
        .collect();
    assert_eq!(
        code(&format!("[{}]", many.join(","))),
        ErrorCode::TooManyEntriesInBatchRequest
    );
}

#[test]
fn a_batch_is_answered_entry_by_entry() {
    let members = r#"{"Entries":[{"Id":"a","MessageBody":"hello"},{"Id":"b","MessageBody":""}]}"#;
    let json = with_request(Action::SendMessageBatch, members, |request| {
        let Request::SendMessageBatch(request) = request else {
            panic!("{request:?}")
        };
        let mut response = SendMessageBatchResponse::default();
        for entry in request.check(STANDARD)? {
            let sent = |message: CheckedMessage<'_>| {
                SendMessageBatchSuccess::new(entry.id, ID, message.digests(), Some(1))
            };
            response.push(entry.id, entry.checked.map(sent));
        }
        Ok(String::from_utf8(response.to_json()).unwrap())
    });
    assert_eq!(
        json.unwrap(),
        r#"{"Successful":[{"Id":"a","MessageId":"07070707-0707-0707-0707-070707070707","MD5OfMessageBody":"5d41402abc4b2a76b9719d911017c592","SequenceNumber":"00000000000000000001"}],"Failed":[{"Id":"b","SenderFault":true,"Code":"MissingParameter","Message":"The request must contain the parameter MessageBody."}]}"#
    );
}
