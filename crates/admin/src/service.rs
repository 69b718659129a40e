//! What an operator may ask, one function each.

use std::sync::Arc;

use hikyaku_cluster::{ControlUnavailable, Node};
use hikyaku_metadata::{
    Command, Reply, SetNodeState, SetNodeStateError, SetReplication, SetReplicationError,
};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::admin_server::Admin;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::view;

/// Who answers an operator: this node, once it is part of a cluster.
pub struct Desk {
    node: watch::Receiver<Option<Arc<Node>>>,
}

impl Desk {
    /// Answers with the node that is there when it is asked.
    pub fn new(node: watch::Receiver<Option<Arc<Node>>>) -> Self {
        Self { node }
    }

    fn node(&self) -> Result<Arc<Node>, Status> {
        let node = self.node.borrow().clone();
        node.ok_or_else(|| Status::unavailable("this node is not part of a cluster yet"))
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
