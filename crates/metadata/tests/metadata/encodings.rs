//! The bytes of every version, as they lie on disks and travel between nodes.
//!
//! A newer release must go on reading them. They were written down once; a test that fails here
//! asks for a new version number, not for new bytes.

use crate::pinned::{
    CHECKPOINT, CHECKPOINT_1, CHECKPOINT_2, CHECKPOINT_3, CHECKPOINT_4, CLUSTER, CLUSTER_1, ENTRY,
    ENTRY_WITHOUT_PLACEMENT, RECORD, RECORD_1, RECORD_2, REPLICAS, REPLIES, TENANT,
};
use crate::samples::{
    PARTITION, QUEUE, cluster, commands, metadata, moving, placed, queues, replies,
};
use crate::script::{envelope, tenant};
use hikyaku_metadata::{
    CancelMoveTask, CancelMoveTaskError, ClusterRecord, Command, DecodeError, DeleteQueue,
    Envelope, Found, Member, Metadata, MoveProgress, MoveTaskBlocked, MoveTaskReported,
    QueueRecord, ReplicaId, Replicas, Reply, Role, StartMoveTask, StartMoveTaskError, TenantRecord,
    decode_entry, encode_entry, home_partition,
};
use hikyaku_queue::{MoveObstacle, MoveTaskId, PartitionId, QueueId};
use std::collections::BTreeMap;

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

/// Founding was written otherwise; every other command is as it was.
#[test]
fn an_entry_of_before_placements() {
    let commands = commands().into_iter().take(13);
    let envelopes: Vec<Envelope> = (1..)
        .zip(commands)
        .map(|(id, command)| envelope(id, 0x0101, command))
        .collect();
    let read = decode_entry(&bytes(ENTRY_WITHOUT_PLACEMENT)).unwrap();
    assert_eq!(read, (0x0202, envelopes));
}

#[test]
fn a_forwarded_command() {
    let asked = envelope(1, 2, Command::DeleteQueue(DeleteQueue { queue: QUEUE }));
    let written = bytes("01 01000000000000000000000000000000 0200000000000000 03 0100000000000000");
    assert_eq!(hex(&asked.encode()), hex(&written));
    assert_eq!(Envelope::decode(&written).unwrap(), asked);
}

#[test]
fn commands_and_answers_of_move_tasks() {
    let (queue, task, partition) = (QUEUE, MoveTaskId(5), PartitionId(3));
    let blocked = |obstacle| {
        Command::MoveTaskBlocked(MoveTaskBlocked {
            queue,
            task,
            partition,
            obstacle,
        })
    };
    let done = MoveProgress {
        moved: 7,
        done: true,
    };
    let commands = [
        Command::StartMoveTask(StartMoveTask {
            queue,
            task,
            destination: Some(QueueId(6)),
            rate: Some(500),
            to_move: 9,
        }),
        Command::CancelMoveTask(CancelMoveTask { queue, task }),
        Command::MoveTaskReported(MoveTaskReported {
            queue,
            task,
            progress: vec![(partition, done)],
        }),
        blocked(MoveObstacle::NoPlace {
            source: Some("q".into()),
        }),
        blocked(MoveObstacle::NoSource),
    ];
    let written = [
        "01 01000000000000000000000000000000 0200000000000000 17 0100000000000000 05000000000000000000000000000000 010600000000000000 01f401000000000000 0900000000000000",
        "01 01000000000000000000000000000000 0200000000000000 18 0100000000000000 05000000000000000000000000000000",
        "01 01000000000000000000000000000000 0200000000000000 19 0100000000000000 05000000000000000000000000000000 01000000 03000000070000000000000001",
        "01 01000000000000000000000000000000 0200000000000000 1a 0100000000000000 05000000000000000000000000000000 03000000 01 010100000071",
        "01 01000000000000000000000000000000 0200000000000000 1a 0100000000000000 05000000000000000000000000000000 03000000 02",
    ];
    for (command, written) in commands.into_iter().zip(written) {
        let asked = envelope(1, 2, command);
        assert_eq!(hex(&asked.encode()), hex(&bytes(written)));
        assert_eq!(Envelope::decode(&bytes(written)).unwrap(), asked);
    }
    let replies = [
        Reply::MoveTaskStarted(Ok(2)),
        Reply::MoveTaskStarted(Err(StartMoveTaskError::NoSuchQueue(queue))),
        Reply::MoveTaskStarted(Err(StartMoveTaskError::NoSuchDestination(queue))),
        Reply::MoveTaskStarted(Err(StartMoveTaskError::NoDeadLetterQueue)),
        Reply::MoveTaskStarted(Err(StartMoveTaskError::UnfitDestination(queue))),
        Reply::MoveTaskStarted(Err(StartMoveTaskError::Active)),
        Reply::MoveTaskStarted(Err(StartMoveTaskError::TooMany)),
        Reply::MoveTaskCancelled(Ok(4)),
        Reply::MoveTaskCancelled(Err(CancelMoveTaskError::NoSuchTask(task))),
        Reply::MoveTaskCancelled(Err(CancelMoveTaskError::NotRunning(task))),
        Reply::MoveTaskAdvanced,
    ];
    let written = [
        "0113010200000000000000",
        "011300010100000000000000",
        "011300020100000000000000",
        "01130003",
        "011300040100000000000000",
        "01130005",
        "01130006",
        "0114010400000000000000",
        "0114000105000000000000000000000000000000",
        "0114000205000000000000000000000000000000",
        "0115",
    ];
    for (reply, written) in replies.into_iter().zip(written) {
        assert_eq!(hex(&reply.encode()), written);
        assert_eq!(Reply::decode(&bytes(written)).unwrap(), reply);
    }
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
    let cluster = placed().cluster;
    assert_eq!(hex(&cluster.encode()), hex(&written));
    assert_eq!(ClusterRecord::decode(&written).unwrap(), cluster);
}

#[test]
fn replicas_on_the_move() {
    let metadata = metadata();
    let replicas = metadata.replicas(PARTITION).unwrap();
    let written = bytes(REPLICAS);
    assert_eq!(hex(&replicas.encode()), hex(&written));
    assert_eq!(&Replicas::decode(&written).unwrap(), replicas);
}

/// Before placements every node hosted every group, and a replica bore the id of its node.
#[test]
fn a_cluster_and_a_checkpoint_without_placements() {
    assert_eq!(ClusterRecord::decode(&bytes(CLUSTER_1)).unwrap(), cluster());

    let read = Metadata::decode(&bytes(CHECKPOINT_2)).unwrap();
    assert_eq!(read, queues());
    assert_eq!(read.groups().len(), 33);
    let member = Member {
        node: 6,
        role: Role::Voter,
    };
    for replicas in read.groups().values() {
        assert_eq!(replicas.members, BTreeMap::from([(ReplicaId(6), member)]));
    }
    assert_eq!(Metadata::decode(&read.encode()).unwrap(), read);
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

/// The next queue would have no home, on every replica.
#[test]
fn a_checkpoint_of_a_cluster_without_partitions_is_refused() {
    let mut founded = Metadata::new();
    let found = envelope(1, 100, Command::Found(Found::everywhere(cluster())));
    founded.apply_entry(1, &encode_entry(50, &[found])).unwrap();
    let mut nowhere = founded.encode();
    // Behind version, time, counters, the flag that there is a cluster, and its id.
    assert_eq!(nowhere[50..54], cluster().partitions.to_le_bytes());
    nowhere[50..54].fill(0);
    assert_eq!(
        Metadata::decode(&nowhere),
        Err(DecodeError::Impossible("a founded cluster has partitions"))
    );
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

/// Before redrive targets, a redrive policy was a text.
#[test]
fn a_record_and_a_checkpoint_without_redrive_targets() {
    let new = metadata().queue(QUEUE).unwrap().clone();
    assert_eq!(QueueRecord::decode(&bytes(RECORD_2)).unwrap(), new);
    assert_eq!(Metadata::decode(&bytes(CHECKPOINT_3)).unwrap(), moving());
}

/// Tenants were known by their queues alone.
#[test]
fn a_checkpoint_without_tenants() {
    let read = Metadata::decode(&bytes(CHECKPOINT_4)).unwrap();
    assert_eq!(read, moving());
    assert_eq!(read.tenants().count(), 0);
    assert_eq!(Metadata::decode(&read.encode()).unwrap(), read);
}

#[test]
fn a_tenant_with_its_keys() {
    let metadata = metadata();
    let record = metadata.tenant(tenant(8)).unwrap();
    let written = bytes(TENANT);
    assert_eq!(hex(&record.encode()), hex(&written));
    assert_eq!(&TenantRecord::decode(&written).unwrap(), record);
    for length in 0..written.len() {
        assert!(TenantRecord::decode(&written[..length]).is_err());
    }
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let newer = Err(DecodeError::UnknownVersion(2));
    assert_eq!(Reply::decode(&[2]), newer);
    assert_eq!(
        Metadata::decode(&[7]).unwrap_err(),
        DecodeError::UnknownVersion(7)
    );
    assert_eq!(
        ClusterRecord::decode(&[3]).unwrap_err(),
        DecodeError::UnknownVersion(3)
    );
    assert_eq!(
        Replicas::decode(&[2]).unwrap_err(),
        DecodeError::UnknownVersion(2)
    );
    assert_eq!(
        decode_entry(&[2]).unwrap_err(),
        DecodeError::UnknownVersion(2)
    );
    assert_eq!(
        QueueRecord::decode(&[7]).unwrap_err(),
        DecodeError::UnknownVersion(7)
    );
    assert_eq!(
        TenantRecord::decode(&[2]).unwrap_err(),
        DecodeError::UnknownVersion(2)
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
