//! The names of the Query dialect, as data: how each member of each operation is written in a form.
//!
//! A form and a JSON body that say the same are read as the same request. What a row's operation
//! answers is in `answers`.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::query::Form;
use hikyaku_sqs::request::{Envelope, Request};

/// An operation, parameters of a form, and the members that they are.
#[rustfmt::skip] // a table: one line each
const FORMS: [(&str, &str, &str); 44] = [
    ("CreateQueue", "QueueName=q", r#"{"QueueName":"q"}"#),
    ("CreateQueue", "QueueName=q&Attribute.1.Name=DelaySeconds&Attribute.1.Value=5", r#"{"QueueName":"q","Attributes":{"DelaySeconds":"5"}}"#),
    ("CreateQueue", "QueueName=q&Attribute.2.Name=Policy&Attribute.2.Value=&Attribute.1.Name=DelaySeconds&Attribute.1.Value=5", r#"{"QueueName":"q","Attributes":{"DelaySeconds":"5","Policy":""}}"#),
    ("CreateQueue", "QueueName=q&Tag.1.Key=a&Tag.1.Value=b&Tag.2.Key=c&Tag.2.Value=", r#"{"QueueName":"q","tags":{"a":"b","c":""}}"#),
    ("DeleteQueue", "QueueUrl=q", r#"{"QueueUrl":"q"}"#),
    ("PurgeQueue", "QueueUrl=http%3A%2F%2Fh%2F000000000000%2Fq", r#"{"QueueUrl":"http://h/000000000000/q"}"#),
    ("GetQueueUrl", "QueueName=q&QueueOwnerAWSAccountId=111111111111", r#"{"QueueName":"q","QueueOwnerAWSAccountId":"111111111111"}"#),
    ("GetQueueAttributes", "QueueUrl=q", r#"{"QueueUrl":"q"}"#),
    ("GetQueueAttributes", "QueueUrl=q&AttributeName.1=All", r#"{"QueueUrl":"q","AttributeNames":["All"]}"#),
    ("GetQueueAttributes", "QueueUrl=q&AttributeName.2=Policy&AttributeName.1=All", r#"{"QueueUrl":"q","AttributeNames":["All","Policy"]}"#),
    ("GetQueueAttributes", "QueueUrl=q&AttributeName.10=b&AttributeName.9=a", r#"{"QueueUrl":"q","AttributeNames":["a","b"]}"#),
    ("GetQueueAttributes", "QueueUrl=q&AttributeName=All", r#"{"QueueUrl":"q","AttributeNames":["All"]}"#),
    ("GetQueueAttributes", "QueueUrl=q&AttributeName=", r#"{"QueueUrl":"q","AttributeNames":[]}"#),
    ("SetQueueAttributes", "QueueUrl=q&Attribute.1.Name=Policy&Attribute.1.Value=%7B%7D", r#"{"QueueUrl":"q","Attributes":{"Policy":"{}"}}"#),
    ("SetQueueAttributes", "QueueUrl=q&Attribute.Name=DelaySeconds&Attribute.Value=1", r#"{"QueueUrl":"q","Attributes":{"DelaySeconds":"1"}}"#),
    ("ListQueues", "QueueNamePrefix=a&MaxResults=3&NextToken=YQ", r#"{"QueueNamePrefix":"a","MaxResults":3,"NextToken":"YQ"}"#),
    ("ListDeadLetterSourceQueues", "QueueUrl=q&MaxResults=3&NextToken=YQ", r#"{"QueueUrl":"q","MaxResults":3,"NextToken":"YQ"}"#),
    ("ListQueueTags", "QueueUrl=q", r#"{"QueueUrl":"q"}"#),
    ("TagQueue", "QueueUrl=q&Tag.1.Key=a&Tag.1.Value=b", r#"{"QueueUrl":"q","Tags":{"a":"b"}}"#),
    ("UntagQueue", "QueueUrl=q&TagKey.1=a&TagKey.2=b", r#"{"QueueUrl":"q","TagKeys":["a","b"]}"#),
    ("SendMessage", "QueueUrl=q&MessageBody=a+b%26c%0D%C3%A9", r#"{"QueueUrl":"q","MessageBody":"a b&c\ré"}"#),
    ("SendMessage", "QueueUrl=q&MessageBody=m&DelaySeconds=5", r#"{"QueueUrl":"q","MessageBody":"m","DelaySeconds":5}"#),
    ("SendMessage", "QueueUrl=q&MessageBody=m&MessageGroupId=g&MessageDeduplicationId=d", r#"{"QueueUrl":"q","MessageBody":"m","MessageGroupId":"g","MessageDeduplicationId":"d"}"#),
    ("SendMessage", "QueueUrl=q&MessageBody=m&MessageAttribute.1.Name=n&MessageAttribute.1.Value.DataType=Number&MessageAttribute.1.Value.StringValue=1", r#"{"QueueUrl":"q","MessageBody":"m","MessageAttributes":{"n":{"DataType":"Number","StringValue":"1"}}}"#),
    ("SendMessage", "QueueUrl=q&MessageBody=m&MessageAttribute.1.Name=b&MessageAttribute.1.Value.DataType=Binary&MessageAttribute.1.Value.BinaryValue=AA%3D%3D", r#"{"QueueUrl":"q","MessageBody":"m","MessageAttributes":{"b":{"DataType":"Binary","BinaryValue":"AA=="}}}"#),
    ("SendMessage", "QueueUrl=q&MessageBody=m&MessageSystemAttribute.1.Name=AWSTraceHeader&MessageSystemAttribute.1.Value.DataType=String&MessageSystemAttribute.1.Value.StringValue=Root", r#"{"QueueUrl":"q","MessageBody":"m","MessageSystemAttributes":{"AWSTraceHeader":{"DataType":"String","StringValue":"Root"}}}"#),
    ("SendMessageBatch", "QueueUrl=q", r#"{"QueueUrl":"q","Entries":[]}"#),
    ("SendMessageBatch", "QueueUrl=q&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=m&SendMessageBatchRequestEntry.2.Id=b&SendMessageBatchRequestEntry.2.MessageBody=n&SendMessageBatchRequestEntry.2.DelaySeconds=3", r#"{"QueueUrl":"q","Entries":[{"Id":"a","MessageBody":"m"},{"Id":"b","MessageBody":"n","DelaySeconds":3}]}"#),
    ("SendMessageBatch", "QueueUrl=q&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageGroupId=g&SendMessageBatchRequestEntry.1.MessageDeduplicationId=d", r#"{"QueueUrl":"q","Entries":[{"Id":"a","MessageGroupId":"g","MessageDeduplicationId":"d"}]}"#),
    ("SendMessageBatch", "QueueUrl=q&SendMessageBatchRequestEntry.1.MessageAttribute.1.Name=n&SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.DataType=String&SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.StringValue=v", r#"{"QueueUrl":"q","Entries":[{"MessageAttributes":{"n":{"DataType":"String","StringValue":"v"}}}]}"#),
    ("SendMessageBatch", "QueueUrl=q&SendMessageBatchRequestEntry.1.MessageSystemAttribute.1.Name=AWSTraceHeader&SendMessageBatchRequestEntry.1.MessageSystemAttribute.1.Value.DataType=String&SendMessageBatchRequestEntry.1.MessageSystemAttribute.1.Value.StringValue=v", r#"{"QueueUrl":"q","Entries":[{"MessageSystemAttributes":{"AWSTraceHeader":{"DataType":"String","StringValue":"v"}}}]}"#),
    ("ReceiveMessage", "QueueUrl=q&MaxNumberOfMessages=2&VisibilityTimeout=3&WaitTimeSeconds=4&ReceiveRequestAttemptId=r", r#"{"QueueUrl":"q","MaxNumberOfMessages":2,"VisibilityTimeout":3,"WaitTimeSeconds":4,"ReceiveRequestAttemptId":"r"}"#),
    // One name in a form, two members: a union of both takes effect.
    ("ReceiveMessage", "QueueUrl=q&AttributeName.1=SenderId&MessageAttributeName.1=a.*", r#"{"QueueUrl":"q","AttributeNames":["SenderId"],"MessageSystemAttributeNames":["SenderId"],"MessageAttributeNames":["a.*"]}"#),
    ("DeleteMessage", "QueueUrl=q&ReceiptHandle=h%2B%2F%3D", r#"{"QueueUrl":"q","ReceiptHandle":"h+/="}"#),
    ("DeleteMessageBatch", "QueueUrl=q&DeleteMessageBatchRequestEntry.1.Id=a&DeleteMessageBatchRequestEntry.1.ReceiptHandle=h", r#"{"QueueUrl":"q","Entries":[{"Id":"a","ReceiptHandle":"h"}]}"#),
    ("ChangeMessageVisibility", "QueueUrl=q&ReceiptHandle=h&VisibilityTimeout=0", r#"{"QueueUrl":"q","ReceiptHandle":"h","VisibilityTimeout":0}"#),
    ("ChangeMessageVisibilityBatch", "QueueUrl=q&ChangeMessageVisibilityBatchRequestEntry.1.Id=a&ChangeMessageVisibilityBatchRequestEntry.1.ReceiptHandle=h&ChangeMessageVisibilityBatchRequestEntry.1.VisibilityTimeout=7", r#"{"QueueUrl":"q","Entries":[{"Id":"a","ReceiptHandle":"h","VisibilityTimeout":7}]}"#),
    ("AddPermission", "QueueUrl=q&Label=l&AWSAccountId.1=111111111111&AWSAccountId.2=222222222222&ActionName.1=SendMessage", r#"{"QueueUrl":"q","Label":"l","AWSAccountIds":["111111111111","222222222222"],"Actions":["SendMessage"]}"#),
    ("RemovePermission", "QueueUrl=q&Label=l", r#"{"QueueUrl":"q","Label":"l"}"#),
    ("StartMessageMoveTask", "SourceArn=arn%3Aaws%3Asqs%3Ar%3A111111111111%3Ad&DestinationArn=arn%3Aaws%3Asqs%3Ar%3A111111111111%3Aq&MaxNumberOfMessagesPerSecond=500", r#"{"SourceArn":"arn:aws:sqs:r:111111111111:d","DestinationArn":"arn:aws:sqs:r:111111111111:q","MaxNumberOfMessagesPerSecond":500}"#),
    ("ListMessageMoveTasks", "SourceArn=arn%3Aaws%3Asqs%3Ar%3A111111111111%3Ad&MaxResults=10", r#"{"SourceArn":"arn:aws:sqs:r:111111111111:d","MaxResults":10}"#),
    ("CancelMessageMoveTask", "TaskHandle=eyJ0YXNrSWQiOiIwMTIzNDU2Ny04OWFiLWNkZWYtMDEyMy00NTY3ODlhYmNkZWYiLCJzb3VyY2VBcm4iOiJhcm46YXdzOnNxczpyOjExMTExMTExMTExMTpkIn0%3D", r#"{"TaskHandle":"eyJ0YXNrSWQiOiIwMTIzNDU2Ny04OWFiLWNkZWYtMDEyMy00NTY3ODlhYmNkZWYiLCJzb3VyY2VBcm4iOiJhcm46YXdzOnNxczpyOjExMTExMTExMTExMTpkIn0="}"#),
    // What is in no request is ignored, and so are names that only begin alike.
    ("DeleteQueue", "Action=DeleteQueue&Version=2012-11-05&QueueUrl=q&X-Amz-Date=d&QueueUrl-=x&QueueUrl.1=y&Queue=z", r#"{"QueueUrl":"q"}"#),
    ("UntagQueue", "QueueUrl=q&TagKey.1=a&TagKey-1=b&TagKey.2=c&TagKey2=d", r#"{"QueueUrl":"q","TagKeys":["a","c"]}"#),
];

fn from_form(action: Action, form: &str, path: &str) -> Result<String, SqsError> {
    let form = Form::parse("", form.as_bytes())?;
    let envelope = Envelope {
        path,
        trace_header: None,
    };
    Request::from_query(action, &form, envelope).map(|request| format!("{request:?}"))
}

fn from_json(action: Action, body: &str) -> Result<String, SqsError> {
    let request = Request::from_json(action, body.as_bytes(), Envelope::default());
    request.map(|request| format!("{request:?}"))
}

#[test]
fn a_form_says_what_json_says() {
    for (action, form, json) in FORMS {
        let action = Action::from_name(action).unwrap();
        let read = from_form(action, form, "/").unwrap();
        assert_eq!(read, from_json(action, json).unwrap(), "{form}");
    }
}

#[test]
fn every_operation_has_a_form() {
    for action in Action::ALL {
        let has_form = FORMS.iter().any(|(name, ..)| *name == action.name());
        assert!(has_form, "{action:?}");
    }
}

#[test]
fn the_path_names_the_queue_unless_a_parameter_does() {
    let path = "/000000000000/orders";
    let named = |form| from_form(Action::DeleteQueue, form, path).unwrap();
    let json = |body| from_json(Action::DeleteQueue, body).unwrap();
    let by_path = json(r#"{"QueueUrl":"http://h/000000000000/orders"}"#);
    assert_eq!(named(""), by_path);
    assert_eq!(named("QueueUrl=other"), json(r#"{"QueueUrl":"other"}"#));
}
