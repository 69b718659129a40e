//! What the page of metrics tells of messages, and that the README's table is true.

use std::collections::BTreeSet;

use hikyaku_gateway::{GatewayConfig, ShownQueue};
use hikyaku_metadata::TenantId;
use serde_json::{Value, json};

use crate::harness::{Client, Front};

const README: &str = include_str!("../../../../README.md");

/// The rows of the README's table: CloudWatch's name and ours.
fn documented() -> Vec<(&'static str, &'static str)> {
    let rows = README.lines().filter_map(|line| {
        let mut cells = line
            .split('|')
            .skip(1)
            .map(|cell| cell.trim().trim_matches('`'));
        Some((cells.next()?, cells.next()?))
    });
    rows.filter(|(_, ours)| ours.starts_with("hikyaku_"))
        .collect()
}

async fn queue(client: &mut Client, name: &str) -> String {
    let answer = client.act("CreateQueue", json!({"QueueName": name})).await;
    answer["QueueUrl"].as_str().unwrap().to_owned()
}

/// Sends two messages, receives and deletes one, and finds nothing more to receive.
async fn use_queue(client: &mut Client, url: &str) {
    for (body, delay) in [("four", 0), ("later", 900)] {
        let message = json!({"QueueUrl": url, "MessageBody": body, "DelaySeconds": delay, "MessageGroupId": "g"});
        client.act("SendMessage", message).await;
    }
    let received = client.act("ReceiveMessage", json!({"QueueUrl": url})).await;
    let handle: &Value = &received["Messages"][0]["ReceiptHandle"];
    let delete = json!({"QueueUrl": url, "ReceiptHandle": handle});
    client.act("DeleteMessage", delete).await;
    client.act("ReceiveMessage", json!({"QueueUrl": url})).await;
}

#[tokio::test(start_paused = true)]
async fn every_metric_of_the_readmes_table_is_exported() {
    let front = Front::start().await;
    let mut client = front.client().await;
    let page = client.get("/metrics").await.body;
    let documented = documented();
    assert_eq!(documented.len(), 15);
    for (cloudwatch, ours) in &documented {
        let series = format!("{ours}{{tenant=\"_other\",queue=\"_other\"}} ");
        assert!(
            page.lines().any(|line| line.starts_with(&series)),
            "{cloudwatch}: {ours}"
        );
    }
    let named: BTreeSet<&str> = documented.iter().map(|(_, ours)| *ours).collect();
    for line in page.lines().filter(|line| line.contains("{tenant=")) {
        let (name, _) = line.split_once('{').unwrap();
        assert!(named.contains(name), "{name} is not in the table");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_named_has_its_own_series_and_the_others_have_one() {
    let front = Front::start_with(GatewayConfig {
        shown_queues: vec![ShownQueue {
            tenant: TenantId::DEFAULT,
            name: "shown".to_owned(),
        }],
        ..GatewayConfig::default()
    })
    .await;
    let mut client = front.client().await;
    for name in ["shown", "one", "two"] {
        let url = queue(&mut client, name).await;
        use_queue(&mut client, &url).await;
    }
    let page = client.get("/metrics").await.body;
    for (labels, times) in [
        ("tenant=\"000000000000\",queue=\"shown\"", 1),
        ("tenant=\"_other\",queue=\"_other\"", 2),
    ] {
        for (name, each) in [
            ("hikyaku_messages_sent_total", 2),
            ("hikyaku_messages_sent_bytes_total", 9),
            ("hikyaku_messages_deduplicated_total", 0),
            ("hikyaku_messages_received_total", 1),
            ("hikyaku_messages_deleted_total", 1),
            ("hikyaku_empty_receives_total", 1),
            ("hikyaku_messages_visible", 0),
            ("hikyaku_messages_delayed", 1),
            ("hikyaku_quiet_messages_delayed", 1),
            ("hikyaku_noisy_groups", 0),
        ] {
            let line = format!("{name}{{{labels}}} {}", each * times);
            assert!(
                page.lines().any(|found| found == line),
                "no {line} in\n{page}"
            );
        }
    }
    assert!(!page.contains("queue=\"one\""));
}

#[tokio::test(start_paused = true)]
async fn a_noisy_group_is_told_from_the_quiet_messages() {
    let front = Front::start().await;
    let mut client = front.client().await;
    let url = queue(&mut client, "q").await;
    for _ in 0..4 {
        let entry =
            |id: u8| json!({"Id": id.to_string(), "MessageBody": "x", "MessageGroupId": "big"});
        let entries: Vec<Value> = (0..10).map(entry).collect();
        let batch = json!({"QueueUrl": url, "Entries": entries});
        client.act("SendMessageBatch", batch).await;
    }
    for _ in 0..3 {
        let receive = json!({"QueueUrl": url, "MaxNumberOfMessages": 10});
        client.act("ReceiveMessage", receive).await;
    }
    client
        .act(
            "SendMessage",
            json!({"QueueUrl": url, "MessageBody": "alone"}),
        )
        .await;
    let page = client.get("/metrics").await.body;
    for (name, value) in [
        ("hikyaku_messages_visible", 11),
        ("hikyaku_messages_in_flight", 30),
        ("hikyaku_noisy_groups", 1),
        ("hikyaku_quiet_messages_visible", 1),
        ("hikyaku_quiet_messages_in_flight", 0),
    ] {
        let line = format!("{name}{{tenant=\"_other\",queue=\"_other\"}} {value}");
        assert!(
            page.lines().any(|found| found == line),
            "no {line} in\n{page}"
        );
    }
}
