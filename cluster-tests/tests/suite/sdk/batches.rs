//! Up to ten at once: each entry is judged alone, the request as a whole first.

use aws_sdk_sqs::types::QueueAttributeName::ApproximateNumberOfMessages;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry,
    DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry,
};

use super::{World, bodies, code, receipt_handle};

fn entry(id: &str, body: &str) -> SendMessageBatchRequestEntry {
    let entry = SendMessageBatchRequestEntry::builder()
        .id(id)
        .message_body(body);
    entry.build().expect("an id and a body are given")
}

fn delete_entry(id: &str, handle: &str) -> DeleteMessageBatchRequestEntry {
    let entry = DeleteMessageBatchRequestEntry::builder()
        .id(id)
        .receipt_handle(handle);
    entry.build().expect("an id and a handle are given")
}

/// Id, code and whose fault, in the answer's order.
fn failures(failed: &[BatchResultErrorEntry]) -> Vec<(&str, &str, bool)> {
    failed
        .iter()
        .map(|f| (f.id(), f.code(), f.sender_fault()))
        .collect()
}

#[tokio::test]
async fn ten_are_sent_received_and_deleted() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let entries: Vec<_> = (0..10)
        .map(|n| entry(&format!("id-{n}"), &format!("m{n}")))
        .collect();
    let send = world
        .sqs
        .send_message_batch()
        .queue_url(&queue)
        .set_entries(Some(entries));
    let sent = send.send().await?;
    assert_eq!((sent.successful().len(), sent.failed().len()), (10, 0));

    let received = world.receive(&queue, 0).await?;
    let mut found = bodies(&received);
    found.sort_unstable();
    assert_eq!(
        found,
        ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"]
    );

    let entries = received.iter().enumerate();
    let entries = entries
        .map(|(n, m)| delete_entry(&n.to_string(), receipt_handle(m)))
        .collect();
    let delete = world
        .sqs
        .delete_message_batch()
        .queue_url(&queue)
        .set_entries(Some(entries));
    let deleted = delete.send().await?;
    assert_eq!(
        (deleted.successful().len(), deleted.failed().len()),
        (10, 0)
    );
    assert_eq!(
        world.attribute(&queue, ApproximateNumberOfMessages).await?,
        "0"
    );
    Ok(())
}

#[tokio::test]
async fn a_bad_entry_fails_alone() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let late = SendMessageBatchRequestEntry::builder()
        .id("late")
        .message_body("m");
    let send = world.sqs.send_message_batch().queue_url(&queue);
    let sent = send
        .entries(late.delay_seconds(901).build()?)
        .entries(entry("bad", "\u{1}"))
        .entries(entry("good", "m"))
        .send()
        .await?;
    let mut failed = failures(sent.failed());
    failed.sort_unstable();
    let expected = [
        ("bad", "InvalidMessageContents", true),
        ("late", "InvalidParameterValue", true),
    ];
    assert_eq!(failed, expected);
    assert_eq!(sent.successful().len(), 1);
    assert_eq!(sent.successful()[0].id(), "good");

    let received = world.receive(&queue, 0).await?;
    let delete = world.sqs.delete_message_batch().queue_url(&queue);
    let deleted = delete
        .entries(delete_entry("bad", "garbage"))
        .entries(delete_entry("good", receipt_handle(&received[0])))
        .send()
        .await?;
    assert_eq!(
        failures(deleted.failed()),
        [("bad", "ReceiptHandleIsInvalid", true)]
    );
    assert_eq!(deleted.successful().len(), 1);
    Ok(())
}

#[tokio::test]
async fn visibility_is_changed_by_the_batch() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    world.send(&queue, "m").await?;
    let received = world.receive(&queue, 0).await?;
    let release = ChangeMessageVisibilityBatchRequestEntry::builder().visibility_timeout(0);
    let bad = release
        .clone()
        .id("bad")
        .receipt_handle("garbage")
        .build()?;
    let good = release
        .id("good")
        .receipt_handle(receipt_handle(&received[0]))
        .build()?;
    let change = world
        .sqs
        .change_message_visibility_batch()
        .queue_url(&queue);
    let changed = change.entries(bad).entries(good).send().await?;
    assert_eq!(
        failures(changed.failed()),
        [("bad", "ReceiptHandleIsInvalid", true)]
    );
    assert_eq!(changed.successful().len(), 1);
    assert_eq!(bodies(&world.receive(&queue, 0).await?), ["m"]);
    Ok(())
}

#[tokio::test]
async fn a_batch_is_refused_as_a_whole() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let send = |entries: Vec<SendMessageBatchRequestEntry>| {
        world
            .sqs
            .send_message_batch()
            .queue_url(&queue)
            .set_entries(Some(entries))
            .send()
    };
    let of_sqs = |code: &str| format!("AWS.SimpleQueueService.{code}");
    assert_eq!(code(send(vec![]).await), of_sqs("EmptyBatchRequest"));
    let eleven = (0..11).map(|n| entry(&n.to_string(), "m")).collect();
    assert_eq!(
        code(send(eleven).await),
        of_sqs("TooManyEntriesInBatchRequest")
    );
    let same_ids = vec![entry("a", "m"), entry("a", "m")];
    assert_eq!(
        code(send(same_ids).await),
        of_sqs("BatchEntryIdsNotDistinct")
    );
    let bad_id = vec![entry("no spaces", "m")];
    assert_eq!(code(send(bad_id).await), of_sqs("InvalidBatchEntryId"));
    let half = "x".repeat(524_289);
    let long = vec![entry("a", &half), entry("b", &half)];
    assert_eq!(code(send(long).await), of_sqs("BatchRequestTooLong"));
    assert_eq!(
        world.attribute(&queue, ApproximateNumberOfMessages).await?,
        "0"
    );
    Ok(())
}
