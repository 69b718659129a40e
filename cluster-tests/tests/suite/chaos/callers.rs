//! Callers with AWS's SDK as it comes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, ensure};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_sqs::error::DisplayErrorContext;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, QueueAttributeName};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Tasks that send, and tasks that receive and delete.
const SENDERS: usize = 3;
const RECEIVERS: usize = 2;

/// Callers of one FIFO queue, and so of one partition.
pub struct Callers {
    tasks: JoinSet<anyhow::Result<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    answered: AtomicU64,
    stop: AtomicBool,
    /// When the last send was answered, and the longest time between two of them.
    pace: Mutex<(Option<Instant>, Duration)>,
}

impl Shared {
    fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    fn sent(&self) {
        self.answered();
        let mut pace = self.pace.lock().expect("no panic under this lock");
        let now = Instant::now();
        let gap = pace.0.map_or(Duration::ZERO, |last| now - last);
        *pace = (Some(now), pace.1.max(gap));
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn client(address: SocketAddr) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::for_tests())
        .retry_config(RetryConfig::standard())
        .endpoint_url(format!("http://{address}"))
        .build();
    Client::from_conf(config)
}

impl Callers {
    /// Makes their queue and sets them to work.
    pub async fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let create = client(address)
            .create_queue()
            .queue_name("called.fifo")
            .attributes(QueueAttributeName::FifoQueue, "true");
        let created = create.send().await?;
        let queue = created
            .queue_url
            .context("CreateQueue answers with a URL")?;
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        for sender in 0..SENDERS {
            tasks.spawn(send(
                client(address),
                queue.clone(),
                sender,
                Arc::clone(&shared),
            ));
        }
        for _ in 0..RECEIVERS {
            tasks.spawn(receive(client(address), queue.clone(), Arc::clone(&shared)));
        }
        Ok(Self { tasks, shared })
    }

    /// Calls that were answered so far.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Starts to measure gaps anew.
    pub fn measure(&self) {
        self.shared.pace.lock().expect("no panic under this lock").1 = Duration::ZERO;
    }

    /// The longest time in which no send was answered.
    pub fn longest_gap(&self) -> Duration {
        self.shared.pace.lock().expect("no panic under this lock").1
    }

    /// Lets them finish.
    ///
    /// # Errors
    /// The first error that any of them saw.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended?.context("a caller saw an error")?;
        }
        ensure!(self.answered() > 0, "nobody called");
        Ok(())
    }
}

async fn send(
    sqs: Client,
    queue: String,
    sender: usize,
    shared: Arc<Shared>,
) -> anyhow::Result<()> {
    let mut number = 0_u64;
    while !shared.stopped() {
        let send = sqs
            .send_message()
            .queue_url(&queue)
            .message_body(format!("{sender}-{number}"))
            .message_group_id(format!("{sender}-{}", number % 7))
            .message_deduplication_id(format!("{sender}-{number}"));
        shown(send.send().await)?;
        shared.sent();
        number += 1;
    }
    Ok(())
}

async fn receive(sqs: Client, queue: String, shared: Arc<Shared>) -> anyhow::Result<()> {
    while !shared.stopped() {
        let receive = sqs
            .receive_message()
            .queue_url(&queue)
            .max_number_of_messages(10)
            .wait_time_seconds(2);
        let messages = shown(receive.send().await)?.messages.unwrap_or_default();
        shared.answered();
        if messages.is_empty() {
            continue;
        }
        let entry = |(place, message): (usize, &aws_sdk_sqs::types::Message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(place.to_string());
            let handle = message.receipt_handle().unwrap_or_default();
            entry.receipt_handle(handle).build()
        };
        let entries = messages.iter().enumerate().map(entry);
        let delete = sqs
            .delete_message_batch()
            .queue_url(&queue)
            .set_entries(Some(entries.collect::<Result<_, _>>()?));
        let deleted = shown(delete.send().await)?;
        shared.answered();
        // A receipt handle whose visibility timeout has passed meanwhile is the caller's own delay.
        let failed = deleted.failed.iter().filter(|entry| !entry.sender_fault);
        ensure!(failed.count() == 0, "not deleted: {:?}", deleted.failed);
    }
    Ok(())
}

fn shown<T, E: std::error::Error>(answer: Result<T, E>) -> anyhow::Result<T> {
    answer.map_err(|error| anyhow::anyhow!("{}", DisplayErrorContext(&error)))
}
