//! A deep backlog: fill a queue, look at the server's memory, drain a while, and compare with a
//! shallow queue in the same run.
//!
//! Give it a server and its process id. With `--keep` the backlog stays, so that a restart can be
//! timed with it.

#![expect(clippy::print_stdout, reason = "the figures are its output")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use hikyaku_cluster_tests::measure::Usage;
use hikyaku_cluster_tests::process::connect;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How often deep and shallow take turns.
const ROUNDS: u32 = 4;

/// Fills and drains.
#[derive(Debug, Clone, Parser)]
struct Arguments {
    /// Where the server listens.
    #[arg(long, default_value = "127.0.0.1:9324")]
    address: SocketAddr,
    /// The server's process id.
    #[arg(long)]
    pid: u32,
    /// Messages of the backlog.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(i64).range(10..=50_000_000))]
    messages: i64,
    /// Bytes of each body.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    body_bytes: u32,
    /// Connections at work at the same time.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: u32,
    /// How long each of the two queues is drained.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=120))]
    seconds: u64,
    /// Leave the backlog and measure no draining.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let resident = || anyhow::Ok(Usage::of(arguments.pid)?.resident_bytes >> 20);
    println!("empty: {} MiB resident", resident()?);
    let deep = create(&arguments, "backlog-deep").await?;
    let began = Instant::now();
    fill(&arguments, &deep, arguments.messages).await?;
    let rate = arguments.messages as f64 / began.elapsed().as_secs_f64();
    println!(
        "filled: {} messages, {rate:.0} a second",
        arguments.messages
    );
    println!("filled: {} MiB resident", resident()?);
    if arguments.keep {
        return Ok(());
    }
    let shallow = create(&arguments, "backlog-shallow").await?;
    let shallow_depth = i64::from(arguments.connections) * 100;
    fill(&arguments, &shallow, shallow_depth).await?;
    // In turns, so that what else the machine does falls on both.
    let (mut shallow_rate, mut deep_rate) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        shallow_rate += drain(&arguments, &shallow).await? / f64::from(ROUNDS);
        deep_rate += drain(&arguments, &deep).await? / f64::from(ROUNDS);
    }
    println!("shallow: {shallow_rate:.0} received a second");
    println!("deep: {deep_rate:.0} received a second");
    println!("deep / shallow {:.3}", deep_rate / shallow_rate);
    println!("drained: {} MiB resident", resident()?);
    Ok(())
}

async fn create(arguments: &Arguments, name: &str) -> anyhow::Result<String> {
    Ok(connect(arguments.address)
        .await?
        .create_queue(name, &[])
        .await?)
}

fn batch(arguments: &Arguments, queue_url: &str) -> Bytes {
    let body = "x".repeat(arguments.body_bytes as usize);
    let entries: Vec<Value> = (0..10)
        .map(|place| json!({ "Id": format!("e{place}"), "MessageBody": body }))
        .collect();
    json!({ "QueueUrl": queue_url, "Entries": entries })
        .to_string()
        .into()
}

async fn fill(arguments: &Arguments, queue_url: &str, messages: i64) -> anyhow::Result<()> {
    let left = Arc::new(AtomicI64::new(messages));
    let mut clients: JoinSet<anyhow::Result<()>> = JoinSet::new();
    for _ in 0..arguments.connections {
        let mut connection = connect(arguments.address).await?;
        let (left, request) = (Arc::clone(&left), batch(arguments, queue_url));
        clients.spawn(async move {
            while left.fetch_sub(10, Ordering::Relaxed) > 0 {
                connection.post("SendMessageBatch", request.clone()).await?;
            }
            Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

/// Receives and deletes, and sends as much again, so that a depth stays. Gives back messages received
/// a second.
async fn drain(arguments: &Arguments, queue_url: &str) -> anyhow::Result<f64> {
    let received = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut clients: JoinSet<anyhow::Result<()>> = JoinSet::new();
    for _ in 0..arguments.connections {
        let mut connection = connect(arguments.address).await?;
        let send = batch(arguments, queue_url);
        let receive: Bytes = json!({ "QueueUrl": queue_url, "MaxNumberOfMessages": 10 })
            .to_string()
            .into();
        let (received, queue_url) = (Arc::clone(&received), queue_url.to_owned());
        clients.spawn(async move {
            while Instant::now() < until {
                let answer = connection.post("ReceiveMessage", receive.clone()).await?;
                let answer: Value = serde_json::from_slice(&answer)?;
                let messages = answer["Messages"].as_array().map_or(&[][..], Vec::as_slice);
                received.fetch_add(messages.len() as u64, Ordering::Relaxed);
                connection.post("SendMessageBatch", send.clone()).await?;
                if messages.is_empty() {
                    continue;
                }
                let entries: Vec<Value> = messages
                    .iter()
                    .enumerate()
                    .map(|(place, message)| {
                        json!({ "Id": format!("e{place}"), "ReceiptHandle": message["ReceiptHandle"] })
                    })
                    .collect();
                let delete = json!({ "QueueUrl": queue_url, "Entries": entries });
                connection.post("DeleteMessageBatch", delete.to_string().into()).await?;
            }
            Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(received.load(Ordering::Relaxed) as f64 / arguments.seconds as f64)
}
