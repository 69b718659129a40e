//! Answers and refusals in XML and as trees, byte for byte.

use std::collections::BTreeMap;

use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::create_queue::CreateQueueResponse;
use hikyaku_sqs::actions::get_queue_attributes::GetQueueAttributesResponse;
use hikyaku_sqs::actions::list_queue_tags::ListQueueTagsResponse;
use hikyaku_sqs::actions::list_queues::ListQueuesResponse;
use hikyaku_sqs::actions::receive_message::{Delivery, ReceiveMessageResponse};
use hikyaku_sqs::actions::send_message::SendMessageResponse;
use hikyaku_sqs::actions::send_message_batch::{SendMessageBatchResponse, SendMessageBatchSuccess};
use hikyaku_sqs::error::{ErrorCode, SqsError};
use hikyaku_sqs::message::attributes::{AttributeValue, MessageAttribute, MessageAttributes};
use hikyaku_sqs::message::stored::{MessageId, StoredMessage};
use hikyaku_sqs::query::Form;
use hikyaku_sqs::queue_attributes::names::QueueAttributeName;
use hikyaku_sqs::reply::{Dialect, Reply};
use hikyaku_sqs::request::{Envelope, Request};
use hikyaku_sqs::tags::Tags;

use crate::STANDARD;

const ID: MessageId = MessageId([7; 16]);
const ID_TEXT: &str = "07070707-0707-0707-0707-070707070707";

/// The document around what an action answers.
fn xml(action: Action, answer: Vec<u8>) -> String {
    let reply = Reply::success(Dialect::Xml, "id-1", action, answer);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers[1], ("Content-Type", "text/xml".to_owned()));
    let body = String::from_utf8(reply.body).unwrap();
    let name = action.name();
    let head = format!(
        "<?xml version=\"1.0\"?><{name}Response xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">"
    );
    let tail = format!(
        "<ResponseMetadata><RequestId>id-1</RequestId></ResponseMetadata></{name}Response>"
    );
    let inner = body
        .strip_prefix(&head)
        .and_then(|body| body.strip_suffix(&tail));
    inner.unwrap_or_else(|| panic!("{body}")).to_owned()
}

fn tree(action: Action, answer: Vec<u8>) -> String {
    let reply = Reply::success(Dialect::Tree, "id-1", action, answer);
    assert_eq!(
        reply.headers[1],
        ("Content-Type", "application/json".to_owned())
    );
    String::from_utf8(reply.body).unwrap()
}

/// What `ReceiveMessage` with everything asked for answers in this dialect.
fn received(dialect: Dialect) -> Vec<u8> {
    let attribute = |name: &'static str, data_type: &'static str, value| MessageAttribute {
        name: name.into(),
        data_type: data_type.into(),
        value,
    };
    let attributes = MessageAttributes::try_new(vec![
        attribute("a", "String", AttributeValue::Text("<v>".into())),
        attribute("b", "Binary.png", AttributeValue::Binary(vec![0].into())),
    ]);
    let stored = StoredMessage {
        id: ID,
        sender_id: "AKIA".into(),
        message_group: None,
        deduplication_id: None,
        trace_header: None,
        body: "a\r\n\"b\" & c".into(),
        attributes: attributes.unwrap(),
    };
    let form = "QueueUrl=q&AttributeName.1=SenderId&MessageAttributeName.1=All";
    let form = Form::parse(form, b"").unwrap();
    let request = Request::from_query(Action::ReceiveMessage, &form, Envelope::default());
    let Ok(Request::ReceiveMessage(request)) = request else {
        panic!("{request:?}")
    };
    let message = request.check(STANDARD).unwrap().present(Delivery {
        receipt_handle: "h".to_owned(),
        stored,
        sent_ms: 1_000,
        receive_count: 1,
        first_received_ms: 1_000,
        sequence_number: None,
        dead_letter_source: None,
    });
    let messages = vec![message];
    dialect.answer(Action::ReceiveMessage, &ReceiveMessageResponse { messages })
}

fn digests(body: &str) -> hikyaku_sqs::message::MessageDigests {
    let form = format!("QueueUrl=q&MessageBody={body}");
    let form = Form::parse(&form, b"").unwrap();
    let request = Request::from_query(Action::SendMessage, &form, Envelope::default());
    let Ok(Request::SendMessage(request)) = request else {
        panic!("{request:?}")
    };
    request.check(STANDARD).unwrap().digests()
}

#[test]
fn lists_and_maps_are_flattened() {
    let write = |action, answer: Vec<u8>| xml(action, answer);
    let dialect = Dialect::Xml;
    let queue_url = "http://h/000000000000/a".to_owned();
    let created = CreateQueueResponse {
        queue_url: queue_url.clone(),
    };
    assert_eq!(
        write(
            Action::CreateQueue,
            dialect.answer(Action::CreateQueue, &created)
        ),
        "<CreateQueueResult><QueueUrl>http://h/000000000000/a</QueueUrl></CreateQueueResult>"
    );
    let listed = ListQueuesResponse {
        queue_urls: vec![queue_url.clone(), queue_url],
        next_token: Some("t".to_owned()),
    };
    assert_eq!(
        write(
            Action::ListQueues,
            dialect.answer(Action::ListQueues, &listed)
        ),
        "<ListQueuesResult><QueueUrl>http://h/000000000000/a</QueueUrl><QueueUrl>http://h/000000000000/a</QueueUrl><NextToken>t</NextToken></ListQueuesResult>"
    );
    let attributes = vec![
        (QueueAttributeName::QueueArn, "arn".to_owned()),
        (QueueAttributeName::Policy, "{\"a\":1}".to_owned()),
    ];
    let answer = dialect.answer(
        Action::GetQueueAttributes,
        &GetQueueAttributesResponse { attributes },
    );
    assert_eq!(
        write(Action::GetQueueAttributes, answer),
        "<GetQueueAttributesResult><Attribute><Name>QueueArn</Name><Value>arn</Value></Attribute><Attribute><Name>Policy</Name><Value>{&quot;a&quot;:1}</Value></Attribute></GetQueueAttributesResult>"
    );
    let tags = Tags::from_stored(BTreeMap::from([("k".to_owned(), String::new())]));
    let answer = dialect.answer(Action::ListQueueTags, &ListQueueTagsResponse::new(&tags));
    assert_eq!(
        write(Action::ListQueueTags, answer),
        "<ListQueueTagsResult><Tag><Key>k</Key><Value/></Tag></ListQueueTagsResult>"
    );
}

#[test]
fn a_sent_message_is_answered_with_its_digest() {
    let sent = SendMessageResponse::new(ID, digests("hello"), Some(42));
    let answer = Dialect::Xml.answer(Action::SendMessage, &sent);
    assert_eq!(
        xml(Action::SendMessage, answer),
        format!(
            "<SendMessageResult><MessageId>{ID_TEXT}</MessageId><MD5OfMessageBody>5d41402abc4b2a76b9719d911017c592</MD5OfMessageBody><SequenceNumber>00000000000000000042</SequenceNumber></SendMessageResult>"
        )
    );
}

#[test]
fn entries_of_a_batch_are_called_by_their_operation() {
    let form = "QueueUrl=q&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=hello\
                &SendMessageBatchRequestEntry.2.Id=b";
    let form = Form::parse(form, b"").unwrap();
    let request = Request::from_query(Action::SendMessageBatch, &form, Envelope::default());
    let Ok(Request::SendMessageBatch(request)) = request else {
        panic!("{request:?}")
    };
    let mut response = SendMessageBatchResponse::default();
    for entry in request.check(STANDARD).unwrap() {
        let sent = |message: hikyaku_sqs::message::CheckedMessage<'_>| {
            SendMessageBatchSuccess::new(entry.id, ID, message.digests(), None)
        };
        response.push(entry.id, entry.checked.map(sent));
    }
    let answer = Dialect::Xml.answer(Action::SendMessageBatch, &response);
    assert_eq!(
        xml(Action::SendMessageBatch, answer),
        format!(
            "<SendMessageBatchResult><SendMessageBatchResultEntry><Id>a</Id><MessageId>{ID_TEXT}</MessageId><MD5OfMessageBody>5d41402abc4b2a76b9719d911017c592</MD5OfMessageBody></SendMessageBatchResultEntry><BatchResultErrorEntry><Id>b</Id><SenderFault>true</SenderFault><Code>MissingParameter</Code><Message>The request must contain the parameter MessageBody.</Message></BatchResultErrorEntry></SendMessageBatchResult>"
        )
    );
}

#[test]
fn a_received_message_keeps_its_carriage_return() {
    assert_eq!(
        xml(Action::ReceiveMessage, received(Dialect::Xml)),
        format!(
            "<ReceiveMessageResult><Message><MessageId>{ID_TEXT}</MessageId><ReceiptHandle>h</ReceiptHandle><MD5OfBody>d177e5aa9e7cda8c1250c45f56bc14c4</MD5OfBody><Body>a&#xD;\n&quot;b&quot; &amp; c</Body><Attribute><Name>SenderId</Name><Value>AKIA</Value></Attribute><MD5OfMessageAttributes>e3e54f6f8a334c6b72942aa7c6cd34d8</MD5OfMessageAttributes><MessageAttribute><Name>a</Name><Value><StringValue>&lt;v&gt;</StringValue><DataType>String</DataType></Value></MessageAttribute><MessageAttribute><Name>b</Name><Value><BinaryValue>AA==</BinaryValue><DataType>Binary.png</DataType></Value></MessageAttribute></Message></ReceiveMessageResult>"
        )
    );
}

#[test]
fn nothing_received_is_an_empty_element_and_no_output_is_none() {
    let messages = Vec::new();
    let empty = Dialect::Xml.answer(Action::ReceiveMessage, &ReceiveMessageResponse { messages });
    assert_eq!(
        xml(Action::ReceiveMessage, empty),
        "<ReceiveMessageResult/>"
    );
    assert_eq!(xml(Action::DeleteMessage, Vec::new()), "");
}

#[test]
fn a_client_that_accepts_json_gets_the_tree() {
    let tree_of = |action, answer| tree(action, answer);
    assert_eq!(
        tree_of(Action::DeleteQueue, Vec::new()),
        r#"{"DeleteQueueResponse":{"ResponseMetadata":{"RequestId":"id-1"}}}"#
    );
    let listed = ListQueuesResponse {
        queue_urls: vec!["u".to_owned()],
        next_token: None,
    };
    assert_eq!(
        tree_of(
            Action::ListQueues,
            Dialect::Tree.answer(Action::ListQueues, &listed)
        ),
        r#"{"ListQueuesResponse":{"ListQueuesResult":{"NextToken":null,"queueUrls":["u"]},"ResponseMetadata":{"RequestId":"id-1"}}}"#
    );
    let attributes = vec![(QueueAttributeName::QueueArn, "arn".to_owned())];
    let described = GetQueueAttributesResponse { attributes };
    let answer = Dialect::Tree.answer(Action::GetQueueAttributes, &described);
    assert_eq!(
        tree_of(Action::GetQueueAttributes, answer),
        r#"{"GetQueueAttributesResponse":{"GetQueueAttributesResult":{"Attributes":[{"Name":"QueueArn","Value":"arn"}]},"ResponseMetadata":{"RequestId":"id-1"}}}"#
    );
    let messages = Vec::new();
    let empty = Dialect::Tree.answer(Action::ReceiveMessage, &ReceiveMessageResponse { messages });
    assert_eq!(
        tree_of(Action::ReceiveMessage, empty),
        r#"{"ReceiveMessageResponse":{"ReceiveMessageResult":{"messages":null},"ResponseMetadata":{"RequestId":"id-1"}}}"#
    );
    let received = tree_of(Action::ReceiveMessage, received(Dialect::Tree));
    for part in [
        r#""messages":[{"#,
        r#""Attributes":[{"Name":"SenderId","Value":"AKIA"}]"#,
        r#"{"Name":"b","Value":{"BinaryValue":"AA==","DataType":"Binary.png"}}"#,
    ] {
        assert!(received.contains(part), "no {part} in {received}");
    }
}

#[test]
fn refusals_name_their_code_in_each_form() {
    let missing = SqsError::queue_does_not_exist();
    let reply = Reply::error(Dialect::Xml, "id-1", &missing);
    assert_eq!(reply.status, 400);
    assert_eq!(
        String::from_utf8(reply.body).unwrap(),
        "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error><Type>Sender</Type><Code>AWS.SimpleQueueService.NonExistentQueue</Code><Message>The specified queue does not exist for this wsdl version.</Message><Detail/></Error><RequestId>id-1</RequestId></ErrorResponse>"
    );
    let reply = Reply::error(Dialect::Tree, "id-1", &SqsError::internal());
    assert_eq!(reply.status, 500);
    assert_eq!(
        String::from_utf8(reply.body).unwrap(),
        r#"{"Error":{"Code":"InternalError","Detail":null,"Message":"The request processing has failed because of an unknown error.","Type":"Receiver"},"RequestId":"id-1"}"#
    );
    let handle = SqsError::receipt_handle_is_invalid("<\u{1}>");
    let reply = Reply::error(Dialect::Xml, "id-1", &handle);
    assert_eq!(reply.status, 404);
    let body = String::from_utf8(reply.body).unwrap();
    assert!(
        body.contains("handle &quot;&lt;\u{fffd}&gt;&quot; is not"),
        "{body}"
    );
}

#[test]
fn no_action_is_an_unknown_operation_in_every_form() {
    let unknown = SqsError::new(ErrorCode::UnknownOperation, "none");
    for dialect in [Dialect::Xml, Dialect::Tree] {
        let reply = Reply::error(dialect, "id-1", &unknown);
        assert_eq!(reply, Reply::unknown_operation("id-1"));
    }
}
