//! Several nodes while they are killed, restarted, cut off and paused under load.
//!
//! Two kinds of clients are at work. *Callers* use AWS's SDK as it comes, with its default retries, and
//! must see no error. *Witnesses* try nothing twice and write down all they see, which the judge reads
//! afterwards: nothing lost, nothing twice, nothing stale, nothing out of order.
//!
//! `HIKYAKU_KILLS=50` makes a long run of the kills, and prints the gap in service of each.

use std::time::Duration;

use anyhow::{Context, ensure};
use hikyaku_cluster_tests::links::Links;
use hikyaku_cluster_tests::process::Server;
use tokio::time::{Instant, sleep};

mod callers;
pub mod witnesses;

use callers::Callers;
use witnesses::Witnesses;

/// Kills of a leader; 50 by hand.
const DEFAULT_KILLS: usize = 5;

/// What callers get done between two blows.
const CALLS_BETWEEN: u64 = 200;

/// How long a node is cut off or paused: longer than any lease, election and stream deadline.
const AWAY: Duration = Duration::from_secs(10);

/// For whatever is waited for, on a slow machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Three nodes, a router, and clients of the router.
struct Weather {
    servers: Vec<Server>,
    links: Option<Links>,
    router: Server,
    callers: Callers,
    witnesses: Witnesses,
}

impl Weather {
    async fn new() -> anyhow::Result<Self> {
        Self::over(Server::start_cluster(3).await?, None).await
    }

    /// With links that can be cut.
    async fn linked() -> anyhow::Result<Self> {
        let (mut servers, links) = Server::linked_cluster(3)?;
        let starts = servers.iter_mut().map(Server::restart);
        futures_util::future::try_join_all(starts).await?;
        for (node, server) in servers.iter().enumerate() {
            links.run_by(node, server.pid());
        }
        Self::over(servers, Some(links)).await
    }

    async fn over(servers: Vec<Server>, links: Option<Links>) -> anyhow::Result<Self> {
        let router = Server::start_router(&servers).await?;
        let callers = Callers::start(router.address()).await?;
        let witnesses = Witnesses::start(router.address()).await?;
        Ok(Self {
            servers,
            links,
            router,
            callers,
            witnesses,
        })
    }

    fn links(&self) -> &Links {
        self.links.as_ref().expect("these tests have links")
    }

    /// Waits until callers have had so many more calls answered.
    async fn calls(&self, more: u64) -> anyhow::Result<()> {
        let (deadline, goal) = (Instant::now() + DEADLINE, self.callers.answered() + more);
        while self.callers.answered() < goal {
            ensure!(Instant::now() < deadline, "callers are stuck");
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// The node that leads the partition that the callers load: the one whose log grows most.
    async fn loaded_leader(&self) -> anyhow::Result<usize> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let before = self.servers[0].by_partition(APPLIED).await?;
            self.calls(20).await?;
            let after = self.servers[0].by_partition(APPLIED).await?;
            let grown = after.iter().map(|(partition, index)| {
                (index - before.get(partition).unwrap_or(index), *partition)
            });
            let (_, loaded) = grown.max().context("a node has partitions")?;
            for (node, server) in self.servers.iter().enumerate() {
                if server.by_partition(LEADS).await?.get(&loaded) == Some(&1) {
                    return Ok(node);
                }
            }
            ensure!(Instant::now() < deadline, "nobody leads {loaded}");
        }
    }

    /// The term of each partition, as the node that is furthest has it.
    async fn terms(&self) -> anyhow::Result<Vec<u64>> {
        let mut terms = Vec::new();
        for server in &self.servers {
            let seen = server.by_partition(TERM).await?.into_values();
            terms = match terms.is_empty() {
                true => seen.collect(),
                false => terms.into_iter().zip(seen).map(|(a, b)| a.max(b)).collect(),
            };
        }
        Ok(terms)
    }

    /// Ends the load, checks that all nodes come to the same log, and that nobody saw anything wrong.
    async fn settle(self) -> anyhow::Result<()> {
        self.callers.stop().await?;
        self.witnesses.settle().await?;
        let deadline = Instant::now() + DEADLINE;
        loop {
            let mut applied = Vec::new();
            for server in &self.servers {
                applied.push(server.by_partition(APPLIED).await?);
            }
            if applied.iter().all(|it| *it == applied[0]) {
                break;
            }
            ensure!(Instant::now() < deadline, "not all caught up: {applied:?}");
            sleep(LOOK).await;
        }
        drop(self.router);
        Ok(())
    }
}

const APPLIED: &str = "hikyaku_raft_applied_index";
const LEADS: &str = "hikyaku_raft_leader";
const TERM: &str = "hikyaku_raft_term";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_caller_notices_that_leaders_are_killed() -> anyhow::Result<()> {
    let kills = std::env::var("HIKYAKU_KILLS").ok();
    let kills = kills.map_or(Ok(DEFAULT_KILLS), |text| text.parse())?;
    let mut weather = Weather::new().await?;
    let mut gaps = Vec::new();
    for _ in 0..kills {
        weather.calls(CALLS_BETWEEN).await?;
        let leader = weather.loaded_leader().await?;
        weather.callers.measure();
        weather.servers[leader].kill()?;
        weather.calls(CALLS_BETWEEN).await?;
        gaps.push(weather.callers.longest_gap());
        weather.servers[leader].restart().await?;
    }
    gaps.sort_unstable();
    let at = |part: usize| gaps[(gaps.len() * part / 100).min(gaps.len() - 1)];
    let (middle, late, longest) = (at(50), at(99), at(100));
    println!("gap in service over {kills} kills: p50 {middle:?}, p99 {late:?}, max {longest:?}");
    weather.settle().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_all_nodes_are_restarted_in_turn() -> anyhow::Result<()> {
    let mut weather = Weather::new().await?;
    weather.calls(CALLS_BETWEEN).await?;
    let before = weather.terms().await?;
    for node in 0..weather.servers.len() {
        let status = weather.servers[node].terminate().await?;
        ensure!(status.success(), "node {node} ended with {status}");
        weather.servers[node].restart().await?;
        weather.calls(CALLS_BETWEEN).await?;
    }
    let after = weather.terms().await?;
    let moves: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    ensure!(
        moves.iter().all(|moves| *moves <= 2),
        "leaders moved {moves:?} times"
    );
    ensure!(weather.witnesses.uncertain() == 0, "a call failed");
    weather.settle().await
}

/// Whatever way the leader is cut off, the others go on, and its return disturbs nobody.
async fn cut_off(cut: impl Fn(&Links, usize)) -> anyhow::Result<()> {
    let weather = Weather::linked().await?;
    weather.calls(CALLS_BETWEEN).await?;
    let leader = weather.loaded_leader().await?;
    let stranded = weather.witnesses.also_at(weather.servers[leader].address());
    cut(weather.links(), leader);
    sleep(AWAY).await;
    let before = weather.terms().await?;
    weather.links().heal();
    weather.calls(CALLS_BETWEEN).await?;
    let after = weather.terms().await?;
    // Its vote counts again, and at most one election follows from its return.
    let risen = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after - before);
    let risen: Vec<u64> = risen.collect();
    ensure!(
        risen.iter().all(|terms| *terms <= 1),
        "terms rose by {risen:?}"
    );
    stranded.stop().await?;
    weather.settle().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_answers_nothing_stale_and_comes_back_quietly()
-> anyhow::Result<()> {
    cut_off(|links, node| {
        links.mute(node);
        links.deafen(node);
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_nobody_hears_is_replaced_and_comes_back_quietly() -> anyhow::Result<()> {
    cut_off(Links::mute).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hears_nobody_is_replaced_and_comes_back_quietly() -> anyhow::Result<()> {
    cut_off(Links::deafen).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_paused_answers_nothing_stale_when_it_wakes() -> anyhow::Result<()> {
    let weather = Weather::new().await?;
    weather.calls(CALLS_BETWEEN).await?;
    let leader = weather.loaded_leader().await?;
    let stranded = weather.witnesses.also_at(weather.servers[leader].address());
    weather.servers[leader].pause(true)?;
    let paused = Instant::now();
    weather.calls(CALLS_BETWEEN).await?;
    sleep(AWAY.saturating_sub(paused.elapsed())).await;
    weather.servers[leader].pause(false)?;
    weather.calls(CALLS_BETWEEN).await?;
    stranded.stop().await?;
    weather.settle().await
}
