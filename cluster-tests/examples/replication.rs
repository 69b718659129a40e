//! Measures replication alone: three nodes of Raft groups in one process, over loopback TCP and real
//! disks, without queues and without HTTP.
//!
//! First all groups are idle (processor time, and pieces handed to the sockets), then clients propose
//! to all of them.
//!
//! ```sh
//! cargo run --release -p hikyaku-cluster-tests --example replication -- --groups 32 --clients 256
//! ```

#![expect(
    clippy::print_stdout,
    reason = "a measuring tool: its output is its result"
)]

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use hikyaku_cluster_tests::measure::{Latencies, Usage};
use hikyaku_raft::{
    BoxedStream, FoundingCalls, Group, GroupClock, GroupSpec, Identity, LiveRun, Machine,
    MachineError, Net, NodeCalls, Peers, RaftConfig, RaftNode, WallClock,
};
use hikyaku_storage::{Log, LogConfig, RealDisk, Work};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug, Parser)]
struct Arguments {
    /// Raft groups, each with a replica on every node.
    #[arg(long, default_value_t = 32)]
    groups: u64,
    /// Proposals under way at a time, over all groups.
    #[arg(long, default_value_t = 256)]
    clients: u64,
    /// Bytes of a proposal's one body.
    #[arg(long, default_value_t = 1_024)]
    body: usize,
    /// Of each part.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// The first of three ports of the loopback.
    #[arg(long, default_value_t = 23_810)]
    port: u16,
}

/// Loopback TCP that counts what is handed to the sockets.
#[derive(Clone, Default)]
struct Counted {
    writes: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

struct CountedStream {
    stream: TcpStream,
    counts: Counted,
}

impl CountedStream {
    fn count(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.counts.writes.fetch_add(1, Ordering::Relaxed);
            self.counts
                .bytes
                .fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.count(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.count(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Counted {
    fn wrap(&self, stream: TcpStream) -> io::Result<BoxedStream> {
        stream.set_nodelay(true)?;
        let counts = self.clone();
        Ok(BoxedStream::new(CountedStream { stream, counts }))
    }
}

impl Net for Counted {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>> {
        let counts = self.clone();
        Box::pin(async move { counts.wrap(TcpStream::connect(address).await?) })
    }

    fn listen(
        &self,
        address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>> {
        let counts = self.clone();
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            let incoming = stream::unfold((listener, counts), |(listener, counts)| async move {
                let accepted = listener.accept().await;
                let stream = accepted.and_then(|(stream, _)| counts.wrap(stream));
                Some((stream, (listener, counts)))
            });
            Ok(incoming.boxed())
        })
    }
}

struct NoClock;

impl GroupClock for NoClock {
    fn leader_time_ms(&self) -> u64 {
        0
    }
    fn heard_leader_time(&self, _time_ms: u64) {}
    fn believed_time_ms(&self) -> u64 {
        0
    }
    fn heard_follower(&self, _node: u64, _wall_clock_ms: u64, _believed_time_ms: u64) {}
}

impl WallClock for NoClock {
    fn wall_clock_ms(&self) -> u64 {
        0
    }
}

/// Nobody asks for anything but replication.
struct NoCalls;

/// Nodes know each other from the start here.
struct NoFounding;

impl FoundingCalls for NoFounding {
    fn look(&self) -> BoxFuture<'_, hikyaku_proto::founding::Standing> {
        Box::pin(std::future::ready(Default::default()))
    }

    fn promise(
        &self,
        _request: hikyaku_proto::founding::PromiseRequest,
    ) -> BoxFuture<'_, hikyaku_proto::founding::PromiseResponse> {
        Box::pin(std::future::ready(Default::default()))
    }
}

impl NodeCalls for NoCalls {
    fn submit(
        &self,
        _request: hikyaku_proto::node::SubmitRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::SubmitResponse> {
        Box::pin(async { Default::default() })
    }
    fn park(
        &self,
        _request: hikyaku_proto::node::ParkRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::SubmitResponse> {
        Box::pin(async { Default::default() })
    }
    fn queue_counts(
        &self,
        _request: hikyaku_proto::node::CountsRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::CountsResponse> {
        Box::pin(async { Default::default() })
    }
    fn control(
        &self,
        _request: hikyaku_proto::node::ControlRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::ControlResponse> {
        Box::pin(async { Default::default() })
    }
    fn barrier(
        &self,
        _request: hikyaku_proto::node::BarrierRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::BarrierResponse> {
        Box::pin(async { Default::default() })
    }
    fn watch(
        &self,
        _request: hikyaku_proto::node::WatchRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::WatchResponse> {
        Box::pin(async { Default::default() })
    }
    fn delivered(
        &self,
        _request: hikyaku_proto::node::DeliveredRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::DeliveredResponse> {
        Box::pin(async { Default::default() })
    }
    fn describe(
        &self,
        _request: hikyaku_proto::node::DescribeRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::DescribeResponse> {
        Box::pin(async { Default::default() })
    }
    fn set_voters(
        &self,
        _request: hikyaku_proto::node::SetVotersRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::SetVotersResponse> {
        Box::pin(async { Default::default() })
    }
    fn transfer_leader(
        &self,
        _request: hikyaku_proto::node::TransferLeaderRequest,
    ) -> BoxFuture<'_, hikyaku_proto::node::TransferLeaderResponse> {
        Box::pin(async { Default::default() })
    }
}

/// Counts entries, keeps none.
struct Count(u64);

impl Machine for Count {
    type Reply = u64;

    fn apply(&mut self, _index: u64, _head: &[u8]) -> Result<u64, MachineError> {
        self.0 += 1;
        Ok(self.0)
    }

    fn live_runs(&self) -> Vec<LiveRun> {
        Vec::new()
    }

    fn encode(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), MachineError> {
        let bytes = state
            .try_into()
            .map_err(|_| MachineError("not a count".to_owned()))?;
        self.0 = u64::from_be_bytes(bytes);
        Ok(())
    }
}

struct Member {
    _node: RaftNode,
    groups: Vec<Group<Count>>,
}

async fn start(
    arguments: &Arguments,
    net: &Counted,
    node: u64,
) -> anyhow::Result<(Member, tempfile::TempDir)> {
    let directory = tempfile::tempdir()?;
    let disk = Arc::new(RealDisk::open(directory.path())?);
    let log =
        tokio::task::spawn_blocking(move || Log::open(disk, LogConfig::default(), Work::Thread))
            .await??;
    let address = |node: u64| format!("127.0.0.1:{}", u64::from(arguments.port) + node - 1);
    let addresses = (1..=3).map(|n| (n, address(n)));
    let peers = Peers::new(Arc::new(net.clone()), Identity::new(node), addresses);
    let raft = RaftNode::new(
        RaftConfig::default(),
        log,
        peers,
        Arc::new(NoClock),
        Work::Thread,
    )?;
    let mut groups = Vec::new();
    for group in 1..=arguments.groups {
        let spec = GroupSpec {
            group,
            replica: node,
            clock: Arc::new(NoClock),
        };
        groups.push(raft.open_group(spec, || Count(0)).await?);
    }
    raft.answer(Arc::new(NoCalls));
    raft.serve(address(node), Arc::new(NoFounding)).await?;
    raft.start_maintenance();
    let member = Member {
        _node: raft,
        groups,
    };
    Ok((member, directory))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let net = Counted::default();
    let mut members = Vec::new();
    for node in 1..=3 {
        members.push(start(&arguments, &net, node).await?);
    }
    // Each group is founded, and so at first led, by another node.
    let mut leaders = Vec::new();
    for place in 0..arguments.groups as usize {
        let group = &members[place % 3].0.groups[place];
        group
            .found(BTreeMap::from([(1, 1), (2, 2), (3, 3)]))
            .await?;
    }
    for place in 0..arguments.groups as usize {
        leaders.push(loop {
            let serving = members.iter().map(|(member, _)| &member.groups[place]);
            if let Some(group) = serving.into_iter().find(|g| g.leadership().serving) {
                break group.clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        });
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    idle(&arguments, &net).await?;
    load(&arguments, &net, &leaders).await
}

async fn idle(arguments: &Arguments, net: &Counted) -> anyhow::Result<()> {
    let before = Usage::of(std::process::id())?;
    net.writes.store(0, Ordering::Relaxed);
    net.bytes.store(0, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(arguments.seconds)).await;
    let used = Usage::of(std::process::id())?.cpu - before.cpu;
    let seconds = arguments.seconds as f64;
    println!(
        "idle: {} groups, {:.1} % of a core, {:.0} writes/s, {:.1} kB/s",
        arguments.groups,
        used.as_secs_f64() / seconds * 100.0,
        net.writes.load(Ordering::Relaxed) as f64 / seconds,
        net.bytes.load(Ordering::Relaxed) as f64 / seconds / 1_000.0,
    );
    Ok(())
}

async fn load(
    arguments: &Arguments,
    net: &Counted,
    leaders: &[Group<Count>],
) -> anyhow::Result<()> {
    let before = Usage::of(std::process::id())?;
    net.writes.store(0, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    let body = Bytes::from(vec![7; arguments.body]);
    let clients: Vec<_> = (0..arguments.clients)
        .map(|client| {
            let group = leaders[(client % arguments.groups) as usize].clone();
            let body = body.clone();
            tokio::spawn(async move {
                let mut latencies = Latencies::default();
                let mut failed = 0_u64;
                while Instant::now() < until {
                    let began = Instant::now();
                    let head = Bytes::from_static(b"head");
                    let applied = match group.submit(head, vec![body.clone()]).await {
                        Ok(submitted) => submitted.await.is_ok(),
                        Err(_) => false,
                    };
                    if applied {
                        latencies.add(began.elapsed());
                    } else {
                        failed += 1;
                    }
                }
                (latencies, failed)
            })
        })
        .collect();
    let mut all = Latencies::default();
    let mut failed = 0;
    for client in clients {
        let (latencies, failures) = client.await?;
        all.merge(latencies);
        failed += failures;
    }
    let used = Usage::of(std::process::id())?.cpu - before.cpu;
    let calls = all.calls();
    let [p50, p99, max] = all.percentiles([0.5, 0.99, 1.0]);
    println!(
        "load: {} clients, {:.0} proposals/s, {failed} failed, p50 {p50:.1} ms, p99 {p99:.1} ms, max {max:.0} ms, {:.0} us of processor each, {:.1} writes each",
        arguments.clients,
        calls as f64 / arguments.seconds as f64,
        used.as_secs_f64() * 1e6 / calls as f64,
        net.writes.load(Ordering::Relaxed) as f64 / calls as f64,
    );
    Ok(())
}
