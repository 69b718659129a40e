//! Closed-loop load: each connection sends, receives and deletes, one call after the other.
//!
//! It reports messages a second for each of the three, the calls' latencies and, given the server's
//! process id, its processor time and memory. With `--floor` it then measures the `floor` server in
//! the same way, for the share that is not the queue's. Client and server share the machine: compare
//! runs of one machine only.

#![expect(clippy::print_stdout, reason = "the figures are its output")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use clap::Parser;
use hikyaku_cluster_tests::client::Connection;
use hikyaku_cluster_tests::measure::{Latencies, Usage};
use hikyaku_cluster_tests::process::connect;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Loads a server that speaks SQS.
#[derive(Debug, Clone, Parser)]
struct Arguments {
    /// Where the server listens.
    #[arg(long, default_value = "127.0.0.1:9324")]
    address: SocketAddr,
    /// The server's process id, to report what it used.
    #[arg(long)]
    pid: Option<u32>,
    /// The queue to use; it is created if it is missing.
    #[arg(long, default_value = "load")]
    queue: String,
    /// Use a FIFO queue, with this many message groups.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    message_groups: Option<u32>,
    /// Connections at work at the same time.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: u32,
    /// How long.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Messages per call; one uses the single calls.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10))]
    batch: u32,
    /// Bytes of each body.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    body_bytes: u32,
    /// Then measure the floor server, too.
    #[arg(long)]
    floor: bool,
}

/// One of the three operations.
#[derive(Debug, Clone, Default)]
struct Tally {
    messages: usize,
    errors: usize,
    latencies: Latencies,
}

/// What one connection, or all of them, did.
#[derive(Debug, Clone, Default)]
struct Figures {
    sends: Tally,
    receives: Tally,
    deletes: Tally,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    println!("server {}", arguments.address);
    let server = measure(&arguments).await?;
    if arguments.floor {
        let floor = Floor::start(arguments.message_groups.is_some())?;
        println!("floor {}", floor.address);
        let arguments = Arguments {
            address: floor.address,
            pid: Some(floor.child.id()),
            ..arguments
        };
        let floor = measure(&arguments).await?;
        println!("server / floor {:.3}", server / floor);
    }
    Ok(())
}

/// Runs the load, prints its figures and gives back sends a second.
async fn measure(arguments: &Arguments) -> anyhow::Result<f64> {
    let name = match arguments.message_groups {
        Some(_) => format!("{}.fifo", arguments.queue),
        None => arguments.queue.clone(),
    };
    let fifo = [("FifoQueue", "true")];
    let attributes = if arguments.message_groups.is_some() {
        &fifo[..]
    } else {
        &[]
    };
    let queue_url = connect(arguments.address)
        .await?
        .create_queue(&name, attributes)
        .await?;

    let before = arguments.pid.map(Usage::of).transpose()?;
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for number in 0..arguments.connections {
        let connection = connect(arguments.address).await?;
        let client = Client {
            number,
            sent: 0,
            queue_url: queue_url.clone(),
            arguments: arguments.clone(),
            connection,
            figures: Figures::default(),
        };
        clients.spawn(client.run(began + Duration::from_secs(arguments.seconds)));
    }
    let mut all = Figures::default();
    for figures in clients.join_all().await {
        all.sends.merge(figures.sends);
        all.receives.merge(figures.receives);
        all.deletes.merge(figures.deletes);
    }
    let elapsed = began.elapsed();

    let sends = all.sends.report("sends", elapsed);
    all.receives.report("receives", elapsed);
    all.deletes.report("deletes", elapsed);
    if let (Some(pid), Some(before)) = (arguments.pid, before) {
        let after = Usage::of(pid)?;
        let cores = (after.cpu - before.cpu).as_secs_f64() / elapsed.as_secs_f64();
        let mebibytes = after.resident_bytes >> 20;
        println!("  server used {cores:.2} cores, {mebibytes} MiB resident");
    }
    Ok(sends)
}

impl Tally {
    fn add(&mut self, began: Instant, messages: Option<usize>) {
        self.latencies.add(began.elapsed());
        match messages {
            Some(messages) => self.messages += messages,
            None => self.errors += 1,
        }
    }

    fn merge(&mut self, other: Self) {
        self.messages += other.messages;
        self.errors += other.errors;
        self.latencies.merge(other.latencies);
    }

    /// Prints a line and gives back messages a second.
    fn report(&mut self, word: &str, elapsed: Duration) -> f64 {
        let seconds = elapsed.as_secs_f64();
        let rate = self.messages as f64 / seconds;
        let calls = self.latencies.calls() as f64 / seconds;
        let [p50, p99, p999] = self.latencies.percentiles([0.5, 0.99, 0.999]);
        println!(
            "  {word:8} {rate:9.0} messages/s {calls:8.0} calls/s  \
             p50 {p50:.2} ms  p99 {p99:.2} ms  p99.9 {p999:.2} ms  {} errors",
            self.errors
        );
        rate
    }
}

/// One connection's loop.
struct Client {
    number: u32,
    sent: u64,
    queue_url: String,
    arguments: Arguments,
    connection: Connection,
    figures: Figures,
}

impl Client {
    async fn run(mut self, until: Instant) -> Figures {
        while Instant::now() < until && self.connection.is_usable() {
            self.send().await;
            let handles = self.receive().await;
            if !handles.is_empty() {
                self.delete(&handles).await;
            }
        }
        self.figures
    }

    async fn send(&mut self) {
        let batch = self.arguments.batch as usize;
        let mut entries: Vec<_> = (0..batch).map(|place| self.entry(place)).collect();
        let (action, body) = if batch == 1 {
            let mut message = entries.remove(0);
            message["QueueUrl"] = json!(self.queue_url);
            ("SendMessage", message)
        } else {
            (
                "SendMessageBatch",
                json!({ "QueueUrl": self.queue_url, "Entries": entries }),
            )
        };
        let body = Bytes::from(body.to_string());
        let began = Instant::now();
        let answer = self.connection.post(action, body).await;
        let stored = answer.ok().map(|answer| count(&answer, b"\"MessageId\""));
        self.figures.sends.add(began, stored);
    }

    fn entry(&mut self, place: usize) -> serde_json::Value {
        self.sent += 1;
        let body = "x".repeat(self.arguments.body_bytes as usize);
        let mut entry = json!({ "Id": format!("e{place}"), "MessageBody": body });
        if let Some(groups) = self.arguments.message_groups {
            let spread = self.sent + u64::from(self.number);
            entry["MessageGroupId"] = json!(format!("g{}", spread % u64::from(groups)));
            let unique = format!("{}-{}-{}", std::process::id(), self.number, self.sent);
            entry["MessageDeduplicationId"] = json!(unique);
        }
        entry
    }

    async fn receive(&mut self) -> Vec<String> {
        let body = json!({
            "QueueUrl": self.queue_url,
            "MaxNumberOfMessages": self.arguments.batch,
        });
        let body = Bytes::from(body.to_string());
        let began = Instant::now();
        let answer = self.connection.post("ReceiveMessage", body).await;
        let handles = answer.as_deref().map(receipt_handles).unwrap_or_default();
        self.figures
            .receives
            .add(began, answer.is_ok().then_some(handles.len()));
        handles
    }

    async fn delete(&mut self, handles: &[String]) {
        let (action, body) = if self.arguments.batch == 1 {
            let handle = &handles[0];
            (
                "DeleteMessage",
                json!({ "QueueUrl": self.queue_url, "ReceiptHandle": handle }),
            )
        } else {
            let entry = |(place, handle)| {
                let id = format!("e{place}");
                json!({ "Id": id, "ReceiptHandle": handle })
            };
            let entries: Vec<_> = handles.iter().enumerate().map(entry).collect();
            (
                "DeleteMessageBatch",
                json!({ "QueueUrl": self.queue_url, "Entries": entries }),
            )
        };
        let body = Bytes::from(body.to_string());
        let began = Instant::now();
        let deleted = self
            .connection
            .post(action, body)
            .await
            .is_ok()
            .then_some(handles.len());
        self.figures.deletes.add(began, deleted);
    }
}

/// The receipt handles in an answer, found without reading the rest: the client must be cheap.
fn receipt_handles(answer: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(answer);
    let after_names = text.split("\"ReceiptHandle\":\"").skip(1);
    after_names
        .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
        .collect()
}

fn count(text: &[u8], word: &[u8]) -> usize {
    text.windows(word.len())
        .filter(|window| *window == word)
        .count()
}

/// The floor server as a process beside this one; it ends with this value.
struct Floor {
    child: Child,
    address: SocketAddr,
}

impl Floor {
    fn start(fifo: bool) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("floor");
        let mut command = Command::new(&program);
        if fifo {
            command.arg("--fifo");
        }
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} is not built", program.display()))?;
        let stdout = child.stdout.take().context("its output is a pipe")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse().context("floor prints its address")?;
        Ok(Self { child, address })
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
