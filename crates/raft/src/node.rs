//! All groups of a node, the service for peers, and the orderly stop.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use hikyaku_storage::{Log, Work};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Request;
use tonic::service::interceptor::InterceptedService;

use crate::config::RaftConfig;
use crate::directory::Directory;
use crate::group::Group;
use crate::healing::{self, Mender};
use crate::hosting::{DropGroupError, GroupSpec, Hosting, OpenGroupError, Opener};
use crate::machine::Machine;
use crate::maintenance;
use crate::pulse;
use crate::snapshot;
use crate::transport::answers::Answering;
use crate::transport::calls::{Answerer, NodeCalls, NodeService};
use crate::transport::clocks::{Clocks, WallClock};
use crate::transport::founding::{FoundingCalls, FoundingService};
use crate::transport::identity::Identity;
use crate::transport::peers::Peers;
use crate::transport::service::PeerService;
use crate::transport::sessions::Sessions;
use crate::transport::stats::TransportStats;

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

/// The Raft groups of one node over one shared log.
pub struct RaftNode {
    hosting: Hosting,
    log: Log,
    settings: RaftConfig,
    directory: Directory,
    sessions: Sessions,
    mender: Mender,
    beats: AtomicBool,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    stop: watch::Sender<bool>,
    server: Mutex<Option<JoinHandle<()>>>,
    answerer: Answerer,
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
        let mender = Mender::new(peers.clone(), work, patience);
        let sessions = Sessions::new(peers, Clocks::new(clock), patience);
        let opener = Opener {
            config,
            settings: settings.clone(),
            sessions: sessions.clone(),
            snapshots,
            mender: mender.clone(),
            work,
        };
        let directory = Directory::default();
        Ok(Self {
            hosting: Hosting::new(opener, log.clone(), directory.clone()),
            log,
            settings,
            directory,
            sessions,
            mender,
            beats: AtomicBool::new(false),
            tasks: Mutex::default(),
            stop: watch::Sender::new(false),
            server: Mutex::default(),
            answerer: Answerer::default(),
        })
    }

    /// Opens a group: the newest checkpoint, then the log. `make` gives an empty machine.
    ///
    /// The records of a group on this volume are one replica's, from the first opening on; another one
    /// is refused until that one was dropped. A replica that nobody founded and that is no member
    /// waits, and never campaigns, until a leader adds it ([`Group::set_voters`]).
    pub async fn open_group<M: Machine>(
        &self,
        spec: GroupSpec,
        make: impl Fn() -> M + Send + Sync + 'static,
    ) -> Result<Group<M>, OpenGroupError> {
        let (core, hosted) = self.hosting.open(spec, make).await?;
        self.start_pulse();
        Ok(Group::new(core, hosted))
    }

    /// Closes a group: its core stops and requests for it are refused. Its records stay, and it may be
    /// opened again as the same replica. Whoever waits for an entry learns that its outcome is unknown.
    /// False when the group was not open.
    ///
    /// Handles of the group answer [`ProposeError::NotLeader`] from now on.
    ///
    /// [`ProposeError::NotLeader`]: crate::ProposeError::NotLeader
    pub async fn close_group(&self, group: u64) -> bool {
        self.hosting.close(group).await
    }

    /// Closes a group if it is open and erases this replica of it: votes, entries and checkpoints.
    /// Durable on return, and whole: a crash meanwhile leaves all of the replica or nothing. The group
    /// may then be opened as another replica, which starts empty. The members should no longer count
    /// on this one: whoever drops a voter that is still a member takes back what it promised.
    ///
    /// Nothing happens when nothing of the group is here; another replica's records are left alone.
    pub async fn drop_group(&self, group: u64, replica: u64) -> Result<(), DropGroupError> {
        self.hosting.drop_replica(group, replica).await
    }

    /// The groups with records on this volume and the replica that they are of, open or not; `None`
    /// for one that was written before volumes said so and has not been opened since.
    pub fn replicas(&self) -> BTreeMap<u64, Option<u64>> {
        self.hosting.replicas()
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
        let heal = healing::run(
            self.directory.clone(),
            self.log.clone(),
            self.mender.clone(),
        );
        self.own(tokio::spawn(heal));
    }

    /// The groups whose replica here is damaged beyond repair, and what was found. Each is closed for
    /// Raft already; it is for whoever places replicas to have it replaced, under another replica id.
    pub fn damaged(&self) -> BTreeMap<u64, String> {
        let lost = self.log.damages().lost.into_iter();
        lost.map(|(group, story)| (group.0, story)).collect()
    }

    /// Follows [`RaftNode::damaged`]: changes when a group was added or dropped, or for less.
    pub fn watch_damages(&self) -> watch::Receiver<u64> {
        self.log.watch_damages()
    }

    /// Whether the records of all replicas here were set aside, damaged, and the cluster may not know of
    /// it yet. Then nothing may be opened here that was placed here before.
    pub fn lost_its_records(&self) -> io::Result<bool> {
        self.log.lost_its_records()
    }

    /// The cluster knows of all replicas that were lost here.
    pub fn loss_is_told(&self) -> io::Result<()> {
        self.log.loss_is_told()
    }

    /// Listens for other nodes on `address` until the node is stopped. Nodes that look for a cluster
    /// are answered at once, the members of this one once there is somebody to [`answer`] them.
    ///
    /// [`answer`]: RaftNode::answer
    pub fn serve(
        &self,
        address: String,
        founding: Arc<dyn FoundingCalls>,
    ) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(self.listen(address, founding))
    }

    async fn listen(&self, address: String, founding: Arc<dyn FoundingCalls>) -> io::Result<()> {
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
        self.hosting.abandon();
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
