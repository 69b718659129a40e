//! Many idle long polls: what does a server spend on waiting?
//!
//! Opens the polls on empty queues, lets them settle, then reads over a window the server's processor
//! time, its memory and how many entries its log grew by. The promise is none of the last and next to
//! none of the first.

#![expect(clippy::print_stdout, reason = "the figures are its output")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use hikyaku_cluster_tests::client::{Connection, Wanted};
use hikyaku_cluster_tests::measure::{Usage, metric};
use hikyaku_cluster_tests::process::connect;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// The longest wait that SQS allows, in seconds.
const WAIT_SECONDS: u32 = 20;

/// Dialled at the same time: no more than a server's backlog of new connections.
const DIALS: usize = 100;

/// Holds idle long polls open and reports what they cost the server.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where the server listens.
    #[arg(long, default_value = "127.0.0.1:9324")]
    address: SocketAddr,
    /// The server's process id.
    #[arg(long)]
    pid: u32,
    /// Long polls, each with a connection of its own.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    polls: u32,
    /// Queues that the polls are spread over.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    queues: u32,
    /// The window that is measured.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// The metric of `/metrics` that rises with each log entry.
    #[arg(long, default_value = "hikyaku_raft_applied_index")]
    entries_metric: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    raise_open_files()?;
    let mut control = connect(arguments.address).await?;
    let mut queue_urls = Vec::new();
    for number in 0..arguments.queues {
        queue_urls.push(control.create_queue(&format!("idle-{number}"), &[]).await?);
    }

    let answers = Arc::new(AtomicU64::new(0));
    let mut polls = JoinSet::new();
    for number in 0..arguments.polls as usize {
        if number % DIALS == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        let connection = connect(arguments.address).await?;
        let queue_url = queue_urls[number % queue_urls.len()].clone();
        polls.spawn(poll(connection, queue_url, Arc::clone(&answers)));
    }
    println!("{} long polls open", polls.len());
    sleep(Duration::from_secs(1)).await;

    let entries_before = entries(&mut control, &arguments.entries_metric).await?;
    let answers_before = answers.load(Ordering::Relaxed);
    let usage_before = Usage::of(arguments.pid)?;
    let began = Instant::now();
    sleep_until(began + Duration::from_secs(arguments.seconds)).await;
    let usage = Usage::of(arguments.pid)?;
    let elapsed = began.elapsed().as_secs_f64();
    let cores = (usage.cpu - usage_before.cpu).as_secs_f64() / elapsed;
    let answered = answers.load(Ordering::Relaxed) - answers_before;
    println!(
        "server used {cores:.4} cores, {} MiB resident",
        usage.resident_bytes >> 20
    );
    println!(
        "{:.1} polls/s came back empty and were repeated",
        answered as f64 / elapsed
    );
    match (
        entries_before,
        entries(&mut control, &arguments.entries_metric).await?,
    ) {
        (Some(before), Some(after)) => println!("the log grew by {} entries", after - before),
        _ => println!("/metrics has no {}", arguments.entries_metric),
    }
    let broken = std::iter::from_fn(|| polls.try_join_next()).count();
    println!("{broken} polls broke off");
    polls.shutdown().await;
    Ok(())
}

/// Polls again and again until the connection breaks.
async fn poll(mut connection: Connection, queue_url: String, answers: Arc<AtomicU64>) {
    let wanted = Wanted {
        max: 1,
        visibility_timeout: None,
        wait: Some(WAIT_SECONDS),
    };
    while connection.receive(&queue_url, wanted).await.is_ok() {
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

async fn entries(control: &mut Connection, name: &str) -> anyhow::Result<Option<f64>> {
    let (_, page) = control.get("/metrics").await?;
    Ok(metric(&page, name))
}

/// As many open files as the system allows this process.
fn raise_open_files() -> anyhow::Result<()> {
    let limits = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limits.maximum,
            maximum: limits.maximum,
        },
    )?;
    Ok(())
}
