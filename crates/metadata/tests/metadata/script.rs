//! Random lives of a cluster, and the plain words in which the model understands attributes.

use crate::{moves, tenants};
use hikyaku_metadata::{
    AttributeName, Attributes, ChangeSettings, ClusterRecord, ClusterSettings, Command,
    CreateQueue, DeleteQueue, DescriptorDelivered, Envelope, FifoThroughputLimit, Found,
    NodeRecord, PartitionEmptied, PurgeQueue, QueueRecord, ReplacePolicy, SetAttributes, TagQueue,
    TenantId, UntagQueue, WidenSpread, spread,
};
use hikyaku_queue::{DeduplicationScope, PartitionId, QueueId, RequestId};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use std::collections::BTreeMap;

pub const PARTITIONS: u32 = 4;
pub const NAMES: [&str; 4] = ["a", "ab", "b", "ab.fifo"];

/// Attributes by name, each value as a text.
pub type Texts = BTreeMap<AttributeName, String>;

/// One entry of the metadata group.
#[derive(Debug, Clone)]
pub struct Entry {
    pub now: u64,
    pub envelopes: Vec<Envelope>,
}

pub fn cluster() -> ClusterRecord {
    ClusterRecord {
        cluster_id: 0xc1,
        partitions: PARTITIONS,
        replication: 3,
        handle_keys: vec![(1, [7; 64])],
        nodes: vec![
            NodeRecord::storage(11, "one:9325"),
            NodeRecord::storage(12, "two:9325"),
            NodeRecord::storage(13, "three:9325"),
        ],
    }
}

pub fn tenant(number: u8) -> TenantId {
    TenantId::parse(&format!("{number:012}")).unwrap()
}

/// The three values that scripts give an attribute; the first is SQS's default.
pub fn value(name: AttributeName, choice: u8) -> &'static str {
    let values = match name {
        AttributeName::VisibilityTimeout => ["30000", "0", "5000"],
        AttributeName::DelaySeconds => ["0", "1000", "900000"],
        AttributeName::MessageRetentionPeriod => ["345600000", "60000", "70000"],
        AttributeName::MaximumMessageSize => ["1048576", "1024", "2048"],
        AttributeName::ReceiveMessageWaitTimeSeconds => ["0", "20", "5"],
        AttributeName::ContentBasedDeduplication => ["false", "true", "true"],
        AttributeName::DeduplicationScope => ["queue", "messageGroup", "messageGroup"],
        AttributeName::FifoThroughputLimit => ["perQueue", "perMessageGroupId", "perQueue"],
        AttributeName::Policy
        | AttributeName::RedrivePolicy
        | AttributeName::RedriveAllowPolicy
        | AttributeName::KmsMasterKeyId => ["", "one", "two"],
        AttributeName::KmsDataKeyReusePeriodSeconds => ["300", "60", "70"],
        AttributeName::SqsManagedSseEnabled => ["true", "false", "true"],
        AttributeName::Spread => ["0", "1", "3"],
        AttributeName::FifoQueue | AttributeName::RedriveTarget => {
            unreachable!("it is not an attribute that a client sets")
        }
    };
    values[usize::from(choice)]
}

pub fn attributes(texts: &Texts) -> Attributes {
    let text = |name| texts.get(&name).cloned();
    let flag = |name| text(name).map(|text| text == "true");
    Attributes {
        visibility_timeout_ms: text(AttributeName::VisibilityTimeout).map(|t| t.parse().unwrap()),
        delay_ms: text(AttributeName::DelaySeconds).map(|t| t.parse().unwrap()),
        retention_ms: text(AttributeName::MessageRetentionPeriod).map(|t| t.parse().unwrap()),
        max_message_bytes: text(AttributeName::MaximumMessageSize).map(|t| t.parse().unwrap()),
        receive_wait_seconds: text(AttributeName::ReceiveMessageWaitTimeSeconds)
            .map(|t| t.parse().unwrap()),
        content_based_deduplication: flag(AttributeName::ContentBasedDeduplication),
        deduplication_scope: text(AttributeName::DeduplicationScope).map(|t| match &*t {
            "queue" => DeduplicationScope::Queue,
            _ => DeduplicationScope::MessageGroup,
        }),
        fifo_throughput_limit: text(AttributeName::FifoThroughputLimit).map(|t| match &*t {
            "perQueue" => FifoThroughputLimit::PerQueue,
            _ => FifoThroughputLimit::PerMessageGroupId,
        }),
        policy: text(AttributeName::Policy),
        redrive_policy: text(AttributeName::RedrivePolicy),
        redrive_allow_policy: text(AttributeName::RedriveAllowPolicy),
        kms_master_key_id: text(AttributeName::KmsMasterKeyId),
        kms_data_key_reuse_seconds: text(AttributeName::KmsDataKeyReusePeriodSeconds)
            .map(|t| t.parse().unwrap()),
        sqs_managed_sse: flag(AttributeName::SqsManagedSseEnabled),
        spread_width: text(AttributeName::Spread).map(|t| t.parse().unwrap()),
        redrive_target: None,
    }
}

/// Every attribute that a record has, as texts.
pub fn texts(record: &QueueRecord) -> Texts {
    let settings = &record.settings;
    let scope = match settings.deduplication_scope {
        DeduplicationScope::Queue => "queue",
        DeduplicationScope::MessageGroup => "messageGroup",
    };
    let limit = match settings.fifo_throughput_limit {
        FifoThroughputLimit::PerQueue => "perQueue",
        FifoThroughputLimit::PerMessageGroupId => "perMessageGroupId",
    };
    BTreeMap::from([
        (
            AttributeName::VisibilityTimeout,
            record.descriptor.visibility_timeout_ms.to_string(),
        ),
        (
            AttributeName::DelaySeconds,
            record.descriptor.delay_ms.to_string(),
        ),
        (
            AttributeName::MessageRetentionPeriod,
            record.descriptor.retention_ms.to_string(),
        ),
        (
            AttributeName::MaximumMessageSize,
            settings.max_message_bytes.to_string(),
        ),
        (
            AttributeName::ReceiveMessageWaitTimeSeconds,
            settings.receive_wait_seconds.to_string(),
        ),
        (
            AttributeName::ContentBasedDeduplication,
            settings.content_based_deduplication.to_string(),
        ),
        (AttributeName::DeduplicationScope, scope.to_owned()),
        (AttributeName::FifoThroughputLimit, limit.to_owned()),
        (AttributeName::Policy, settings.policy.clone()),
        (
            AttributeName::RedrivePolicy,
            settings.redrive_policy.clone(),
        ),
        (
            AttributeName::RedriveAllowPolicy,
            settings.redrive_allow_policy.clone(),
        ),
        (
            AttributeName::KmsMasterKeyId,
            settings.kms_master_key_id.clone(),
        ),
        (
            AttributeName::KmsDataKeyReusePeriodSeconds,
            settings.kms_data_key_reuse_seconds.to_string(),
        ),
        (
            AttributeName::SqsManagedSseEnabled,
            settings.sqs_managed_sse.to_string(),
        ),
        (AttributeName::Spread, settings.spread_width.to_string()),
    ])
}

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    /// Time passes, in ms.
    Wait(u64),
    /// A new command that may be applied for so long, in ms.
    Ask(u64, Box<Command>),
    /// A command of before comes again, counted back from the last.
    Retry(usize),
    /// What was gathered becomes an entry.
    Close,
}

/// A script of entries, the first of which founds the cluster.
pub fn entries() -> impl Strategy<Value = Vec<Entry>> {
    vec(step(), 1..120).prop_map(|steps| {
        let found = envelope(0, 1_000, Command::Found(Found::everywhere(cluster())));
        let mut entries = vec![Entry {
            now: 1_000,
            envelopes: vec![found],
        }];
        let mut now = 1_000;
        let mut asked: Vec<Envelope> = Vec::new();
        let mut gathered = Vec::new();
        for step in steps {
            match step {
                Step::Wait(ms) => now += ms,
                Step::Ask(budget, command) => {
                    let id = 1 + asked.len() as u128;
                    asked.push(envelope(id, now + budget, *command));
                    gathered.extend(asked.last().cloned());
                }
                Step::Retry(back) => {
                    let again = asked
                        .len()
                        .checked_sub(1 + back)
                        .map(|at| asked[at].clone());
                    gathered.extend(again);
                }
                Step::Close => {
                    entries.push(Entry {
                        now,
                        envelopes: std::mem::take(&mut gathered),
                    });
                }
            }
        }
        entries.push(Entry {
            now,
            envelopes: gathered,
        });
        entries
    })
}

pub fn envelope(id: u128, not_after: u64, command: Command) -> Envelope {
    Envelope {
        request_id: RequestId(id),
        not_after,
        command,
    }
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![
        Just(1),
        Just(1_000),
        Just(20_000),
        Just(60_000),
        Just(601_000)
    ];
    let budget = prop_oneof![Just(0), Just(20_000), Just(60_000)];
    prop_oneof![
        3 => wait.prop_map(Step::Wait),
        8 => (budget, command()).prop_map(|(budget, command)| Step::Ask(budget, Box::new(command))),
        2 => (0_usize..6).prop_map(Step::Retry),
        6 => Just(Step::Close),
    ]
}

pub fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        6 => create().prop_map(Command::CreateQueue),
        3 => queue().prop_map(|queue| Command::DeleteQueue(DeleteQueue { queue })),
        2 => queue().prop_map(|queue| Command::PurgeQueue(PurgeQueue { queue })),
        4 => (queue(), given()).prop_map(|(queue, given)| {
            Command::SetAttributes(SetAttributes { queue, attributes: attributes(&given) })
        }),
        2 => (queue(), 0_u8..3, 0_u8..3).prop_map(|(queue, current, policy)| {
            let text = |choice| value(AttributeName::Policy, choice).to_owned();
            let (current, policy) = (text(current), text(policy));
            Command::ReplacePolicy(ReplacePolicy { queue, current, policy })
        }),
        1 => (queue(), tags(), any::<bool>()).prop_map(|(queue, mut tags, many)| {
            if many {
                tags.extend((0..49).map(|number| (format!("many{number}"), String::new())));
            }
            Command::TagQueue(TagQueue { queue, tags })
        }),
        1 => (queue(), tags()).prop_map(|(queue, tags)| {
            Command::UntagQueue(UntagQueue { queue, keys: tags.into_keys().collect() })
        }),
        4 => delivered().prop_map(Command::DescriptorDelivered),
        3 => emptied().prop_map(Command::PartitionEmptied),
        2 => (queue(), 1_u64..6).prop_map(|(queue, version)| {
            Command::WidenSpread(WidenSpread { queue, version })
        }),
        6 => moves::command(),
        6 => tenants::command(),
        2 => Just(Command::Housekeep),
        1 => prop_oneof![Just(0), Just(60_000), Just(600_001)].prop_map(|cooldown_ms| {
            Command::ChangeSettings(ChangeSettings(ClusterSettings { cooldown_ms }))
        }),
    ]
}

fn create() -> impl Strategy<Value = CreateQueue> {
    (
        0_u8..2,
        0_usize..NAMES.len(),
        any::<bool>(),
        given(),
        tags(),
    )
        .prop_map(|(owner, name, fifo, given, tags)| CreateQueue {
            tenant: tenant(owner),
            name: NAMES[name].to_owned(),
            fifo,
            attributes: attributes(&given),
            tags,
        })
}

fn queue() -> impl Strategy<Value = QueueId> {
    (1_u64..9).prop_map(QueueId)
}

fn given() -> impl Strategy<Value = Texts> {
    let settable = AttributeName::ALL.into_iter();
    let settable = settable.filter(|name| {
        !matches!(
            name,
            AttributeName::FifoQueue | AttributeName::RedriveTarget
        )
    });
    let name = select(settable.collect::<Vec<_>>());
    vec((name, 0_u8..3), 0..3).prop_map(|pairs| {
        pairs
            .into_iter()
            .map(|(name, choice)| (name, value(name, choice).to_owned()))
            .collect()
    })
}

fn tags() -> impl Strategy<Value = BTreeMap<String, String>> {
    vec((0_u8..4, 0_u8..2), 0..3).prop_map(|pairs| {
        pairs
            .into_iter()
            .map(|(key, value)| (format!("k{key}"), value.to_string()))
            .collect()
    })
}

/// Mostly confirmations of a version by a partition that has the queue.
fn delivered() -> impl Strategy<Value = DescriptorDelivered> {
    (queue(), 1_u64..6, 0_usize..8).prop_map(|(queue, version, place)| DescriptorDelivered {
        queue,
        version,
        partition: partition(queue, place),
    })
}

fn emptied() -> impl Strategy<Value = PartitionEmptied> {
    (queue(), 1_u64..6, 0_usize..8).prop_map(|(queue, version, place)| PartitionEmptied {
        queue,
        version,
        partition: partition(queue, place),
    })
}

/// The queue's home half of the time, else one of the others.
fn partition(queue: QueueId, place: usize) -> PartitionId {
    let ranked = spread(queue, PARTITIONS, PARTITIONS);
    ranked.get(place).copied().unwrap_or(ranked[0])
}
