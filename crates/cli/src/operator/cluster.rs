//! `hikyaku cluster`: whether everything is well.

use super::connection::Connection;
use super::{Asking, Output, Unwell, block_on, names, note, show};
use anyhow::{Error, ensure};
use clap::{Args, Subcommand};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::{NodeState, Role};
use serde_json::json;
use std::fmt::Write;

#[derive(Debug, Args)]
pub struct Cluster {
    #[command(flatten)]
    asking: Asking,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell how the cluster is; exit code 3 when something is not well.
    Status,
    /// Set how many replicas each group is to have; they are moved there one by one.
    Replication {
        /// 1 to 7; more than there are nodes waits for more nodes.
        replicas: u32,
    },
    /// Found a cluster of one waiting node alone, when the others will never all be there.
    ///
    /// Nodes found their cluster by themselves when all of `cluster.peers` are there; this is for when one
    /// of them promised itself to another and that one's volume is lost. Two clusters come out of it where
    /// another node is founded by hand too, or where the others found one after all: make sure that no node
    /// of `cluster.peers` belongs to a cluster, and do it on one node. The others join that one; who
    /// promised itself to a lost node has to be given an empty volume.
    Found {
        /// The above is so.
        #[arg(long)]
        force: bool,
    },
}

impl Cluster {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Status => block_on(status(&self.asking)),
            Command::Found { force } => block_on(found(&self.asking, force)),
            Command::Replication { replicas } => block_on(replication(&self.asking, replicas)),
        }
    }
}

async fn status(asking: &Asking) -> anyhow::Result<()> {
    let survey = Connection::open(asking).await?.survey().await?;
    let troubles = troubles(&survey);
    match asking.output {
        Output::Table => show(&page(&survey, &troubles))?,
        Output::Json => show(&format!("{:#}", json_of(&survey, &troubles)))?,
    }
    match troubles.len() {
        0 => Ok(()),
        1 => Err(Error::new(Unwell("one thing is not well".to_owned()))),
        several => Err(Error::new(Unwell(format!("{several} things are not well")))),
    }
}

async fn found(asking: &Asking, force: bool) -> anyhow::Result<()> {
    ensure!(
        force,
        "a second cluster comes out of this if any node of cluster.peers belongs to one, or is founded by \
         hand too; `--force` says that none does"
    );
    let cluster = Connection::open(asking).await?.found().await?;
    note("the other nodes join it when their volumes are new; those that wait for another do not");
    match asking.output {
        Output::Table => show(&format!("founded cluster {cluster}, of this node alone")),
        Output::Json => show(&format!("{:#}", json!({ "cluster": cluster }))),
    }
}

async fn replication(asking: &Asking, replicas: u32) -> anyhow::Result<()> {
    Connection::open(asking)
        .await?
        .set_replication(replicas)
        .await?;
    match asking.output {
        Output::Table => show(&format!("each group is to have {replicas} replicas")),
        Output::Json => show(&format!("{:#}", json!({ "replication": replicas }))),
    }
}

/// What an operator should know of, in words. Moves under way are none of it.
fn troubles(survey: &wire::Survey) -> Vec<String> {
    let mut troubles = Vec::new();
    if !survey.current {
        let node = names::id(survey.answered_by);
        troubles.push(format!(
            "no leader of the metadata answered; this is what node {node} heard last"
        ));
    }
    let silent = survey
        .nodes
        .iter()
        .filter(|node| !node.answers && is_member(node));
    troubles.extend(silent.map(|node| {
        let id = names::id(node.node);
        format!("node {id} at {} does not answer", node.address)
    }));
    let wanted = wanted_replicas(survey);
    for group in &survey.groups {
        let name = names::group(group);
        if group.leader.is_none() {
            troubles.push(format!("{name} has no leader"));
        }
        let voters = voters(group);
        if voters < wanted {
            troubles.push(format!("{name} has {voters} of {wanted} replicas"));
        }
    }
    troubles
}

fn is_member(node: &wire::Node) -> bool {
    node.state() != NodeState::Decommissioned
}

/// As many as there are nodes for.
fn wanted_replicas(survey: &wire::Survey) -> usize {
    let keeps = |node: &&wire::Node| {
        node.storage && matches!(node.state(), NodeState::Active | NodeState::Cordoned)
    };
    let nodes = survey.nodes.iter().filter(keeps).count();
    nodes.min(survey.replication as usize)
}

fn voters(group: &wire::Group) -> usize {
    let replicas = group.replicas.iter();
    replicas
        .filter(|it| matches!(it.role(), Role::Voter | Role::Leaving))
        .count()
}

fn moving(survey: &wire::Survey) -> usize {
    let moves = |group: &&wire::Group| group.replicas.iter().any(|it| it.role() != Role::Voter);
    survey.groups.iter().filter(moves).count()
}

fn page(survey: &wire::Survey, troubles: &[String]) -> String {
    let members: Vec<&wire::Node> = survey.nodes.iter().filter(|it| is_member(it)).collect();
    let in_state = |state: NodeState| members.iter().filter(|it| it.state() == state).count();
    let states = [
        NodeState::Active,
        NodeState::Cordoned,
        NodeState::Draining,
        NodeState::Decommissioning,
    ];
    let states = states.map(|state| (in_state(state), names::state(state)));
    let states = states.iter().filter(|(count, _)| *count > 0);
    let states: Vec<String> = states
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let led = survey
        .groups
        .iter()
        .filter(|it| it.leader.is_some())
        .count();
    let mut page = String::new();
    let mut line = |name: &str, text: &str| {
        writeln!(page, "{name:<11}  {text}").expect("a String takes every character");
    };
    line("cluster", &names::cluster_id(&survey.cluster_id));
    line("answered by", &names::id(survey.answered_by));
    line(
        "nodes",
        &format!("{}: {}", members.len(), states.join(", ")),
    );
    let groups = survey.groups.len();
    let moving = moving(survey);
    line(
        "groups",
        &format!("{groups}: {led} led, {moving} with a move under way"),
    );
    line("replication", &survey.replication.to_string());
    if troubles.is_empty() {
        line("health", "all is well");
    }
    for trouble in troubles {
        line("not well", trouble);
    }
    page
}

fn json_of(survey: &wire::Survey, troubles: &[String]) -> serde_json::Value {
    json!({
        "cluster": names::cluster_id(&survey.cluster_id),
        "answered_by": names::id(survey.answered_by),
        "current": survey.current,
        "replication": survey.replication,
        "nodes": survey.nodes.iter().filter(|it| is_member(it)).count(),
        "groups": survey.groups.len(),
        "led": survey.groups.iter().filter(|it| it.leader.is_some()).count(),
        "moving": moving(survey),
        "troubles": troubles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(node: u64, state: NodeState) -> wire::Node {
        wire::Node {
            node,
            address: format!("node-{node}:1"),
            storage: true,
            state: state.into(),
            answers: true,
            ..wire::Node::default()
        }
    }

    fn group(partition: u32, nodes: &[u64]) -> wire::Group {
        let replica = |node: &u64| wire::Replica {
            replica: *node,
            node: *node,
            role: Role::Voter.into(),
        };
        wire::Group {
            partition: Some(partition),
            leader: nodes.first().copied(),
            term: 1,
            replicas: nodes.iter().map(replica).collect(),
        }
    }

    fn well() -> wire::Survey {
        wire::Survey {
            answered_by: 1,
            cluster_id: vec![7; 16].into(),
            replication: 3,
            current: true,
            nodes: (1..=3).map(|it| node(it, NodeState::Active)).collect(),
            groups: vec![group(0, &[1, 2, 3]), group(1, &[2, 3, 1])],
        }
    }

    #[test]
    fn a_whole_cluster_is_well_and_so_is_one_that_is_small() {
        assert_eq!(troubles(&well()), Vec::<String>::new());
        let mut alone = well();
        alone.nodes.truncate(1);
        alone.groups = vec![group(0, &[1])];
        assert_eq!(troubles(&alone), Vec::<String>::new());
    }

    #[test]
    fn a_decommissioned_node_is_not_missed() {
        let mut survey = well();
        let mut gone = node(4, NodeState::Decommissioned);
        gone.answers = false;
        survey.nodes.push(gone);
        assert_eq!(troubles(&survey), Vec::<String>::new());
    }

    #[test]
    fn each_trouble_is_told() {
        let mut survey = well();
        survey.current = false;
        survey.nodes[2].answers = false;
        survey.groups[0].leader = None;
        survey.groups[1].replicas.pop();
        assert_eq!(
            troubles(&survey),
            [
                "no leader of the metadata answered; this is what node 0000000000000001 heard last",
                "node 0000000000000003 at node-3:1 does not answer",
                "partition 0 has no leader",
                "partition 1 has 2 of 3 replicas",
            ]
        );
        let page = page(&survey, &troubles(&survey));
        assert!(
            page.contains("3: 3 active") && page.contains("2: 1 led"),
            "{page}"
        );
    }
}
