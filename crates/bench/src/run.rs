//! A run from its first call to its last.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::connection::{CallError, Client};
use crate::consumer::Consumer;
use crate::meter::{Clock, Errors};
use crate::options::{Options, Phase};
use crate::pace::{Depth, Pace, Pacer, Schedule};
use crate::plan::{Plan, PlanError, Share};
use crate::producer::Producer;
use crate::report::{DrainEnd, Outcome, Preloaded, Report, Summary};
use crate::shared::{Queue, Shared};
use crate::wire::{self, Action};

/// Between two looks at how far a stage has got.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A preload with so many errors gets nowhere.
const PRELOAD_ERRORS_LIMIT: u64 = 100;

/// What a drain waits longer than the visibility timeout and the longest call.
const DRAIN_MARGIN: Duration = Duration::from_secs(5);

/// Interrupts: the first ends the measuring, the second the drain, the third the process.
const LAST_INTERRUPT: u32 = 3;

/// The shell's exit code for a process that SIGINT ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The flags make no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The process lacks something.
    #[error("cannot run: {0}")]
    Io(#[from] io::Error),
    /// A queue cannot be created.
    #[error("cannot create queue {name}: {error}")]
    Create {
        /// The queue's name.
        name: String,
        /// What the service said.
        error: String,
    },
    /// The preload gets nowhere.
    #[error("gave up the preload: {0}")]
    Preload(String),
    /// Nothing is left to measure.
    #[error("the warm-up received the whole backlog: preload more, or give --warm-up 0")]
    WarmedAway,
    /// Interrupted early.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// A bug of ours; its message is on standard error.
    #[error("a client ended: {0}")]
    Client(String),
    /// The run is over and reported, and what it saw is wrong.
    #[error("{0}")]
    Wrong(String),
}

/// Runs the load, reports on standard output, and tells how it goes on standard error.
///
/// # Errors
/// See [`BenchError`]: above all when what was received is not what was sent.
pub fn run(options: Options) -> Result<(), BenchError> {
    let is_json = options.json;
    let random = RandomState::new().build_hasher().finish();
    let plan = Plan::new(options, random)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(bench(plan))?;
    let text = if is_json {
        report.json()
    } else {
        report.text()
    };
    stdout().write_all(text.as_bytes())?;
    match report.wrong() {
        Some(words) => Err(BenchError::Wrong(words)),
        None => Ok(()),
    }
}

/// Creates the queues, does all between, and deletes them, whatever happened between.
async fn bench(mut plan: Plan) -> Result<Report, BenchError> {
    let mut interrupts = listen_for_interrupts()?;
    let summary = Summary::of(&plan);
    let mut client = plan.client();
    let (is_kept, batch) = (plan.options.keep, plan.options.batch);
    let mut queues = Vec::new();
    let mut result = Ok(());
    for number in 0..plan.options.queues {
        match create(&mut client, &plan.queue_name(number), &plan.options).await {
            Ok(url) => queues.push(Queue::new(url, batch)),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    let producers = std::mem::take(&mut plan.producers);
    let consumers = std::mem::take(&mut plan.consumers);
    let result = match result {
        Ok(()) => {
            let shared = Arc::new(Shared::new(plan, Clock::start(), queues.clone()));
            let stages = Stages { shared, consumers };
            stages.all(producers, &mut interrupts).await
        }
        Err(error) => Err(error),
    };
    if !is_kept {
        delete(&mut client, &queues).await;
    }
    Ok(Report {
        summary,
        outcome: result?,
    })
}

/// Each interrupt is a message; the last one ends the process.
fn listen_for_interrupts() -> io::Result<mpsc::Receiver<()>> {
    let mut signals = signal(SignalKind::interrupt())?;
    let (sender, receiver) = mpsc::channel(LAST_INTERRUPT as usize);
    tokio::spawn(async move {
        for _ in 1..LAST_INTERRUPT {
            signals.recv().await;
            // A run that is over does not listen.
            let _ = sender.send(()).await;
        }
        signals.recv().await;
        std::process::exit(EXIT_INTERRUPTED);
    });
    Ok(receiver)
}

async fn create(client: &mut Client, name: &str, options: &Options) -> Result<String, BenchError> {
    let visibility_timeout = options.visibility_timeout.to_string();
    let mut attributes = vec![("VisibilityTimeout", visibility_timeout.as_str())];
    if options.fifo {
        attributes.push(("FifoQueue", "true"));
    }
    if options.high_throughput {
        attributes.push(("DeduplicationScope", "messageGroup"));
        attributes.push(("FifoThroughputLimit", "perMessageGroupId"));
    }
    let body = wire::create_queue(name, &attributes);
    let failed = |error: CallError| BenchError::Create {
        name: name.to_owned(),
        error: error.to_string(),
    };
    let answer = client.call(Action::CreateQueue, body.into()).await;
    let answer = answer.map_err(failed)?;
    let not_understood = || String::from_utf8_lossy(&answer).into_owned();
    let url = wire::queue_url(&answer);
    url.ok_or_else(|| failed(CallError::NotUnderstood(not_understood())))
}

async fn delete(client: &mut Client, queues: &[Queue]) {
    for queue in queues {
        let body = wire::delete_queue(&queue.url);
        if let Err(error) = client.call(Action::DeleteQueue, body.into()).await {
            note(&format!("cannot delete {}: {error}", queue.url));
        }
    }
}

/// Tells how the run goes.
fn note(words: &str) {
    // With standard error gone there is nobody to tell.
    let _ = writeln!(stderr(), "bench: {words}");
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Time,
    Empty,
    Interrupted,
}

/// The clients at work, and how to stop them.
struct Crew {
    stop_producers: watch::Sender<bool>,
    stop_consumers: watch::Sender<bool>,
    producers: JoinSet<Producer>,
    consumers: JoinSet<()>,
}

impl Crew {
    fn new() -> Self {
        Self {
            stop_producers: watch::Sender::new(false),
            stop_consumers: watch::Sender::new(false),
            producers: JoinSet::new(),
            consumers: JoinSet::new(),
        }
    }

    fn produce(&mut self, producers: Vec<Producer>, pace: &Pace, batch: usize) {
        for producer in producers {
            let stop = self.stop_producers.subscribe();
            self.producers
                .spawn(producer.run(pace.clone(), batch, stop));
        }
    }

    /// The next client to end. Never, while there are none.
    async fn ended(&mut self) -> Result<Option<Producer>, BenchError> {
        // Losing a branch loses nothing: `join_next` may be cancelled.
        tokio::select! {
            Some(ended) = self.producers.join_next() => joined(ended).map(Some),
            Some(ended) = self.consumers.join_next() => joined(ended).map(|()| None),
            else => std::future::pending().await,
        }
    }

    /// Lets the producers end their calls.
    async fn end_producers(&mut self) -> Result<(), BenchError> {
        self.stop_producers.send_replace(true);
        while let Some(ended) = self.producers.join_next().await {
            joined(ended)?;
        }
        Ok(())
    }

    /// Lets the consumers end their calls.
    async fn end_consumers(&mut self) -> Result<(), BenchError> {
        self.stop_consumers.send_replace(true);
        while let Some(ended) = self.consumers.join_next().await {
            joined(ended)?;
        }
        Ok(())
    }
}

/// A client's panic ends the run.
fn joined<T>(ended: Result<T, JoinError>) -> Result<T, BenchError> {
    ended.map_err(|error| BenchError::Client(error.to_string()))
}

/// A run whose queues exist.
struct Stages {
    shared: Arc<Shared>,
    consumers: Vec<Vec<u32>>,
}

impl Stages {
    async fn all(
        self,
        producers: Vec<Vec<Share>>,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> Result<Outcome, BenchError> {
        let (shared, options) = (&self.shared, &self.shared.options);
        let producer = |shares| Producer::new(Arc::clone(shared), shares);
        let producers: Vec<Producer> = producers.into_iter().map(producer).collect();
        let (producers, preloaded) = self.preload(producers, interrupts).await?;

        let mut crew = Crew::new();
        let depth = || Arc::new(Depth::of(options.preload, options.batch));
        let depth = options.keep_depth.then(depth);
        if options.phase.consumes() {
            self.consume(&mut crew, depth.as_ref());
        }
        let pacer = self.produce(&mut crew, producers, depth.clone())?;
        let waited = self.measure(&mut crew, interrupts).await?;
        let backlog = shared.check().outstanding();
        crew.stop_producers.send_replace(true);
        let untaken = pacer.map(Pacer::stop);
        crew.end_producers().await?;
        if let Some(depth) = depth {
            depth.release();
        }

        note("draining what is left");
        if !options.phase.consumes() {
            self.consume(&mut crew, None);
        }
        let drain_begun = Instant::now();
        let drain = self.drain(&mut crew, interrupts).await?;
        let drained_in = drain_begun.elapsed();
        crew.end_consumers().await?;
        let tally = match drain {
            DrainEnd::Interrupted => shared.check().result(),
            DrainEnd::Complete | DrainEnd::GaveUp => shared.check().close(),
        };
        Ok(Outcome {
            preloaded,
            measured: shared.meter.result(),
            untaken,
            backlog,
            interrupted: waited == Waited::Interrupted,
            drain,
            drained_in,
            outstanding: shared.check().outstanding(),
            tally,
        })
    }

    fn consume(&self, crew: &mut Crew, depth: Option<&Arc<Depth>>) {
        for (number, queues) in self.consumers.iter().enumerate() {
            let (shared, queues) = (Arc::clone(&self.shared), queues.clone());
            let consumer = Consumer::new(shared, number, queues, depth.cloned());
            crew.consumers
                .spawn(consumer.run(crew.stop_consumers.subscribe()));
        }
    }

    /// Starts the producers, if the phase has any, and what makes their sends due.
    fn produce(
        &self,
        crew: &mut Crew,
        producers: Vec<Producer>,
        depth: Option<Arc<Depth>>,
    ) -> Result<Option<Pacer>, BenchError> {
        let (clock, options) = (self.shared.clock, &self.shared.options);
        if !options.phase.produces() {
            return Ok(None);
        }
        let (pace, pacer) = match (options.rate, depth) {
            (Some(rate), _) => {
                let schedule = Arc::new(Schedule::new(clock.now(), options.batch, rate));
                let pacer = Pacer::start(clock, Arc::clone(&schedule))?;
                (Pace::Scheduled(schedule), Some(pacer))
            }
            (None, Some(depth)) => (Pace::Kept(depth), None),
            (None, None) => (Pace::Closed, None),
        };
        crew.produce(producers, &pace, options.batch as usize);
        Ok(pacer)
    }

    async fn preload(
        &self,
        producers: Vec<Producer>,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> Result<(Vec<Producer>, Option<Preloaded>), BenchError> {
        let wanted = self.shared.options.preload;
        if wanted == 0 {
            return Ok((producers, None));
        }
        note(&format!("preloading {wanted} messages"));
        let begun = Instant::now();
        let mut crew = Crew::new();
        let pace = Pace::Until(Arc::new(AtomicU64::new(wanted)));
        let count = producers.len();
        crew.produce(producers, &pace, self.shared.preload_batch);
        let mut back = Vec::with_capacity(count);
        let mut looks = looks();
        while back.len() < count {
            // Losing a branch loses nothing: clients, interrupts and looks are there the next time.
            tokio::select! {
                biased;
                _ = interrupts.recv() => return Err(BenchError::Interrupted),
                ended = crew.ended() => back.extend(ended?),
                _ = looks.tick() => self.check_preload()?,
            }
        }
        let preloaded = Preloaded {
            messages: self.shared.check().result().acknowledged,
            took: begun.elapsed(),
        };
        Ok((back, Some(preloaded)))
    }

    fn check_preload(&self) -> Result<(), BenchError> {
        let errors: Errors = self.shared.meter.other_errors();
        if errors.values().sum::<u64>() < PRELOAD_ERRORS_LIMIT {
            return Ok(());
        }
        let words: Vec<String> = errors
            .iter()
            .map(|(code, n)| format!("{code} ×{n}"))
            .collect();
        Err(BenchError::Preload(words.join(", ")))
    }

    async fn measure(
        &self,
        crew: &mut Crew,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> Result<Waited, BenchError> {
        let (shared, options) = (&self.shared, &self.shared.options);
        let warm_up = Duration::from_secs(options.warm_up);
        match self.wait(crew, warm_up, interrupts).await? {
            Waited::Time => {}
            Waited::Empty => return Err(BenchError::WarmedAway),
            Waited::Interrupted => return Err(BenchError::Interrupted),
        }
        note(&format!("measuring for {} s", options.seconds));
        shared.meter.open_window(shared.clock.now());
        let waited = self
            .wait(crew, Duration::from_secs(options.seconds), interrupts)
            .await?;
        shared.meter.close_window(shared.clock.now());
        Ok(waited)
    }

    /// Waits so long, or until there is nothing more to receive for who receives alone.
    async fn wait(
        &self,
        crew: &mut Crew,
        time: Duration,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> Result<Waited, BenchError> {
        let ends_empty = self.shared.options.phase == Phase::Receives;
        let mut looks = looks();
        let time = sleep(time);
        tokio::pin!(time);
        loop {
            // As in the preload.
            tokio::select! {
                biased;
                _ = interrupts.recv() => return Ok(Waited::Interrupted),
                ended = crew.ended() => drop(ended?),
                () = &mut time => return Ok(Waited::Time),
                _ = looks.tick() => {
                    if ends_empty && self.shared.check().outstanding() == 0 {
                        return Ok(Waited::Empty);
                    }
                }
            }
        }
    }

    /// Waits until all acknowledged messages are received, as long as some still come: a message of
    /// a receive whose answer got lost comes back after its visibility timeout.
    async fn drain(
        &self,
        crew: &mut Crew,
        interrupts: &mut mpsc::Receiver<()>,
    ) -> Result<DrainEnd, BenchError> {
        let options = &self.shared.options;
        let seconds = options.visibility_timeout + options.timeout;
        let patience = Duration::from_secs(seconds) + DRAIN_MARGIN;
        let (mut received, mut since) = (0, Instant::now());
        let mut looks = looks();
        loop {
            // As in the preload.
            tokio::select! {
                biased;
                _ = interrupts.recv() => return Ok(DrainEnd::Interrupted),
                ended = crew.ended() => drop(ended?),
                _ = looks.tick() => {}
            }
            let check = self.shared.check();
            if check.outstanding() == 0 {
                return Ok(DrainEnd::Complete);
            }
            if check.received_count() != received {
                (received, since) = (check.received_count(), Instant::now());
            }
            if since.elapsed() > patience {
                return Ok(DrainEnd::GaveUp);
            }
        }
    }
}

fn looks() -> tokio::time::Interval {
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}
