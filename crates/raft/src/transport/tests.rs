//! Lanes against a peer that answers as each story needs it.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use hikyaku_proto::node as wire;
use hikyaku_proto::node::peer_answer::Answer;
use hikyaku_proto::node::peer_request::Request as Content;
use hikyaku_proto::node::peer_server::{Peer, PeerServer};
use openraft::raft::AppendEntriesRequest;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use super::clocks::{Clocks, WallClock};
use super::identity::Identity;
use super::net::{BoxedStream, Net};
use super::peers::Peers;
use super::sessions::Sessions;
use crate::config::RaftConfig;
use crate::machine::GroupClock;
use crate::network::{Link, Links};
use crate::pipeline::{GROUP_BYTES, Pipeline};
use crate::snapshot;
use crate::types::{CommittedLeaderId, Entry, EntryData, LogId, Placement, TypeConfig, Vote};
use hikyaku_storage::Work;
use openraft::{EntryPayload, RaftNetworkFactory};

const PATIENCE: Duration = Duration::from_secs(1);

/// What the peer does with a request: an answer, or none.
type Behaviour = Arc<dyn Fn(&wire::PeerRequest) -> Option<Answer> + Send + Sync>;

#[derive(Clone)]
struct Fake {
    behaviour: Behaviour,
    /// Gives no sign of life when set.
    deaf: bool,
    /// Requests as they came.
    seen: Arc<Mutex<Vec<wire::PeerRequest>>>,
    /// Each message is answered backwards.
    backwards: bool,
}

impl Fake {
    fn new(
        behaviour: impl Fn(&wire::PeerRequest) -> Option<Answer> + Send + Sync + 'static,
    ) -> Self {
        Self {
            behaviour: Arc::new(behaviour),
            deaf: false,
            seen: Arc::default(),
            backwards: false,
        }
    }

    fn seen(&self) -> usize {
        self.seen.lock().expect("no panic").len()
    }

    fn answers(self, requests: Streaming<wire::Requests>) -> Streamed<wire::Answers> {
        let answers = requests.filter_map(move |requests| {
            let fake = self.clone();
            async move { fake.answer(requests.ok()?).map(Ok) }
        });
        answers.boxed()
    }

    fn answer(&self, requests: wire::Requests) -> Option<wire::Answers> {
        let mut answers = wire::Answers {
            probe: if self.deaf { 0 } else { requests.probe },
            wall_clock_ms: 5,
            ..wire::Answers::default()
        };
        for request in requests.requests {
            if let Some(answer) = (self.behaviour)(&request) {
                answers.answers.push(wire::PeerAnswer {
                    sequence: request.sequence,
                    answer: Some(answer),
                });
            }
            self.seen.lock().expect("no panic").push(request);
        }
        if self.backwards {
            answers.answers.reverse();
        }
        let says_something = answers.probe != 0 || !answers.answers.is_empty();
        says_something.then_some(answers)
    }
}

type Streamed<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl Peer for Fake {
    type ControlStream = Streamed<wire::Answers>;
    type AppendStream = Streamed<wire::Answers>;
    type SnapshotStream = Streamed<wire::SnapshotProgress>;

    async fn control(
        &self,
        request: Request<Streaming<wire::Requests>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        Ok(Response::new(self.clone().answers(request.into_inner())))
    }

    async fn append(
        &self,
        request: Request<Streaming<wire::Requests>>,
    ) -> Result<Response<Self::AppendStream>, Status> {
        Ok(Response::new(self.clone().answers(request.into_inner())))
    }

    async fn snapshot(
        &self,
        _request: Request<Streaming<wire::SnapshotChunk>>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(Status::unimplemented("no snapshots here"))
    }

    async fn bodies(
        &self,
        _request: Request<wire::BodiesRequest>,
    ) -> Result<Response<wire::BodiesResponse>, Status> {
        Err(Status::unimplemented("no bodies here"))
    }
}

/// Every connection ends at the one server.
struct Pipe(mpsc::UnboundedSender<BoxedStream>);

impl Net for Pipe {
    fn connect(&self, _address: String) -> BoxFuture<'static, io::Result<BoxedStream>> {
        let (near, far) = tokio::io::duplex(1 << 20);
        let accepted = self.0.send(BoxedStream::new(far));
        Box::pin(async move {
            accepted.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(BoxedStream::new(near))
        })
    }

    fn listen(
        &self,
        _address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>> {
        Box::pin(async { Err(io::Error::other("nobody listens here")) })
    }
}

struct Still;

impl WallClock for Still {
    fn wall_clock_ms(&self) -> u64 {
        5
    }
}

impl GroupClock for Still {
    fn leader_time_ms(&self) -> u64 {
        0
    }
    fn heard_leader_time(&self, _time_ms: u64) {}
    fn believed_time_ms(&self) -> u64 {
        0
    }
    fn heard_follower(&self, _node: u64, _wall_clock_ms: u64, _believed_time_ms: u64) {}
}

/// Sessions of node 1 with node 2, which is the fake.
fn sessions_with(fake: &Fake) -> Sessions {
    let (connections, accepted) = mpsc::unbounded_channel();
    let incoming = futures_util::stream::unfold(accepted, |mut accepted| async move {
        let stream = accepted.recv().await?;
        Some((Ok::<_, io::Error>(stream), accepted))
    });
    let server = tonic::transport::Server::builder().add_service(PeerServer::new(fake.clone()));
    tokio::spawn(server.serve_with_incoming(incoming));
    let addresses = [(2, "anywhere".to_owned())];
    let peers = Peers::new(Arc::new(Pipe(connections)), Identity::new(1), addresses);
    Sessions::new(peers, Clocks::new(Arc::new(Still)), PATIENCE)
}

async fn link(sessions: &Sessions, group: u64) -> Link {
    let mut links = Links {
        group,
        own_replica: 1,
        sessions: sessions.clone(),
        snapshots: snapshot::Sender::new(
            sessions.peers().clone(),
            Work::Task,
            &RaftConfig::default(),
        ),
        clock: Arc::new(Still),
        rpc_timeout: PATIENCE,
    };
    links.new_client(2, &Placement { node: 2 }).await
}

fn log_id(index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(1), index)
}

/// A request with the entry at `index`.
fn append(index: u64, bytes: usize) -> AppendEntriesRequest<TypeConfig> {
    let data = EntryData {
        head: Bytes::new(),
        bodies: vec![Bytes::from(vec![7; bytes])],
    };
    AppendEntriesRequest {
        vote: Vote::new_committed(1, 1),
        prev_log_id: Some(log_id(index - 1)),
        entries: vec![Entry {
            log_id: log_id(index),
            payload: EntryPayload::Normal(data),
        }],
        leader_commit: None,
    }
}

fn vote() -> Content {
    Content::Vote(wire::VoteRequest::default())
}

fn accepted(_: &wire::PeerRequest) -> Option<Answer> {
    Some(Answer::Append(wire::AppendResponse {
        result: Some(wire::append_response::Result::Success(wire::Accepted {})),
        believed_time_ms: 0,
    }))
}

/// The answers of a pipeline that is fed these requests.
async fn pipelined(
    link: Link,
    requests: Vec<AppendEntriesRequest<TypeConfig>>,
) -> Vec<Option<LogId>> {
    let answers = Pipeline::new(link, futures_util::stream::iter(requests)).answers();
    let matching = answers.map(|answer| answer.expect("answered").expect("accepted"));
    matching.collect().await
}

#[tokio::test(start_paused = true)]
async fn answers_find_their_requests_in_any_order() {
    let mut fake = Fake::new(accepted);
    fake.backwards = true;
    let sessions = sessions_with(&fake);
    let link = link(&sessions, 1).await;
    let requests = (1..=200).map(|index| append(index, 10)).collect();
    let expected: Vec<_> = (1..=200).map(|index| Some(log_id(index))).collect();
    assert_eq!(pipelined(link, requests).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_slow_replica_holds_up_nobody_else_and_no_stream_is_lost_for_it() {
    let fake = Fake::new(|request| (request.group != 1).then(|| accepted(request)).flatten());
    let sessions = sessions_with(&fake);
    let slow = link(&sessions, 1).await;
    let stuck = futures_util::stream::iter((1..).map(|index| append(index, 1 << 20)));
    let mut stuck = Box::pin(Pipeline::new(slow, stuck).answers());
    let mut stuck = tokio::spawn(async move { stuck.next().await });
    let other = link(&sessions, 2).await;
    let began = Instant::now();
    for index in 1..=10 {
        assert_eq!(
            pipelined(other.clone(), vec![append(index, 1 << 20)]).await,
            [Some(log_id(index))]
        );
    }
    assert!(began.elapsed() < PATIENCE / 2);
    // It took no more than its share, and its caller is told in time.
    let of_the_slow = |seen: &[wire::PeerRequest]| seen.iter().filter(|r| r.group == 1).count();
    let sent = of_the_slow(&fake.seen.lock().expect("no panic"));
    assert_eq!(sent, GROUP_BYTES >> 20);
    let answer = (&mut stuck).await.expect("no panic").expect("an answer");
    assert!(answer.is_err(), "{answer:?}");
    assert!(began.elapsed() <= PATIENCE + PATIENCE / 10);
    tokio::time::sleep(PATIENCE * 10).await;
    assert_eq!(sessions.stats().append.opened, 1);
}

#[tokio::test(start_paused = true)]
async fn a_peer_without_a_sign_of_life_is_given_up_and_who_waits_is_told() {
    let mut fake = Fake::new(|_| None);
    fake.deaf = true;
    let sessions = sessions_with(&fake);
    let lane = sessions.with(2).control;
    let mut waiting = lane.send(1, 2, vote()).await.expect("handed over");
    let began = Instant::now();
    assert!(waiting.answer().await.is_err());
    assert!(began.elapsed() <= PATIENCE * 2);
    assert_eq!(sessions.stats().control.opened, 1);
    // Until it has rested, nothing waits for the peer at all.
    let mut refused = lane.send(1, 2, vote()).await.expect("handed over");
    let began = Instant::now();
    assert!(refused.answer().await.is_err());
    assert!(began.elapsed() < Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn what_comes_close_together_travels_together_and_a_vote_waits_for_nobody() {
    let fake = Fake::new(|_| None);
    let sessions = sessions_with(&fake);
    let lane = sessions.with(2).control;
    lane.wake();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let messages = || sessions.stats().control.messages;
    let before = messages();
    let heartbeat = || Content::Append(wire::Append::default());
    let mut waiting = Vec::new();
    for group in 1..=50 {
        waiting.push(lane.send(group, 2, heartbeat()).await.expect("handed over"));
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(fake.seen(), 50);
    assert!(messages() - before <= 2, "{} messages", messages() - before);
    waiting.push(lane.send(51, 2, heartbeat()).await.expect("handed over"));
    waiting.push(lane.send(52, 2, vote()).await.expect("handed over"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.seen(), 52);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_waits_for_is_not_sent() {
    let fake = Fake::new(|_| None);
    let sessions = sessions_with(&fake);
    let lane = sessions.with(2).control;
    drop(lane.send(1, 2, vote()).await.expect("handed over"));
    let kept = lane.send(2, 2, vote()).await.expect("handed over");
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(fake.seen(), 1);
    drop(kept);
}

/// Bytes of the first version: they must be understood for ever.
#[test]
fn writes_what_the_first_version_wrote() {
    use prost::Message;
    let heartbeat = wire::Requests {
        requests: vec![wire::PeerRequest {
            sequence: 3,
            group: 4,
            target: 5,
            request: Some(Content::Append(wire::Append {
                vote: Some(wire::Vote {
                    term: 6,
                    replica: 7,
                    committed: true,
                }),
                prev: Some(wire::LogId { term: 6, index: 8 }),
                entries: Vec::new(),
                leader_commit: Some(wire::LogId { term: 6, index: 8 }),
                leader_time_ms: 9,
            })),
        }],
        probe: 1,
    };
    let bytes: &[u8] = &[
        10, 30, 8, 3, 16, 4, 24, 5, 34, 22, 10, 6, 8, 6, 16, 7, 24, 1, 18, 4, 8, 6, 16, 8, 34, 4,
        8, 6, 16, 8, 40, 9, 16, 1,
    ];
    assert_eq!(heartbeat.encode_to_vec(), bytes);
    assert_eq!(wire::Requests::decode(bytes).expect("readable"), heartbeat);
    let answers = wire::Answers {
        answers: vec![
            wire::PeerAnswer {
                sequence: 3,
                answer: Some(Answer::Append(wire::AppendResponse {
                    result: Some(wire::append_response::Result::Success(wire::Accepted {})),
                    believed_time_ms: 9,
                })),
            },
            wire::PeerAnswer {
                sequence: 4,
                answer: Some(Answer::Failure(wire::Failure {
                    reason: wire::failure::Reason::Stopped.into(),
                    detail: "x".to_owned(),
                })),
            },
        ],
        probe: 1,
        wall_clock_ms: 2,
    };
    let bytes: &[u8] = &[
        10, 8, 8, 3, 18, 4, 10, 0, 32, 9, 10, 9, 8, 4, 42, 5, 8, 2, 18, 1, 120, 16, 1, 24, 2,
    ];
    assert_eq!(answers.encode_to_vec(), bytes);
    assert_eq!(wire::Answers::decode(bytes).expect("readable"), answers);
}
