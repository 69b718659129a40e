//! Requests of every action, as clients write them, in both dialects.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::message::attributes::{AttributeValue, MessageAttribute, MessageAttributes};
use hikyaku_sqs::message::stored::{MessageId, StoredMessage};

/// About a standard queue, posted to `/`.
const STANDARD: u8 = 0;
/// About a FIFO queue that wants deduplication ids.
const FIFO: u8 = 1;
/// About a FIFO queue that makes them.
const CONTENT_BASED: u8 = 3;
/// Posted to the queue's path, with a trace header.
const ON_QUEUE: u8 = 8 | 16;

/// Members, texts and pieces of syntax that requests are made of.
#[rustfmt::skip] // a table
pub const WORDS: &[&str] = &[
    "\"QueueUrl\":", "\"QueueName\":", "\"MessageBody\":", "\"Attributes\":", "\"tags\":", "\"Tags\":",
    "\"TagKeys\":", "\"AttributeNames\":", "\"MessageAttributeNames\":", "\"MessageAttributes\":",
    "\"MessageSystemAttributes\":", "\"DataType\":", "\"StringValue\":", "\"BinaryValue\":",
    "\"Entries\":", "\"Id\":", "\"ReceiptHandle\":", "\"VisibilityTimeout\":", "\"DelaySeconds\":",
    "\"MessageGroupId\":", "\"MessageDeduplicationId\":", "\"ReceiveRequestAttemptId\":",
    "\"MaxNumberOfMessages\":", "\"WaitTimeSeconds\":", "\"MaxResults\":", "\"NextToken\":", "null",
    "true", "{}", "[]", "{", "}", "[", "]", ",", ":", "\"", "\\u0000", "\\ud800", "\\udc00", "\\\"",
    "AWSTraceHeader", "String", "Number", "Binary", "Number.int", "AWS.", "aws.", "..", "All", "a.*",
    "VisibilityTimeout", "RedrivePolicy", "FifoQueue", "Policy", "KmsMasterKeyId", "SqsManagedSseEnabled",
    "http://h/000000000000/orders", "orders.fifo", "AA==", "\u{1}", "\u{e9}", "\u{fffe}", "\r", "<", "&",
    "Action=", "&Attribute.1.Name=", "&Attribute.1.Value=", "&Attribute.Name=", "&AttributeName.1=",
    "&AttributeName=", "&Tag.1.Key=", "&Tag.1.Value=", "&TagKey.1=", "&MessageAttribute.1.Name=",
    "&MessageAttribute.1.Value.DataType=", "&MessageAttribute.1.Value.StringValue=",
    "&MessageAttribute.1.Value.BinaryValue=", "&SendMessageBatchRequestEntry.1.Id=",
    "&SendMessageBatchRequestEntry.2.MessageBody=", "&DeleteMessageBatchRequestEntry.1.Id=",
    "&ChangeMessageVisibilityBatchRequestEntry.1.Id=", "&QueueUrl=", "&MessageBody=", ".1", ".0", ".1000",
    ".1001", ".", "=", "%", "%00", "%2E", "%26", "%ff", "%C3%A9", "+", "\n",
];

/// Everything a message may have besides its body.
const ATTRIBUTES: &str = r#""MessageAttributes":{"n":{"DataType":"Number","StringValue":"-1.5e3"},
"b.c":{"DataType":"Binary.gif","BinaryValue":"AAEC"},"s":{"DataType":"String","StringValue":"<é>"}},
"MessageSystemAttributes":{"AWSTraceHeader":{"DataType":"String","StringValue":"Root=1"}}"#;

/// Requests in JSON.
pub fn json() -> Vec<Vec<u8>> {
    let url = r#""QueueUrl":"http://h/000000000000/orders""#;
    let about = |members: &str| format!("{{{url},{members}}}");
    let entry =
        |id: usize| format!(r#"{{"Id":"e{id}","ReceiptHandle":"AQEB","VisibilityTimeout":{id}}}"#);
    let entries = [1, 2, 3].map(entry).join(",");
    #[rustfmt::skip] // a table
    let requests: [(Action, u8, String); 33] = [
        (Action::AddPermission, STANDARD, about(r#""Label":"l","AWSAccountIds":["111111111111"],"Actions":["SendMessage","*"]"#)),
        (Action::ChangeMessageVisibility, STANDARD, about(r#""ReceiptHandle":"AQEB","VisibilityTimeout":0"#)),
        (Action::ChangeMessageVisibilityBatch, STANDARD, about(&format!(r#""Entries":[{entries}]"#))),
        (Action::CreateQueue, STANDARD, r#"{"QueueName":"orders","Attributes":{"DelaySeconds":"1","MaximumMessageSize":"1024","MessageRetentionPeriod":"60","ReceiveMessageWaitTimeSeconds":"20","VisibilityTimeout":"43200"},"tags":{"k":"v"}}"#.to_owned()),
        (Action::CreateQueue, STANDARD, r#"{"QueueName":"o.fifo","Attributes":{"FifoQueue":"true","ContentBasedDeduplication":"True","DeduplicationScope":"messageGroup","FifoThroughputLimit":"perMessageGroupId"}}"#.to_owned()),
        (Action::CreateQueue, STANDARD, r#"{"QueueName":"o","Attributes":{"KmsMasterKeyId":"k","KmsDataKeyReusePeriodSeconds":"60","Policy":"{\"Statement\":[]}","RedriveAllowPolicy":"{\"redrivePermission\":\"denyAll\"}"}}"#.to_owned()),
        (Action::CreateQueue, STANDARD, r#"{"QueueName":"o","Attributes":{"RedrivePolicy":"{\"deadLetterTargetArn\":\"arn:aws:sqs:local:000000000000:d\",\"maxReceiveCount\":\"5\"}"}}"#.to_owned()),
        (Action::DeleteMessage, STANDARD, about(r#""ReceiptHandle":"AQEB""#)),
        (Action::DeleteMessageBatch, STANDARD, about(&format!(r#""Entries":[{entries}]"#))),
        (Action::DeleteQueue, ON_QUEUE, String::new()),
        (Action::DeleteQueue, STANDARD, r#"{"QueueUrl":"orders"}"#.to_owned()),
        (Action::GetQueueAttributes, STANDARD, about(r#""AttributeNames":["All","QueueArn"]"#)),
        (Action::GetQueueAttributes, ON_QUEUE, r#"{"AttributeNames":null}"#.to_owned()),
        (Action::GetQueueUrl, STANDARD, r#"{"QueueName":"orders","QueueOwnerAWSAccountId":"000000000000"}"#.to_owned()),
        (Action::ListQueueTags, STANDARD, about(r#""Other":[[[1.5e3,true,null]]]"#)),
        (Action::ListQueues, STANDARD, r#"{"QueueNamePrefix":"<&\"","MaxResults":"7","NextToken":"b3JkZXJz"}"#.to_owned()),
        (Action::ListQueues, STANDARD, String::new()),
        (Action::PurgeQueue, STANDARD, about(r#""A":1"#)),
        (Action::ReceiveMessage, STANDARD, about(r#""AttributeNames":["All"],"MessageAttributeNames":["All","n","b.*"],"MaxNumberOfMessages":10,"VisibilityTimeout":"30","WaitTimeSeconds":0"#)),
        (Action::ReceiveMessage, FIFO, about(r#""MessageSystemAttributeNames":["SentTimestamp","SequenceNumber"],"ReceiveRequestAttemptId":"again"}"#.trim_end_matches('}'))),
        (Action::ReceiveMessage, ON_QUEUE, "{}".to_owned()),
        (Action::RemovePermission, STANDARD, about(r#""Label":"l""#)),
        (Action::SendMessage, STANDARD, about(r#""MessageBody":"h\u00e9llo\r\n<&>","DelaySeconds":900"#)),
        (Action::SendMessage, STANDARD | ON_QUEUE, format!(r#"{{"MessageBody":"m",{ATTRIBUTES}}}"#)),
        (Action::SendMessage, STANDARD, about(r#""MessageBody":"m","MessageGroupId":"tenant""#)),
        (Action::SendMessage, FIFO, about(r#""MessageBody":"m","MessageGroupId":"g","MessageDeduplicationId":"d""#)),
        (Action::SendMessage, CONTENT_BASED, about(&format!(r#""MessageBody":"m","MessageGroupId":"g",{ATTRIBUTES}"#))),
        (Action::SendMessageBatch, STANDARD, about(&format!(r#""Entries":[{{"Id":"a","MessageBody":"one",{ATTRIBUTES}}},{{"Id":"b","MessageBody":"","DelaySeconds":901}}]"#))),
        (Action::SendMessageBatch, CONTENT_BASED, about(r#""Entries":[{"Id":"a","MessageBody":"1","MessageGroupId":"g"},{"Id":"b","MessageBody":"2","MessageGroupId":"g"}]"#)),
        (Action::SetQueueAttributes, STANDARD, about(r#""Attributes":{"VisibilityTimeout":"0","Policy":"","SqsManagedSseEnabled":"false"}"#)),
        (Action::SetQueueAttributes, FIFO, about(r#""Attributes":{"ContentBasedDeduplication":"true"}"#)),
        (Action::TagQueue, STANDARD, about(r#""Tags":{"a":"1","b":""}"#)),
        (Action::UntagQueue, STANDARD, about(r#""TagKeys":["a","b","a"]"#)),
    ];
    requests
        .into_iter()
        .map(|(action, place, body)| input(action, place, &body))
        .collect()
}

/// Requests as forms: of a body alone, of a URL alone, of both.
pub fn query() -> Vec<Vec<u8>> {
    let url = "QueueUrl=http%3A%2F%2Fh%2F000000000000%2Forders";
    let attributes = "MessageAttribute.1.Name=n&MessageAttribute.1.Value.DataType=Number\
                      &MessageAttribute.1.Value.StringValue=1&MessageAttribute.2.Name=b\
                      &MessageAttribute.2.Value.DataType=Binary&MessageAttribute.2.Value.BinaryValue=AA%3D%3D\
                      &MessageSystemAttribute.1.Name=AWSTraceHeader\
                      &MessageSystemAttribute.1.Value.DataType=String\
                      &MessageSystemAttribute.1.Value.StringValue=Root";
    let batch = |name: &str, member: &str| {
        let entry = |n: usize| format!("&{name}.{n}.Id=e{n}&{name}.{n}.{member}");
        [1, 2, 10].map(entry).concat()
    };
    #[rustfmt::skip] // a table
    let requests: [(Action, u8, String); 25] = [
        (Action::AddPermission, STANDARD, format!("{url}&Label=l&AWSAccountId.1=111111111111&ActionName.1=SendMessage&ActionName.2=%2A")),
        (Action::ChangeMessageVisibility, STANDARD, format!("{url}&ReceiptHandle=AQEB&VisibilityTimeout=0")),
        (Action::ChangeMessageVisibilityBatch, STANDARD, format!("{url}{}", batch("ChangeMessageVisibilityBatchRequestEntry", "VisibilityTimeout=9"))),
        (Action::CreateQueue, STANDARD, "QueueName=orders&Attribute.1.Name=DelaySeconds&Attribute.1.Value=1&Tag.1.Key=k&Tag.1.Value=v".to_owned()),
        (Action::CreateQueue, STANDARD, "QueueName=o.fifo&Attribute.Name=FifoQueue&Attribute.Value=true".to_owned()),
        (Action::DeleteMessage, STANDARD, format!("{url}&ReceiptHandle=AQEB%2B%2F")),
        (Action::DeleteMessageBatch, STANDARD, format!("{url}{}", batch("DeleteMessageBatchRequestEntry", "ReceiptHandle=h"))),
        (Action::DeleteQueue, ON_QUEUE, "Version=2012-11-05".to_owned()),
        (Action::GetQueueAttributes, STANDARD, format!("{url}&AttributeName.1=All&AttributeName.2=QueueArn")),
        (Action::GetQueueAttributes, ON_QUEUE, "AttributeName=All".to_owned()),
        (Action::GetQueueUrl, ON_QUEUE, "QueueName=orders".to_owned()),
        (Action::ListQueueTags, STANDARD, url.to_owned()),
        (Action::ListQueues, STANDARD, "QueueNamePrefix=%3C%26&MaxResults=7".to_owned()),
        (Action::PurgeQueue, STANDARD, url.to_owned()),
        (Action::ReceiveMessage, STANDARD, format!("{url}&AttributeName.1=All&MessageAttributeName.1=n&MessageAttributeName.2=b.%2A&MaxNumberOfMessages=10&WaitTimeSeconds=20")),
        (Action::ReceiveMessage, FIFO | ON_QUEUE, "ReceiveRequestAttemptId=again&AttributeName=&VisibilityTimeout=5".to_owned()),
        (Action::RemovePermission, STANDARD, format!("{url}&Label=l")),
        (Action::SendMessage, STANDARD, format!("{url}&MessageBody=h%C3%A9llo+%0D%0A%3C&DelaySeconds=900")),
        (Action::SendMessage, STANDARD, format!("{url}&MessageBody=m&{attributes}")),
        (Action::SendMessage, FIFO | ON_QUEUE, "MessageBody=m&MessageGroupId=g&MessageDeduplicationId=d".to_owned()),
        (Action::SendMessageBatch, STANDARD, format!("{url}{}", batch("SendMessageBatchRequestEntry", "MessageBody=m"))),
        (Action::SetQueueAttributes, STANDARD, format!("{url}&Attribute.1.Name=Policy&Attribute.1.Value=&Attribute.2.Name=VisibilityTimeout&Attribute.2.Value=7")),
        (Action::SetQueueAttributes, FIFO, format!("{url}&Attribute.3.Name=ContentBasedDeduplication&Attribute.3.Value=true")),
        (Action::TagQueue, STANDARD, format!("{url}&Tag.1.Key=a&Tag.1.Value=&Tag.12.Value=z&Tag.12.Key=b")),
        (Action::UntagQueue, STANDARD, format!("{url}&TagKey.1=a&TagKey.2=b")),
    ];
    let with_action = |(position, (action, place, form)): (usize, (Action, u8, String))| {
        let name = action.name();
        let text = match position % 3 {
            0 => format!("\nAction={name}&{form}"),
            1 => format!("Action={name}&{form}\n"),
            _ => format!("Action={name}&Version=2012-11-05\n{form}"),
        };
        input(action, place, &text)
    };
    requests.into_iter().enumerate().map(with_action).collect()
}

fn input(action: Action, place: u8, request: &str) -> Vec<u8> {
    let position = Action::ALL.iter().position(|other| *other == action);
    let position = position.and_then(|position| u8::try_from(position).ok());
    let position = position.expect("there are 23 actions");
    [&[position, place], request.as_bytes()].concat()
}

/// A message with everything, as it is stored.
pub fn stored_message() -> Vec<u8> {
    let attribute = |name: &'static str, data_type: &'static str, value| MessageAttribute {
        name: name.into(),
        data_type: data_type.into(),
        value,
    };
    let attributes = vec![
        attribute("n", "Number", AttributeValue::Text("1".into())),
        attribute("b.c", "Binary", AttributeValue::Binary(vec![0, 1].into())),
    ];
    let stored = StoredMessage {
        id: MessageId([9; 16]),
        sender_id: "000000000000".into(),
        message_group: Some("g".into()),
        deduplication_id: Some("d".into()),
        trace_header: Some("Root=1".into()),
        body: "h\u{e9}llo\r<&>".into(),
        attributes: MessageAttributes::try_new(attributes).expect("names are distinct"),
    };
    stored.encode()
}
