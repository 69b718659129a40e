//! Stories of queues on several partitions.

use crate::harness::{Cluster, create, delay};
use crate::script::PARTITIONS;
use hikyaku_metadata::{
    AttributeError, AttributeName, Attributes, Command, CreateQueueError, DescriptorDelivered,
    PartitionEmptied, Reply, SetAttributesError, WidenSpread, home_partition, spread,
};
use hikyaku_queue::{DeduplicationScope, PartitionId, QueueId};

const QUEUE: QueueId = QueueId(1);

fn wide(width: u32) -> Attributes {
    Attributes {
        spread_width: Some(width),
        ..Attributes::default()
    }
}

impl Cluster {
    fn emptied(&mut self, now: u64, version: u64, partition: PartitionId) {
        let emptied = PartitionEmptied {
            queue: QUEUE,
            version,
            partition,
        };
        let reply = self.ask(now, Command::PartitionEmptied(emptied));
        assert_eq!(reply, Reply::PartitionEmptied);
    }

    fn pending_partitions(&self) -> Vec<PartitionId> {
        let mut pending: Vec<_> = self.pending().into_iter().map(|(_, _, at)| at).collect();
        pending.sort_unstable();
        pending
    }
}

#[test]
fn fifo_queues_spread_when_duplicates_are_per_message_group() {
    let mut cluster = Cluster::founded();
    let by_group = Attributes {
        deduplication_scope: Some(DeduplicationScope::MessageGroup),
        ..Attributes::default()
    };
    cluster.ask(0, create("wide.fifo", by_group));
    let narrow = cluster.create(0, "narrow.fifo");
    let all = spread(QUEUE, PARTITIONS, PARTITIONS);
    assert_eq!(cluster.record(QUEUE).descriptor.spread, all);
    let home = home_partition(narrow, PARTITIONS);
    assert_eq!(cluster.record(narrow).descriptor.spread, [home]);
}

#[test]
fn every_partition_of_the_spread_hears_of_a_change() {
    let mut cluster = Cluster::founded();
    cluster.ask(0, create("orders", wide(3)));
    assert!(cluster.pending().is_empty(), "a new queue is fetched");
    cluster.set(1, QUEUE, delay(5));
    let mut expected = spread(QUEUE, PARTITIONS, 3);
    expected.sort_unstable();
    assert_eq!(cluster.pending_partitions(), expected);
    cluster.deliver(2, QUEUE, 2);
    assert!(!cluster.metadata.is_delivered(QUEUE, 2));
    assert_eq!(cluster.pending_partitions().len(), 2);
}

#[test]
fn a_wider_spread_reaches_the_new_partitions() {
    let mut cluster = Cluster::founded();
    cluster.create(0, "orders");
    assert_eq!(cluster.set(1, QUEUE, wide(2)), Reply::AttributesSet(Ok(2)));
    let record = cluster.record(QUEUE);
    assert_eq!(record.settings.spread_width, 2);
    assert_eq!(record.descriptor.spread, spread(QUEUE, PARTITIONS, 2));
    assert!(record.descriptor.draining.is_empty());
    assert_eq!(cluster.pending_partitions().len(), 2);
}

#[test]
fn more_than_there_are_is_all_there_are() {
    let mut cluster = Cluster::founded();
    cluster.ask(0, create("orders", wide(32)));
    let record = cluster.record(QUEUE);
    assert_eq!(record.descriptor.spread.len(), PARTITIONS as usize);
    assert_eq!(record.settings.spread_width, 32, "and reads back as asked");
}

#[test]
fn a_narrower_spread_drains_what_leaves_it() {
    let mut cluster = Cluster::founded();
    cluster.ask(0, create("orders", wide(3)));
    let before = spread(QUEUE, PARTITIONS, 3);
    cluster.set(1, QUEUE, wide(1));
    let descriptor = &cluster.record(QUEUE).descriptor;
    assert_eq!(descriptor.spread, before[..1]);
    assert_eq!(descriptor.draining, before[1..]);
    assert_eq!(cluster.pending_partitions().len(), 3);

    let draining = |cluster: &Cluster| -> Vec<PartitionId> {
        cluster.metadata.draining().map(|(_, at)| at).collect()
    };
    assert_eq!(draining(&cluster), [], "nobody has confirmed it");
    let delivered = DescriptorDelivered {
        queue: QUEUE,
        version: 2,
        partition: before[1],
    };
    cluster.ask(2, Command::DescriptorDelivered(delivered));
    assert_eq!(draining(&cluster), before[1..2]);

    cluster.emptied(2, 2, before[1]);
    let descriptor = &cluster.record(QUEUE).descriptor;
    assert_eq!(
        (descriptor.version, &*descriptor.draining),
        (3, &before[2..])
    );
    assert!(!cluster.pending_partitions().contains(&before[1]));
}

#[test]
fn a_partition_that_came_back_is_not_let_go_by_an_old_report() {
    let mut cluster = Cluster::founded();
    cluster.ask(0, create("orders", wide(2)));
    let both = spread(QUEUE, PARTITIONS, 2);
    cluster.set(1, QUEUE, wide(1));
    cluster.set(2, QUEUE, wide(2));
    cluster.emptied(3, 2, both[1]);
    let descriptor = &cluster.record(QUEUE).descriptor;
    assert_eq!(descriptor.spread, both);
    cluster.set(4, QUEUE, wide(1));
    cluster.emptied(5, 2, both[1]);
    let descriptor = &cluster.record(QUEUE).descriptor;
    assert_eq!(
        descriptor.draining,
        both[1..],
        "not asked since it left again"
    );
}

#[test]
fn a_deleted_queue_is_gone_from_draining_partitions_too() {
    let mut cluster = Cluster::founded();
    cluster.ask(0, create("orders", wide(3)));
    cluster.set(1, QUEUE, wide(1));
    cluster.delete(2, QUEUE);
    assert_eq!(cluster.pending_partitions().len(), 3);
    cluster.emptied(3, 3, spread(QUEUE, PARTITIONS, 3)[2]);
    assert_eq!(cluster.pending_partitions().len(), 3);
}

#[test]
fn a_queue_without_a_wish_is_as_a_new_one() {
    let mut cluster = Cluster::founded();
    cluster.ask(0, create("orders", wide(3)));
    cluster.set(1, QUEUE, wide(0));
    let descriptor = &cluster.record(QUEUE).descriptor;
    assert_eq!(descriptor.spread, [home_partition(QUEUE, PARTITIONS)]);
    cluster.set(2, QUEUE, delay(5));
    assert_eq!(cluster.record(QUEUE).descriptor.draining.len(), 2);
}

#[test]
fn fifo_queues_keep_their_spread() {
    let mut cluster = Cluster::founded();
    let error = AttributeError::StandardOnly(AttributeName::Spread);
    let reply = cluster.ask(0, create("orders.fifo", wide(2)));
    let refused = Err(CreateQueueError::Attributes(error));
    assert_eq!(reply, Reply::QueueCreated(refused));
    cluster.create(1, "orders.fifo");
    let refused = Err(SetAttributesError::Attributes(error));
    assert_eq!(
        cluster.set(2, QUEUE, wide(1)),
        Reply::AttributesSet(refused)
    );
}

#[test]
fn creating_again_compares_the_wish() {
    let mut cluster = Cluster::founded();
    cluster.ask(0, create("orders", wide(2)));
    let reply = cluster.ask(1, create("orders", wide(3)));
    let different = CreateQueueError::ExistsWithDifferent(AttributeName::Spread);
    assert_eq!(reply, Reply::QueueCreated(Err(different)));
    assert_eq!(
        different.to_string(),
        "a queue of this name has a different Hikyaku.Spread"
    );
}

#[test]
fn a_busy_queue_doubles_its_spread_a_version_each() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    let widths = [2, 4, 4];
    for (now, (version, width)) in (1..).zip((1..).zip(widths)) {
        let widen = Command::WidenSpread(WidenSpread { queue, version });
        // The second to ask under this version is too late.
        for _ in 0..2 {
            assert_eq!(cluster.ask(now, widen.clone()), Reply::SpreadWidened);
        }
        assert_eq!(cluster.record(queue).descriptor.spread.len(), width);
    }
    let record = cluster.record(queue);
    assert_eq!(record.descriptor.version, 3, "there are no more than four");
    assert_eq!(record.settings.spread_width, 0);
}

#[test]
fn only_queues_without_a_wish_grow() {
    let mut cluster = Cluster::founded();
    cluster.ask(0, create("pinned", wide(1)));
    let fifo = cluster.create(0, "orders.fifo");
    for queue in [QUEUE, fifo] {
        let widen = WidenSpread { queue, version: 1 };
        cluster.ask(1, Command::WidenSpread(widen));
        assert_eq!(cluster.record(queue).descriptor.spread.len(), 1);
    }
}
