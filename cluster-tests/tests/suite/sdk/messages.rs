//! Messages of a standard queue, one at a time.

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::QueueAttributeName::{
    ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed,
    ApproximateNumberOfMessagesNotVisible, VisibilityTimeout,
};
use aws_sdk_sqs::types::{MessageAttributeValue, MessageSystemAttributeName};

use super::{World, bodies, code, receipt_handle, system_attribute};

fn text(data_type: &str, value: &str) -> MessageAttributeValue {
    let value = MessageAttributeValue::builder()
        .data_type(data_type)
        .string_value(value);
    value.build().expect("a data type is given")
}

#[tokio::test]
async fn a_message_comes_out_as_it_went_in() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let body = "<a> & \"b\" \r\n\t 飛脚 \u{fffd} \u{10ffff}";
    let binary = MessageAttributeValue::builder().data_type("Binary.raw");
    let sent = world
        .sqs
        .send_message()
        .queue_url(&queue)
        .message_body(body)
        .message_attributes("text", text("String", "x"))
        .message_attributes("number", text("Number.int", "42"))
        .message_attributes(
            "bytes",
            binary.binary_value(Blob::new([0, 255, 1])).build()?,
        )
        .send()
        .await?;

    let receive = world
        .sqs
        .receive_message()
        .queue_url(&queue)
        .message_attribute_names("All");
    let received = receive.send().await?.messages.unwrap_or_default();
    assert_eq!(bodies(&received), [body]);
    let message = &received[0];
    assert_eq!(message.message_id(), sent.message_id());
    assert_eq!(message.md5_of_body(), sent.md5_of_message_body());
    assert_eq!(
        message.md5_of_message_attributes(),
        sent.md5_of_message_attributes()
    );
    let attributes = message.message_attributes().expect("all were asked for");
    assert_eq!(attributes.len(), 3);
    assert_eq!(attributes["number"], text("Number.int", "42"));
    assert_eq!(
        attributes["bytes"].binary_value(),
        Some(&Blob::new([0, 255, 1]))
    );
    Ok(())
}

#[tokio::test]
async fn digests_are_those_of_aws() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let send = world
        .sqs
        .send_message()
        .queue_url(&queue)
        .message_body("hello");
    let sent = send
        .message_attributes("test-key", text("String", "test-value"))
        .message_attributes("test-key-alt", text("String", "test-value-alt"))
        .send()
        .await?;
    assert_eq!(
        sent.md5_of_message_body(),
        Some("5d41402abc4b2a76b9719d911017c592")
    );
    assert_eq!(
        sent.md5_of_message_attributes(),
        Some("2256c3b617e2b4b3ae4f2d455dcf54d0")
    );

    let receive = world
        .sqs
        .receive_message()
        .queue_url(&queue)
        .message_attribute_names("test-key");
    let received = receive.send().await?.messages.unwrap_or_default();
    let digest = received[0].md5_of_message_attributes();
    assert_eq!(
        digest,
        Some("befa18540a897f7d022bf07057754a03"),
        "of what is returned only"
    );
    Ok(())
}

#[tokio::test]
async fn system_attributes_tell_the_message_s_story() -> anyhow::Result<()> {
    use MessageSystemAttributeName::{
        ApproximateFirstReceiveTimestamp, ApproximateReceiveCount, SenderId, SentTimestamp,
    };
    let world = World::new().await?;
    let queue = world
        .queue_with("letters", &[(VisibilityTimeout, "0")])
        .await?;
    world.send(&queue, "m").await?;
    let first = world.receive(&queue, 0).await?;
    let second = world.receive(&queue, 0).await?;
    assert_eq!(system_attribute(&first[0], ApproximateReceiveCount), "1");
    assert_eq!(system_attribute(&second[0], ApproximateReceiveCount), "2");
    let first_received = system_attribute(&first[0], ApproximateFirstReceiveTimestamp);
    let again = system_attribute(&second[0], ApproximateFirstReceiveTimestamp);
    assert_eq!(first_received, again);
    let sent: u64 = system_attribute(&first[0], SentTimestamp).parse()?;
    assert!(sent > 1_600_000_000_000 && sent <= first_received.parse()?);
    assert_ne!(system_attribute(&first[0], SenderId), "");
    assert_ne!(first[0].receipt_handle(), second[0].receipt_handle());

    let unasked = world.sqs.receive_message().queue_url(&queue).send().await?;
    assert_eq!(unasked.messages()[0].attributes(), None);
    Ok(())
}

#[tokio::test]
async fn a_received_message_is_hidden_until_its_timeout() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world
        .queue_with("letters", &[(VisibilityTimeout, "1")])
        .await?;
    world.send(&queue, "m").await?;
    assert_eq!(bodies(&world.receive(&queue, 0).await?), ["m"]);
    assert_eq!(
        world
            .attribute(&queue, ApproximateNumberOfMessagesNotVisible)
            .await?,
        "1"
    );
    // The long poll wakes when the timeout is over, with nothing else going on.
    assert_eq!(bodies(&world.receive(&queue, 20).await?), ["m"]);
    Ok(())
}

#[tokio::test]
async fn visibility_is_changed_and_given_up() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    world.send(&queue, "m").await?;
    let received = world.receive(&queue, 0).await?;
    let change = |seconds| {
        let change = world.sqs.change_message_visibility().queue_url(&queue);
        change
            .receipt_handle(receipt_handle(&received[0]))
            .visibility_timeout(seconds)
            .send()
    };
    assert_eq!(code(change(43_201).await), "InvalidParameterValue");
    change(600).await?;
    assert!(world.receive(&queue, 0).await?.is_empty());
    change(0).await?;
    assert_eq!(bodies(&world.receive(&queue, 0).await?), ["m"]);
    world.delete(&queue, &received[0]).await?;
    assert_eq!(code(change(5).await), "InvalidParameterValue");
    Ok(())
}

#[tokio::test]
async fn a_deleted_message_stays_deleted() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world
        .queue_with("letters", &[(VisibilityTimeout, "0")])
        .await?;
    world.send(&queue, "m").await?;
    let received = world.receive(&queue, 0).await?;
    world.delete(&queue, &received[0]).await?;
    world.delete(&queue, &received[0]).await?;
    assert!(world.receive(&queue, 1).await?.is_empty());
    assert_eq!(
        world.attribute(&queue, ApproximateNumberOfMessages).await?,
        "0"
    );
    Ok(())
}

#[tokio::test]
async fn receipt_handles_that_we_never_gave_are_refused() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let garbage = world
        .sqs
        .delete_message()
        .queue_url(&queue)
        .receipt_handle("garbage");
    assert_eq!(code(garbage.send().await), "ReceiptHandleIsInvalid");

    let other = world.queue("other").await?;
    world.send(&other, "m").await?;
    let foreign = world.receive(&other, 0).await?;
    let foreign = world
        .sqs
        .delete_message()
        .queue_url(&queue)
        .receipt_handle(receipt_handle(&foreign[0]));
    assert_eq!(code(foreign.send().await), "ReceiptHandleIsInvalid");
    Ok(())
}

#[tokio::test]
async fn a_delayed_message_comes_when_its_delay_is_over() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let send = world
        .sqs
        .send_message()
        .queue_url(&queue)
        .message_body("m")
        .delay_seconds(1);
    send.send().await?;
    assert_eq!(
        world
            .attribute(&queue, ApproximateNumberOfMessagesDelayed)
            .await?,
        "1"
    );
    assert_eq!(bodies(&world.receive(&queue, 20).await?), ["m"]);

    let late = world
        .sqs
        .send_message()
        .queue_url(&queue)
        .message_body("m")
        .delay_seconds(901);
    assert_eq!(code(late.send().await), "InvalidParameterValue");
    Ok(())
}

#[tokio::test]
async fn a_send_wakes_a_long_poll() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let (received, sent) = tokio::join!(
        world.receive(&queue, 20),
        world.send(&queue, "here at last")
    );
    sent?;
    assert_eq!(bodies(&received?), ["here at last"]);
    Ok(())
}

#[tokio::test]
async fn a_receive_asks_for_one_to_ten() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let receive = || world.sqs.receive_message().queue_url(&queue);
    let refused = "InvalidParameterValue";
    assert_eq!(
        code(receive().max_number_of_messages(0).send().await),
        refused
    );
    assert_eq!(
        code(receive().max_number_of_messages(11).send().await),
        refused
    );
    assert_eq!(code(receive().wait_time_seconds(21).send().await), refused);
    Ok(())
}

#[tokio::test]
async fn bodies_have_limits() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let send = |body: String| {
        world
            .sqs
            .send_message()
            .queue_url(&queue)
            .message_body(body)
            .send()
    };
    assert_eq!(code(send(String::new()).await), "MissingParameter");
    assert_eq!(code(send("\u{0}".into()).await), "InvalidMessageContents");
    assert_eq!(
        code(send("\u{ffff}".into()).await),
        "InvalidMessageContents"
    );
    assert_eq!(
        code(send("x".repeat(1_048_577)).await),
        "InvalidParameterValue"
    );
    send("x".repeat(1_048_576)).await?;
    let received = world.receive(&queue, 0).await?;
    assert_eq!(received[0].body().map(str::len), Some(1_048_576));
    Ok(())
}

#[tokio::test]
async fn message_attributes_have_limits() -> anyhow::Result<()> {
    let world = World::new().await?;
    let queue = world.queue("letters").await?;
    let send = || world.sqs.send_message().queue_url(&queue).message_body("m");
    let eleven = (0..11).fold(send(), |send, n| {
        send.message_attributes(format!("a{n}"), text("String", "x"))
    });
    let refused = "InvalidParameterValue";
    assert_eq!(code(eleven.send().await), refused);
    let wrong_type = send().message_attributes("a", text("Text", "x"));
    assert_eq!(code(wrong_type.send().await), refused);
    let empty = send().message_attributes("a", text("String", ""));
    assert_eq!(code(empty.send().await), refused);
    let reserved = send().message_attributes("AWS.a", text("String", "x"));
    assert_eq!(code(reserved.send().await), refused);
    Ok(())
}
