//! The far end of a lane: requests of one peer to the replicas here, and their answers.
//!
//! Requests are put to their replica's core in the order in which they came, without waiting for the
//! answers of earlier ones; an answer goes back when it is there. So a slow replica delays nobody
//! but itself.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hikyaku_proto::node as wire;
use hikyaku_proto::node::failure::Reason;
use hikyaku_proto::node::peer_answer::Answer;
use hikyaku_proto::node::peer_request::Request as Content;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest,
};
use tokio::task::coop::unconstrained;
use tonic::{Status, Streaming};

use super::clocks::Clocks;
use crate::codec::{self, CodecError};
use crate::directory::{Directory, NoSuchReplica};
use crate::group::GroupCore;

/// Requests of one stream that may wait for their replicas; more are refused at once. A peer that
/// keeps to its own bounds never meets this one.
const UNDER_WAY_MAX: usize = 65_536;

/// Answers in one message.
const ANSWERS_AT_ONCE: usize = 512;

/// What the answering needs.
#[derive(Clone)]
pub struct Answering {
    pub directory: Directory,
    pub clocks: Clocks,
    /// How long a replica may take.
    pub patience: Duration,
}

impl Answering {
    /// The answers to a peer's requests. Ends with them, or with the connection.
    pub fn answers(
        self,
        requests: Streaming<wire::Requests>,
    ) -> impl Stream<Item = Result<wire::Answers, Status>> + Send + 'static {
        let conversation = Conversation {
            answering: self,
            requests,
            ended: false,
            under_way: FuturesUnordered::new(),
            ready: wire::Answers::default(),
        };
        futures_util::stream::unfold(conversation, |mut conversation| async move {
            let answers = conversation.next().await?;
            Some((answers, conversation))
        })
    }
}

struct Conversation {
    answering: Answering,
    requests: Streaming<wire::Requests>,
    ended: bool,
    under_way: FuturesUnordered<BoxFuture<'static, wire::PeerAnswer>>,
    ready: wire::Answers,
}

impl Conversation {
    async fn next(&mut self) -> Option<Result<wire::Answers, Status>> {
        while self.ready.answers.is_empty() && self.ready.probe == 0 {
            // Both branches take one thing out of a queue: losing one loses nothing.
            tokio::select! {
                requests = self.requests.message(), if !self.ended => match requests {
                    Ok(Some(requests)) => self.begin(requests),
                    Ok(None) => self.ended = true,
                    Err(status) => return Some(Err(status)),
                },
                Some(answer) = self.under_way.next() => self.ready.answers.push(answer),
                else => return None,
            }
        }
        while self.ready.answers.len() < ANSWERS_AT_ONCE
            && let Some(Some(answer)) = self.under_way.next().now_or_never()
        {
            self.ready.answers.push(answer);
        }
        let mut answers = std::mem::take(&mut self.ready);
        answers.wall_clock_ms = self.answering.clocks.wall_clock_ms();
        Some(Ok(answers))
    }

    fn begin(&mut self, requests: wire::Requests) {
        self.ready.probe = requests.probe;
        for request in requests.requests {
            let sequence = request.sequence;
            if self.under_way.len() >= UNDER_WAY_MAX {
                let crowded = failure(Reason::Crowded, "too many requests wait");
                self.ready.answers.push(answered(sequence, crowded));
                continue;
            }
            // This first look hands the request to its core, so that those of one replica keep their
            // order. It must not end early because this task has had its turn.
            let answer = unconstrained(answer(self.answering.clone(), request));
            let mut answer = Box::pin(answer);
            match Pin::new(&mut answer).now_or_never() {
                Some(answer) => self.ready.answers.push(answer),
                None => self.under_way.push(answer),
            }
        }
    }
}

fn answered(sequence: u64, answer: Answer) -> wire::PeerAnswer {
    let answer = Some(answer);
    wire::PeerAnswer { sequence, answer }
}

fn failure(reason: Reason, detail: impl Into<String>) -> Answer {
    Answer::Failure(wire::Failure {
        reason: reason.into(),
        detail: detail.into(),
    })
}

async fn answer(answering: Answering, request: wire::PeerRequest) -> wire::PeerAnswer {
    let sequence = request.sequence;
    let put = put(&answering.directory, request);
    let answer = match tokio::time::timeout(answering.patience, put).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(refusal)) => refusal.into(),
        Err(_) => failure(Reason::Slow, "the replica did not answer in time"),
    };
    answered(sequence, answer)
}

/// Why a replica gave no answer.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    NoSuchReplica(#[from] NoSuchReplica),
    #[error("the replica does not run: {0}")]
    Stopped(String),
    #[error(transparent)]
    Malformed(#[from] CodecError),
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let reason = match &refusal {
            Refusal::NoSuchReplica(_) => Reason::NoSuchReplica,
            Refusal::Stopped(_) => Reason::Stopped,
            Refusal::Malformed(_) => Reason::Malformed,
        };
        failure(reason, refusal.to_string())
    }
}

fn stopped(error: impl std::fmt::Display) -> Refusal {
    Refusal::Stopped(error.to_string())
}

fn required<T>(field: Option<T>, name: &'static str) -> Result<T, CodecError> {
    field.ok_or(CodecError::Missing(name))
}

async fn put(directory: &Directory, request: wire::PeerRequest) -> Result<Answer, Refusal> {
    let core = directory.get(request.group, request.target)?;
    match required(request.request, "a request's content")? {
        Content::Append(append) => Ok(Answer::Append(put_append(&core, append).await?)),
        Content::Vote(vote) => Ok(Answer::Vote(put_vote(&core, vote).await?)),
        Content::Transfer(transfer) => Ok(Answer::Transfer(put_transfer(&core, transfer).await?)),
    }
}

async fn put_append(
    core: &GroupCore,
    append: wire::Append,
) -> Result<wire::AppendResponse, Refusal> {
    let leader_time_ms = append.leader_time_ms;
    let entries = append.entries.into_iter().map(codec::entry_from_wire);
    let append = AppendEntriesRequest {
        vote: codec::vote_from_wire(required(append.vote, "the leader's vote")?),
        prev_log_id: append.prev.map(codec::log_id_from_wire),
        entries: entries.collect::<Result<Vec<_>, _>>()?,
        leader_commit: append.leader_commit.map(codec::log_id_from_wire),
    };
    let answer = core.raft().append_entries(append).await.map_err(stopped)?;
    use wire::append_response::Result as Verdict;
    let result = match answer {
        AppendEntriesResponse::Success | AppendEntriesResponse::PartialSuccess(_) => {
            // A leader that was deposed meanwhile has no T to tell.
            if leader_time_ms > 0 {
                core.clock.heard_leader_time(leader_time_ms);
            }
            Verdict::Success(wire::Accepted {})
        }
        AppendEntriesResponse::Conflict => Verdict::Conflict(wire::Accepted {}),
        AppendEntriesResponse::HigherVote(vote) => Verdict::HigherVote(codec::vote_to_wire(&vote)),
    };
    Ok(wire::AppendResponse {
        result: Some(result),
        believed_time_ms: core.clock.believed_time_ms(),
    })
}

async fn put_vote(
    core: &GroupCore,
    request: wire::VoteRequest,
) -> Result<wire::VoteResponse, Refusal> {
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
    Ok(wire::VoteResponse {
        vote: Some(codec::vote_to_wire(&answer.vote)),
        granted: answer.vote_granted,
        last: answer.last_log_id.as_ref().map(codec::log_id_to_wire),
    })
}

async fn put_transfer(
    core: &GroupCore,
    request: wire::TransferRequest,
) -> Result<wire::TransferResponse, Refusal> {
    let transfer = TransferLeaderRequest::new(
        codec::vote_from_wire(required(request.from_leader, "the leader's vote")?),
        request.to_replica,
        request.last.map(codec::log_id_from_wire),
    );
    use wire::transfer_response::Result as Verdict;
    let answer = core.raft().handle_transfer_leader(transfer).await;
    let result = match answer.map_err(stopped)? {
        Ok(()) => Verdict::Accepted(wire::Accepted {}),
        Err(refusal) => Verdict::Refused(refusal.to_string()),
    };
    Ok(wire::TransferResponse {
        result: Some(result),
    })
}
