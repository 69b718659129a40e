//! sled holds what can be rebuilt: a start without it shows clients the same queues and messages.

use std::fs;

use hikyaku_cluster_tests::client::{Connection, Outgoing, Wanted};
use hikyaku_cluster_tests::process::Server;
use serde_json::{Value, json};

/// Where the node keeps its copy of the catalogue, in the data directory.
const CATALOGUE: &str = "catalogue.sled";

/// All that a client can see without changing it.
async fn view(connection: &mut Connection, queue_url: &str) -> anyhow::Result<Value> {
    let queues = connection.call("ListQueues", &json!({})).await?;
    let tags = connection
        .call("ListQueueTags", &json!({ "QueueUrl": queue_url }))
        .await?;
    let attributes = connection.attributes(queue_url).await?;
    Ok(json!({ "queues": names(&queues), "tags": tags, "attributes": attributes }))
}

/// The queues' names: their URLs change with the server's port.
fn names(queues: &Value) -> Vec<&str> {
    let urls = queues["QueueUrls"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    urls.filter_map(|url| url.rsplit('/').next()).collect()
}

#[tokio::test]
async fn a_lost_catalogue_is_rebuilt() -> anyhow::Result<()> {
    let mut server = Server::start().await?;
    let mut connection = server.connect().await?;
    let queue_url = connection
        .create_queue("kept.fifo", &[("FifoQueue", "true"), ("DelaySeconds", "0")])
        .await?;
    connection
        .create_queue("another", &[("VisibilityTimeout", "77")])
        .await?;
    let tags = json!({ "QueueUrl": queue_url, "Tags": { "letter": "kept" } });
    connection.call("TagQueue", &tags).await?;
    let message = Outgoing {
        body: "still here".into(),
        message_group: Some("g".into()),
        deduplication_id: Some("d".into()),
        delay_seconds: None,
    };
    connection
        .send(&queue_url, std::slice::from_ref(&message))
        .await?;
    let before = view(&mut connection, &queue_url).await?;

    assert!(server.terminate().await?.success());
    fs::remove_dir_all(server.data_dir().join(CATALOGUE))?;
    server.restart().await?;

    let mut connection = server.connect().await?;
    assert_eq!(view(&mut connection, &queue_url).await?, before);
    connection.send(&queue_url, &[message]).await?;
    let wanted = Wanted {
        max: 10,
        ..Wanted::default()
    };
    let received = connection.receive(&queue_url, wanted).await?;
    let bodies: Vec<&str> = received.iter().map(|m| m.body.as_str()).collect();
    assert_eq!(
        bodies,
        ["still here"],
        "one message: the second send was a duplicate"
    );
    Ok(())
}
