//! Three nodes of the product, whole but for the machine: their disks, clocks and wires are simulated.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use futures_util::future::BoxFuture;
use hikyaku_cluster::{
    Clock, HostLimits, MemoryCopy, Node, NodeParts, NodeSettings, SystemEntropy, ToldClock,
};
use hikyaku_cluster_tests::history::History;
use hikyaku_cluster_tests::memory::Memory;
use hikyaku_gateway::{Access, Gateway, GatewayConfig};
use hikyaku_metadata::PlacementLimits;
use hikyaku_proto::founding;
use hikyaku_raft::{FoundingCalls, Identity, Peers, RaftConfig, RaftNode};
use hikyaku_storage::{CrashKind, Log, LogConfig, SimDisk, Work};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use turmoil::net::TcpListener;

use super::clients::{self, Kind, PORT, Spread};
use super::ports::{Front, SkewedClock, Wires};
use super::weather::{Change, Climate, Crash, Weather};

const SERVERS: [&str; 3] = ["node-1", "node-2", "node-3"];
const PEER_PORT: u16 = 9325;
const CLUSTER: u128 = 0x5eed;
const PARTITIONS: u32 = 3;
const MEMORY_BYTES: usize = 64 << 20;

const MESSAGES_PER_PRODUCER: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(150);

/// Of simulated time: a run that is not over by then has stopped.
const LONGEST_RUN: Duration = Duration::from_secs(180);

/// Longer than a request's budget in the cluster, so that most outcomes are known.
const REQUEST_BUDGET: Duration = Duration::from_secs(4);

/// Wall clocks of nodes differ by up to this much.
const MOST_SKEW_MS: i64 = 200;

/// How long a node may have heard no T after its start: the weather keeps it apart from a leader for
/// seconds, and elections take seconds more.
const HEARS_WITHIN: Duration = Duration::from_secs(12);

/// Elections take seconds here; a storm lasts several of them.
const CLIMATE: Climate = Climate {
    stormy_ms: 1_000..16_000,
    kills: 2..6,
    down_ms: 100..5_000,
    faults_of_links: 0..4,
    faulty_ms: 50..4_000,
};

/// One node's place: what outlives its process.
#[derive(Clone)]
struct Machine {
    number: u64,
    disk: Arc<Mutex<Arc<SimDisk>>>,
    skew_ms: i64,
}

/// These nodes were founded before the run begins.
struct Settled;

impl FoundingCalls for Settled {
    fn look(&self) -> BoxFuture<'_, founding::Standing> {
        Box::pin(std::future::ready(founding::Standing::default()))
    }

    fn promise(&self, _: founding::PromiseRequest) -> BoxFuture<'_, founding::PromiseResponse> {
        Box::pin(std::future::ready(founding::PromiseResponse::default()))
    }
}

/// One run and what the clients saw of it; after `max_receive_count` receives, messages become dead
/// letters.
pub fn run(seed: u64, kind: Kind, spread: Spread, max_receive_count: Option<u32>) -> History {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(LONGEST_RUN)
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(15))
        .tcp_capacity(1 << 16)
        .build();
    let mut disks = BTreeMap::new();
    for (server, number) in SERVERS.into_iter().zip(1..) {
        let disk = Arc::new(Mutex::new(Arc::new(SimDisk::new(rng.random()))));
        let skew_ms = rng.random_range(-MOST_SKEW_MS..=MOST_SKEW_MS);
        let machine = Machine {
            number,
            disk: Arc::clone(&disk),
            skew_ms,
        };
        disks.insert(server, disk);
        sim.host(server, move || {
            let machine = machine.clone();
            async move { Ok(machine.serve().await?) }
        });
    }
    let work = clients::Work {
        kind,
        spread,
        max_receive_count,
        messages_per_producer: MESSAGES_PER_PRODUCER,
        pause: PAUSE,
    };
    let shelf = clients::start(&mut sim, &SERVERS, work, 2 * MOST_SKEW_MS.unsigned_abs());
    let mut weather = Weather::of(seed, &CLIMATE, &SERVERS);
    let mut memory = Memory::new(&SERVERS, HEARS_WITHIN);
    clients::drive(&mut sim, &shelf, |sim| {
        let now = sim.elapsed();
        weather.blow(sim, |change| {
            let (server, crash) = match change {
                Change::Killed(server, crash) => (server, crash),
                Change::Started(server) => return memory.started(server, now),
            };
            memory.killed(server, now);
            let mut disk = disks[server].lock().unwrap_or_else(PoisonError::into_inner);
            *disk = Arc::new(disk.crash(match crash {
                Crash::Process => CrashKind::ProcessDeath,
                Crash::Power => CrashKind::PowerCut,
            }));
        });
    });
    assert!(
        weather.kills() > 0,
        "nothing was killed, so nothing was tested"
    );
    let mut history = clients::history(&shelf);
    // The clients' host starts with the simulation, and its recorder with it.
    history.marks.extend(memory.marks());
    history
}

impl Machine {
    /// One life of the node: from its disk until the host crashes.
    async fn serve(self) -> anyhow::Result<()> {
        let disk = Arc::clone(&self.disk.lock().unwrap_or_else(PoisonError::into_inner));
        let log = Log::open(disk, LogConfig::small(), Work::Task).context("the log")?;
        let address = |number: u64| format!("node-{number}:{PEER_PORT}");
        let founders: Vec<(u64, String)> = (1..=3).map(|n| (n, address(n))).collect();
        let identity = Identity::new(self.number);
        let peers = Peers::new(Arc::new(Wires), identity, founders.clone());
        let clock: Arc<dyn Clock> = Arc::new(SkewedClock::new(self.skew_ms));
        let told = Arc::new(ToldClock(Arc::clone(&clock)));
        let raft = RaftNode::new(RaftConfig::default(), log, peers, told, Work::Task)?;
        let settings = NodeSettings {
            node: self.number,
            cluster_id: CLUSTER,
            founders,
            founds_groups: true,
            announces: None,
            replication: 3,
            placement: PlacementLimits::default(),
            partitions: PARTITIONS,
            limits: HostLimits::default(),
            memory_bytes: MEMORY_BYTES,
            request_budget: REQUEST_BUDGET,
            grow_spreads: true,
            cooldown_ms: None,
        };
        let raft = Arc::new(raft);
        let settled = Arc::new(Settled);
        raft.serve(address(self.number), settled).await?;
        let parts = NodeParts {
            peers: raft.peers().clone(),
            replicas: Some(raft),
            clock,
            entropy: Arc::new(SystemEntropy),
            catalogue: Arc::new(MemoryCopy::default()),
        };
        let node = Node::start(settings, parts).await.context("the node")?;
        let front = Front(TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?);
        let gateway = Arc::new(Gateway::new(
            node,
            GatewayConfig::default(),
            Access::anyone(),
        ));
        // Nobody asks to stop: the host crashes, or the run is over.
        let (_stop, stopped) = watch::channel(false);
        gateway.serve(front, stopped).await;
        Ok(())
    }
}
