//! Queues: made, found, listed, changed, tagged, purged and deleted.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_sqs::types::QueueAttributeName::{
    self, All, ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed,
    ApproximateNumberOfMessagesNotVisible, ContentBasedDeduplication, CreatedTimestamp,
    DelaySeconds, FifoQueue, LastModifiedTimestamp, MaximumMessageSize, MessageRetentionPeriod,
    Policy, QueueArn, ReceiveMessageWaitTimeSeconds, SqsManagedSseEnabled, VisibilityTimeout,
};

use super::{World, bodies, code};

#[tokio::test]
async fn a_created_queue_is_found_by_its_name() -> anyhow::Result<()> {
    let world = World::new().await?;
    let created = world.queue("letters").await?;
    assert!(created.ends_with("/000000000000/letters"), "{created}");
    let found = world
        .sqs
        .get_queue_url()
        .queue_name("letters")
        .send()
        .await?;
    assert_eq!(found.queue_url(), Some(created.as_str()));
    Ok(())
}

#[tokio::test]
async fn a_missing_queue_is_refused_everywhere() -> anyhow::Result<()> {
    let world = World::new().await?;
    let missing = "AWS.SimpleQueueService.NonExistentQueue";
    let sqs = &world.sqs;
    assert_eq!(
        code(sqs.get_queue_url().queue_name("nowhere").send().await),
        missing
    );
    let url = world.queue("letters").await?.replace("letters", "nowhere");
    assert_eq!(
        code(
            sqs.send_message()
                .queue_url(&url)
                .message_body("x")
                .send()
                .await
        ),
        missing
    );
    assert_eq!(
        code(sqs.receive_message().queue_url(&url).send().await),
        missing
    );
    assert_eq!(
        code(sqs.get_queue_attributes().queue_url(&url).send().await),
        missing
    );
    assert_eq!(
        code(sqs.purge_queue().queue_url(&url).send().await),
        missing
    );
    // Reported before the bad receipt handle.
    let delete = sqs
        .delete_message()
        .queue_url(&url)
        .receipt_handle("garbage");
    assert_eq!(code(delete.send().await), missing);
    Ok(())
}

#[tokio::test]
async fn creating_again_compares_what_is_given_with_what_is() -> anyhow::Result<()> {
    let world = World::new().await?;
    let first = world
        .queue_with("letters", &[(DelaySeconds, "3"), (VisibilityTimeout, "40")])
        .await?;
    assert_eq!(world.queue("letters").await?, first);
    assert_eq!(
        world
            .queue_with("letters", &[(VisibilityTimeout, "40")])
            .await?,
        first
    );
    let differs = world
        .sqs
        .create_queue()
        .queue_name("letters")
        .attributes(DelaySeconds, "4");
    assert_eq!(code(differs.send().await), "QueueAlreadyExists");
    Ok(())
}

#[tokio::test]
async fn a_permission_is_a_statement_until_it_is_removed() -> anyhow::Result<()> {
    let world = World::new().await?;
    let url = world.queue("letters").await?;
    let policy = async || {
        let asked = world.sqs.get_queue_attributes().queue_url(&url);
        let answer = asked.attribute_names(Policy).send().await?;
        anyhow::Ok(answer.attributes.and_then(|mut all| all.remove(&Policy)))
    };
    let add = || {
        let add = world.sqs.add_permission().queue_url(&url).label("read");
        add.aws_account_ids("111122223333")
            .actions("ReceiveMessage")
            .send()
    };
    add().await?;
    let text = policy().await?.expect("a policy was made");
    assert!(text.contains("arn:aws:iam::111122223333:root"), "{text}");
    assert_eq!(code(add().await), "InvalidParameterValue");
    let remove = world.sqs.remove_permission().queue_url(&url);
    remove.label("read").send().await?;
    assert_eq!(policy().await?, None);
    Ok(())
}

#[tokio::test]
async fn names_are_checked() -> anyhow::Result<()> {
    let world = World::new().await?;
    let create = |name: &str| world.sqs.create_queue().queue_name(name);
    assert_eq!(
        code(create("no spaces").send().await),
        "InvalidParameterValue"
    );
    assert_eq!(
        code(create(&"x".repeat(81)).send().await),
        "InvalidParameterValue"
    );
    assert_eq!(
        code(create("suffix.fifo").send().await),
        "InvalidParameterValue"
    );
    let no_suffix = create("plain").attributes(FifoQueue, "true");
    assert_eq!(code(no_suffix.send().await), "InvalidParameterValue");
    world.queue(&"x".repeat(80)).await?;
    Ok(())
}

#[tokio::test]
async fn listing_goes_by_prefix_and_page() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut wanted = BTreeSet::new();
    for number in 0..5 {
        wanted.insert(world.queue(&format!("in-{number}")).await?);
    }
    world.queue("out").await?;

    let mut listed = BTreeSet::new();
    let mut pages = world
        .sqs
        .list_queues()
        .queue_name_prefix("in-")
        .max_results(2)
        .into_paginator()
        .send();
    let mut page_sizes = Vec::new();
    while let Some(page) = pages.next().await {
        let urls = page?.queue_urls.unwrap_or_default();
        page_sizes.push(urls.len());
        listed.extend(urls);
    }
    assert_eq!(listed, wanted);
    assert_eq!(page_sizes, [2, 2, 1]);

    let none = world
        .sqs
        .list_queues()
        .queue_name_prefix("absent")
        .send()
        .await?;
    assert_eq!(none.queue_urls().len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_new_queue_has_the_twelve_attributes_of_aws() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let all = world
        .sqs
        .get_queue_attributes()
        .queue_url(&queue)
        .attribute_names(All)
        .send()
        .await?;
    let all = all.attributes.unwrap_or_default();
    let defaults = [
        (ApproximateNumberOfMessages, "0"),
        (ApproximateNumberOfMessagesDelayed, "0"),
        (ApproximateNumberOfMessagesNotVisible, "0"),
        (DelaySeconds, "0"),
        (MaximumMessageSize, "1048576"),
        (MessageRetentionPeriod, "345600"),
        (QueueArn, "arn:aws:sqs:us-east-1:000000000000:letters"),
        (ReceiveMessageWaitTimeSeconds, "0"),
        (SqsManagedSseEnabled, "true"),
        (VisibilityTimeout, "30"),
    ];
    for (name, value) in defaults {
        assert_eq!(all.get(&name).map(String::as_str), Some(value), "{name}");
    }
    assert!(all.contains_key(&CreatedTimestamp) && all.contains_key(&LastModifiedTimestamp));
    assert_eq!(all.len(), 12, "{all:?}");
    Ok(())
}

#[tokio::test]
async fn only_what_is_asked_for_is_answered() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let get = || world.sqs.get_queue_attributes().queue_url(&queue);
    assert_eq!(get().send().await?.attributes, None);
    let unset = get()
        .attribute_names(Policy)
        .attribute_names(DelaySeconds)
        .send()
        .await?;
    assert_eq!(
        unset.attributes,
        Some(HashMap::from([(DelaySeconds, "0".to_owned())]))
    );
    let unknown = get()
        .attribute_names(QueueAttributeName::from("Foobar"))
        .send()
        .await;
    assert_eq!(code(unknown), "InvalidAttributeName");
    Ok(())
}

#[tokio::test]
async fn changed_attributes_read_back_and_take_effect() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let set = world.sqs.set_queue_attributes().queue_url(&queue);
    set.attributes(VisibilityTimeout, "0")
        .attributes(MaximumMessageSize, "1024")
        .send()
        .await?;
    assert_eq!(world.attribute(&queue, VisibilityTimeout).await?, "0");

    let long = world
        .sqs
        .send_message()
        .queue_url(&queue)
        .message_body("x".repeat(1_025));
    assert_eq!(code(long.send().await), "InvalidParameterValue");
    world.send(&queue, &"x".repeat(1_024)).await?;
    assert_eq!(world.receive(&queue, 0).await?.len(), 1);
    assert_eq!(
        world.receive(&queue, 0).await?.len(),
        1,
        "visible again at once"
    );
    Ok(())
}

#[tokio::test]
async fn attributes_out_of_range_are_refused() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let set = |name, value| {
        world
            .sqs
            .set_queue_attributes()
            .queue_url(&queue)
            .attributes(name, value)
            .send()
    };
    assert_eq!(
        code(set(VisibilityTimeout, "43201").await),
        "InvalidAttributeValue"
    );
    assert_eq!(
        code(set(DelaySeconds, "901").await),
        "InvalidAttributeValue"
    );
    assert_eq!(
        code(set(DelaySeconds, "soon").await),
        "InvalidAttributeValue"
    );
    assert_eq!(
        code(set(MessageRetentionPeriod, "59").await),
        "InvalidAttributeValue"
    );
    assert_eq!(
        code(set(ContentBasedDeduplication, "true").await),
        "InvalidAttributeName"
    );
    assert_eq!(
        code(set(QueueAttributeName::from("Foobar"), "1").await),
        "InvalidAttributeName"
    );
    Ok(())
}

#[tokio::test]
async fn a_deleted_queue_is_gone_and_its_name_rests() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    world.send(&queue, "lost with it").await?;
    world.sqs.delete_queue().queue_url(&queue).send().await?;
    let missing = "AWS.SimpleQueueService.NonExistentQueue";
    assert_eq!(
        code(world.sqs.receive_message().queue_url(&queue).send().await),
        missing
    );
    let again = world.sqs.create_queue().queue_name("letters").send().await;
    assert_eq!(code(again), "AWS.SimpleQueueService.QueueDeletedRecently");
    Ok(())
}

#[tokio::test]
async fn a_purge_takes_all_that_was_there_and_nothing_later() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    world.send(&queue, "in flight").await?;
    assert_eq!(world.receive(&queue, 0).await?.len(), 1);
    world.send(&queue, "visible").await?;
    world.sqs.purge_queue().queue_url(&queue).send().await?;
    world.send(&queue, "later").await?;

    assert_eq!(bodies(&world.receive(&queue, 1).await?), ["later"]);
    assert_eq!(
        world
            .attribute(&queue, ApproximateNumberOfMessagesNotVisible)
            .await?,
        "1"
    );
    let again = world.sqs.purge_queue().queue_url(&queue).send().await;
    assert_eq!(code(again), "AWS.SimpleQueueService.PurgeQueueInProgress");
    Ok(())
}

#[tokio::test]
async fn tags_are_set_replaced_and_removed() -> anyhow::Result<()> {
    let world = World::new().await?;
    let create = world
        .sqs
        .create_queue()
        .queue_name("letters")
        .tags("made", "with it")
        .send();
    let queue = create.await?.queue_url.unwrap_or_default();
    let tag = world
        .sqs
        .tag_queue()
        .queue_url(&queue)
        .tags("made", "new")
        .tags("empty", "");
    tag.send().await?;
    let tags = world
        .sqs
        .list_queue_tags()
        .queue_url(&queue)
        .send()
        .await?
        .tags;
    let expected = [("made", "new"), ("empty", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(tags, Some(HashMap::from(expected)));

    let untag = world
        .sqs
        .untag_queue()
        .queue_url(&queue)
        .tag_keys("made")
        .tag_keys("never was");
    untag.tag_keys("empty").send().await?;
    let tags = world
        .sqs
        .list_queue_tags()
        .queue_url(&queue)
        .send()
        .await?
        .tags;
    assert_eq!(tags.unwrap_or_default(), HashMap::new());
    Ok(())
}
