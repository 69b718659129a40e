//! What attributes and tags do, one story each.

use crate::harness::{Cluster, SECOND, create, delay};
use hikyaku_metadata::{
    AttributeError, AttributeName, Attributes, Command, CreateQueueError, Created,
    FifoThroughputLimit, ReplacePolicy, ReplacePolicyError, Reply, SetAttributesError, TagQueue,
    TagQueueError, UntagQueue,
};
use hikyaku_queue::{DeduplicationScope, QueueId, QueueKind};
use std::collections::BTreeMap;

#[test]
fn a_new_queue_has_the_defaults_of_sqs_and_waits_for_nobody() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(5 * SECOND, "orders");
    let record = cluster.record(queue);
    assert_eq!(
        (record.created_at_ms, record.modified_at_ms),
        (5 * SECOND, 5 * SECOND)
    );
    assert_eq!(record.descriptor.kind, QueueKind::Standard);
    assert_eq!(record.descriptor.visibility_timeout_ms, 30 * SECOND);
    assert_eq!(record.descriptor.retention_ms, 4 * 24 * 3_600 * SECOND);
    assert_eq!(record.descriptor.in_flight_limit, 120_000);
    assert_eq!(record.settings.max_message_bytes, 1_048_576);
    assert!(record.settings.sqs_managed_sse);
    assert_eq!(cluster.pending(), []);
}

#[test]
fn creating_again_compares_only_what_was_given_with_current_values() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    cluster.set(1, queue, delay(5 * SECOND));

    let found = Reply::QueueCreated(Ok(Created {
        queue,
        existed: true,
    }));
    assert_eq!(
        cluster.ask(2, create("orders", Attributes::default())),
        found
    );
    assert_eq!(cluster.ask(3, create("orders", delay(5 * SECOND))), found);
    let different = CreateQueueError::ExistsWithDifferent(AttributeName::DelaySeconds);
    let reply = cluster.ask(4, create("orders", delay(0)));
    assert_eq!(reply, Reply::QueueCreated(Err(different)));
    assert_eq!(
        different.to_string(),
        "a queue of this name has a different DelaySeconds"
    );
}

#[test]
fn the_deduplication_scope_at_creation_rules_and_the_later_one_reads_back() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders.fifo");
    let scope = Some(DeduplicationScope::MessageGroup);
    let given = Attributes {
        deduplication_scope: scope,
        ..Attributes::default()
    };
    assert_eq!(cluster.set(1, queue, given), Reply::AttributesSet(Ok(1)));
    let record = cluster.record(queue);
    assert_eq!(
        record.settings.deduplication_scope,
        DeduplicationScope::MessageGroup
    );
    let kind = QueueKind::Fifo {
        dedup_scope: DeduplicationScope::Queue,
    };
    assert_eq!(record.descriptor.kind, kind);
    assert_eq!(record.descriptor.spread.len(), 1);
}

#[test]
fn attributes_that_do_not_go_together_are_refused_whole() {
    let mut cluster = Cluster::founded();
    let standard = cluster.create(0, "orders");
    let fifo = cluster.create(0, "orders.fifo");
    let content = Attributes {
        content_based_deduplication: Some(true),
        ..delay(5)
    };
    let per_group = Attributes {
        fifo_throughput_limit: Some(FifoThroughputLimit::PerMessageGroupId),
        ..delay(5)
    };
    let both = Attributes {
        kms_master_key_id: Some("key".to_owned()),
        sqs_managed_sse: Some(true),
        ..delay(5)
    };
    let cases = [
        (
            standard,
            content,
            AttributeError::FifoOnly(AttributeName::ContentBasedDeduplication),
        ),
        (
            fifo,
            per_group,
            AttributeError::ThroughputLimitNeedsMessageGroupScope,
        ),
        (standard, both, AttributeError::TwoEncryptions),
    ];
    for (queue, attributes, error) in cases {
        let reply = cluster.set(1, queue, attributes);
        assert_eq!(
            reply,
            Reply::AttributesSet(Err(SetAttributesError::Attributes(error)))
        );
        assert_eq!(cluster.record(queue).descriptor.delay_ms, 0);
    }
}

#[test]
fn a_kms_key_displaces_sse_and_its_removal_does_not_bring_it_back() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    let key = |text: &str| Attributes {
        kms_master_key_id: Some(text.to_owned()),
        ..Attributes::default()
    };
    cluster.set(1, queue, key("alias/mine"));
    assert!(!cluster.record(queue).settings.sqs_managed_sse);
    cluster.set(2, queue, key(""));
    let settings = &cluster.record(queue).settings;
    assert_eq!(
        (settings.sqs_managed_sse, &*settings.kms_master_key_id),
        (false, "")
    );
}

#[test]
fn sse_displaces_a_kms_key() {
    let mut cluster = Cluster::founded();
    let kms_master_key_id = Some("alias/mine".to_owned());
    cluster.ask(
        0,
        create(
            "orders",
            Attributes {
                kms_master_key_id,
                ..Attributes::default()
            },
        ),
    );
    let queue = QueueId(1);
    assert!(!cluster.record(queue).settings.sqs_managed_sse);
    let sse = Attributes {
        sqs_managed_sse: Some(true),
        ..Attributes::default()
    };
    cluster.set(1, queue, sse);
    let settings = &cluster.record(queue).settings;
    assert_eq!(
        (settings.sqs_managed_sse, &*settings.kms_master_key_id),
        (true, "")
    );
}

#[test]
fn a_policy_is_replaced_only_by_those_who_read_it() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    let replace = |current: &str, policy: &str| {
        Command::ReplacePolicy(ReplacePolicy {
            queue,
            current: current.to_owned(),
            policy: policy.to_owned(),
        })
    };
    let replaced = Reply::PolicyReplaced(Ok(()));
    assert_eq!(cluster.ask(1, replace("", "one")), replaced);
    let beaten = Reply::PolicyReplaced(Err(ReplacePolicyError::Changed));
    assert_eq!(cluster.ask(2, replace("", "other")), beaten);
    let record = cluster.record(queue);
    assert_eq!(record.settings.policy, "one");
    assert_eq!((record.modified_at_ms, record.descriptor.version), (1, 1));

    assert_eq!(cluster.ask(3, replace("one", "")), replaced);
    assert_eq!(cluster.record(queue).settings.policy, "");
    cluster.delete(4, queue);
    let gone = Reply::PolicyReplaced(Err(ReplacePolicyError::NoSuchQueue(queue)));
    assert_eq!(cluster.ask(5, replace("", "one")), gone);
}

#[test]
fn tags_overwrite_and_stay_within_fifty() {
    let mut cluster = Cluster::founded();
    let queue = cluster.create(0, "orders");
    let tags = |count: usize, value: &str| -> BTreeMap<String, String> {
        (0..count)
            .map(|number| (format!("key{number}"), value.to_owned()))
            .collect()
    };
    let tag = |tags| Command::TagQueue(TagQueue { queue, tags });
    assert_eq!(cluster.ask(1, tag(tags(50, "a"))), Reply::Tagged(Ok(())));
    assert_eq!(cluster.ask(2, tag(tags(50, "b"))), Reply::Tagged(Ok(())));
    let reply = cluster.ask(3, tag(tags(51, "c")));
    assert_eq!(reply, Reply::Tagged(Err(TagQueueError::TooManyTags(51))));
    assert_eq!(cluster.record(queue).tags, tags(50, "b"));

    let keys = ["key0".to_owned(), "absent".to_owned()].into();
    let reply = cluster.ask(4, Command::UntagQueue(UntagQueue { queue, keys }));
    assert_eq!(reply, Reply::Untagged(Ok(())));
    assert_eq!(cluster.record(queue).tags.len(), 49);
}
