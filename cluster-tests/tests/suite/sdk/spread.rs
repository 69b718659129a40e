//! Queues on several partitions, which a client must not notice.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_sqs::types::MessageSystemAttributeName::{MessageGroupId, SequenceNumber};
use aws_sdk_sqs::types::QueueAttributeName::{
    self, ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible, DeduplicationScope,
    FifoQueue,
};
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    SendMessageBatchRequestEntry,
};

use super::{World, bodies, code, receipt_handle, system_attribute};

/// So many that each of the server's partitions has some.
const GROUPS: usize = 10;

fn hikyaku_spread() -> QueueAttributeName {
    QueueAttributeName::from("Hikyaku.Spread")
}

impl World {
    async fn by_group(&self) -> anyhow::Result<String> {
        let attributes = [(FifoQueue, "true"), (DeduplicationScope, "messageGroup")];
        self.queue_with("letters.fifo", &attributes).await
    }

    /// Sends one message to each group in one batch; gives back ids and sequence numbers by entry.
    async fn send_round(
        &self,
        queue: &str,
        round: usize,
    ) -> anyhow::Result<BTreeMap<String, (String, String)>> {
        let entry = |group: usize| {
            SendMessageBatchRequestEntry::builder()
                .id(format!("e{group}"))
                .message_group_id(format!("g{group}"))
                .message_deduplication_id(round.to_string())
                .message_body(format!("g{group} {round}"))
                .build()
        };
        let entries = (0..GROUPS).map(entry).collect::<Result<Vec<_>, _>>()?;
        let batch = self.sqs.send_message_batch().queue_url(queue);
        let answer = batch.set_entries(Some(entries)).send().await?;
        assert!(answer.failed().is_empty());
        let sent = answer.successful.into_iter();
        let sent = sent.map(|it| {
            (
                it.id,
                (it.message_id, it.sequence_number.unwrap_or_default()),
            )
        });
        Ok(sent.collect())
    }

    /// Receives until nothing comes.
    async fn receive_all(&self, queue: &str) -> anyhow::Result<Vec<Message>> {
        let mut all = Vec::new();
        loop {
            let received = self.receive(queue, 0).await?;
            if received.is_empty() {
                return Ok(all);
            }
            all.extend(received);
        }
    }

    async fn delete_all(&self, queue: &str, messages: &[Message]) -> anyhow::Result<()> {
        for some in messages.chunks(10) {
            let entry = |(place, message): (usize, &Message)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(place.to_string())
                    .receipt_handle(receipt_handle(message))
                    .build()
            };
            let entries = some.iter().enumerate().map(entry);
            let batch = self.sqs.delete_message_batch().queue_url(queue);
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            let answer = batch.set_entries(Some(entries)).send().await?;
            assert_eq!(answer.successful().len(), some.len());
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_batch_over_many_groups_keeps_each_in_order() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.by_group().await?;
    let mut sequences: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for round in 0..3 {
        for (entry, (_, sequence)) in world.send_round(&queue, round).await? {
            assert_eq!(sequence.len(), 20);
            sequences.entry(entry).or_default().push(sequence);
        }
    }
    assert!(sequences.values().all(|it| it.is_sorted()), "{sequences:?}");
    let count = world.attribute(&queue, ApproximateNumberOfMessages).await?;
    assert_eq!(count, "30", "over all partitions");

    let mut received = Vec::new();
    // A group is blocked by what is in flight of it.
    while received.len() < 30 {
        let some = world.receive(&queue, 0).await?;
        assert!(!some.is_empty(), "{} of 30", received.len());
        world.delete_all(&queue, &some).await?;
        received.extend(some);
    }
    let mut by_group: BTreeMap<&str, Vec<&Message>> = BTreeMap::new();
    for message in &received {
        let group = system_attribute(message, MessageGroupId);
        by_group.entry(group).or_default().push(message);
    }
    for (group, messages) in by_group {
        let texts: Vec<&str> = messages.iter().filter_map(|it| it.body()).collect();
        let expected: Vec<String> = (0..3).map(|round| format!("{group} {round}")).collect();
        assert_eq!(texts, expected);
        let numbers = messages
            .iter()
            .map(|it| system_attribute(it, SequenceNumber));
        assert!(numbers.is_sorted());
    }
    Ok(())
}

#[tokio::test]
async fn a_group_waits_for_its_head_wherever_it_is() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.by_group().await?;
    world.send_round(&queue, 0).await?;
    let heads = world.receive_all(&queue).await?;
    assert_eq!(heads.len(), GROUPS);
    world.send_round(&queue, 1).await?;
    assert!(
        world.receive(&queue, 0).await?.is_empty(),
        "all are blocked"
    );
    world.delete_all(&queue, &heads).await?;
    assert_eq!(world.receive_all(&queue).await?.len(), GROUPS);
    Ok(())
}

#[tokio::test]
async fn duplicates_are_dropped_in_every_group() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.by_group().await?;
    let first = world.send_round(&queue, 0).await?;
    let received = world.receive_all(&queue).await?;
    world.delete_all(&queue, &received).await?;
    assert_eq!(world.send_round(&queue, 0).await?, first);
    assert!(world.receive(&queue, 0).await?.is_empty());
    let ids: BTreeSet<_> = first.values().map(|(id, _)| id).collect();
    assert_eq!(
        ids.len(),
        GROUPS,
        "the same id in other groups is another message"
    );
    Ok(())
}

#[tokio::test]
async fn handles_of_several_partitions_go_in_one_batch() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.by_group().await?;
    world.send_round(&queue, 0).await?;
    let received = world.receive_all(&queue).await?;
    let entry = |(place, message): (usize, &Message)| {
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(place.to_string())
            .receipt_handle(receipt_handle(message))
            .visibility_timeout(0)
            .build()
    };
    let mut entries: Vec<_> = received
        .iter()
        .take(9)
        .enumerate()
        .map(entry)
        .collect::<Result<_, _>>()?;
    entries.push(
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id("forged")
            .receipt_handle("forged")
            .visibility_timeout(0)
            .build()?,
    );
    let batch = world.sqs.change_message_visibility_batch();
    let batch = batch.queue_url(&queue).set_entries(Some(entries));
    let answer = batch.send().await?;
    assert_eq!(answer.successful().len(), 9);
    assert_eq!(answer.failed()[0].id(), "forged");
    assert_eq!(world.receive_all(&queue).await?.len(), 9, "visible again");
    Ok(())
}

#[tokio::test]
async fn a_purge_reaches_every_partition() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.by_group().await?;
    world.send_round(&queue, 0).await?;
    world.receive(&queue, 0).await?;
    world.sqs.purge_queue().queue_url(&queue).send().await?;
    for name in [
        ApproximateNumberOfMessages,
        ApproximateNumberOfMessagesNotVisible,
    ] {
        assert_eq!(world.attribute(&queue, name).await?, "0");
    }
    world.send_round(&queue, 0).await?;
    assert_eq!(world.receive_all(&queue).await?.len(), GROUPS);
    Ok(())
}

#[tokio::test]
async fn a_standard_queue_is_spread_and_gathered_again() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    assert_eq!(world.attribute(&queue, hikyaku_spread()).await?, "");
    let set = async |width: &str| {
        let set = world.sqs.set_queue_attributes().queue_url(&queue);
        set.attributes(hikyaku_spread(), width).send().await
    };
    set("4").await?;
    assert_eq!(world.attribute(&queue, hikyaku_spread()).await?, "4");
    for number in 0..40 {
        world.send(&queue, &number.to_string()).await?;
    }
    let count = world.attribute(&queue, ApproximateNumberOfMessages).await?;
    assert_eq!(count, "40");
    set("1").await?;
    for number in 40..50 {
        world.send(&queue, &number.to_string()).await?;
    }
    let received = world.receive_all(&queue).await?;
    let seen: BTreeSet<&str> = bodies(&received).into_iter().collect();
    assert_eq!(seen.len(), 50, "nothing is left where nobody looks");
    world.delete_all(&queue, &received).await?;

    set("").await?;
    assert_eq!(world.attribute(&queue, hikyaku_spread()).await?, "");
    assert_eq!(code(set("33").await), "InvalidAttributeValue");
    let fifo = world.by_group().await?;
    let on_fifo = world.sqs.set_queue_attributes().queue_url(&fifo);
    let refused = on_fifo.attributes(hikyaku_spread(), "2").send().await;
    assert_eq!(code(refused), "InvalidAttributeName");
    Ok(())
}

#[tokio::test]
async fn a_waiting_receive_hears_of_any_partition() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.by_group().await?;
    for round in 0..4 {
        let poll = async { world.receive(&queue, 20).await };
        let send = async {
            let send = world.sqs.send_message().queue_url(&queue);
            let send = send.message_body("m").message_group_id(format!("g{round}"));
            send.message_deduplication_id("m").send().await
        };
        let (received, sent) = tokio::join!(poll, send);
        sent?;
        let received = received?;
        assert_eq!(bodies(&received), ["m"]);
        world.delete_all(&queue, &received).await?;
    }
    Ok(())
}
