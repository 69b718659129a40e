//! Stories of queues and their dead-letter queues.

use crate::harness::{Cluster, create};
use crate::script::PARTITIONS;
use hikyaku_metadata::{Attributes, Metadata, QueueRecord, RedriveTarget, home_partition};
use hikyaku_queue::{QueueId, Redrive};

fn policy(queue: &str, max_receive_count: u32) -> Attributes {
    let target = RedriveTarget {
        queue: queue.to_owned(),
        max_receive_count,
    };
    Attributes {
        redrive_target: Some(Some(target)),
        ..Attributes::default()
    }
}

fn to(target: QueueId, max_receive_count: u32) -> Option<Redrive> {
    Some(Redrive {
        target,
        max_receive_count,
        source: "orders".to_owned(),
    })
}

impl Cluster {
    fn redrive(&self, queue: QueueId) -> Option<Redrive> {
        self.record(queue).descriptor.redrive.clone()
    }
}

#[test]
fn a_source_lives_where_its_dead_letter_queue_does() {
    let mut cluster = Cluster::founded();
    let dead = cluster.create(0, "dead");
    for number in 0..8 {
        cluster.ask(0, create(&format!("orders{number}"), policy("dead", 3)));
    }
    let home = home_partition(dead, PARTITIONS);
    for number in 1..=8 {
        let source = cluster.record(QueueId(dead.0 + number));
        assert_eq!(source.descriptor.spread, [home]);
    }
}

#[test]
fn the_descriptor_follows_the_queue_that_has_the_name() {
    let mut cluster = Cluster::founded();
    let dead = cluster.create(0, "dead");
    let orders = cluster.create(0, "orders");
    cluster.set(1, orders, policy("dead", 3));
    assert_eq!(cluster.redrive(orders), to(dead, 3));
    let version = cluster.record(orders).descriptor.version;

    cluster.delete(2, dead);
    assert_eq!(cluster.redrive(orders), None);
    assert_eq!(cluster.record(orders).descriptor.version, version + 1);

    let anew = cluster.create(2 + 600_000, "dead");
    assert_eq!(cluster.redrive(orders), to(anew, 3));
    let bytes = cluster.metadata.encode();
    assert_eq!(Metadata::decode(&bytes).unwrap(), cluster.metadata);

    let removed = Attributes {
        redrive_target: Some(None),
        ..Attributes::default()
    };
    cluster.set(2 + 600_000, orders, removed);
    assert_eq!(cluster.redrive(orders), None);
}

#[test]
fn a_queue_of_the_other_kind_is_no_dead_letter_queue() {
    let mut cluster = Cluster::founded();
    cluster.create(0, "dead.fifo");
    let orders = cluster.create(0, "orders");
    cluster.set(1, orders, policy("dead.fifo", 3));
    assert_eq!(cluster.redrive(orders), None);
}

#[test]
fn a_record_with_a_redrive_target_comes_back() {
    let mut cluster = Cluster::founded();
    cluster.create(0, "dead");
    let orders = cluster.create(0, "orders");
    cluster.set(1, orders, policy("dead", 1_000));
    let record = cluster.record(orders);
    assert_eq!(&QueueRecord::decode(&record.encode()).unwrap(), record);
}

#[test]
fn a_dead_letter_queue_follows_its_sources() {
    for suffix in ["", ".fifo"] {
        let name = |base: &str| format!("{base}{suffix}");
        let mut cluster = Cluster::founded();
        let last = cluster.create(0, &name("last"));
        let dead = cluster.create(0, &name("dead"));
        let spread = cluster.record(dead).descriptor.spread.clone();
        cluster.set(1, dead, policy(&name("last"), 3));
        for number in 0..6 {
            let source = cluster.create(1, &name(&format!("orders{number}")));
            cluster.set(2, source, policy(&name("dead"), 3));
            for partition in cluster.record(source).descriptor.visited() {
                for queue in [dead, last] {
                    let descriptor = &cluster.record(queue).descriptor;
                    assert!(descriptor.takes_moves(partition));
                }
            }
        }
        let descriptor = &cluster.record(dead).descriptor;
        assert_eq!(descriptor.spread, spread, "it takes sends where it did");
        assert!(!descriptor.guests.is_empty());
        let bytes = cluster.metadata.encode();
        assert_eq!(Metadata::decode(&bytes).unwrap(), cluster.metadata);
    }
}

#[test]
fn a_guest_that_comes_into_the_spread_is_no_guest_any_more() {
    let mut cluster = Cluster::founded();
    let dead = cluster.create(0, "dead");
    for number in 0..6 {
        let source = cluster.create(1, &format!("orders{number}"));
        cluster.set(2, source, policy("dead", 3));
    }
    let width = |width| Attributes {
        spread_width: Some(width),
        ..Attributes::default()
    };
    cluster.set(3, dead, width(PARTITIONS));
    assert_eq!(cluster.record(dead).descriptor.guests, []);
    cluster.set(4, dead, width(1));
    let descriptor = &cluster.record(dead).descriptor;
    assert_eq!(descriptor.spread.len(), 1);
    assert!((0..PARTITIONS).all(|it| descriptor.visited().any(|at| at.0 == it)));
}

#[test]
fn queues_that_are_each_others_dead_letter_queues_come_to_rest() {
    let mut cluster = Cluster::founded();
    let one = cluster.create(0, "one");
    let other = cluster.create(0, "other");
    let third = cluster.create(0, "third");
    cluster.set(1, one, policy("other", 1));
    cluster.set(1, other, policy("third", 1));
    cluster.set(1, third, policy("one", 1));
    cluster.set(1, one, policy("one", 1));
    cluster.metadata.validate();
}
