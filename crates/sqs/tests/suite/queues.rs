//! Creating, finding, describing and tagging queues.

use std::collections::BTreeMap;

use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::create_queue::{CreateQueue, CreateQueueResponse};
use hikyaku_sqs::actions::get_queue_attributes::GetQueueAttributesResponse;
use hikyaku_sqs::actions::list_queue_tags::ListQueueTagsResponse;
use hikyaku_sqs::actions::list_queues::{ListQueues, ListQueuesResponse};
use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::error::{ErrorCode, SqsError};
use hikyaku_sqs::queue_attributes::QueueAttributes;
use hikyaku_sqs::queue_attributes::description::{MessageCounts, QueueDescription};
use hikyaku_sqs::queue_name::QueueName;
use hikyaku_sqs::queue_url::QueueRef;
use hikyaku_sqs::request::{Envelope, Request};
use hikyaku_sqs::tags::Tags;

use crate::{read, with_request};

fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).unwrap()
}

fn create(body: &str) -> Result<CreateQueue, SqsError> {
    match Request::from_json(Action::CreateQueue, body.as_bytes(), Envelope::default())? {
        Request::CreateQueue(request) => Ok(*request),
        other => panic!("read as {other:?}"),
    }
}

fn list(body: &str) -> Result<ListQueues, SqsError> {
    match Request::from_json(Action::ListQueues, body.as_bytes(), Envelope::default())? {
        Request::ListQueues(request) => Ok(request),
        other => panic!("read as {other:?}"),
    }
}

#[test]
fn creates_a_queue_with_attributes_and_tags() {
    let body = r#"{"QueueName":"orders.fifo","tags":{"team":"a","empty":""},
                   "Attributes":{"FifoQueue":"true","VisibilityTimeout":"7"}}"#;
    let request = create(body).unwrap();
    assert_eq!(request.name.as_str(), "orders.fifo");
    assert_eq!(request.attributes.visibility_timeout_seconds, 7);
    assert!(request.attributes.fifo.is_some());
    assert_eq!(request.tags.as_map()["team"], "a");
    assert_eq!(request.tags.as_map()["empty"], "");
    let url = "http://h/000000000000/orders.fifo".to_owned();
    assert_eq!(
        text(CreateQueueResponse { queue_url: url }.to_json()),
        r#"{"QueueUrl":"http://h/000000000000/orders.fifo"}"#
    );
}

#[test]
fn a_queue_needs_a_name() {
    for body in ["{}", r#"{"QueueName":""}"#] {
        let error = create(body).unwrap_err();
        assert_eq!(
            error.message,
            "The request must contain the parameter QueueName."
        );
    }
}

#[test]
fn creating_again_succeeds_unless_a_given_attribute_differs() {
    let first = create(r#"{"QueueName":"q","Attributes":{"DelaySeconds":"5"}}"#).unwrap();
    let again = |attributes: &str| {
        let body = format!("{{\"QueueName\":\"q\",\"Attributes\":{attributes}}}");
        create(&body).unwrap().check_existing(&first.attributes)
    };
    assert!(again("{}").is_ok());
    assert!(again(r#"{"DelaySeconds":"5"}"#).is_ok());
    let error = again(r#"{"DelaySeconds":"0"}"#).unwrap_err();
    assert_eq!(error.code, ErrorCode::QueueNameExists);
    assert_eq!(
        error.message,
        "A queue already exists with the same name and a different value for attribute DelaySeconds"
    );
}

#[test]
fn finds_a_queue_by_name_and_owner() {
    let find = |body: &str| -> Result<QueueRef, SqsError> {
        let envelope = Envelope::default();
        let request = Request::from_json(Action::GetQueueUrl, body.as_bytes(), envelope)?;
        let Request::GetQueueUrl(request) = request else {
            panic!("{request:?}")
        };
        Ok(request.queue)
    };
    let own = find(r#"{"QueueName":"q"}"#).unwrap();
    assert_eq!((own.account, own.name.as_str()), (None, "q"));
    let body = r#"{"QueueName":"q","QueueOwnerAWSAccountId":"123456789012"}"#;
    assert_eq!(
        find(body).unwrap().account.unwrap().as_str(),
        "123456789012"
    );
    let impossible = find(r#"{"QueueName":"no such"}"#).unwrap_err();
    assert_eq!(impossible, SqsError::queue_does_not_exist());
    assert_eq!(find("{}").unwrap_err().code, ErrorCode::MissingParameter);
}

#[test]
fn lists_queues_page_by_page() {
    let first = list(r#"{"QueueNamePrefix":"or","MaxResults":2}"#).unwrap();
    assert_eq!(
        (first.prefix.as_str(), first.page(), &first.after),
        ("or", 2, &None)
    );
    let last = QueueName::parse("orders").unwrap();
    let token = first.next_token(&last).unwrap();
    let second = list(&format!("{{\"MaxResults\":2,\"NextToken\":\"{token}\"}}")).unwrap();
    assert_eq!(second.after, Some(last));
}

#[test]
fn without_max_results_there_is_one_page_of_a_thousand() {
    let request = list("{}").unwrap();
    assert_eq!(request.page(), 1_000);
    assert_eq!(request.next_token(&QueueName::parse("q").unwrap()), None);
}

#[test]
fn bad_pages_are_refused() {
    for body in [
        r#"{"MaxResults":0}"#,
        r#"{"MaxResults":1001}"#,
        r#"{"NextToken":"?"}"#,
    ] {
        assert_eq!(
            list(body).unwrap_err().code,
            ErrorCode::InvalidParameterValue,
            "{body}"
        );
    }
}

#[test]
fn an_empty_listing_has_no_members() {
    let empty = ListQueuesResponse {
        queue_urls: Vec::new(),
        next_token: None,
    };
    assert_eq!(text(empty.to_json()), "{}");
    let full = ListQueuesResponse {
        queue_urls: vec!["u".to_owned()],
        next_token: Some("t".to_owned()),
    };
    assert_eq!(
        text(full.to_json()),
        r#"{"QueueUrls":["u"],"NextToken":"t"}"#
    );
}

#[test]
fn attributes_are_told_as_strings() {
    let attributes =
        QueueAttributes::create(&QueueName::parse("orders").unwrap(), &Default::default()).unwrap();
    let arn = QueueArn::try_parse("arn:aws:sqs:eu-north-1:000000000000:orders").unwrap();
    let description = QueueDescription {
        attributes: &attributes,
        arn: &arn,
        created_seconds: 1,
        last_modified_seconds: 2,
        counts: MessageCounts {
            visible: 3,
            ..MessageCounts::default()
        },
    };
    let told = |names: &str| {
        with_request(Action::GetQueueAttributes, names, |request| {
            let Request::GetQueueAttributes(request) = request else {
                panic!("{request:?}")
            };
            let attributes = request.check()?.of(&description);
            Ok(text(GetQueueAttributesResponse { attributes }.to_json()))
        })
    };
    assert_eq!(told("{}").unwrap(), "{}");
    assert_eq!(told(r#"{"AttributeNames":["Policy"]}"#).unwrap(), "{}");
    assert_eq!(
        told(r#"{"AttributeNames":["ApproximateNumberOfMessages","DelaySeconds"]}"#).unwrap(),
        r#"{"Attributes":{"DelaySeconds":"0","ApproximateNumberOfMessages":"3"}}"#
    );
    let error = told(r#"{"AttributeNames":["Foobar"]}"#).unwrap_err();
    assert_eq!(error.message, "Unknown Attribute Foobar.");
}

#[test]
fn sets_attributes_on_what_holds_now() {
    let name = QueueName::parse("orders").unwrap();
    let current = QueueAttributes::create(&name, &Default::default()).unwrap();
    let set = |attributes: &str| {
        let members = format!("{{\"Attributes\":{attributes}}}");
        with_request(Action::SetQueueAttributes, &members, |request| {
            let Request::SetQueueAttributes(request) = request else {
                panic!("{request:?}")
            };
            request.check(&current)
        })
    };
    assert_eq!(set(r#"{"DelaySeconds":"9"}"#).unwrap().delay_seconds, 9);
    assert_eq!(
        set("{}").unwrap_err(),
        SqsError::missing_parameter("Attributes")
    );
    let error = set(r#"{"DelaySeconds":"901"}"#).unwrap_err();
    assert_eq!(
        error.message,
        "Invalid value for the parameter DelaySeconds."
    );
}

#[test]
fn tags_to_add_and_keys_to_take_off_are_checked() {
    let tag = |members: &str| {
        with_request(Action::TagQueue, members, |request| {
            let Request::TagQueue(request) = request else {
                panic!("{request:?}")
            };
            request.check()
        })
    };
    let untag = |members: &str| {
        with_request(Action::UntagQueue, members, |request| {
            let Request::UntagQueue(request) = request else {
                panic!("{request:?}")
            };
            request.check()
        })
    };
    let added = tag(r#"{"Tags":{"a":"3","A":""}}"#).unwrap().into_map();
    let expected = [("A", ""), ("a", "3")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(added, BTreeMap::from(expected));
    assert_eq!(
        untag(r#"{"TagKeys":["b","a","b"]}"#).unwrap(),
        ["a", "b"].map(str::to_owned).into()
    );
    assert_eq!(tag("{}").unwrap_err(), SqsError::missing_parameter("Tags"));
    for members in ["{}", r#"{"TagKeys":["a",""]}"#] {
        let error = untag(members).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidParameterValue, "{members}");
    }
    let many: Vec<_> = (0..51).map(|n| format!("\"k{n}\":\"v\"")).collect();
    let error = tag(&format!("{{\"Tags\":{{{}}}}}", many.join(","))).unwrap_err();
    assert_eq!(error.message, "Too many tags added for queue orders.");
}

#[test]
fn a_queue_without_tags_has_an_answer_without_members() {
    assert_eq!(
        text(ListQueueTagsResponse::new(&Tags::default()).to_json()),
        "{}"
    );
    let tags = Tags::from_stored([("k".to_owned(), "v".to_owned())].into());
    assert_eq!(
        text(ListQueueTagsResponse::new(&tags).to_json()),
        r#"{"Tags":{"k":"v"}}"#
    );
}

#[test]
fn the_path_names_the_queue_when_the_body_does_not() {
    let at = |path| Envelope {
        path,
        trace_header: None,
    };
    let request =
        Request::from_json(Action::PurgeQueue, b"{}", at("/000000000000/orders")).unwrap();
    assert_eq!(request.queue().unwrap().name.as_str(), "orders");
    let error = Request::from_json(Action::PurgeQueue, b"{}", at("/")).unwrap_err();
    assert_eq!(error, SqsError::missing_parameter("QueueUrl"));
}

#[test]
fn a_missing_queue_is_reported_before_a_bad_value() {
    // Reading settles the shape only: none of these values is looked at before the queue is found.
    for (action, members) in [
        (
            Action::SendMessage,
            r#"{"MessageBody":"","DelaySeconds":-1}"#,
        ),
        (Action::SendMessageBatch, r#"{"Entries":[]}"#),
        (Action::ReceiveMessage, r#"{"MaxNumberOfMessages":11}"#),
        (Action::DeleteMessage, r#"{"ReceiptHandle":""}"#),
        (Action::DeleteMessageBatch, r#"{"Entries":[{"Id":"a b"}]}"#),
        (
            Action::ChangeMessageVisibility,
            r#"{"VisibilityTimeout":99999}"#,
        ),
        (
            Action::GetQueueAttributes,
            r#"{"AttributeNames":["Foobar"]}"#,
        ),
        (
            Action::SetQueueAttributes,
            r#"{"Attributes":{"Foobar":"1"}}"#,
        ),
    ] {
        assert!(read(action, members).is_ok(), "{action:?}");
    }
}
