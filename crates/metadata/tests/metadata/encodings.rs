//! The bytes of every version, as they lie on disks and travel between nodes.
//!
//! A newer release must go on reading them. They were written down once; a test that fails here
//! asks for a new version number, not for new bytes.

use crate::script::{envelope, tenant};
use hikyaku_metadata::{
    AttributeError, AttributeName, Attributes, ChangeSettings, ChangeSettingsError, ClusterRecord,
    ClusterSettings, Command, CreateQueue, CreateQueueError, Created, DecodeError, DeleteQueue,
    DeleteQueueError, DescriptorDelivered, Envelope, FifoThroughputLimit, Found, FoundError,
    Metadata, NodeRecord, PartitionEmptied, PurgeQueue, PurgeQueueError, QueueRecord, Reply,
    SetAttributes, SetAttributesError, TagQueue, TagQueueError, UntagQueue, UntagQueueError,
    WidenSpread, decode_entry, encode_entry, home_partition,
};
use hikyaku_queue::{DeduplicationScope, PartitionId, QueueId};
use std::collections::BTreeMap;

const QUEUE: QueueId = QueueId(1);

fn cluster() -> ClusterRecord {
    ClusterRecord {
        cluster_id: 0x0102_0304,
        partitions: 32,
        handle_keys: vec![(5, [0xaa; 64])],
        nodes: vec![NodeRecord {
            node: 6,
            address: "a:1".to_owned(),
        }],
    }
}

/// Every attribute given.
fn attributes() -> Attributes {
    Attributes {
        visibility_timeout_ms: Some(1),
        delay_ms: Some(2),
        retention_ms: Some(3),
        max_message_bytes: Some(4),
        receive_wait_seconds: Some(5),
        content_based_deduplication: Some(true),
        deduplication_scope: Some(DeduplicationScope::MessageGroup),
        fifo_throughput_limit: Some(FifoThroughputLimit::PerMessageGroupId),
        policy: Some("p".to_owned()),
        redrive_policy: Some("r".to_owned()),
        redrive_allow_policy: Some("a".to_owned()),
        kms_master_key_id: Some("k".to_owned()),
        kms_data_key_reuse_seconds: Some(6),
        sqs_managed_sse: Some(false),
        spread_width: None,
    }
}

fn tags() -> BTreeMap<String, String> {
    BTreeMap::from([("t".to_owned(), "u".to_owned())])
}

fn create() -> CreateQueue {
    CreateQueue {
        tenant: tenant(7),
        name: "q.fifo".to_owned(),
        fifo: true,
        attributes: attributes(),
        tags: tags(),
    }
}

/// One of each command, in the order in which they came to be.
fn commands() -> Vec<Command> {
    vec![
        Command::Found(Found(cluster())),
        Command::CreateQueue(create()),
        Command::DeleteQueue(DeleteQueue { queue: QUEUE }),
        Command::PurgeQueue(PurgeQueue { queue: QUEUE }),
        Command::SetAttributes(SetAttributes {
            queue: QUEUE,
            attributes: Attributes {
                delay_ms: Some(9),
                ..Attributes::default()
            },
        }),
        Command::TagQueue(TagQueue {
            queue: QUEUE,
            tags: tags(),
        }),
        Command::UntagQueue(UntagQueue {
            queue: QUEUE,
            keys: ["t".to_owned()].into(),
        }),
        Command::DescriptorDelivered(DescriptorDelivered {
            queue: QUEUE,
            version: 8,
            partition: PartitionId(9),
        }),
        Command::Housekeep,
        Command::ChangeSettings(ChangeSettings(ClusterSettings {
            name_reuse_delay_ms: 10,
        })),
        Command::PartitionEmptied(PartitionEmptied {
            queue: QUEUE,
            version: 8,
            partition: PartitionId(9),
        }),
        Command::SetAttributes(SetAttributes {
            queue: QUEUE,
            attributes: Attributes {
                spread_width: Some(11),
                ..Attributes::default()
            },
        }),
        Command::WidenSpread(WidenSpread {
            queue: QUEUE,
            version: 12,
        }),
    ]
}

/// Every shape of every answer.
fn replies() -> Vec<Reply> {
    let wait_ms = 3;
    let attribute = AttributeError::TwoEncryptions;
    vec![
        Reply::Late,
        Reply::Founded(Ok(())),
        Reply::Founded(Err(FoundError::AlreadyFounded { cluster_id: 4 })),
        Reply::Founded(Err(FoundError::NoPartitions)),
        Reply::Founded(Err(FoundError::NoNodes)),
        Reply::Founded(Err(FoundError::HandleKeys(3))),
        Reply::QueueCreated(Ok(Created {
            queue: QUEUE,
            existed: true,
        })),
        Reply::QueueCreated(Err(CreateQueueError::ExistsWithDifferent(
            AttributeName::FifoQueue,
        ))),
        Reply::QueueCreated(Err(CreateQueueError::DeletedRecently { wait_ms })),
        Reply::QueueCreated(Err(CreateQueueError::Attributes(attribute))),
        Reply::QueueCreated(Err(CreateQueueError::NotFounded)),
        Reply::QueueDeleted(Ok(2)),
        Reply::QueueDeleted(Err(DeleteQueueError::NoSuchQueue(QUEUE))),
        Reply::QueuePurged(Ok(2)),
        Reply::QueuePurged(Err(PurgeQueueError::NoSuchQueue(QUEUE))),
        Reply::QueuePurged(Err(PurgeQueueError::InProgress { wait_ms })),
        Reply::AttributesSet(Ok(2)),
        Reply::AttributesSet(Err(SetAttributesError::NoSuchQueue(QUEUE))),
        Reply::AttributesSet(Err(SetAttributesError::Attributes(
            AttributeError::FifoOnly(AttributeName::DeduplicationScope),
        ))),
        Reply::AttributesSet(Err(SetAttributesError::Attributes(
            AttributeError::ThroughputLimitNeedsMessageGroupScope,
        ))),
        Reply::Tagged(Ok(())),
        Reply::Tagged(Err(TagQueueError::NoSuchQueue(QUEUE))),
        Reply::Tagged(Err(TagQueueError::TooManyTags(51))),
        Reply::Untagged(Ok(())),
        Reply::Untagged(Err(UntagQueueError::NoSuchQueue(QUEUE))),
        Reply::DescriptorDelivered,
        Reply::Housekept,
        Reply::SettingsChanged(Ok(())),
        Reply::SettingsChanged(Err(ChangeSettingsError::NameReuseDelayTooLong(9))),
        Reply::PartitionEmptied,
        Reply::AttributesSet(Err(SetAttributesError::Attributes(
            AttributeError::StandardOnly(AttributeName::Spread),
        ))),
        Reply::SpreadWidened,
    ]
}

/// A small cluster in which something of everything has happened.
fn metadata() -> Metadata {
    let mut metadata = Metadata::new();
    let commands = [
        Command::Found(Found(cluster())),
        Command::CreateQueue(create()),
        Command::SetAttributes(SetAttributes {
            queue: QUEUE,
            attributes: Attributes {
                delay_ms: Some(9),
                ..Attributes::default()
            },
        }),
        Command::CreateQueue(CreateQueue {
            name: "gone.fifo".to_owned(),
            ..create()
        }),
        Command::DeleteQueue(DeleteQueue { queue: QueueId(2) }),
    ];
    let envelopes: Vec<Envelope> = (1..)
        .zip(commands)
        .map(|(id, command)| envelope(id, 100 + id as u64, command))
        .collect();
    metadata
        .apply_entry(1, &encode_entry(50, &envelopes))
        .unwrap();
    metadata
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let pair = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

#[test]
fn an_entry_with_every_command() {
    let envelopes: Vec<Envelope> = (1..)
        .zip(commands())
        .map(|(id, command)| envelope(id, 0x0101, command))
        .collect();
    let written = bytes(ENTRY);
    assert_eq!(hex(&encode_entry(0x0202, &envelopes)), hex(&written));
    assert_eq!(decode_entry(&written).unwrap(), (0x0202, envelopes));
}

#[test]
fn a_forwarded_command() {
    let asked = envelope(1, 2, Command::DeleteQueue(DeleteQueue { queue: QUEUE }));
    let written = bytes("01 01000000000000000000000000000000 0200000000000000 03 0100000000000000");
    assert_eq!(hex(&asked.encode()), hex(&written));
    assert_eq!(Envelope::decode(&written).unwrap(), asked);
}

#[test]
fn every_answer() {
    let encoded: Vec<String> = replies().iter().map(|reply| hex(&reply.encode())).collect();
    let written: Vec<&str> = REPLIES.split_whitespace().collect();
    assert_eq!(encoded, written);
    for (reply, written) in replies().into_iter().zip(written) {
        assert_eq!(Reply::decode(&bytes(written)).unwrap(), reply);
    }
}

#[test]
fn a_record_and_a_cluster() {
    let metadata = metadata();
    let record = metadata.queue(QUEUE).unwrap();
    let written = bytes(RECORD);
    assert_eq!(hex(&record.encode()), hex(&written));
    assert_eq!(&QueueRecord::decode(&written).unwrap(), record);

    let written = bytes(CLUSTER);
    assert_eq!(hex(&cluster().encode()), hex(&written));
    assert_eq!(ClusterRecord::decode(&written).unwrap(), cluster());
}

#[test]
fn a_checkpoint() {
    let written = bytes(CHECKPOINT);
    assert_eq!(hex(&metadata().encode()), hex(&written));
    assert_eq!(Metadata::decode(&written).unwrap(), metadata());
}

#[test]
fn a_checkpoint_that_contradicts_itself_is_refused() {
    let mut timeless = bytes(CHECKPOINT);
    timeless[1..9].fill(0);
    assert_eq!(
        Metadata::decode(&timeless),
        Err(DecodeError::Impossible("no record is from the future"))
    );
    let mut at_its_end = bytes(CHECKPOINT);
    at_its_end[17..25].fill(0xff);
    assert!(matches!(
        Metadata::decode(&at_its_end),
        Err(DecodeError::Impossible(_))
    ));
}

/// Before spreads, a queue had its home alone, and keeps it.
#[test]
fn a_record_and_a_checkpoint_without_spread_widths() {
    let old = QueueRecord::decode(&bytes(RECORD_1)).unwrap();
    let new = metadata().queue(QUEUE).unwrap().clone();
    assert_eq!(old.settings.spread_width, 0);
    assert_eq!(old.descriptor.spread, [home_partition(QUEUE, 32)]);
    let descriptor = old.descriptor.clone();
    assert_eq!(old, QueueRecord { descriptor, ..new });

    let read = Metadata::decode(&bytes(CHECKPOINT_1)).unwrap();
    assert_eq!(read.queue(QUEUE), Some(&old));
    assert_eq!(Metadata::decode(&read.encode()).unwrap(), read);
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let newer = Err(DecodeError::UnknownVersion(2));
    assert_eq!(Reply::decode(&[2]), newer);
    assert_eq!(
        Metadata::decode(&[3]).unwrap_err(),
        DecodeError::UnknownVersion(3)
    );
    assert_eq!(
        decode_entry(&[2]).unwrap_err(),
        DecodeError::UnknownVersion(2)
    );
    assert_eq!(
        QueueRecord::decode(&[3]).unwrap_err(),
        DecodeError::UnknownVersion(3)
    );
}

#[test]
fn no_prefix_of_anything_is_taken_for_the_whole() {
    let checkpoint = bytes(CHECKPOINT);
    for length in 0..checkpoint.len() {
        assert!(
            Metadata::decode(&checkpoint[..length]).is_err(),
            "{length} bytes were enough"
        );
    }
    let record = bytes(RECORD);
    for length in 0..record.len() {
        assert!(
            QueueRecord::decode(&record[..length]).is_err(),
            "{length} bytes were enough"
        );
    }
}

const ENTRY: &str = "
0102020000000000000d000000010000000000000000000000000000000101000000000000010403020100000000000
0000000000000200000000100000005000000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0100000006000000000000000
3000000613a3102000000000000000000000000000000010100000000000002070000000000000006000000712e6669
666f010e010100000000000000020200000000000000030300000000000000040400000005050000000601070208020
901000000700a01000000720b01000000610c010000006b0d060000000e000100000001000000740100000075030000
00000000000000000000000000010100000000000003010000000000000004000000000000000000000000000000010
10000000000000401000000000000000500000000000000000000000000000001010000000000000501000000000000
00010209000000000000000600000000000000000000000000000001010000000000000601000000000000000100000
00100000074010000007507000000000000000000000000000000010100000000000007010000000000000001000000
01000000740800000000000000000000000000000001010000000000000801000000000000000800000000000000090
00000090000000000000000000000000000000101000000000000090a00000000000000000000000000000001010000
000000000a0a000000000000000b00000000000000000000000000000001010000000000000b0100000000000000080
0000000000000090000000c000000000000000000000000000000010100000000000005010000000000000001100b00
00000d00000000000000000000000000000001010000000000000c01000000000000000c00000000000000
";

const REPLIES: &str = "
0100
010101
0101000104000000000000000000000000000000
01010002
01010003
0101000403000000
010201010000000000000001
010200010f
010200020300000000000000
0102000302
01020004
0103010200000000000000
010300010100000000000000
0104010200000000000000
010400010100000000000000
010400020300000000000000
0105010200000000000000
010500010100000000000000
010500020107
0105000203
010601
010600010100000000000000
0106000233000000
010701
010700010100000000000000
0108
0109
010a01
010a00010900000000000000
010b
010500020410
010c
";

const RECORD: &str = "
02070000000000000006000000712e6669666f1d000000010102010301090300c0a907100c09051c101b14060f08070
10b0015030400000005000000010202010000007001000000720100000061010000006b060000000000000000010000
000100000074010000007532000000000000003200000000000000000300000000000000
";

const RECORD_1: &str = "
01070000000000000006000000712e6669666f0e000000010102010301090300c0a907010c0400000005000000010202
010000007001000000720100000061010000006b06000000000100000001000000740100000075320000000000000032
00000000000000000300000000000000
";

const CLUSTER: &str = "
0104030201000000000000000000000000200000000100000005000000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa010000
00060000000000000003000000613a31
";

const CHECKPOINT: &str = "
02320000000000000001000000000000000500000000000000030000000000000001040302010000000000000000000
00000200000000100000005000000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa010000000600000000000000030000006
13a31010000000000000060ea00000000000001000000070000000000000006000000712e6669666f1d000000010102
010301090300c0a907100c09051c101b14060f0807010b0015030400000005000000010202010000007001000000720
100000061010000006b0600000000000000000100000001000000740100000075320000000000000032000000000000
00000300000000000000000000000000000001000000050000000000000002000000000000000700000000000000090
00000676f6e652e6669666f3200000000000000010000001d000000010202020301020300c0a907101a1f1b1d150619
1c0d1e0b130407090f05000000000000000200000001000000000000001000000000000000010000000000000001000
00001000000000000000300000001000000000000000500000001000000000000000600000001000000000000000700
000001000000000000000800000001000000000000000900000001000000000000000b00000001000000000000000c0
0000001000000000000000f000000010000000000000010000000010000000000000014000000010000000000000015
00000001000000000000001b00000001000000000000001c00000001000000000000000200000000000000100000000
40000000100000000000000060000000100000000000000070000000100000000000000090000000100000000000000
0b00000001000000000000000d00000001000000000000000f000000010000000000000013000000010000000000000
01500000001000000000000001900000001000000000000001a00000001000000000000001b00000001000000000000
001c00000001000000000000001d00000001000000000000001e00000001000000000000001f0000000100000000000
00005000000010000000000000000000000000000006500000000000000010102000000000000000000000000000000
66000000000000000201010000000000000000030000000000000000000000000000006700000000000000050102000
00000000000040000000000000000000000000000006800000000000000020102000000000000000005000000000000
000000000000000000690000000000000003010200000000000000
";

const CHECKPOINT_1: &str = "
013200000000000000010000000000000005000000000000000300000000000000010403020100000000000000000000
0000200000000100000005000000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa01000000060000000000000003000000613a
31010000000000000060ea00000000000001000000070000000000000006000000712e6669666f0e0000000101020103
01090300c0a907010c0400000005000000010202010000007001000000720100000061010000006b0600000000010000
000100000074010000007532000000000000003200000000000000000300000000000000000000000000000001000000
05000000000000000200000000000000070000000000000009000000676f6e652e6669666f3200000000000000010000
000e000000010202020301020300c0a907011a0500000000000000020000000100000000000000010000000c00000001
000000000000000200000000000000010000001a00000001000000000000000500000001000000000000000000000000
000000650000000000000001010200000000000000000000000000000066000000000000000201010000000000000000
030000000000000000000000000000006700000000000000050102000000000000000400000000000000000000000000
000068000000000000000201020000000000000000050000000000000000000000000000006900000000000000030102
00000000000000
";
