//! What an operator may ask, one function each.

use std::sync::Arc;

use hikyaku_cluster::{ControlUnavailable, Founding, Node};
use hikyaku_metadata::{
    Command, Reply, SealingKeys, SetNodeState, SetNodeStateError, SetReplication,
    SetReplicationError,
};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::admin_server::Admin;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::{Request, Response, Status};

use crate::stop::StopOrder;
use crate::{tenancy, view};

/// How far this node is.
#[derive(Clone)]
pub enum Standing {
    /// It opens its volume.
    Starting,
    /// It waits to be founded.
    Waiting(Arc<Founding>),
    /// It is part of a cluster.
    Member(Arc<Node>),
}

/// Who answers an operator: this node, once it is part of a cluster.
pub struct Desk {
    standing: watch::Receiver<Standing>,
    /// What the node waits for until then.
    waits: watch::Receiver<String>,
    orders: mpsc::Sender<StopOrder>,
    /// What seals the secrets of access keys, if this node has it.
    sealing: Option<SealingKeys>,
}

impl Desk {
    /// Answers with the node that is there when it is asked; orders to stop go where `orders` lead.
    pub fn new(
        standing: watch::Receiver<Standing>,
        waits: watch::Receiver<String>,
        orders: mpsc::Sender<StopOrder>,
    ) -> Self {
        Self {
            standing,
            waits,
            orders,
            sealing: None,
        }
    }

    /// Seals the secrets of new access keys with these keys; without them it creates none.
    #[must_use]
    pub fn with_sealing_keys(mut self, sealing: Option<SealingKeys>) -> Self {
        self.sealing = sealing;
        self
    }

    fn node(&self) -> Result<Arc<Node>, Status> {
        match &*self.standing.borrow() {
            Standing::Member(node) => Ok(Arc::clone(node)),
            Standing::Starting | Standing::Waiting(_) => {
                let waits = self.waits.borrow();
                let text = format!("this node is not part of a cluster yet: {}", *waits);
                Err(Status::unavailable(text))
            }
        }
    }

    /// Runs a command wherever the metadata are led.
    async fn execute(&self, command: Command) -> Result<Reply, Status> {
        let executed = self.node()?.control().execute(command).await;
        match executed {
            Ok(executed) => Ok(executed.reply),
            // It may have had its effect; all of these may be given again.
            Err(error @ ControlUnavailable) => Err(Status::unavailable(error.to_string())),
        }
    }
}

#[tonic::async_trait]
impl Admin for Desk {
    async fn survey(
        &self,
        _: Request<wire::SurveyRequest>,
    ) -> Result<Response<wire::Survey>, Status> {
        let node = self.node()?;
        let survey = node.survey().await;
        let survey =
            survey.ok_or_else(|| Status::unavailable("this node knows of no cluster yet"))?;
        Ok(Response::new(view::survey(node.id(), &survey)))
    }

    async fn set_node_state(
        &self,
        request: Request<wire::SetNodeStateRequest>,
    ) -> Result<Response<wire::SetNodeStateResponse>, Status> {
        let wire::SetNodeStateRequest { node, state } = request.into_inner();
        let state = view::state_of(state);
        let state = state.ok_or_else(|| Status::invalid_argument("there is no such state"))?;
        let command = Command::SetNodeState(SetNodeState { node, state });
        let Reply::NodeStateSet(set) = self.execute(command).await? else {
            return Err(answered_otherwise());
        };
        let now = set.map_err(|error| state_refused(&error))?;
        let node = format_args!("{node:016x}");
        tracing::info!(node, wanted = %state, %now, "an operator set a node's state");
        Ok(Response::new(wire::SetNodeStateResponse {
            state: view::state(now).into(),
        }))
    }

    async fn set_replication(
        &self,
        request: Request<wire::SetReplicationRequest>,
    ) -> Result<Response<wire::SetReplicationResponse>, Status> {
        let wanted = request.into_inner().replication;
        let replication = u8::try_from(wanted);
        let replication = replication
            .map_err(|_| Status::invalid_argument(format!("{wanted} replicas are too many")))?;
        let command = Command::SetReplication(SetReplication { replication });
        let Reply::ReplicationSet(set) = self.execute(command).await? else {
            return Err(answered_otherwise());
        };
        set.map_err(|error| replication_refused(&error))?;
        tracing::info!(replication, "an operator set the replication");
        Ok(Response::new(wire::SetReplicationResponse {}))
    }

    async fn found(
        &self,
        _: Request<wire::FoundRequest>,
    ) -> Result<Response<wire::FoundResponse>, Status> {
        let standing = self.standing.borrow().clone();
        let founding = match standing {
            Standing::Waiting(founding) => founding,
            Standing::Starting => return Err(Status::unavailable("this node is starting")),
            Standing::Member(_) => {
                return Err(Status::failed_precondition(
                    "this node is part of a cluster already",
                ));
            }
        };
        // It syncs a small file; nobody else waits for this node.
        let founded = founding.found_alone();
        let founded = founded.map_err(|error| Status::internal(error.to_string()))?;
        let cluster = founded.map_err(|error| Status::failed_precondition(error.to_string()))?;
        let id = cluster.cluster_id;
        tracing::warn!(
            cluster = format_args!("{id:032x}"),
            "an operator founded a cluster by hand"
        );
        Ok(Response::new(wire::FoundResponse {
            cluster_id: id.to_be_bytes().to_vec().into(),
        }))
    }

    async fn stop(
        &self,
        request: Request<wire::StopRequest>,
    ) -> Result<Response<wire::StopReport>, Status> {
        let (report, reported) = oneshot::channel();
        let order = StopOrder::new(request.into_inner(), report)?;
        tracing::info!("an operator stops this node");
        let stopping = || Status::failed_precondition("this node is stopping already");
        self.orders.try_send(order).map_err(|_| stopping())?;
        // It is dropped when something else stopped the node at the same time.
        let report = reported.await.map_err(|_| stopping())?;
        Ok(Response::new(report.into()))
    }

    async fn create_tenant(
        &self,
        request: Request<wire::CreateTenantRequest>,
    ) -> Result<Response<wire::CreateTenantResponse>, Status> {
        let node = self.node()?;
        let created = tenancy::create_tenant(&node, request.into_inner());
        created.await.map(Response::new)
    }

    async fn list_tenants(
        &self,
        _: Request<wire::ListTenantsRequest>,
    ) -> Result<Response<wire::ListTenantsResponse>, Status> {
        let node = self.node()?;
        tenancy::list_tenants(&node).await.map(Response::new)
    }

    async fn set_tenant_state(
        &self,
        request: Request<wire::SetTenantStateRequest>,
    ) -> Result<Response<wire::SetTenantStateResponse>, Status> {
        let node = self.node()?;
        let set = tenancy::set_tenant_state(&node, request.into_inner());
        set.await.map(Response::new)
    }

    async fn create_access_key(
        &self,
        request: Request<wire::CreateAccessKeyRequest>,
    ) -> Result<Response<wire::CreateAccessKeyResponse>, Status> {
        let (node, sealing) = (self.node()?, self.sealing.as_ref());
        let created = tenancy::create_access_key(&node, sealing, request.into_inner());
        created.await.map(Response::new)
    }

    async fn list_access_keys(
        &self,
        request: Request<wire::ListAccessKeysRequest>,
    ) -> Result<Response<wire::ListAccessKeysResponse>, Status> {
        let node = self.node()?;
        let listed = tenancy::list_access_keys(&node, request.into_inner());
        listed.await.map(Response::new)
    }

    async fn change_access_key(
        &self,
        request: Request<wire::ChangeAccessKeyRequest>,
    ) -> Result<Response<wire::ChangeAccessKeyResponse>, Status> {
        let node = self.node()?;
        let changed = tenancy::change_access_key(&node, request.into_inner());
        changed.await.map(Response::new)
    }
}

fn state_refused(error: &SetNodeStateError) -> Status {
    let text = error.to_string();
    match error {
        SetNodeStateError::NoSuchNode(_) => Status::not_found(text),
        SetNodeStateError::Decommissioned(_) | SetNodeStateError::TooFewNodes { .. } => {
            Status::failed_precondition(text)
        }
    }
}

fn replication_refused(error: &SetReplicationError) -> Status {
    let text = error.to_string();
    match error {
        SetReplicationError::NotFounded => Status::unavailable(text),
        SetReplicationError::OutOfRange(_) => Status::invalid_argument(text),
    }
}

/// A broken belief, which an operator hears of rather than a panic.
fn answered_otherwise() -> Status {
    Status::internal("the metadata answered another question than was asked")
}
