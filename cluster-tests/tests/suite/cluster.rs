//! Three nodes as processes of their own: founded once, and served through the death of each.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use hikyaku_cluster_tests::black_box::{Rule, assert_kept, judge};
use hikyaku_cluster_tests::client::{Connection, Outgoing, Wanted};
use hikyaku_cluster_tests::process::{Server, connect};
use hikyaku_cluster_tests::recorder::{Recorder, Target};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

const GROUPS: usize = 3;

/// Messages sent while one node dies, and when it does.
const MESSAGES: usize = 60;
const KILL_AFTER: usize = 20;

/// Shuffled starts; 100 by hand.
const DEFAULT_SHUFFLES: u64 = 10;

/// For everything to be received on a slow machine.
pub const DRAIN_DEADLINE: Duration = Duration::from_secs(120);

/// What a run through all deaths must show something about.
const EXERCISED: [Rule; 7] = [
    Rule::AcknowledgedSend,
    Rule::Phantom,
    Rule::Delete,
    Rule::GroupOrder,
    Rule::Sequence,
    Rule::ReceiveCount,
    Rule::Counts,
];

/// A message of some message group, which nothing else is like.
pub fn message(number: usize) -> Outgoing {
    Outgoing {
        body: number.to_string(),
        message_group: Some(format!("group-{}", number % GROUPS)),
        deduplication_id: Some(number.to_string()),
        delay_seconds: None,
    }
}

/// Receives up to ten messages and deletes them; how many.
pub async fn take(connection: &mut Connection, target: &Target) -> anyhow::Result<usize> {
    let wanted = Wanted {
        max: 10,
        ..Wanted::default()
    };
    let messages = target.receive(connection, wanted).await?;
    for message in &messages {
        assert_eq!(message.receive_count, 1, "{} came twice", message.body);
    }
    if !messages.is_empty() {
        for deleted in target.delete(connection, &messages).await? {
            ensure!(deleted.is_ok(), "not deleted: {deleted:?}");
        }
    }
    Ok(messages.len())
}

/// Each node dies once while two clients use the other two.
#[tokio::test]
async fn no_call_fails_while_each_node_is_killed_in_turn() -> anyhow::Result<()> {
    let mut servers = Server::start_cluster(3).await?;
    through_deaths(&mut servers, |servers, victim| {
        let others = [(victim + 1) % 3, (victim + 2) % 3];
        others.map(|other| servers[other].address())
    })
    .await
}

/// Each node dies once behind a router, which both clients use.
#[tokio::test]
async fn no_call_to_a_router_fails_while_each_node_is_killed_in_turn() -> anyhow::Result<()> {
    let mut servers = Server::start_cluster(3).await?;
    let router = Server::start_router(&servers).await?;
    through_deaths(&mut servers, |_, _| [router.address(); 2]).await
}

/// Kills each node in turn while a sender and a receiver go through the doors they are given: no call
/// fails, and the judge finds nothing lost, nothing twice and every message group in order.
async fn through_deaths(
    servers: &mut [Server],
    doors: impl Fn(&[Server], usize) -> [SocketAddr; 2],
) -> anyhow::Result<()> {
    let attributes = [("FifoQueue", "true"), ("VisibilityTimeout", "60")];
    let mut first = servers[0].connect().await?;
    // One machine, one wall clock.
    let recorder = Recorder::new(0);
    let target = recorder
        .create_queue(&mut first, "orders.fifo", &attributes)
        .await?;
    let (sending, receiving) = (target.clone(), target);
    let (mut sent, mut taken) = (0, 0);
    for victim in 0..servers.len() {
        let [sender, receiver] = doors(servers, victim);
        let mut sender = connect(sender).await?;
        let mut receiver = connect(receiver).await?;
        for step in 0..MESSAGES {
            if step == KILL_AFTER {
                servers[victim].kill()?;
            }
            for result in sending.send(&mut sender, &[message(sent)]).await? {
                ensure!(result.is_ok(), "message {sent} was not taken: {result:?}");
            }
            sent += 1;
            if step % 4 == 0 {
                taken += take(&mut receiver, &receiving).await?;
            }
        }
        servers[victim].restart().await?;
    }
    let mut last = servers[2].connect().await?;
    let drain_from = recorder.now_us();
    let deadline = Instant::now() + DRAIN_DEADLINE;
    while taken < sent {
        ensure!(Instant::now() < deadline, "{taken} of {sent}");
        let more = take(&mut last, &receiving).await?;
        if more == 0 {
            sleep(Duration::from_millis(50)).await;
        }
        taken += more;
    }
    assert_eq!(receiving.counts(&mut last).await?.total(), 0);
    receiving.drained(drain_from);
    let history = recorder.history();
    assert_eq!(history.uncertain(), 0);
    assert_kept(&history);
    let missed = judge(&history).not_exercised();
    let shown = |rule: &Rule| !missed.contains(rule);
    assert!(EXERCISED.iter().all(shown), "{missed:?} not exercised");
    Ok(())
}

/// The founding record in a node's volume, which names the cluster; `None` before it is founded.
fn cluster_of(server: &Server) -> Option<String> {
    let text = fs::read_to_string(server.data_dir().join("cluster")).ok()?;
    let line = text.lines().find(|line| line.starts_with("member "))?;
    Some(line.to_owned())
}

/// Nodes start in any order, and die and start again meanwhile: they end up in one cluster.
/// `HIKYAKU_SHUFFLES=100` makes a long run of it.
#[tokio::test]
async fn one_cluster_forms_whatever_the_order_of_the_starts() -> anyhow::Result<()> {
    let shuffles = std::env::var("HIKYAKU_SHUFFLES").ok();
    let shuffles = shuffles.map_or(Ok(DEFAULT_SHUFFLES), |text| text.parse())?;
    for seed in 0..shuffles {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut servers = Server::cluster(3)?;
        let mut order: Vec<usize> = (0..servers.len()).collect();
        order.shuffle(&mut rng);
        for node in order {
            servers[node].launch()?;
            sleep(Duration::from_millis(rng.random_range(0..400))).await;
            if rng.random_bool(0.5) {
                let victim = rng.random_range(0..servers.len());
                if servers[victim].kill().is_ok() {
                    sleep(Duration::from_millis(rng.random_range(0..200))).await;
                    servers[victim].launch()?;
                }
            }
        }
        for server in &servers {
            server
                .ready()
                .await
                .with_context(|| format!("seed {seed}"))?;
        }
        let clusters: BTreeSet<_> = servers.iter().map(cluster_of).collect();
        assert_eq!(clusters.len(), 1, "seed {seed}: {clusters:?}");
    }
    Ok(())
}

/// A volume that was lost is a new node of the same cluster: it is not taken for the voter that lived
/// there, and new nodes found no second cluster, however many of them there are.
async fn lost_volumes_found_nothing(nodes: usize, lost: usize) -> anyhow::Result<()> {
    let mut servers = Server::start_cluster(nodes).await?;
    let founded = cluster_of(&servers[nodes - 1]).context("founded")?;
    for lost in 0..lost {
        servers[lost].kill()?;
        fs::remove_dir_all(servers[lost].data_dir())?;
        servers[lost].launch()?;
        if lost == 0 {
            servers[lost].ready().await?;
            let mut other = servers[1].connect().await?;
            other.create_queue("still-served", &[]).await?;
        }
    }
    sleep(Duration::from_secs(5)).await;
    // Of three nodes each has a replica of everything, and the one that is left cannot elect itself. If
    // it led before, it takes a moment to notice.
    let deadline = Instant::now() + DRAIN_DEADLINE;
    while nodes == 3 && servers[1].is_ready().await {
        ensure!(Instant::now() < deadline, "ready without a majority");
        sleep(Duration::from_millis(50)).await;
    }
    for server in &servers[..lost] {
        let cluster = cluster_of(server);
        assert!(cluster.is_none_or(|cluster| cluster == founded));
    }
    assert_eq!(cluster_of(&servers[nodes - 1]), Some(founded));
    Ok(())
}

#[tokio::test]
async fn two_emptied_volumes_of_three_neither_vote_nor_found_again() -> anyhow::Result<()> {
    lost_volumes_found_nothing(3, 2).await
}

#[tokio::test]
async fn three_emptied_volumes_of_five_neither_vote_nor_found_again() -> anyhow::Result<()> {
    lost_volumes_found_nothing(5, 3).await
}

/// What a node's page of figures says of one, summed over its series.
pub async fn figure(server: &Server, name: &str) -> anyhow::Result<u64> {
    let mut connection = server.connect().await?;
    let (_, page) = connection.get("/metrics").await?;
    let values = page.lines().filter(|line| line.starts_with(name));
    let values =
        values.map(|line| Ok(line.rsplit(' ').next().context("a value")?.parse::<u64>()?));
    values.sum()
}

/// Waits until every partition has a leader.
async fn led_everywhere(servers: &[Server]) -> anyhow::Result<()> {
    let deadline = Instant::now() + DRAIN_DEADLINE;
    loop {
        let (mut partitions, mut led) = (0, 0);
        for server in servers {
            let leads = server.by_partition("hikyaku_raft_leader").await?;
            partitions = leads.len() as u64;
            led += leads.values().sum::<u64>();
        }
        if led == partitions {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{led} of {partitions} are led");
        sleep(Duration::from_millis(50)).await;
    }
}

/// A node that lost its volume comes back as another one, gets replicas of everything, and carries
/// the cluster when the next node dies.
#[tokio::test]
async fn an_emptied_volume_comes_back_as_a_new_node_that_counts() -> anyhow::Result<()> {
    let mut servers = Server::cluster(3)?;
    for server in &mut servers {
        server.argue(&["--cluster-replace-after-ms", "10000"]);
    }
    let starts = servers.iter_mut().map(Server::restart);
    futures_util::future::try_join_all(starts).await?;
    let attributes = [("FifoQueue", "true"), ("VisibilityTimeout", "60")];
    let mut first = servers[1].connect().await?;
    let recorder = Recorder::new(0);
    let target = recorder
        .create_queue(&mut first, "orders.fifo", &attributes)
        .await?;
    let all = figure(&servers[1], "hikyaku_replicas ").await?;
    // A group whose first leader is lost with its volume before anybody heard of it was never founded.
    led_everywhere(&servers).await?;
    servers[0].kill()?;
    fs::remove_dir_all(servers[0].data_dir())?;
    servers[0].restart().await?;
    let deadline = Instant::now() + DRAIN_DEADLINE;
    let mut sent = 0;
    loop {
        let moving = figure(&servers[1], "hikyaku_moves ").await?;
        if moving == 0 && figure(&servers[0], "hikyaku_replicas ").await? == all {
            break;
        }
        let logs = || servers.iter().map(Server::log_tail).collect::<Vec<_>>();
        ensure!(Instant::now() < deadline, "{}", logs().join("\n\n"));
        for result in target.send(&mut first, &[message(sent)]).await? {
            ensure!(result.is_ok(), "message {sent} was not taken: {result:?}");
        }
        sent += 1;
        sleep(Duration::from_millis(200)).await;
    }
    servers[1].kill()?;
    let mut other = servers[2].connect().await?;
    let (mut taken, drain_from) = (0, recorder.now_us());
    while taken < sent {
        ensure!(Instant::now() < deadline, "{taken} of {sent}");
        let more = take(&mut other, &target).await?;
        if more == 0 {
            sleep(Duration::from_millis(50)).await;
        }
        taken += more;
    }
    target.drained(drain_from);
    assert_kept(&recorder.history());
    Ok(())
}
