//! Whose records a group's are: claimed, refused, dropped, and begun anew.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod common;
#[path = "common/places.rs"]
mod places;

use bytes::Bytes;
use common::{GROUP, OTHER, body, checkpoint, durable, entry, id, ignore, outcome};
use hikyaku_storage::{
    Checkpoint, CheckpointError, ClaimError, Entry, GroupLog, GroupState, Log, ReadError,
};
use places::{Place, close, open, stories};
use std::io;

stories! {
    a_group_belongs_to_the_first_replica_that_opens_it
    records_without_an_owner_belong_to_the_first_replica_that_asks
    a_forgotten_group_is_gone
    a_group_can_come_back_as_another_replica
    what_a_dropped_replica_left_is_not_taken_for_the_next_ones
    what_a_dropped_replica_left_is_reclaimed_while_the_next_one_lives
    a_replica_that_follows_within_a_segment_is_read_from_disk
    handles_to_a_dropped_replica_write_nothing
    an_install_for_a_dropped_replica_is_refused
    a_pin_of_a_dropped_replica_does_not_let_go_of_the_next_ones_checkpoint
}

fn open_replica(log: &Log, replica: u64) -> GroupLog {
    log.open_replica(GROUP, replica).unwrap()
}

fn refusal(log: &Log, asked: u64) -> u64 {
    match log.open_replica(GROUP, asked).map(|_| ()) {
        Err(ClaimError::OtherReplica {
            group,
            here,
            asked: of,
        }) => {
            assert_eq!((group, of), (GROUP, asked));
            here
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// An entry of which another replica's has the same index and leader.
fn other_entry(index: u64, size: usize) -> Entry {
    Entry {
        bodies: vec![Bytes::from(vec![0xab; size])],
        ..entry(1, index, &[])
    }
}

fn written(group: &GroupLog, entries: Vec<Entry>) {
    durable(|done| group.append(entries, done));
}

fn a_group_belongs_to_the_first_replica_that_opens_it(place: &dyn Place) {
    let log = open(place);
    assert_eq!(log.group(GROUP).state().owner, None);
    let group = open_replica(&log, 11);
    assert_eq!(refusal(&log, 12), 11);
    written(&group, vec![entry(1, 0, &[10])]);
    assert_eq!(open_replica(&log, 11).state().last, Some(id(1, 0)));
    close(log);
    drop(group);
    for _ in 0..2 {
        let log = open(place);
        assert_eq!(log.replicas(), [(GROUP, Some(11))].into());
        assert_eq!(refusal(&log, 12), 11);
        let group = open_replica(&log, 11);
        assert_eq!(group.state().last, Some(id(1, 0)));
        // The owner is restated in every segment that follows.
        let next = group.state().last.unwrap().index + 1;
        let entries = (next..next + 60).map(|index| entry(1, index, &[4000]));
        written(
            &log.group(OTHER),
            entries
                .map(|e| entry(1, e.id.index - next, &[4000]))
                .collect(),
        );
        log.group(OTHER).forget().unwrap();
        close(log);
    }
}

fn records_without_an_owner_belong_to_the_first_replica_that_asks(place: &dyn Place) {
    let log = open(place);
    written(
        &log.group(GROUP),
        (0..60).map(|index| entry(1, index, &[4000])).collect(),
    );
    log.group(GROUP)
        .write_checkpoint(checkpoint(id(1, 50), &[(3, 0)]))
        .unwrap();
    assert_eq!(log.replicas(), [(GROUP, None)].into());
    let group = open_replica(&log, 5);
    assert_eq!(refusal(&log, 6), 5);
    written(&group, vec![entry(1, 60, &[10])]);
    close(log);
    drop(group);
    let log = open(place);
    assert_eq!(refusal(&log, 6), 5);
    let group = open_replica(&log, 5);
    let entries = group.read_entries(0..u64::MAX, usize::MAX).unwrap();
    assert_eq!(entries.len(), 61);
    assert_eq!(entries[7], entry(1, 7, &[4000]));
    assert_eq!(group.checkpoint_ids(), [id(1, 50)]);
    close(log);
}

fn a_forgotten_group_is_gone(place: &dyn Place) {
    let log = open(place);
    let group = open_replica(&log, 1);
    written(
        &group,
        (0..100).map(|index| entry(1, index, &[2000])).collect(),
    );
    written(&log.group(OTHER), vec![entry(1, 0, &[])]);
    group
        .write_checkpoint(checkpoint(id(1, 50), &[(1, 0)]))
        .unwrap();
    group.forget().unwrap();
    log.reclaim();
    assert_eq!(group.state(), GroupState::default());
    assert!(log.stats().segments_hot <= 2, "{:?}", log.stats());
    assert_eq!(log.groups(), [OTHER]);
    close(log);
    drop(group);
    let log = open(place);
    assert_eq!(log.groups(), [OTHER]);
    assert!(log.group(GROUP).load_checkpoint().unwrap().is_none());
    close(log);
}

fn a_group_can_come_back_as_another_replica(place: &dyn Place) {
    let log = open(place);
    let first = open_replica(&log, 1);
    written(&first, vec![entry(1, 0, &[1]), entry(1, 1, &[2])]);
    durable(|done| first.save_vote(Bytes::from_static(b"promised"), done));
    first.forget().unwrap();
    let second = open_replica(&log, 2);
    let empty = GroupState {
        owner: Some(2),
        ..GroupState::default()
    };
    assert_eq!(second.state(), empty);
    written(&second, vec![entry(9, 0, &[3])]);
    second.write_checkpoint(checkpoint(id(9, 0), &[])).unwrap();
    close(log);
    drop((first, second));
    let log = open(place);
    assert_eq!(refusal(&log, 1), 2);
    let second = open_replica(&log, 2);
    assert_eq!(second.state().vote, None);
    assert_eq!(
        second.read_entries(0..9, usize::MAX).unwrap(),
        [entry(9, 0, &[3])]
    );
    assert_eq!(second.checkpoint_ids(), [id(9, 0)]);
    close(log);
}

/// Index and leader are the same: only the owner tells them apart.
fn what_a_dropped_replica_left_is_not_taken_for_the_next_ones(place: &dyn Place) {
    let log = open(place);
    let first = open_replica(&log, 1);
    for index in 0..100 {
        // The other group keeps every segment alive.
        written(&log.group(OTHER), vec![entry(1, index, &[500])]);
        written(&first, vec![entry(1, index, &[2000])]);
    }
    first.forget().unwrap();
    let second = open_replica(&log, 2);
    let gone = |group: &GroupLog, index| {
        let read = group.read_body(id(1, index), 0);
        assert!(
            matches!(read, Err(ReadError::Gone { .. })),
            "{index}: {read:?}"
        );
    };
    gone(&second, 3);
    written(
        &second,
        (0..3).map(|index| other_entry(index, 50)).collect(),
    );
    gone(&second, 3);
    close(log);
    drop((first, second));
    for _ in 0..2 {
        let log = open(place);
        let second = open_replica(&log, 2);
        gone(&second, 3);
        assert_eq!(second.read_body(id(1, 2), 0).unwrap(), vec![0xab; 50]);
        log.reclaim();
        gone(&second, 99);
        assert_eq!(second.read_entries(0..9, usize::MAX).unwrap().len(), 3);
        close(log);
    }
}

fn what_a_dropped_replica_left_is_reclaimed_while_the_next_one_lives(place: &dyn Place) {
    let log = open(place);
    let first = open_replica(&log, 1);
    written(
        &first,
        (0..200).map(|index| entry(1, index, &[3000])).collect(),
    );
    let full = log.stats().segments_hot;
    first.forget().unwrap();
    let second = open_replica(&log, 2);
    written(
        &second,
        (0..5).map(|index| other_entry(index, 100)).collect(),
    );
    log.reclaim();
    let stats = log.stats();
    assert!(
        full > 5 && stats.segments_hot <= 2,
        "{full} and then {stats:?}"
    );
    let entries = second.read_entries(0..9, usize::MAX).unwrap();
    assert_eq!(
        entries,
        (0..5)
            .map(|index| other_entry(index, 100))
            .collect::<Vec<_>>()
    );
    close(log);
}

/// Lower indexes follow higher ones in one segment; nothing of it is in memory when it is read.
fn a_replica_that_follows_within_a_segment_is_read_from_disk(place: &dyn Place) {
    let log = open(place);
    let first = open_replica(&log, 1);
    written(
        &first,
        (0..9).map(|index| entry(1, index, &[300])).collect(),
    );
    first.forget().unwrap();
    let second = open_replica(&log, 2);
    let entries: Vec<Entry> = (0..12).map(|index| other_entry(index, 200)).collect();
    written(&second, entries.clone());
    let flood = |log: &Log| {
        let next = log
            .group(OTHER)
            .state()
            .last
            .map_or(0, |last| last.index + 1);
        written(
            &log.group(OTHER),
            (next..next + 100)
                .map(|index| entry(1, index, &[3000]))
                .collect(),
        );
    };
    flood(&log);
    assert!(!second.cached(&(0..12)));
    assert_eq!(second.read_entries(0..99, usize::MAX).unwrap(), entries);
    close(log);
    drop((first, second));
    let log = open(place);
    assert_eq!(
        open_replica(&log, 2)
            .read_entries(0..99, usize::MAX)
            .unwrap(),
        entries
    );
    assert_eq!(log.stats().damage.costly(), 0);
    close(log);
}

fn handles_to_a_dropped_replica_write_nothing(place: &dyn Place) {
    let log = open(place);
    let first = open_replica(&log, 1);
    written(&first, vec![entry(1, 0, &[1])]);
    let forgotten = first.clone();
    first.forget().unwrap();
    let second = open_replica(&log, 2);
    let (done, answered) = outcome();
    forgotten.append(vec![entry(1, 1, &[1])], done);
    assert_eq!(
        answered.recv().unwrap().unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    forgotten.save_vote(Bytes::from_static(b"late"), ignore());
    forgotten.save_committed(Some(id(1, 0)));
    let late = forgotten.write_checkpoint(checkpoint(id(1, 0), &[]));
    assert!(matches!(late, Err(CheckpointError::Io(_))));
    assert_eq!(
        forgotten.forget().unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    let untouched = GroupState {
        owner: Some(2),
        ..GroupState::default()
    };
    assert_eq!(second.state(), untouched);
    assert!(second.checkpoint_ids().is_empty());
    close(log);
    drop((first, second, forgotten));
    let log = open(place);
    assert_eq!(open_replica(&log, 2).state(), untouched);
    close(log);
}

fn an_install_for_a_dropped_replica_is_refused(place: &dyn Place) {
    let log = open(place);
    let first = open_replica(&log, 1);
    let mut early = first.begin_install();
    // Of the first body a cold segment has begun, which ends only after the drop.
    early.add(id(1, 4), 0, body(4, 0, 900)).unwrap();
    early.add(id(1, 5), 0, body(5, 0, 900)).unwrap();
    let mut late = first.begin_install();
    first.forget().unwrap();
    let second = open_replica(&log, 2);
    assert!(
        early
            .finish(checkpoint(id(1, 9), &[(4, 0), (5, 0)]))
            .is_err()
    );
    late.add(id(1, 4), 0, body(4, 0, 900)).unwrap();
    assert!(late.finish(checkpoint(id(1, 9), &[(4, 0)])).is_err());
    assert!(second.checkpoint_ids().is_empty());
    assert_eq!(second.state().last, None);
    // The next one's own is none the worse for it.
    let mut install = second.begin_install();
    install
        .add(id(1, 4), 0, Bytes::from_static(b"of the second"))
        .unwrap();
    install.finish(checkpoint(id(1, 9), &[(4, 0)])).unwrap();
    log.reclaim();
    let read = second.read_body(id(1, 4), 0).unwrap();
    assert_eq!(read, Bytes::from_static(b"of the second"));
    close(log);
}

fn a_pin_of_a_dropped_replica_does_not_let_go_of_the_next_ones_checkpoint(place: &dyn Place) {
    let log = open(place);
    let newer = |group: &GroupLog| {
        let last = id(1, 3);
        group
            .write_checkpoint(Checkpoint {
                id: last,
                ..checkpoint(last, &[])
            })
            .unwrap();
    };
    let first = open_replica(&log, 1);
    written(&first, (0..4).map(|index| entry(1, index, &[10])).collect());
    first
        .write_checkpoint(checkpoint(id(1, 1), &[(0, 0)]))
        .unwrap();
    let old = first.pin().unwrap();
    first.forget().unwrap();
    let second = open_replica(&log, 2);
    written(
        &second,
        (0..4).map(|index| other_entry(index, 10)).collect(),
    );
    second
        .write_checkpoint(checkpoint(id(1, 1), &[(0, 0)]))
        .unwrap();
    let held = second.pin().unwrap();
    newer(&second);
    second.write_checkpoint(checkpoint(id(1, 3), &[])).unwrap();
    drop(old);
    log.reclaim();
    assert_eq!(second.checkpoint_ids(), [id(1, 1), id(1, 3)]);
    assert_eq!(held.bodies(0, 0).next().unwrap().unwrap().2, vec![0xab; 10]);
    drop(held);
    close(log);
}
