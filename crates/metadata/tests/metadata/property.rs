//! What holds in every life of a cluster.

use crate::model::{Model, Queue};
use crate::moves;
use crate::script::{Entry, PARTITIONS, entries, tenant};
use hikyaku_metadata::{
    Changes, ClusterRecord, GroupKey, Metadata, QueueRecord, Replicas, TenantId, TenantRecord,
    decode_entry, encode_entry,
};
use hikyaku_queue::{PartitionId, QueueId, QueueState};
use proptest::prelude::{ProptestConfig, prop_oneof, proptest};
use std::collections::{BTreeMap, BTreeSet};

/// A copy of the catalogue, as a node keeps one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Copy {
    cluster: Option<ClusterRecord>,
    replicas: BTreeMap<GroupKey, Replicas>,
    tenants: BTreeMap<TenantId, TenantRecord>,
    queues: BTreeMap<QueueId, QueueRecord>,
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 192,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn apply(metadata: &mut Metadata, index: u64, entry: &Entry) {
    let bytes = encode_entry(entry.now, &entry.envelopes);
    metadata.apply_entry(index, &bytes).unwrap();
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn answers_as_the_model_does(entries in prop_oneof![entries(), moves::entries()]) {
        let mut metadata = Metadata::new();
        let mut model = Model::new();
        for (index, entry) in (1..).zip(&entries) {
            let bytes = encode_entry(entry.now, &entry.envelopes);
            let outcomes = metadata.apply_entry(index, &bytes).unwrap();
            model.now = entry.now;
            assert_eq!(outcomes.len(), entry.envelopes.len());
            for (envelope, outcome) in entry.envelopes.iter().zip(outcomes) {
                assert_eq!(outcome.reply, model.apply(envelope), "to {envelope:?}");
            }
            compare(&metadata, &model);
        }
    }

    #[test]
    fn a_checkpoint_and_the_rest_of_the_log_give_the_same_state(entries in entries()) {
        let mut straight = Metadata::new();
        for (index, entry) in (1..).zip(&entries) {
            apply(&mut straight, index, entry);
        }
        let expected = straight.encode();

        let mut prefix = Metadata::new();
        for (index, entry) in (1..).zip(&entries) {
            apply(&mut prefix, index, entry);
            let bytes = prefix.encode();
            prefix = Metadata::decode(&bytes).unwrap();
            assert_eq!(prefix.encode(), bytes);
            let mut tail = prefix.clone();
            for (later, entry) in (1..).zip(&entries).filter(|(later, _)| *later > index) {
                apply(&mut tail, later, entry);
            }
            assert_eq!(tail.encode(), expected, "from the checkpoint at {index}");
        }
        assert_eq!(prefix.encode(), expected);
        assert_eq!(prefix, straight);
    }

    #[test]
    fn entries_round_trip(entries in entries()) {
        for entry in entries {
            let bytes = encode_entry(entry.now, &entry.envelopes);
            assert_eq!(decode_entry(&bytes).unwrap(), (entry.now, entry.envelopes));
        }
    }

    #[test]
    fn a_damaged_entry_changes_nothing(entries in entries(), cut in 1_usize..40) {
        let mut metadata = Metadata::new();
        for (index, entry) in (1..).zip(&entries) {
            let before = metadata.clone();
            let bytes = encode_entry(entry.now, &entry.envelopes);
            let shorter = &bytes[..bytes.len().saturating_sub(cut)];
            assert!(metadata.apply_entry(index, shorter).is_err());
            assert_eq!(metadata, before);
            apply(&mut metadata, index, entry);
        }
    }

    #[test]
    fn a_copy_catches_up_by_the_difference(
        entries in prop_oneof![entries(), moves::entries()],
    ) {
        let mut metadata = Metadata::new();
        let mut copies: Vec<(u64, Copy)> = vec![(0, Copy::default())];
        for (index, entry) in (1..).zip(&entries) {
            let revision = metadata.revision();
            let bytes = encode_entry(entry.now, &entry.envelopes);
            let outcomes = metadata.apply_entry(index, &bytes).unwrap();
            let told: BTreeSet<QueueId> =
                outcomes.into_iter().flat_map(|outcome| outcome.changed).collect();
            if let Changes::Since(difference) = metadata.changes_since(revision.max(1)) {
                let changed = difference.changed.iter().map(|record| record.descriptor.id);
                let found: BTreeSet<QueueId> = changed.chain(difference.removed).collect();
                assert!(revision == 0 || told.is_superset(&found), "{told:?} misses {found:?}");
            }
            let now = live(&metadata);
            for (revision, copy) in &copies {
                match metadata.changes_since(*revision) {
                    Changes::Since(_) => assert_eq!(caught_up(&metadata, *revision, copy), now),
                    Changes::FullResync => {
                        assert_eq!(caught_up(&metadata, 0, &Copy::default()), now);
                    }
                    Changes::Ahead => panic!("no copy is ahead"),
                }
            }
            copies.push((metadata.revision(), now));
        }
        assert_eq!(metadata.changes_since(metadata.revision() + 1), Changes::Ahead);
    }
}

fn live(metadata: &Metadata) -> Copy {
    let queues = [tenant(0), tenant(1)].into_iter();
    let queues = queues.flat_map(|tenant| metadata.list(tenant, "", None, usize::MAX));
    let queues = queues.map(|record| (record.descriptor.id, record.clone()));
    Copy {
        cluster: metadata.cluster().cloned(),
        replicas: metadata.groups().clone(),
        tenants: metadata
            .tenants()
            .map(|it| (it.tenant, it.clone()))
            .collect(),
        queues: queues.collect(),
    }
}

fn caught_up(metadata: &Metadata, revision: u64, copy: &Copy) -> Copy {
    let Changes::Since(difference) = metadata.changes_since(revision) else {
        panic!("a difference was there a moment ago");
    };
    assert_eq!(difference.revision, metadata.revision());
    assert!(
        revision < metadata.revision()
            || (difference.cluster.is_none()
                && difference.replicas.is_empty()
                && difference.tenants.is_empty()
                && difference.changed.is_empty()
                && difference.removed.is_empty()),
        "a copy that lacks nothing is told nothing"
    );
    let mut copy = copy.clone();
    if let Some(cluster) = difference.cluster {
        copy.cluster = Some(cluster.clone());
    }
    for (group, replicas) in difference.replicas {
        let before = copy.replicas.insert(group, replicas.clone());
        assert_ne!(before.as_ref(), Some(replicas), "nothing is told twice");
    }
    for tenant in difference.tenants {
        let before = copy.tenants.insert(tenant.tenant, tenant.clone());
        assert_ne!(before.as_ref(), Some(tenant), "nothing is told twice");
    }
    for queue in difference.removed {
        copy.queues.remove(&queue);
    }
    for record in difference.changed {
        copy.queues.insert(record.descriptor.id, record.clone());
    }
    copy
}

fn compare(metadata: &Metadata, model: &Model) {
    model.nodes.compare(metadata);
    model.tenants.compare(metadata);
    let pending: BTreeMap<(QueueId, PartitionId), u64> = metadata
        .pending_deliveries()
        .map(|(descriptor, partition)| ((descriptor.id, partition), descriptor.version))
        .collect();
    for queue in &model.queues {
        for partition in (0..PARTITIONS).map(PartitionId) {
            let waits = pending.get(&(queue.id, partition));
            let expected = queue.confirmed.get(&partition).map(|_| queue.version);
            assert_eq!(waits.copied(), expected, "{queue:?}");
        }
        for version in 0..=queue.version {
            let delivered = queue.confirmed.values().all(|held| *held >= version);
            assert_eq!(metadata.is_delivered(queue.id, version), delivered);
        }
        let record = metadata.queue(queue.id);
        if queue.deleted_at.is_some() {
            assert_eq!(record, None);
            let descriptor = metadata.descriptor(queue.id);
            assert!(descriptor.is_none_or(|it| it.state == QueueState::Deleted));
            assert!(
                descriptor.is_some() || queue.confirmed.is_empty(),
                "undelivered and forgotten"
            );
        } else {
            let record = record.expect("the model has it alive");
            assert_eq!(Queue::of(record, queue.confirmed.clone()), *queue);
            assert_eq!(
                metadata.queue_by_name(queue.tenant, &queue.name),
                Some(record)
            );
        }
    }
    assert_eq!(
        pending.len(),
        model
            .queues
            .iter()
            .map(|it| it.confirmed.len())
            .sum::<usize>()
    );
    for owner in [tenant(0), tenant(1)] {
        compare_lists(metadata, model, owner);
    }
}

fn compare_lists(metadata: &Metadata, model: &Model, owner: hikyaku_metadata::TenantId) {
    let alive = model
        .queues
        .iter()
        .filter(|it| it.tenant == owner && it.deleted_at.is_none());
    let names: BTreeSet<&str> = alive.map(|queue| &*queue.name).collect();
    for prefix in ["", "a", "ab", "b", "c"] {
        for after in [
            None,
            Some(""),
            Some("a"),
            Some("ab"),
            Some("ab.fifo"),
            Some("z"),
        ] {
            for limit in [0, 1, 2, 10] {
                let listed = metadata.list(owner, prefix, after, limit);
                let listed: Vec<&str> = listed.iter().map(|record| &*record.name).collect();
                let expected = names.iter().copied().filter(|name| {
                    name.starts_with(prefix) && after.is_none_or(|after| *name > after)
                });
                assert_eq!(listed, expected.take(limit).collect::<Vec<_>>());
            }
        }
    }
}
