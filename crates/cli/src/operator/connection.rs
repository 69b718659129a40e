//! The way to a node's operator's port.

use super::{Asking, names};
use anyhow::{Context, Error, anyhow, bail};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::admin_client::AdminClient;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use zeroize::Zeroizing;

/// How long a node may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long it may take to answer: as long as an orderly stop may take, and a little more.
const ANSWER_LIMIT: Duration = Duration::from_secs(110);

/// What is said of an answer that lacks what it should tell.
const UNTOLD: &str = "the node did not say what came of it";

/// A node that answers.
pub struct Connection {
    client: AdminClient<InterceptedService<Channel, Bearer>>,
}

/// Presents the token with each request.
#[derive(Clone)]
struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        Ok(request)
    }
}

impl Connection {
    /// Connects to the first of the addresses that accepts.
    pub async fn open(asking: &Asking) -> anyhow::Result<Self> {
        let token = Bearer(asking.token_file.as_deref().map(token).transpose()?);
        let tls = asking.ca_file.as_deref().map(tls).transpose()?;
        let mut failures = Vec::new();
        for address in &asking.admin {
            match connect(address, tls.clone()).await {
                Ok(channel) => {
                    let client = AdminClient::with_interceptor(channel, token);
                    return Ok(Self { client });
                }
                Err(error) => failures.push(format!("cannot reach {address}: {error:#}")),
            }
        }
        bail!(
            "{}; --admin names the operator's port of a node, which its admin.listen opens",
            failures.join("; ")
        )
    }

    /// The cluster as the node sees it.
    pub async fn survey(&mut self) -> anyhow::Result<wire::Survey> {
        let answer = self.client.survey(wire::SurveyRequest {}).await;
        Ok(answer.map_err(told)?.into_inner())
    }

    /// Sets what is wanted of a node; gives the state that it has now.
    pub async fn set_node_state(
        &mut self,
        node: u64,
        state: wire::NodeState,
    ) -> anyhow::Result<wire::NodeState> {
        let state = state.into();
        let request = wire::SetNodeStateRequest { node, state };
        let answer = self.client.set_node_state(request).await.map_err(told)?;
        Ok(answer.into_inner().state())
    }

    /// Stops the node, within a limit in ms; 0 leaves that to its configuration.
    pub async fn stop(&mut self, timeout_ms: u64) -> anyhow::Result<wire::StopReport> {
        let request = wire::StopRequest { timeout_ms };
        let answer = self.client.stop(request).await.map_err(told)?;
        Ok(answer.into_inner())
    }

    /// Founds a cluster of the node alone; gives the cluster's id.
    pub async fn found(&mut self) -> anyhow::Result<String> {
        let answer = self.client.found(wire::FoundRequest {}).await;
        let answer = answer.map_err(told)?.into_inner();
        Ok(names::cluster_id(&answer.cluster_id))
    }

    /// Sets how many replicas each group is to have.
    pub async fn set_replication(&mut self, replication: u32) -> anyhow::Result<()> {
        let request = wire::SetReplicationRequest { replication };
        self.client.set_replication(request).await.map_err(told)?;
        Ok(())
    }

    /// Creates a tenant, or finds it; tells whether it was there before.
    pub async fn create_tenant(
        &mut self,
        request: wire::CreateTenantRequest,
    ) -> anyhow::Result<(wire::Tenant, bool)> {
        let answer = self.client.create_tenant(request).await.map_err(told)?;
        let answer = answer.into_inner();
        Ok((answer.tenant.context(UNTOLD)?, answer.existed))
    }

    /// The tenants, deleted ones included.
    pub async fn tenants(&mut self) -> anyhow::Result<Vec<wire::Tenant>> {
        let answer = self.client.list_tenants(wire::ListTenantsRequest {}).await;
        Ok(answer.map_err(told)?.into_inner().tenants)
    }

    /// Sets what is wanted of a tenant; gives it as it is then.
    pub async fn set_tenant_state(
        &mut self,
        tenant: String,
        state: wire::TenantState,
    ) -> anyhow::Result<wire::Tenant> {
        let state = state.into();
        let request = wire::SetTenantStateRequest { tenant, state };
        let answer = self.client.set_tenant_state(request).await.map_err(told)?;
        answer.into_inner().tenant.context(UNTOLD)
    }

    /// Creates an access key; gives it with its secret.
    pub async fn create_access_key(
        &mut self,
        request: wire::CreateAccessKeyRequest,
    ) -> anyhow::Result<(wire::AccessKey, String)> {
        let answer = self.client.create_access_key(request).await.map_err(told)?;
        let answer = answer.into_inner();
        Ok((answer.key.context(UNTOLD)?, answer.secret))
    }

    /// The access keys of a tenant, or of all when it is empty.
    pub async fn access_keys(&mut self, tenant: String) -> anyhow::Result<Vec<wire::AccessKey>> {
        let request = wire::ListAccessKeysRequest { tenant };
        let answer = self.client.list_access_keys(request).await.map_err(told)?;
        Ok(answer.into_inner().keys)
    }

    /// Enables, disables or deletes an access key.
    pub async fn change_access_key(
        &mut self,
        key: String,
        change: wire::AccessKeyChange,
    ) -> anyhow::Result<()> {
        let change = change.into();
        let request = wire::ChangeAccessKeyRequest { key, change };
        self.client.change_access_key(request).await.map_err(told)?;
        Ok(())
    }
}

async fn connect(address: &str, tls: Option<ClientTlsConfig>) -> anyhow::Result<Channel> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
        .map_err(|_| anyhow!("it is not HOST:PORT"))?
        .connect_timeout(CONNECT_LIMIT)
        .timeout(ANSWER_LIMIT);
    if let Some(tls) = tls {
        endpoint = endpoint.tls_config(tls)?;
    }
    endpoint.connect().await.map_err(root_cause)
}

/// The transport's own errors only say that they are errors of the transport.
fn root_cause(error: tonic::transport::Error) -> Error {
    let error = Error::new(error);
    anyhow!("{}", error.root_cause())
}

fn token(path: &Path) -> anyhow::Result<MetadataValue<Ascii>> {
    let read = || format!("cannot read the operator's token from {}", path.display());
    let text = Zeroizing::new(fs::read_to_string(path).with_context(read)?);
    let head = Zeroizing::new(format!("Bearer {}", text.trim_end_matches(['\r', '\n'])));
    let value = MetadataValue::try_from(head.as_str());
    let mut value = value.map_err(|_| anyhow!("{} holds more than a token", path.display()))?;
    value.set_sensitive(true);
    Ok(value)
}

fn tls(path: &Path) -> anyhow::Result<ClientTlsConfig> {
    let read = || format!("cannot read authorities from {}", path.display());
    let authorities = fs::read(path).with_context(read)?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities)))
}

/// What a node said instead of an answer, for people.
fn told(status: Status) -> Error {
    let message = status.message();
    match status.code() {
        Code::Unauthenticated => anyhow!("{message}; give its file with --token-file"),
        Code::NotFound | Code::FailedPrecondition | Code::InvalidArgument => anyhow!("{message}"),
        Code::Unimplemented => anyhow!("the node is of a version that does not know this command"),
        Code::Unavailable if !message.is_empty() => anyhow!("{message}; try again"),
        code => anyhow!("the node did not answer: {code}: {message}"),
    }
}
