//! Permissions that several clients change at once.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Client, Front};

/// The labels in a queue's policy.
async fn labels(client: &mut Client, url: &str) -> BTreeSet<String> {
    let asked = json!({ "QueueUrl": url, "AttributeNames": ["Policy"] });
    let output = client.act("GetQueueAttributes", asked).await;
    let Some(policy) = output["Attributes"]["Policy"].as_str() else {
        return BTreeSet::new();
    };
    let policy: Value = serde_json::from_str(policy).unwrap();
    let statements = policy["Statement"].as_array().unwrap();
    let label = |statement: &Value| statement["Sid"].as_str().unwrap().to_owned();
    statements.iter().map(label).collect()
}

/// Each reads the policy before it writes it, and there is room for twenty.
#[tokio::test(start_paused = true)]
async fn permissions_added_and_removed_at_once_are_all_in_the_policy() {
    let front = Front::start().await;
    let (mut client, url) = front.client_with_queue().await;
    let permission = |label: &str| {
        json!({
            "QueueUrl": url,
            "Label": label,
            "AWSAccountIds": ["111111111111"],
            "Actions": ["SendMessage"],
        })
    };
    for old in 0..10 {
        let members = permission(&format!("old{old}"));
        client.act("AddPermission", members).await;
    }
    let add = (0..10).map(|new| ("AddPermission", permission(&format!("new{new}"))));
    let remove = (0..10).map(|old| {
        let members = json!({ "QueueUrl": url, "Label": format!("old{old}") });
        ("RemovePermission", members)
    });
    join_all(add.chain(remove).map(async |(action, members)| {
        let mut client = front.client().await;
        client.act(action, members).await
    }))
    .await;

    let expected: BTreeSet<String> = (0..10).map(|new| format!("new{new}")).collect();
    assert_eq!(labels(&mut client, &url).await, expected);
}
