//! `hikyaku node`: what is wanted of the nodes.

use super::connection::Connection;
use super::table::Table;
use super::{Asking, Output, Unwell, block_on, names, note, show};
use anyhow::{Context, Error};
use clap::{Args, Subcommand};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::NodeState;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

#[derive(Debug, Args)]
pub struct Node {
    #[command(flatten)]
    asking: Asking,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the nodes of the cluster.
    List {
        /// Decommissioned ones too.
        #[arg(long)]
        all: bool,
    },
    /// Give a node no more replicas, and nothing to lead that another can lead.
    Cordon(One),
    /// Let a node keep its replicas and take more: undoes cordon, drain, and decommission on its way.
    Uncordon(One),
    /// Move the replicas of a node to others; it stays a member, and empty.
    Drain(Emptied),
    /// Move the replicas of a node to others, then refuse it for ever.
    Decommission(Emptied),
}

#[derive(Debug, Args)]
struct One {
    /// Its id, the beginning of it, or its address.
    node: String,
}

#[derive(Debug, Args)]
struct Emptied {
    /// Its id, the beginning of it, or its address.
    node: String,

    /// Wait until it is done, and tell how far it is. Without, the cluster does it just the same.
    #[arg(long)]
    wait: bool,

    /// How long to wait, in seconds; exit code 3 when it is not done by then.
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
    timeout: u64,
}

/// Between two looks at a node that is waited for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long nobody may answer before the wait is given up: longer than a failover or a restart.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

impl Node {
    pub fn run(self) -> anyhow::Result<()> {
        let asking = &self.asking;
        match self.command {
            Command::List { all } => block_on(list(asking, all)),
            Command::Cordon(One { node }) => block_on(set(asking, node, NodeState::Cordoned)),
            Command::Uncordon(One { node }) => block_on(set(asking, node, NodeState::Active)),
            Command::Drain(it) => block_on(empty(asking, it, NodeState::Draining)),
            Command::Decommission(it) => block_on(empty(asking, it, NodeState::Decommissioned)),
        }
    }
}

async fn list(asking: &Asking, all: bool) -> anyhow::Result<()> {
    let mut survey = Connection::open(asking).await?.survey().await?;
    if !survey.current {
        note("no leader of the metadata answered: this is what the node heard last");
    }
    let shown = |node: &wire::Node| all || node.state() != NodeState::Decommissioned;
    survey.nodes.retain(shown);
    match asking.output {
        Output::Table => show(&table(&survey.nodes)),
        Output::Json => {
            let nodes: Vec<Value> = survey.nodes.iter().map(json_of).collect();
            show(&format!("{:#}", Value::from(nodes)))
        }
    }
}

/// Sets a state and shows the node as it is then.
async fn set(asking: &Asking, meant: String, wanted: NodeState) -> anyhow::Result<()> {
    let mut connection = Connection::open(asking).await?;
    let mut node = find(&mut connection, &meant).await?;
    let state = connection.set_node_state(node.node, wanted).await?;
    node.set_state(state);
    show_one(asking, &node)
}

/// Sets a state in which the node loses its replicas, and waits for that if it is to.
async fn empty(asking: &Asking, emptied: Emptied, wanted: NodeState) -> anyhow::Result<()> {
    let mut connection = Connection::open(asking).await?;
    let mut node = find(&mut connection, &emptied.node).await?;
    let state = connection.set_node_state(node.node, wanted).await?;
    node.set_state(state);
    if emptied.wait {
        let limit = Duration::from_secs(emptied.timeout);
        // Dropping the wait undoes nothing: the cluster goes on.
        let waited = timeout(limit, wait(asking, connection, node.clone(), wanted)).await;
        node = waited.unwrap_or_else(|_| {
            let id = names::id(node.node);
            let unfinished = format!("node {id} is not empty yet; the same command waits on");
            Err(Error::new(Unwell(unfinished)))
        })?;
    } else if !is_done(&node, wanted) {
        note(
            "its replicas are being moved; `--wait` tells when that is done, `hikyaku node uncordon` stops it",
        );
    }
    show_one(asking, &node)
}

async fn find(connection: &mut Connection, meant: &str) -> anyhow::Result<wire::Node> {
    let survey = connection.survey().await?;
    names::find(&survey.nodes, meant).cloned()
}

fn is_done(node: &wire::Node, wanted: NodeState) -> bool {
    match wanted {
        NodeState::Decommissioned => node.state() == NodeState::Decommissioned,
        _ => node.replicas == 0,
    }
}

/// Looks again and again until the node is empty. The node that is asked may itself be the one that
/// goes, and others may be away for a while.
async fn wait(
    asking: &Asking,
    connection: Connection,
    node: wire::Node,
    wanted: NodeState,
) -> anyhow::Result<wire::Node> {
    let id = names::id(node.node);
    let mut connection = Some(connection);
    let mut left = None;
    let mut answered = Instant::now();
    loop {
        match look(asking, &mut connection, node.node).await {
            Ok(now) => {
                answered = Instant::now();
                if is_done(&now, wanted) {
                    return Ok(now);
                }
                let taken_back = !matches!(
                    now.state(),
                    NodeState::Draining | NodeState::Decommissioning | NodeState::Decommissioned
                );
                if taken_back {
                    let state = names::state(now.state());
                    let text = format!("node {id} is {state} by now: somebody took it back");
                    return Err(Error::new(Unwell(text)));
                }
                if left != Some(now.replicas) {
                    note(&format!("node {id}: {} replicas left", now.replicas));
                    left = Some(now.replicas);
                }
            }
            Err(error) => {
                connection = None;
                if answered.elapsed() > SILENCE_LIMIT {
                    return Err(error.context("lost sight of the cluster; the cluster goes on"));
                }
            }
        }
        sleep(LOOK_INTERVAL).await;
    }
}

async fn look(
    asking: &Asking,
    connection: &mut Option<Connection>,
    node: u64,
) -> anyhow::Result<wire::Node> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(Connection::open(asking).await?),
    };
    let survey = connection.survey().await?;
    let found = survey.nodes.into_iter().find(|it| it.node == node);
    found.context("the node is not known there")
}

fn show_one(asking: &Asking, node: &wire::Node) -> anyhow::Result<()> {
    match asking.output {
        Output::Table => show(&table(std::slice::from_ref(node))),
        Output::Json => show(&format!("{:#}", json_of(node))),
    }
}

fn table(nodes: &[wire::Node]) -> String {
    let mut table = Table::new(&[
        "NODE", "STATE", "ANSWERS", "REPLICAS", "LEADS", "ADDRESS", "ZONE",
    ]);
    for node in nodes {
        table.row([
            names::id(node.node),
            names::state(node.state()).to_owned(),
            if node.answers { "yes" } else { "no" }.to_owned(),
            node.replicas.to_string(),
            node.leads.to_string(),
            node.address.clone(),
            node.zone.clone(),
        ]);
    }
    table.lines()
}

fn json_of(node: &wire::Node) -> Value {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "node": names::id(node.node),
        "state": names::state(node.state()),
        "answers": node.answers,
        "replicas": node.replicas,
        "leads": node.leads,
        "address": node.address,
        "zone": known(&node.zone),
        "certificate_name": known(&node.certificate_name),
        "storage": node.storage,
    })
}
