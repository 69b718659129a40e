//! This node's copy of the catalogue: which queues exist and how they are configured.
//!
//! Fed by the local replica of the metadata, looked at by every request, and kept in a node-local
//! store with its revision, so that a restart takes only the difference. The store may be deleted at
//! any time: the copy is then built anew.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, RwLock};

use futures_util::future::BoxFuture;
use hikyaku_metadata::{Changes, ClusterRecord, QueueRecord, TenantId};
use hikyaku_queue::{HandleKey, HandleSealer, QueueId};
use hikyaku_raft::Group;
use tokio::sync::watch;

use crate::machines::MetadataMachine;

/// Key of the cluster's record in the store; queues are under `q` and their id.
const CLUSTER_KEY: &[u8] = b"c";

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

    /// Keeps the copy up to date until the group is gone.
    pub async fn follow(self: Arc<Self>, metadata: Group<MetadataMachine>) {
        let mut applied = metadata.watch_applied();
        loop {
            let index = applied.borrow_and_update().index;
            let update = metadata.with_machine(|machine| self.take_changes(machine));
            self.synced.send_replace(index);
            if let Some(update) = update
                && let Err(error) = self.store.apply(update).await
            {
                tracing::warn!(%error, "catalogue copy not written");
            }
            if applied.changed().await.is_err() {
                return;
            }
        }
    }

    fn take_changes(&self, machine: &MetadataMachine) -> Option<CopyUpdate> {
        let mut state = self
            .state
            .write()
            .expect("no panic happens under this lock");
        let mut update = CopyUpdate {
            replace_all: false,
            revision: state.revision,
            puts: Vec::new(),
            deletes: Vec::new(),
        };
        if state.revision == machine.0.revision() {
            return None;
        }
        let difference = match machine.0.changes_since(state.revision) {
            Changes::Since(difference) => difference,
            // A replica that replays its log catches up; until then the copy is the newer one.
            Changes::Ahead => return None,
            Changes::FullResync => {
                *state = State::default();
                update.replace_all = true;
                match machine.0.changes_since(0) {
                    Changes::Since(difference) => difference,
                    Changes::Ahead | Changes::FullResync => {
                        unreachable!("an empty copy can always be brought up to date")
                    }
                }
            }
        };
        update.revision = difference.revision;
        if let Some(cluster) = difference.cluster {
            update.puts.push((CLUSTER_KEY.to_vec(), cluster.encode()));
            state.set_cluster(cluster.clone());
        }
        for queue in difference.removed {
            update.deletes.push(queue_key(queue));
            state.remove(queue);
        }
        for record in difference.changed {
            update
                .puts
                .push((queue_key(record.descriptor.id), record.encode()));
            state.put(record.clone());
        }
        state.revision = difference.revision;
        Some(update)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().expect("no panic happens under this lock")
    }
}

impl State {
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
