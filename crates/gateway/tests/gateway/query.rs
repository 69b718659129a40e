//! The Query dialect: the same actions, asked with forms and answered in XML.
//!
//! The rows of a table are asked one after another of one front, so that later ones meet what
//! earlier ones made. `ID` stands for the id of the request.

use hikyaku_storage::LogConfig;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Front, Setup};

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
const QUEUE: &str = "/000000000000/orders";

/// What is asked: method, path with query, body of a form; and what comes back: status, body.
type Row = (&'static str, &'static str, &'static str, u16, &'static str);

macro_rules! response {
    ($action:literal, $result:literal) => {
        concat!(
            "<?xml version=\"1.0\"?><",
            $action,
            "Response xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">",
            $result,
            "<ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata></",
            $action,
            "Response>"
        )
    };
}

macro_rules! refusal {
    ($code:literal, $message:literal) => {
        concat!(
            "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error><Type>Sender</Type><Code>",
            $code, "</Code><Message>", $message,
            "</Message><Detail/></Error><RequestId>ID</RequestId></ErrorResponse>"
        )
    };
}

#[rustfmt::skip] // a table: one line each
const QUEUES: [Row; 22] = [
    ("POST", "/", "Action=ListQueues&Version=2012-11-05", 200, response!("ListQueues", "<ListQueuesResult/>")),
    ("POST", "/", "Action=CreateQueue&Version=2012-11-05&QueueName=orders&Attribute.1.Name=DelaySeconds&Attribute.1.Value=0&Tag.1.Key=team&Tag.1.Value=a%22b", 200, response!("CreateQueue", "<CreateQueueResult><QueueUrl>http://queues.example:9324/000000000000/orders</QueueUrl></CreateQueueResult>")),
    ("GET", "/?Action=CreateQueue&QueueName=other", "", 200, response!("CreateQueue", "<CreateQueueResult><QueueUrl>http://queues.example:9324/000000000000/other</QueueUrl></CreateQueueResult>")),
    ("GET", "/?Action=ListQueues&MaxResults=1", "", 200, response!("ListQueues", "<ListQueuesResult><QueueUrl>http://queues.example:9324/000000000000/orders</QueueUrl><NextToken>b3JkZXJz</NextToken></ListQueuesResult>")),
    ("POST", "/?Action=ListQueues", "QueueNamePrefix=oth", 200, response!("ListQueues", "<ListQueuesResult><QueueUrl>http://queues.example:9324/000000000000/other</QueueUrl></ListQueuesResult>")),
    ("GET", "/000000000000/orders?Action=GetQueueUrl&QueueName=other", "", 200, response!("GetQueueUrl", "<GetQueueUrlResult><QueueUrl>http://queues.example:9324/000000000000/other</QueueUrl></GetQueueUrlResult>")),
    ("GET", "/000000000000/orders?Action=ListQueueTags", "", 200, response!("ListQueueTags", "<ListQueueTagsResult><Tag><Key>team</Key><Value>a&quot;b</Value></Tag></ListQueueTagsResult>")),
    ("POST", "/000000000000/orders", "Action=TagQueue&Tag.1.Key=k&Tag.1.Value=v", 200, response!("TagQueue", "")),
    ("POST", "/", "Action=UntagQueue&QueueUrl=orders&TagKey.1=team", 200, response!("UntagQueue", "")),
    ("GET", "/000000000000/orders?Action=ListQueueTags", "", 200, response!("ListQueueTags", "<ListQueueTagsResult><Tag><Key>k</Key><Value>v</Value></Tag></ListQueueTagsResult>")),
    ("POST", "/000000000000/orders", "Action=SetQueueAttributes&Attribute.Name=VisibilityTimeout&Attribute.Value=7", 200, response!("SetQueueAttributes", "")),
    ("GET", "/000000000000/orders?Action=GetQueueAttributes&AttributeName.1=VisibilityTimeout&AttributeName.2=DelaySeconds", "", 200, response!("GetQueueAttributes", "<GetQueueAttributesResult><Attribute><Name>VisibilityTimeout</Name><Value>7</Value></Attribute><Attribute><Name>DelaySeconds</Name><Value>0</Value></Attribute></GetQueueAttributesResult>")),
    ("GET", "/000000000000/orders?Action=GetQueueAttributes", "", 200, response!("GetQueueAttributes", "<GetQueueAttributesResult/>")),
    // The parameter wins over the path.
    ("GET", "/000000000000/orders?Action=GetQueueAttributes&QueueUrl=http://h/000000000000/other&AttributeName.1=VisibilityTimeout", "", 200, response!("GetQueueAttributes", "<GetQueueAttributesResult><Attribute><Name>VisibilityTimeout</Name><Value>30</Value></Attribute></GetQueueAttributesResult>")),
    ("POST", "/000000000000/orders?Action=PurgeQueue", "", 200, response!("PurgeQueue", "")),
    ("POST", "/000000000000/orders?Action=PurgeQueue", "", 403, refusal!("AWS.SimpleQueueService.PurgeQueueInProgress", "Only one PurgeQueue operation on orders is allowed every 60 seconds.")),
    ("GET", "/000000000000/orders?Action=ReceiveMessage", "", 200, response!("ReceiveMessage", "<ReceiveMessageResult/>")),
    ("GET", "/000000000000/other?Action=DeleteQueue", "", 200, response!("DeleteQueue", "")),
    ("GET", "/000000000000/other?Action=GetQueueAttributes&AttributeName.1=QueueArn", "", 400, refusal!("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist for this wsdl version.")),
    ("POST", "/", "Action=CreateQueue&QueueName=other", 400, refusal!("AWS.SimpleQueueService.QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")),
    ("POST", "/", "Action=CreateQueue&QueueName=orders&Attribute.1.Name=DelaySeconds&Attribute.1.Value=6", 400, refusal!("QueueAlreadyExists", "A queue already exists with the same name and a different value for attribute DelaySeconds")),
    ("GET", "/000000000000/orders?Action=GetQueueAttributes&AttributeName.1=Foobar", "", 400, refusal!("InvalidAttributeName", "Unknown Attribute Foobar.")),
];

#[rustfmt::skip] // a table: one line each
const REFUSALS: [Row; 16] = [
    ("GET", "/", "", 404, "<UnknownOperationException/>\n"),
    ("GET", QUEUE, "", 404, "<UnknownOperationException/>\n"),
    ("GET", "/?Version=2012-11-05", "", 404, "<UnknownOperationException/>\n"),
    ("POST", "/", "Version=2012-11-05", 404, "<UnknownOperationException/>\n"),
    ("PUT", "/?Action=ListQueues", "", 404, "<UnknownOperationException/>\n"),
    ("POST", "/", "Action=FooBar", 400, refusal!("InvalidAction", "The action FooBar is not valid for this endpoint.")),
    ("GET", "/?Action=%3CFoo%3E", "", 400, refusal!("InvalidAction", "The action &lt;Foo&gt; is not valid for this endpoint.")),
    ("GET", "/000000000000/orders?Action=CreateQueue&QueueName=a", "", 400, refusal!("InvalidAction", "The action CreateQueue is not valid for this endpoint.")),
    ("GET", "/000000000000/orders?Action=ListQueues", "", 400, refusal!("InvalidAction", "The action ListQueues is not valid for this endpoint.")),
    ("POST", "/", "Action=SendMessage&MessageBody=m", 400, refusal!("MissingParameter", "The request must contain the parameter QueueUrl.")),
    ("POST", QUEUE, "Action=SendMessage", 400, refusal!("MissingParameter", "The request must contain the parameter MessageBody.")),
    ("POST", QUEUE, "Action=SendMessage&MessageBody=m&DelaySeconds=901", 400, refusal!("InvalidParameterValue", "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be &gt;= 0 and &lt;= 900.")),
    ("POST", QUEUE, "Action=SendMessageBatch", 400, refusal!("AWS.SimpleQueueService.EmptyBatchRequest", "There should be at least one SendMessageBatchRequestEntry in the request.")),
    ("POST", QUEUE, "Action=DeleteMessage&ReceiptHandle=garbage", 404, refusal!("ReceiptHandleIsInvalid", "The input receipt handle &quot;garbage&quot; is not a valid receipt handle.")),
    ("POST", QUEUE, "Action=SendMessage&MessageBody=m&MessageBody=n", 400, refusal!("InvalidParameterValue", "The parameter MessageBody is given twice, with different values.")),
    ("POST", "/111111111111/orders", "Action=SendMessage&MessageBody=m", 400, refusal!("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist for this wsdl version.")),
];

async fn ask(client: &mut Client, method: &str, path: &str, accept: &str, form: &str) -> Answer {
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("Host", "queues.example:9324")
        .header("Accept", accept);
    if !form.is_empty() {
        request = request.header("Content-Type", FORM);
    }
    let mut answer = client.send(request, form.to_owned()).await;
    let id = answer.headers["x-amzn-requestid"].to_str().unwrap();
    assert_eq!(id.len(), 36);
    answer.body = answer.body.replace(id, "ID");
    answer
}

async fn check(client: &mut Client, rows: &[Row]) {
    for (method, path, form, status, body) in rows {
        let answer = ask(client, method, path, "*/*", form).await;
        let facts = (answer.status, answer.body.as_str());
        assert_eq!(facts, (*status, *body), "{method} {path} {form}");
        assert_eq!(answer.headers["content-type"], "text/xml", "{path}");
        assert!(!answer.headers.contains_key("x-amzn-query-error"));
    }
}

/// Asks with a form posted to the queue, and expects success.
async fn act(client: &mut Client, form: &str) -> String {
    let answer = ask(client, "POST", QUEUE, "*/*", form).await;
    assert_eq!(answer.status, 200, "{form}: {answer:?}");
    answer.body
}

/// The text of the only element of this name.
fn element<'a>(xml: &'a str, name: &str) -> &'a str {
    let (_, after) = xml.split_once(&format!("<{name}>")).unwrap();
    after.split_once(&format!("</{name}>")).unwrap().0
}

#[tokio::test(start_paused = true)]
async fn queues_are_made_described_and_deleted() {
    let front = Front::start().await;
    check(&mut front.client().await, &QUEUES).await;
}

#[tokio::test(start_paused = true)]
async fn refusals_are_documents_too() {
    let front = Front::start().await;
    let (mut client, _) = front.client_with_queue().await;
    check(&mut client, &REFUSALS).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_passes_from_one_dialect_to_the_other_unchanged() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let sent = act(
        &mut client,
        "Action=SendMessage&MessageBody=a%0D%0A%22b%22+%3C%26%3E\
         &MessageAttribute.1.Name=n&MessageAttribute.1.Value.DataType=Number\
         &MessageAttribute.1.Value.StringValue=1&MessageAttribute.2.Name=b\
         &MessageAttribute.2.Value.DataType=Binary&MessageAttribute.2.Value.BinaryValue=AP8%3D",
    )
    .await;
    let received = client.receive(&url).await;
    assert_eq!(received[0]["Body"], "a\r\n\"b\" <&>");
    assert_eq!(received[0]["MessageId"], element(&sent, "MessageId"));
    assert_eq!(received[0]["MD5OfBody"], element(&sent, "MD5OfMessageBody"));
    let digest = element(&sent, "MD5OfMessageAttributes");
    assert_eq!(received[0]["MD5OfMessageAttributes"], digest);
    assert_eq!(received[0]["MessageAttributes"]["b"]["BinaryValue"], "AP8=");

    let body = json!({ "QueueUrl": url, "MessageBody": "x\r\n\"y\"" });
    client.act("SendMessage", body).await;
    let form = "Action=ReceiveMessage&AttributeName.1=ApproximateReceiveCount";
    let received = act(&mut client, form).await;
    assert_eq!(element(&received, "Body"), "x&#xD;\n&quot;y&quot;");
    assert!(received.contains(
        "<Attribute><Name>ApproximateReceiveCount</Name><Value>1</Value></Attribute></Message></ReceiveMessageResult>"
    ), "{received}");
}

#[tokio::test(start_paused = true)]
async fn received_messages_are_retimed_and_deleted() {
    let front = Front::start().await;
    let (mut client, _) = front.client_with_queue().await;
    act(&mut client, "Action=SendMessage&MessageBody=a").await;
    let received = act(&mut client, "Action=ReceiveMessage").await;
    let handle = element(&received, "ReceiptHandle")
        .replace('+', "%2B")
        .replace('/', "%2F");
    let handle = handle.replace('=', "%3D");
    let change =
        format!("Action=ChangeMessageVisibility&VisibilityTimeout=0&ReceiptHandle={handle}");
    assert_eq!(
        act(&mut client, &change).await,
        response!("ChangeMessageVisibility", "")
    );
    let received = act(&mut client, "Action=ReceiveMessage&VisibilityTimeout=60").await;
    assert_eq!(element(&received, "Body"), "a");
    let delete = format!("Action=DeleteMessage&ReceiptHandle={handle}");
    assert_eq!(
        act(&mut client, &delete).await,
        response!("DeleteMessage", "")
    );
    let counts = "Action=GetQueueAttributes&AttributeName.1=ApproximateNumberOfMessagesNotVisible";
    assert_eq!(element(&act(&mut client, counts).await, "Value"), "0");
}

#[tokio::test(start_paused = true)]
async fn batches_answer_entry_by_entry() {
    let front = Front::start().await;
    let (mut client, _) = front.client_with_queue().await;
    let entry = "SendMessageBatchRequestEntry";
    let sent = act(
        &mut client,
        &format!("Action=SendMessageBatch&{entry}.1.Id=a&{entry}.1.MessageBody=m&{entry}.2.Id=b&{entry}.2.MessageBody="),
    )
    .await;
    assert!(
        sent.contains("<SendMessageBatchResultEntry><Id>a</Id><MessageId>"),
        "{sent}"
    );
    assert!(sent.contains(
        "<BatchResultErrorEntry><Id>b</Id><SenderFault>true</SenderFault><Code>MissingParameter</Code>"
    ), "{sent}");
    for (action, more) in [
        ("DeleteMessageBatch", ""),
        (
            "ChangeMessageVisibilityBatch",
            "&ChangeMessageVisibilityBatchRequestEntry.1.VisibilityTimeout=1",
        ),
    ] {
        let entry = format!("{action}RequestEntry.1");
        let form = format!("Action={action}&{entry}.Id=a&{entry}.ReceiptHandle=x{more}");
        let failed = act(&mut client, &form).await;
        assert!(
            failed.contains("<Code>ReceiptHandleIsInvalid</Code>"),
            "{failed}"
        );
        let received = act(&mut client, "Action=ReceiveMessage&VisibilityTimeout=0").await;
        let handle = element(&received, "ReceiptHandle");
        let handle = handle
            .replace('+', "%2B")
            .replace('/', "%2F")
            .replace('=', "%3D");
        let form = format!("Action={action}&{entry}.Id=a&{entry}.ReceiptHandle={handle}{more}");
        let done = act(&mut client, &form).await;
        let expected = format!(
            "<{action}Result><{action}ResultEntry><Id>a</Id></{action}ResultEntry></{action}Result>"
        );
        assert!(done.contains(&expected), "{done}");
        act(&mut client, "Action=SendMessage&MessageBody=again").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_accepts_json_gets_the_tree() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let mut tree = async |path: String| {
        let answer = ask(&mut client, "GET", &path, "application/json", "").await;
        (
            answer.status,
            serde_json::from_str::<Value>(&answer.body).ok(),
        )
    };
    let metadata = json!({ "RequestId": "ID" });
    let listed = json!({ "ListQueuesResponse": {
        "ListQueuesResult": { "queueUrls": [url], "NextToken": null },
        "ResponseMetadata": metadata,
    }});
    assert_eq!(
        tree("/?Action=ListQueues".to_owned()).await,
        (200, Some(listed))
    );
    let path = format!("{QUEUE}?Action=GetQueueAttributes&AttributeName.1=DelaySeconds");
    let described = json!({ "GetQueueAttributesResponse": {
        "GetQueueAttributesResult": { "Attributes": [{ "Name": "DelaySeconds", "Value": "0" }] },
        "ResponseMetadata": metadata,
    }});
    assert_eq!(tree(path).await, (200, Some(described)));
    let (_, sent) = tree(format!("{QUEUE}?Action=SendMessage&MessageBody=m")).await;
    let id = &sent.unwrap()["SendMessageResponse"]["SendMessageResult"]["MessageId"];
    let (_, received) = tree(format!("{QUEUE}?Action=ReceiveMessage")).await;
    let received = &received.unwrap()["ReceiveMessageResponse"]["ReceiveMessageResult"];
    assert_eq!(received["messages"][0]["MessageId"], *id);
    let refused = json!({
        "Error": {
            "Type": "Sender",
            "Code": "InvalidAction",
            "Message": "The action ListQueues is not valid for this endpoint.",
            "Detail": null,
        },
        "RequestId": "ID",
    });
    assert_eq!(
        tree(format!("{QUEUE}?Action=ListQueues")).await,
        (400, Some(refused))
    );
    // Without an action the answer is XML all the same.
    assert_eq!(tree(QUEUE.to_owned()).await, (404, None));
}

#[tokio::test(start_paused = true)]
async fn a_message_of_the_largest_size_may_triple_in_a_form() {
    let front = Front::start_as(Setup {
        log: LogConfig::default(),
        ..Setup::default()
    })
    .await;
    let (mut client, url) = front.client_with_queue().await;
    let form = format!("Action=SendMessage&MessageBody={}", "%22".repeat(1 << 20));
    act(&mut client, &form).await;
    let received = client.receive(&url).await;
    assert_eq!(received[0]["Body"].as_str().unwrap().len(), 1 << 20);
    let form = format!("Action=SendMessage&MessageBody={}", "%22".repeat(5 << 18));
    let answer = ask(&mut client, "POST", QUEUE, "*/*", &form).await;
    assert_eq!(answer.status, 413);
}
