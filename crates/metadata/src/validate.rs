//! Everything that is believed of the metadata, asserted.

use crate::machine::{DeletedQueue, Metadata};
use crate::record::{FifoThroughputLimit, QueueRecord};
use hikyaku_queue::{DeduplicationScope, Descriptor, QueueKind, QueueState};
use std::collections::BTreeSet;

impl Metadata {
    /// Asserts every invariant; debug builds do so after each entry.
    ///
    /// # Panics
    /// When one is broken, naming it.
    pub fn validate(&self) {
        for record in self.queues.values() {
            self.validate_record(record);
        }
        for deleted in self.deleted.values() {
            self.validate_deleted(deleted);
        }
        self.validate_indexes();
        self.validate_removals();
        self.validate_pending();
        self.requests.validate();
    }

    fn validate_record(&self, record: &QueueRecord) {
        let queue = record.descriptor.id;
        assert_eq!(
            self.queues.get(&queue),
            Some(record),
            "a record is kept under its id"
        );
        assert_eq!(
            record.descriptor.state,
            QueueState::Active,
            "a record is of a live queue"
        );
        let named = self.queue_by_name(record.tenant, &record.name);
        assert_eq!(named, Some(record), "a live queue is found by its name");
        let at_revision = self.revisions.get(&record.revision);
        assert_eq!(
            at_revision,
            Some(&queue),
            "a live queue is found by its revision"
        );
        assert!(
            record.modified_at_ms <= self.now,
            "no record is from the future"
        );
        let settings = &record.settings;
        assert!(
            settings.kms_master_key_id.is_empty() || !settings.sqs_managed_sse,
            "a queue has one kind of encryption"
        );
        assert!(
            settings.fifo_throughput_limit == FifoThroughputLimit::PerQueue
                || settings.deduplication_scope == DeduplicationScope::MessageGroup,
            "throughput is limited per message group only if deduplication is"
        );
        assert_eq!(
            self.draining.contains(&queue),
            !record.descriptor.draining.is_empty(),
            "queues with draining partitions are found"
        );
        self.validate_descriptor(&record.descriptor);
    }

    fn validate_deleted(&self, deleted: &DeletedQueue) {
        let DeletedQueue {
            descriptor,
            revision,
        } = deleted;
        assert_eq!(
            descriptor.state,
            QueueState::Deleted,
            "a deleted queue's descriptor says so"
        );
        assert!(
            !self.queues.contains_key(&descriptor.id),
            "a deleted queue is not alive"
        );
        assert!(
            self.removals.contains_key(revision) || self.pending.contains_key(&descriptor.id),
            "a deleted queue is kept while remembered or pending"
        );
        self.validate_descriptor(descriptor);
    }

    fn validate_descriptor(&self, descriptor: &Descriptor) {
        assert!(descriptor.id.0 < self.next_queue, "queue ids are counted");
        let cluster = self
            .cluster
            .as_ref()
            .expect("queues are made in founded clusters");
        assert!(!descriptor.spread.is_empty(), "a queue is somewhere");
        let mut visited = BTreeSet::new();
        for partition in descriptor.visited() {
            assert!(
                partition.0 < cluster.partitions,
                "a spread is of partitions that exist"
            );
            assert!(
                visited.insert(partition),
                "a partition is in the spread or draining, once"
            );
        }
        assert!(
            descriptor.draining.is_empty() || descriptor.kind == QueueKind::Standard,
            "a FIFO queue keeps its spread"
        );
    }

    fn validate_indexes(&self) {
        let named: usize = self.names.values().map(|names| names.len()).sum();
        assert_eq!(named, self.queues.len(), "names are of live queues");
        assert!(
            self.names.values().all(|names| !names.is_empty()),
            "a tenant with names has one"
        );
        assert_eq!(
            self.revisions.len(),
            self.queues.len(),
            "revisions are of live queues"
        );
        let last = self
            .revisions
            .last_key_value()
            .map_or(0, |(revision, _)| *revision);
        assert!(
            last <= self.revision,
            "no record is newer than the revision"
        );
        assert!(self.cluster_revision <= self.revision, "nor is the cluster");
        assert!(
            self.draining.iter().all(|it| self.queues.contains_key(it)),
            "only live queues have draining partitions to look after"
        );
    }

    fn validate_removals(&self) {
        assert!(
            self.forgotten_revision <= self.revision,
            "what is forgotten has happened"
        );
        let mut at_ms = 0;
        for (revision, removal) in &self.removals {
            assert!(
                *revision > self.forgotten_revision,
                "a remembered removal is not forgotten"
            );
            assert!(
                *revision <= self.revision,
                "no removal is newer than the revision"
            );
            assert!(
                !self.revisions.contains_key(revision),
                "a revision is of one change"
            );
            assert!(
                (at_ms..=self.now).contains(&removal.at_ms),
                "removals are in order of time"
            );
            assert!(
                self.deleted.contains_key(&removal.queue),
                "a removed queue is remembered"
            );
            at_ms = removal.at_ms;
        }
        for ((tenant, name), revision) in &self.freed_names {
            let removal = self
                .removals
                .get(revision)
                .expect("a freed name has its removal");
            assert_eq!(
                (removal.tenant, &removal.name),
                (*tenant, name),
                "and it is of that name"
            );
            assert!(
                self.queue_by_name(*tenant, name).is_none(),
                "a freed name is nobody's"
            );
        }
    }

    fn validate_pending(&self) {
        for (queue, partitions) in &self.pending {
            let descriptor = self
                .descriptor(*queue)
                .expect("a pending queue has a descriptor");
            assert!(
                !partitions.is_empty(),
                "a pending queue waits for a partition"
            );
            for (partition, confirmed) in partitions {
                assert!(
                    descriptor.visited().any(|it| it == *partition),
                    "and it is one that may hold messages"
                );
                assert!(
                    *confirmed < descriptor.version,
                    "which has not confirmed the version"
                );
            }
        }
    }
}
