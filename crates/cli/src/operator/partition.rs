//! `hikyaku partition`: where the groups are.

use super::connection::Connection;
use super::table::Table;
use super::{Asking, Output, block_on, names, show};
use clap::{Args, Subcommand};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::Role;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub struct Partition {
    #[command(flatten)]
    asking: Asking,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the partitions and the metadata, their leaders and their replicas.
    List,
}

impl Partition {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::List => block_on(list(&self.asking)),
        }
    }
}

async fn list(asking: &Asking) -> anyhow::Result<()> {
    let survey = Connection::open(asking).await?.survey().await?;
    match asking.output {
        Output::Table => show(&table(&survey)),
        Output::Json => {
            let groups: Vec<Value> = survey.groups.iter().map(json_of).collect();
            show(&format!("{:#}", Value::from(groups)))
        }
    }
}

fn table(survey: &wire::Survey) -> String {
    let mut table = Table::new(&["GROUP", "LEADER", "TERM", "REPLICAS"]);
    for group in &survey.groups {
        let (leader, term) = match group.leader {
            Some(leader) => (names::id(leader), group.term.to_string()),
            None => ("none".to_owned(), String::new()),
        };
        let replicas = group.replicas.iter().map(|replica| match replica.role() {
            Role::Voter => names::id(replica.node),
            role => format!("{} ({})", names::id(replica.node), names::role(role)),
        });
        let replicas = replicas.collect::<Vec<_>>().join(", ");
        table.row([names::group(group), leader, term, replicas]);
    }
    table.lines()
}

fn json_of(group: &wire::Group) -> Value {
    let replicas = group.replicas.iter().map(|replica| {
        json!({
            "replica": names::id(replica.replica),
            "node": names::id(replica.node),
            "role": names::role(replica.role()),
        })
    });
    json!({
        "partition": group.partition,
        "leader": group.leader.map(names::id),
        "term": group.leader.map(|_| group.term),
        "replicas": replicas.collect::<Vec<_>>(),
    })
}
