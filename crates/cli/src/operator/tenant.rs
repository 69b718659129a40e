//! `hikyaku tenant`: the owners of queues and access keys.

use super::connection::Connection;
use super::table::Table;
use super::{Asking, Output, block_on, note, show};
use anyhow::bail;
use clap::{Args, Subcommand};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::TenantState;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub struct Tenant {
    #[command(flatten)]
    asking: Asking,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a tenant, or show the one that has the name.
    Create {
        /// What it is called: a letter, then lower-case letters, digits and hyphens.
        name: String,

        /// Its id, twelve digits that no tenant ever had; without, one is drawn.
        #[arg(long, value_name = "DIGITS")]
        id: Option<String>,
    },
    /// List the tenants.
    List {
        /// Deleted ones too.
        #[arg(long)]
        all: bool,
    },
    /// Refuse whatever a tenant asks for; its queues and keys stay.
    Suspend(One),
    /// Let a suspended tenant go on.
    Resume(One),
    /// Delete a tenant for ever, with its access keys and all its queues.
    Delete {
        #[command(flatten)]
        one: One,

        /// Yes, with everything that is in its queues.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct One {
    /// Its id or its name.
    tenant: String,
}

impl Tenant {
    pub fn run(self) -> anyhow::Result<()> {
        let asking = &self.asking;
        match self.command {
            Command::Create { name, id } => block_on(create(asking, name, id)),
            Command::List { all } => block_on(list(asking, all)),
            Command::Suspend(one) => block_on(set(asking, one, TenantState::Suspended)),
            Command::Resume(one) => block_on(set(asking, one, TenantState::Active)),
            Command::Delete { one, yes } => block_on(delete(asking, one, yes)),
        }
    }
}

async fn create(asking: &Asking, name: String, id: Option<String>) -> anyhow::Result<()> {
    let request = wire::CreateTenantRequest {
        name,
        tenant: id.unwrap_or_default(),
    };
    let (tenant, existed) = Connection::open(asking)
        .await?
        .create_tenant(request)
        .await?;
    if existed {
        note("it was there before");
    }
    show_one(asking, &tenant)
}

async fn list(asking: &Asking, all: bool) -> anyhow::Result<()> {
    let mut tenants = Connection::open(asking).await?.tenants().await?;
    tenants.retain(|it| all || it.state() != TenantState::Deleted);
    match asking.output {
        Output::Table => show(&table(&tenants)),
        Output::Json => {
            let tenants: Vec<Value> = tenants.iter().map(json_of).collect();
            show(&format!("{:#}", Value::from(tenants)))
        }
    }
}

async fn set(asking: &Asking, one: One, state: TenantState) -> anyhow::Result<()> {
    let mut connection = Connection::open(asking).await?;
    let tenant = connection.set_tenant_state(one.tenant, state).await?;
    show_one(asking, &tenant)
}

async fn delete(asking: &Asking, one: One, yes: bool) -> anyhow::Result<()> {
    if !yes {
        bail!(
            "tenant {:?} goes for ever, with all its queues and keys: give --yes",
            one.tenant
        );
    }
    let mut connection = Connection::open(asking).await?;
    let tenant = connection.set_tenant_state(one.tenant, TenantState::Deleted);
    let tenant = tenant.await?;
    if tenant.state() == TenantState::Deleting {
        note("its keys are dead; its queues are being dropped");
    }
    show_one(asking, &tenant)
}

fn show_one(asking: &Asking, tenant: &wire::Tenant) -> anyhow::Result<()> {
    match asking.output {
        Output::Table => show(&table(std::slice::from_ref(tenant))),
        Output::Json => show(&format!("{:#}", json_of(tenant))),
    }
}

fn table(tenants: &[wire::Tenant]) -> String {
    let mut table = Table::new(&["TENANT", "NAME", "STATE", "QUEUES", "KEYS"]);
    for tenant in tenants {
        table.row([
            tenant.tenant.clone(),
            tenant.name.clone(),
            state(tenant.state()).to_owned(),
            tenant.queues.to_string(),
            tenant.keys.to_string(),
        ]);
    }
    table.lines()
}

fn json_of(tenant: &wire::Tenant) -> Value {
    let created = (tenant.created_at_ms > 0).then_some(tenant.created_at_ms);
    json!({
        "tenant": tenant.tenant,
        "name": tenant.name,
        "state": state(tenant.state()),
        "created_at_ms": created,
        "queues": tenant.queues,
        "keys": tenant.keys,
    })
}

fn state(state: TenantState) -> &'static str {
    match state {
        TenantState::Unspecified => "unknown",
        TenantState::Active => "active",
        TenantState::Suspended => "suspended",
        TenantState::Deleting => "deleting",
        TenantState::Deleted => "deleted",
    }
}
