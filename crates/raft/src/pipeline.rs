//! Replication of one group to one peer: many append requests under way at once, answered in order.
//!
//! openraft pulls answers; each pull also takes what the log has to send, as long as there is room
//! for it: [`GROUP_BYTES`] of this group, and bytes of the peer's shared budget. One request always
//! fits, however large.
//!
//! A first request without entries is a heartbeat, or a probe that ends there. It goes over the
//! control lane, where those of all groups travel together; its answer is awaited before anything
//! else is sent, so order is kept.

use std::collections::VecDeque;

use futures_util::Stream;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use hikyaku_proto::node as wire;
use hikyaku_proto::node::append_response::Result as Verdict;
use hikyaku_proto::node::peer_answer::Answer;
use hikyaku_proto::node::peer_request::Request as Content;
use openraft::AnyError;
use openraft::errors::{RPCError, Timeout, Unreachable};
use openraft::network::RPCTypes;
use openraft::raft::{AppendEntriesRequest, StreamAppendError, StreamAppendResult};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::codec;
use crate::network::Link;
use crate::transport::lane::{Answered, Lost, Waiting};
use crate::transport::sessions::PEER_BYTES;
use crate::types::{LogId, TypeConfig};

/// Entries of one group on their way to one peer and not answered, bytes: a slow replica keeps no
/// more than this of the peer's budget.
pub const GROUP_BYTES: usize = 4 << 20;

/// Requests of one group under way to one peer.
const GROUP_REQUESTS: usize = 64;

/// What an entry costs beside its head and bodies, about.
const ENTRY_OVERHEAD: usize = 64;

/// An append request that was sent.
struct UnderWay {
    prev: Option<LogId>,
    last: Option<LogId>,
    deadline: Instant,
    bytes: usize,
    waiting: Waiting,
    /// Given back with the answer, or when nobody waits for it any more.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Or why it was not.
type Sent = Result<UnderWay, RPCError<TypeConfig>>;

/// One session of replication, from openraft's first request to its last.
pub struct Pipeline<S> {
    link: Link,
    input: S,
    ended: bool,
    /// A request that waits for room; the next one is not taken before it has some.
    entering: Option<BoxFuture<'static, Sent>>,
    under_way: VecDeque<UnderWay>,
    bytes: usize,
    started: bool,
}

impl<S> Pipeline<S>
where
    S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Unpin + Send + 'static,
{
    pub fn new(link: Link, input: S) -> Self {
        Self {
            link,
            input,
            ended: false,
            entering: None,
            under_way: VecDeque::new(),
            bytes: 0,
            started: false,
        }
    }

    /// The answers, in the order of the requests. Ends with the input, or after the first answer that
    /// is not a success.
    pub fn answers(
        self,
    ) -> impl Stream<Item = Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>> + Send
    {
        futures_util::stream::unfold(Some(self), |state| async move {
            let mut pipeline = state?;
            let answer = pipeline.next().await?;
            let goes_on = matches!(answer, Ok(Ok(_)));
            Some((answer, goes_on.then_some(pipeline)))
        })
    }

    async fn next(
        &mut self,
    ) -> Option<Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>> {
        loop {
            let room = self.bytes < GROUP_BYTES && self.under_way.len() < GROUP_REQUESTS;
            // The request over the control lane is answered before the next one is taken.
            let alone = !self.started && !self.under_way.is_empty();
            let takes = room && !alone && !self.ended && self.entering.is_none();
            // No branch holds what is lost with it: the answer, the request and the input stay here.
            tokio::select! {
                biased;
                answer = answer_of(self.under_way.front_mut()), if !self.under_way.is_empty() => {
                    let sent = self.under_way.pop_front().expect("the one that was answered");
                    self.bytes -= sent.bytes;
                    self.started = true;
                    return Some(self.judge(sent, answer));
                }
                sent = entered(&mut self.entering), if self.entering.is_some() => {
                    self.entering = None;
                    match sent {
                        Ok(sent) => {
                            self.bytes += sent.bytes;
                            self.under_way.push_back(sent);
                        }
                        Err(error) => return Some(Err(error)),
                    }
                }
                request = self.input.next(), if takes => match request {
                    Some(request) => self.enter(request),
                    None => self.ended = true,
                },
                else => return None,
            }
        }
    }

    fn enter(&mut self, request: AppendEntriesRequest<TypeConfig>) {
        let first = !self.started && self.under_way.is_empty();
        let control = first && request.entries.is_empty();
        // From the first request with entries on, requests need not wait for each other.
        self.started |= !control;
        self.entering = Some(Box::pin(self.link.clone().send_append(request, control)));
    }

    fn judge(
        &self,
        sent: UnderWay,
        answer: Result<Answered, NoAnswer>,
    ) -> Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>> {
        let answered = match answer {
            Ok(answered) => answered,
            Err(NoAnswer::Late) => return Err(self.link.late(RPCTypes::AppendEntries)),
            Err(NoAnswer::Lost(lost)) => return Err(Unreachable::new(&lost).into()),
        };
        let Answer::Append(response) = answered.answer else {
            return Err(self.link.not_answered(answered.answer).into());
        };
        self.link
            .heard(answered.wall_clock_ms, response.believed_time_ms);
        Ok(match response.result {
            Some(Verdict::Success(_)) => Ok(sent.last),
            Some(Verdict::Conflict(_)) => match sent.prev {
                Some(prev) => Err(StreamAppendError::Conflict(prev)),
                None => return Err(malformed("a conflict before the first entry")),
            },
            Some(Verdict::HigherVote(vote)) => {
                Err(StreamAppendError::HigherVote(codec::vote_from_wire(vote)))
            }
            None => return Err(malformed("an append answer without a result")),
        })
    }
}

enum NoAnswer {
    Late,
    Lost(Lost),
}

async fn answer_of(sent: Option<&mut UnderWay>) -> Result<Answered, NoAnswer> {
    let sent = sent.expect("polled only while a request is under way");
    match tokio::time::timeout_at(sent.deadline, sent.waiting.answer()).await {
        Ok(answer) => answer.map_err(NoAnswer::Lost),
        Err(_) => Err(NoAnswer::Late),
    }
}

async fn entered(entering: &mut Option<BoxFuture<'static, Sent>>) -> Sent {
    let entering = entering.as_mut();
    entering.expect("polled only while a request enters").await
}

fn malformed(what: &'static str) -> RPCError<TypeConfig> {
    Unreachable::new(&AnyError::error(what)).into()
}

impl Link {
    /// Waits for room and hands the request to its lane.
    async fn send_append(self, request: AppendEntriesRequest<TypeConfig>, control: bool) -> Sent {
        let deadline = Instant::now() + self.rpc_timeout;
        let bytes: usize = request.entries.iter().map(cost).sum();
        let prev = request.prev_log_id;
        let last = request
            .entries
            .last()
            .map_or(prev, |entry| Some(entry.log_id));
        let session = self.session.clone();
        let sending = async {
            let permit = if bytes == 0 {
                None
            } else {
                let share = bytes.min(PEER_BYTES);
                let share = u32::try_from(share).expect("the budget fits");
                let room = session.append_bytes.clone().acquire_many_owned(share).await;
                Some(room.expect("the budget is never closed"))
            };
            let content = Content::Append(self.append_to_wire(request));
            let lane = if control {
                &session.control
            } else {
                &session.append
            };
            let waiting = self.send(lane, content).await;
            waiting.map(|waiting| (waiting, permit))
        };
        match tokio::time::timeout_at(deadline, sending).await {
            Ok(Ok((waiting, permit))) => Ok(UnderWay {
                prev,
                last,
                deadline,
                bytes,
                waiting,
                _permit: permit,
            }),
            Ok(Err(lost)) => Err(Unreachable::new(&lost).into()),
            Err(_) => Err(self.late(RPCTypes::AppendEntries)),
        }
    }

    fn append_to_wire(&self, request: AppendEntriesRequest<TypeConfig>) -> wire::Append {
        wire::Append {
            vote: Some(codec::vote_to_wire(&request.vote)),
            prev: request.prev_log_id.as_ref().map(codec::log_id_to_wire),
            entries: request
                .entries
                .into_iter()
                .map(codec::entry_to_wire)
                .collect(),
            leader_commit: request.leader_commit.as_ref().map(codec::log_id_to_wire),
            leader_time_ms: self.clock.leader_time_ms(),
        }
    }

    /// The deadline passed.
    pub(crate) fn late(&self, action: RPCTypes) -> RPCError<TypeConfig> {
        RPCError::Timeout(Timeout {
            action,
            id: self.own_replica,
            target: self.target,
            timeout: self.rpc_timeout,
        })
    }
}

/// Bytes that an entry takes on its way.
fn cost(entry: &crate::types::Entry) -> usize {
    let data = match &entry.payload {
        openraft::EntryPayload::Normal(data) => {
            data.head.len() + data.bodies.iter().map(bytes::Bytes::len).sum::<usize>()
        }
        openraft::EntryPayload::Blank | openraft::EntryPayload::Membership(_) => 0,
    };
    data + ENTRY_OVERHEAD
}
