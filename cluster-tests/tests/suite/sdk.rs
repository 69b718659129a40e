//! AWS's own SDK for Rust, unchanged, against the real process.
//!
//! Each test has a server of its own, since queue names and the sixty seconds after a delete or a
//! purge are shared by all who speak to one server. Errors are checked by the code an SDK shows.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use hikyaku_cluster_tests::process::Server;

mod batches;
mod fifo;
mod messages;
mod queues;
mod spread;

/// A server and a client for it; the server ends with this value.
struct World {
    _server: Server,
    sqs: Client,
}

impl World {
    async fn new() -> anyhow::Result<Self> {
        let server = Server::start().await?;
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::for_tests())
            .endpoint_url(format!("http://{}", server.address()))
            .build();
        Ok(Self {
            _server: server,
            sqs: Client::from_conf(config),
        })
    }

    /// A new queue's URL.
    async fn queue(&self, name: &str) -> anyhow::Result<String> {
        self.queue_with(name, &[]).await
    }

    async fn queue_with(
        &self,
        name: &str,
        attributes: &[(QueueAttributeName, &str)],
    ) -> anyhow::Result<String> {
        let mut create = self.sqs.create_queue().queue_name(name);
        for (attribute, value) in attributes {
            create = create.attributes(attribute.clone(), *value);
        }
        Ok(create
            .send()
            .await?
            .queue_url
            .expect("CreateQueue answers with a URL"))
    }

    async fn send(&self, queue: &str, body: &str) -> anyhow::Result<()> {
        self.sqs
            .send_message()
            .queue_url(queue)
            .message_body(body)
            .send()
            .await?;
        Ok(())
    }

    /// What a receive finds, waiting up to this many seconds.
    async fn receive(&self, queue: &str, wait_seconds: i32) -> anyhow::Result<Vec<Message>> {
        let receive = self
            .sqs
            .receive_message()
            .queue_url(queue)
            .max_number_of_messages(10);
        let receive = receive.message_system_attribute_names(MessageSystemAttributeName::All);
        let answer = receive.wait_time_seconds(wait_seconds).send().await?;
        Ok(answer.messages.unwrap_or_default())
    }

    async fn delete(&self, queue: &str, message: &Message) -> anyhow::Result<()> {
        let handle = receipt_handle(message);
        self.sqs
            .delete_message()
            .queue_url(queue)
            .receipt_handle(handle)
            .send()
            .await?;
        Ok(())
    }

    async fn attribute(&self, queue: &str, name: QueueAttributeName) -> anyhow::Result<String> {
        let get = self
            .sqs
            .get_queue_attributes()
            .queue_url(queue)
            .attribute_names(name.clone());
        let found = get
            .send()
            .await?
            .attributes
            .and_then(|mut all| all.remove(&name));
        Ok(found.unwrap_or_default())
    }
}

/// The code of the error that was expected.
#[track_caller]
fn code<T>(answer: Result<T, impl ProvideErrorMetadata>) -> String {
    match answer {
        Ok(_) => panic!("expected a refusal"),
        Err(error) => error.code().unwrap_or("an error without a code").to_owned(),
    }
}

fn receipt_handle(message: &Message) -> &str {
    message
        .receipt_handle()
        .expect("a message has a receipt handle")
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().filter_map(Message::body).collect()
}

/// One of a message's system attributes, or an empty text.
fn system_attribute(message: &Message, name: MessageSystemAttributeName) -> &str {
    message
        .attributes()
        .and_then(|all| all.get(&name))
        .map_or("", String::as_str)
}
