//! A scripted history, cut at every single change of the disk.
//!
//! Whatever was acknowledged is there afterwards; what was not is there whole, in order, or not at
//! all; what a kept checkpoint names is readable; and the log can be used on.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod common;

use common::model::History;
use common::{GROUP, OTHER, Sim, body, checkpoint, entry, id};
use hikyaku_storage::{CrashKind, LogConfig, SimDisk};

/// Nothing runs by the clock, so that a history makes the same changes every time.
fn config() -> LogConfig {
    LogConfig {
        idle_mark_ms: 3_600_000,
        reclaim_interval_ms: 3_600_000,
        cache_bytes: 8 << 10,
        segment_bytes: 40 << 10,
        max_entry_bytes: 10 << 10,
        max_round_bytes: 10 << 10,
        ..LogConfig::small()
    }
}

const STEPS: usize = 60;

/// Makes a history of a seed.
type Begin = fn(u64) -> History;

fn disk(seed: u64, cut: Option<u64>) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.set_short_writes(seed % 2 == 1);
    if let Some(cut) = cut {
        disk.cut_power_at(cut);
    }
    disk
}

/// How many changes of the disk the whole history makes.
fn changes(seed: u64, begin: Begin) -> u64 {
    let sim = Sim::open(disk(seed, None), config());
    let mut history = begin(seed);
    history.play(&sim, STEPS);
    assert_eq!(history.check(&sim), history.states.len() - 1);
    let stats = sim.log.stats();
    assert!(
        stats.segments_freed > 0 && stats.bytes_compacted > 0,
        "nothing to see: {stats:?}"
    );
    sim.disk.mutations()
}

/// Plays the history up to the cut. None if the log did not even open.
fn played(seed: u64, begin: Begin, cut: u64) -> (SimDisk, History) {
    let disk = disk(seed, Some(cut));
    let mut history = begin(seed);
    if let Ok(sim) = Sim::try_open(disk.clone(), config()) {
        history.play(&sim, STEPS);
    }
    assert!(disk.is_dead(), "the cut at {cut} was never reached");
    (disk, history)
}

/// The log takes new entries, survives reclaim, and is there after a close.
fn goes_on(sim: Sim) {
    let last = sim.group().state().last;
    let next = last.map_or(0, |last| last.index + 1);
    let term = last.map_or(1, |last| last.leader.term + 1);
    assert!(sim.append(GROUP, vec![entry(term, next, &[900, 4])]));
    sim.log.reclaim();
    let sim = Sim::open(sim.close(), config());
    assert_eq!(sim.group().state().last, Some(id(term, next)));
    assert_eq!(sim.log.stats().damage.costly(), 0);
}

fn power_cuts(seed: u64, begin: Begin) {
    for cut in 1..=changes(seed, begin) {
        let (disk, history) = played(seed, begin, cut);
        let sim = Sim::open(disk.crash(CrashKind::PowerCut), config());
        history.check(&sim);
        sim.log.reclaim();
        history.check(&sim);
        goes_on(sim);
    }
}

/// What a restarted process has once answered for must not be taken by a power cut afterwards.
fn deaths_and_later_power_cuts(seed: u64, begin: Begin) {
    for cut in 1..=changes(seed, begin) {
        let (disk, history) = played(seed, begin, cut);
        let sim = Sim::open(disk.crash(CrashKind::ProcessDeath), config());
        let confirmed = history.check(&sim);
        let disk = sim.disk.crash(CrashKind::PowerCut);
        let sim = Sim::open(disk, config());
        assert_eq!(
            history.check(&sim),
            confirmed,
            "cut {cut}: confirmed, then lost"
        );
        goes_on(sim);
    }
}

/// What a restarted process relies on when it purges must not be taken by a power cut either.
fn deaths_then_purges_then_power_cuts(seed: u64, begin: Begin) {
    for cut in 1..=changes(seed, begin) {
        let (disk, history) = played(seed, begin, cut);
        let sim = Sim::open(disk.crash(CrashKind::ProcessDeath), config());
        let purged = history.purge_all(&sim);
        sim.log.reclaim();
        let sim = Sim::open(sim.disk.crash(CrashKind::PowerCut), config());
        history.check_purged(&sim, &purged);
    }
}

/// A crash while recovery runs is a crash like any other.
fn cuts_during_recovery(seed: u64, begin: Begin) {
    let total = changes(seed, begin);
    for cut in (1..=total).step_by(17) {
        let (disk, history) = played(seed, begin, cut);
        let after = disk.crash(CrashKind::ProcessDeath);
        for second in 1.. {
            let disk = after.crash(CrashKind::ProcessDeath);
            disk.cut_power_at(second);
            if Sim::try_open(disk.clone(), config()).is_ok() && !disk.is_dead() {
                break;
            }
            let sim = Sim::open(disk.crash(CrashKind::PowerCut), config());
            history.check(&sim);
        }
    }
}

#[test]
fn a_power_cut_at_every_change_loses_nothing_acknowledged() {
    power_cuts(2, History::new);
}

#[test]
fn a_power_cut_at_every_change_with_short_writes_loses_nothing_acknowledged() {
    power_cuts(3, History::new);
}

#[test]
fn a_process_death_at_every_change_and_a_later_power_cut_take_nothing_back() {
    deaths_and_later_power_cuts(4, History::new);
}

#[test]
fn a_process_death_at_every_change_leaves_nothing_that_a_purge_may_not_rely_on() {
    deaths_then_purges_then_power_cuts(5, History::new);
}

#[test]
fn a_power_cut_during_recovery_loses_nothing_acknowledged() {
    cuts_during_recovery(6, History::new);
}

#[test]
fn a_power_cut_at_every_change_leaves_a_dropped_replica_whole_or_gone() {
    power_cuts(7, History::with_drops);
}

#[test]
fn a_process_death_at_every_change_leaves_a_dropped_replica_whole_or_gone() {
    deaths_and_later_power_cuts(8, History::with_drops);
    deaths_then_purges_then_power_cuts(9, History::with_drops);
}

#[test]
fn a_power_cut_during_recovery_leaves_a_dropped_replica_whole_or_gone() {
    cuts_during_recovery(10, History::with_drops);
}

/// A group with entries and a checkpoint that another one outlives, and then its replica is dropped
/// and followed by another. Gives how many changes of the disk came before the drop and with it.
fn dropped_and_followed(disk: &SimDisk) -> (u64, u64) {
    let sim = Sim::open(disk.clone(), config());
    let first = sim.log.open_replica(GROUP, 1).unwrap();
    for index in 0..12 {
        sim.append(OTHER, vec![entry(1, index, &[2500])]);
        sim.append(GROUP, vec![entry(1, index, &[2500])]);
    }
    first
        .write_checkpoint(checkpoint(id(1, 9), &[(2, 0)]))
        .unwrap();
    let before = disk.mutations();
    // Errors come with the cut.
    let _ = first.forget();
    if let Ok(second) = sim.log.open_replica(GROUP, 2) {
        sim.append(GROUP, vec![entry(1, 0, &[])]);
        let _ = second.write_checkpoint(checkpoint(id(1, 0), &[]));
    }
    (before, disk.mutations())
}

/// The replica is there with all it had, or nothing of it is.
fn whole_or_gone(sim: &Sim) {
    let group = sim.group();
    let state = group.state();
    let entries = sim.entries(GROUP);
    let checkpoints = group.checkpoint_ids();
    let old_body = group.read_body(id(1, 2), 0);
    match state.owner {
        Some(1) => {
            assert_eq!((entries.len(), checkpoints), (12, vec![id(1, 9)]));
            assert_eq!(old_body.unwrap(), body(2, 0, 2500));
        }
        owner => {
            assert!(owner.is_none() || owner == Some(2), "{owner:?}");
            assert!(entries.len() <= 1 && entries.iter().all(|entry| entry.bodies.is_empty()));
            assert!(
                checkpoints.iter().all(|at| *at == id(1, 0)),
                "{checkpoints:?}"
            );
            assert!(old_body.is_err());
        }
    }
    assert_eq!(sim.entries(OTHER).len(), 12);
}

/// Which may be the end of a drop that nothing but the page cache knew of.
#[test]
fn a_second_cut_during_recovery_leaves_a_dropped_replica_whole_or_gone() {
    let (before, after) = dropped_and_followed(&SimDisk::new(1));
    for cut in before + 1..=after {
        let disk = SimDisk::new(1);
        disk.cut_power_at(cut);
        dropped_and_followed(&disk);
        let died = disk.crash(CrashKind::ProcessDeath);
        for second in 1.. {
            let disk = died.crash(CrashKind::ProcessDeath);
            disk.cut_power_at(second);
            let recovered = Sim::try_open(disk.clone(), config()).is_ok() && !disk.is_dead();
            let sim = Sim::open(disk.crash(CrashKind::PowerCut), config());
            whole_or_gone(&sim);
            sim.log.reclaim();
            let sim = Sim::open(sim.close(), config());
            whole_or_gone(&sim);
            if recovered {
                break;
            }
        }
    }
}
