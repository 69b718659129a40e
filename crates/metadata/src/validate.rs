//! Everything that is believed of the metadata.
//!
//! Debug builds check it after each entry. A checkpoint is checked when it is read, in every build:
//! what does not hold then is damage, which a replica can be given anew for.

use crate::machine::{DeletedQueue, Metadata};
use crate::move_task::{MOVE_TASKS_LISTED, MoveStatus, MoveTask};
use crate::node::NodeState;
use crate::record::{FifoThroughputLimit, QueueRecord};
use crate::replicas::{GroupKey, MAX_REPLICATION, Replicas, Role};
use hikyaku_queue::{DeduplicationScope, Descriptor, QueueKind, QueueState};
use std::collections::BTreeSet;

/// The belief that does not hold, if one does not.
type Checked = Result<(), &'static str>;

/// What is counted one by one never gets here, so that counting on does not overflow.
const COUNTED: u64 = 1 << 62;

impl Metadata {
    /// Asserts every invariant; debug builds do so after each entry.
    ///
    /// # Panics
    /// When one is broken, naming it.
    pub fn validate(&self) {
        if let Err(broken) = self.check() {
            panic!("metadata: {broken}");
        }
    }

    /// Checks every invariant.
    pub(crate) fn check(&self) -> Checked {
        for record in self.queues.values() {
            self.check_record(record)?;
        }
        for deleted in self.deleted.values() {
            self.check_deleted(deleted)?;
        }
        self.check_counters()?;
        self.check_nodes()?;
        self.check_tenants()?;
        for replicas in self.groups.values() {
            self.check_replicas(replicas)?;
        }
        self.check_indexes()?;
        self.check_removals()?;
        self.check_pending()?;
        self.requests.check()
    }

    fn check_counters(&self) -> Checked {
        let placed = self.cluster.is_none() || self.partitions() > 0;
        holds(placed, "a founded cluster has partitions")?;
        holds(
            self.revision < COUNTED && self.next_queue < COUNTED,
            "changes and queues are counted one by one",
        )
    }

    fn check_nodes(&self) -> Checked {
        let Some(cluster) = &self.cluster else {
            return holds(self.groups.is_empty(), "groups are of founded clusters");
        };
        holds(
            (1..=MAX_REPLICATION).contains(&cluster.replication),
            "a group is to have a few replicas",
        )?;
        let mut nodes = BTreeSet::new();
        holds(
            cluster.nodes.iter().all(|record| nodes.insert(record.node)),
            "a node has one record",
        )?;
        holds(
            self.groups
                .keys()
                .copied()
                .eq(GroupKey::all(cluster.partitions)),
            "every group of the cluster has its replicas",
        )
    }

    fn check_replicas(&self, replicas: &Replicas) -> Checked {
        let with = |role| {
            let members = replicas.members.values();
            members.filter(|member| member.role == role).count()
        };
        let (joining, leaving) = (with(Role::Joining), with(Role::Leaving));
        holds(
            joining.max(leaving) + with(Role::Abandoned) <= 1,
            "a group makes one move at a time",
        )?;
        // What is leaving votes at least until its successor does.
        holds(
            with(Role::Voter) + with(Role::Damaged) + joining.min(leaving) > 0,
            "a group has a replica that votes",
        )?;
        let mut nodes = BTreeSet::new();
        for member in replicas.members.values() {
            holds(
                nodes.insert(member.node),
                "a node has one replica of a group",
            )?;
            let record = self.node(member.node);
            let record = record.ok_or("replicas are on nodes that exist")?;
            holds(
                record.storage && record.state != NodeState::Decommissioned,
                "replicas are on nodes that host some",
            )?;
        }
        holds(
            (1..COUNTED).contains(&replicas.version) && replicas.revision <= self.revision,
            "replicas are counted, and of the past",
        )
    }

    fn check_record(&self, record: &QueueRecord) -> Checked {
        let queue = record.descriptor.id;
        let kept = self.queues.get(&queue) == Some(record);
        holds(kept, "a record is kept under its id")?;
        let active = record.descriptor.state == QueueState::Active;
        holds(active, "a record is of a live queue")?;
        let named = self.queue_by_name(record.tenant, &record.name) == Some(record);
        holds(named, "a live queue is found by its name")?;
        let at_revision = self.revisions.get(&record.revision) == Some(&queue);
        holds(at_revision, "a live queue is found by its revision")?;
        holds(
            record.modified_at_ms <= self.now,
            "no record is from the future",
        )?;
        let settings = &record.settings;
        holds(
            settings.kms_master_key_id.is_empty() || !settings.sqs_managed_sse,
            "a queue has one kind of encryption",
        )?;
        holds(
            settings.fifo_throughput_limit == FifoThroughputLimit::PerQueue
                || settings.deduplication_scope == DeduplicationScope::MessageGroup,
            "throughput is limited per message group only if deduplication is",
        )?;
        holds(
            self.draining.contains(&queue) != record.descriptor.draining.is_empty(),
            "queues with draining partitions are found",
        )?;
        let mut resolved = record.clone();
        self.resolve(&mut resolved);
        holds(
            resolved == *record,
            "a queue's dead letters go where its policy says",
        )?;
        let target = record.descriptor.redrive.as_ref();
        if let Some(target) = target.and_then(|redrive| self.queues.get(&redrive.target)) {
            let target = &target.descriptor;
            let mut partitions = record.descriptor.visited();
            holds(
                partitions.all(|it| target.takes_moves(it)),
                "a dead-letter queue is where its sources are",
            )?;
        }
        if let Some(target) = &settings.redrive_target {
            let sources = self.sources.get(&(record.tenant, target.queue.clone()));
            holds(
                sources.is_some_and(|sources| sources.contains(&queue)),
                "the sources of a dead-letter queue are found",
            )?;
        }
        self.check_moves(record)?;
        self.check_descriptor(&record.descriptor)
    }

    fn check_moves(&self, record: &QueueRecord) -> Checked {
        let active = record.active_move();
        holds(
            self.moving.contains(&record.descriptor.id) == active.is_some(),
            "queues with an active move task are found",
        )?;
        let order = record.descriptor.move_order.as_ref();
        let ordered = order.map(|order| (order.task, order.halted));
        holds(
            ordered == active.map(|task| (task.id, task.status != MoveStatus::Running)),
            "a descriptor orders the active move task",
        )?;
        holds(
            !record.moves.iter().skip(1).any(MoveTask::is_active),
            "only the latest move task is active",
        )?;
        holds(
            record.moves.len() <= MOVE_TASKS_LISTED + 1,
            "few move tasks are listed",
        )
    }

    fn check_deleted(&self, deleted: &DeletedQueue) -> Checked {
        let DeletedQueue {
            descriptor,
            revision,
        } = deleted;
        holds(
            descriptor.state == QueueState::Deleted,
            "a deleted queue's descriptor says so",
        )?;
        holds(
            !self.queues.contains_key(&descriptor.id),
            "a deleted queue is not alive",
        )?;
        holds(
            self.removals.contains_key(revision) || self.pending.contains_key(&descriptor.id),
            "a deleted queue is kept while remembered or pending",
        )?;
        self.check_descriptor(descriptor)
    }

    fn check_descriptor(&self, descriptor: &Descriptor) -> Checked {
        holds(descriptor.id.0 < self.next_queue, "queue ids are counted")?;
        holds(
            descriptor.version < COUNTED && descriptor.purge_epoch < COUNTED,
            "versions and purges are counted one by one",
        )?;
        let cluster = self.cluster.as_ref();
        let cluster = cluster.ok_or("queues are made in founded clusters")?;
        holds(!descriptor.spread.is_empty(), "a queue is somewhere")?;
        let mut visited = BTreeSet::new();
        for partition in descriptor.visited() {
            holds(
                partition.0 < cluster.partitions,
                "a spread is of partitions that exist",
            )?;
            holds(
                visited.insert(partition),
                "a partition is in the spread, draining or a guest, once",
            )?;
        }
        holds(
            descriptor.draining.is_empty() || descriptor.kind == QueueKind::Standard,
            "a FIFO queue keeps its spread",
        )
    }

    fn check_indexes(&self) -> Checked {
        let named: usize = self.names.values().map(|names| names.len()).sum();
        holds(named == self.queues.len(), "names are of live queues")?;
        holds(
            self.names.values().all(|names| !names.is_empty()),
            "a tenant with names has one",
        )?;
        holds(
            self.revisions.len() == self.queues.len(),
            "revisions are of live queues",
        )?;
        let policies = self.queues.values();
        let policies = policies.filter(|it| it.settings.redrive_target.is_some());
        let filed: usize = self.sources.values().map(BTreeSet::len).sum();
        holds(
            filed == policies.count() && self.sources.values().all(|it| !it.is_empty()),
            "sources have a redrive policy",
        )?;
        let last = self.revisions.last_key_value();
        holds(
            last.is_none_or(|(revision, _)| *revision <= self.revision),
            "no record is newer than the revision",
        )?;
        holds(self.cluster_revision <= self.revision, "nor is the cluster")?;
        let mut draining = self.draining.iter();
        holds(
            draining.all(|queue| self.queues.contains_key(queue)),
            "only live queues have draining partitions to look after",
        )?;
        let mut moving = self.moving.iter();
        holds(
            moving.all(|queue| self.queues.contains_key(queue)),
            "only live queues have move tasks",
        )
    }

    fn check_removals(&self) -> Checked {
        holds(
            self.forgotten_revision <= self.revision,
            "what is forgotten has happened",
        )?;
        let mut at_ms = 0;
        for (revision, removal) in &self.removals {
            holds(
                *revision > self.forgotten_revision,
                "a remembered removal is not forgotten",
            )?;
            holds(
                *revision <= self.revision,
                "no removal is newer than the revision",
            )?;
            holds(
                !self.revisions.contains_key(revision),
                "a revision is of one change",
            )?;
            holds(
                (at_ms..=self.now).contains(&removal.at_ms),
                "removals are in order of time",
            )?;
            holds(
                self.deleted.contains_key(&removal.queue),
                "a removed queue is remembered",
            )?;
            at_ms = removal.at_ms;
        }
        for ((tenant, name), revision) in &self.freed_names {
            let removal = self.removals.get(revision);
            let removal = removal.ok_or("a freed name has its removal")?;
            holds(
                (removal.tenant, &removal.name) == (*tenant, name),
                "and it is of that name",
            )?;
            holds(
                self.queue_by_name(*tenant, name).is_none(),
                "a freed name is nobody's",
            )?;
        }
        Ok(())
    }

    fn check_pending(&self) -> Checked {
        for (queue, partitions) in &self.pending {
            let descriptor = self.descriptor(*queue);
            let descriptor = descriptor.ok_or("a pending queue has a descriptor")?;
            holds(
                !partitions.is_empty(),
                "a pending queue waits for a partition",
            )?;
            for (partition, confirmed) in partitions {
                holds(
                    descriptor.visited().any(|visited| visited == *partition),
                    "and it is one that may hold messages",
                )?;
                holds(
                    *confirmed < descriptor.version,
                    "which has not confirmed the version",
                )?;
            }
        }
        Ok(())
    }
}

pub(crate) fn holds(held: bool, belief: &'static str) -> Checked {
    if held { Ok(()) } else { Err(belief) }
}
