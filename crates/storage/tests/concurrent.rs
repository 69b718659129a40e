//! Writers, readers, checkpoints, purges, pins and reclaim at the same time, on threads.
//!
//! Every body that a reader asks for is live, so it must be found, whatever is being copied, freed
//! and recycled under it.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod common;

use common::model::Random;
use common::{body, checkpoint, durable, entry, id, ignore, threaded};
use hikyaku_storage::{Disk, GroupId, GroupLog, Log, LogConfig, RealDisk, SimDisk};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SIZE: usize = 1500;

fn config() -> LogConfig {
    LogConfig {
        reclaim_interval_ms: 1,
        idle_mark_ms: 1,
        cache_bytes: 4 << 10,
        footer_cache_bytes: 2 << 10,
        ..LogConfig::small()
    }
}

/// One group's life: appends, deletes most, checkpoints, purges, and reads what is left.
fn live(group: &GroupLog, seed: u64, rounds: u64) {
    let mut random = Random(seed);
    let mut live: BTreeSet<(u64, u32)> = BTreeSet::new();
    for round in 0..rounds {
        for index in round * 4..round * 4 + 4 {
            group.append(vec![entry(1, index, &[SIZE, SIZE])], ignore());
            live.extend([(index, 0), (index, 1)]);
        }
        let keep = random.below(8);
        live.retain(|(index, ordinal)| (index * 2 + u64::from(*ordinal)) % 16 == keep);
        if round % 5 == 4 {
            let names: Vec<(u64, u32)> = live.iter().copied().collect();
            group
                .write_checkpoint(checkpoint(id(1, round * 4 + 3), &names))
                .unwrap();
            let oldest = group.checkpoint_ids()[0];
            durable(|done| group.purge(oldest, done));
            if random.below(4) == 0 {
                let pin = group.pin().unwrap();
                assert_eq!(pin.bodies(0, 0).map(Result::unwrap).count(), names.len());
            }
        }
        for (index, ordinal) in &live {
            let read = group.read_body(id(1, *index), *ordinal).unwrap();
            assert_eq!(read, body(*index, *ordinal, SIZE));
        }
    }
    let last = group.state().last.unwrap().index;
    let first = group.state().last_purged.unwrap().index + 1;
    let entries = group.read_entries(first..last + 1, usize::MAX).unwrap();
    assert_eq!(entries.len() as u64, last + 1 - first);
}

fn together(disk: Arc<dyn Disk>) {
    let log: Log = threaded(disk, config());
    let busy = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while busy.load(Ordering::Relaxed) {
                log.reclaim();
                std::thread::yield_now();
            }
        });
        let groups: Vec<_> = (1..4)
            .map(|number| {
                let group = log.group(GroupId(number));
                scope.spawn(move || live(&group, number, 120))
            })
            .collect();
        let outcomes: Vec<_> = groups.into_iter().map(|thread| thread.join()).collect();
        busy.store(false, Ordering::Relaxed);
        outcomes.into_iter().for_each(Result::unwrap);
    });
    let stats = log.stats();
    assert!(
        stats.segments_freed > 20 && stats.bytes_compacted > 0,
        "{stats:?}"
    );
    assert_eq!(stats.damage.total(), 0);
}

#[test]
fn live_bodies_are_found_while_segments_are_recycled_under_them() {
    together(Arc::new(SimDisk::new(1)));
}

#[test]
fn live_bodies_are_found_on_a_real_disk_too() {
    let dir = tempfile::tempdir().unwrap();
    together(Arc::new(RealDisk::open(dir.path()).unwrap()));
}

/// One small live body far below a few large entries that may not go yet: judged by averages, nearly
/// all of the segment could be freed; judged by what it holds, nearly nothing can.
#[test]
fn reclaim_ends_when_a_segment_is_denser_than_it_looks() {
    // With 9,200 bytes the copy fills more than three quarters of a segment.
    for large in [9_000, 9_200, 9_500] {
        reclaim_ends_with(large);
    }
}

fn reclaim_ends_with(large: usize) {
    let log = threaded(Arc::new(SimDisk::new(5)), LogConfig::small());
    let group = log.group(GroupId(1));
    for index in 0..120 {
        group.append(vec![entry(1, index, &[10])], ignore());
    }
    for index in 120..130 {
        group.append(vec![entry(1, index, &[large])], ignore());
    }
    group
        .write_checkpoint(checkpoint(id(1, 119), &[(0, 0)]))
        .unwrap();
    durable(|done| group.purge(id(1, 119), done));
    let (ended, end) = std::sync::mpsc::channel();
    let reclaiming = log.clone();
    std::thread::spawn(move || {
        reclaiming.reclaim();
        ended.send(()).unwrap();
    });
    let patience = std::time::Duration::from_secs(60);
    assert!(
        end.recv_timeout(patience).is_ok(),
        "reclaim copies the same bytes for ever"
    );
    assert_eq!(group.read_body(id(1, 0), 0).unwrap(), body(0, 0, 10));
    assert_eq!(group.read_body(id(1, 129), 0).unwrap(), body(129, 0, large));
}
