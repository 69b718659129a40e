//! Serving: pages of the operator, the orderly stop.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{Front, Setup};

#[tokio::test(start_paused = true)]
async fn operators_see_life_readiness_and_numbers() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    client
        .refused("DeleteMessage", json!({ "QueueUrl": url }))
        .await;
    let entries = json!([{ "Id": "a", "ReceiptHandle": "garbage" }]);
    let members = json!({ "QueueUrl": url, "Entries": entries });
    client.act("DeleteMessageBatch", members).await;
    assert_eq!(client.get("/livez").await.status, 200);
    assert_eq!(client.get("/readyz").await.status, 200);
    let page = client.get("/metrics").await.body;
    for line in [
        "hikyaku_requests_total{action=\"CreateQueue\",code=\"OK\"} 1",
        "hikyaku_requests_total{action=\"DeleteMessage\",code=\"MissingRequiredParameterException\"} 1",
        "hikyaku_batch_entries_failed_total{action=\"DeleteMessageBatch\",code=\"ReceiptHandleIsInvalid\"} 1",
        "hikyaku_request_duration_seconds_count{action=\"CreateQueue\"} 1",
        "hikyaku_connections 1",
        "hikyaku_queues 1",
        "hikyaku_raft_leader{partition=\"1\"} 1",
        "# TYPE hikyaku_state_bytes gauge",
    ] {
        assert!(
            page.lines().any(|found| found == line),
            "no {line} in\n{page}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn other_parts_add_their_numbers() {
    let setup = Setup {
        metrics: Some(Arc::new(|page| page.push_str("hikyaku_disk_bytes 1\n"))),
        ..Setup::default()
    };
    let front = Front::start_as(setup).await;
    let page = front.client().await.get("/metrics").await.body;
    assert!(page.ends_with("hikyaku_disk_bytes 1\n"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_a_request_id_of_its_own() {
    let front = Front::start().await;
    let mut client = front.client().await;
    let mut ids = Vec::new();
    for action in ["ListQueues", "ListQueues", "GetQueueUrl", "Nonsense"] {
        let answer = client.ask(action, json!({})).await;
        ids.push(
            answer.headers["x-amzn-requestid"]
                .to_str()
                .unwrap()
                .to_owned(),
        );
        assert_eq!(answer.headers["content-type"], "application/x-amz-json-1.0");
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_served_is_unknown() {
    let front = Front::start().await;
    let mut client = front.client().await;
    let answer = client.get("/").await;
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("<UnknownOperationException"));
    let (status, code, _) = client.refused("Nonsense", json!({})).await;
    assert_eq!((status, code.as_str()), (404, "UnknownOperationException"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_answers_open_polls_and_closes_connections() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let poll = json!({ "QueueUrl": url, "WaitTimeSeconds": 20 });
    let waiting = tokio::spawn(async move { client.act("ReceiveMessage", poll).await });
    let mut idle = front.connect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    front.stop.send_replace(true);
    assert_eq!(waiting.await.unwrap(), json!({}));
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0, "closed");
    assert!(begun.elapsed() < Duration::from_secs(1));
    front.serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_accepts_no_more_connections() {
    let front = Front::start().await;
    assert!(front.accepts());
    front.stop.send_replace(true);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!front.accepts());
}

#[tokio::test(start_paused = true)]
async fn a_poll_whose_client_went_takes_no_message() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let mut gone = front.connect();
    let body = json!({ "QueueUrl": url, "WaitTimeSeconds": 20 }).to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    gone.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(gone);
    tokio::time::sleep(Duration::from_secs(1)).await;
    client
        .act(
            "SendMessage",
            json!({ "QueueUrl": url, "MessageBody": "a" }),
        )
        .await;
    let received = client.receive(&url).await;
    assert_eq!(received[0]["Attributes"]["ApproximateReceiveCount"], "1");
}
