//! Queues: created, found, described, changed, tagged, purged, deleted.

use serde_json::json;

use crate::harness::{Front, Setup};

const NO_QUEUE: &str = "AWS.SimpleQueueService.NonExistentQueue";

#[tokio::test(start_paused = true)]
async fn a_queue_has_a_url_of_the_host_that_was_asked() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    assert_eq!(url, "http://queues.example:9324/000000000000/orders");
    let found = client
        .act("GetQueueUrl", json!({ "QueueName": "orders" }))
        .await;
    assert_eq!(found["QueueUrl"], url.as_str());
}

#[tokio::test(start_paused = true)]
async fn the_url_may_be_given_by_configuration() {
    let config = hikyaku_gateway::GatewayConfig {
        public_url: Some("https://sqs.example".to_owned()),
        ..Default::default()
    };
    let front = Front::start_with(config).await;
    let (_, url) = front.client_with_queue().await;
    assert_eq!(url, "https://sqs.example/000000000000/orders");
}

#[tokio::test(start_paused = true)]
async fn creating_again_compares_what_is_given_with_what_holds() {
    let front = Front::start().await;
    let mut client = front.client().await;
    let url = client
        .create("orders", json!({ "DelaySeconds": "5" }))
        .await;
    assert_eq!(client.create("orders", json!({})).await, url);
    assert_eq!(
        client
            .create("orders", json!({ "DelaySeconds": "5" }))
            .await,
        url
    );
    let other = json!({ "QueueName": "orders", "Attributes": { "DelaySeconds": "6" } });
    let (status, code, message) = client.refused("CreateQueue", other.clone()).await;
    assert_eq!((status, code.as_str()), (400, "QueueAlreadyExists"));
    assert!(
        message.ends_with("different value for attribute DelaySeconds"),
        "{message}"
    );
    let set = json!({ "QueueUrl": url, "Attributes": { "DelaySeconds": "6" } });
    client.act("SetQueueAttributes", set).await;
    client.act("CreateQueue", other).await;
}

#[tokio::test(start_paused = true)]
async fn policies_are_compared_as_json() {
    let front = Front::start().await;
    let mut client = front.client().await;
    let policy = |text: &str| json!({ "Policy": text });
    client
        .create("orders", policy(r#"{"Statement":[],"Id":"a"}"#))
        .await;
    client
        .create("orders", policy(r#"{ "Id": "a", "Statement": [] }"#))
        .await;
    let other =
        json!({ "QueueName": "orders", "Attributes": policy(r#"{"Statement":[],"Id":"b"}"#) });
    let (_, code, _) = client.refused("CreateQueue", other).await;
    assert_eq!(code, "QueueAlreadyExists");
}

#[tokio::test(start_paused = true)]
async fn a_queue_describes_itself() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    client
        .act(
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "a" }),
        )
        .await;
    let all = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
    let output = client.act("GetQueueAttributes", all).await;
    let attributes = output["Attributes"].as_object().unwrap();
    assert_eq!(attributes.len(), 12, "{attributes:?}");
    assert_eq!(attributes["ApproximateNumberOfMessages"], "1");
    assert_eq!(attributes["VisibilityTimeout"], "30");
    assert_eq!(
        attributes["QueueArn"],
        "arn:aws:sqs:us-east-1:000000000000:orders"
    );
    let none = client
        .act("GetQueueAttributes", json!({ "QueueUrl": url }))
        .await;
    assert_eq!(none, json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_fifo_queue_is_asked_for_by_name_and_attribute() {
    let front = Front::start().await;
    let mut client = front.client().await;
    let url = client
        .create("orders.fifo", json!({ "FifoQueue": "true" }))
        .await;
    let all = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
    let output = client.act("GetQueueAttributes", all).await;
    assert_eq!(output["Attributes"]["FifoQueue"], "true");
    assert_eq!(output["Attributes"]["DeduplicationScope"], "queue");
    let (_, code, _) = client
        .refused("CreateQueue", json!({ "QueueName": "b.fifo" }))
        .await;
    assert_eq!(code, "InvalidParameterValue");
}

#[tokio::test(start_paused = true)]
async fn queues_are_listed_by_name_in_pages() {
    let front = Front::start().await;
    let mut client = front.client().await;
    assert_eq!(client.act("ListQueues", json!({})).await, json!({}));
    for name in ["c", "a-1", "a-2", "a-3", "b"] {
        client.create(name, json!({})).await;
    }
    let url = |name: &str| format!("http://queues.example:9324/000000000000/{name}");
    let page = json!({ "QueueNamePrefix": "a-", "MaxResults": 2 });
    let output = client.act("ListQueues", page).await;
    assert_eq!(output["QueueUrls"], json!([url("a-1"), url("a-2")]));
    let token = output["NextToken"].as_str().unwrap();
    let page = json!({ "QueueNamePrefix": "a-", "MaxResults": 2, "NextToken": token });
    let output = client.act("ListQueues", page).await;
    assert_eq!(output, json!({ "QueueUrls": [url("a-3")] }));
}

#[tokio::test(start_paused = true)]
async fn tags_are_put_over_each_other_and_taken_off() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    assert_eq!(
        client
            .act("ListQueueTags", json!({ "QueueUrl": url }))
            .await,
        json!({})
    );
    for tags in [json!({ "a": "1", "b": "2" }), json!({ "a": "3" })] {
        client
            .act("TagQueue", json!({ "QueueUrl": url, "Tags": tags }))
            .await;
    }
    let keys = json!({ "QueueUrl": url, "TagKeys": ["b", "absent"] });
    client.act("UntagQueue", keys).await;
    let output = client
        .act("ListQueueTags", json!({ "QueueUrl": url }))
        .await;
    assert_eq!(output, json!({ "Tags": { "a": "3" } }));
    let many = |from: u32, to: u32| {
        let tags = (from..to).map(|n| (format!("k{n}"), json!("")));
        json!({ "QueueUrl": url, "Tags": tags.collect::<serde_json::Map<_, _>>() })
    };
    client.act("TagQueue", many(0, 49)).await;
    let (_, _, message) = client.refused("TagQueue", many(49, 50)).await;
    assert_eq!(message, "Too many tags added for queue orders.");
}

#[tokio::test(start_paused = true)]
async fn a_purge_empties_and_is_not_repeated_within_a_minute() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let queue = json!({ "QueueUrl": url });
    client
        .act(
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "a" }),
        )
        .await;
    client.act("PurgeQueue", queue.clone()).await;
    assert!(client.receive(&url).await.is_empty());
    let (status, code, message) = client.refused("PurgeQueue", queue.clone()).await;
    assert_eq!(
        (status, code.as_str()),
        (403, "AWS.SimpleQueueService.PurgeQueueInProgress")
    );
    assert_eq!(
        message,
        "Only one PurgeQueue operation on orders is allowed every 60 seconds."
    );
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    client.act("PurgeQueue", queue).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_queue_is_gone_and_its_name_rests() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let queue = json!({ "QueueUrl": url });
    client.act("DeleteQueue", queue.clone()).await;
    for action in [
        "DeleteQueue",
        "GetQueueAttributes",
        "PurgeQueue",
        "ReceiveMessage",
    ] {
        let (status, code, message) = client.refused(action, queue.clone()).await;
        assert_eq!((status, code.as_str()), (400, NO_QUEUE), "{action}");
        assert_eq!(message, "The specified queue does not exist.", "{action}");
    }
    let (_, code, _) = client
        .refused("CreateQueue", json!({ "QueueName": "orders" }))
        .await;
    assert_eq!(code, "AWS.SimpleQueueService.QueueDeletedRecently");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_cooldown_purges_and_creates_again_at_once() {
    let front = Front::start_as(Setup {
        cooldown_ms: Some(0),
        ..Setup::default()
    });
    let front = front.await;
    let (mut client, url) = front.client_with_queue().await;
    let queue = json!({ "QueueUrl": url });
    client.act("PurgeQueue", queue.clone()).await;
    client.act("PurgeQueue", queue.clone()).await;
    let message = json!({ "QueueUrl": url, "MessageBody": "of the first queue" });
    client.act("SendMessage", message).await;
    client.act("DeleteQueue", queue).await;
    assert_eq!(client.create("orders", json!({})).await, url);
    assert!(client.receive(&url).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_accounts_queue_does_not_exist() {
    let front = Front::start().await;
    let (mut client, _) = front.client_with_queue().await;
    let url = "http://queues.example/123456789012/orders";
    for (action, member) in [
        ("SendMessage", "MessageBody"),
        ("ReceiveMessage", "Ignored"),
        ("DeleteMessage", "ReceiptHandle"),
        ("DeleteQueue", "Ignored"),
        ("TagQueue", "Ignored"),
    ] {
        let members = json!({ "QueueUrl": url, member: "x" });
        let (_, code, _) = client.refused(action, members).await;
        assert_eq!(code, NO_QUEUE, "{action}");
    }
    let owner = json!({ "QueueName": "orders", "QueueOwnerAWSAccountId": "123456789012" });
    assert_eq!(client.refused("GetQueueUrl", owner).await.1, NO_QUEUE);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_queue_must_exist_fit_and_allow_it() {
    let front = Front::start().await;
    let mut client = front.client().await;
    client.create("dead", json!({})).await;
    client
        .create("dead.fifo", json!({ "FifoQueue": "true" }))
        .await;
    let closed = json!({ "RedriveAllowPolicy": r#"{"redrivePermission":"denyAll"}"# });
    client.create("closed", closed).await;
    let policy = |target: &str| {
        let arn = format!("arn:aws:sqs:us-east-1:000000000000:{target}");
        json!({ "deadLetterTargetArn": arn, "maxReceiveCount": 3 }).to_string()
    };
    let url = client
        .create("orders", json!({ "RedrivePolicy": policy("dead") }))
        .await;
    for target in ["absent", "dead.fifo", "closed"] {
        let attributes = json!({ "RedrivePolicy": policy(target) });
        let members = json!({ "QueueUrl": url, "Attributes": attributes });
        let (_, code, _) = client.refused("SetQueueAttributes", members).await;
        assert_eq!(code, "InvalidParameterValue", "{target}");
    }
    let asked = json!({ "QueueUrl": url, "AttributeNames": ["RedrivePolicy"] });
    let output = client.act("GetQueueAttributes", asked).await;
    assert_eq!(output["Attributes"]["RedrivePolicy"], policy("dead"));
}
