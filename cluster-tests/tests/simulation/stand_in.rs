//! A server of one node without Raft and files: the queue's machine behind the SQS protocol, and a
//! log that outlives it.
//!
//! It stands in for the product so that the simulation itself can be judged: correct, it must pass;
//! with one of its [`Fault`]s, it must be found out. A fault is what an implementation easily gets
//! wrong, made on purpose.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hikyaku_cluster_tests::history::History;
use hikyaku_queue::{
    Command, DeduplicationScope, Descriptor, HandleKey, HandleSealer, Name, Operation, Partition,
    PartitionId, QueueId, QueueKind, QueueState, Reply, RequestId, decode_head, encode_head,
};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::time::sleep;
use turmoil::net::TcpListener;

use super::clients::{self, Kind, PORT, Spread, VISIBILITY_TIMEOUT, Work};
use super::weather::{Climate, Weather};

mod actions;

const SERVER: &str = "server";

const MESSAGES_PER_PRODUCER: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(20);

/// Of simulated time: a run that is not over by then has stopped.
const LONGEST_RUN: Duration = Duration::from_secs(180);

/// Nothing but the disk and the network takes time here, so all of it is soon over.
const CLIMATE: Climate = Climate {
    stormy_ms: 50..4_000,
    kills: 2..6,
    down_ms: 20..1_000,
    faults_of_links: 0..3,
    faulty_ms: 20..1_000,
};

/// How long the disk takes.
const SYNC: Duration = Duration::from_millis(4);

/// How far ahead of the disk a server runs that acknowledges too soon.
const LAZY_SYNC: Duration = Duration::from_millis(400);

const QUEUE: QueueId = QueueId(1);
const PARTITION: PartitionId = PartitionId(1);
const VERSION: u64 = 1;

/// A mistake made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// None.
    None,
    /// Answers before the entry is on the disk.
    AcknowledgesTooSoon,
    /// After a restart no message was ever received.
    ForgetsReceives,
    /// After a restart no message was ever deleted.
    ForgetsDeletes,
    /// After a restart no deduplication id was ever seen.
    ForgetsDeduplication,
    /// After a restart the clock is an hour ahead.
    ClockJumps,
}

/// One run and what the clients saw of it.
pub fn run(seed: u64, kind: Kind, fault: Fault) -> History {
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(LONGEST_RUN)
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(15))
        .build();
    let stand_in = StandIn {
        kind,
        fault,
        log: Arc::default(),
    };
    sim.host(SERVER, move || {
        let stand_in = stand_in.clone();
        async move { Ok(stand_in.serve().await?) }
    });
    let work = Work {
        kind,
        spread: Spread::OfItsKind,
        max_receive_count: None,
        messages_per_producer: MESSAGES_PER_PRODUCER,
        pause: PAUSE,
    };
    let shelf = clients::start(&mut sim, &[SERVER], work, 0);
    let mut weather = Weather::of(seed, &CLIMATE, &[SERVER]);
    clients::drive(&mut sim, &shelf, |sim| weather.blow(sim, |_| {}));
    assert!(
        weather.kills() > 0,
        "nothing was killed, so nothing was tested"
    );
    clients::history(&shelf)
}

/// One log entry: the commands, and the bodies beside them.
#[derive(Debug, Clone)]
struct Entry {
    head: Vec<u8>,
    bodies: Vec<Vec<u8>>,
}

/// What is left after a crash: the first `synced` entries.
#[derive(Debug, Default)]
struct Log {
    entries: Vec<Entry>,
    synced: usize,
    starts: u32,
}

/// The server; clones share the log.
#[derive(Debug, Clone)]
struct StandIn {
    kind: Kind,
    fault: Fault,
    log: Arc<Mutex<Log>>,
}

/// One life of the server, from its start to its crash.
struct Life {
    stand_in: StandIn,
    sealer: HandleSealer,
    machine: Mutex<Machine>,
}

/// The machine and the bodies that it names.
struct Machine {
    partition: Partition,
    bodies: BTreeMap<Name, Vec<u8>>,
    clock_ahead_ms: u64,
    requests: u128,
}

impl StandIn {
    /// Starts from the log and serves until the host crashes.
    async fn serve(self) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
        let life = Arc::new(self.start());
        loop {
            let (stream, _) = listener.accept().await?;
            let life = Arc::clone(&life);
            let service = service_fn(move |request| {
                let life = Arc::clone(&life);
                async move { Ok::<_, Infallible>(life.answer(request).await) }
            });
            // Each connection ends with its client, all of them with the host.
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    }

    fn start(self) -> Life {
        let key = HandleKey {
            id: 1,
            secret: [7; 64],
        };
        let mut machine = Machine {
            partition: Partition::new(PARTITION),
            bodies: BTreeMap::new(),
            clock_ahead_ms: 0,
            requests: 0,
        };
        let mut log = lock(&self.log);
        let synced = log.synced;
        log.entries.truncate(synced);
        log.starts += 1;
        if self.fault == Fault::ClockJumps {
            machine.clock_ahead_ms = 3_600_000 * u64::from(log.starts - 1);
        }
        // Request ids are not repeated by a later life.
        machine.requests = u128::from(log.starts) << 64;
        for (place, entry) in log.entries.iter().enumerate() {
            let (now, commands) = decode_head(&entry.head).expect("we wrote it");
            let commands: Vec<Command> = commands.into_iter().map(|c| self.remember(c)).collect();
            machine.apply(
                place,
                &Entry {
                    head: encode_head(now, &commands),
                    ..entry.clone()
                },
            );
        }
        drop(log);
        let life = Life {
            stand_in: self,
            sealer: HandleSealer::new(key, None),
            machine: Mutex::new(machine),
        };
        let descriptor = life.stand_in.descriptor();
        life.propose(Operation::PutDescriptor(descriptor), Vec::new());
        life
    }

    /// The command as this server finds it again in its log.
    fn remember(&self, command: Command) -> Command {
        let forget = match (&command.operation, self.fault) {
            (Operation::Receive { .. }, Fault::ForgetsReceives) => true,
            (Operation::Delete { .. }, Fault::ForgetsDeletes) => true,
            (Operation::Send { messages }, Fault::ForgetsDeduplication) => {
                let mut messages = messages.clone();
                for message in &mut messages {
                    message.deduplication_id = Some(format!("forgotten {}", message.id));
                }
                return Command {
                    operation: Operation::Send { messages },
                    ..command
                };
            }
            _ => false,
        };
        if forget {
            Command {
                operation: Operation::Housekeep,
                ..command
            }
        } else {
            command
        }
    }

    fn descriptor(&self) -> Descriptor {
        let scope = |dedup_scope| QueueKind::Fifo { dedup_scope };
        Descriptor {
            id: QUEUE,
            version: VERSION,
            state: QueueState::Active,
            kind: match self.kind {
                Kind::Standard => QueueKind::Standard,
                Kind::Fifo => scope(DeduplicationScope::Queue),
                Kind::FifoByMessageGroup => scope(DeduplicationScope::MessageGroup),
            },
            visibility_timeout_ms: VISIBILITY_TIMEOUT.as_millis() as u64,
            delay_ms: 0,
            retention_ms: 345_600_000,
            purge_epoch: 0,
            in_flight_limit: 120_000,
            spread: vec![PARTITION],
            draining: Vec::new(),
            guests: Vec::new(),
            redrive: None,
            move_order: None,
        }
    }
}

impl Machine {
    fn now_ms(&self) -> u64 {
        let now = turmoil::since_epoch().expect("this runs in the simulation");
        now.as_millis() as u64 + self.clock_ahead_ms
    }

    /// Applies the entry at this place of the log and gives the reply to its only command.
    fn apply(&mut self, place: usize, entry: &Entry) -> Reply {
        let index = place as u64 + 1;
        for (ordinal, body) in entry.bodies.iter().enumerate() {
            self.bodies.insert(
                Name {
                    index,
                    ordinal: ordinal as u32,
                },
                body.clone(),
            );
        }
        let outcomes = self
            .partition
            .apply_entry(index, &entry.head)
            .expect("we wrote it");
        outcomes
            .into_iter()
            .next()
            .expect("an entry has one command")
            .reply
    }
}

impl Life {
    /// Appends a command and applies it: the reply, and the log's length that makes it certain.
    fn propose(&self, operation: Operation, bodies: Vec<Vec<u8>>) -> (Reply, usize) {
        let mut machine = lock(&self.machine);
        machine.requests += 1;
        let now = machine.now_ms();
        let command = Command {
            request_id: RequestId(machine.requests),
            not_after: now + 20_000,
            queue: QUEUE,
            descriptor_version: VERSION,
            operation,
        };
        let entry = Entry {
            head: encode_head(now, &[command]),
            bodies,
        };
        let mut log = lock(&self.stand_in.log);
        let reply = machine.apply(log.entries.len(), &entry);
        log.entries.push(entry);
        (reply, log.entries.len())
    }

    /// Waits for the disk, unless the fault is not to.
    async fn sync(&self, length: usize) {
        let log = Arc::clone(&self.stand_in.log);
        let reached = move || {
            let mut log = lock(&log);
            log.synced = log.synced.max(length);
        };
        if self.stand_in.fault == Fault::AcknowledgesTooSoon {
            tokio::spawn(async move {
                sleep(LAZY_SYNC).await;
                reached();
            });
        } else {
            sleep(SYNC).await;
            reached();
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let target = request
            .headers()
            .get("x-amz-target")
            .and_then(|v| v.to_str().ok());
        let target = target.unwrap_or_default().to_owned();
        let reply = match request.into_body().collect().await {
            Ok(body) => self.act(&target, &body.to_bytes()).await,
            Err(_) => hikyaku_sqs::reply::Reply::unknown_operation("request"),
        };
        let mut response = Response::builder().status(reply.status);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        response
            .body(Full::from(reply.body))
            .expect("our own headers are valid")
    }
}

/// A host that crashed while it held a lock is gone as a whole; its log is still the log.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
