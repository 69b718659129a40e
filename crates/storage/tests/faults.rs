//! Torn writes, bit rot, full disks and failed syncs, each on its own.

mod common;

use common::{GROUP, OTHER, Sim, body, checkpoint, entry, id, outcome};
use hikyaku_storage::{
    CheckpointError, CrashKind, Entry, Fault, LogConfig, OpenError, Operation, ReadError, SimDisk,
};
use std::io;

fn config() -> LogConfig {
    LogConfig {
        idle_mark_ms: 3_600_000,
        reclaim_interval_ms: 3_600_000,
        cache_bytes: 4 << 10,
        ..LogConfig::small()
    }
}

fn open() -> Sim {
    Sim::open(SimDisk::new(1), config())
}

fn reopened(sim: Sim) -> Sim {
    Sim::open(sim.close(), config())
}

fn hot_segments(disk: &SimDisk) -> Vec<String> {
    disk.files()
        .into_iter()
        .filter(|path| path.ends_with(".seg"))
        .collect()
}

/// A log with some sealed segments, everything durable.
fn filled() -> Sim {
    let sim = open();
    for index in 0..100 {
        assert!(sim.append(GROUP, vec![entry(1, index, &[2000, 50])]));
    }
    assert!(sim.vote(OTHER, "vote"));
    sim.log.reclaim();
    sim
}

#[test]
fn a_torn_write_at_every_byte_of_the_last_round_loses_only_that_round() {
    let sim = open();
    assert!(sim.append(GROUP, vec![entry(1, 0, &[40])]));
    let before = sim.disk.content(&hot_segments(&sim.disk)[0]).unwrap();
    assert!(sim.append(GROUP, vec![entry(1, 1, &[30, 600]), entry(1, 2, &[5])]));
    let path = hot_segments(&sim.disk)[0].clone();
    let after = sim.disk.content(&path).unwrap();
    let from = before.iter().zip(&after).position(|(a, b)| a != b).unwrap();
    let to = after.len() - after.iter().rev().position(|byte| *byte != 0).unwrap();
    for torn_at in from..=to {
        let disk = sim.disk.crash(CrashKind::ProcessDeath);
        disk.overwrite(&path, torn_at as u64, &before[torn_at..to]);
        let sim = Sim::open(disk, config());
        let expected = if torn_at == to { 2 } else { 0 };
        assert_eq!(
            sim.group().state().last,
            Some(id(1, expected)),
            "torn at {torn_at}"
        );
        assert_eq!(sim.log.stats().damage.total(), 0);
        assert!(sim.append(GROUP, vec![entry(2, expected + 1, &[7])]));
    }
}

#[test]
fn stale_bytes_of_a_recycled_segment_never_parse() {
    // Many lives of few files, all full of records of the same shape at the same offsets.
    let mut sim = open();
    for round in 0..12u64 {
        for index in round * 20..round * 20 + 20 {
            assert!(sim.append(GROUP, vec![entry(1, index, &[9000])]));
        }
        let last = id(1, round * 20 + 19);
        for _ in 0..2 {
            sim.group().write_checkpoint(checkpoint(last, &[])).unwrap();
        }
        let oldest = sim.group().checkpoint_ids()[0];
        assert!(sim.purge(GROUP, oldest));
        sim.log.reclaim();
        // What lies behind the end of the log is an earlier life of the file.
        let disk = sim.disk.crash(CrashKind::ProcessDeath);
        sim = Sim::open(disk, config());
        assert_eq!(sim.group().state().last, Some(last));
        assert_eq!(sim.log.stats().damage.total(), 0);
    }
}

#[test]
fn a_poison_message_does_not_pin_the_disk() {
    let sim = open();
    let mut most = 0;
    for round in 0..60u64 {
        let range = round * 20..round * 20 + 20;
        let entries: Vec<Entry> = range.map(|index| entry(1, index, &[3000])).collect();
        assert!(sim.append(GROUP, entries));
        let last = id(1, round * 20 + 19);
        sim.group()
            .write_checkpoint(checkpoint(last, &[(0, 0)]))
            .unwrap();
        let oldest = sim.group().checkpoint_ids()[0];
        assert!(sim.purge(GROUP, oldest));
        sim.log.reclaim();
        most = most.max(sim.disk.used_bytes());
    }
    // 3.6 MB went through; what stays is spares, the unpurged tail and one small cold segment.
    assert!(most < 900 << 10, "{most} bytes for one live message");
    assert_eq!(
        sim.group().read_body(id(1, 0), 0).unwrap(),
        body(0, 0, 3000)
    );
    let stats = sim.log.stats();
    assert!(
        stats.bytes_compacted < stats.bytes_appended / 10,
        "{stats:?}"
    );
}

#[test]
fn an_idle_group_does_not_pin_the_disk() {
    let sim = open();
    assert!(sim.append(OTHER, vec![entry(1, 0, &[100]), entry(1, 1, &[100])]));
    assert!(sim.vote(OTHER, "only vote"));
    for round in 0..40u64 {
        let entries = (round * 20..round * 20 + 20)
            .map(|index| entry(1, index, &[3000]))
            .collect();
        assert!(sim.append(GROUP, entries));
        let last = id(1, round * 20 + 19);
        sim.group().write_checkpoint(checkpoint(last, &[])).unwrap();
        let oldest = sim.group().checkpoint_ids()[0];
        assert!(sim.purge(GROUP, oldest));
        sim.log.reclaim();
    }
    assert!(sim.disk.used_bytes() < 900 << 10);
    let sim = reopened(sim);
    assert_eq!(
        sim.entries(OTHER),
        [entry(1, 0, &[100]), entry(1, 1, &[100])]
    );
    assert_eq!(sim.log.group(OTHER).state().vote.unwrap(), "only vote");
}

#[test]
fn a_crash_between_the_copies_and_the_freeing_keeps_one_of_both() {
    let prepared = || {
        let sim = open();
        for index in 0..60 {
            assert!(sim.append(GROUP, vec![entry(1, index, &[4000, 60])]));
        }
        let live: Vec<(u64, u32)> = (0..50).step_by(7).map(|index| (index, 1)).collect();
        for _ in 0..2 {
            sim.group()
                .write_checkpoint(checkpoint(id(1, 55), &live))
                .unwrap();
        }
        sim.log.reclaim();
        (sim, live)
    };
    let (sim, _) = prepared();
    let first = sim.disk.mutations();
    assert!(sim.purge(GROUP, id(1, 55)));
    sim.log.reclaim();
    let (from, to) = (first + 1, sim.disk.mutations());
    assert!(sim.log.stats().segments_cold > 0 && to - from > 10);
    for cut in from..=to {
        let (sim, live) = prepared();
        sim.disk.cut_power_at(cut);
        sim.purge(GROUP, id(1, 55));
        sim.log.reclaim();
        let mut disk = sim.disk.crash(CrashKind::PowerCut);
        for _ in 0..2 {
            let sim = Sim::open(disk, config());
            for (index, ordinal) in &live {
                let read = sim.group().read_body(id(1, *index), *ordinal).unwrap();
                assert_eq!(read, body(*index, *ordinal, 60), "cut at {cut}");
            }
            sim.log.reclaim();
            assert!(
                sim.log.stats().segments_cold <= 1,
                "copies are not kept twice"
            );
            disk = sim.close();
        }
    }
}

#[test]
fn every_flipped_bit_in_a_sealed_segment_is_detected_before_it_is_served() {
    let sim = filled();
    let path = hot_segments(&sim.disk)[0].clone();
    let entries = sim.entries(GROUP);
    let length = sim.disk.content(&path).unwrap().len() as u64;
    for offset in (512..length).step_by(97) {
        sim.disk.flip_bit(&path, offset, (offset % 8) as u8);
        for entry in entries.iter().take(24) {
            let index = entry.id.index;
            match sim.group().read_entries(index..index + 1, usize::MAX) {
                Ok(read) => assert_eq!(read, std::slice::from_ref(entry)),
                Err(ReadError::Damaged { .. } | ReadError::Bodies { .. }) => {}
                Err(error) => panic!("flip at {offset}: {error}"),
            }
            match sim.group().read_body(entry.id, 0) {
                Ok(read) => assert_eq!(read, entry.bodies[0]),
                Err(ReadError::Damaged { .. }) => {}
                Err(error) => panic!("flip at {offset}: {error}"),
            }
        }
        sim.disk.flip_bit(&path, offset, (offset % 8) as u8);
    }
    assert!(sim.log.stats().damage.total() > 0);
}

#[test]
fn a_damaged_or_missing_footer_is_made_anew() {
    let sim = filled();
    let expected = sim.entries(GROUP);
    let disk = sim.close();
    let footers: Vec<String> = disk
        .files()
        .into_iter()
        .filter(|path| path.ends_with(".idx"))
        .collect();
    let length = disk.content(&footers[0]).unwrap().len() as u64;
    for offset in (0..length).step_by(31) {
        let disk = disk.crash(CrashKind::ProcessDeath);
        disk.flip_bit(&footers[0], offset, 2);
        let sim = Sim::open(disk, config());
        assert_eq!(sim.entries(GROUP), expected, "flip at {offset}");
    }
    let disk = disk.crash(CrashKind::ProcessDeath);
    for footer in &footers {
        hikyaku_storage::Disk::remove(&disk, footer).unwrap();
    }
    assert_eq!(Sim::open(disk, config()).entries(GROUP), expected);
}

#[test]
fn a_damaged_header_of_a_sealed_segment_is_known_from_its_footer() {
    let sim = filled();
    let expected = sim.entries(GROUP);
    let disk = sim.close();
    let path = hot_segments(&disk)[0].clone();
    for offset in (0..48).filter(|offset| !(12..16).contains(offset)) {
        let disk = disk.crash(CrashKind::ProcessDeath);
        disk.flip_bit(&path, offset, 1);
        let sim = Sim::open(disk, config());
        assert_eq!(sim.entries(GROUP), expected, "flip at {offset}");
        assert_eq!(sim.log.stats().damage.total(), 1);
    }
}

#[test]
fn damage_below_a_mark_in_the_newest_segment_refuses_to_open() {
    let sim = open();
    for index in 0..10 {
        assert!(sim.append(GROUP, vec![entry(1, index, &[300])]));
    }
    assert!(sim.vote(OTHER, "vote"));
    let path = hot_segments(&sim.disk)[0].clone();
    let disk = sim.close();
    let end = disk
        .content(&path)
        .unwrap()
        .iter()
        .rposition(|byte| *byte != 0)
        .unwrap() as u64;
    // The closing mark is the last sector; all before it was durable.
    let proven = end / 512 * 512;
    let (mut refused, mut bodies) = (0, 0);
    for offset in (0..proven).step_by(13) {
        let disk = disk.crash(CrashKind::ProcessDeath);
        disk.flip_bit(&path, offset, 5);
        match Sim::try_open(disk, config()) {
            Err(OpenError::Damaged { groups, .. }) => {
                // All but the damaged round itself can still be read.
                assert!(offset < 512 || groups.contains(&GROUP), "flip at {offset}");
                refused += 1;
            }
            Err(OpenError::Version { .. }) => refused += 1,
            Err(error) => panic!("flip at {offset}: {error}"),
            Ok(sim) if sim.log.stats().damage.total() > 0 => {
                // Only a body: everything else is there, and the body is not served.
                bodies += 1;
                let last = sim.group().state().last;
                assert_eq!(last, Some(id(1, 9)));
                let lost = (0..10).filter(|i| sim.group().read_body(id(1, *i), 0).is_err());
                assert_eq!(lost.count(), 1);
            }
            // A flip in the zeros between rounds.
            Ok(sim) => assert_eq!(sim.entries(GROUP).len(), 10),
        }
    }
    assert!(
        refused > 20 && bodies > 20,
        "{refused} refused, {bodies} bodies"
    );
}

#[test]
fn a_damaged_log_is_set_aside_whole_and_the_next_one_is_empty() {
    let damaged = || {
        let sim = filled();
        sim.group()
            .write_checkpoint(checkpoint(id(1, 9), &[]))
            .unwrap();
        let disk = sim.close();
        let newest = hot_segments(&disk).pop().unwrap();
        disk.flip_bit(&newest, 520, 0);
        assert!(Sim::try_open(disk.clone(), config()).is_err());
        disk
    };
    let disk = damaged();
    let before = disk.mutations();
    let names = hikyaku_storage::set_aside(&disk).unwrap();
    let after = disk.mutations();
    assert_eq!(names, ["log.damaged-1", "ckpt.damaged-1"]);
    assert!(
        disk.files()
            .iter()
            .all(|path| path.contains("damaged") || path == "lost-replicas"),
        "nothing is deleted"
    );
    assert!(Sim::open(disk, config()).log.groups().is_empty());
    for cut in before + 1..=after {
        let disk = damaged();
        disk.cut_power_at(cut);
        assert!(hikyaku_storage::set_aside(&disk).is_err());
        // It refuses to open until the work is done, or it is done.
        let disk = disk.crash(CrashKind::PowerCut);
        if let Ok(sim) = Sim::try_open(disk.clone(), config()) {
            assert!(sim.log.groups().is_empty());
        } else {
            hikyaku_storage::set_aside(&disk).unwrap();
            assert!(Sim::open(disk, config()).log.groups().is_empty());
        }
    }
}

#[test]
fn a_damaged_checkpoint_gives_way_to_the_older_one() {
    let sim = filled();
    for index in [40, 80] {
        sim.group()
            .write_checkpoint(checkpoint(id(1, index), &[(3, 1)]))
            .unwrap();
    }
    let disk = sim.close();
    let files: Vec<String> = disk
        .files()
        .into_iter()
        .filter(|path| path.ends_with(".ckpt"))
        .collect();
    disk.flip_bit(&files[1], 120, 0);
    let sim = Sim::open(disk, config());
    assert_eq!(
        sim.group().load_checkpoint().unwrap().unwrap().id,
        id(1, 40)
    );
    assert_eq!(
        sim.group().checkpoint_ids(),
        [id(1, 40)],
        "nothing is purged past it"
    );
    assert_eq!(sim.log.stats().damage.total(), 1);
}

#[test]
fn a_purged_group_without_a_whole_checkpoint_says_so() {
    let sim = filled();
    sim.group()
        .write_checkpoint(checkpoint(id(1, 40), &[]))
        .unwrap();
    assert!(sim.purge(GROUP, id(1, 40)));
    let disk = sim.close();
    let file = disk
        .files()
        .into_iter()
        .find(|path| path.ends_with(".ckpt"))
        .unwrap();
    disk.flip_bit(&file, 120, 0);
    let sim = Sim::open(disk, config());
    assert!(matches!(
        sim.group().load_checkpoint(),
        Err(CheckpointError::Damaged { .. })
    ));
}

#[test]
fn a_failed_sync_aborts_and_acknowledges_nothing() {
    let sim = open();
    assert!(sim.append(GROUP, vec![entry(1, 0, &[100])]));
    sim.disk.inject(Fault {
        operation: Operation::Sync,
        after: 0,
        error: io::ErrorKind::Other,
    });
    assert!(!sim.append(GROUP, vec![entry(1, 1, &[100])]));
    assert!(sim.disk.aborted().unwrap().contains("sync"));
    assert!(
        !sim.append(GROUP, vec![entry(1, 2, &[100])]),
        "it is never tried again"
    );
    let sim = Sim::open(sim.disk.crash(CrashKind::PowerCut), config());
    assert_eq!(sim.group().state().last, Some(id(1, 0)));
}

#[test]
fn every_failing_sync_aborts_and_loses_nothing_acknowledged() {
    for after in 0..40 {
        for operation in [Operation::Sync, Operation::SyncDir, Operation::Rename] {
            let sim = open();
            sim.disk.inject(Fault {
                operation,
                after,
                error: io::ErrorKind::Other,
            });
            let mut acknowledged = None;
            for index in 0..40 {
                if !sim.append(GROUP, vec![entry(1, index, &[6000])]) {
                    break;
                }
                acknowledged = Some(id(1, index));
            }
            let sim = Sim::open(sim.disk.crash(CrashKind::PowerCut), config());
            assert!(sim.group().state().last >= acknowledged);
        }
    }
}

#[test]
fn a_failed_checkpoint_sync_aborts() {
    let sim = filled();
    sim.disk.inject(Fault {
        operation: Operation::SyncDir,
        after: 1,
        error: io::ErrorKind::Other,
    });
    assert!(
        sim.group()
            .write_checkpoint(checkpoint(id(1, 5), &[]))
            .is_err()
    );
    assert!(sim.disk.aborted().unwrap().contains("checkpoint"));
}

#[test]
fn a_full_disk_makes_rounds_wait_until_there_is_space_again() {
    let sim = open();
    sim.log.reclaim();
    sim.disk
        .set_capacity(Some(sim.disk.used_bytes() + (70 << 10)));
    sim.log.reclaim();
    let mut acknowledged = 0;
    let stuck = loop {
        let (done, receiver) = outcome();
        sim.group()
            .append(vec![entry(1, acknowledged, &[8000])], done);
        match sim.wait(&receiver) {
            Some(outcome) => outcome.unwrap(),
            None => break receiver,
        }
        acknowledged += 1;
        assert!(acknowledged < 100, "the disk never fills");
    };
    assert!(!sim.log.has_room());
    assert!(sim.log.stats().full_disk_waits > 0);
    assert_eq!(sim.disk.aborted(), None, "a full disk is no failure");
    // Somebody else removes files: the waiting round goes on by itself.
    sim.disk.set_capacity(None);
    sim.log.reclaim();
    assert!(sim.log.has_room());
    assert!(sim.vote(GROUP, "vote"));
    stuck.recv().unwrap().unwrap();
    let sim = reopened(sim);
    assert_eq!(sim.entries(GROUP).len() as u64, acknowledged + 1);
}

#[test]
fn a_full_disk_is_freed_by_deletes_that_fit_the_reserve() {
    let sim = open();
    sim.log.reclaim();
    sim.disk.set_capacity(Some(800 << 10));
    let mut index = 0;
    while sim.log.has_room() {
        assert!(sim.append(GROUP, vec![entry(1, index, &[8000])]));
        sim.log.reclaim();
        index += 1;
    }
    // Sends are refused now; receives and deletes are small entries without bodies.
    for _ in 0..50 {
        assert!(sim.append(GROUP, vec![entry(1, index, &[])]));
        index += 1;
    }
    for _ in 0..2 {
        sim.group()
            .write_checkpoint(checkpoint(id(1, index - 1), &[(1, 0)]))
            .unwrap();
    }
    assert!(sim.purge(GROUP, id(1, index - 1)));
    sim.log.reclaim();
    assert!(sim.log.has_room(), "{:?}", sim.log.stats());
    assert_eq!(
        sim.group().read_body(id(1, 1), 0).unwrap(),
        body(1, 0, 8000)
    );
}

#[test]
fn a_full_disk_at_every_write_loses_nothing_acknowledged() {
    for after in 0..60 {
        let sim = open();
        for operation in [Operation::Write, Operation::Allocate] {
            let error = io::ErrorKind::StorageFull;
            sim.disk.inject(Fault {
                operation,
                after,
                error,
            });
        }
        let mut acknowledged = None;
        for index in 0..40 {
            // The retry comes with the next submission at the latest.
            if sim.append(GROUP, vec![entry(1, index, &[5000])]) {
                acknowledged = Some(id(1, index));
            }
            if index % 10 == 9 {
                let _ = sim.group().write_checkpoint(checkpoint(id(1, index), &[]));
                sim.log.reclaim();
            }
        }
        assert_eq!(sim.disk.aborted(), None);
        let sim = Sim::open(sim.disk.crash(CrashKind::PowerCut), config());
        assert!(
            sim.group().state().last >= acknowledged,
            "full after {after}"
        );
        assert_eq!(acknowledged, Some(id(1, 39)));
    }
}

#[test]
fn a_crash_at_every_step_of_an_install_leaves_before_or_after() {
    let live: Vec<(u64, u32)> = (0..40).map(|index| (index, 1)).collect();
    let prepared = || {
        let sim = open();
        for index in 0..10 {
            assert!(sim.append(GROUP, vec![entry(1, index, &[200])]));
        }
        sim.group()
            .write_checkpoint(checkpoint(id(1, 4), &[(2, 0)]))
            .unwrap();
        sim
    };
    let install = |sim: &Sim| {
        let mut install = sim.group().begin_install();
        for (index, ordinal) in &live {
            install.add(id(1, *index), *ordinal, body(*index, *ordinal, 3000))?;
        }
        install.finish(checkpoint(id(3, 100), &live))
    };
    let sim = prepared();
    let from = sim.disk.mutations() + 1;
    install(&sim).unwrap();
    let to = sim.disk.mutations();
    for cut in from..=to {
        for kind in [CrashKind::PowerCut, CrashKind::ProcessDeath] {
            let sim = prepared();
            sim.disk.cut_power_at(cut);
            assert!(install(&sim).is_err());
            let sim = Sim::open(sim.disk.crash(kind), config());
            sim.log.reclaim();
            let newest = sim.group().load_checkpoint().unwrap().unwrap();
            if newest.id == id(3, 100) {
                assert_eq!(
                    sim.group().state().last_purged,
                    Some(id(3, 100)),
                    "cut at {cut}"
                );
                for (index, ordinal) in &live {
                    let read = sim.group().read_body(id(1, *index), *ordinal).unwrap();
                    assert_eq!(read, body(*index, *ordinal, 3000));
                }
            } else {
                assert_eq!(newest, checkpoint(id(1, 4), &[(2, 0)]), "cut at {cut}");
                // The old log may be truncated already, up to the old checkpoint: what it held is
                // on a quorum without this replica, or the leader would send entries.
                let purged = sim.group().state().last_purged;
                assert!(purged.is_none() || purged == Some(id(1, 4)));
            }
            install(&sim).unwrap();
            assert_eq!(sim.group().checkpoint_ids(), [id(3, 100)]);
        }
    }
}
