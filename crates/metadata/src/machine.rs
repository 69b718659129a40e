//! The replicated value: entries go in, answers come out, and everyone may look.
//!
//! Commands decide (in `command/`); the steps they share are here: adding, changing and removing a
//! record each raise the revision by one, and a changed descriptor becomes pending for its spread.

use crate::cluster::{ClusterRecord, ClusterSettings};
use crate::codec::DecodeError;
use crate::entry::{Envelope, decode_entry};
use crate::record::QueueRecord;
use crate::replicas::{GroupKey, Replicas};
use crate::reply::Reply;
use crate::requests::Requests;
use crate::tenant::TenantId;
use crate::tenants::Tenants;
use hikyaku_queue::{Descriptor, PartitionId, QueueId, QueueState};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// How long the removal of a queue is remembered, in ms: as long as a partition keeps its tombstone.
/// A catalogue copy that was away for longer is made anew.
pub const REMOVAL_MEMORY_MS: u64 = 600_000;

/// The control plane's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The group's time: the highest that an entry said, in ms since the epoch.
    pub(crate) now: u64,
    /// The index of the last applied entry.
    pub(crate) applied: u64,
    pub(crate) revision: u64,
    pub(crate) next_queue: u64,
    pub(crate) cluster: Option<ClusterRecord>,
    /// The revision at which `cluster` was last written.
    pub(crate) cluster_revision: u64,
    /// Every group of a founded cluster.
    pub(crate) groups: BTreeMap<GroupKey, Replicas>,
    pub(crate) settings: ClusterSettings,
    pub(crate) tenants: Tenants,
    pub(crate) queues: BTreeMap<QueueId, QueueRecord>,
    /// Live queues by owner and name.
    pub(crate) names: BTreeMap<TenantId, BTreeMap<String, QueueId>>,
    /// Live queues with a redrive policy, by owner and the name of their dead-letter queue, which need
    /// not exist.
    pub(crate) sources: BTreeMap<(TenantId, String), BTreeSet<QueueId>>,
    /// Live queues by the revision of their record.
    pub(crate) revisions: BTreeMap<u64, QueueId>,
    /// Removals by revision, as long as they are remembered.
    pub(crate) removals: BTreeMap<u64, Removal>,
    /// Removals up to this revision are forgotten.
    pub(crate) forgotten_revision: u64,
    /// The latest remembered removal of each name that no live queue has.
    pub(crate) freed_names: BTreeMap<(TenantId, String), u64>,
    /// Removed queues whose removal is remembered, or not yet delivered everywhere.
    pub(crate) deleted: BTreeMap<QueueId, DeletedQueue>,
    /// Partitions that have not confirmed the current descriptor, and the version they have
    /// confirmed.
    pub(crate) pending: BTreeMap<QueueId, BTreeMap<PartitionId, u64>>,
    /// Live queues with draining partitions.
    pub(crate) draining: BTreeSet<QueueId>,
    /// Live queues with an active move task.
    pub(crate) moving: BTreeSet<QueueId>,
    pub(crate) requests: Requests,
}

/// A queue that was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Removal {
    pub(crate) queue: QueueId,
    pub(crate) tenant: TenantId,
    pub(crate) name: String,
    pub(crate) at_ms: u64,
}

/// What partitions must hear of a removed queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeletedQueue {
    pub(crate) descriptor: Descriptor,
    /// The revision of the removal.
    pub(crate) revision: u64,
}

/// What one command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The answer to whoever asked.
    pub reply: Reply,
    /// Queues whose records this command changed or removed.
    pub changed: Vec<QueueId>,
}

impl Default for Metadata {
    fn default() -> Self {
        Self::new()
    }
}

impl Metadata {
    /// Nothing at all: no cluster, no queue.
    pub fn new() -> Self {
        Self {
            now: 0,
            applied: 0,
            revision: 0,
            next_queue: 1,
            cluster: None,
            cluster_revision: 0,
            groups: BTreeMap::new(),
            settings: ClusterSettings::default(),
            tenants: Tenants::default(),
            queues: BTreeMap::new(),
            names: BTreeMap::new(),
            sources: BTreeMap::new(),
            revisions: BTreeMap::new(),
            removals: BTreeMap::new(),
            forgotten_revision: 0,
            freed_names: BTreeMap::new(),
            deleted: BTreeMap::new(),
            pending: BTreeMap::new(),
            draining: BTreeSet::new(),
            moving: BTreeSet::new(),
            requests: Requests::default(),
        }
    }

    /// Applies the entry at `index`, one outcome for each of its commands. An entry that cannot be
    /// read changes nothing.
    ///
    /// # Panics
    /// When an entry is applied twice or out of order.
    pub fn apply_entry(&mut self, index: u64, entry: &[u8]) -> Result<Vec<Outcome>, DecodeError> {
        let (now, envelopes) = decode_entry(entry)?;
        assert!(
            index > self.applied,
            "entry {index} comes after entry {}",
            self.applied
        );
        self.applied = index;
        self.now = self.now.max(now);
        let outcomes = envelopes
            .into_iter()
            .map(|envelope| self.apply(envelope))
            .collect();
        if cfg!(debug_assertions) {
            self.validate();
        }
        Ok(outcomes)
    }

    fn apply(&mut self, envelope: Envelope) -> Outcome {
        let Envelope {
            request_id,
            not_after,
            command,
        } = envelope;
        if not_after < self.now {
            return Outcome {
                reply: Reply::Late,
                changed: Vec::new(),
            };
        }
        let keeps_answer = command.keeps_answer();
        if keeps_answer && let Some(reply) = self.requests.answer(request_id) {
            return Outcome {
                reply,
                changed: Vec::new(),
            };
        }
        let before = self.revision;
        let reply = command.apply(self);
        if keeps_answer {
            self.requests.keep(request_id, not_after, reply);
        }
        Outcome {
            reply,
            changed: self.changed_after(before),
        }
    }

    fn changed_after(&self, revision: u64) -> Vec<QueueId> {
        let after = (Bound::Excluded(revision), Bound::Unbounded);
        let removed = self.removals.range(after).map(|(_, removal)| removal.queue);
        self.revisions
            .range(after)
            .map(|(_, queue)| *queue)
            .chain(removed)
            .collect()
    }
}

/// Looking.
impl Metadata {
    /// The group's time, in ms since the epoch: the highest that an applied entry said.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Rises by one with each record changed or removed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The cluster, once it is founded.
    pub fn cluster(&self) -> Option<&ClusterRecord> {
        self.cluster.as_ref()
    }

    /// How many partitions there are; none before the cluster is founded.
    pub(crate) fn partitions(&self) -> u32 {
        self.cluster
            .as_ref()
            .map_or(0, |cluster| cluster.partitions)
    }

    /// What an operator set for the whole cluster.
    pub fn settings(&self) -> ClusterSettings {
        self.settings
    }

    /// A live queue by id.
    pub fn queue(&self, queue: QueueId) -> Option<&QueueRecord> {
        self.queues.get(&queue)
    }

    /// A live queue by owner and name.
    pub fn queue_by_name(&self, tenant: TenantId, name: &str) -> Option<&QueueRecord> {
        let queue = self.names.get(&tenant)?.get(name)?;
        self.queues.get(queue)
    }

    /// A tenant's live queues whose names start with `prefix` and come after `after`, by name.
    pub fn list(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<&QueueRecord> {
        let Some(names) = self.names.get(&tenant) else {
            return Vec::new();
        };
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let names = names.range::<str, _>((start, Bound::Unbounded));
        let names = names
            .take_while(|(name, _)| name.starts_with(prefix))
            .take(limit);
        names
            .filter_map(|(_, queue)| self.queues.get(queue))
            .collect()
    }

    /// The descriptor of a queue, live or deleted; `None` means it never was or is long gone.
    pub fn descriptor(&self, queue: QueueId) -> Option<&Descriptor> {
        let live = self.queues.get(&queue).map(|record| &record.descriptor);
        live.or_else(|| self.deleted.get(&queue).map(|deleted| &deleted.descriptor))
    }

    /// Current descriptors with the partitions that have not confirmed them, by queue id. A new
    /// queue needs none: partitions fetch what they lack.
    pub fn pending_deliveries(&self) -> impl Iterator<Item = (&Descriptor, PartitionId)> {
        self.pending.iter().flat_map(|(queue, partitions)| {
            let descriptor = self
                .descriptor(*queue)
                .expect("a pending queue has a descriptor");
            partitions
                .keys()
                .map(move |partition| (descriptor, *partition))
        })
    }

    /// Draining partitions that have confirmed it, with the descriptor that says so, by queue id.
    pub fn draining(&self) -> impl Iterator<Item = (&Descriptor, PartitionId)> {
        let queues = self.draining.iter().map(|queue| &self.queues[queue]);
        queues.flat_map(|record| {
            let descriptor = &record.descriptor;
            let pending = self.pending.get(&descriptor.id);
            let waits = move |at: &PartitionId| pending.is_some_and(|it| it.contains_key(at));
            let draining = descriptor.draining.iter().copied();
            draining
                .filter(move |at| !waits(at))
                .map(move |at| (descriptor, at))
        })
    }

    /// Whether every partition of the spread has confirmed this version or a later one.
    pub fn is_delivered(&self, queue: QueueId, version: u64) -> bool {
        let waiting = self.pending.get(&queue);
        waiting.is_none_or(|partitions| partitions.values().all(|held| *held >= version))
    }

    /// Whether a housekeeping entry at `now` would drop something.
    pub fn housekeeping_due(&self, now: u64) -> bool {
        self.requests.due(now) || self.removal_due(now) || self.tenants.is_deleting()
    }

    fn removal_due(&self, now: u64) -> bool {
        let oldest = self.removals.first_key_value();
        oldest.is_some_and(|(_, removal)| removal.at_ms.saturating_add(REMOVAL_MEMORY_MS) <= now)
    }
}

/// The steps that commands share.
impl Metadata {
    pub(crate) fn next_queue_id(&mut self) -> QueueId {
        let queue = QueueId(self.next_queue);
        self.next_queue += 1;
        queue
    }

    pub(crate) fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    pub(crate) fn put_cluster(&mut self, cluster: ClusterRecord) {
        self.cluster_revision = self.next_revision();
        self.cluster = Some(cluster);
    }

    pub(crate) fn put_settings(&mut self, settings: ClusterSettings) {
        self.settings = settings;
    }

    /// How much longer the name of a removed queue stays taken, in ms.
    pub(crate) fn name_taken_for(&self, tenant: TenantId, name: &str) -> Option<u64> {
        let revision = self.freed_names.get(&(tenant, name.to_owned()))?;
        let removal = self
            .removals
            .get(revision)
            .expect("a freed name has its removal");
        let free_at = removal.at_ms.saturating_add(self.settings.cooldown_ms);
        (self.now < free_at).then(|| free_at - self.now)
    }

    pub(crate) fn add(&mut self, mut record: QueueRecord) {
        let queue = record.descriptor.id;
        let (tenant, name) = (record.tenant, record.name.clone());
        self.resolve(&mut record);
        self.embrace(&mut record);
        self.file_source(&record);
        record.revision = self.next_revision();
        self.revisions.insert(record.revision, queue);
        self.freed_names
            .remove(&(record.tenant, record.name.clone()));
        self.names
            .entry(record.tenant)
            .or_default()
            .insert(record.name.clone(), queue);
        let replaced = self.queues.insert(queue, record);
        assert!(replaced.is_none(), "a queue id is given once");
        self.resolve_sources(tenant, name);
        self.spread_target(queue);
    }

    /// Replaces a live record by a changed one and answers the version of its descriptor. Nothing
    /// happens when nothing changed; the version rises only when the descriptor changed.
    pub(crate) fn change(&mut self, mut record: QueueRecord) -> u64 {
        let queue = record.descriptor.id;
        let held = self
            .queues
            .get(&queue)
            .expect("only a live queue is changed");
        let held_version = held.descriptor.version;
        let held_source = held.settings.redrive_target.clone();
        self.resolve(&mut record);
        self.embrace(&mut record);
        let held = &self.queues[&queue];
        if record == *held {
            return held_version;
        }
        if record.descriptor != held.descriptor {
            record.descriptor.version = held_version + 1;
            self.deliver(&record.descriptor, held_version);
        }
        let version = record.descriptor.version;
        match record.descriptor.draining.is_empty() {
            true => self.draining.remove(&queue),
            false => self.draining.insert(queue),
        };
        match record.active_move() {
            Some(_) => self.moving.insert(queue),
            None => self.moving.remove(&queue),
        };
        self.revisions.remove(&record.revision);
        record.revision = self.next_revision();
        self.revisions.insert(record.revision, queue);
        if record.settings.redrive_target != held_source {
            self.unfile_source(queue, record.tenant, held_source);
            self.file_source(&record);
        }
        self.queues.insert(queue, record);
        self.spread_target(queue);
        version
    }

    /// Removes a live queue and answers the version of the descriptor that says so.
    pub(crate) fn remove(&mut self, queue: QueueId) -> Option<u64> {
        let record = self.queues.remove(&queue)?;
        self.draining.remove(&queue);
        self.moving.remove(&queue);
        self.revisions.remove(&record.revision);
        let names = self
            .names
            .get_mut(&record.tenant)
            .expect("a live queue's tenant has names");
        names.remove(&record.name);
        if names.is_empty() {
            self.names.remove(&record.tenant);
        }
        let target = record.settings.redrive_target.clone();
        self.unfile_source(queue, record.tenant, target);
        self.resolve_sources(record.tenant, record.name.clone());
        self.fail_moves_to(queue);

        let QueueRecord {
            tenant,
            name,
            mut descriptor,
            ..
        } = record;
        let held_version = descriptor.version;
        descriptor.version += 1;
        descriptor.state = QueueState::Deleted;
        descriptor.move_order = None;
        self.deliver(&descriptor, held_version);
        let version = descriptor.version;

        let revision = self.next_revision();
        self.freed_names.insert((tenant, name.clone()), revision);
        self.removals.insert(
            revision,
            Removal {
                queue,
                tenant,
                name,
                at_ms: self.now,
            },
        );
        self.deleted.insert(
            queue,
            DeletedQueue {
                descriptor,
                revision,
            },
        );
        Some(version)
    }

    fn deliver(&mut self, descriptor: &Descriptor, held_version: u64) {
        let partitions = self.pending.entry(descriptor.id).or_default();
        for partition in descriptor.visited() {
            partitions.entry(partition).or_insert(held_version);
        }
        // One that was found empty after it left holds nothing, and takes nothing.
        partitions.retain(|partition, _| descriptor.visited().any(|it| it == *partition));
    }

    pub(crate) fn confirm(&mut self, queue: QueueId, version: u64, partition: PartitionId) {
        let Some(current) = self.descriptor(queue).map(|descriptor| descriptor.version) else {
            return;
        };
        let Some(partitions) = self.pending.get_mut(&queue) else {
            return;
        };
        let Some(confirmed) = partitions.get_mut(&partition) else {
            return;
        };
        *confirmed = version.max(*confirmed);
        if *confirmed >= current {
            partitions.remove(&partition);
        }
        if partitions.is_empty() {
            self.pending.remove(&queue);
            self.forget_deleted(queue);
        }
    }

    /// Drops at most `limit` answers and `limit` removals that have outlived their time.
    pub(crate) fn drop_outlived(&mut self, limit: usize) {
        self.requests.drop_outlived(self.now, limit);
        for _ in 0..limit {
            if !self.removal_due(self.now) {
                return;
            }
            self.forget_oldest_removal();
        }
    }

    fn forget_oldest_removal(&mut self) {
        let (revision, removal) = self.removals.pop_first().expect("a removal is due");
        self.forgotten_revision = revision;
        let name = (removal.tenant, removal.name);
        if self.freed_names.get(&name) == Some(&revision) {
            self.freed_names.remove(&name);
        }
        self.forget_deleted(removal.queue);
    }

    /// Forgets a deleted queue once its removal is forgotten and every partition has heard of it.
    fn forget_deleted(&mut self, queue: QueueId) {
        let forgotten = self
            .deleted
            .get(&queue)
            .is_some_and(|it| it.revision <= self.forgotten_revision);
        if forgotten && !self.pending.contains_key(&queue) {
            self.deleted.remove(&queue);
        }
    }
}
