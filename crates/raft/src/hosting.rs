//! Opening a group on this node, watching over it, closing it, and dropping its replica.
//!
//! A group is here at most once, and its records on the volume are one replica's: whoever asks for
//! another one is refused, so a node that is placed anew first drops what it had. A replica that is
//! dropped is gone at once and for good, also after a power cut; nothing that its dead core left under
//! way writes any longer.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hikyaku_storage::{ClaimError, GroupId, Log, Work};
use openraft::async_runtime::WatchReceiver;
use openraft::{Config, ServerState};
use tokio::task::JoinHandle;

use crate::config::{RaftConfig, RaftConfigError};
use crate::directory::Directory;
use crate::group::{GroupCore, Leadership};
use crate::healing::Mender;
use crate::log_store::{LogStore, on_disk};
use crate::machine::{GroupClock, Machine};
use crate::network::Links;
use crate::snapshot;
use crate::state_machine::{AnyMachine, AppliedPoint, Hosted, StateMachine};
use crate::transport::sessions::Sessions;
use crate::types::Raft;

/// How long a group whose core died rests before it is opened again: a fault that comes back at once
/// must not spin.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// A group to open on this node.
pub struct GroupSpec {
    /// The group's id, the same on all nodes.
    pub group: u64,
    /// This node's replica id in the group; never used by another placement.
    pub replica: u64,
    /// The partition's clock.
    pub clock: Arc<dyn GroupClock>,
}

/// Why a group cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenGroupError {
    /// The settings contradict each other.
    #[error(transparent)]
    Config(#[from] RaftConfigError),
    /// The group's checkpoint or log cannot be read.
    #[error("group {group:x} cannot be opened: {source}")]
    Storage {
        /// The group.
        group: u64,
        /// What failed.
        source: io::Error,
    },
    /// The volume holds the records of another replica, which has to be dropped first.
    #[error("group {group:x} is replica {here:x} here, not {asked:x}")]
    OtherReplica {
        /// The group.
        group: u64,
        /// The replica whose records these are.
        here: u64,
        /// The replica that was to be opened.
        asked: u64,
    },
    /// The group is open here, or being opened.
    #[error("group {group:x} is open already")]
    AlreadyOpen {
        /// The group.
        group: u64,
    },
}

/// Why a replica cannot be dropped.
#[derive(Debug, thiserror::Error)]
pub enum DropGroupError {
    /// The records here are another replica's, which stays.
    #[error("group {group:x} is replica {here:x} here, not {asked:x}")]
    OtherReplica {
        /// The group.
        group: u64,
        /// The replica whose records these are.
        here: u64,
        /// The replica that was to be dropped.
        asked: u64,
    },
    /// The log failed. The replica is closed; it is whole or gone, and asking again decides.
    #[error("group {group:x} cannot be dropped: {source}")]
    Storage {
        /// The group.
        group: u64,
        /// What failed.
        source: io::Error,
    },
}

/// The groups that are open on this node.
pub struct Hosting {
    opener: Opener,
    log: Log,
    directory: Directory,
    /// By group, with the task that watches over each; none while it is being opened.
    open: Mutex<BTreeMap<u64, Option<JoinHandle<()>>>>,
}

impl Hosting {
    pub fn new(opener: Opener, log: Log, directory: Directory) -> Self {
        Self {
            opener,
            log,
            directory,
            open: Mutex::default(),
        }
    }

    /// Opens a group: the newest checkpoint, then the log. `make` gives an empty machine.
    pub async fn open<M: Machine>(
        &self,
        spec: GroupSpec,
        make: impl Fn() -> M + Send + Sync + 'static,
    ) -> Result<(Arc<GroupCore>, Arc<Hosted<M>>), OpenGroupError> {
        let group = spec.group;
        let place = Place::take(&self.open, group)?;
        let failed = |source| OpenGroupError::Storage { group, source };
        let (log, replica) = (self.log.clone(), spec.replica);
        let claim = move || log.open_replica(GroupId(group), replica);
        let claimed = on_disk(self.opener.work, claim).await;
        let log = claimed.map_err(|error| match error {
            ClaimError::OtherReplica { here, asked, .. } => {
                OpenGroupError::OtherReplica { group, here, asked }
            }
            ClaimError::Io(source) => failed(source),
        })?;
        let hosted = Arc::new(Hosted::new(Box::new(make)));
        let machine: Arc<dyn AnyMachine> = Arc::clone(&hosted) as _;
        let parts = Parts { spec, log, machine };
        let raft = self.opener.open(&parts).await.map_err(failed)?;
        let core = Arc::new(GroupCore::new(
            &parts.spec,
            parts.log.clone(),
            Arc::clone(&parts.machine),
            raft,
            &self.opener,
        ));
        self.directory.insert(Arc::clone(&core));
        let watch = watched(self.opener.clone(), parts, Arc::clone(&core));
        place.keep(tokio::spawn(watch));
        Ok((core, hosted))
    }

    /// Closes a group; false when it was not open. Whoever waits for an entry learns that its outcome
    /// is unknown.
    pub async fn close(&self, group: u64) -> bool {
        let watch = lock(&self.open).get_mut(&group).and_then(Option::take);
        let Some(watch) = watch else {
            return false;
        };
        let core = self.directory.remove(group);
        // An end of its own accord and one that was asked for are the same here.
        watch.abort();
        watch.await.ok();
        if let Some(core) = core {
            self.end(&core).await;
        }
        lock(&self.open).remove(&group);
        true
    }

    async fn end(&self, core: &GroupCore) {
        // A core that panicked has nothing left to stop.
        core.raft().shutdown().await.ok();
        core.incoming.close().await;
        let machine = Arc::clone(&core.machine);
        on_disk(self.opener.work, move || machine.retire()).await;
        core.leadership.send_modify(|now| {
            now.serving = false;
            now.leader_node = None;
        });
    }

    /// Closes a group and erases its replica, durably. Nothing to do when nothing of the group is here.
    pub async fn drop_replica(&self, group: u64, replica: u64) -> Result<(), DropGroupError> {
        let failed = |source| DropGroupError::Storage { group, source };
        let id = GroupId(group);
        match self.log.replicas().get(&id) {
            None => return Ok(()),
            Some(Some(here)) if *here != replica => {
                let (here, asked) = (*here, replica);
                return Err(DropGroupError::OtherReplica { group, here, asked });
            }
            Some(_) => {}
        }
        self.close(group).await;
        let log = self.log.group(id);
        let erased = on_disk(self.opener.work, move || log.forget()).await;
        erased.map_err(failed)?;
        tracing::info!(group, replica, "replica dropped");
        Ok(())
    }

    /// The groups with records on this volume and the replica that they are of, open or not; `None`
    /// when the volume is older than such knowledge.
    pub fn replicas(&self) -> BTreeMap<u64, Option<u64>> {
        let replicas = self.log.replicas().into_iter();
        replicas.map(|(group, owner)| (group.0, owner)).collect()
    }

    /// Ends the watch over all groups: none is opened again.
    pub fn abandon(&self) {
        for watch in lock(&self.open).values().flatten() {
            watch.abort();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic happens under this lock")
}

/// The place of a group that is being opened; given back if that fails.
struct Place<'a> {
    open: &'a Mutex<BTreeMap<u64, Option<JoinHandle<()>>>>,
    group: u64,
    watch: Option<JoinHandle<()>>,
}

impl<'a> Place<'a> {
    fn take(
        open: &'a Mutex<BTreeMap<u64, Option<JoinHandle<()>>>>,
        group: u64,
    ) -> Result<Self, OpenGroupError> {
        let mut groups = lock(open);
        if groups.contains_key(&group) {
            return Err(OpenGroupError::AlreadyOpen { group });
        }
        groups.insert(group, None);
        Ok(Self {
            open,
            group,
            watch: None,
        })
    }

    fn keep(mut self, watch: JoinHandle<()>) {
        self.watch = Some(watch);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut groups = lock(self.open);
        match self.watch.take() {
            Some(watch) => groups.insert(self.group, Some(watch)),
            None => groups.remove(&self.group),
        };
    }
}

/// What it takes to open a group, again and again.
#[derive(Clone)]
pub struct Opener {
    pub config: Arc<Config>,
    pub settings: RaftConfig,
    pub sessions: Sessions,
    pub snapshots: snapshot::Sender,
    pub mender: Mender,
    pub work: Work,
}

/// What a group is opened from.
struct Parts {
    spec: GroupSpec,
    log: hikyaku_storage::GroupLog,
    machine: Arc<dyn AnyMachine>,
}

impl Opener {
    /// Boxed, as [`watched`] is: what only this crate polls is compiled with it, all of the consensus
    /// library with it, instead of once more with each program.
    fn open<'a>(&'a self, parts: &'a Parts) -> BoxFuture<'a, io::Result<Raft>> {
        Box::pin(self.open_core(parts))
    }

    async fn open_core(&self, parts: &Parts) -> io::Result<Raft> {
        let (log, machine) = (parts.log.clone(), Arc::clone(&parts.machine));
        let restore = move || {
            let checkpoint = log.load_checkpoint().map_err(io::Error::other)?;
            machine.reset(checkpoint.as_ref())
        };
        let generation = on_disk(self.work, restore).await?;
        make_durable(&parts.log).await?;
        let links = Links {
            group: parts.spec.group,
            own_replica: parts.spec.replica,
            sessions: self.sessions.clone(),
            snapshots: self.snapshots.clone(),
            clock: Arc::clone(&parts.spec.clock),
            rpc_timeout: self.settings.rpc_timeout(),
        };
        let log = LogStore::new(
            parts.log.clone(),
            self.work,
            self.settings.append_bytes,
            Some(self.mender.clone()),
        );
        let machine = StateMachine {
            machine: Arc::clone(&parts.machine),
            generation,
            log: parts.log.clone(),
            work: self.work,
        };
        let config = Arc::clone(&self.config);
        let raft = Raft::new(parts.spec.replica, config, links, log, machine)
            .await
            .map_err(io::Error::other)?;
        // The only voter need not wait for silence.
        let alone = raft.voter_ids().eq([parts.spec.replica]);
        if alone {
            raft.trigger()
                .elect(false)
                .await
                .map_err(io::Error::other)?;
        }
        Ok(raft)
    }
}

/// Waits until all that was submitted to the group's log is durable: openraft takes the last entry it
/// finds at its start for flushed, and a group that is opened again may still have writes waiting.
async fn make_durable(log: &hikyaku_storage::GroupLog) -> io::Result<()> {
    // Entries come after a vote, so without one there is nothing to wait for.
    let Some(vote) = log.state().vote else {
        return Ok(());
    };
    let (sender, durable) = tokio::sync::oneshot::channel();
    // The receiver is gone only when the opening was given up.
    log.save_vote(vote, Box::new(move |result| drop(sender.send(result))));
    durable
        .await
        .unwrap_or_else(|_| Err(io::Error::other("the log was closed")))
}

fn watched(opener: Opener, parts: Parts, core: Arc<GroupCore>) -> BoxFuture<'static, ()> {
    Box::pin(supervise(opener, parts, core))
}

/// Publishes who leads, and opens the group again when its core has died: a panicked core leaves the
/// process alive and the group dead (openraft#2116).
async fn supervise(opener: Opener, parts: Parts, core: Arc<GroupCore>) {
    loop {
        follow(&core).await;
        core.leadership
            .send_if_modified(|now| std::mem::take(&mut now.serving));
        if core.log.is_lost() {
            let group = parts.spec.group;
            tracing::error!(group, "the replica is damaged; it stays closed");
            return;
        }
        tracing::error!(
            group = parts.spec.group,
            "raft core died; opening the group again"
        );
        loop {
            tokio::time::sleep(REOPEN_PAUSE).await;
            if core.log.is_lost() {
                break;
            }
            match opener.open(&parts).await {
                Ok(raft) => {
                    core.replace(raft);
                    break;
                }
                Err(error) => {
                    tracing::error!(group = parts.spec.group, %error, "group cannot be opened");
                }
            }
        }
    }
}

/// Returns when the core has stopped.
///
/// Wakes when the state of the replica changes, not with every entry: only a leader that does not serve
/// yet looks at what is applied.
async fn follow(core: &GroupCore) {
    let raft = core.raft();
    let mut metrics = raft.server_metrics();
    let mut applied = core.machine.applied();
    loop {
        let (now, leads) = {
            let seen = metrics.borrow_watched();
            let point = *applied.borrow_and_update();
            (
                leadership_of(&seen, point),
                seen.state == ServerState::Leader,
            )
        };
        core.leadership.send_if_modified(|before| {
            let changed = *before != now;
            *before = now;
            changed
        });
        // The core lets go of its metrics when it ends, however it ends.
        tokio::select! {
            changed = metrics.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            changed = applied.changed(), if leads && !now.serving => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

fn leadership_of(
    seen: &openraft::metrics::RaftServerMetrics<crate::types::TypeConfig>,
    applied: AppliedPoint,
) -> Leadership {
    let leader_node = seen.current_leader.and_then(|leader| {
        seen.membership_config
            .get_node(&leader)
            .map(|placement| placement.node)
    });
    let term = seen.vote.leader_id.term;
    let serving = seen.state == ServerState::Leader && applied.term == term;
    Leadership {
        term,
        leader_node,
        serving,
    }
}
