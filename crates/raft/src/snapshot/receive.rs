//! Receiving a snapshot: bodies to the disk as they come, then the state, then openraft decides.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use hikyaku_proto::node as wire;
use hikyaku_proto::node::snapshot_chunk::Part;
use hikyaku_proto::node::snapshot_progress::Progress;
use hikyaku_storage::{Checkpoint, CheckpointError, Install, LeaderId, LiveRun};
use openraft::storage::Snapshot;
use prost::Message;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::log_id;
use crate::codec;
use crate::directory::Directory;
use crate::group::GroupCore;
use crate::log_store::on_disk;
use crate::state_machine::{ReceivedSnapshot, SnapshotData};
use crate::types::SnapshotMeta;

/// How long the sender may say nothing.
const STALL: Duration = Duration::from_secs(10);

/// How often the sender hears that the snapshot is still being installed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);

/// How long what came of an interrupted transfer is kept: it holds disk space.
const KEPT: Duration = Duration::from_secs(300);

/// A group's snapshot that is not complete yet, if there is one. Whoever writes to it holds the lock.
#[derive(Clone, Default)]
pub struct Incoming {
    partial: Arc<Mutex<Option<Partial>>>,
    /// The group is closed here: nothing is taken any longer.
    closed: Arc<watch::Sender<bool>>,
}

struct Partial {
    /// The manifest, but for the vote: a new leader may send the same snapshot.
    name: wire::SnapshotManifest,
    install: Install,
    /// Bodies before this one are here.
    next: (u64, u32),
    touched: Instant,
}

impl Incoming {
    /// Lets go of what nobody continued.
    pub fn tidy(&self) {
        if let Ok(mut partial) = self.partial.try_lock()
            && partial
                .as_ref()
                .is_some_and(|partial| partial.touched.elapsed() > KEPT)
        {
            *partial = None;
        }
    }

    /// Takes nothing any longer, and lets go of what has come.
    pub async fn close(&self) {
        self.closed.send_replace(true);
        // Who holds the lock waits for the sender, and no longer for that, or for the disk.
        *self.partial.lock().await = None;
    }

    /// Waits for something unless the group is closed before it is there.
    async fn unless_closed<T>(
        &self,
        something: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let mut closed = self.closed.subscribe();
        // Losing the wait for a piece ends the transfer.
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(refused("the group was closed here")),
            there = something => there,
        }
    }
}

type Slot = OwnedMutexGuard<Option<Partial>>;

/// Takes one snapshot; says how far it has come.
pub fn receive(
    directory: Directory,
    chunks: Streaming<wire::SnapshotChunk>,
) -> impl Stream<Item = Result<wire::SnapshotProgress, Status>> + Send + 'static {
    let start = Some((Stage::Start(directory), chunks));
    futures_util::stream::unfold(start, |state| async move {
        let (stage, mut chunks) = state?;
        match stage.next(&mut chunks).await {
            Ok((progress, next)) => {
                let progress = Some(progress);
                let next = next.map(|stage| (stage, chunks));
                Some((Ok(wire::SnapshotProgress { progress }), next))
            }
            Err(status) => Some((Err(status), None)),
        }
    })
}

enum Stage {
    Start(Directory),
    Bodies(Receiving),
    Installing {
        installed: BoxFuture<'static, Result<wire::Vote, Status>>,
        next: (u64, u32),
    },
}

struct Receiving {
    core: Arc<GroupCore>,
    slot: Slot,
    vote: wire::Vote,
    meta: SnapshotMeta,
    next: (u64, u32),
}

impl Stage {
    /// Goes on until there is progress to report; gives the stage after it, if there is one.
    async fn next(
        self,
        chunks: &mut Streaming<wire::SnapshotChunk>,
    ) -> Result<(Progress, Option<Self>), Status> {
        match self {
            Self::Start(directory) => {
                let Part::Manifest(manifest) = part(chunks).await? else {
                    return Err(refused("a snapshot starts with its manifest"));
                };
                let receiving = Receiving::begin(&directory, manifest).await?;
                let next = receiving.next;
                Ok((progress(next), Some(Self::Bodies(receiving))))
            }
            Self::Bodies(receiving) => match receiving.next_part(chunks).await? {
                Part::Manifest(_) => Err(refused("a second manifest")),
                Part::Bodies(bodies) => {
                    let receiving = receiving.add(bodies).await?;
                    Ok((progress(receiving.next), Some(Self::Bodies(receiving))))
                }
                Part::State(state) => {
                    let next = receiving.next;
                    let installed = Box::pin(receiving.install(state));
                    Ok((progress(next), Some(Self::Installing { installed, next })))
                }
            },
            Self::Installing {
                mut installed,
                next,
            } => match tokio::time::timeout(SIGN_OF_LIFE, &mut installed).await {
                Ok(vote) => Ok((Progress::Installed(vote?), None)),
                Err(_) => Ok((progress(next), Some(Self::Installing { installed, next }))),
            },
        }
    }
}

fn progress((index, ordinal): (u64, u32)) -> Progress {
    Progress::Next(wire::BodyName { index, ordinal })
}

async fn part(chunks: &mut Streaming<wire::SnapshotChunk>) -> Result<Part, Status> {
    match tokio::time::timeout(STALL, chunks.message()).await {
        Ok(Ok(Some(chunk))) => chunk.part.ok_or_else(|| refused("a chunk without a part")),
        Ok(Ok(None)) => Err(Status::aborted("the snapshot ended before its state")),
        Ok(Err(status)) => Err(status),
        Err(_) => Err(Status::aborted("the sender says nothing")),
    }
}

fn refused(what: &'static str) -> Status {
    Status::failed_precondition(what)
}

fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

impl Receiving {
    async fn begin(
        directory: &Directory,
        mut manifest: wire::SnapshotManifest,
    ) -> Result<Self, Status> {
        let core = directory
            .get(manifest.group, manifest.target)
            .map_err(|error| Status::failed_precondition(error.to_string()))?;
        let vote = manifest
            .vote
            .take()
            .ok_or_else(|| refused("a manifest without a vote"))?;
        let last = manifest
            .last
            .ok_or_else(|| refused("a manifest without a log id"))?;
        let membership = manifest
            .membership
            .clone()
            .ok_or_else(|| refused("a manifest without a membership"))?;
        let meta = SnapshotMeta {
            last_log_id: Some(codec::log_id_from_wire(last)),
            last_membership: codec::stored_membership_from_wire(membership)
                .map_err(|error| Status::failed_precondition(error.to_string()))?,
        };
        // Another connection's transfer of this group that was lost lets go when its piece is written.
        let slot = async {
            let slot = Arc::clone(&core.incoming.partial).lock_owned();
            let busy = |_| Status::aborted("another snapshot of the group is being received");
            tokio::time::timeout(STALL, slot).await.map_err(busy)
        };
        let mut slot = core.incoming.unless_closed(slot).await?;
        let resumes = slot
            .as_ref()
            .is_some_and(|partial| partial.name == manifest);
        if !resumes {
            *slot = None;
            let log = core.log.clone();
            let install = on_disk(core.work, move || log.begin_install()).await;
            *slot = Some(Partial {
                name: manifest,
                install,
                next: (0, 0),
                touched: Instant::now(),
            });
        }
        let next = slot.as_ref().map_or((0, 0), |partial| partial.next);
        tracing::info!(
            group = core.id,
            index = last.index,
            ?next,
            "receiving a snapshot"
        );
        Ok(Self {
            core,
            slot,
            vote,
            meta,
            next,
        })
    }

    async fn next_part(&self, chunks: &mut Streaming<wire::SnapshotChunk>) -> Result<Part, Status> {
        self.core.incoming.unless_closed(part(chunks)).await
    }

    /// Writes a piece. A connection that is lost meanwhile loses nothing of it.
    async fn add(self, bodies: wire::SnapshotBodies) -> Result<Self, Status> {
        let work = self.core.work;
        let mut receiving = self;
        on_disk(work, move || {
            let partial = receiving.slot.as_mut();
            let partial = partial.ok_or_else(|| internal("no transfer under way"))?;
            match partial.add(bodies) {
                Ok(()) => {
                    receiving.next = partial.next;
                    Ok(receiving)
                }
                Err(status) => {
                    // What is half written is of no use.
                    *receiving.slot = None;
                    Err(status)
                }
            }
        })
        .await
    }

    async fn install(mut self, state: wire::SnapshotState) -> Result<wire::Vote, Status> {
        let partial = self.slot.take();
        let partial = partial.ok_or_else(|| internal("no transfer under way"))?;
        drop(self.slot);
        let checkpoint = checkpoint_of(partial.name, state)?;
        let received = ReceivedSnapshot {
            install: partial.install,
            checkpoint,
        };
        let snapshot = Snapshot {
            meta: self.meta,
            snapshot: SnapshotData::Received(Box::new(received)),
        };
        let vote = codec::vote_from_wire(self.vote);
        let raft = self.core.raft();
        let installed = raft.install_full_snapshot(vote, snapshot).await;
        let answer = installed.map_err(internal)?;
        Ok(codec::vote_to_wire(&answer.vote))
    }
}

impl Partial {
    fn add(&mut self, bodies: wire::SnapshotBodies) -> Result<(), Status> {
        for body in bodies.bodies {
            let entry = body.entry.ok_or_else(|| refused("a body without a name"))?;
            let name = (entry.index, body.ordinal);
            if name < self.next {
                return Err(refused("a body out of order"));
            }
            let added = self.install.add(log_id(entry), body.ordinal, body.body);
            added.map_err(|error: CheckpointError| internal(error))?;
            self.next = (name.0, name.1.saturating_add(1));
        }
        self.touched = Instant::now();
        Ok(())
    }
}

fn checkpoint_of(
    name: wire::SnapshotManifest,
    state: wire::SnapshotState,
) -> Result<Checkpoint, Status> {
    let last = name
        .last
        .ok_or_else(|| refused("a manifest without a log id"))?;
    let meta: Bytes = name.membership.unwrap_or_default().encode_to_vec().into();
    let leader = |term| LeaderId { term, node: 0 };
    let starts = state.terms.into_iter();
    let leaders = starts.map(|start| (start.first_index, leader(start.term)));
    let live = state.live.into_iter().map(|run| LiveRun {
        first_index: run.first_index,
        entries: run.entries,
        ordinal: run.ordinal,
        count: run.count,
    });
    let id = log_id(last);
    let live: Vec<LiveRun> = live.collect();
    if !live.iter().all(|run| run.is_up_to(id)) {
        return Err(refused("a run of bodies that was not applied"));
    }
    Ok(Checkpoint {
        id,
        meta,
        leaders: leaders.collect(),
        live,
        state: state.state,
    })
}
