//! The clients' host: producers, consumers and the final drain of one queue, and of its dead-letter
//! queue if it has one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hikyaku_cluster_tests::client::Connection;
use hikyaku_cluster_tests::history::{History, lines};
use hikyaku_cluster_tests::recorder::{Recorder, TENANT, Target};
use hikyaku_cluster_tests::workload::{Client, Consumption, Dial, Production, Progress};
use tokio::task::JoinSet;
use turmoil::Sim;

/// The clients' name in the simulated network.
pub const CLIENTS: &str = "clients";

/// Where servers listen for clients.
pub const PORT: u16 = 9324;

/// Of the queue.
pub const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(5);

/// Of simulated time. TCP does not repeat what the simulation loses: only patience ends the wait.
const PATIENCE: Duration = Duration::from_secs(5);

const PRODUCERS: usize = 3;
const CONSUMERS: usize = 3;

/// Enough that each of a few partitions has some of them.
const MESSAGE_GROUPS: usize = 8;

/// Of simulated time, after the last fault.
const DRAIN_DEADLINE: Duration = Duration::from_secs(60);

/// Which promises a queue makes beyond those of every queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No order.
    Standard,
    /// Order within each message group; deduplication over the whole queue.
    Fifo,
    /// Order within each message group; deduplication within each of them.
    FifoByMessageGroup,
}

/// On which partitions a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// As its kind says: one, or for ever the same.
    OfItsKind,
    /// Its owner changes them as long as producers produce; standard queues only.
    Restless,
}

/// Partitions that a restless owner wants, one number after the other.
const WIDTHS: [u32; 4] = [2, 1, 3, 1];

/// How long an owner is content.
const CONTENT: Duration = Duration::from_secs(3);

/// How much there is to do.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// The queue.
    pub kind: Kind,
    /// How its partitions come to be.
    pub spread: Spread,
    /// After so many receives its messages become dead letters.
    pub max_receive_count: Option<u32>,
    /// Sent by each of the producers.
    pub messages_per_producer: usize,
    /// Between two batches of a producer, so that the work lasts as long as the storm.
    pub pause: Duration,
}

/// Dials one server after the other.
#[derive(Debug, Clone)]
struct Dialer {
    servers: Arc<Vec<&'static str>>,
    next: Arc<AtomicUsize>,
}

impl Dial for Dialer {
    async fn dial(&self) -> anyhow::Result<Connection> {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.servers.len();
        let server = self.servers[place];
        let connect = turmoil::net::TcpStream::connect((server, PORT));
        let stream = tokio::time::timeout(PATIENCE, connect).await??;
        Ok(Connection::open(stream, server, PATIENCE).await?)
    }
}

/// Where the clients leave their recorder.
pub type Shelf = Arc<OnceLock<Recorder>>;

/// Adds the clients' host to a simulation; their recorder is on the shelf from their first moment.
/// The servers' wall clocks differ by at most `clock_bound_ms`.
pub fn start(
    sim: &mut Sim<'_>,
    servers: &[&'static str],
    work: Work,
    clock_bound_ms: u64,
) -> Shelf {
    let shelf = Shelf::default();
    let recorder = Arc::clone(&shelf);
    let dialer = Dialer {
        servers: Arc::new(servers.to_vec()),
        next: Arc::default(),
    };
    sim.client(CLIENTS, async move {
        let recorder = recorder.get_or_init(|| Recorder::new(clock_bound_ms));
        Ok(run(dialer, work, recorder.clone()).await?)
    });
    shelf
}

/// Drives the simulation to the clients' end; `meanwhile` is called between its steps.
///
/// # Panics
/// When the clients cannot do their work; what they wrote until then is kept.
pub fn drive<'s>(sim: &mut Sim<'s>, shelf: &Shelf, mut meanwhile: impl FnMut(&mut Sim<'s>)) {
    loop {
        match sim.step() {
            Ok(true) => return,
            Ok(false) => meanwhile(sim),
            Err(error) => panic!("{error}; {}", lines::kept(&history(shelf))),
        }
    }
}

/// What the clients wrote.
pub fn history(shelf: &Shelf) -> History {
    shelf.get().expect("the clients began").history().clone()
}

async fn run(dialer: Dialer, work: Work, recorder: Recorder) -> anyhow::Result<()> {
    let fifo = work.kind != Kind::Standard;
    let dead = match work.max_receive_count {
        Some(_) => Some(create_queue(&dialer, work.kind, "dead", None, &recorder).await),
        None => None,
    };
    let policy = work
        .max_receive_count
        .map(|it| redrive_policy(work.kind, it));
    let target = create_queue(&dialer, work.kind, "simulated", policy, &recorder).await;
    let progress = Arc::new(Progress::default());
    let client = || Client::new(dialer.clone(), target.clone(), Arc::clone(&progress));
    let undertaker =
        |dead: &Target| Client::new(dialer.clone(), dead.clone(), Arc::clone(&progress));

    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        producers.spawn(client().produce(Production {
            name: format!("p{producer}"),
            messages: work.messages_per_producer,
            body_bytes: 40,
            message_groups: if fifo { MESSAGE_GROUPS } else { 0 },
            pause: work.pause,
        }));
    }
    let mut owners = JoinSet::new();
    if work.spread == Spread::Restless {
        owners.spawn(own(dialer.clone(), target.clone()));
    }
    let mut consumers = JoinSet::new();
    for _ in 0..CONSUMERS {
        consumers.spawn(client().consume(Consumption {
            deleted: 60,
            released: 15,
        }));
    }
    // What one of the consumers releases, it releases each time: that becomes a dead letter. Those of
    // the dead-letter queue are deleted, or left for the end.
    if let Some(dead) = &dead {
        consumers.spawn(undertaker(dead).consume(Consumption {
            deleted: 70,
            released: 0,
        }));
    }
    producers.join_all().await;
    owners.shutdown().await;
    progress.stop();
    consumers.join_all().await;

    client().counts().await;
    client().drain(DRAIN_DEADLINE).await?;
    match &dead {
        Some(dead) => undertaker(dead).drain(DRAIN_DEADLINE).await,
        None => Ok(()),
    }
}

/// The queue's name, as its kind wants it.
fn full_name(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Standard => name.to_owned(),
        Kind::Fifo | Kind::FifoByMessageGroup => format!("{name}.fifo"),
    }
}

fn redrive_policy(kind: Kind, max_receive_count: u32) -> String {
    let dead = full_name(kind, "dead");
    format!(
        "{{\"deadLetterTargetArn\":\"arn:aws:sqs:us-east-1:{TENANT}:{dead}\",\
         \"maxReceiveCount\":{max_receive_count}}}"
    )
}

/// Asks until a server answers; creating a queue twice is creating it once.
async fn create_queue(
    dialer: &Dialer,
    kind: Kind,
    name: &str,
    redrive_policy: Option<String>,
    recorder: &Recorder,
) -> Target {
    let timeout = VISIBILITY_TIMEOUT.as_secs().to_string();
    let mut attributes = vec![("VisibilityTimeout", timeout.as_str())];
    let name = full_name(kind, name);
    if let Some(policy) = &redrive_policy {
        attributes.push(("RedrivePolicy", policy));
    }
    if kind != Kind::Standard {
        attributes.push(("FifoQueue", "true"));
    }
    if kind == Kind::FifoByMessageGroup {
        attributes.push(("DeduplicationScope", "messageGroup"));
    }
    loop {
        if let Ok(mut connection) = dialer.dial().await
            && let Ok(target) = recorder
                .create_queue(&mut connection, &name, &attributes)
                .await
        {
            return target;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Changes its mind about the queue's partitions until it is stopped.
async fn own(dialer: Dialer, target: Target) {
    for width in WIDTHS.into_iter().cycle() {
        if let Ok(mut connection) = dialer.dial().await {
            let attributes = [("Hikyaku.Spread", width.to_string())];
            // Whatever becomes of it, the next one comes soon.
            let _ = target.set_attributes(&mut connection, &attributes).await;
        }
        tokio::time::sleep(CONTENT).await;
    }
}
