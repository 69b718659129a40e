//! One story each, as SQS's users and the cluster's nodes know them.

use crate::harness::{Cluster, SECOND, create, delay};
use crate::script::{PARTITIONS, cluster, envelope, tenant};
use hikyaku_metadata::{
    Attributes, ChangeSettings, Changes, ClusterRecord, ClusterSettings, Command, CreateQueue,
    CreateQueueError, Created, DeleteQueueError, Found, FoundError, PurgeQueue, PurgeQueueError,
    REMOVAL_MEMORY_MS, Reply, UntagQueue, encode_entry, home_partition,
};
use hikyaku_queue::{QueueId, QueueState};
use std::collections::BTreeMap;

#[test]
fn no_queue_before_the_cluster_is_founded() {
    let mut cluster = Cluster::empty();
    let reply = cluster.ask(0, create("orders", Attributes::default()));
    assert_eq!(
        reply,
        Reply::QueueCreated(Err(CreateQueueError::NotFounded))
    );
}

#[test]
fn a_cluster_is_founded_once() {
    let mut founded = Cluster::founded();
    let again = founded.ask(1, Command::Found(Found::everywhere(cluster())));
    assert_eq!(again, Reply::Founded(Ok(())));
    let other = ClusterRecord {
        cluster_id: 0xc2,
        ..cluster()
    };
    let reply = founded.ask(2, Command::Found(Found::everywhere(other)));
    assert_eq!(
        reply,
        Reply::Founded(Err(FoundError::AlreadyFounded { cluster_id: 0xc1 }))
    );
    assert_eq!(founded.metadata.cluster(), Some(&cluster()));
}

#[test]
fn a_cluster_needs_partitions_nodes_and_keys() {
    let broken = [
        (
            ClusterRecord {
                partitions: 0,
                ..cluster()
            },
            FoundError::NoPartitions,
        ),
        (
            ClusterRecord {
                nodes: vec![],
                ..cluster()
            },
            FoundError::NoNodes,
        ),
        (
            ClusterRecord {
                handle_keys: vec![],
                ..cluster()
            },
            FoundError::HandleKeys(0),
        ),
        (
            ClusterRecord {
                handle_keys: vec![(1, [0; 64]); 3],
                ..cluster()
            },
            FoundError::HandleKeys(3),
        ),
    ];
    for (record, error) in broken {
        let mut cluster = Cluster::empty();
        let reply = cluster.ask(0, Command::Found(Found::everywhere(record)));
        assert_eq!(reply, Reply::Founded(Err(error)));
        assert_eq!(cluster.metadata.cluster(), None);
    }
}

#[test]
fn the_name_of_a_deleted_queue_is_free_after_a_minute_and_its_id_never() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    assert_eq!(
        cluster.delete(10 * SECOND, queue),
        Reply::QueueDeleted(Ok(2))
    );
    assert_eq!(cluster.metadata.queue_by_name(tenant(0), "orders"), None);

    let reply = cluster.ask(69_999, create("orders", Attributes::default()));
    let recently = CreateQueueError::DeletedRecently { wait_ms: 1 };
    assert_eq!(reply, Reply::QueueCreated(Err(recently)));
    let again = cluster.create(70 * SECOND, "orders");
    assert!(again > queue);
    let gone = Reply::QueueDeleted(Err(DeleteQueueError::NoSuchQueue(queue)));
    assert_eq!(cluster.delete(71 * SECOND, queue), gone);
}

#[test]
fn an_operator_can_allow_at_once_what_sqs_allows_after_a_minute() {
    let mut cluster = Cluster::founded();
    let settings = ClusterSettings { cooldown_ms: 0 };
    let reply = cluster.ask(0, Command::ChangeSettings(ChangeSettings(settings)));
    assert_eq!(reply, Reply::SettingsChanged(Ok(())));
    let queue = cluster.create(1, "orders");
    cluster.delete(2, queue);
    let queue_again = cluster.create(2, "orders");
    assert!(queue_again > queue);
    assert_eq!(cluster.purge(3, queue_again), Reply::QueuePurged(Ok(2)));
    assert_eq!(cluster.purge(3, queue_again), Reply::QueuePurged(Ok(3)));
}

#[test]
fn a_name_belongs_to_one_tenant() {
    let mut cluster = Cluster::founded();
    let mine = cluster.create(0, "orders");
    let theirs = CreateQueue {
        tenant: tenant(1),
        name: "orders".to_owned(),
        fifo: false,
        attributes: Attributes::default(),
        tags: BTreeMap::new(),
    };
    let reply = cluster.ask(1, Command::CreateQueue(theirs));
    assert!(matches!(
        reply,
        Reply::QueueCreated(Ok(Created { existed: false, .. }))
    ));
    assert_eq!(cluster.metadata.list(tenant(0), "", None, 10).len(), 1);
    assert_ne!(
        cluster
            .metadata
            .queue_by_name(tenant(1), "orders")
            .unwrap()
            .descriptor
            .id,
        mine
    );
}

#[test]
fn a_queue_is_purged_once_a_minute() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    assert_eq!(cluster.purge(10 * SECOND, queue), Reply::QueuePurged(Ok(2)));
    assert_eq!(cluster.record(queue).descriptor.purge_epoch, 1);
    let early = PurgeQueueError::InProgress { wait_ms: 1 };
    assert_eq!(cluster.purge(69_999, queue), Reply::QueuePurged(Err(early)));
    assert_eq!(cluster.purge(70 * SECOND, queue), Reply::QueuePurged(Ok(3)));
}

#[test]
fn only_a_changed_descriptor_is_delivered() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    let wait = Attributes {
        receive_wait_seconds: Some(20),
        ..Attributes::default()
    };
    assert_eq!(cluster.set(1, queue, wait), Reply::AttributesSet(Ok(1)));
    assert_eq!(cluster.record(queue).modified_at_ms, 1);
    assert_eq!(cluster.pending(), []);

    assert_eq!(cluster.set(2, queue, delay(5)), Reply::AttributesSet(Ok(2)));
    let home = home_partition(queue, PARTITIONS);
    assert_eq!(cluster.pending(), [(queue, 2, home)]);
    assert!(!cluster.metadata.is_delivered(queue, 2));
    cluster.deliver(3, queue, 2);
    assert_eq!(cluster.pending(), []);
    assert!(cluster.metadata.is_delivered(queue, 2));
}

#[test]
fn a_confirmation_of_an_older_version_is_not_enough() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    cluster.set(1, queue, delay(5));
    cluster.set(2, queue, delay(6));
    cluster.deliver(3, queue, 2);
    assert_eq!(
        cluster.pending(),
        [(queue, 3, home_partition(queue, PARTITIONS))]
    );
    assert!(
        cluster.metadata.is_delivered(queue, 2),
        "whoever waits for version 2 may go on"
    );
    cluster.deliver(4, queue, 3);
    assert_eq!(cluster.pending(), []);
}

#[test]
fn a_deleted_queue_is_remembered_until_its_partition_has_heard() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    cluster.delete(1, queue);
    cluster.ask(60 * SECOND, Command::Housekeep);
    let late = 1 + REMOVAL_MEMORY_MS;
    assert!(!cluster.metadata.housekeeping_due(late - 1));
    assert!(cluster.metadata.housekeeping_due(late));
    cluster.ask(late, Command::Housekeep);
    let descriptor = cluster.metadata.descriptor(queue).unwrap();
    assert_eq!(
        (descriptor.state, descriptor.version),
        (QueueState::Deleted, 2)
    );

    cluster.deliver(late + 1, queue, 2);
    assert_eq!(cluster.metadata.descriptor(queue), None);
}

#[test]
fn a_copy_that_slept_through_a_forgotten_removal_starts_anew() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    let slept = cluster.metadata.revision();
    cluster.delete(1, queue);
    let Changes::Since(difference) = cluster.metadata.changes_since(slept) else {
        panic!("the removal is remembered");
    };
    assert_eq!(
        (difference.changed.len(), difference.removed),
        (0, vec![queue])
    );

    cluster.ask(1 + REMOVAL_MEMORY_MS, Command::Housekeep);
    assert_eq!(cluster.metadata.changes_since(slept), Changes::FullResync);
    let current = cluster.metadata.revision();
    assert!(matches!(
        cluster.metadata.changes_since(current),
        Changes::Since(_)
    ));
}

#[test]
fn a_retry_gets_the_same_answer_and_tells_of_no_change() {
    let mut cluster = Cluster::founded();
    let asked = create("orders", Attributes::default());
    let first = cluster.request(0, 7, 20 * SECOND, asked.clone());
    let again = cluster.request(20 * SECOND, 7, 20 * SECOND, asked.clone());
    assert_eq!(again.reply, first.reply);
    assert_eq!((first.changed.len(), again.changed.len()), (1, 0));

    let too_late = cluster.request(20_001, 7, 20 * SECOND, asked);
    assert_eq!(too_late.reply, Reply::Late);
}

#[test]
fn a_late_command_has_no_effect() {
    let mut cluster = Cluster::founded();
    let outcome = cluster.request(10, 7, 9, create("orders", Attributes::default()));
    assert_eq!((outcome.reply, outcome.changed), (Reply::Late, vec![]));
    assert_eq!(cluster.metadata.queue_by_name(tenant(0), "orders"), None);
}

#[test]
fn time_never_goes_back() {
    let mut cluster = Cluster::founded();
    cluster.create(10 * SECOND, "orders");
    let queue = cluster.create(5 * SECOND, "later");
    assert_eq!(cluster.record(queue).created_at_ms, 10 * SECOND);
    assert_eq!(cluster.metadata.now(), 10 * SECOND);
}

#[test]
fn what_changes_nothing_has_no_revision() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    let revision = cluster.metadata.revision();
    let keys = ["absent".to_owned()].into();
    let untag = Command::UntagQueue(UntagQueue { queue, keys });
    let outcome = cluster.request(1, 1, 2, untag);
    assert_eq!(
        (outcome.reply, outcome.changed),
        (Reply::Untagged(Ok(())), vec![])
    );
    assert_eq!(cluster.metadata.revision(), revision);
}

#[test]
fn housekeeping_is_bounded_and_comes_again() {
    let mut cluster = Cluster::founded();
    let envelopes: Vec<_> = (0..10_001_u128)
        .map(|id| {
            envelope(
                1 << 64 | id,
                5,
                Command::PurgeQueue(PurgeQueue { queue: QueueId(1) }),
            )
        })
        .collect();
    cluster.entries += 1;
    let bytes = encode_entry(5, &envelopes);
    cluster
        .metadata
        .apply_entry(cluster.entries, &bytes)
        .unwrap();
    let far = 60 * SECOND;
    cluster.ask(far, Command::Housekeep);
    assert!(
        cluster.metadata.housekeeping_due(far),
        "one more than the limit was there"
    );
    cluster.ask(far, Command::Housekeep);
    assert!(!cluster.metadata.housekeeping_due(far));
}

#[test]
#[should_panic(expected = "entry 1 comes after entry 1")]
fn an_entry_is_applied_once() {
    let mut cluster = Cluster::founded();
    let _ = cluster.metadata.apply_entry(1, &encode_entry(0, &[]));
}
