//! Serving: limits, pages of the operator, the orderly stop.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_gateway::{Access, Gateway, GatewayConfig, GatewayLimits, Listener};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use crate::harness::Front;

fn limited(limits: GatewayLimits) -> GatewayConfig {
    GatewayConfig {
        limits,
        ..GatewayConfig::default()
    }
}

/// Connections that a test makes.
struct Made(mpsc::Receiver<DuplexStream>);

impl Listener for Made {
    type Io = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        match self.0.recv().await {
            Some(io) => Ok(io),
            None => std::future::pending().await,
        }
    }
}

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
    let front = Front::start().await;
    let gateway = Gateway::new(
        Arc::clone(&front.node),
        GatewayConfig::default(),
        Access::anyone(),
    );
    let gateway = gateway.with_metrics(Arc::new(|page| page.push_str("hikyaku_disk_bytes 1\n")));
    let front = Front {
        gateway: Arc::new(gateway),
        ..front
    };
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
    let (_, code, _) = client.refused("StartMessageMoveTask", json!({})).await;
    assert_eq!(code, "AWS.SimpleQueueService.UnsupportedOperation");
}

#[tokio::test(start_paused = true)]
async fn a_body_beyond_the_limit_is_refused_before_it_is_sent() {
    let limits = GatewayLimits {
        request_bytes: 1_000,
        ..GatewayLimits::default()
    };
    let front = Front::start_with(limited(limits)).await;
    let mut io = front.connect();
    let head = "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n\
                Content-Length: 1001\r\n\r\n";
    io.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    io.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn bodies_beyond_what_all_may_take_are_throttled_before_they_are_read() {
    let limits = GatewayLimits {
        bodies_bytes: 64 << 10,
        ..GatewayLimits::default()
    };
    let front = Front::start_with(limited(limits)).await;
    let (mut client, url) = front.client_with_queue().await;
    let mut slow = front.connect();
    let head = "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n\
                Content-Length: 60000\r\n\r\n";
    slow.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let large = json!({ "QueueUrl": url, "MessageBody": "x".repeat(8_000) });
    let (status, code, _) = client.refused("SendMessage", large.clone()).await;
    assert_eq!((status, code.as_str()), (403, "RequestThrottled"));
    drop(slow);
    tokio::time::sleep(Duration::from_millis(10)).await;
    client.act("SendMessage", large).await;
}

#[tokio::test(start_paused = true)]
async fn headers_beyond_the_limits_are_refused() {
    let front = Front::start().await;
    let many = "X-H: 1\r\n".repeat(101);
    let long = format!("X-H: {}\r\n", "x".repeat(17 << 10));
    for headers in [many, long] {
        let mut io = front.connect();
        let head = format!("GET /livez HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        io.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        io.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_end_is_given_up_and_a_long_poll_is_not() {
    let limits = GatewayLimits {
        read_timeout: Duration::from_secs(5),
        ..GatewayLimits::default()
    };
    let front = Front::start_with(limited(limits)).await;
    let (mut client, url) = front.client_with_queue().await;
    let mut slow = front.connect();
    let head = "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n\
                Content-Length: 9\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let begun = tokio::time::Instant::now();
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).await.ok();
    assert_eq!(begun.elapsed().as_secs(), 5);
    let poll = json!({ "QueueUrl": url, "WaitTimeSeconds": 20 });
    assert_eq!(client.act("ReceiveMessage", poll).await, json!({}));
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

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_limit_are_closed_at_once() {
    let limits = GatewayLimits {
        connections: 1,
        ..GatewayLimits::default()
    };
    let front = Front::start_with(limited(limits)).await;
    let (make, made) = mpsc::channel(4);
    let serving = Arc::clone(&front.gateway).serve(Made(made), front.stop.subscribe());
    let serving = tokio::spawn(serving);
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (client, server) = tokio::io::duplex(1_024);
        make.send(server).await.unwrap();
        clients.push(client);
    }
    assert_eq!(clients[1].read(&mut [0]).await.unwrap(), 0, "closed");
    clients[0]
        .write_all(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 15];
    clients[0].read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    front.stop.send_replace(true);
    serving.await.unwrap();
    assert!(make.is_closed(), "no more are accepted");
}
