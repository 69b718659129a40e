//! This node's copy of the catalogue: which queues exist and how they are configured.
//!
//! Fed by the local replica of the metadata, looked at by every request, and kept in a node-local
//! store with its revision, so that a restart takes only the difference. The store may be deleted at
//! any time: the copy is then built anew.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use futures_util::future::BoxFuture;
use hikyaku_metadata::{Changes, ClusterRecord, QueueRecord, TenantId};
use hikyaku_queue::{Descriptor, HandleKey, HandleSealer, QueueId};
use hikyaku_raft::Group;
use tokio::sync::{mpsc, watch};

use crate::machines::MetadataMachine;

/// Key of the cluster's record in the store; queues are under `q` and their id.
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
    /// The store lacks an update: the next one must rewrite it.
    store_lags: AtomicBool,
}

#[derive(Default)]
struct State {
    revision: u64,
    cluster: Option<ClusterRecord>,
    sealer: Option<Arc<HandleSealer>>,
    queues: BTreeMap<QueueId, Arc<QueueRecord>>,
    names: BTreeMap<TenantId, BTreeMap<String, QueueId>>,
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
        Self {
            state: RwLock::new(state),
            store,
            synced: watch::Sender::default(),
            spreads: watch::Sender::default(),
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

    /// Keeps the copy up to date until the group is gone. The store is written beside it: a slow one
    /// delays nobody who waits for the copy.
    pub async fn follow(self: Arc<Self>, metadata: Group<MetadataMachine>) {
        let (updates, written) = mpsc::channel(UPDATES_AHEAD);
        tokio::join!(self.take(metadata, updates), self.write(written));
    }

    async fn take(&self, metadata: Group<MetadataMachine>, updates: mpsc::Sender<CopyUpdate>) {
        let mut applied = metadata.watch_applied();
        loop {
            let index = applied.borrow_and_update().index;
            let update = metadata.with_machine(|machine| self.take_changes(machine));
            self.synced.send_replace(index);
            if let Some(update) = update
                && updates.try_send(update).is_err()
            {
                self.store_lags.store(true, Ordering::Relaxed);
            }
            if applied.changed().await.is_err() {
                return;
            }
        }
    }

    /// Writes updates to the store. After one that failed or was dropped, the next one rewrites it all:
    /// a store with a hole would hide queues after a restart.
    async fn write(&self, mut updates: mpsc::Receiver<CopyUpdate>) {
        while let Some(update) = updates.recv().await {
            let rewrite = self.store_lags.swap(false, Ordering::Relaxed);
            let update = if rewrite { self.read().whole() } else { update };
            if let Err(error) = self.store.apply(update).await {
                tracing::warn!(%error, "catalogue copy not written");
                self.store_lags.store(true, Ordering::Relaxed);
            }
        }
    }

    fn take_changes(&self, machine: &MetadataMachine) -> Option<CopyUpdate> {
        let mut state = self
            .state
            .write()
            .expect("no panic happens under this lock");
        let foreign = match (&state.cluster, machine.0.cluster()) {
            (Some(copy), Some(cluster)) => copy.cluster_id != cluster.cluster_id,
            (Some(_) | None, _) => false,
        };
        let changes = machine
            .0
            .changes_since(if foreign { 0 } else { state.revision });
        let (difference, replace_all) = match changes {
            Changes::Since(difference) if difference.revision == state.revision && !foreign => {
                return None;
            }
            Changes::Since(difference) => (difference, foreign),
            // A replica that replays its log catches up; until then the copy is the newer one.
            Changes::Ahead => return None,
            Changes::FullResync => match machine.0.changes_since(0) {
                Changes::Since(difference) => (difference, true),
                Changes::Ahead | Changes::FullResync => {
                    unreachable!("an empty copy can always be brought up to date")
                }
            },
        };
        if replace_all {
            *state = State::default();
        }
        let mut update = CopyUpdate {
            replace_all,
            revision: difference.revision,
            puts: Vec::new(),
            deletes: Vec::new(),
        };
        if let Some(cluster) = difference.cluster {
            update.puts.push((CLUSTER_KEY.to_vec(), cluster.encode()));
            state.set_cluster(cluster.clone());
        }
        for queue in difference.removed {
            update.deletes.push(queue_key(queue));
            state.remove(queue);
        }
        let mut respread = replace_all;
        for record in difference.changed {
            let before = state.queues.get(&record.descriptor.id);
            let others = |before: &Arc<QueueRecord>| {
                !before.descriptor.visited().eq(record.descriptor.visited())
            };
            respread |= before.is_some_and(others);
            update
                .puts
                .push((queue_key(record.descriptor.id), record.encode()));
            state.put(record.clone());
        }
        state.revision = difference.revision;
        if respread {
            self.spreads.send_modify(|times| *times += 1);
        }
        Some(update)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().expect("no panic happens under this lock")
    }
}

impl State {
    /// The whole copy as one update.
    fn whole(&self) -> CopyUpdate {
        let cluster = self.cluster.iter();
        let cluster = cluster.map(|cluster| (CLUSTER_KEY.to_vec(), cluster.encode()));
        let queues = self.queues.values();
        let queues = queues.map(|record| (queue_key(record.descriptor.id), record.encode()));
        let puts = cluster.chain(queues).collect();
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
    for (key, value) in pairs {
        if key == CLUSTER_KEY {
            state.set_cluster(ClusterRecord::decode(&value).map_err(io::Error::other)?);
        } else {
            state.put(QueueRecord::decode(&value).map_err(io::Error::other)?);
        }
    }
    Ok(state)
}

/// A copy in memory, for simulations and for nodes that keep nothing.
#[derive(Default)]
pub struct MemoryCopy(Mutex<Held>);

#[derive(Default)]
struct Held {
    revision: u64,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl CatalogueCopy for MemoryCopy {
    fn load(&self) -> io::Result<(u64, Pairs)> {
        let held = self.0.lock().expect("no panic happens under this lock");
        let pairs = held
            .pairs
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Ok((held.revision, pairs))
    }

    fn apply(&self, update: CopyUpdate) -> BoxFuture<'static, io::Result<()>> {
        let mut held = self.0.lock().expect("no panic happens under this lock");
        if update.replace_all {
            held.pairs.clear();
        }
        held.revision = update.revision;
        for key in update.deletes {
            held.pairs.remove(&key);
        }
        held.pairs.extend(update.puts);
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_metadata::NodeRecord;

    fn cluster(cluster_id: u128) -> ClusterRecord {
        let nodes = vec![NodeRecord::storage(1, "")];
        ClusterRecord {
            cluster_id,
            partitions: 1,
            replication: 1,
            handle_keys: vec![(1, [7; 64])],
            nodes,
        }
    }

    #[tokio::test]
    async fn a_copy_that_was_being_replaced_is_empty() {
        let store = MemoryCopy::default();
        let puts = vec![(CLUSTER_KEY.to_vec(), cluster(5).encode())];
        let leftover = CopyUpdate {
            replace_all: true,
            revision: 0,
            puts,
            deletes: Vec::new(),
        };
        store.apply(leftover).await.expect("memory");
        assert_eq!(Catalogue::open(Arc::new(store)).cluster(), None);
    }

    #[tokio::test]
    async fn a_copy_starts_from_what_the_store_has() {
        let store = MemoryCopy::default();
        let puts = vec![(CLUSTER_KEY.to_vec(), cluster(5).encode())];
        let whole = CopyUpdate {
            replace_all: true,
            revision: 3,
            puts,
            deletes: Vec::new(),
        };
        store.apply(whole).await.expect("memory");
        let catalogue = Catalogue::open(Arc::new(store));
        assert_eq!(
            catalogue.cluster().map(|cluster| cluster.cluster_id),
            Some(5)
        );
        assert!(catalogue.sealer().is_some());
    }

    #[test]
    fn a_store_that_cannot_be_read_is_as_good_as_empty() {
        struct Broken;
        impl CatalogueCopy for Broken {
            fn load(&self) -> io::Result<(u64, Pairs)> {
                Ok((4, vec![(CLUSTER_KEY.to_vec(), b"nonsense".to_vec())]))
            }
            fn apply(&self, _update: CopyUpdate) -> BoxFuture<'static, io::Result<()>> {
                Box::pin(std::future::ready(Ok(())))
            }
        }
        assert_eq!(Catalogue::open(Arc::new(Broken)).cluster(), None);
    }
}
