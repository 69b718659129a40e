//! What the protocol says holds is what the metadata makes hold, and what reads back.

use hikyaku_metadata::{
    ClusterRecord, Command, CreateQueue, Envelope, Found, Metadata, NodeRecord, Reply,
    SetAttributes, TenantId, encode_entry,
};
use hikyaku_queue::RequestId;
use hikyaku_sqs::message::QueueFacts;
use hikyaku_sqs::queue_attributes::QueueAttributes;
use hikyaku_sqs::queue_attributes::changes::AttributeChanges;
use hikyaku_sqs::queue_name::QueueName;
use proptest::prelude::*;

use super::{facts_of, of_record, to_metadata};

const VALUES: [(&str, &[&str]); 11] = [
    ("VisibilityTimeout", &["0", "43200"]),
    ("DelaySeconds", &["0", "900"]),
    ("MaximumMessageSize", &["1024", "1048576"]),
    ("MessageRetentionPeriod", &["60", "1209600"]),
    ("ReceiveMessageWaitTimeSeconds", &["0", "20"]),
    ("Policy", &["", r#"{"Statement":[]}"#]),
    (
        "RedrivePolicy",
        &[
            "",
            r#"{ "maxReceiveCount":3,"deadLetterTargetArn":"arn:aws:sqs:r:000000000000:dead"}"#,
        ],
    ),
    (
        "RedriveAllowPolicy",
        &["", r#"{"redrivePermission":"denyAll"}"#],
    ),
    ("KmsMasterKeyId", &["", "alias/key"]),
    ("KmsDataKeyReusePeriodSeconds", &["60", "300"]),
    ("SqsManagedSseEnabled", &["true", "false"]),
];

const FIFO_VALUES: [(&str, &[&str]); 4] = [
    ("FifoQueue", &["true"]),
    ("ContentBasedDeduplication", &["true", "false"]),
    ("DeduplicationScope", &["queue", "messageGroup"]),
    ("FifoThroughputLimit", &["perQueue", "perMessageGroupId"]),
];

const STANDARD_VALUES: [(&str, &[&str]); 1] = [("Hikyaku.Spread", &["", "1", "32"])];

/// Some attributes with values of the protocol, and some that only this kind of queue has.
fn asked(fifo: bool) -> impl Strategy<Value = AttributeChanges> {
    let of_kind: &[_] = if fifo { &FIFO_VALUES } else { &STANDARD_VALUES };
    let table = VALUES.iter().chain(of_kind);
    let choices: Vec<_> = table
        .map(|(name, values)| {
            proptest::option::of(proptest::sample::select(*values))
                .prop_map(|value| value.map(|value| (*name, value)))
        })
        .collect();
    choices.prop_map(|pairs| AttributeChanges::parse(pairs.into_iter().flatten()).unwrap())
}

fn asked_twice() -> impl Strategy<Value = (bool, AttributeChanges, AttributeChanges)> {
    any::<bool>().prop_flat_map(|fifo| (Just(fifo), asked(fifo), asked(fifo)))
}

fn ask(metadata: &mut Metadata, index: u64, command: Command) -> Reply {
    let envelope = Envelope {
        request_id: RequestId(index.into()),
        not_after: 1_000,
        command,
    };
    let entry = encode_entry(1, &[envelope]);
    let mut outcomes = metadata.apply_entry(index, &entry).unwrap();
    outcomes.remove(0).reply
}

fn founded() -> Metadata {
    let mut metadata = Metadata::new();
    let cluster = ClusterRecord {
        cluster_id: 1,
        partitions: 1,
        replication: 1,
        handle_keys: vec![(1, [1; 64])],
        nodes: vec![NodeRecord::storage(1, "")],
    };
    let reply = ask(&mut metadata, 1, Command::Found(Found::everywhere(cluster)));
    assert_eq!(reply, Reply::Founded(Ok(())));
    metadata
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_created_and_changed_reads_back((fifo, mut first, second) in asked_twice()) {
        let name = if fifo { "orders.fifo" } else { "orders" };
        first.fifo_queue = fifo.then_some(true);
        let name = QueueName::parse(name).unwrap();
        let created = QueueAttributes::create(&name, &first);
        prop_assume!(created.is_ok());
        let created = created.unwrap();

        let mut metadata = founded();
        let create = CreateQueue {
            tenant: TenantId::DEFAULT,
            name: name.to_string(),
            fifo,
            attributes: to_metadata(&first),
            tags: [].into(),
        };
        let Reply::QueueCreated(Ok(queue)) = ask(&mut metadata, 2, Command::CreateQueue(create))
        else {
            panic!("what the protocol allows is allowed")
        };
        let record = metadata.queue(queue.queue).unwrap();
        prop_assert_eq!(&of_record(record), &created);
        prop_assert_eq!(facts_of(record), QueueFacts::from(&created));

        let changed = created.with(&second);
        prop_assume!(changed.is_ok());
        let set = SetAttributes { queue: queue.queue, attributes: to_metadata(&second) };
        let reply = ask(&mut metadata, 3, Command::SetAttributes(set));
        prop_assert!(matches!(reply, Reply::AttributesSet(Ok(_))), "{:?}", reply);
        prop_assert_eq!(of_record(metadata.queue(queue.queue).unwrap()), changed.unwrap());
    }
}

#[test]
fn the_protocol_lets_through_what_the_metadata_can_do() {
    assert_eq!(
        hikyaku_sqs::queue_attributes::MAX_SPREAD,
        hikyaku_metadata::SPREAD_MAX
    );
}
