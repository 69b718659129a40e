//! Three nodes as processes of their own: founded once, and served through the death of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use hikyaku_cluster_tests::client::{Connection, Outgoing, Wanted};
use hikyaku_cluster_tests::process::{Server, connect};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

const GROUPS: usize = 3;

/// Messages sent while one node dies, and when it does.
const MESSAGES: usize = 60;
const KILL_AFTER: usize = 20;

/// Shuffled starts; 100 by hand.
const DEFAULT_SHUFFLES: u64 = 5;

/// For everything to be received on a slow machine.
const DRAIN_DEADLINE: Duration = Duration::from_secs(120);

fn message(number: usize) -> Outgoing {
    Outgoing {
        body: number.to_string(),
        message_group: Some(format!("group-{}", number % GROUPS)),
        deduplication_id: Some(number.to_string()),
        delay_seconds: None,
    }
}

/// Receives up to ten messages and deletes them; their numbers by message group.
async fn take(
    connection: &mut Connection,
    queue_url: &str,
    taken: &mut BTreeMap<String, Vec<usize>>,
) -> anyhow::Result<usize> {
    let wanted = Wanted {
        max: 10,
        visibility_timeout: Some(60),
        wait: None,
    };
    let messages = connection.receive(queue_url, wanted).await?;
    for message in &messages {
        assert_eq!(message.receive_count, 1, "{} came twice", message.body);
        let group = message.message_group.clone().context("a message group")?;
        taken.entry(group).or_default().push(message.body.parse()?);
    }
    let handles: Vec<String> = messages.iter().map(|m| m.receipt_handle.clone()).collect();
    if !handles.is_empty() {
        for deleted in connection.delete(queue_url, &handles).await? {
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
/// fails, nothing is lost, nothing comes twice, and every message group keeps its order.
async fn through_deaths(
    servers: &mut [Server],
    doors: impl Fn(&[Server], usize) -> [SocketAddr; 2],
) -> anyhow::Result<()> {
    let attributes = [("FifoQueue", "true"), ("VisibilityTimeout", "60")];
    let mut first = servers[0].connect().await?;
    let queue_url = first.create_queue("orders.fifo", &attributes).await?;
    let mut taken = BTreeMap::new();
    let mut sent = 0;
    for victim in 0..servers.len() {
        let [sender, receiver] = doors(servers, victim);
        let mut sender = connect(sender).await?;
        let mut receiver = connect(receiver).await?;
        for step in 0..MESSAGES {
            if step == KILL_AFTER {
                servers[victim].kill()?;
            }
            for result in sender.send(&queue_url, &[message(sent)]).await? {
                ensure!(result.is_ok(), "message {sent} was not taken: {result:?}");
            }
            sent += 1;
            if step % 4 == 0 {
                take(&mut receiver, &queue_url, &mut taken).await?;
            }
        }
        servers[victim].restart().await?;
    }
    let mut last = servers[2].connect().await?;
    let deadline = Instant::now() + DRAIN_DEADLINE;
    while taken.values().map(Vec::len).sum::<usize>() < sent {
        ensure!(Instant::now() < deadline, "{taken:?} of {sent}");
        if take(&mut last, &queue_url, &mut taken).await? == 0 {
            sleep(Duration::from_millis(50)).await;
        }
    }
    for (group, numbers) in &taken {
        let first = numbers[0];
        let whole: Vec<usize> = (first..sent).step_by(GROUPS).collect();
        assert_eq!(numbers, &whole, "{group}");
        assert!(first < GROUPS, "{group} begins with {first}");
    }
    assert_eq!(last.counts(&queue_url).await?.total(), 0);
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

/// A volume that was lost is a new node: it is not taken for the voter that lived there, and it does
/// not found a second cluster, not even together with another one.
#[tokio::test]
async fn emptied_volumes_neither_vote_nor_found_again() -> anyhow::Result<()> {
    let mut servers = Server::start_cluster(3).await?;
    let founded = cluster_of(&servers[2]).context("founded")?;
    for lost in [0, 1] {
        servers[lost].kill()?;
        fs::remove_dir_all(servers[lost].data_dir())?;
        servers[lost].launch()?;
        servers[lost]
            .logged("which this volume is not part of")
            .await?;
        if lost == 0 {
            let mut other = servers[1].connect().await?;
            other.create_queue("still-served", &[]).await?;
        }
    }
    for lost in [0, 1] {
        assert!(!servers[lost].is_ready().await);
        assert_eq!(cluster_of(&servers[lost]), None);
    }
    assert_eq!(cluster_of(&servers[2]), Some(founded));
    Ok(())
}
