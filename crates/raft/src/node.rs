//! All groups of a node: opening, founding, the service for peers, the watchdog, the orderly stop.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use hikyaku_storage::{GroupId, Log, Work};
use openraft::async_runtime::WatchReceiver;
use openraft::{Config, ServerState};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Request;
use tonic::service::interceptor::InterceptedService;

use crate::config::{RaftConfig, RaftConfigError};
use crate::directory::Directory;
use crate::group::{Group, GroupCore, Leadership};
use crate::log_store::LogStore;
use crate::machine::{GroupClock, Machine};
use crate::maintenance;
use crate::network::Links;
use crate::pulse;
use crate::snapshot;
use crate::state_machine::{AnyMachine, AppliedPoint, Hosted, StateMachine};
use crate::transport::answers::Answering;
use crate::transport::calls::{Answerer, NodeCalls, NodeService};
use crate::transport::clocks::{Clocks, WallClock};
use crate::transport::founding::{FoundingCalls, FoundingService};
use crate::transport::identity::Identity;
use crate::transport::peers::Peers;
use crate::transport::service::PeerService;
use crate::transport::sessions::Sessions;
use crate::transport::stats::TransportStats;
use crate::types::Raft;

/// How long a group whose core died rests before it is opened again: a fault that comes back at once
/// must not spin.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// How often an idle connection from a peer is probed, and how long the probe may take: a peer that
/// lost its power leaves no reset behind. Nobody waits on this end, so there is no hurry.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Checkpoints written at once during a stop.
const CHECKPOINTS_AT_ONCE: usize = 4;

/// How long the last checkpoints may take together.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How long a stop waits for requests of peers that are under way.
const PEERS_LIMIT: Duration = Duration::from_secs(2);

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
}

/// The Raft groups of one node over one shared log.
pub struct RaftNode {
    opener: Opener,
    log: Log,
    settings: RaftConfig,
    directory: Directory,
    sessions: Sessions,
    beats: AtomicBool,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    stop: watch::Sender<bool>,
    server: Mutex<Option<JoinHandle<()>>>,
    answerer: Answerer,
}

/// What it takes to open a group, again and again.
#[derive(Clone)]
struct Opener {
    config: Arc<Config>,
    settings: RaftConfig,
    sessions: Sessions,
    snapshots: snapshot::Sender,
    work: Work,
}

impl RaftNode {
    /// Prepares to host groups. Nothing runs before [`RaftNode::open_group`].
    pub fn new(
        settings: RaftConfig,
        log: Log,
        peers: Peers,
        clock: Arc<dyn WallClock>,
        work: Work,
    ) -> Result<Self, OpenGroupError> {
        let config = settings.openraft()?;
        let patience = settings.rpc_timeout();
        let snapshots = snapshot::Sender::new(peers.clone(), work, &settings);
        let sessions = Sessions::new(peers, Clocks::new(clock), patience);
        let opener = Opener {
            config,
            settings: settings.clone(),
            sessions: sessions.clone(),
            snapshots,
            work,
        };
        let directory = Directory::default();
        Ok(Self {
            opener,
            log,
            settings,
            directory,
            sessions,
            beats: AtomicBool::new(false),
            tasks: Mutex::default(),
            stop: watch::Sender::new(false),
            server: Mutex::default(),
            answerer: Answerer::default(),
        })
    }

    /// Opens a group: the newest checkpoint, then the log. `make` gives an empty machine.
    pub async fn open_group<M: Machine>(
        &self,
        spec: GroupSpec,
        make: impl Fn() -> M + Send + Sync + 'static,
    ) -> Result<Group<M>, OpenGroupError> {
        let hosted = Arc::new(Hosted::new(Box::new(make)));
        let machine: Arc<dyn AnyMachine> = Arc::clone(&hosted) as _;
        let log = self.log.group(GroupId(spec.group));
        let group = spec.group;
        let failed = |source| OpenGroupError::Storage { group, source };
        let parts = Parts { spec, log, machine };
        let raft = self.opener.open(&parts).await.map_err(failed)?;
        let core = Arc::new(GroupCore::new(
            parts.spec.group,
            parts.spec.replica,
            parts.log.clone(),
            self.opener.work,
            Arc::clone(&parts.spec.clock),
            Arc::clone(&parts.machine),
            raft,
        ));
        self.directory.insert(Arc::clone(&core));
        self.start_pulse();
        let watch = tokio::spawn(supervise(self.opener.clone(), parts, Arc::clone(&core)));
        self.own(watch);
        Ok(Group::new(core, hosted))
    }

    /// Starts the heartbeats, with the first group.
    fn start_pulse(&self) {
        if !self.beats.swap(true, Ordering::Relaxed) {
            let run = pulse::run(
                self.directory.clone(),
                self.sessions.clone(),
                self.settings.heartbeat(),
            );
            // It goes on as long as anything is sent: what still leads during a stop is still heard.
            self.sessions.spawn(run);
        }
    }

    /// Starts the checkpoints and purges of all groups.
    pub fn start_maintenance(&self) {
        let run = maintenance::run(
            self.directory.clone(),
            self.log.clone(),
            self.settings.clone(),
        );
        self.own(tokio::spawn(run));
    }

    /// Listens for other nodes on `address` until the node is stopped. Nodes that look for a cluster
    /// are answered at once, the members of this one once there is somebody to [`answer`] them.
    ///
    /// [`answer`]: RaftNode::answer
    pub async fn serve(&self, address: String, founding: Arc<dyn FoundingCalls>) -> io::Result<()> {
        let incoming = self.peers().net().listen(address).await?;
        let answering = Answering {
            directory: self.directory.clone(),
            clocks: self.sessions.clocks().clone(),
            patience: self.settings.rpc_timeout(),
        };
        // Nothing of a member's request is read before its head was accepted.
        let known = self.peers().clone();
        let check = move |request: Request<()>| known.admit(request);
        let peers = PeerService::server(answering, self.stop.subscribe());
        let members = NodeService::server(Arc::clone(&self.answerer));
        let server = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
            .add_service(FoundingService::server(founding))
            .add_service(InterceptedService::new(peers, check.clone()))
            .add_service(InterceptedService::new(members, check));
        let mut stop = self.stop.subscribe();
        let server = tokio::spawn(async move {
            let stopped = async move {
                // An error means that the node is gone, which is a stop as well.
                stop.wait_for(|stop| *stop).await.ok();
            };
            if let Err(error) = server.serve_with_incoming_shutdown(incoming, stopped).await {
                tracing::error!(%error, "peers are no longer answered");
            }
        });
        *self
            .server
            .lock()
            .expect("no panic happens under this lock") = Some(server);
        Ok(())
    }

    /// Says who answers the requests of other members. Called once.
    pub fn answer(&self, calls: Arc<dyn NodeCalls>) {
        let first = self.answerer.set(calls).is_ok();
        assert!(first, "one node answers");
    }

    /// Whether the log takes new message bodies; entries without bodies fit its reserve.
    pub fn has_room(&self) -> bool {
        self.log.has_room()
    }

    /// The other nodes.
    pub fn peers(&self) -> &Peers {
        self.sessions.peers()
    }

    /// Who this node is; it learns its cluster through this.
    pub fn identity(&self) -> &Identity {
        self.peers().identity()
    }

    /// What was sent to peers.
    pub fn transport_stats(&self) -> TransportStats {
        self.sessions.stats()
    }

    /// How far this node's wall clock is ahead of the median of the nodes', milliseconds; `None`
    /// while fewer than three clocks are known.
    pub fn clock_skew_ms(&self) -> Option<i64> {
        self.sessions.clocks().skew_ms()
    }

    /// Stops all groups: a last checkpoint each, so that the next start replays nothing. Bounded: what
    /// is not checkpointed in time is replayed.
    pub async fn stop(&self) {
        // Nothing is opened again from here on.
        self.abort_tasks();
        let groups = self.directory.all();
        let checkpoints = groups.iter().map(|core| maintenance::checkpoint(core));
        let all = futures_util::stream::iter(checkpoints).buffer_unordered(CHECKPOINTS_AT_ONCE);
        if tokio::time::timeout(STOP_LIMIT, all.collect::<()>())
            .await
            .is_err()
        {
            tracing::warn!("not every group was checkpointed before the stop");
        }
        let shutdowns = groups.iter().map(|core| async {
            // A core that panicked has nothing left to stop.
            core.raft().shutdown().await.ok();
        });
        futures_util::future::join_all(shutdowns).await;
        self.sessions.stop();
        self.stop.send_replace(true);
        let server = self
            .server
            .lock()
            .expect("no panic happens under this lock")
            .take();
        if let Some(server) = server {
            // Peers keep their connections open; they find another node when this one is gone.
            let abort = server.abort_handle();
            if tokio::time::timeout(PEERS_LIMIT, server).await.is_err() {
                abort.abort();
            }
        }
    }

    fn abort_tasks(&self) {
        for task in self
            .tasks
            .lock()
            .expect("no panic happens under this lock")
            .drain(..)
        {
            task.abort();
        }
    }

    fn own(&self, task: JoinHandle<()>) {
        self.tasks
            .lock()
            .expect("no panic happens under this lock")
            .push(task);
    }
}

impl Drop for RaftNode {
    fn drop(&mut self) {
        self.abort_tasks();
        self.sessions.stop();
        self.stop.send_replace(true);
        if let Some(server) = self
            .server
            .get_mut()
            .expect("no panic under this lock")
            .take()
        {
            server.abort();
        }
    }
}

/// What a group is opened from.
struct Parts {
    spec: GroupSpec,
    log: hikyaku_storage::GroupLog,
    machine: Arc<dyn AnyMachine>,
}

impl Opener {
    async fn open(&self, parts: &Parts) -> io::Result<Raft> {
        let checkpoint = parts.log.load_checkpoint().map_err(io::Error::other)?;
        let generation = parts.machine.reset(checkpoint.as_ref())?;
        make_durable(&parts.log).await?;
        let links = Links {
            group: parts.spec.group,
            own_replica: parts.spec.replica,
            sessions: self.sessions.clone(),
            snapshots: self.snapshots.clone(),
            clock: Arc::clone(&parts.spec.clock),
            rpc_timeout: self.settings.rpc_timeout(),
        };
        let log = LogStore::new(parts.log.clone(), self.work, self.settings.append_bytes);
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

/// Publishes who leads, and opens the group again when its core has died: a panicked core leaves the
/// process alive and the group dead (openraft#2116).
async fn supervise(opener: Opener, parts: Parts, core: Arc<GroupCore>) {
    loop {
        follow(&core).await;
        tracing::error!(
            group = parts.spec.group,
            "raft core died; opening the group again"
        );
        core.leadership
            .send_if_modified(|now| std::mem::take(&mut now.serving));
        loop {
            tokio::time::sleep(REOPEN_PAUSE).await;
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
