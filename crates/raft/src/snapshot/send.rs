//! Sending a snapshot: one at a time from this node, no faster than allowed, again after a loss.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hikyaku_proto::node as wire;
use hikyaku_proto::node::peer_client::PeerClient;
use hikyaku_proto::node::snapshot_chunk::Part;
use hikyaku_proto::node::snapshot_progress::Progress;
use hikyaku_storage::{Checkpoint, LogId, ReadError, SnapshotPin, Work};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tonic::{Status, Streaming};

use crate::config::RaftConfig;
use crate::log_store::on_disk;
use crate::state_machine::SnapshotData;
use crate::transport::MESSAGE_BYTES_MAX;
use crate::transport::peers::{ConnectError, Peers};

/// Pieces read ahead of the connection.
const PIECES_AHEAD: usize = 2;

/// A piece ends after so many bytes or bodies. Of what is lost, no more than the pieces on their way
/// must be sent again.
const PIECE_BYTES: usize = 256 << 10;
const PIECE_BODIES: usize = 1_024;

/// How long the receiver may say nothing; it speaks after each piece, and while it installs.
const STALL: Duration = Duration::from_secs(10);

/// The rest before a lost transfer goes on.
const PAUSE: Duration = Duration::from_millis(500);

/// Losses in a row without any progress, after which openraft is to decide what is sent.
const FAILURES_MAX: u32 = 5;

/// Sends this node's snapshots, one after the other. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    peers: Peers,
    work: Work,
    patience: Duration,
    limit: Duration,
    bytes_per_second: u64,
    turn: Arc<Semaphore>,
}

/// Why a snapshot was not installed.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the receiver refused: {0}")]
    Refused(Status),
    #[error("the transfer was lost: {0}")]
    Lost(Status),
    #[error("the receiver ended the transfer")]
    Ended,
    #[error("the receiver said nothing for {0:?}")]
    Silent(Duration),
    #[error("the transfer took more than {0:?}")]
    Late(Duration),
    #[error("a live body cannot be read: {0}")]
    Unreadable(#[from] ReadError),
    #[error("a snapshot that is being received cannot be sent")]
    NotOurs,
}

impl SendError {
    /// Whether another attempt may go better.
    fn may_pass(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Lost(_) | Self::Ended | Self::Silent(_) => true,
            Self::Refused(_) | Self::Late(_) | Self::Unreadable(_) | Self::NotOurs => false,
        }
    }
}

impl Sender {
    /// What the settings allow.
    pub fn new(peers: Peers, work: Work, settings: &RaftConfig) -> Self {
        Self {
            peers,
            work,
            patience: settings.rpc_timeout(),
            limit: settings.snapshot_timeout(),
            bytes_per_second: settings.snapshot_bytes_per_second,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Sends `data` to `node` until it is installed there; gives the receiver's vote.
    pub async fn send(
        &self,
        node: u64,
        manifest: wire::SnapshotManifest,
        data: SnapshotData,
    ) -> Result<wire::Vote, SendError> {
        let pin = match data {
            SnapshotData::Pinned(pin) => Some(Arc::new(pin)),
            SnapshotData::Empty => None,
            SnapshotData::Received(_) => return Err(SendError::NotOurs),
        };
        let source = Source {
            pin,
            work: self.work,
            bytes_per_second: self.bytes_per_second,
        };
        let _turn = self.turn.acquire().await;
        // From here on it is this transfer alone that takes its time.
        tokio::time::timeout(self.limit, self.persist(node, &manifest, &source))
            .await
            .unwrap_or(Err(SendError::Late(self.limit)))
    }

    /// Attempts again after a loss, as long as attempts get further.
    async fn persist(
        &self,
        node: u64,
        manifest: &wire::SnapshotManifest,
        source: &Source,
    ) -> Result<wire::Vote, SendError> {
        let mut furthest = (0, 0);
        let mut failures = 0;
        loop {
            let mut reached = (0, 0);
            let attempt = self.attempt(node, manifest, source, &mut reached);
            let error = match attempt.await {
                Ok(vote) => return Ok(vote),
                Err(error) => error,
            };
            let progressed = reached > furthest;
            furthest = furthest.max(reached);
            failures = if progressed { 1 } else { failures + 1 };
            if !error.may_pass() || failures == FAILURES_MAX {
                return Err(error);
            }
            tracing::info!(group = manifest.group, node, %error, "snapshot transfer interrupted");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn attempt(
        &self,
        node: u64,
        manifest: &wire::SnapshotManifest,
        source: &Source,
        reached: &mut BodyName,
    ) -> Result<wire::Vote, SendError> {
        let (pieces, outbound) = mpsc::channel(PIECES_AHEAD);
        let opening = async {
            let channel = self.peers.connect(node).await?;
            let outbound = futures_util::stream::unfold(outbound, |mut outbound| async move {
                let part = Some(outbound.recv().await?);
                Some((wire::SnapshotChunk { part }, outbound))
            });
            let mut client = PeerClient::new(channel)
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX);
            let answer = client.snapshot(outbound).await;
            Ok(answer.map_err(SendError::Refused)?.into_inner())
        };
        let mut progress: Streaming<wire::SnapshotProgress> =
            tokio::time::timeout(self.patience, opening)
                .await
                .unwrap_or(Err(SendError::Silent(self.patience)))?;
        let manifest = Part::Manifest(manifest.clone());
        pieces.send(manifest).await.map_err(|_| SendError::Ended)?;
        let from = match heard(&mut progress).await? {
            Progress::Next(name) => (name.index, name.ordinal),
            Progress::Installed(vote) => return Ok(vote),
        };
        *reached = from;
        let mut feed = std::pin::pin!(source.feed(from, pieces));
        let mut fed = false;
        loop {
            // Losing the feed ends the attempt; losing a wait for progress loses none.
            tokio::select! {
                result = &mut feed, if !fed => match result {
                    Ok(()) => fed = true,
                    Err(error) => return Err(error),
                },
                progress = heard(&mut progress) => match progress {
                    Ok(Progress::Next(name)) => *reached = (name.index, name.ordinal),
                    Ok(Progress::Installed(vote)) => return Ok(vote),
                    Err(error) => return Err(error),
                },
            }
        }
    }
}

async fn heard(progress: &mut Streaming<wire::SnapshotProgress>) -> Result<Progress, SendError> {
    match tokio::time::timeout(STALL, progress.message()).await {
        Ok(Ok(Some(wire::SnapshotProgress { progress }))) => progress.ok_or(SendError::Ended),
        Ok(Ok(None)) => Err(SendError::Ended),
        Ok(Err(status)) if status.code() == tonic::Code::FailedPrecondition => {
            Err(SendError::Refused(status))
        }
        Ok(Err(status)) => Err(SendError::Lost(status)),
        Err(_) => Err(SendError::Silent(STALL)),
    }
}

/// What is sent, and how fast.
struct Source {
    /// `None` for the state before the first entry.
    pin: Option<Arc<SnapshotPin>>,
    work: Work,
    bytes_per_second: u64,
}

/// (log index, ordinal)
type BodyName = (u64, u32);
type Body = (LogId, u32, Bytes);

impl Source {
    /// Reads bodies from a name on, and the state, into the connection.
    async fn feed(&self, from: BodyName, pieces: mpsc::Sender<Part>) -> Result<(), SendError> {
        let Some(pin) = &self.pin else {
            let state = Part::State(wire::SnapshotState::default());
            return pieces.send(state).await.map_err(|_| SendError::Ended);
        };
        let began = Instant::now();
        let mut sent = 0_u64;
        let mut next = from;
        loop {
            let held = Arc::clone(pin);
            let bodies = on_disk(self.work, move || read_piece(&held, next)).await?;
            let Some((last, ordinal, _)) = bodies.last() else {
                break;
            };
            next = (last.index, ordinal + 1);
            sent += bodies
                .iter()
                .map(|(_, _, body)| body.len() as u64)
                .sum::<u64>();
            let bodies = bodies.into_iter().map(body_to_wire).collect();
            let piece = Part::Bodies(wire::SnapshotBodies { bodies });
            pieces.send(piece).await.map_err(|_| SendError::Ended)?;
            let at_the_earliest = sent as f64 / self.bytes_per_second as f64;
            tokio::time::sleep_until(began + Duration::from_secs_f64(at_the_earliest)).await;
        }
        let state = Part::State(state_of(pin.checkpoint()));
        pieces.send(state).await.map_err(|_| SendError::Ended)
    }
}

/// The next bodies from a name on, about a piece of them; none when all were read.
fn read_piece(pin: &SnapshotPin, (index, ordinal): BodyName) -> Result<Vec<Body>, ReadError> {
    let mut piece = Vec::new();
    let mut bytes = 0;
    for body in pin.bodies(index, ordinal) {
        let body = body?;
        bytes += body.2.len();
        piece.push(body);
        if bytes >= PIECE_BYTES || piece.len() >= PIECE_BODIES {
            break;
        }
    }
    Ok(piece)
}

fn body_to_wire((entry, ordinal, body): Body) -> wire::SnapshotBody {
    let entry = Some(wire::LogId {
        term: entry.leader.term,
        index: entry.index,
    });
    wire::SnapshotBody {
        entry,
        ordinal,
        body,
    }
}

fn state_of(checkpoint: &Checkpoint) -> wire::SnapshotState {
    let terms = checkpoint
        .leaders
        .iter()
        .map(|(first_index, leader)| wire::TermStart {
            first_index: *first_index,
            term: leader.term,
        })
        .collect();
    let live = checkpoint
        .live
        .iter()
        .map(|run| wire::LiveRun {
            first_index: run.first_index,
            entries: run.entries,
            ordinal: run.ordinal,
            count: run.count,
        })
        .collect();
    wire::SnapshotState {
        terms,
        live,
        state: checkpoint.state.clone(),
    }
}
