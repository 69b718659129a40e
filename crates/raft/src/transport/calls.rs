//! Requests between nodes that are not Raft's: commands for a partition's leader, control-plane
//! commands, read barriers.
//!
//! The transport carries them; what they mean is the business of whoever implements [`NodeCalls`].

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hikyaku_proto::node as wire;
use hikyaku_proto::node::node_client::NodeClient;
use hikyaku_proto::node::node_server::{Node as NodeRpc, NodeServer};
use tonic::{Request, Response, Status};

use super::MESSAGE_BYTES_MAX;
use super::peers::{Introduced, Peers};

/// What a node does for other nodes. Failures are part of the responses: an answer always comes.
pub trait NodeCalls: Send + Sync + 'static {
    /// Runs a command on a partition this node leads.
    fn submit(&self, request: wire::SubmitRequest) -> BoxFuture<'_, wire::SubmitResponse>;

    /// Runs a receive that may wait.
    fn park(&self, request: wire::ParkRequest) -> BoxFuture<'_, wire::SubmitResponse>;

    /// Counts the messages of a queue's slice.
    fn queue_counts(&self, request: wire::CountsRequest) -> BoxFuture<'_, wire::CountsResponse>;

    /// Runs a control-plane command; this node should lead the metadata.
    fn control(&self, request: wire::ControlRequest) -> BoxFuture<'_, wire::ControlResponse>;

    /// Confirms what of the metadata is committed; this node should lead it.
    fn barrier(&self, request: wire::BarrierRequest) -> BoxFuture<'_, wire::BarrierResponse>;

    /// Tells what this node leads and what changed in the metadata, as soon as there is news.
    fn watch(&self, request: wire::WatchRequest) -> BoxFuture<'_, wire::WatchResponse>;

    /// Waits until all partitions of a queue obey a version of its descriptor; this node should lead
    /// the metadata.
    fn delivered(&self, request: wire::DeliveredRequest) -> BoxFuture<'_, wire::DeliveredResponse>;

    /// Reads the descriptor of a queue; this node should lead the metadata.
    fn describe(&self, request: wire::DescribeRequest) -> BoxFuture<'_, wire::DescribeResponse>;

    /// Gives a group that this node leads the voters it is to have.
    fn set_voters(&self, request: wire::SetVotersRequest)
    -> BoxFuture<'_, wire::SetVotersResponse>;

    /// Hands leadership of a group that this node leads to another node.
    fn transfer_leader(
        &self,
        request: wire::TransferLeaderRequest,
    ) -> BoxFuture<'_, wire::TransferLeaderResponse>;
}

/// A request to another node that was not answered. It may have had its effect.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The node's address is not known.
    #[error("the address of node {0:x} is not known")]
    Unknown(u64),
    /// No answer came in time.
    #[error("node {0:x} did not answer in time")]
    TimedOut(u64),
    /// The connection failed or the node refused.
    #[error("node {node:x}: {message}")]
    Failed {
        /// The node asked.
        node: u64,
        /// What the transport said.
        message: String,
    },
}

impl Peers {
    fn node_client(&self, node: u64) -> Result<NodeClient<Introduced>, PeerError> {
        let channel = self.channel(node).ok_or(PeerError::Unknown(node))?;
        Ok(NodeClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// Asks `node` to run a command.
    pub async fn submit(
        &self,
        node: u64,
        request: wire::SubmitRequest,
        limit: Duration,
    ) -> Result<wire::SubmitResponse, PeerError> {
        within(node, limit, self.node_client(node)?.submit(request)).await
    }

    /// Parks a receive at `node`.
    pub async fn park(
        &self,
        node: u64,
        request: wire::ParkRequest,
        limit: Duration,
    ) -> Result<wire::SubmitResponse, PeerError> {
        within(node, limit, self.node_client(node)?.park(request)).await
    }

    /// Asks `node` for a slice's counts.
    pub async fn queue_counts(
        &self,
        node: u64,
        request: wire::CountsRequest,
        limit: Duration,
    ) -> Result<wire::CountsResponse, PeerError> {
        within(node, limit, self.node_client(node)?.queue_counts(request)).await
    }

    /// Asks `node` to run a control-plane command.
    pub async fn control(
        &self,
        node: u64,
        request: wire::ControlRequest,
        limit: Duration,
    ) -> Result<wire::ControlResponse, PeerError> {
        within(node, limit, self.node_client(node)?.control(request)).await
    }

    /// Asks `node` what of the metadata is committed.
    pub async fn barrier(
        &self,
        node: u64,
        request: wire::BarrierRequest,
        limit: Duration,
    ) -> Result<wire::BarrierResponse, PeerError> {
        within(node, limit, self.node_client(node)?.barrier(request)).await
    }

    /// Asks `node` what it leads and what changed in the metadata.
    pub async fn watch(
        &self,
        node: u64,
        request: wire::WatchRequest,
        limit: Duration,
    ) -> Result<wire::WatchResponse, PeerError> {
        within(node, limit, self.node_client(node)?.watch(request)).await
    }

    /// Waits at `node` until a descriptor has reached its partitions.
    pub async fn delivered(
        &self,
        node: u64,
        request: wire::DeliveredRequest,
        limit: Duration,
    ) -> Result<wire::DeliveredResponse, PeerError> {
        within(node, limit, self.node_client(node)?.delivered(request)).await
    }

    /// Asks `node` for a descriptor.
    pub async fn describe(
        &self,
        node: u64,
        request: wire::DescribeRequest,
        limit: Duration,
    ) -> Result<wire::DescribeResponse, PeerError> {
        within(node, limit, self.node_client(node)?.describe(request)).await
    }

    /// Asks `node` to change the voters of a group that it leads.
    pub async fn set_voters(
        &self,
        node: u64,
        request: wire::SetVotersRequest,
        limit: Duration,
    ) -> Result<wire::SetVotersResponse, PeerError> {
        within(node, limit, self.node_client(node)?.set_voters(request)).await
    }

    /// Asks `node` to hand over the leadership of a group.
    pub async fn transfer_leader(
        &self,
        node: u64,
        request: wire::TransferLeaderRequest,
        limit: Duration,
    ) -> Result<wire::TransferLeaderResponse, PeerError> {
        within(
            node,
            limit,
            self.node_client(node)?.transfer_leader(request),
        )
        .await
    }
}

async fn within<T>(
    node: u64,
    limit: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, PeerError> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(PeerError::Failed {
            node,
            message: status.to_string(),
        }),
        Err(_) => Err(PeerError::TimedOut(node)),
    }
}

/// Who answers, once somebody does.
pub type Answerer = Arc<OnceLock<Arc<dyn NodeCalls>>>;

/// The gRPC face of a [`NodeCalls`].
pub struct NodeService {
    answerer: Answerer,
}

impl NodeService {
    pub fn server(answerer: Answerer) -> NodeServer<Self> {
        NodeServer::new(Self { answerer })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }

    fn calls(&self) -> Result<&Arc<dyn NodeCalls>, Status> {
        let starting = || Status::unavailable("this node takes no part yet");
        self.answerer.get().ok_or_else(starting)
    }
}

#[tonic::async_trait]
impl NodeRpc for NodeService {
    async fn submit(
        &self,
        request: Request<wire::SubmitRequest>,
    ) -> Result<Response<wire::SubmitResponse>, Status> {
        Ok(Response::new(
            self.calls()?.submit(request.into_inner()).await,
        ))
    }

    async fn park(
        &self,
        request: Request<wire::ParkRequest>,
    ) -> Result<Response<wire::SubmitResponse>, Status> {
        Ok(Response::new(
            self.calls()?.park(request.into_inner()).await,
        ))
    }

    async fn queue_counts(
        &self,
        request: Request<wire::CountsRequest>,
    ) -> Result<Response<wire::CountsResponse>, Status> {
        Ok(Response::new(
            self.calls()?.queue_counts(request.into_inner()).await,
        ))
    }

    async fn control(
        &self,
        request: Request<wire::ControlRequest>,
    ) -> Result<Response<wire::ControlResponse>, Status> {
        Ok(Response::new(
            self.calls()?.control(request.into_inner()).await,
        ))
    }

    async fn barrier(
        &self,
        request: Request<wire::BarrierRequest>,
    ) -> Result<Response<wire::BarrierResponse>, Status> {
        Ok(Response::new(
            self.calls()?.barrier(request.into_inner()).await,
        ))
    }

    async fn watch(
        &self,
        request: Request<wire::WatchRequest>,
    ) -> Result<Response<wire::WatchResponse>, Status> {
        Ok(Response::new(
            self.calls()?.watch(request.into_inner()).await,
        ))
    }

    async fn delivered(
        &self,
        request: Request<wire::DeliveredRequest>,
    ) -> Result<Response<wire::DeliveredResponse>, Status> {
        Ok(Response::new(
            self.calls()?.delivered(request.into_inner()).await,
        ))
    }

    async fn describe(
        &self,
        request: Request<wire::DescribeRequest>,
    ) -> Result<Response<wire::DescribeResponse>, Status> {
        Ok(Response::new(
            self.calls()?.describe(request.into_inner()).await,
        ))
    }

    async fn set_voters(
        &self,
        request: Request<wire::SetVotersRequest>,
    ) -> Result<Response<wire::SetVotersResponse>, Status> {
        Ok(Response::new(
            self.calls()?.set_voters(request.into_inner()).await,
        ))
    }

    async fn transfer_leader(
        &self,
        request: Request<wire::TransferLeaderRequest>,
    ) -> Result<Response<wire::TransferLeaderResponse>, Status> {
        Ok(Response::new(
            self.calls()?.transfer_leader(request.into_inner()).await,
        ))
    }
}
