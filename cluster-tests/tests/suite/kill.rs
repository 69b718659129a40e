//! `kill -9` while clients send, receive and delete.
//!
//! Whatever was acknowledged is there after each restart, once; nothing deleted comes back; what
//! was in flight stays hidden until its visibility timeout; message groups keep their order; and at
//! the end the counts are right. The judge knows these promises; the tests here make the weather.
//!
//! `HIKYAKU_KILLS=20` makes a long run of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hikyaku_cluster_tests::black_box::{Rule, assert_kept, judge};
use hikyaku_cluster_tests::client::{Connection, Incoming, Wanted};
use hikyaku_cluster_tests::history::lines;
use hikyaku_cluster_tests::process::{self, Server};
use hikyaku_cluster_tests::recorder::{Recorder, Target};
use hikyaku_cluster_tests::workload::{Client, Consumption, Dial, MAX_BATCH, Production, Progress};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const MESSAGES: usize = 20_000;
const PRODUCERS: usize = 4;
const CONSUMERS: usize = 3;
const DEFAULT_KILLS: usize = 3;

/// Long enough that a restart happens within it, short enough to wait for in the drain.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(8);

/// For one part of a run, on a slow machine. A part that lasts longer hangs.
const DEADLINE: Duration = Duration::from_secs(300);

/// Dials whatever address the server has after its last start.
#[derive(Debug, Clone)]
struct Dialer {
    address: watch::Receiver<SocketAddr>,
}

impl Dial for Dialer {
    async fn dial(&self) -> anyhow::Result<Connection> {
        let address = *self.address.borrow();
        process::connect(address).await
    }
}

/// A server, one queue on it, and the history of that queue.
struct Situation {
    server: Server,
    address: watch::Sender<SocketAddr>,
    target: Target,
    progress: Arc<Progress>,
}

impl Situation {
    async fn new(fifo: bool) -> anyhow::Result<Self> {
        let server = Server::start().await?;
        let timeout = VISIBILITY_TIMEOUT.as_secs().to_string();
        let mut attributes = vec![("VisibilityTimeout", timeout.as_str())];
        if fifo {
            attributes.push(("FifoQueue", "true"));
        }
        let name = if fifo { "kill.fifo" } else { "kill" };
        // One machine, one wall clock.
        let recorder = Recorder::new(0);
        let mut connection = server.connect().await?;
        let target = recorder
            .create_queue(&mut connection, name, &attributes)
            .await?;
        let address = watch::Sender::new(server.address());
        Ok(Self {
            server,
            address,
            target,
            progress: Arc::default(),
        })
    }

    fn client(&self) -> Client<Dialer> {
        let dialer = Dialer {
            address: self.address.subscribe(),
        };
        Client::new(dialer, self.target.clone(), Arc::clone(&self.progress))
    }

    async fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.server.kill()?;
        self.server.restart().await?;
        self.address.send_replace(self.server.address());
        Ok(())
    }

    /// Waits until this many sends were acknowledged.
    async fn acknowledged(&self, messages: usize) {
        let deadline = Instant::now() + DEADLINE;
        while self.progress.acknowledged() < messages as u64 {
            assert!(
                Instant::now() < deadline,
                "stuck at {} sends",
                self.progress.acknowledged()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Everything that is left is received and deleted; then the history is judged. It must show
    /// something about these rules.
    async fn settle(self, exercised: &[Rule]) -> anyhow::Result<()> {
        let mut client = self.client();
        client.counts().await;
        let drained = client.drain(DEADLINE).await;
        let history = self.target.recorder.history();
        drained.with_context(|| lines::kept(&history))?;
        assert_kept(&history);
        let missed = judge(&history).not_exercised();
        let missed: Vec<&Rule> = exercised.iter().filter(|r| missed.contains(r)).collect();
        assert!(missed.is_empty(), "{missed:?} not exercised");
        Ok(())
    }
}

/// What any of these runs shows something about.
const ALWAYS: [Rule; 5] = [
    Rule::AcknowledgedSend,
    Rule::Phantom,
    Rule::Delete,
    Rule::ReceiveCount,
    Rule::Counts,
];

/// What a long run of a FIFO queue shows, too.
const IN_ORDER: [Rule; 5] = [
    Rule::Visibility,
    Rule::GroupOrder,
    Rule::GroupInFlight,
    Rule::Sequence,
    Rule::Batch,
];

fn kills() -> usize {
    let named = std::env::var("HIKYAKU_KILLS").ok();
    named.map_or(DEFAULT_KILLS, |n| {
        n.parse().expect("HIKYAKU_KILLS is a number")
    })
}

/// Producers and consumers at work while the server is killed again and again.
async fn killed_under_load(message_groups: usize) -> anyhow::Result<()> {
    let fifo = message_groups > 0;
    let mut situation = Situation::new(fifo).await?;
    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        producers.spawn(situation.client().produce(Production {
            name: format!("p{producer}"),
            messages: MESSAGES / PRODUCERS,
            body_bytes: 200,
            message_groups,
            pause: Duration::ZERO,
        }));
    }
    let mut consumers = JoinSet::new();
    for _ in 0..CONSUMERS {
        let consumption = Consumption {
            deleted: 90,
            released: 5,
        };
        consumers.spawn(situation.client().consume(consumption));
    }

    // Some sends to a standard queue get lost with their connection and are not tried again.
    let kills = kills();
    let certain = MESSAGES * 9 / 10;
    for kill in 1..=kills {
        situation.acknowledged(certain * kill / (kills + 1)).await;
        situation.kill_and_restart().await?;
    }
    tokio::time::timeout(DEADLINE, producers.join_all()).await?;
    situation.progress.stop();
    tokio::time::timeout(DEADLINE, consumers.join_all()).await?;

    // A run in which nothing was under way when the server died has shown nothing.
    {
        let history = situation.target.recorder.history();
        let (sent, deleted) = (history.acknowledged_sends(), history.acknowledged_deletes());
        assert!(
            sent >= certain && deleted > 0 && history.uncertain() > 0,
            "{}",
            history.summary()
        );
    }
    let long: &[Rule] = if fifo {
        &IN_ORDER
    } else {
        &[Rule::Visibility, Rule::Batch]
    };
    situation.settle(&[&ALWAYS, long].concat()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standard_queue_survives_kill_nine() -> anyhow::Result<()> {
    killed_under_load(0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fifo_queue_survives_kill_nine() -> anyhow::Result<()> {
    killed_under_load(50).await
}

/// In flight at the crash is in flight after it: hidden, counted, and back when its time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_flight_stays_in_flight_through_kill_nine() -> anyhow::Result<()> {
    let mut situation = Situation::new(false).await?;
    let production = |name: &str, messages| Production {
        name: name.into(),
        messages,
        body_bytes: 200,
        message_groups: 0,
        pause: Duration::ZERO,
    };
    situation
        .client()
        .produce(production("m", 2 * MAX_BATCH))
        .await;
    let received_at = Instant::now();
    let received = receive_once(&situation).await?;
    situation.kill_and_restart().await?;

    let counts = situation.client().counts().await;
    let again = receive_once(&situation).await?;
    if received_at.elapsed() < VISIBILITY_TIMEOUT {
        assert_eq!(counts.in_flight, received.len() as u64);
        assert_eq!(counts.visible, (2 * MAX_BATCH - received.len()) as u64);
        let seen_before = |m: &&Incoming| received.iter().any(|r| r.message_id == m.message_id);
        assert_eq!(again.iter().filter(seen_before).count(), 0);
    }
    situation.settle(&ALWAYS).await
}

async fn receive_once(situation: &Situation) -> anyhow::Result<Vec<Incoming>> {
    let mut connection = situation.server.connect().await?;
    let wanted = Wanted {
        max: MAX_BATCH as u32,
        ..Wanted::default()
    };
    Ok(situation.target.receive(&mut connection, wanted).await?)
}

/// A receipt handle given out before the crash deletes after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receipt_handles_outlive_kill_nine() -> anyhow::Result<()> {
    let mut situation = Situation::new(true).await?;
    situation
        .client()
        .produce(Production {
            name: "m".into(),
            messages: 5,
            body_bytes: 20,
            message_groups: 1,
            pause: Duration::ZERO,
        })
        .await;
    let received = receive_once(&situation).await?;
    assert_eq!(received.len(), 5);
    situation.kill_and_restart().await?;

    let mut connection = situation.server.connect().await?;
    let results = situation.target.delete(&mut connection, &received).await?;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let counts = situation.client().counts().await;
    assert_eq!(counts.total(), 0, "{counts:?}");
    situation.settle(&ALWAYS).await
}
