//! This node's copy of the catalogue: which queues exist and how they are configured.
//!
//! Fed by a replica of the metadata, here or on another node, looked at by every request, and kept in a node-local
//! store with its revision, so that a restart takes only the difference. The store may be deleted at
//! any time: the copy is then built anew.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use futures_util::future::BoxFuture;
use hikyaku_metadata::{
    Changes, ClusterRecord, GroupKey, Metadata, QueueRecord, ReplicaId, Replicas, Role, TenantId,
    TenantRecord,
};
use hikyaku_queue::{Descriptor, HandleKey, HandleSealer, QueueId};
use hikyaku_raft::Group;
use tokio::sync::{mpsc, watch};

use crate::machines::{MetadataMachine, group_number, group_with_number};
pub use memory_copy::MemoryCopy;

mod memory_copy;

/// Key of the cluster's record in the store; queues are under `q` and their id, the replicas of
/// groups under `g` and the group, tenants under `t` and their twelve digits.
const CLUSTER_KEY: &[u8] = b"c";

/// Updates that may wait for the store; more, and it is rewritten as a whole.
const UPDATES_AHEAD: usize = 256;

/// Keys and values.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// What is written to the store at once.
pub struct CopyUpdate {
    /// Forget everything first.
    pub replace_all: bool,
    /// The revision after this update.
    pub revision: u64,
    /// Records to write.
    pub puts: Pairs,
    /// Keys to remove.
    pub deletes: Vec<Vec<u8>>,
}

/// What brings a copy up to date.
pub struct Change {
    /// The revision of the copy that it is for.
    pub since: u64,
    /// The copy's revision afterwards.
    pub revision: u64,
    /// What the copy has is forgotten first.
    pub replace_all: bool,
    /// The cluster, if it changed.
    pub cluster: Option<ClusterRecord>,
    /// Groups whose replicas changed.
    pub replicas: Vec<(GroupKey, Replicas)>,
    /// Tenants changed, with their access keys.
    pub tenants: Vec<TenantRecord>,
    /// Records changed.
    pub changed: Vec<QueueRecord>,
    /// Queues removed.
    pub removed: Vec<QueueId>,
}

/// A node-local store of pairs that may vanish at any time.
pub trait CatalogueCopy: Send + Sync + 'static {
    /// The revision and all pairs; 0 and nothing when the store is new.
    fn load(&self) -> io::Result<(u64, Pairs)>;

    /// Writes an update. It need not be durable at once, but must be whole.
    fn apply(&self, update: CopyUpdate) -> BoxFuture<'static, io::Result<()>>;
}

/// The copy.
pub struct Catalogue {
    state: RwLock<State>,
    store: Arc<dyn CatalogueCopy>,
    /// Log index of the metadata up to which the copy is complete.
    synced: watch::Sender<u64>,
    /// Rises when some queue's partitions become others.
    spreads: watch::Sender<u64>,
    /// Rises with changes of nodes and replicas.
    placed: watch::Sender<u64>,
    /// Updates on their way to the store.
    updates: mpsc::Sender<CopyUpdate>,
    /// Where they come out, until somebody writes them.
    written: Mutex<Option<mpsc::Receiver<CopyUpdate>>>,
    /// The store lacks an update: the next one must rewrite it.
    store_lags: AtomicBool,
}

#[derive(Default)]
struct State {
    revision: u64,
    cluster: Option<ClusterRecord>,
    replicas: BTreeMap<GroupKey, Replicas>,
    sealer: Option<Arc<HandleSealer>>,
    queues: BTreeMap<QueueId, Arc<QueueRecord>>,
    names: BTreeMap<TenantId, BTreeMap<String, QueueId>>,
    tenants: BTreeMap<TenantId, Arc<TenantRecord>>,
    /// Owners of access keys.
    owners: BTreeMap<String, TenantId>,
}

impl Catalogue {
    /// Starts from what the store still has; a store that cannot be read is as good as empty.
    pub fn open(store: Arc<dyn CatalogueCopy>) -> Self {
        let state = match load(&*store) {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(%error, "catalogue copy unreadable; building it anew");
                State::default()
            }
        };
        let (updates, written) = mpsc::channel(UPDATES_AHEAD);
        Self {
            state: RwLock::new(state),
            store,
            updates,
            written: Mutex::new(Some(written)),
            synced: watch::Sender::default(),
            spreads: watch::Sender::default(),
            placed: watch::Sender::default(),
            store_lags: AtomicBool::new(false),
        }
    }

    /// The queue of that name.
    pub fn find(&self, tenant: TenantId, name: &str) -> Option<Arc<QueueRecord>> {
        let state = self.read();
        let queue = state.names.get(&tenant)?.get(name)?;
        state.queues.get(queue).cloned()
    }

    /// The queue with that id.
    pub fn get(&self, queue: QueueId) -> Option<Arc<QueueRecord>> {
        self.read().queues.get(&queue).cloned()
    }

    /// The queues whose redrive policy names this one, by name, after `after`, at most `limit`. Looks at
    /// every queue of the tenant: for an operation of operators.
    pub fn dead_letter_sources(
        &self,
        target: &QueueRecord,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<QueueRecord>> {
        let names_it = |source: &Arc<QueueRecord>| {
            let policy = source.settings.redrive_target.as_ref();
            policy.is_some_and(|policy| policy.queue == target.name)
        };
        let all = self.list(target.tenant, "", after, usize::MAX);
        all.into_iter().filter(names_it).take(limit).collect()
    }

    /// A tenant's queues whose name starts with `prefix`, by name, after `after`, at most `limit`.
    pub fn list(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<QueueRecord>> {
        let state = self.read();
        let Some(names) = state.names.get(&tenant) else {
            return Vec::new();
        };
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        names
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(name, _)| name.starts_with(prefix))
            .take(limit)
            .filter_map(|(_, queue)| state.queues.get(queue).cloned())
            .collect()
    }

    /// The cluster, once it is founded.
    pub fn cluster(&self) -> Option<ClusterRecord> {
        self.read().cluster.clone()
    }

    /// What seals receipt handles, once the cluster is founded.
    pub fn sealer(&self) -> Option<Arc<HandleSealer>> {
        self.read().sealer.clone()
    }

    /// The replicas of a group, once the cluster is founded.
    pub fn replicas(&self, group: GroupKey) -> Option<Replicas> {
        self.read().replicas.get(&group).cloned()
    }

    /// Every group with its replicas, the metadata's first; none before the cluster is founded.
    pub fn groups(&self) -> BTreeMap<GroupKey, Replicas> {
        self.read().replicas.clone()
    }

    /// The replicas that a node has, or is to have, by group.
    pub fn replicas_on(&self, node: u64) -> BTreeMap<GroupKey, (ReplicaId, Role)> {
        let state = self.read();
        let of = |(group, replicas): (&GroupKey, &Replicas)| {
            let (replica, member) = replicas.on(node)?;
            Some((*group, (replica, member.role)))
        };
        state.replicas.iter().filter_map(of).collect()
    }

    /// In how many groups a replica is on its way in or out.
    pub fn moves(&self) -> usize {
        let state = self.read();
        let moving = state.replicas.values().filter(|it| it.is_moving());
        moving.count()
    }

    /// Follows changes of nodes and replicas.
    pub fn watch_placed(&self) -> watch::Receiver<u64> {
        self.placed.subscribe()
    }

    /// A tenant that has a record.
    pub fn tenant(&self, tenant: TenantId) -> Option<Arc<TenantRecord>> {
        self.read().tenants.get(&tenant).cloned()
    }

    /// Every tenant that has a record, by id, with the number of its queues.
    pub fn tenants(&self) -> Vec<(Arc<TenantRecord>, usize)> {
        let state = self.read();
        let queues = |tenant| state.names.get(&tenant).map_or(0, BTreeMap::len);
        let tenants = state.tenants.values();
        let counted = tenants.map(|it| (Arc::clone(it), queues(it.tenant)));
        counted.collect()
    }

    /// Whose an access key is.
    pub fn owner_of_key(&self, key: &str) -> Option<Arc<TenantRecord>> {
        let state = self.read();
        let owner = state.owners.get(key)?;
        state.tenants.get(owner).cloned()
    }

    /// How many queues there are.
    pub fn queue_count(&self) -> usize {
        self.read().queues.len()
    }

    /// Follows up to which log index of the metadata the copy is complete.
    pub fn watch_synced(&self) -> watch::Receiver<u64> {
        self.synced.subscribe()
    }

    /// Waits until the queue's partitions are others than `descriptor` says, and returns its record.
    pub async fn respread(&self, descriptor: &Descriptor) -> Arc<QueueRecord> {
        let mut spreads = self.spreads.subscribe();
        loop {
            spreads.borrow_and_update();
            if let Some(record) = self.get(descriptor.id)
                && record.descriptor.version > descriptor.version
                && !record.descriptor.visited().eq(descriptor.visited())
            {
                return record;
            }
            // The sender is this catalogue's.
            spreads.changed().await.ok();
        }
    }

    /// Keeps the copy up to date from a replica here, until that is gone.
    pub async fn follow(&self, metadata: Group<MetadataMachine>) {
        let mut applied = metadata.watch_applied();
        loop {
            let index = applied.borrow_and_update().index;
            metadata.with_machine(|machine| self.take_applied(&machine.0));
            self.is_complete_to(index);
            if applied.changed().await.is_err() {
                return;
            }
        }
    }

    /// Writes what the copy takes to the store. Beside it: a slow store delays nobody who waits for
    /// the copy. After an update that failed or was dropped, the next one rewrites it all: a store with
    /// a hole would hide queues after a restart.
    pub async fn keep(&self) {
        let taken = self
            .written
            .lock()
            .expect("no panic under this lock")
            .take();
        let mut updates = taken.expect("one task writes the store");
        while let Some(update) = updates.recv().await {
            let rewrite = self.store_lags.swap(false, Ordering::Relaxed);
            let update = if rewrite { self.read().whole() } else { update };
            if let Err(error) = self.store.apply(update).await {
                tracing::warn!(%error, "catalogue copy not written");
                self.store_lags.store(true, Ordering::Relaxed);
            }
        }
    }

    fn take_applied(&self, metadata: &Metadata) {
        let state = self.read();
        let copied = state.cluster.as_ref().map(|cluster| cluster.cluster_id);
        let here = metadata.cluster().map(|cluster| cluster.cluster_id);
        let foreign = copied.is_some() && here.is_some() && copied != here;
        let revision = if foreign { 0 } else { state.revision };
        drop(state);
        if let Some(change) = Change::since(metadata, revision) {
            self.take(change);
        }
    }

    /// The revision of the copy: what it has taken.
    pub fn revision(&self) -> u64 {
        self.read().revision
    }

    /// Takes what another node sent to a copy at `asked`, complete up to log index `synced`; `None`
    /// says that nothing was missing.
    pub fn take_sent(&self, asked: u64, change: Option<Change>, synced: u64) {
        if let Some(change) = change {
            self.take(change);
        } else if self.revision() != asked {
            return; // it was meant for the copy as it was
        }
        self.is_complete_to(synced);
    }

    fn is_complete_to(&self, index: u64) {
        self.synced.send_if_modified(|synced| {
            let later = index > *synced;
            *synced = index.max(*synced);
            later
        });
    }

    fn take(&self, change: Change) {
        let mut state = self
            .state
            .write()
            .expect("no panic happens under this lock");
        if !change.fits(&state) {
            return;
        }
        if change.replace_all {
            *state = State::default();
        }
        let placed = change.cluster.is_some() || !change.replicas.is_empty();
        let mut update = CopyUpdate {
            replace_all: change.replace_all,
            revision: change.revision,
            puts: Vec::new(),
            deletes: Vec::new(),
        };
        if let Some(cluster) = change.cluster {
            update.puts.push((CLUSTER_KEY.to_vec(), cluster.encode()));
            state.set_cluster(cluster);
        }
        for (group, replicas) in change.replicas {
            update.puts.push((group_key(group), replicas.encode()));
            state.replicas.insert(group, replicas);
        }
        for tenant in change.tenants {
            update
                .puts
                .push((tenant_key(tenant.tenant), tenant.encode()));
            state.put_tenant(tenant);
        }
        for queue in change.removed {
            update.deletes.push(queue_key(queue));
            state.remove(queue);
        }
        let mut respread = change.replace_all;
        for record in change.changed {
            let before = state.queues.get(&record.descriptor.id);
            let others = |before: &Arc<QueueRecord>| {
                !before.descriptor.visited().eq(record.descriptor.visited())
            };
            respread |= before.is_some_and(others);
            update
                .puts
                .push((queue_key(record.descriptor.id), record.encode()));
            state.put(record);
        }
        state.revision = change.revision;
        drop(state);
        if respread {
            self.spreads.send_modify(|times| *times += 1);
        }
        if placed {
            self.placed.send_modify(|times| *times += 1);
        }
        if self.updates.try_send(update).is_err() {
            self.store_lags.store(true, Ordering::Relaxed);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().expect("no panic happens under this lock")
    }
}

impl Change {
    /// What brings a copy at `revision` up to date; `None` when nothing is missing. A replica that
    /// replays its log catches up; until then the copy is the newer one.
    pub fn since(metadata: &Metadata, revision: u64) -> Option<Self> {
        let (difference, replace_all) = match metadata.changes_since(revision) {
            Changes::Since(difference) if difference.revision == revision => return None,
            Changes::Since(difference) => (difference, revision == 0),
            Changes::Ahead => return None,
            Changes::FullResync => match metadata.changes_since(0) {
                Changes::Since(difference) => (difference, true),
                Changes::Ahead | Changes::FullResync => {
                    unreachable!("an empty copy can always be brought up to date")
                }
            },
        };
        Some(Self {
            since: revision,
            revision: difference.revision,
            replace_all,
            cluster: difference.cluster.cloned(),
            replicas: difference
                .replicas
                .into_iter()
                .map(|(group, replicas)| (group, replicas.clone()))
                .collect(),
            tenants: difference.tenants.into_iter().cloned().collect(),
            changed: difference.changed.into_iter().cloned().collect(),
            removed: difference.removed,
        })
    }

    /// Whether the copy may take it: it must not bring back what the copy has seen change.
    fn fits(&self, copy: &State) -> bool {
        let foreign = match (&copy.cluster, &self.cluster) {
            (Some(copy), Some(cluster)) => copy.cluster_id != cluster.cluster_id,
            (Some(_) | None, _) => false,
        };
        let newer = self.revision > copy.revision;
        foreign || newer && (self.replace_all || self.since == copy.revision)
    }
}

impl State {
    /// The whole copy as one update.
    fn whole(&self) -> CopyUpdate {
        let cluster = self.cluster.iter();
        let cluster = cluster.map(|cluster| (CLUSTER_KEY.to_vec(), cluster.encode()));
        let groups = self.replicas.iter();
        let groups = groups.map(|(group, replicas)| (group_key(*group), replicas.encode()));
        let queues = self.queues.values();
        let queues = queues.map(|record| (queue_key(record.descriptor.id), record.encode()));
        let tenants = self.tenants.values();
        let tenants = tenants.map(|record| (tenant_key(record.tenant), record.encode()));
        let puts = cluster.chain(groups).chain(tenants).chain(queues).collect();
        CopyUpdate {
            replace_all: true,
            revision: self.revision,
            puts,
            deletes: Vec::new(),
        }
    }

    fn put(&mut self, record: QueueRecord) {
        let id = record.descriptor.id;
        self.remove(id);
        self.names
            .entry(record.tenant)
            .or_default()
            .insert(record.name.clone(), id);
        self.queues.insert(id, Arc::new(record));
    }

    fn put_tenant(&mut self, record: TenantRecord) {
        let tenant = record.tenant;
        if let Some(before) = self.tenants.remove(&tenant) {
            for key in before.keys.keys() {
                self.owners.remove(key);
            }
        }
        let keys = record.keys.keys();
        self.owners.extend(keys.map(|key| (key.clone(), tenant)));
        self.tenants.insert(tenant, Arc::new(record));
    }

    fn remove(&mut self, queue: QueueId) {
        let Some(record) = self.queues.remove(&queue) else {
            return;
        };
        if let Some(names) = self.names.get_mut(&record.tenant)
            && names.get(&record.name) == Some(&queue)
        {
            names.remove(&record.name);
        }
    }

    fn set_cluster(&mut self, cluster: ClusterRecord) {
        let mut keys = cluster
            .handle_keys
            .iter()
            .rev()
            .map(|(id, secret)| HandleKey {
                id: u8::try_from(*id).expect("handle keys are numbered in one byte"),
                secret: *secret,
            });
        let current = keys.next();
        self.sealer = current.map(|key| Arc::new(HandleSealer::new(key, keys.next())));
        self.cluster = Some(cluster);
    }
}

fn queue_key(queue: QueueId) -> Vec<u8> {
    let mut key = vec![b'q'];
    key.extend(queue.0.to_be_bytes());
    key
}

/// `g` and the number of the group: as Raft's groups are numbered.
fn group_key(group: GroupKey) -> Vec<u8> {
    let mut key = vec![b'g'];
    key.extend(group_number(group).to_be_bytes());
    key
}

fn group_of_key(key: &[u8]) -> Option<GroupKey> {
    let number = key.strip_prefix(b"g")?.try_into().ok()?;
    Some(group_with_number(u64::from_be_bytes(number)))
}

fn tenant_key(tenant: TenantId) -> Vec<u8> {
    format!("t{tenant}").into_bytes()
}

fn load(store: &dyn CatalogueCopy) -> io::Result<State> {
    let (revision, pairs) = store.load()?;
    if revision == 0 {
        // A copy that was being replaced: whatever is left of it may be of queues long gone.
        return Ok(State::default());
    }
    let mut state = State {
        revision,
        ..State::default()
    };
    let placed = pairs.iter().any(|(key, _)| group_of_key(key).is_some());
    if !placed && pairs.iter().any(|(key, _)| key == CLUSTER_KEY) {
        // Of before replicas were kept: nobody would send those that have not changed since.
        return Ok(State::default());
    }
    for (key, value) in pairs {
        if key == CLUSTER_KEY {
            state.set_cluster(ClusterRecord::decode(&value).map_err(io::Error::other)?);
        } else if let Some(group) = group_of_key(&key) {
            let replicas = Replicas::decode(&value).map_err(io::Error::other)?;
            state.replicas.insert(group, replicas);
        } else if key.starts_with(b"t") {
            let tenant = TenantRecord::decode(&value).map_err(io::Error::other)?;
            state.put_tenant(tenant);
        } else {
            state.put(QueueRecord::decode(&value).map_err(io::Error::other)?);
        }
    }
    Ok(state)
}

#[cfg(test)]
mod tests;
