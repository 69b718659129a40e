//! A stream of requests to one peer, for all groups, and the answers that come back.
//!
//! A lane is one task. It opens its stream when there is something to say, gathers requests that come
//! close together, matches answers to requests, and opens the stream again after a loss, resting a
//! little longer after each failure. What waits for an answer when the stream is lost learns it at
//! once, and so does what arrives during a rest: nothing is queued for a peer that is not there.
//!
//! A peer that lost its power, or a network that swallows everything, breaks no connection. So the
//! lane asks for a sign of life while anything waits, and gives the stream up when none comes. A
//! replica that is slow is not mistaken for that: the sign comes from the peer's transport alone.

use std::collections::BTreeMap;
use std::time::Duration;

use hikyaku_proto::node as wire;
use hikyaku_proto::node::peer_answer::Answer;
use hikyaku_proto::node::peer_client::PeerClient;
use hikyaku_proto::node::peer_request::Request as Content;
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::clocks::Clocks;
use super::peers::{ConnectError, Peers};
use super::stats::LaneCounters;
use super::{FRAME_BYTES, MESSAGE_BYTES_MAX};

/// Requests that wait to be gathered; more wait outside.
const QUEUE: usize = 1_024;

/// Messages handed to the connection and not yet taken by it.
const MESSAGES_AHEAD: usize = 4;

/// Requests in one message.
const REQUESTS_AT_ONCE: usize = 512;

/// What a lane rests after a failure: at first, and at most.
const REST_MIN: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_millis(500);

/// What a lane carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// Votes, heartbeats and transfers; kept alive, and the voters' clocks are read over it.
    Control,
    /// Entries.
    Append,
}

/// How a lane behaves.
#[derive(Clone, Copy, Debug)]
pub struct LaneSettings {
    /// How long an opening may take, and how long a sign of life.
    pub patience: Duration,
    /// Requests that follow another within this time go together.
    pub window: Duration,
}

/// An answer, and the peer's wall clock when it was sent.
#[derive(Debug)]
pub struct Answered {
    pub answer: Answer,
    pub wall_clock_ms: u64,
}

/// The stream to the peer was lost, or could not be opened. The request may have had its effect.
#[derive(Debug, thiserror::Error)]
#[error("the stream to node {0:x} is lost")]
pub struct Lost(pub u64);

/// A request under way.
pub struct Waiting {
    node: u64,
    answer: oneshot::Receiver<Answered>,
}

impl Waiting {
    /// Completes with the answer. Dropping this future loses nothing: it may be called again.
    pub async fn answer(&mut self) -> Result<Answered, Lost> {
        (&mut self.answer).await.map_err(|_| Lost(self.node))
    }
}

/// The near end of a lane. The task ends when all are gone.
#[derive(Clone)]
pub struct Lane {
    node: u64,
    queue: mpsc::Sender<Order>,
}

/// What the task is told.
enum Order {
    Send(Outgoing),
    /// Be open.
    Wake,
}

struct Outgoing {
    request: wire::PeerRequest,
    reply: oneshot::Sender<Answered>,
}

impl Lane {
    /// A lane to `node`, and its task.
    pub fn new(
        node: u64,
        kind: LaneKind,
        settings: LaneSettings,
        peers: Peers,
        clocks: Clocks,
        counters: LaneCounters,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, orders) = mpsc::channel(QUEUE);
        let task = Task {
            node,
            kind,
            settings,
            peers,
            clocks,
            counters,
            orders,
        };
        (Self { node, queue }, task.run())
    }

    /// Hands a request over. Completes when it has its place in the order of this lane.
    pub async fn send(&self, group: u64, target: u64, content: Content) -> Result<Waiting, Lost> {
        let (reply, answer) = oneshot::channel();
        let request = wire::PeerRequest {
            sequence: 0,
            group,
            target,
            request: Some(content),
        };
        let order = Order::Send(Outgoing { request, reply });
        let node = self.node;
        match self.queue.send(order).await {
            Ok(()) => Ok(Waiting { node, answer }),
            Err(_) => Err(Lost(node)),
        }
    }

    /// Sees to it that the stream is open, or is being opened.
    pub fn wake(&self) {
        // A full queue wakes it as well, and a task that ended cannot be woken.
        self.queue.try_send(Order::Wake).ok();
    }
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("refused: {0}")]
    Refused(Status),
    #[error("lost: {0}")]
    Failed(Status),
    #[error("ended by the peer")]
    Ended,
    #[error("the node was removed")]
    Removed,
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

struct Task {
    node: u64,
    kind: LaneKind,
    settings: LaneSettings,
    peers: Peers,
    clocks: Clocks,
    counters: LaneCounters,
    orders: mpsc::Receiver<Order>,
}

impl Task {
    async fn run(mut self) {
        let mut rest = REST_MIN;
        let mut reported = false;
        while let Some(first) = self.orders.recv().await {
            let broken = match self.open().await {
                Ok(stream) => {
                    if reported {
                        tracing::info!(node = self.node, lane = ?self.kind, "peer reached again");
                    }
                    (rest, reported) = (REST_MIN, false);
                    self.counters.opened();
                    if self.kind == LaneKind::Control {
                        self.peers.reaches(self.node);
                    }
                    let conversation = Conversation::new(&self);
                    let removal = self.peers.removal(self.node);
                    // Losing the conversation is its end: who waits for an answer learns it.
                    let ended = tokio::select! {
                        ended = conversation.run(stream, first, &mut self.orders) => ended,
                        () = removal => Err(Broken::Removed),
                    };
                    match ended {
                        Ok(()) => return,
                        Err(broken) => broken,
                    }
                }
                Err(broken) => broken,
            };
            // Once for each loss; what repeats itself is for those who look.
            if reported {
                tracing::debug!(node = self.node, lane = ?self.kind, %broken, "peer not reached");
            } else {
                tracing::warn!(node = self.node, lane = ?self.kind, %broken, "peer lost");
            }
            reported = true;
            self.rest(rest).await;
            rest = (rest * 2).min(REST_MAX);
        }
    }

    async fn open(&self) -> Result<Stream, Broken> {
        let opening = async {
            let channel = self.peers.connect(self.node).await?;
            let (outbound, messages) = mpsc::channel::<wire::Requests>(MESSAGES_AHEAD);
            let messages = futures_util::stream::unfold(messages, |mut messages| async move {
                messages.recv().await.map(|message| (message, messages))
            });
            let mut client = PeerClient::new(channel)
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX);
            let inbound = match self.kind {
                LaneKind::Control => client.control(messages).await,
                LaneKind::Append => client.append(messages).await,
            };
            let inbound = inbound.map_err(Broken::Refused)?.into_inner();
            Ok(Stream { outbound, inbound })
        };
        let patience = self.settings.patience;
        tokio::time::timeout(patience, opening)
            .await
            .unwrap_or(Err(Broken::Silent(patience)))
    }

    /// Refuses what arrives for a while.
    async fn rest(&mut self, rest: Duration) {
        let until = Instant::now() + rest;
        // Both branches may be lost: an order that was taken is dropped in any case.
        while let Ok(Some(_)) = tokio::time::timeout_at(until, self.orders.recv()).await {}
    }
}

struct Stream {
    outbound: mpsc::Sender<wire::Requests>,
    inbound: Streaming<wire::Answers>,
}

/// A question for a sign of life.
struct Probe {
    number: u64,
    asked: Instant,
}

/// One stream, from its opening to its loss.
struct Conversation {
    kind: LaneKind,
    settings: LaneSettings,
    node: u64,
    clocks: Clocks,
    counters: LaneCounters,
    /// By sequence number.
    waiting: BTreeMap<u64, oneshot::Sender<Answered>>,
    next_sequence: u64,
    gathered: wire::Requests,
    gathered_bytes: usize,
    /// What was gathered goes out then, or earlier when it is urgent or much.
    flush_at: Instant,
    probe: Option<Probe>,
    next_probe_at: Instant,
    next_probe: u64,
    heard_at: Instant,
}

impl Conversation {
    fn new(task: &Task) -> Self {
        let now = Instant::now();
        Self {
            kind: task.kind,
            settings: task.settings,
            node: task.node,
            clocks: task.clocks.clone(),
            counters: task.counters.clone(),
            waiting: BTreeMap::new(),
            next_sequence: 1,
            gathered: wire::Requests::default(),
            gathered_bytes: 0,
            flush_at: now,
            probe: None,
            next_probe_at: now,
            next_probe: 1,
            heard_at: now,
        }
    }

    /// Until the near ends are gone, or the stream is lost.
    async fn run(
        mut self,
        mut stream: Stream,
        first: Order,
        orders: &mut mpsc::Receiver<Order>,
    ) -> Result<(), Broken> {
        self.gather(first);
        loop {
            let has_something = self.gathered.probe != 0 || !self.gathered.requests.is_empty();
            let due = has_something && (self.is_full() || Instant::now() >= self.flush_at);
            let wake_at = self.wake_at(has_something && !due);
            // Every branch takes one thing out of a queue or waits for a time: losing one loses
            // nothing.
            tokio::select! {
                order = orders.recv(), if !self.is_full() => {
                    let Some(order) = order else { return Ok(()) };
                    self.gather(order);
                    while !self.is_full() && let Ok(order) = orders.try_recv() {
                        self.gather(order);
                    }
                }
                permit = stream.outbound.reserve(), if due => {
                    let Ok(permit) = permit else { return Err(Broken::Ended) };
                    self.gathered_bytes = 0;
                    self.flush_at = Instant::now() + self.settings.window;
                    self.counters.sent(self.gathered.requests.len());
                    permit.send(std::mem::take(&mut self.gathered));
                }
                answers = stream.inbound.message() => match answers {
                    Ok(Some(answers)) => self.hear(answers),
                    Ok(None) => return Err(Broken::Ended),
                    Err(status) => return Err(Broken::Failed(status)),
                },
                () = tokio::time::sleep_until(wake_at) => {
                    self.on_time()?;
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.gathered_bytes >= FRAME_BYTES || self.gathered.requests.len() >= REQUESTS_AT_ONCE
    }

    fn gather(&mut self, order: Order) {
        let Order::Send(Outgoing { mut request, reply }) = order else {
            return;
        };
        // Its caller gave up meanwhile.
        if reply.is_closed() {
            return;
        }
        request.sequence = self.next_sequence;
        self.next_sequence += 1;
        match &request.request {
            Some(Content::Append(append)) => self.gathered_bytes += append.encoded_len(),
            Some(Content::Vote(_) | Content::Transfer(_)) | None => self.flush_at = Instant::now(),
        }
        self.waiting.insert(request.sequence, reply);
        self.gathered.requests.push(request);
    }

    fn hear(&mut self, answers: wire::Answers) {
        self.heard_at = Instant::now();
        let wall_clock_ms = answers.wall_clock_ms;
        if self
            .probe
            .as_ref()
            .is_some_and(|p| p.number == answers.probe)
            && let Some(probe) = self.probe.take()
        {
            let round_trip = self.heard_at - probe.asked;
            self.clocks.read(self.node, wall_clock_ms, round_trip);
        }
        for answered in answers.answers {
            let reply = self.waiting.remove(&answered.sequence);
            if let (Some(reply), Some(answer)) = (reply, answered.answer) {
                // Nobody waits any more: the caller's deadline passed.
                reply
                    .send(Answered {
                        answer,
                        wall_clock_ms,
                    })
                    .ok();
            }
        }
    }

    /// When to look again; `gathering` when something waits for its companions.
    fn wake_at(&self, gathering: bool) -> Instant {
        let life = match &self.probe {
            Some(probe) => probe.asked.max(self.heard_at) + self.settings.patience,
            None => self.next_probe_at,
        };
        if gathering {
            life.min(self.flush_at)
        } else {
            life
        }
    }

    fn on_time(&mut self) -> Result<(), Broken> {
        let now = Instant::now();
        let patience = self.settings.patience;
        if let Some(probe) = &self.probe {
            let silent = now >= probe.asked.max(self.heard_at) + patience;
            return if silent {
                Err(Broken::Silent(patience))
            } else {
                Ok(())
            };
        }
        if now < self.next_probe_at {
            return Ok(());
        }
        self.next_probe_at = now + patience / 2;
        self.waiting.retain(|_, reply| !reply.is_closed());
        if self.kind == LaneKind::Control || !self.waiting.is_empty() {
            let number = self.next_probe;
            self.next_probe += 1;
            self.probe = Some(Probe { number, asked: now });
            self.gathered.probe = number;
            self.flush_at = now;
        }
        Ok(())
    }
}
