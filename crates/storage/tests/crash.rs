//! A scripted history, cut at every single change of the disk.
//!
//! Whatever was acknowledged is there afterwards; what was not is there whole, in order, or not at
//! all; what a kept checkpoint names is readable; and the log can be used on.

mod common;

use common::model::History;
use common::{GROUP, Sim, entry, id};
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

fn disk(seed: u64, cut: Option<u64>) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.set_short_writes(seed % 2 == 1);
    if let Some(cut) = cut {
        disk.cut_power_at(cut);
    }
    disk
}

/// How many changes of the disk the whole history makes.
fn changes(seed: u64) -> u64 {
    let sim = Sim::open(disk(seed, None), config());
    let mut history = History::new(seed);
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
fn played(seed: u64, cut: u64) -> (SimDisk, History) {
    let disk = disk(seed, Some(cut));
    let mut history = History::new(seed);
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
    assert_eq!(sim.log.stats().damaged, 0);
}

fn power_cuts(seed: u64) {
    for cut in 1..=changes(seed) {
        let (disk, history) = played(seed, cut);
        let sim = Sim::open(disk.crash(CrashKind::PowerCut), config());
        history.check(&sim);
        sim.log.reclaim();
        history.check(&sim);
        goes_on(sim);
    }
}

/// What a restarted process has once answered for must not be taken by a power cut afterwards.
fn deaths_and_later_power_cuts(seed: u64) {
    for cut in 1..=changes(seed) {
        let (disk, history) = played(seed, cut);
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
fn deaths_then_purges_then_power_cuts(seed: u64) {
    for cut in 1..=changes(seed) {
        let (disk, history) = played(seed, cut);
        let sim = Sim::open(disk.crash(CrashKind::ProcessDeath), config());
        let purged = history.purge_all(&sim);
        sim.log.reclaim();
        let sim = Sim::open(sim.disk.crash(CrashKind::PowerCut), config());
        history.check_purged(&sim, &purged);
    }
}

/// A crash while recovery runs is a crash like any other.
fn cuts_during_recovery(seed: u64) {
    let total = changes(seed);
    for cut in (1..=total).step_by(17) {
        let (disk, history) = played(seed, cut);
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
    power_cuts(2);
}

#[test]
fn a_power_cut_at_every_change_with_short_writes_loses_nothing_acknowledged() {
    power_cuts(3);
}

#[test]
fn a_process_death_at_every_change_and_a_later_power_cut_take_nothing_back() {
    deaths_and_later_power_cuts(4);
}

#[test]
fn a_process_death_at_every_change_leaves_nothing_that_a_purge_may_not_rely_on() {
    deaths_then_purges_then_power_cuts(5);
}

#[test]
fn a_power_cut_during_recovery_loses_nothing_acknowledged() {
    cuts_during_recovery(6);
}
