//! Witnesses: clients that write down what they see.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hikyaku_cluster_tests::black_box::{Rule, assert_kept, judge};
use hikyaku_cluster_tests::client::Connection;
use hikyaku_cluster_tests::history::lines;
use hikyaku_cluster_tests::process;
use hikyaku_cluster_tests::recorder::{Recorder, Target};
use hikyaku_cluster_tests::workload::{Client, Consumption, Dial, Production, Progress};
use tokio::task::JoinSet;

use super::DEADLINE;

/// Longer than a node is away, so that what it had handed out is still in flight on its return.
const VISIBILITY_TIMEOUT: &str = "15";

/// More than are sent in any run: they send until they are told to stop.
const MESSAGES: usize = 1_000_000;

/// Slow enough that the callers' queue is the busiest one.
const PAUSE: Duration = Duration::from_millis(100);

/// What they must have seen something of.
const EXERCISED: [Rule; 6] = [
    Rule::AcknowledgedSend,
    Rule::Phantom,
    Rule::Delete,
    Rule::GroupOrder,
    Rule::Sequence,
    Rule::ReceiveCount,
];

#[derive(Debug, Clone)]
struct Door(SocketAddr);

impl Dial for Door {
    async fn dial(&self) -> anyhow::Result<Connection> {
        process::connect(self.0).await
    }
}

/// Witnesses of a FIFO queue and a standard one.
pub struct Witnesses {
    door: SocketAddr,
    queues: Vec<(Target, usize)>,
    at_work: AtWork,
}

/// Some of them at work.
pub struct AtWork {
    tasks: JoinSet<()>,
    progress: Arc<Progress>,
}

impl AtWork {
    fn start(door: SocketAddr, queues: &[(Target, usize)], name: &str, pause: Duration) -> Self {
        let progress = Arc::<Progress>::default();
        let mut tasks = JoinSet::new();
        for (target, message_groups) in queues {
            let client = || Client::new(Door(door), target.clone(), Arc::clone(&progress));
            tasks.spawn(client().produce(Production {
                name: name.to_owned(),
                messages: MESSAGES,
                body_bytes: 100,
                message_groups: *message_groups,
                pause,
            }));
            tasks.spawn(client().consume(Consumption {
                deleted: 90,
                released: 5,
            }));
        }
        Self { tasks, progress }
    }

    /// Lets them finish what they do.
    ///
    /// # Errors
    /// When they do not end.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.progress.stop();
        tokio::time::timeout(DEADLINE, self.tasks.join_all()).await?;
        Ok(())
    }
}

impl Witnesses {
    /// Makes their queues and sets them to work.
    pub async fn start(door: SocketAddr) -> anyhow::Result<Self> {
        // One machine, one wall clock.
        let recorder = Recorder::new(0);
        let mut connection = process::connect(door).await?;
        let timeout = ("VisibilityTimeout", VISIBILITY_TIMEOUT);
        let fifo = [("FifoQueue", "true"), timeout];
        let queues = vec![
            (
                recorder
                    .create_queue(&mut connection, "seen.fifo", &fifo)
                    .await?,
                10,
            ),
            (
                recorder
                    .create_queue(&mut connection, "seen", &[timeout])
                    .await?,
                0,
            ),
        ];
        let at_work = AtWork::start(door, &queues, "w", PAUSE);
        Ok(Self {
            door,
            queues,
            at_work,
        })
    }

    /// More of them, at another door.
    pub fn also_at(&self, door: SocketAddr) -> AtWork {
        AtWork::start(door, &self.queues, "stranded", PAUSE)
    }

    /// More of them, as busy as they can be.
    pub fn busy(&self, name: &str) -> AtWork {
        AtWork::start(self.door, &self.queues, name, Duration::ZERO)
    }

    /// Now, on their clock, microseconds.
    pub fn now_us(&self) -> u64 {
        self.queues[0].0.recorder.now_us()
    }

    /// Calls that were under way at a time.
    pub fn under_way(&self, at_us: u64) -> usize {
        let history = self.queues[0].0.recorder.history();
        let operations = history.operations.iter();
        let under_way = operations.filter(|it| it.invoked_us <= at_us && at_us <= it.returned_us);
        under_way.count()
    }

    /// Calls that did not end well.
    pub fn uncertain(&self) -> usize {
        let (target, _) = &self.queues[0];
        target.recorder.history().uncertain()
    }

    /// How much they have seen.
    pub fn summary(&self) -> String {
        let (target, _) = &self.queues[0];
        target.recorder.history().summary()
    }

    /// Lets them finish and drain their queues, and has the judge read what they wrote.
    ///
    /// # Errors
    /// When something is left.
    pub async fn settle(self) -> anyhow::Result<()> {
        self.at_work.stop().await?;
        for (target, _) in &self.queues {
            let client = Client::new(Door(self.door), target.clone(), Arc::default());
            let drained = { client }.drain(DEADLINE).await;
            let history = target.recorder.history();
            drained.with_context(|| lines::kept(&history))?;
        }
        let history = self.queues[0].0.recorder.history();
        assert_kept(&history);
        let missed = judge(&history).not_exercised();
        let shown = |rule: &Rule| !missed.contains(rule);
        assert!(EXERCISED.iter().all(shown), "{missed:?} not exercised");
        Ok(())
    }
}
