//! Servers, clients, network and time in one thread, driven by one seed.
//!
//! A run draws its weather from the seed: when the server is killed, when the network holds its
//! breath. Clients go on through it and the ledger judges. The same seed gives the same run, in
//! another process too, which is what makes a finding worth having: `HIKYAKU_SEED=17` repeats it.
//! `HIKYAKU_SEEDS=5000` makes a long night of it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hikyaku_cluster_tests::client::Connection;
use hikyaku_cluster_tests::ledger::{Kind, Ledger, Rule};
use hikyaku_cluster_tests::recorder::{Book, Target};
use hikyaku_cluster_tests::workload::{Client, Consumption, Dial, Production, Progress};
use tokio::task::JoinSet;

mod seeds;
mod stand_in;
mod weather;

use stand_in::{Fault, StandIn};
use weather::Weather;

const SERVER: &str = "server";
const PORT: u16 = 9324;

/// Of simulated time. TCP is not repeated in the simulation: a lost packet is a lost connection, and
/// only patience ends the wait for it.
const PATIENCE: Duration = Duration::from_secs(3);

const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(5);
const PRODUCERS: usize = 3;
const CONSUMERS: usize = 3;
const MESSAGES_PER_PRODUCER: usize = 1_000;

/// Of simulated time: a run that is not over by then has stopped.
const LONGEST_RUN: Duration = Duration::from_secs(900);
const DRAIN_DEADLINE: Duration = Duration::from_secs(300);

/// For a run of the whole suite; a night has more.
const DEFAULT_SEEDS: u64 = 8;

/// Over the simulated network.
#[derive(Debug, Clone)]
struct Dialer;

impl Dial for Dialer {
    async fn dial(&self) -> anyhow::Result<Connection> {
        let connect = turmoil::net::TcpStream::connect((SERVER, PORT));
        let stream = tokio::time::timeout(PATIENCE, connect).await??;
        Ok(Connection::open(stream, SERVER, PATIENCE).await?)
    }
}

/// One run and what the clients saw of it.
fn run(seed: u64, kind: Kind, fault: Fault) -> Ledger {
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(LONGEST_RUN)
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(15))
        .build();
    let stand_in = StandIn::new(kind, VISIBILITY_TIMEOUT, fault);
    sim.host(SERVER, move || {
        let stand_in = stand_in.clone();
        async move { Ok(stand_in.serve(PORT).await?) }
    });
    let book = Arc::new(OnceLock::new());
    let written = Arc::clone(&book);
    sim.client("clients", async move {
        let book = written.get_or_init(|| Book::new(Ledger::new(kind)));
        Ok(work(book.clone(), kind).await?)
    });

    let mut weather = Weather::of(seed);
    while !sim.step().expect("no client fails") {
        weather.blow(&mut sim, SERVER);
    }
    let ledger = book.get().expect("the clients began").ledger().clone();
    assert!(
        weather.kills() > 0,
        "seed {seed}: nothing was killed, so nothing was tested"
    );
    ledger
}

/// All clients of the queue, and the drain.
async fn work(book: Book, kind: Kind) -> anyhow::Result<()> {
    let queue_url = format!("http://{SERVER}/000000000000/simulated");
    let delay = Duration::ZERO;
    let target = Target {
        queue_url,
        visibility_timeout: VISIBILITY_TIMEOUT,
        delay,
        book,
    };
    let progress = Arc::new(Progress::default());
    let client = || Client::new(Dialer, target.clone(), Arc::clone(&progress));

    let mut producers = JoinSet::new();
    for producer in 0..PRODUCERS {
        producers.spawn(client().produce(Production {
            name: format!("p{producer}"),
            messages: MESSAGES_PER_PRODUCER,
            body_bytes: 40,
            message_groups: if kind == Kind::Standard { 0 } else { 5 },
        }));
    }
    let mut consumers = JoinSet::new();
    for _ in 0..CONSUMERS {
        consumers.spawn(client().consume(Consumption {
            deleted: 60,
            released: 15,
        }));
    }
    producers.join_all().await;
    progress.stop();
    consumers.join_all().await;

    let counts = client().counts().await;
    target.book.ledger().counted(counts.total());
    target.book.ledger().drain_begins(target.book.now());
    client().drain(DRAIN_DEADLINE).await
}

/// The rules that a fault broke, over as many seeds as it takes.
fn first_broken(kind: Kind, fault: Fault) -> Vec<Rule> {
    let mut rules = Vec::new();
    for seed in 1..=20 {
        rules.extend(
            run(seed, kind, fault)
                .findings()
                .iter()
                .map(|finding| finding.rule),
        );
        if !rules.is_empty() {
            break;
        }
    }
    rules.sort_unstable();
    rules.dedup();
    rules
}

#[test]
fn a_good_server_keeps_its_promises_on_a_standard_queue() {
    seeds::each(DEFAULT_SEEDS, |seed| {
        run(seed, Kind::Standard, Fault::None).assert_kept()
    });
}

#[test]
fn a_good_server_keeps_its_promises_on_a_fifo_queue() {
    seeds::each(DEFAULT_SEEDS, |seed| {
        run(seed, Kind::Fifo, Fault::None).assert_kept()
    });
}

#[test]
fn the_same_seed_has_the_same_course() {
    const NAME: &str = "simulation::the_same_seed_has_the_same_course";
    if let Some(seed) = seeds::of_this_child() {
        println!(
            "{}",
            seeds::course(run(seed, Kind::Fifo, Fault::None).digest())
        );
        return;
    }
    let first = seeds::in_child(NAME, 1).unwrap();
    assert_eq!(seeds::in_child(NAME, 1).unwrap(), first);
    assert_ne!(seeds::in_child(NAME, 2).unwrap(), first);
}

#[test]
fn an_acknowledgement_before_the_disk_is_noticed() {
    let rules = first_broken(Kind::Standard, Fault::AcknowledgesTooSoon);
    assert!(rules.contains(&Rule::Lost), "{rules:?}");
}

#[test]
fn forgotten_receives_are_noticed() {
    let rules = first_broken(Kind::Standard, Fault::ForgetsReceives);
    assert!(rules.contains(&Rule::ReceiveCount), "{rules:?}");
}

#[test]
fn forgotten_deletes_are_noticed() {
    let rules = first_broken(Kind::Fifo, Fault::ForgetsDeletes);
    assert!(rules.contains(&Rule::Resurrected), "{rules:?}");
}

#[test]
fn forgotten_deduplication_is_noticed() {
    let rules = first_broken(Kind::Fifo, Fault::ForgetsDeduplication);
    assert!(rules.contains(&Rule::Deduplication), "{rules:?}");
}

#[test]
fn a_clock_that_jumps_is_noticed() {
    let rules = first_broken(Kind::Standard, Fault::ClockJumps);
    assert!(rules.contains(&Rule::HeldTwice), "{rules:?}");
}
