//! The machine as openraft drives it: apply, checkpoint, install.
//!
//! The machine's state lives in memory; what makes it durable is the log plus the newest checkpoint.
//! One lock guards machine, applied log id, membership and terms, so that a checkpoint always shows
//! all four at the same entry. It is held for one entry, or for the encoding of a checkpoint, and
//! never across an await.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hikyaku_proto::node as wire;
use hikyaku_storage::{Checkpoint, GroupLog, Install, LeaderId, SnapshotPin, Work};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend};
use prost::Message;
use tokio::sync::watch;

use crate::codec;
use crate::leaders::Leaders;
use crate::log_store::on_disk;
use crate::machine::{Machine, MachineError};
use crate::types::{
    AnyReply, CommittedLeaderId, Entry, LogId, Placement, SnapshotMeta, StoredMembership,
    TypeConfig,
};

/// How far a replica has applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedPoint {
    /// Index of the last applied entry.
    pub index: u64,
    /// Term in which that entry was written.
    pub term: u64,
}

/// What a core that was replaced hears.
const SUPERSEDED: &str = "the group was opened again";

/// A machine and what belongs to it at the same entry.
pub struct Hosted<M> {
    state: Mutex<HostedState<M>>,
    /// Held by who changes what is on the disk beside the log, so that a core that was replaced ends
    /// what it has begun before the next one looks.
    turn: Mutex<()>,
    applied: watch::Sender<AppliedPoint>,
    make: Box<dyn Fn() -> M + Send + Sync>,
}

struct HostedState<M> {
    machine: M,
    applied: Option<LogId>,
    membership: StoredMembership,
    leaders: Leaders,
    /// Rises with every reset. A core that was replaced may still have applies queued; they carry
    /// the generation they were opened in and are refused.
    generation: u64,
}

impl<M: Machine> Hosted<M> {
    pub fn new(make: Box<dyn Fn() -> M + Send + Sync>) -> Self {
        let state = HostedState {
            machine: make(),
            applied: None,
            membership: StoredMembership::default(),
            leaders: Leaders::default(),
            generation: 0,
        };
        Self {
            state: Mutex::new(state),
            turn: Mutex::default(),
            applied: watch::Sender::default(),
            make,
        }
    }

    pub fn with_machine<R>(&self, read: impl FnOnce(&M) -> R) -> R {
        read(&self.lock().machine)
    }

    fn put(&self, generation: u64, checkpoint: Option<&Checkpoint>) -> io::Result<()> {
        let mut fresh = HostedState {
            machine: (self.make)(),
            applied: None,
            membership: StoredMembership::default(),
            leaders: Leaders::default(),
            generation,
        };
        if let Some(checkpoint) = checkpoint {
            fresh
                .machine
                .restore(&checkpoint.state)
                .map_err(io::Error::other)?;
            fresh.membership = decode_membership(&checkpoint.meta)?;
            fresh.leaders = Leaders::from_starts(checkpoint.leaders.clone());
            fresh.applied = Some(codec::log_id_from_storage(checkpoint.id));
        }
        let point = fresh
            .applied
            .as_ref()
            .map_or(AppliedPoint::default(), point_of);
        *self.lock() = fresh;
        self.applied.send_replace(point);
        Ok(())
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        // It guards nothing in memory that a panic could leave half changed.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HostedState<M>> {
        self.state
            .lock()
            .expect("a machine that panicked is not used again before it is reset")
    }
}

/// A hosted machine without its type, so that all groups share one instantiation of openraft.
pub trait AnyMachine: Send + Sync + 'static {
    /// Back to the state of `checkpoint`, or to the empty one. Gives the generation that applies from
    /// now on must carry. Blocks while a core that was replaced still writes.
    fn reset(&self, checkpoint: Option<&Checkpoint>) -> io::Result<u64>;
    /// No core changes anything from now on. Blocks while one still writes.
    fn retire(&self);
    /// Does what changes the disk beside the log, unless the generation is over. Blocks.
    fn in_turn(&self, generation: u64, job: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
    /// The same for an installed snapshot, within its generation.
    fn install(&self, generation: u64, checkpoint: Option<&Checkpoint>) -> io::Result<()>;
    fn applied_state(&self) -> (Option<LogId>, StoredMembership);
    fn applied(&self) -> watch::Receiver<AppliedPoint>;
    fn apply(&self, generation: u64, entry: &Entry) -> Result<AnyReply, MachineError>;
    /// The state as of the last applied entry; `None` before the first.
    fn checkpoint(&self) -> Option<Checkpoint>;
    fn leader_of(&self, index: u64) -> Option<LeaderId>;
}

impl<M: Machine> AnyMachine for Hosted<M> {
    fn reset(&self, checkpoint: Option<&Checkpoint>) -> io::Result<u64> {
        let _turn = self.turn();
        self.state.clear_poison();
        let generation = self.lock().generation + 1;
        self.put(generation, checkpoint)?;
        Ok(generation)
    }

    fn retire(&self) {
        let _turn = self.turn();
        self.state.clear_poison();
        self.lock().generation += 1;
    }

    fn in_turn(&self, generation: u64, job: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let _turn = self.turn();
        if self.lock().generation != generation {
            return Err(io::Error::other(SUPERSEDED));
        }
        job()
    }

    fn install(&self, generation: u64, checkpoint: Option<&Checkpoint>) -> io::Result<()> {
        if self.lock().generation != generation {
            return Err(io::Error::other(SUPERSEDED));
        }
        self.put(generation, checkpoint)
    }

    fn applied_state(&self) -> (Option<LogId>, StoredMembership) {
        let state = self.lock();
        (state.applied, state.membership.clone())
    }

    fn applied(&self) -> watch::Receiver<AppliedPoint> {
        self.applied.subscribe()
    }

    fn apply(&self, generation: u64, entry: &Entry) -> Result<AnyReply, MachineError> {
        let mut state = self.lock();
        if state.generation != generation {
            return Err(MachineError(SUPERSEDED.to_owned()));
        }
        let index = entry.log_id.index();
        let last = state.applied.as_ref().map(|id| id.index());
        assert!(
            last < Some(index),
            "entries are applied in order: {index} after {last:?}"
        );
        let reply = match &entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Membership(membership) => {
                state.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
                None
            }
            EntryPayload::Normal(data) => {
                let reply = state.machine.apply(index, &data.head)?;
                Some(Box::new(reply) as Box<dyn std::any::Any + Send + Sync>)
            }
        };
        state
            .leaders
            .applied(index, codec::log_id_to_storage(&entry.log_id).leader);
        state.applied = Some(entry.log_id);
        drop(state);
        self.applied.send_replace(point_of(&entry.log_id));
        Ok(AnyReply(reply))
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        let mut state = self.lock();
        let id = codec::log_id_to_storage(state.applied.as_ref()?);
        let live = state.machine.live_runs();
        let oldest = live
            .first()
            .map_or(id.index, |run| run.first_index.min(id.index));
        state.leaders.forget_below(oldest);
        Some(Checkpoint {
            id,
            meta: encode_membership(&state.membership),
            leaders: state.leaders.starts().to_vec(),
            live,
            state: state.machine.encode().into(),
        })
    }

    fn leader_of(&self, index: u64) -> Option<LeaderId> {
        self.lock().leaders.of(index)
    }
}

fn point_of(id: &LogId) -> AppliedPoint {
    AppliedPoint {
        index: id.index(),
        term: id.committed_leader_id().term,
    }
}

fn encode_membership(membership: &StoredMembership) -> Bytes {
    codec::stored_membership_to_wire(membership)
        .encode_to_vec()
        .into()
}

fn decode_membership(bytes: &[u8]) -> io::Result<StoredMembership> {
    let stored = wire::StoredMembership::decode(bytes).map_err(codec::CodecError::from)?;
    Ok(codec::stored_membership_from_wire(stored)?)
}

/// Openraft's handle to a hosted machine and its checkpoints.
pub struct StateMachine {
    pub machine: Arc<dyn AnyMachine>,
    /// The generation this handle may change.
    pub generation: u64,
    pub log: GroupLog,
    pub work: Work,
}

/// A snapshot on its way: bodies are read and written by the transport, piece by piece.
pub enum SnapshotData {
    /// To be sent: a checkpoint of this node, held against reclaim.
    Pinned(SnapshotPin),
    /// The state before the first entry.
    Empty,
    /// Received: its bodies are already durable here, the checkpoint is not yet in force.
    Received(Box<ReceivedSnapshot>),
}

/// A snapshot whose bodies are here.
pub struct ReceivedSnapshot {
    pub install: Install,
    pub checkpoint: Checkpoint,
}

type MachineSnapshot = Snapshot<CommittedLeaderId, u64, Placement, SnapshotData>;

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = CheckpointBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok(self.machine.applied_state())
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let reply = apply_or_fail(&*self.machine, self.generation, &entry)?;
            if let Some(responder) = responder {
                responder.send(reply);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> CheckpointBuilder {
        CheckpointBuilder {
            machine: Arc::clone(&self.machine),
            generation: self.generation,
            log: self.log.clone(),
            work: self.work,
        }
    }

    async fn install_snapshot(
        &mut self,
        _meta: &SnapshotMeta,
        snapshot: SnapshotData,
    ) -> Result<(), io::Error> {
        let machine = Arc::clone(&self.machine);
        let generation = self.generation;
        let log = self.log.clone();
        on_disk(self.work, move || {
            let (install, checkpoint) = match snapshot {
                SnapshotData::Empty => return machine.install(generation, None),
                SnapshotData::Received(received) => (received.install, received.checkpoint),
                SnapshotData::Pinned(pin) => copy_bodies(&pin, &log)?,
            };
            let mut install = Some(install);
            machine.in_turn(generation, &mut || {
                if let Some(install) = install.take() {
                    let finished = install.finish(checkpoint.clone());
                    finished.map_err(io::Error::other)?;
                }
                machine.install(generation, Some(&checkpoint))
            })
        })
        .await
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<MachineSnapshot>, io::Error> {
        if self.log.checkpoint_ids().is_empty() {
            return Ok(None);
        }
        let log = self.log.clone();
        let pin = on_disk(self.work, move || log.pin())
            .await
            .map_err(io::Error::other)?;
        snapshot_of(pin).map(Some)
    }
}

/// Applies an entry. A machine that panics must stop the group with an error: openraft does not
/// notice a state machine task that just ends, and the group would hang for ever.
fn apply_or_fail(machine: &dyn AnyMachine, generation: u64, entry: &Entry) -> io::Result<AnyReply> {
    let applied = catch_unwind(AssertUnwindSafe(|| machine.apply(generation, entry)));
    let panicked = |_| MachineError(format!("the machine panicked at entry {}", entry.log_id));
    applied
        .unwrap_or_else(|panic| Err(panicked(panic)))
        .map_err(io::Error::other)
}

/// Takes over a snapshot of a log of this process.
fn copy_bodies(pin: &SnapshotPin, log: &GroupLog) -> io::Result<(Install, Checkpoint)> {
    let mut install = log.begin_install();
    for body in pin.bodies(0, 0) {
        let (entry, ordinal, body) = body.map_err(io::Error::other)?;
        install
            .add(entry, ordinal, body)
            .map_err(io::Error::other)?;
    }
    Ok((install, pin.checkpoint().clone()))
}

/// Writes a checkpoint of the machine as it is when the building starts.
pub struct CheckpointBuilder {
    machine: Arc<dyn AnyMachine>,
    generation: u64,
    log: GroupLog,
    work: Work,
}

impl RaftSnapshotBuilder<TypeConfig> for CheckpointBuilder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<MachineSnapshot, io::Error> {
        let machine = Arc::clone(&self.machine);
        let log = self.log.clone();
        let generation = self.generation;
        let pin = on_disk(self.work, move || {
            let mut pin = None;
            machine.in_turn(generation, &mut || {
                if let Some(checkpoint) = machine.checkpoint() {
                    log.write_checkpoint(checkpoint).map_err(io::Error::other)?;
                    pin = Some(log.pin().map_err(io::Error::other)?);
                }
                Ok(())
            })?;
            Ok::<_, io::Error>(pin)
        });
        match pin.await? {
            Some(pin) => snapshot_of(pin),
            None => Ok(Snapshot {
                meta: SnapshotMeta::default(),
                snapshot: SnapshotData::Empty,
            }),
        }
    }
}

fn snapshot_of(pin: SnapshotPin) -> io::Result<MachineSnapshot> {
    let meta = SnapshotMeta {
        last_log_id: Some(codec::log_id_from_storage(pin.checkpoint().id)),
        last_membership: decode_membership(&pin.checkpoint().meta)?,
    };
    Ok(Snapshot {
        meta,
        snapshot: SnapshotData::Pinned(pin),
    })
}
