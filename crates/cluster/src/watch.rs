//! How a node learns of what it has no replica: where groups are led, and the metadata.
//!
//! Each node tells, when asked, which groups it leads; one with a replica of the metadata also tells
//! what changed in them after a given revision. Whoever asks has its answer held back until there is
//! news, a second at most. So a follower hears at once, a lost answer costs nothing, and after any
//! interruption it goes on from what it has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hikyaku_metadata::{
    ClusterRecord, DecodeError, GroupKey, QueueRecord, Replicas, Role, TenantRecord,
};
use hikyaku_proto::node as wire;
use hikyaku_queue::QueueId;
use hikyaku_raft::Peers;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::catalogue::{Catalogue, Change};
use crate::clock::millis;
use crate::control::ControlPlane;
use crate::machines::{METADATA_GROUP, group_number, group_with_number};
use crate::router::Router;

/// How long an answer may be held back. Also how old a follower's knowledge of T gets.
const WAIT: Duration = Duration::from_secs(1);

/// Longest wait granted to another node.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How long an answer may take beyond its wait.
const TRAVEL: Duration = Duration::from_secs(2);

/// How long a node that did not answer is left alone.
const PAUSE: Duration = Duration::from_millis(200);

/// How often the nodes to follow are looked up.
const LOOK: Duration = Duration::from_millis(500);

/// Rises with everything that followers want to hear of. Cheap to clone.
#[derive(Clone)]
pub struct News(Arc<watch::Sender<u64>>);

impl News {
    /// Nothing has happened yet; zero is left to those who never asked.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(1)))
    }

    /// Something happened.
    pub fn tell(&self) {
        self.0.send_modify(|news| *news += 1);
    }
}

/// This node's knowledge, for others and from others.
pub struct Watch {
    /// This node.
    pub node: u64,
    /// The others.
    pub peers: Peers,
    /// Where partitions are led.
    pub router: Arc<Router>,
    /// Where the metadata are led.
    pub control: Arc<ControlPlane>,
    /// The copy of the metadata.
    pub catalogue: Arc<Catalogue>,
    /// What happens here.
    pub news: News,
    /// When each followed node answered last.
    pub heard: Mutex<BTreeMap<u64, Instant>>,
}

/// For those who ask.
impl Watch {
    /// Answers as soon as there is news.
    pub async fn tell(&self, request: wire::WatchRequest) -> wire::WatchResponse {
        let wait = Duration::from_millis(request.wait_ms).min(WAIT_MAX);
        let wants_metadata = request.catalogue && self.control.seat().is_hosted();
        let mut news = self.news.0.subscribe();
        let mut synced = self.catalogue.watch_synced();
        let happens = async {
            tokio::select! {
                _ = news.wait_for(|news| *news != request.news) => {}
                _ = synced.wait_for(|synced| *synced > request.synced), if wants_metadata => {}
            }
        };
        // Without news the answer tells what T is.
        tokio::time::timeout(wait, happens).await.ok();
        let news = *self.news.0.borrow();
        let catalogue = match wants_metadata {
            true => self.change_since(request.revision),
            false => None,
        };
        wire::WatchResponse {
            news,
            led: self.led(),
            catalogue,
        }
    }

    fn led(&self) -> Vec<wire::Led> {
        let metadata = self.control.leads().map(|(term, now_ms)| wire::Led {
            group: METADATA_GROUP,
            term,
            now_ms,
        });
        let partitions = self.router.seats().iter().filter_map(|seat| {
            let replica = seat.replica()?;
            let leadership = replica.leadership();
            let leads = leadership.serving && !replica.is_cut_off();
            leads.then(|| wire::Led {
                group: seat.group(),
                term: leadership.term,
                now_ms: seat.now_ms().unwrap_or(0),
            })
        });
        metadata.into_iter().chain(partitions).collect()
    }

    fn change_since(&self, revision: u64) -> Option<wire::CatalogueChange> {
        // The machine is looked at later than the index, and shows at least as much.
        let synced = self
            .control
            .seat()
            .replica()?
            .watch_applied()
            .borrow()
            .index;
        let change = self
            .control
            .with_metadata(|metadata| Change::since(metadata, revision))?;
        Some(match change {
            Some(change) => change_to_wire(change, synced),
            None => wire::CatalogueChange {
                synced,
                revision,
                ..wire::CatalogueChange::default()
            },
        })
    }
}

/// For this node itself.
impl Watch {
    /// Follows all other nodes, as long as something is not hosted here, until `stop` is true.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut followed: BTreeMap<u64, AbortHandle> = BTreeMap::new();
        let mut tasks = JoinSet::new();
        loop {
            let wanted = self.nodes_to_follow();
            followed.retain(|node, task| {
                let keep = wanted.contains(node);
                if !keep {
                    task.abort();
                }
                keep
            });
            for node in wanted {
                let follow = || tasks.spawn(Arc::clone(&self).follow(node));
                followed.entry(node).or_insert_with(follow);
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(LOOK) => {}
                Some(ended) = tasks.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
            }
        }
    }

    fn nodes_to_follow(&self) -> Vec<u64> {
        let cluster = self.catalogue.cluster();
        for record in cluster.iter().flat_map(|cluster| &cluster.nodes) {
            if record.node != self.node {
                self.peers.set_address(record.node, record.address.clone());
                if let Some(name) = &record.certificate_name {
                    self.peers.pin(record.node, name);
                }
            }
        }
        let hosts_all = self.router.seats().iter().all(|seat| seat.is_hosted());
        // The metadata leader looks after all nodes.
        if hosts_all && self.votes_on_metadata() && self.control.leads().is_none() {
            return Vec::new();
        }
        self.peers.nodes()
    }

    /// Whether the metadata come from the replica here: one on its way in or out falls behind.
    fn votes_on_metadata(&self) -> bool {
        let Some(replicas) = self.catalogue.replicas(GroupKey::Metadata) else {
            return self.control.seat().is_hosted();
        };
        let here = replicas.on(self.node);
        self.control.seat().is_hosted() && here.is_some_and(|(_, it)| it.role == Role::Voter)
    }

    /// When a node answered last.
    pub fn heard(&self, node: u64) -> Option<Instant> {
        let heard = self.heard.lock().expect("no panic under this lock");
        heard.get(&node).copied()
    }

    async fn follow(self: Arc<Self>, node: u64) {
        let mut news = 0;
        loop {
            let revision = self.catalogue.revision();
            let request = wire::WatchRequest {
                news,
                catalogue: self.asks_for_metadata(node),
                revision,
                synced: *self.catalogue.watch_synced().borrow(),
                wait_ms: millis(WAIT),
            };
            match self.peers.watch(node, request, WAIT + TRAVEL).await {
                Ok(answer) => {
                    news = answer.news;
                    let mut heard = self.heard.lock().expect("no panic under this lock");
                    heard.insert(node, Instant::now());
                    drop(heard);
                    self.hear(node, &answer.led);
                    if let Some(change) = answer.catalogue {
                        self.take(revision, change);
                    }
                }
                Err(error) => {
                    tracing::debug!(node = format_args!("{node:x}"), %error, "not followed");
                    news = 0;
                    self.hear(node, &[]);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Without a replica here, the leader of the metadata is asked for them; while none is known,
    /// everybody.
    fn asks_for_metadata(&self, node: u64) -> bool {
        let leader = self.control.seat().lead().node;
        !self.votes_on_metadata() && leader.is_none_or(|leader| leader == node)
    }

    fn hear(&self, node: u64, led: &[wire::Led]) {
        let led: BTreeMap<u64, (u64, u64)> = led
            .iter()
            .map(|led| (led.group, (led.term, led.now_ms)))
            .collect();
        match led.get(&METADATA_GROUP) {
            Some((term, now_ms)) => self.control.seat().announced(node, *term, *now_ms),
            None => self.control.seat().no_longer_announced(node),
        }
        for seat in self.router.seats() {
            match led.get(&seat.group()) {
                Some((term, now_ms)) => seat.announced(node, *term, *now_ms),
                None => seat.no_longer_announced(node),
            }
        }
    }

    fn take(&self, asked: u64, change: wire::CatalogueChange) {
        let synced = change.synced;
        match change_from_wire(asked, change) {
            Ok(change) => self.catalogue.take_sent(asked, change, synced),
            Err(error) => tracing::error!(%error, "the metadata that a node sent cannot be read"),
        }
    }
}

fn change_to_wire(change: Change, synced: u64) -> wire::CatalogueChange {
    let cluster = change.cluster.map(|cluster| cluster.encode().into());
    let changed = change.changed.iter();
    let tenants = change.tenants.iter();
    wire::CatalogueChange {
        synced,
        revision: change.revision,
        replace_all: change.replace_all,
        cluster: cluster.unwrap_or_default(),
        tenants: tenants.map(|record| record.encode().into()).collect(),
        changed: changed.map(|record| record.encode().into()).collect(),
        removed: change.removed.iter().map(|queue| queue.0).collect(),
        replicas: change
            .replicas
            .iter()
            .map(|(group, replicas)| wire::PlacedGroup {
                group: group_number(*group),
                replicas: replicas.encode().into(),
            })
            .collect(),
    }
}

/// `None` when nothing was missing.
fn change_from_wire(
    asked: u64,
    change: wire::CatalogueChange,
) -> Result<Option<Change>, Box<dyn std::error::Error + Send + Sync>> {
    if change.revision == asked && !change.replace_all {
        return Ok(None);
    }
    let cluster = match change.cluster.is_empty() {
        true => None,
        false => Some(ClusterRecord::decode(&change.cluster)?),
    };
    let changed = change.changed.iter();
    let changed = changed.map(|record| QueueRecord::decode(record));
    let tenants = change.tenants.iter();
    let tenants = tenants.map(|record| TenantRecord::decode(record));
    let replicas = change.replicas.iter().map(|placed| {
        let replicas = Replicas::decode(&placed.replicas)?;
        Ok((group_with_number(placed.group), replicas))
    });
    Ok(Some(Change {
        since: asked,
        revision: change.revision,
        replace_all: change.replace_all,
        cluster,
        replicas: replicas.collect::<Result<_, DecodeError>>()?,
        tenants: tenants.collect::<Result<_, _>>()?,
        changed: changed.collect::<Result<_, _>>()?,
        removed: change.removed.into_iter().map(QueueId).collect(),
    }))
}
