//! `hikyaku key`: what requests for a tenant may be signed with.

use super::connection::Connection;
use super::table::Table;
use super::{Asking, Output, block_on, note, show};
use clap::{Args, Subcommand};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::AccessKeyChange;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub struct Key {
    #[command(flatten)]
    asking: Asking,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create an access key and show its secret, which is never shown again.
    Create {
        /// The tenant's id or name.
        tenant: String,

        /// What it is for.
        #[arg(long, default_value = "")]
        description: String,
    },
    /// List access keys, without their secrets.
    List {
        /// Of this tenant alone, by its id or name.
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Refuse what is signed with a key, until it is enabled.
    Disable(One),
    /// Accept again what is signed with a key.
    Enable(One),
    /// Delete a key for ever.
    Delete(One),
}

#[derive(Debug, Args)]
struct One {
    /// Its id.
    key: String,
}

impl Key {
    pub fn run(self) -> anyhow::Result<()> {
        let asking = &self.asking;
        match self.command {
            Command::Create {
                tenant,
                description,
            } => block_on(create(asking, tenant, description)),
            Command::List { tenant } => block_on(list(asking, tenant.unwrap_or_default())),
            Command::Disable(one) => block_on(change(asking, one, AccessKeyChange::Disable)),
            Command::Enable(one) => block_on(change(asking, one, AccessKeyChange::Enable)),
            Command::Delete(one) => block_on(change(asking, one, AccessKeyChange::Delete)),
        }
    }
}

async fn create(asking: &Asking, tenant: String, description: String) -> anyhow::Result<()> {
    let request = wire::CreateAccessKeyRequest {
        tenant,
        description,
    };
    let mut connection = Connection::open(asking).await?;
    let (key, secret) = connection.create_access_key(request).await?;
    note("the secret is shown now and never again");
    match asking.output {
        Output::Table => {
            let mut table = Table::new(&["TENANT", "ACCESS KEY", "SECRET"]);
            table.row([key.tenant, key.key, secret]);
            show(&table.lines())
        }
        Output::Json => {
            let mut shown = json_of(&key);
            shown["secret"] = Value::from(secret);
            show(&format!("{shown:#}"))
        }
    }
}

async fn list(asking: &Asking, tenant: String) -> anyhow::Result<()> {
    let keys = Connection::open(asking).await?.access_keys(tenant).await?;
    match asking.output {
        Output::Table => {
            let mut table =
                Table::new(&["ACCESS KEY", "TENANT", "STATE", "SEALED BY", "DESCRIPTION"]);
            for key in keys {
                table.row([
                    key.key.clone(),
                    key.tenant.clone(),
                    state(&key).to_owned(),
                    format!("{:08x}", key.sealed_by),
                    key.description,
                ]);
            }
            show(&table.lines())
        }
        Output::Json => {
            let keys: Vec<Value> = keys.iter().map(json_of).collect();
            show(&format!("{:#}", Value::from(keys)))
        }
    }
}

async fn change(asking: &Asking, one: One, change: AccessKeyChange) -> anyhow::Result<()> {
    let mut connection = Connection::open(asking).await?;
    connection.change_access_key(one.key, change).await
}

fn state(key: &wire::AccessKey) -> &'static str {
    if key.active { "active" } else { "disabled" }
}

fn json_of(key: &wire::AccessKey) -> Value {
    json!({
        "access_key_id": key.key,
        "tenant": key.tenant,
        "state": state(key),
        "description": key.description,
        "created_at_ms": key.created_at_ms,
        "sealed_by": format!("{:08x}", key.sealed_by),
    })
}
