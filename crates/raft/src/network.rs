//! What a replica sends to the others of its group.
//!
//! Every request has a deadline: a peer that neither answers nor breaks the connection would
//! otherwise hold the group up.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hikyaku_proto::node as wire;
use hikyaku_proto::node::raft_client::RaftClient;
use hikyaku_storage::Work;
use openraft::errors::{
    Infallible, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{RPCOption, RPCTypes};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::storage::Snapshot;
use openraft::{AnyError, RaftNetworkFactory, RaftNetworkV2};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::checkpoint;
use crate::codec;
use crate::machine::GroupClock;
use crate::net::Peers;
use crate::state_machine::SnapshotData;
use crate::types::{CommittedLeaderId, Placement, TypeConfig, Vote};

/// Largest message accepted from a peer: one entry (1 MiB of commands, or one command of ten large
/// messages) and what surrounds it.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Makes the links of one group.
pub struct Links {
    pub group: u64,
    pub own_replica: u64,
    pub peers: Peers,
    pub clock: Arc<dyn GroupClock>,
    pub rpc_timeout: Duration,
    pub snapshot_timeout: Duration,
    pub work: Work,
}

impl RaftNetworkFactory<TypeConfig> for Links {
    type Network = Link;

    async fn new_client(&mut self, target: u64, placement: &Placement) -> Link {
        Link {
            group: self.group,
            own_replica: self.own_replica,
            target,
            node: placement.node,
            peers: self.peers.clone(),
            clock: Arc::clone(&self.clock),
            rpc_timeout: self.rpc_timeout,
            snapshot_timeout: self.snapshot_timeout,
            work: self.work,
        }
    }
}

/// One replica's way to another replica of its group.
pub struct Link {
    group: u64,
    own_replica: u64,
    target: u64,
    node: u64,
    peers: Peers,
    clock: Arc<dyn GroupClock>,
    rpc_timeout: Duration,
    snapshot_timeout: Duration,
    work: Work,
}

impl Link {
    fn client(&self) -> Result<RaftClient<Channel>, Unreachable<TypeConfig>> {
        let channel = self.peers.channel(self.node).ok_or_else(|| {
            Unreachable::new(&AnyError::error(format!(
                "address of node {} unknown",
                self.node
            )))
        })?;
        Ok(RaftClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX))
    }

    async fn call<T>(
        &self,
        action: RPCTypes,
        option: &RPCOption,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, RPCError<TypeConfig, Infallible>> {
        let deadline = self.rpc_timeout.min(option.soft_ttl());
        match tokio::time::timeout(deadline, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(unreachable(&status).into()),
            Err(_) => Err(RPCError::Timeout(Timeout {
                action,
                id: self.own_replica,
                target: self.target,
                timeout: deadline,
            })),
        }
    }

    async fn request_vote(
        &self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
        pre_vote: bool,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let mut client = self.client()?;
        let request = wire::VoteRequest {
            group: self.group,
            target: self.target,
            vote: Some(codec::vote_to_wire(&request.vote)),
            last: request.last_log_id.as_ref().map(codec::log_id_to_wire),
            leadership_transfer: request.leadership_transfer,
            pre_vote,
        };
        let answer = self
            .call(RPCTypes::Vote, &option, client.vote(request))
            .await?;
        let vote = codec::vote_from_wire(answer.vote.unwrap_or_default());
        Ok(VoteResponse::new(
            vote,
            answer.last.map(codec::log_id_from_wire),
            answer.granted,
        ))
    }
}

fn unreachable(error: &(impl std::error::Error + 'static)) -> Unreachable<TypeConfig> {
    Unreachable::new(error)
}

impl RaftNetworkV2<TypeConfig> for Link {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let mut client = self.client()?;
        let request = wire::AppendRequest {
            group: self.group,
            target: self.target,
            vote: Some(codec::vote_to_wire(&request.vote)),
            prev: request.prev_log_id.as_ref().map(codec::log_id_to_wire),
            entries: request
                .entries
                .into_iter()
                .map(codec::entry_to_wire)
                .collect(),
            leader_commit: request.leader_commit.as_ref().map(codec::log_id_to_wire),
            leader_time_ms: self.clock.leader_time_ms(),
        };
        let answer = self
            .call(RPCTypes::AppendEntries, &option, client.append(request))
            .await?;
        self.clock
            .heard_follower(self.node, answer.wall_clock_ms, answer.believed_time_ms);
        use wire::append_response::Result as Answer;
        Ok(match answer.result {
            Some(Answer::Success(_)) => AppendEntriesResponse::Success,
            Some(Answer::Partial(partial)) => {
                AppendEntriesResponse::PartialSuccess(partial.matching.map(codec::log_id_from_wire))
            }
            Some(Answer::Conflict(_)) => AppendEntriesResponse::Conflict,
            Some(Answer::HigherVote(vote)) => {
                AppendEntriesResponse::HigherVote(codec::vote_from_wire(vote))
            }
            None => {
                let empty = AnyError::error("an append response without a result");
                return Err(unreachable(&empty).into());
            }
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.request_vote(request, option, false).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.request_vote(request, option, true).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<CommittedLeaderId, u64, Placement, SnapshotData>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let mut client = self.client()?;
        let chunks = checkpoint::chunks(self.group, self.target, &vote, snapshot, self.work);
        let send = async {
            let sent = client.install_snapshot(chunks);
            match tokio::time::timeout(self.snapshot_timeout, sent).await {
                Ok(Ok(answer)) => {
                    let vote = answer.into_inner().vote.unwrap_or_default();
                    Ok(SnapshotResponse::new(codec::vote_from_wire(vote)))
                }
                Ok(Err(status)) => Err(StreamingError::Unreachable(unreachable(&status))),
                Err(elapsed) => Err(StreamingError::Unreachable(unreachable(&elapsed))),
            }
        };
        match select(std::pin::pin!(send), std::pin::pin!(cancel)).await {
            Either::Left((result, _)) => result,
            Either::Right((closed, _)) => Err(StreamingError::Closed(closed)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let mut client = self.client()?;
        let wire_request = wire::TransferRequest {
            group: self.group,
            target: self.target,
            from_leader: Some(codec::vote_to_wire(request.from_leader())),
            to_replica: *request.to_node_id(),
            last: request.last_log_id().map(codec::log_id_to_wire),
        };
        let answer = self.call(
            RPCTypes::TransferLeader,
            &option,
            client.transfer_leader(wire_request),
        );
        use wire::transfer_response::Result as Answer;
        Ok(match answer.await?.result {
            Some(Answer::Refused(_)) => Err(TransferLeaderError::VoteChanged {
                expected: *request.from_leader(),
                actual: *request.from_leader(),
            }),
            Some(Answer::Accepted(_)) | None => Ok(()),
        })
    }
}
