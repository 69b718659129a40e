//! What clients may take, and what becomes of those who take more.

use std::time::Duration;

use hikyaku_gateway::{GatewayConfig, GatewayLimits};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use crate::harness::{Client, Front};

/// The head of a request whose body is to have this length.
fn head(length: usize) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

fn limited(limits: GatewayLimits) -> GatewayConfig {
    GatewayConfig {
        limits,
        ..GatewayConfig::default()
    }
}

/// Whether the page of metrics has this line.
async fn counted(client: &mut Client, line: &str) -> bool {
    let page = client.get("/metrics").await.body;
    page.lines().any(|found| found == line)
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
async fn a_head_has_ten_seconds_however_it_is_sent() {
    let front = Front::start().await;
    for pieces in [
        &[""][..],
        &["P"],
        &["POST / ", "HTTP/1.1\r\n", "Host: h\r\n"],
    ] {
        let mut slow = front.connect();
        let begun = Instant::now();
        for piece in pieces {
            slow.write_all(piece.as_bytes()).await.unwrap();
            sleep(Duration::from_secs(3)).await;
        }
        let mut answer = Vec::new();
        slow.read_to_end(&mut answer).await.ok();
        assert_eq!(begun.elapsed().as_secs(), 10, "{pieces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_may_not_stall_nor_trickle_for_ever_and_a_poll_may_take_its_time() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    for (every_s, ends_at_s) in [(11, 10), (3, 30)] {
        let mut slow = front.connect();
        slow.write_all(head(90).as_bytes()).await.unwrap();
        let begun = Instant::now();
        let mut answer = [0; 512];
        let ended = loop {
            tokio::select! {
                _ = slow.read(&mut answer) => break begun.elapsed(),
                () = sleep(Duration::from_secs(every_s)) => slow.write_all(b"{").await.unwrap(),
            }
        };
        assert_eq!(ended.as_secs(), ends_at_s, "a byte every {every_s} s");
    }
    let poll = json!({ "QueueUrl": url, "WaitTimeSeconds": 20 });
    assert_eq!(client.act("ReceiveMessage", poll).await, json!({}));
}

#[tokio::test(start_paused = true)]
async fn only_who_proved_something_may_stay_unused() {
    let front = Front::start().await;
    let mut stranger = front.connect();
    stranger
        .write_all(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        .await
        .unwrap();
    let begun = Instant::now();
    let mut answer = String::new();
    stranger.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(begun.elapsed().as_secs(), 10);

    let mut client = front.client().await;
    client.act("ListQueues", json!({})).await;
    sleep(Duration::from_secs(100)).await;
    client.act("ListQueues", json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn an_unused_connection_is_closed_in_time_after_any_request() {
    let front = Front::start().await;
    let (_, url) = front.client_with_queue().await;
    for wait_s in [0, 20] {
        let body = json!({ "QueueUrl": url, "WaitTimeSeconds": wait_s }).to_string();
        let request = head(body.len()).replace("ListQueues", "ReceiveMessage") + &body;
        let mut io = front.connect();
        io.write_all(request.as_bytes()).await.unwrap();
        let begun = Instant::now();
        let mut answer = String::new();
        io.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("{}"), "{answer}");
        assert_eq!(begun.elapsed().as_secs(), wait_s + 120);
    }
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_limit_are_closed_at_once() {
    let limits = GatewayLimits {
        connections: 2,
        connections_per_address: 1,
        ..GatewayLimits::default()
    };
    let front = Front::start_with(limited(limits)).await;
    let mut client = Client::over(front.connect_from([10, 0, 0, 1])).await;
    client.act("ListQueues", json!({})).await;
    let mut second = front.connect_from([10, 0, 0, 1]);
    assert_eq!(second.read(&mut [0]).await.unwrap(), 0, "closed");
    let _other = front.connect_from([10, 0, 0, 2]);
    let mut third = front.connect_from([10, 0, 0, 3]);
    assert_eq!(third.read(&mut [0]).await.unwrap(), 0, "closed");
    let name = "hikyaku_connections_refused_total";
    for limit in ["connections", "connections_per_address"] {
        let line = format!("{name}{{limit=\"{limit}\"}} 1");
        assert!(counted(&mut client, &line).await, "{line}");
    }
    drop(client);
    sleep(Duration::from_millis(1)).await;
    let mut client = Client::over(front.connect_from([10, 0, 0, 1])).await;
    client.act("ListQueues", json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn strangers_share_a_fixed_amount_of_memory() {
    let limits = GatewayLimits {
        unproved_bytes: 32 << 10,
        ..GatewayLimits::default()
    };
    let front = Front::start_with(limited(limits)).await;
    let mut client = front.client().await;
    client.act("ListQueues", json!({})).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut slow = front.connect();
        slow.write_all(b"POST ").await.unwrap();
        held.push(slow);
    }
    sleep(Duration::from_millis(1)).await;
    client.act("ListQueues", json!({})).await;
    let mut one_more = front.connect();
    one_more.write_all(b"POST ").await.unwrap();
    sleep(Duration::from_millis(1)).await;
    let mut refused = front.connect();
    refused.write_all(b"POST ").await.unwrap();
    assert_eq!(refused.read(&mut [0]).await.unwrap(), 0, "closed");
    let _silent = front.connect();

    drop((held, one_more));
    sleep(Duration::from_millis(1)).await;
    let line = "hikyaku_connections_refused_total{limit=\"unproved_bytes\"} 1";
    assert!(counted(&mut client, line).await);
    // A body that nobody proves counts as it comes, and is answered when there is no more room.
    let mut large = front.connect();
    large.write_all(head(40_000).as_bytes()).await.unwrap();
    large.write_all(&[b' '; 39_000]).await.ok();
    let mut answer = String::new();
    large.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("RequestThrottled"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn http_2_is_not_spoken() {
    let front = Front::start().await;
    let mut io = front.connect();
    io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    io.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
}
