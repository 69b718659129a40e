//! One suite of behaviour over both disks: the real one and its simulated twin.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod common;
#[path = "common/places.rs"]
mod places;

use bytes::Bytes;
use common::{
    GROUP, OTHER, Order, body, checkpoint, durable, entry, id, ignore, outcome, threaded,
};
use hikyaku_storage::{
    CheckpointError, Entry, GroupId, GroupState, LiveRun, LogConfig, ReadError, SimDisk,
};
use places::{Place, close, open, stories};
use std::sync::Arc;

stories! {
    a_new_group_is_empty
    entries_are_read_back
    submitted_entries_are_visible_before_they_are_durable
    everything_survives_a_close
    callbacks_come_in_order_across_groups
    a_batch_larger_than_a_segment_is_appended
    reading_stops_at_the_byte_limit
    truncated_entries_are_replaced
    purged_entries_are_no_longer_read_but_their_bodies_are
    bodies_are_found_by_index_and_leader
    an_entry_that_is_too_large_is_refused
    two_checkpoints_are_kept
    a_pin_holds_its_checkpoint
    reclaim_frees_what_no_checkpoint_names
    compaction_keeps_live_bodies_and_unpurged_entries
    a_floor_that_moves_through_a_segment_frees_nothing_live
    an_installed_snapshot_replaces_the_log
    groups_that_hold_up_the_log_are_asked_for_checkpoints
    a_closed_log_refuses_writes
}

fn a_new_group_is_empty(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    assert_eq!(group.state(), GroupState::default());
    assert!(group.read_entries(0..10, usize::MAX).unwrap().is_empty());
    assert!(group.load_checkpoint().unwrap().is_none());
    assert!(matches!(group.pin(), Err(CheckpointError::None(GROUP))));
    close(log);
}

fn entries_are_read_back(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    let entries = vec![
        entry(1, 0, &[]),
        entry(1, 1, &[10, 600, 0]),
        entry(2, 2, &[3000]),
    ];
    durable(|done| group.append(entries.clone(), done));
    assert_eq!(group.read_entries(0..3, usize::MAX).unwrap(), entries);
    assert_eq!(group.read_entries(1..2, usize::MAX).unwrap(), entries[1..2]);
    assert_eq!(group.read_body(id(1, 1), 1).unwrap(), body(1, 1, 600));
    assert_eq!(group.state().last, Some(id(2, 2)));
    assert!(group.cached(&(0..3)) && group.body_cached(2));
    assert!(!group.cached(&(0..4)));
    close(log);
}

fn submitted_entries_are_visible_before_they_are_durable(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    for index in 0..300 {
        group.append(vec![entry(1, index, &[1000])], ignore());
        assert_eq!(
            group.read_entries(index..index + 1, 1).unwrap(),
            [entry(1, index, &[1000])]
        );
        assert_eq!(group.state().last, Some(id(1, index)));
    }
    close(log);
}

fn everything_survives_a_close(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    let entries: Vec<Entry> = (0..200).map(|index| entry(1, index, &[700, 20])).collect();
    for entry in &entries {
        group.append(vec![entry.clone()], ignore());
    }
    group.save_committed(Some(id(1, 150)));
    durable(|done| group.purge(id(1, 49), done));
    durable(|done| group.save_vote(Bytes::from_static(b"vote"), done));
    durable(|done| log.group(OTHER).append(vec![entry(5, 0, &[1])], done));
    let before = group.state();
    close(log);
    drop(group);
    for _ in 0..3 {
        let log = open(place);
        let group = log.group(GROUP);
        assert_eq!(group.state(), before);
        assert_eq!(
            group.read_entries(0..u64::MAX, usize::MAX).unwrap(),
            entries[50..]
        );
        assert_eq!(group.read_body(id(1, 3), 0).unwrap(), body(3, 0, 700));
        assert_eq!(log.groups(), [GROUP, OTHER]);
        assert_eq!(log.stats().damage.costly(), 0);
        close(log);
    }
}

fn callbacks_come_in_order_across_groups(place: &dyn Place) {
    let log = open(place);
    let order = Order::default();
    for number in 0..200 {
        let group = log.group(GroupId(number % 5));
        group.append(vec![entry(1, number / 5, &[900])], order.done(number));
    }
    durable(|done| log.group(GROUP).save_vote(Bytes::new(), done));
    assert_eq!(order.seen(), (0..200).collect::<Vec<u64>>());
    let stats = log.stats();
    assert_eq!(stats.operations, 201);
    assert!(stats.rounds <= 201);
    close(log);
}

fn a_batch_larger_than_a_segment_is_appended(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    let entries: Vec<Entry> = (0..60).map(|index| entry(1, index, &[4000])).collect();
    durable(|done| group.append(entries.clone(), done));
    assert_eq!(group.read_entries(0..60, usize::MAX).unwrap(), entries);
    assert!(log.stats().segments_hot > 2);
    close(log);
}

fn reading_stops_at_the_byte_limit(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    durable(|done| {
        group.append(
            (0..10).map(|index| entry(1, index, &[1000])).collect(),
            done,
        )
    });
    assert_eq!(group.read_entries(2..10, 0).unwrap().len(), 1);
    assert_eq!(group.read_entries(2..10, 3_100).unwrap().len(), 3);
    assert_eq!(group.read_entries(8..100, usize::MAX).unwrap().len(), 2);
    close(log);
}

fn truncated_entries_are_replaced(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    durable(|done| {
        group.append(
            (0..100).map(|index| entry(1, index, &[2000])).collect(),
            done,
        )
    });
    group.truncate_after(Some(id(1, 9)), ignore());
    let newer: Vec<Entry> = (10..20).map(|index| entry(2, index, &[50])).collect();
    durable(|done| group.append(newer.clone(), done));
    close(log);
    drop(group);
    let log = open(place);
    let group = log.group(GROUP);
    assert_eq!(group.read_entries(10..100, usize::MAX).unwrap(), newer);
    assert_eq!(
        group.read_entries(9..10, usize::MAX).unwrap(),
        [entry(1, 9, &[2000])]
    );
    assert_eq!(group.state().last, Some(id(2, 19)));
    close(log);
}

fn purged_entries_are_no_longer_read_but_their_bodies_are(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    durable(|done| group.append((0..10).map(|index| entry(1, index, &[100])).collect(), done));
    durable(|done| group.purge(id(1, 6), done));
    let read = group.read_entries(0..10, usize::MAX).unwrap();
    assert_eq!(read.first().map(|entry| entry.id), Some(id(1, 7)));
    assert_eq!(group.read_body(id(1, 2), 0).unwrap(), body(2, 0, 100));
    durable(|done| group.purge(id(3, 50), done));
    assert_eq!(group.state().last, Some(id(3, 50)));
    durable(|done| group.append(vec![entry(3, 51, &[])], done));
    close(log);
}

fn bodies_are_found_by_index_and_leader(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    let filler = |term, range: std::ops::Range<u64>| {
        range
            .map(|index| entry(term, index, &[3000]))
            .collect::<Vec<Entry>>()
    };
    durable(|done| group.append(filler(1, 0..50), done));
    group.truncate_after(Some(id(1, 4)), ignore());
    durable(|done| group.append(filler(2, 5..50), done));
    assert_eq!(group.read_body(id(2, 5), 0).unwrap(), body(5, 0, 3000));
    assert!(matches!(
        group.read_body(id(3, 5), 0),
        Err(ReadError::Gone { .. })
    ));
    assert!(matches!(
        group.read_body(id(2, 5), 1),
        Err(ReadError::Gone { .. })
    ));
    assert!(matches!(
        group.read_body(id(2, 99), 0),
        Err(ReadError::Gone { .. })
    ));
    close(log);
}

fn an_entry_that_is_too_large_is_refused(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    let (done, receiver) = outcome();
    group.append(vec![entry(1, 0, &[17 << 10])], done);
    let error = receiver.recv().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(group.state().last, None);
    close(log);
}

fn two_checkpoints_are_kept(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    durable(|done| group.append((0..10).map(|index| entry(1, index, &[100])).collect(), done));
    for index in [2, 4, 6] {
        group
            .write_checkpoint(checkpoint(id(1, index), &[(1, 0)]))
            .unwrap();
    }
    assert_eq!(group.checkpoint_ids(), [id(1, 4), id(1, 6)]);
    log.reclaim();
    assert_eq!(place_files(&group), 2);
    assert!(
        group.write_checkpoint(checkpoint(id(1, 3), &[])).is_err(),
        "time goes forward"
    );
    close(log);
    drop(group);
    let log = open(place);
    let group = log.group(GROUP);
    assert_eq!(group.checkpoint_ids(), [id(1, 4), id(1, 6)]);
    let loaded = group.load_checkpoint().unwrap().unwrap();
    assert_eq!(loaded, checkpoint(id(1, 6), &[(1, 0)]));
    close(log);
}

/// Kept checkpoints, counted where everybody can see them.
fn place_files(group: &hikyaku_storage::GroupLog) -> usize {
    group.checkpoint_ids().len()
}

fn a_pin_holds_its_checkpoint(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    durable(|done| {
        group.append(
            (0..40).map(|index| entry(1, index, &[2000, 5])).collect(),
            done,
        )
    });
    group
        .write_checkpoint(checkpoint(id(1, 9), &[(3, 0), (3, 1), (8, 1)]))
        .unwrap();
    let pin = group.pin().unwrap();
    for index in [19, 29, 39] {
        group
            .write_checkpoint(checkpoint(id(1, index), &[]))
            .unwrap();
    }
    assert_eq!(
        group.checkpoint_ids()[0],
        id(1, 9),
        "nothing after a pin is purged"
    );
    durable(|done| group.purge(id(1, 9), done));
    durable(|done| {
        group.append(
            (40..120).map(|index| entry(1, index, &[2000])).collect(),
            done,
        )
    });
    log.reclaim();
    let bodies: Vec<(u64, u32, Bytes)> = pin
        .bodies(3, 1)
        .map(|body| {
            body.map(|(id, ordinal, body)| (id.index, ordinal, body))
                .unwrap()
        })
        .collect();
    assert_eq!(bodies, [(3, 1, body(3, 1, 5)), (8, 1, body(8, 1, 5))]);
    assert_eq!(pin.checkpoint().id, id(1, 9));
    drop(pin);
    assert_eq!(group.checkpoint_ids(), [id(1, 29), id(1, 39)]);
    close(log);
}

fn reclaim_frees_what_no_checkpoint_names(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    for round in 0..20u64 {
        let entries = (0..40).map(|n| entry(1, round * 40 + n, &[3000])).collect();
        durable(|done| group.append(entries, done));
        let last = id(1, round * 40 + 39);
        group.write_checkpoint(checkpoint(last, &[])).unwrap();
        group.write_checkpoint(checkpoint(last, &[])).unwrap();
        let oldest = group.checkpoint_ids()[0];
        durable(|done| group.purge(oldest, done));
        log.reclaim();
    }
    let stats = log.stats();
    assert!(stats.segments_freed >= 30, "{stats:?}");
    assert!(stats.segments_hot + stats.segments_cold <= 6, "{stats:?}");
    assert!(matches!(
        group.read_body(id(1, 3), 0),
        Err(ReadError::Gone { .. })
    ));
    close(log);
}

fn compaction_keeps_live_bodies_and_unpurged_entries(place: &dyn Place) {
    let log = open(place);
    let (group, idle) = (log.group(GROUP), log.group(OTHER));
    // The idle group's entries lie among the busy group's and are never purged.
    let mut live = Vec::new();
    for index in 0..400u64 {
        group.append(vec![entry(1, index, &[1500, 40, 1500])], ignore());
        if index % 20 == 0 {
            idle.append(vec![entry(1, index / 20, &[30])], ignore());
            live.push((index, 1));
        }
    }
    for index in [380, 395] {
        group
            .write_checkpoint(checkpoint(id(1, index), &live))
            .unwrap();
    }
    durable(|done| group.purge(id(1, 380), done));
    log.reclaim();
    let stats = log.stats();
    assert!(
        stats.segments_cold >= 1 && stats.segments_hot <= 4,
        "{stats:?}"
    );
    close(log);
    drop((group, idle));
    let log = open(place);
    let (group, idle) = (log.group(GROUP), log.group(OTHER));
    for (index, ordinal) in live {
        assert_eq!(
            group.read_body(id(1, index), ordinal).unwrap(),
            body(index, ordinal, 40)
        );
    }
    assert!(matches!(
        group.read_body(id(1, 20), 0),
        Err(ReadError::Gone { .. })
    ));
    let entries = idle.read_entries(0..100, usize::MAX).unwrap();
    assert_eq!(
        entries,
        (0..20)
            .map(|index| entry(1, index, &[30]))
            .collect::<Vec<Entry>>()
    );
    let entries = group.read_entries(0..1000, usize::MAX).unwrap();
    assert_eq!(entries.first().map(|entry| entry.id.index), Some(381));
    assert_eq!(entries.len(), 19);
    close(log);
}

/// What was dead below the old floor says nothing about what lies between it and the new one.
fn a_floor_that_moves_through_a_segment_frees_nothing_live(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    durable(|done| {
        group.append(
            (0..60).map(|index| entry(1, index, &[2000])).collect(),
            done,
        )
    });
    for floor in [10, 59] {
        for at in [floor - 1, floor] {
            let live = checkpoint(id(1, at), &[(15, 0), (40, 0)]);
            group.write_checkpoint(live).unwrap();
        }
        let oldest = group.checkpoint_ids()[0];
        durable(|done| group.purge(oldest, done));
        log.reclaim();
    }
    for index in [15, 40] {
        assert_eq!(
            group.read_body(id(1, index), 0).unwrap(),
            body(index, 0, 2000)
        );
    }
    close(log);
}

fn an_installed_snapshot_replaces_the_log(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    durable(|done| group.append((0..30).map(|index| entry(1, index, &[100])).collect(), done));
    let live: Vec<(u64, u32)> = (0..50)
        .flat_map(|index| [(index * 3, 0), (index * 3, 2)])
        .collect();
    let mut install = group.begin_install();
    for (index, ordinal) in &live {
        install
            .add(id(1, *index), *ordinal, body(*index, *ordinal, 2000))
            .unwrap();
    }
    install.finish(checkpoint(id(4, 200), &live)).unwrap();
    log.reclaim();
    for _ in 0..2 {
        let state = group.state();
        assert_eq!(
            (state.last_purged, state.last),
            (Some(id(4, 200)), Some(id(4, 200)))
        );
        assert_eq!(group.checkpoint_ids(), [id(4, 200)]);
        for (index, ordinal) in &live {
            let read = group.read_body(id(1, *index), *ordinal).unwrap();
            assert_eq!(read, body(*index, *ordinal, 2000));
        }
        log.reclaim();
    }
    durable(|done| group.append(vec![entry(4, 201, &[5])], done));
    close(log);
    drop(group);
    let log = open(place);
    assert_eq!(log.group(GROUP).state().last, Some(id(4, 201)));
    assert_eq!(
        log.group(GROUP).read_body(id(1, 147), 2).unwrap(),
        body(147, 2, 2000)
    );
    close(log);
}

fn groups_that_hold_up_the_log_are_asked_for_checkpoints(place: &dyn Place) {
    let log = open(place);
    let wanted = log.wanted_checkpoints();
    let (busy, idle) = (log.group(GROUP), log.group(OTHER));
    durable(|done| idle.append(vec![entry(1, 0, &[100])], done));
    for index in 0..300 {
        busy.append(vec![entry(1, index, &[3000])], ignore());
    }
    durable(|done| busy.save_vote(Bytes::new(), done));
    log.reclaim();
    assert_eq!(
        *wanted.borrow(),
        [GROUP, OTHER],
        "the budget of 512 KiB is exceeded"
    );
    for group in [&busy, &idle] {
        let last = group.state().last.unwrap();
        group.write_checkpoint(checkpoint(last, &[])).unwrap();
        durable(|done| group.purge(last, done));
    }
    log.reclaim();
    assert!(wanted.borrow().is_empty());
    close(log);
}

fn a_closed_log_refuses_writes(place: &dyn Place) {
    let log = open(place);
    let group = log.group(GROUP);
    close(log);
    let (done, receiver) = outcome();
    group.append(vec![entry(1, 0, &[])], done);
    assert!(receiver.recv().unwrap().is_err());
}

/// A run of bodies in consecutive entries is one line, however many messages it names.
#[test]
fn a_long_live_run_is_kept_whole() {
    let log = threaded(Arc::new(SimDisk::new(3)), LogConfig::small());
    let group = log.group(GROUP);
    for index in 0..300 {
        group.append(vec![entry(1, index, &[400, 400])], ignore());
    }
    let mut kept = checkpoint(id(1, 250), &[]);
    kept.live = vec![LiveRun {
        first_index: 10,
        entries: 100,
        ordinal: 1,
        count: 1,
    }];
    group.write_checkpoint(kept).unwrap();
    durable(|done| group.purge(id(1, 250), done));
    log.reclaim();
    for index in 10..110 {
        assert_eq!(
            group.read_body(id(1, index), 1).unwrap(),
            body(index, 1, 400)
        );
    }
    close(log);
}
