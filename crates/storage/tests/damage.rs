//! Bits that rot, in every kind of file: found before they are served, counted, and mended.

mod common;

use common::{GROUP, OTHER, Sim, body, checkpoint, entry, id};
use hikyaku_storage::{
    CheckpointError, CrashKind, Disk, Fault, Grade, LogConfig, Operation, ReadError, SimDisk,
    is_set_aside, loss_is_told, set_aside,
};
use std::io;

fn config() -> LogConfig {
    LogConfig {
        idle_mark_ms: 3_600_000,
        reclaim_interval_ms: 3_600_000,
        cache_bytes: 1 << 10,
        ..LogConfig::small()
    }
}

fn open(disk: SimDisk) -> Sim {
    Sim::open(disk, config())
}

/// Entries of two bodies in some sealed segments, with their footers; a vote of another group.
fn filled() -> Sim {
    let sim = open(SimDisk::new(1));
    for index in 0..100 {
        assert!(sim.append(GROUP, vec![entry(1, index, &[2000, 50])]));
    }
    assert!(sim.vote(OTHER, "vote"));
    sim.log.reclaim();
    sim
}

fn with_extension(disk: &SimDisk, extension: &str) -> Vec<String> {
    let files = disk.files().into_iter();
    files.filter(|path| path.ends_with(extension)).collect()
}

/// Flips a bit behind the first place where these bytes are, so many bytes after their start; the file.
fn flip(disk: &SimDisk, bytes: &[u8], after: usize) -> String {
    let found = disk.files().into_iter().find_map(|path| {
        let content = disk.content(&path)?;
        let at = content.windows(bytes.len()).position(|it| it == bytes)?;
        Some((path, at + after))
    });
    let (path, at) = found.expect("it is on the disk");
    disk.flip_bit(&path, at as u64, 4);
    path
}

/// Flips a bit of a body of an entry of term 1; its head says where it is.
fn flip_body(disk: &SimDisk, index: u64, ordinal: usize) -> String {
    let head = format!("head 1 {index}");
    flip(disk, head.as_bytes(), head.len() + [100, 2020][ordinal])
}

fn found(sim: &Sim, grade: Grade) -> u64 {
    sim.log.stats().damage.found[grade as usize]
}

#[test]
fn a_wrong_body_is_not_served_and_is_found_again_once_it_is_mended() {
    let sim = filled();
    let path = flip_body(&sim.disk, 3, 0);
    let name = (id(1, 3), 0);
    for _ in 0..3 {
        let read = sim.group().read_body(name.0, name.1);
        assert!(matches!(read, Err(ReadError::Damaged { .. })), "{read:?}");
    }
    assert_eq!(found(&sim, Grade::Body), 1, "a place counts once");
    assert!(sim.log.damages().bodies[&GROUP].contains(&name));
    assert!(!sim.group().is_lost());

    let wrong = vec![(name, body(4, 0, 2000))];
    sim.group().mend(wrong).unwrap();
    assert!(sim.group().read_body(name.0, name.1).is_err());
    sim.group().mend(vec![(name, body(3, 0, 2000))]).unwrap();
    assert_eq!(sim.log.damages(), Default::default());
    assert_eq!(sim.log.stats().damage.healed, 1);

    sim.log.reclaim();
    assert!(!sim.disk.files().contains(&path), "{path} is written anew");
    let sim = open(sim.close().crash(CrashKind::PowerCut));
    let read = sim.group().read_body(name.0, name.1).unwrap();
    assert_eq!(read, body(3, 0, 2000));
    let whole = sim.group().read_entries(3..4, usize::MAX).unwrap();
    assert_eq!(whole, [entry(1, 3, &[2000, 50])]);
    sim.log.scrub();
    assert_eq!(sim.log.stats().damage.total(), 0);
}

#[test]
fn an_entry_whose_bodies_alone_are_wrong_says_which() {
    let sim = filled();
    flip_body(&sim.disk, 3, 1);
    let read = sim.group().read_entries(0..9, usize::MAX);
    let Err(ReadError::Bodies {
        entry, ordinals, ..
    }) = read
    else {
        panic!("{read:?}");
    };
    assert_eq!((entry, ordinals), (id(1, 3), vec![1]));
    assert!(!sim.group().is_lost());
    sim.group()
        .mend(vec![((id(1, 3), 1), body(3, 1, 50))])
        .unwrap();
    assert_eq!(sim.entries(GROUP).len(), 100, "head here, body there");
}

#[test]
fn a_wrong_record_of_an_unpurged_entry_costs_its_group_the_replica_and_no_other() {
    let sim = filled();
    assert!(sim.append(OTHER, vec![entry(1, 0, &[10])]));
    flip(&sim.disk, b"head 1 3", 2);
    let read = sim.group().read_entries(3..4, usize::MAX);
    assert!(matches!(read, Err(ReadError::Damaged { .. })), "{read:?}");
    assert!(sim.group().is_lost());
    assert!(!sim.log.group(OTHER).is_lost());
    assert_eq!(found(&sim, Grade::Log), 1);
    sim.group().forget().unwrap();
    assert!(sim.log.damages().lost.is_empty(), "it is dropped");
}

#[test]
fn a_wrong_record_that_is_purged_costs_nothing() {
    let sim = filled();
    for _ in 0..2 {
        let at = checkpoint(id(1, 90), &[(3, 1)]);
        sim.group().write_checkpoint(at).unwrap();
    }
    assert!(sim.purge(GROUP, id(1, 90)));
    flip(&sim.disk, b"head 1 3", 2);
    flip_body(&sim.disk, 5, 0);
    sim.log.scrub();
    assert_eq!(sim.log.damages(), Default::default());
    let live = sim.group().read_body(id(1, 3), 1).unwrap();
    assert_eq!(live, body(3, 1, 50));
}

/// Every bit of the files of this kind that somebody will read one day: the scrub finds it.
fn the_scrub_finds_each_flip(extension: &str, step: usize, prepared: &SimDisk) {
    let files = with_extension(prepared, extension);
    assert!(!files.is_empty());
    let mut detected = 0;
    let mut prepared = prepared.clone();
    for path in files {
        let content = prepared.content(&path).expect("it is there");
        for offset in (0..content.len()).step_by(step) {
            let sim = open(prepared.crash(CrashKind::ProcessDeath));
            prepared = sim.disk.clone();
            sim.disk.flip_bit(&path, offset as u64, 1);
            sim.log.scrub();
            let total = sim.log.stats().damage.total();
            let silent = content[offset] == 0 || !sim.disk.files().contains(&path);
            assert!(total > 0 || silent, "{path} at {offset}");
            detected += u64::from(total > 0);
            // The next one begins with a whole disk.
            if sim.disk.files().contains(&path) {
                sim.disk.overwrite(&path, 0, &content);
            }
        }
    }
    assert!(detected > 20, "{detected}");
}

#[test]
fn the_scrub_finds_each_flip_in_sealed_segments() {
    let disk = filled().close();
    // The newest one is sealed by the next start.
    let sim = open(disk);
    sim.log.reclaim();
    the_scrub_finds_each_flip(".seg", 997, &sim.close());
}

#[test]
fn the_scrub_finds_each_flip_in_footers() {
    the_scrub_finds_each_flip(".idx", 61, &filled().close());
}

#[test]
fn the_scrub_finds_each_flip_in_checkpoints() {
    let sim = filled();
    for index in [20, 40] {
        let live: Vec<(u64, u32)> = (0..20).map(|live| (live, 1)).collect();
        let at = checkpoint(id(1, index), &live);
        sim.group().write_checkpoint(at).unwrap();
    }
    the_scrub_finds_each_flip(".ckpt", 5, &sim.close());
}

#[test]
fn the_scrub_finds_each_flip_in_cold_segments() {
    let sim = filled();
    let live: Vec<(u64, u32)> = (0..90).map(|live| (live, 1)).collect();
    for _ in 0..2 {
        let at = checkpoint(id(1, 95), &live);
        sim.group().write_checkpoint(at).unwrap();
    }
    assert!(sim.purge(GROUP, id(1, 95)));
    sim.log.reclaim();
    the_scrub_finds_each_flip(".cold", 61, &sim.close());
}

#[test]
fn a_footer_that_rots_is_made_anew() {
    let sim = filled();
    let path = with_extension(&sim.disk, ".idx")[0].clone();
    let whole = sim.disk.content(&path).unwrap();
    sim.disk.flip_bit(&path, 20, 0);
    sim.log.scrub();
    sim.log.reclaim();
    assert_eq!(sim.disk.content(&path).unwrap(), whole);
    assert_eq!(sim.log.stats().damage.healed, 1);
}

#[test]
fn the_footer_of_a_cold_segment_is_made_anew_without_holes() {
    let sim = filled();
    for _ in 0..2 {
        let at = checkpoint(id(1, 95), &[(3, 1), (9, 0)]);
        sim.group().write_checkpoint(at).unwrap();
    }
    assert!(sim.purge(GROUP, id(1, 95)));
    sim.log.reclaim();
    let segment = with_extension(&sim.disk, ".cold")[0].clone();
    let footer = segment.replace(".cold", ".idx");
    let whole = sim.disk.content(&footer).unwrap();
    sim.disk.flip_bit(&footer, 20, 0);
    sim.log.scrub();
    sim.log.reclaim();
    assert_eq!(sim.disk.content(&footer).unwrap(), whole);
}

#[test]
fn a_header_that_rots_is_written_anew() {
    let sim = filled();
    let path = with_extension(&sim.disk, ".seg")[1].clone();
    let whole = sim.disk.content(&path).unwrap();
    sim.disk.flip_bit(&path, 20, 0);
    sim.log.scrub();
    assert_eq!(sim.disk.content(&path).unwrap(), whole);
    // Also when the next start is who finds it.
    sim.disk.flip_bit(&path, 20, 0);
    let sim = open(sim.close());
    assert_eq!(found(&sim, Grade::Derived), 1);
    let sim = open(sim.close());
    assert_eq!(sim.log.stats().damage.total(), 0);
}

#[test]
fn what_rots_where_the_log_is_being_written_is_restated_before_the_next_start() {
    let sim = filled();
    let path = flip(&sim.disk, b"vote", 2);
    sim.log.scrub();
    assert!(sim.log.damages().lost.is_empty());
    assert!(sim.append(OTHER, vec![entry(1, 0, &[10])]), "it goes on");
    sim.log.reclaim();
    let sim = open(sim.close().crash(CrashKind::PowerCut));
    assert_eq!(sim.log.group(OTHER).state().vote.unwrap(), "vote");
    sim.log.reclaim();
    sim.log.scrub();
    assert!(!sim.disk.files().contains(&path), "{path} is written anew");
    assert_eq!(sim.log.stats().damage.total(), 0);
}

#[test]
fn a_checkpoint_that_rots_is_replaced_by_a_new_one() {
    let sim = filled();
    for index in [40, 80] {
        let at = checkpoint(id(1, index), &[]);
        sim.group().write_checkpoint(at).unwrap();
    }
    let path = with_extension(&sim.disk, ".ckpt")[1].clone();
    sim.disk.flip_bit(&path, 100, 0);
    sim.log.scrub();
    assert_eq!(sim.group().checkpoint_ids(), [id(1, 40)]);
    assert!(sim.log.damages().checkpoints.contains(&GROUP));
    let at = checkpoint(id(1, 85), &[]);
    sim.group().write_checkpoint(at).unwrap();
    sim.log.reclaim();
    assert_eq!(sim.group().checkpoint_ids(), [id(1, 40), id(1, 85)]);
    assert_eq!(sim.log.damages(), Default::default());
    assert!(!sim.disk.files().contains(&path));
    assert_eq!(sim.log.stats().damage.healed, 1);
}

#[test]
fn a_snapshot_is_of_the_newest_checkpoint_that_is_whole() {
    let sim = filled();
    for index in [40, 80] {
        let at = checkpoint(id(1, index), &[]);
        sim.group().write_checkpoint(at).unwrap();
    }
    let path = with_extension(&sim.disk, ".ckpt")[1].clone();
    sim.disk.flip_bit(&path, 100, 0);
    let pin = sim.group().pin().unwrap();
    assert_eq!(pin.checkpoint().id, id(1, 40));
    assert_eq!(found(&sim, Grade::Checkpoint), 1);
}

#[test]
fn without_a_whole_checkpoint_behind_a_purged_log_the_replica_is_lost() {
    let sim = filled();
    let at = checkpoint(id(1, 40), &[]);
    sim.group().write_checkpoint(at).unwrap();
    assert!(sim.purge(GROUP, id(1, 40)));
    let disk = sim.close();
    let path = with_extension(&disk, ".ckpt")[0].clone();
    disk.flip_bit(&path, 100, 0);
    let sim = open(disk);
    let loaded = sim.group().load_checkpoint();
    assert!(matches!(loaded, Err(CheckpointError::Damaged { .. })));
    assert!(sim.group().is_lost());
    assert!(sim.disk.files().contains(&path), "nothing is deleted");
}

#[test]
fn a_sector_that_cannot_be_read_is_as_good_as_a_wrong_one_for_a_body() {
    let sim = filled();
    let broken = || {
        sim.disk.inject(Fault {
            operation: Operation::Read,
            after: 0,
            error: io::ErrorKind::Other,
        });
    };
    // The section of the footer is in memory then.
    sim.group().read_body(id(1, 9), 0).unwrap();
    broken();
    let read = sim.group().read_body(id(1, 4), 0);
    assert!(matches!(read, Err(ReadError::Damaged { .. })), "{read:?}");
    broken();
    let read = sim.group().read_entries(5..6, usize::MAX);
    assert!(matches!(read, Err(ReadError::Io(_))), "{read:?}");
    assert!(!sim.group().is_lost(), "it may pass");
    assert_eq!(sim.entries(GROUP).len(), 100);
}

#[test]
fn a_log_that_was_set_aside_says_so_until_the_cluster_knows() {
    let disk = filled().close();
    assert!(!is_set_aside(&disk).unwrap());
    let before = disk.mutations();
    set_aside(&disk).unwrap();
    assert!(is_set_aside(&disk).unwrap());
    for cut in before + 1..=disk.mutations() {
        let disk = filled().close();
        disk.cut_power_at(cut);
        let done = set_aside(&disk).is_ok();
        let disk = disk.crash(CrashKind::PowerCut);
        let renamed = disk
            .list("")
            .unwrap()
            .iter()
            .any(|it| it.contains("damaged"));
        assert!(
            !renamed || is_set_aside(&disk).unwrap(),
            "cut at {cut}, {done}"
        );
    }
    loss_is_told(&disk).unwrap();
    loss_is_told(&disk).unwrap();
    assert!(!is_set_aside(&disk.crash(CrashKind::PowerCut)).unwrap());
}

#[test]
fn mending_is_whole_or_nothing_through_a_power_cut() {
    let mended = |sim: &Sim| {
        let name = (id(1, 3), 0);
        sim.group().mend(vec![(name, body(3, 0, 2000))]).is_ok()
    };
    let damaged = || {
        let sim = filled();
        flip_body(&sim.disk, 3, 0);
        sim
    };
    let sim = damaged();
    let from = sim.disk.mutations() + 1;
    assert!(mended(&sim));
    for cut in from..=sim.disk.mutations() {
        let sim = damaged();
        sim.disk.cut_power_at(cut);
        let done = mended(&sim);
        let sim = open(sim.disk.crash(CrashKind::PowerCut));
        let read = sim.group().read_body(id(1, 3), 0);
        assert!(read.is_ok() || !done, "cut at {cut}");
        assert!(read.is_err() || read.unwrap() == body(3, 0, 2000));
        assert!(mended(&sim));
        assert_eq!(
            sim.group().read_body(id(1, 3), 0).unwrap(),
            body(3, 0, 2000)
        );
    }
}
