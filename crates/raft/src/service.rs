//! What a node answers to the replicas of other nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use hikyaku_proto::node as wire;
use hikyaku_proto::node::raft_server::{Raft as RaftRpc, RaftServer};
use hikyaku_proto::node::snapshot_chunk::Part;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest,
};
use openraft::storage::Snapshot;
use tonic::{Request, Response, Status, Streaming};

use crate::checkpoint;
use crate::codec::{self, CodecError};
use crate::group::GroupCore;
use crate::network::MESSAGE_BYTES_MAX;
use crate::types::SnapshotMeta;

/// The groups of this node by id.
#[derive(Clone, Default)]
pub struct Directory(Arc<RwLock<BTreeMap<u64, Arc<GroupCore>>>>);

impl Directory {
    pub fn insert(&self, group: Arc<GroupCore>) {
        self.0
            .write()
            .expect("no panic happens under this lock")
            .insert(group.id, group);
    }

    pub fn all(&self) -> Vec<Arc<GroupCore>> {
        self.0
            .read()
            .expect("no panic happens under this lock")
            .values()
            .cloned()
            .collect()
    }

    fn get(&self, group: u64, target: u64) -> Result<Arc<GroupCore>, Status> {
        let groups = self.0.read().expect("no panic happens under this lock");
        let core = groups
            .get(&group)
            .ok_or_else(|| Status::not_found("no such group here"))?;
        if core.replica != target {
            return Err(Status::not_found("the group has another replica id here"));
        }
        Ok(Arc::clone(core))
    }
}

/// The gRPC service of all groups of this node.
#[derive(Clone)]
pub struct RaftService {
    directory: Directory,
}

impl RaftService {
    pub fn server(directory: Directory) -> RaftServer<Self> {
        RaftServer::new(Self { directory })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }
}

fn malformed(error: CodecError) -> Status {
    Status::invalid_argument(error.to_string())
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

fn required<T>(field: Option<T>, name: &'static str) -> Result<T, Status> {
    field.ok_or_else(|| malformed(CodecError::Missing(name)))
}

#[tonic::async_trait]
impl RaftRpc for RaftService {
    async fn append(
        &self,
        request: Request<wire::AppendRequest>,
    ) -> Result<Response<wire::AppendResponse>, Status> {
        let request = request.into_inner();
        let core = self.directory.get(request.group, request.target)?;
        let leader_time_ms = request.leader_time_ms;
        let entries = request
            .entries
            .into_iter()
            .map(codec::entry_from_wire)
            .collect::<Result<Vec<_>, _>>()
            .map_err(malformed)?;
        let append = AppendEntriesRequest {
            vote: codec::vote_from_wire(required(request.vote, "the leader's vote")?),
            prev_log_id: request.prev.map(codec::log_id_from_wire),
            entries,
            leader_commit: request.leader_commit.map(codec::log_id_from_wire),
        };
        let answer = core.raft().append_entries(append).await.map_err(stopped)?;
        // A leader that was deposed meanwhile has no T to tell.
        let accepted = matches!(
            answer,
            AppendEntriesResponse::Success | AppendEntriesResponse::PartialSuccess(_)
        );
        if accepted && leader_time_ms > 0 {
            core.clock.heard_leader_time(leader_time_ms);
        }
        use wire::append_response::Result as Answer;
        let result = match answer {
            AppendEntriesResponse::Success => Answer::Success(wire::Accepted {}),
            AppendEntriesResponse::PartialSuccess(matching) => {
                let matching = matching.as_ref().map(codec::log_id_to_wire);
                Answer::Partial(wire::PartialSuccess { matching })
            }
            AppendEntriesResponse::Conflict => Answer::Conflict(wire::Accepted {}),
            AppendEntriesResponse::HigherVote(vote) => {
                Answer::HigherVote(codec::vote_to_wire(&vote))
            }
        };
        let wall_clock_ms = core.clock.wall_clock_ms();
        let believed_time_ms = core.clock.believed_time_ms();
        Ok(Response::new(wire::AppendResponse {
            result: Some(result),
            wall_clock_ms,
            believed_time_ms,
        }))
    }

    async fn vote(
        &self,
        request: Request<wire::VoteRequest>,
    ) -> Result<Response<wire::VoteResponse>, Status> {
        let request = request.into_inner();
        let core = self.directory.get(request.group, request.target)?;
        let vote = VoteRequest {
            vote: codec::vote_from_wire(required(request.vote, "the candidate's vote")?),
            last_log_id: request.last.map(codec::log_id_from_wire),
            leadership_transfer: request.leadership_transfer,
        };
        let raft = core.raft();
        let answer = if request.pre_vote {
            raft.pre_vote(vote).await
        } else {
            raft.vote(vote).await
        }
        .map_err(stopped)?;
        Ok(Response::new(wire::VoteResponse {
            vote: Some(codec::vote_to_wire(&answer.vote)),
            granted: answer.vote_granted,
            last: answer.last_log_id.as_ref().map(codec::log_id_to_wire),
        }))
    }

    async fn transfer_leader(
        &self,
        request: Request<wire::TransferRequest>,
    ) -> Result<Response<wire::TransferResponse>, Status> {
        let request = request.into_inner();
        let core = self.directory.get(request.group, request.target)?;
        let transfer = TransferLeaderRequest::new(
            codec::vote_from_wire(required(request.from_leader, "the leader's vote")?),
            request.to_replica,
            request.last.map(codec::log_id_from_wire),
        );
        use wire::transfer_response::Result as Answer;
        let result = match core
            .raft()
            .handle_transfer_leader(transfer)
            .await
            .map_err(stopped)?
        {
            Ok(()) => Answer::Accepted(wire::Accepted {}),
            Err(refusal) => Answer::Refused(refusal.to_string()),
        };
        Ok(Response::new(wire::TransferResponse {
            result: Some(result),
        }))
    }

    async fn install_snapshot(
        &self,
        request: Request<Streaming<wire::SnapshotChunk>>,
    ) -> Result<Response<wire::SnapshotResponse>, Status> {
        let mut chunks = request.into_inner();
        let first = chunks.message().await?.and_then(|chunk| chunk.part);
        let Some(Part::Manifest(manifest)) = first else {
            return Err(Status::invalid_argument(
                "a snapshot starts with its manifest",
            ));
        };
        let core = self.directory.get(manifest.group, manifest.target)?;
        let vote = codec::vote_from_wire(required(manifest.vote, "the leader's vote")?);
        let membership = required(manifest.membership.clone(), "the membership")?;
        let meta = SnapshotMeta {
            last_log_id: manifest.last.map(codec::log_id_from_wire),
            last_membership: codec::stored_membership_from_wire(membership).map_err(malformed)?,
        };
        let data = checkpoint::receive(&manifest, chunks, core.log.clone(), core.work).await?;
        let snapshot = Snapshot {
            meta,
            snapshot: data,
        };
        let answer = core
            .raft()
            .install_full_snapshot(vote, snapshot)
            .await
            .map_err(stopped)?;
        Ok(Response::new(wire::SnapshotResponse {
            vote: Some(codec::vote_to_wire(&answer.vote)),
        }))
    }
}
