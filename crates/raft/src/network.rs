//! What a replica sends to the others of its group.
//!
//! Every request has a deadline: a peer that neither answers nor breaks the connection would
//! otherwise hold the group up.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{Stream, StreamExt};
use hikyaku_proto::node as wire;
use hikyaku_proto::node::peer_answer::Answer;
use hikyaku_proto::node::peer_request::Request as Content;
use hikyaku_proto::node::transfer_response::Result as TransferVerdict;
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RPCTypes};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError,
    StreamAppendResult, TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use openraft::storage::Snapshot;
use openraft::{AnyError, RaftNetworkFactory, RaftNetworkV2};
use tokio::time::Instant;

use crate::codec;
use crate::machine::GroupClock;
use crate::pipeline::Pipeline;
use crate::snapshot;
use crate::state_machine::SnapshotData;
use crate::transport::lane::{Lane, Lost, Waiting};
use crate::transport::sessions::{Session, Sessions};
use crate::types::{CommittedLeaderId, Placement, TypeConfig, Vote};

/// Makes the links of one group.
pub struct Links {
    pub group: u64,
    pub own_replica: u64,
    pub sessions: Sessions,
    pub snapshots: snapshot::Sender,
    pub clock: Arc<dyn GroupClock>,
    pub rpc_timeout: Duration,
}

impl RaftNetworkFactory<TypeConfig> for Links {
    type Network = Link;

    async fn new_client(&mut self, target: u64, placement: &Placement) -> Link {
        Link {
            group: self.group,
            own_replica: self.own_replica,
            target,
            node: placement.node,
            session: self.sessions.with(placement.node),
            snapshots: self.snapshots.clone(),
            clock: Arc::clone(&self.clock),
            rpc_timeout: self.rpc_timeout,
        }
    }
}

/// One replica's way to another replica of its group.
#[derive(Clone)]
pub struct Link {
    group: u64,
    pub own_replica: u64,
    pub target: u64,
    node: u64,
    pub session: Session,
    snapshots: snapshot::Sender,
    pub clock: Arc<dyn GroupClock>,
    /// Deadline of a request.
    pub rpc_timeout: Duration,
}

impl Link {
    /// Puts a request on a lane of this link's session.
    pub async fn send(&self, lane: &Lane, content: Content) -> Result<Waiting, Lost> {
        lane.send(self.group, self.target, content).await
    }

    /// A follower answered an append request.
    pub fn heard(&self, wall_clock_ms: u64, believed_time_ms: u64) {
        self.clock
            .heard_follower(self.node, wall_clock_ms, believed_time_ms);
    }

    /// One request over the control lane and its answer.
    async fn ask(
        &self,
        action: RPCTypes,
        option: &RPCOption,
        content: Content,
    ) -> Result<Answer, RPCError<TypeConfig>> {
        let deadline = Instant::now() + self.rpc_timeout.min(option.soft_ttl());
        let asking = async {
            self.send(&self.session.control, content)
                .await?
                .answer()
                .await
        };
        match tokio::time::timeout_at(deadline, asking).await {
            Ok(Ok(answered)) => Ok(answered.answer),
            Ok(Err(lost)) => Err(Unreachable::new(&lost).into()),
            Err(_) => Err(self.late(action)),
        }
    }

    async fn request_vote(
        &self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
        pre_vote: bool,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let content = Content::Vote(wire::VoteRequest {
            vote: Some(codec::vote_to_wire(&request.vote)),
            last: request.last_log_id.as_ref().map(codec::log_id_to_wire),
            leadership_transfer: request.leadership_transfer,
            pre_vote,
        });
        match self.ask(RPCTypes::Vote, &option, content).await? {
            Answer::Vote(answer) => Ok(VoteResponse::new(
                codec::vote_from_wire(answer.vote.unwrap_or_default()),
                answer.last.map(codec::log_id_from_wire),
                answer.granted,
            )),
            other => Err(self.not_answered(other).into()),
        }
    }

    /// What came in the place of an answer.
    pub fn not_answered(&self, answer: Answer) -> Unreachable<TypeConfig> {
        let what = match answer {
            Answer::Failure(failure) => failure.detail,
            Answer::Append(_) | Answer::Vote(_) | Answer::Transfer(_) => {
                "an answer to another question".to_owned()
            }
        };
        let text = format!("replica {:x} on node {:x}: {what}", self.target, self.node);
        Unreachable::new(&AnyError::error(text))
    }
}

type Appended = Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>;

impl RaftNetworkV2<TypeConfig> for Link {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let input = futures_util::stream::iter([request]);
        let mut answers = std::pin::pin!(Pipeline::new(self.clone(), input).answers());
        match answers.next().await {
            Some(answer) => Ok(match answer? {
                Ok(_) => AppendEntriesResponse::Success,
                Err(StreamAppendError::Conflict(_)) => AppendEntriesResponse::Conflict,
                Err(StreamAppendError::HigherVote(vote)) => AppendEntriesResponse::HigherVote(vote),
            }),
            None => Err(Unreachable::new(&AnyError::error("one request, no answer")).into()),
        }
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Appended>, RPCError<TypeConfig>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Send + Unpin + 'static,
    {
        let answers: BoxStream<'s, Appended> =
            Box::pin(Pipeline::new(self.clone(), input).answers());
        Box::pin(async move { Ok(answers) })
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
        let manifest = snapshot::manifest(self.group, self.target, &vote, &snapshot.meta);
        let send = self.snapshots.send(self.node, manifest, snapshot.snapshot);
        let send = async {
            match send.await {
                Ok(vote) => Ok(SnapshotResponse::new(codec::vote_from_wire(vote))),
                Err(error) => Err(StreamingError::Unreachable(Unreachable::new(&error))),
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
        let content = Content::Transfer(wire::TransferRequest {
            from_leader: Some(codec::vote_to_wire(request.from_leader())),
            to_replica: *request.to_node_id(),
            last: request.last_log_id().map(codec::log_id_to_wire),
        });
        match self.ask(RPCTypes::TransferLeader, &option, content).await? {
            Answer::Transfer(answer) => Ok(match answer.result {
                Some(TransferVerdict::Refused(_)) => Err(TransferLeaderError::VoteChanged {
                    expected: *request.from_leader(),
                    actual: *request.from_leader(),
                }),
                Some(TransferVerdict::Accepted(_)) | None => Ok(()),
            }),
            other => Err(self.not_answered(other).into()),
        }
    }
}
