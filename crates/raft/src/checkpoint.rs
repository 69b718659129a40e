//! A checkpoint on its way to another replica: manifest, live bodies as cold records, state.
//!
//! The receiver makes the bodies durable first; nothing of the snapshot is in force before openraft
//! has accepted it (DESIGN section 6, install order).

use bytes::Bytes;
use futures_util::Stream;
use hikyaku_proto::node as wire;
use hikyaku_proto::node::snapshot_chunk::Part;
use hikyaku_storage::{
    Checkpoint, GroupLog, LeaderId, LiveRun, LogId, ReadError, SnapshotPin, Work,
};
use openraft::storage::Snapshot;
use prost::Message;
use tokio::sync::mpsc;
use tonic::Status;

use crate::codec;
use crate::log_store::on_disk;
use crate::state_machine::{ReceivedSnapshot, SnapshotData};
use crate::types::{CommittedLeaderId, Placement, Vote};

/// Chunks read ahead of the connection.
const CHUNKS_AHEAD: usize = 16;

/// A batch of bodies read at once ends after so many bytes or bodies.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_BODIES: usize = 1_024;

/// The chunks of `snapshot`, read as the connection takes them. A body that cannot be read ends the
/// stream early, which the receiver refuses for want of a state.
pub fn chunks(
    group: u64,
    target: u64,
    vote: &Vote,
    snapshot: Snapshot<CommittedLeaderId, u64, Placement, SnapshotData>,
    work: Work,
) -> impl Stream<Item = wire::SnapshotChunk> + Send + 'static {
    let manifest = wire::SnapshotManifest {
        group,
        target,
        vote: Some(codec::vote_to_wire(vote)),
        last: snapshot
            .meta
            .last_log_id
            .as_ref()
            .map(codec::log_id_to_wire),
        membership: Some(codec::stored_membership_to_wire(
            &snapshot.meta.last_membership,
        )),
    };
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let read = async move {
        if sender.send(Part::Manifest(manifest)).await.is_err() {
            return;
        }
        if let SnapshotData::Pinned(pin) = snapshot.snapshot {
            read_into(pin, sender, work).await;
        }
    };
    // Owned by the channel: it ends when the receiving stream is dropped.
    tokio::spawn(read);
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        let part = receiver.recv().await?;
        Some((wire::SnapshotChunk { part: Some(part) }, receiver))
    })
}

async fn read_into(pin: SnapshotPin, sender: mpsc::Sender<Part>, work: Work) {
    let mut pin = pin;
    let mut next = Some((0, 0));
    while let Some(from) = next {
        let (batch, rest) = on_disk(work, move || (read_batch(&pin, from), pin)).await;
        pin = rest;
        let bodies = match batch {
            Ok(bodies) => bodies,
            Err(error) => {
                tracing::error!(%error, "snapshot not sent: a live body cannot be read");
                return;
            }
        };
        next = bodies
            .last()
            .map(|(entry, ordinal, _)| (entry.index, ordinal + 1));
        for (entry, ordinal, body) in bodies {
            let entry = Some(wire::LogId {
                term: entry.leader.term,
                index: entry.index,
            });
            if sender
                .send(Part::Body(wire::SnapshotBody {
                    entry,
                    ordinal,
                    body,
                }))
                .await
                .is_err()
            {
                return;
            }
        }
    }
    // An error means that the transfer was given up.
    sender
        .send(Part::State(state_of(pin.checkpoint())))
        .await
        .ok();
}

/// The next bodies from a name on, about a mebibyte of them; none when all were read.
fn read_batch(
    pin: &SnapshotPin,
    (index, ordinal): (u64, u32),
) -> Result<Vec<(LogId, u32, Bytes)>, ReadError> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for body in pin.bodies(index, ordinal) {
        let body = body?;
        bytes += body.2.len();
        batch.push(body);
        if bytes >= BATCH_BYTES || batch.len() >= BATCH_BODIES {
            break;
        }
    }
    Ok(batch)
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

/// Takes the bodies and the state that follow a manifest.
pub async fn receive(
    manifest: &wire::SnapshotManifest,
    mut chunks: tonic::Streaming<wire::SnapshotChunk>,
    log: GroupLog,
    work: Work,
) -> Result<SnapshotData, Status> {
    let last = manifest
        .last
        .ok_or_else(|| Status::invalid_argument("manifest without log id"))?;
    let mut install = on_disk(work, move || log.begin_install()).await;
    loop {
        let chunk = chunks.message().await?;
        match chunk.and_then(|chunk| chunk.part) {
            Some(Part::Body(body)) => {
                let entry = body
                    .entry
                    .ok_or_else(|| Status::invalid_argument("body without a name"))?;
                let added = on_disk(work, move || {
                    let result = install.add(log_id(entry), body.ordinal, body.body);
                    (result, install)
                });
                let (result, rest) = added.await;
                result.map_err(internal)?;
                install = rest;
            }
            Some(Part::State(state)) => {
                let meta = manifest
                    .membership
                    .clone()
                    .unwrap_or_default()
                    .encode_to_vec()
                    .into();
                let checkpoint = checkpoint_of(log_id(last), meta, state);
                return Ok(SnapshotData::Received(Box::new(ReceivedSnapshot {
                    install,
                    checkpoint,
                })));
            }
            Some(Part::Manifest(_)) => {
                return Err(Status::invalid_argument("a second manifest"));
            }
            None => return Err(Status::aborted("the snapshot ended before its state")),
        }
    }
}

fn checkpoint_of(id: LogId, meta: Bytes, state: wire::SnapshotState) -> Checkpoint {
    let leaders = state
        .terms
        .into_iter()
        .map(|start| {
            (
                start.first_index,
                LeaderId {
                    term: start.term,
                    node: 0,
                },
            )
        })
        .collect();
    let live = state
        .live
        .into_iter()
        .map(|run| LiveRun {
            first_index: run.first_index,
            entries: run.entries,
            ordinal: run.ordinal,
            count: run.count,
        })
        .collect();
    Checkpoint {
        id,
        meta,
        leaders,
        live,
        state: state.state,
    }
}

fn log_id(id: wire::LogId) -> LogId {
    LogId {
        leader: LeaderId {
            term: id.term,
            node: 0,
        },
        index: id.index,
    }
}

fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}
