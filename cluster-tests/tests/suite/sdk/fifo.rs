//! FIFO: order within each message group, and no duplicates.

use aws_sdk_sqs::operation::send_message::SendMessageOutput;
use aws_sdk_sqs::types::MessageSystemAttributeName::{
    MessageDeduplicationId, MessageGroupId, SequenceNumber,
};
use aws_sdk_sqs::types::QueueAttributeName::{
    self, ApproximateNumberOfMessages, ContentBasedDeduplication, DeduplicationScope, FifoQueue,
    VisibilityTimeout,
};

use super::{World, bodies, code, receipt_handle, system_attribute};

impl World {
    async fn fifo(&self, more: &[(QueueAttributeName, &str)]) -> anyhow::Result<String> {
        let mut attributes = vec![(FifoQueue, "true")];
        attributes.extend_from_slice(more);
        self.queue_with("letters.fifo", &attributes).await
    }

    /// Sends with the body as the deduplication id.
    async fn send_to(
        &self,
        queue: &str,
        message_group: &str,
        body: &str,
    ) -> anyhow::Result<SendMessageOutput> {
        let send = self.sqs.send_message().queue_url(queue).message_body(body);
        let send = send
            .message_group_id(message_group)
            .message_deduplication_id(body);
        Ok(send.send().await?)
    }
}

#[tokio::test]
async fn a_message_group_comes_in_order() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[]).await?;
    let mut numbers = Vec::new();
    for body in ["1", "2", "3"] {
        let sent = world.send_to(&queue, "a", body).await?;
        numbers.push(sent.sequence_number.unwrap_or_default());
    }
    assert!(numbers.iter().all(|n| n.len() == 20), "{numbers:?}");
    assert!(numbers.is_sorted());

    let received = world.receive(&queue, 0).await?;
    assert_eq!(bodies(&received), ["1", "2", "3"]);
    assert_eq!(system_attribute(&received[1], MessageGroupId), "a");
    assert_eq!(system_attribute(&received[1], MessageDeduplicationId), "2");
    assert_eq!(system_attribute(&received[1], SequenceNumber), numbers[1]);
    Ok(())
}

#[tokio::test]
async fn a_group_waits_for_its_head_and_no_other_group_does() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[]).await?;
    world.send_to(&queue, "a", "a1").await?;
    let head = world.receive(&queue, 0).await?;
    world.send_to(&queue, "a", "a2").await?;
    world.send_to(&queue, "b", "b1").await?;
    assert_eq!(bodies(&world.receive(&queue, 0).await?), ["b1"]);
    assert_eq!(
        world.attribute(&queue, ApproximateNumberOfMessages).await?,
        "1",
        "a2 counts"
    );

    world.delete(&queue, &head[0]).await?;
    assert_eq!(bodies(&world.receive(&queue, 5).await?), ["a2"]);
    Ok(())
}

#[tokio::test]
async fn a_released_head_comes_first_again() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[]).await?;
    world.send_to(&queue, "a", "1").await?;
    let head = world.receive(&queue, 0).await?;
    world.send_to(&queue, "a", "2").await?;
    let change = world
        .sqs
        .change_message_visibility()
        .queue_url(&queue)
        .visibility_timeout(0);
    change
        .receipt_handle(receipt_handle(&head[0]))
        .send()
        .await?;
    assert_eq!(bodies(&world.receive(&queue, 0).await?), ["1", "2"]);
    Ok(())
}

#[tokio::test]
async fn a_duplicate_is_accepted_and_dropped() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[]).await?;
    let first = world.send_to(&queue, "a", "m").await?;
    let received = world.receive(&queue, 0).await?;
    world.delete(&queue, &received[0]).await?;
    // The memory outlives the message, and knows no groups in this scope.
    let again = world.send_to(&queue, "b", "m").await?;
    assert_eq!(again.message_id(), first.message_id());
    assert!(world.receive(&queue, 1).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_purge_forgets_duplicates() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[]).await?;
    world.send_to(&queue, "a", "m").await?;
    world.sqs.purge_queue().queue_url(&queue).send().await?;
    world.send_to(&queue, "a", "m").await?;
    assert_eq!(bodies(&world.receive(&queue, 1).await?), ["m"]);
    Ok(())
}

#[tokio::test]
async fn duplicates_are_per_group_when_the_queue_says_so() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[(DeduplicationScope, "messageGroup")]).await?;
    let first = world.send_to(&queue, "a", "m").await?;
    let other_group = world.send_to(&queue, "b", "m").await?;
    assert_ne!(other_group.message_id(), first.message_id());
    let again = world.send_to(&queue, "a", "m").await?;
    assert_eq!(again.message_id(), first.message_id());
    assert_eq!(world.receive(&queue, 0).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn the_body_can_be_the_deduplication_id() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[(ContentBasedDeduplication, "true")]).await?;
    let send = |body: &str| {
        world
            .sqs
            .send_message()
            .queue_url(&queue)
            .message_group_id("a")
            .message_body(body)
            .send()
    };
    let first = send("same").await?;
    assert_eq!(send("same").await?.message_id(), first.message_id());
    assert_ne!(send("other").await?.message_id(), first.message_id());
    Ok(())
}

#[tokio::test]
async fn what_fifo_needs_must_be_there() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[]).await?;
    let send = || world.sqs.send_message().queue_url(&queue).message_body("m");
    let no_group = send().message_deduplication_id("d");
    assert_eq!(code(no_group.send().await), "MissingParameter");
    let no_id = send().message_group_id("a");
    assert_eq!(code(no_id.send().await), "InvalidParameterValue");
    let spaces = send().message_group_id("a b").message_deduplication_id("d");
    assert_eq!(code(spaces.send().await), "InvalidParameterValue");
    let delayed = send()
        .message_group_id("a")
        .message_deduplication_id("d")
        .delay_seconds(2);
    assert_eq!(code(delayed.send().await), "InvalidParameterValue");
    Ok(())
}

#[tokio::test]
async fn an_expired_receipt_handle_deletes_nothing() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[(VisibilityTimeout, "1")]).await?;
    world.send_to(&queue, "a", "m").await?;
    let first = world.receive(&queue, 0).await?;
    let second = world.receive(&queue, 20).await?;
    assert_eq!(bodies(&second), ["m"]);
    let delete = world.sqs.delete_message().queue_url(&queue);
    let stale = delete
        .receipt_handle(receipt_handle(&first[0]))
        .send()
        .await;
    assert_eq!(code(stale), "InvalidParameterValue");
    Ok(())
}

#[tokio::test]
async fn a_receive_attempt_can_be_repeated() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.fifo(&[]).await?;
    world.send_to(&queue, "a", "1").await?;
    world.send_to(&queue, "b", "2").await?;
    let attempt = || {
        let receive = world
            .sqs
            .receive_message()
            .queue_url(&queue)
            .max_number_of_messages(10);
        receive.receive_request_attempt_id("attempt").send()
    };
    let first = attempt().await?;
    let again = attempt().await?;
    assert_eq!(first.messages().len(), 2);
    assert_eq!(again.messages(), first.messages());
    Ok(())
}
