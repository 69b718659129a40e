//! Messages: sent, received, deleted, hidden longer; alone and in batches.

use std::time::Duration;

use hikyaku_storage::LogConfig;
use serde_json::{Value, json};

use crate::harness::{Client, Front, Setup, bodies};

async fn send(client: &mut Client, url: &str, body: &str) -> Value {
    let members = json!({ "QueueUrl": url, "MessageBody": body });
    client.act("SendMessage", members).await
}

async fn visible(client: &mut Client, url: &str) -> String {
    let name = "ApproximateNumberOfMessages";
    let members = json!({ "QueueUrl": url, "AttributeNames": [name] });
    let output = client.act("GetQueueAttributes", members).await;
    output["Attributes"][name].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_message_comes_back_as_it_was_sent_until_it_is_deleted() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let attributes = json!({
        "k": { "DataType": "String", "StringValue": "x" },
        "b": { "DataType": "Binary", "BinaryValue": "AAE=" },
    });
    let members = json!({
        "QueueUrl": url,
        "MessageBody": "hello \u{1F600} \"\r\n",
        "MessageAttributes": attributes,
    });
    let sent = client.act("SendMessage", members).await;
    let received = client.receive(&url).await;
    let [message] = received.as_slice() else {
        panic!("{received:?}")
    };
    assert_eq!(message["Body"], "hello \u{1F600} \"\r\n");
    assert_eq!(message["MessageAttributes"], attributes);
    assert_eq!(message["MessageId"], sent["MessageId"]);
    assert_eq!(message["MD5OfBody"], sent["MD5OfMessageBody"]);
    assert_eq!(
        message["MD5OfMessageAttributes"],
        sent["MD5OfMessageAttributes"]
    );
    assert_eq!(message["Attributes"]["ApproximateReceiveCount"], "1");
    assert_eq!(message["Attributes"]["SenderId"], "000000000000");
    assert!(client.receive(&url).await.is_empty(), "in flight");
    let handle = &message["ReceiptHandle"];
    for _ in 0..2 {
        let members = json!({ "QueueUrl": url, "ReceiptHandle": handle });
        assert_eq!(client.act("DeleteMessage", members).await, Value::Null);
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(client.receive(&url).await.is_empty(), "deleted");
}

#[tokio::test(start_paused = true)]
async fn a_visibility_timeout_can_be_ended_and_prolonged() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    send(&mut client, &url, "a").await;
    let received = client.receive(&url).await;
    let change = |timeout: u32| {
        let handle = &received[0]["ReceiptHandle"];
        json!({ "QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": timeout })
    };
    client.act("ChangeMessageVisibility", change(60)).await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(client.receive(&url).await.is_empty());
    let (_, _, message) = client
        .refused("ChangeMessageVisibility", change(43_200))
        .await;
    let text = "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total \
                VisibilityTimeout for the message is beyond the limit [43200 seconds]";
    assert_eq!(message, text);
    client.act("ChangeMessageVisibility", change(0)).await;
    assert_eq!(bodies(&client.receive(&url).await), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_handle_of_the_queue_is_refused() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let other = client.create("other", json!({})).await;
    send(&mut client, &other, "a").await;
    let foreign = client.receive(&other).await[0]["ReceiptHandle"].clone();
    for handle in [json!("garbage"), foreign] {
        let members = json!({ "QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": 1 });
        for action in ["DeleteMessage", "ChangeMessageVisibility"] {
            let (status, code, message) = client.refused(action, members.clone()).await;
            assert_eq!((status, code.as_str()), (404, "ReceiptHandleIsInvalid"));
            let handle = handle.as_str().unwrap();
            let text =
                format!("The input receipt handle \"{handle}\" is not a valid receipt handle.");
            assert_eq!(message, text);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_queue_is_reported_before_a_bad_value() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let bad = |url: &str| json!({ "QueueUrl": url, "MaxNumberOfMessages": 11, "MessageBody": "" });
    for action in [
        "ReceiveMessage",
        "SendMessage",
        "DeleteMessage",
        "SendMessageBatch",
    ] {
        let (_, code, _) = client.refused(action, bad("absent")).await;
        assert_eq!(code, "AWS.SimpleQueueService.NonExistentQueue", "{action}");
        let (_, code, _) = client.refused(action, bad(&url)).await;
        assert_ne!(code, "AWS.SimpleQueueService.NonExistentQueue", "{action}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_answers_entry_by_entry() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let entries = json!([
        { "Id": "one", "MessageBody": "1" },
        { "Id": "bad", "MessageBody": "\u{1}" },
        { "Id": "two", "MessageBody": "2" },
    ]);
    let members = json!({ "QueueUrl": url, "Entries": entries });
    let output = client.act("SendMessageBatch", members).await;
    let ids = |list: &Value| -> Vec<String> {
        let entries = list.as_array().unwrap().iter();
        entries
            .map(|entry| entry["Id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&output["Successful"]), ["one", "two"]);
    assert_eq!(ids(&output["Failed"]), ["bad"]);
    assert_eq!(output["Failed"][0]["Code"], "InvalidMessageContents");
    assert_eq!(output["Failed"][0]["SenderFault"], true);

    let received = client.receive(&url).await;
    assert_eq!(bodies(&received), ["1", "2"]);
    let entries = json!([
        { "Id": "a", "ReceiptHandle": received[0]["ReceiptHandle"], "VisibilityTimeout": 0 },
        { "Id": "b", "ReceiptHandle": "garbage", "VisibilityTimeout": 0 },
        { "Id": "c", "ReceiptHandle": received[1]["ReceiptHandle"], "VisibilityTimeout": 43_201 },
        { "Id": "d", "ReceiptHandle": received[1]["ReceiptHandle"], "VisibilityTimeout": 60 },
    ]);
    let members = json!({ "QueueUrl": url, "Entries": entries });
    let output = client
        .act("ChangeMessageVisibilityBatch", members.clone())
        .await;
    assert_eq!(ids(&output["Successful"]), ["a", "d"]);
    assert_eq!(ids(&output["Failed"]), ["b", "c"]);
    assert_eq!(output["Failed"][0]["Code"], "ReceiptHandleIsInvalid");

    let output = client.act("DeleteMessageBatch", members).await;
    assert_eq!(ids(&output["Successful"]), ["a", "c", "d"]);
    assert_eq!(ids(&output["Failed"]), ["b"]);
    assert_eq!(visible(&mut client, &url).await, "0");
}

#[tokio::test(start_paused = true)]
async fn a_fifo_queue_keeps_order_and_knows_duplicates() {
    let front = Front::start().await;
    let mut client = front.client().await;
    let attributes = json!({ "FifoQueue": "true", "ContentBasedDeduplication": "true" });
    let url = client.create("orders.fifo", attributes).await;
    let entry =
        |id: &str, body: &str| json!({ "Id": id, "MessageBody": body, "MessageGroupId": "g" });
    let entries = json!([entry("a", "1"), entry("b", "2"), entry("c", "1")]);
    let members = json!({ "QueueUrl": url, "Entries": entries });
    let sent = client.act("SendMessageBatch", members).await["Successful"].take();
    assert_eq!(
        sent[0]["MessageId"], sent[2]["MessageId"],
        "a duplicate is the first one"
    );
    let received = client.receive(&url).await;
    assert_eq!(bodies(&received), ["1", "2"]);
    let number = &received[0]["Attributes"]["SequenceNumber"];
    assert_eq!(*number, sent[0]["SequenceNumber"]);
    assert_eq!(number.as_str().unwrap().len(), 20);
    assert_eq!(received[0]["Attributes"]["MessageGroupId"], "g");

    tokio::time::sleep(Duration::from_secs(31)).await;
    let members = json!({ "QueueUrl": url, "ReceiptHandle": received[0]["ReceiptHandle"] });
    let (_, code, message) = client.refused("DeleteMessage", members).await;
    assert_eq!(code, "InvalidParameterValue");
    assert!(
        message.ends_with("Reason: The receipt handle has expired."),
        "{message}"
    );

    let members = json!({ "QueueUrl": url, "MessageBody": "3" });
    let (_, code, _) = client.refused("SendMessage", members).await;
    assert_eq!(code, "MissingParameter");
}

#[tokio::test(start_paused = true)]
async fn a_poll_waits_as_long_as_it_was_told_and_no_longer() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let begun = tokio::time::Instant::now();
    let poll = json!({ "QueueUrl": url, "WaitTimeSeconds": 20 });
    assert_eq!(client.act("ReceiveMessage", poll.clone()).await, json!({}));
    assert_eq!(begun.elapsed().as_secs(), 20);

    let mut waiting = front.client().await;
    let waiting = tokio::spawn(async move { waiting.act("ReceiveMessage", poll).await });
    tokio::time::sleep(Duration::from_secs(15)).await;
    send(&mut client, &url, "late").await;
    let begun = tokio::time::Instant::now();
    assert_eq!(waiting.await.unwrap()["Messages"][0]["Body"], "late");
    assert_eq!(begun.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_queues_own_wait_holds_for_those_who_do_not_say() {
    let front = Front::start().await;
    let mut client = front.client().await;
    let url = client
        .create("slow", json!({ "ReceiveMessageWaitTimeSeconds": "7" }))
        .await;
    let begun = tokio::time::Instant::now();
    assert!(client.receive(&url).await.is_empty());
    assert_eq!(begun.elapsed().as_secs(), 7);
    let poll = json!({ "QueueUrl": url, "WaitTimeSeconds": 0 });
    assert_eq!(client.act("ReceiveMessage", poll).await, json!({}));
    assert_eq!(begun.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn the_largest_message_fits_and_one_more_byte_does_not() {
    let front = Front::start_as(Setup {
        log: LogConfig::default(),
        ..Setup::default()
    })
    .await;
    let (mut client, url) = front.client_with_queue().await;
    let largest = "x".repeat(1 << 20);
    send(&mut client, &url, &largest).await;
    assert_eq!(bodies(&client.receive(&url).await), [largest.as_str()]);
    let members = json!({ "QueueUrl": url, "MessageBody": format!("{largest}x") });
    let (_, _, message) = client.refused("SendMessage", members).await;
    let text = "One or more parameters are invalid. Reason: Message must be shorter than 1048576 \
                bytes.";
    assert_eq!(message, text);
}

#[tokio::test(start_paused = true)]
async fn the_trace_header_of_a_request_is_its_messages() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let request = http::Request::post("/000000000000/orders")
        .header("X-Amz-Target", "AmazonSQS.SendMessage")
        .header("X-Amzn-Trace-Id", "Root=1");
    let answer = client
        .send(request, r#"{"MessageBody":"to the path"}"#)
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let received = client.receive(&url).await;
    assert_eq!(bodies(&received), ["to the path"]);
    assert_eq!(received[0]["Attributes"]["AWSTraceHeader"], "Root=1");
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_node_throttles_sends_and_still_hands_out() {
    let setup = Setup {
        memory_bytes: 64 << 10,
        ..Setup::default()
    };
    let front = Front::start_as(setup).await;
    let mut client = front.client().await;
    let url = client
        .create("orders.fifo", json!({ "FifoQueue": "true" }))
        .await;
    let entry = |n: u32| {
        let id = format!("{n:0>120}");
        json!({ "Id": n.to_string(), "MessageBody": "x", "MessageGroupId": id, "MessageDeduplicationId": id })
    };
    let mut sent = 0;
    let refused = loop {
        let entries: Vec<_> = (sent..sent + 10).map(entry).collect();
        let batch = json!({ "QueueUrl": url, "Entries": entries });
        let answer = client.ask("SendMessageBatch", batch).await;
        if answer.status != 200 {
            break answer;
        }
        sent += 10;
        assert!(sent < 10_000, "memory is bounded");
    };
    assert_eq!(refused.status, 403);
    let code = refused.headers["x-amzn-query-error"].to_str().unwrap();
    assert_eq!(code, "RequestThrottled;Sender");
    assert_eq!(client.receive(&url).await.len(), 10);
}
