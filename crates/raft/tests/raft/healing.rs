//! What rots on one node's disk is served all the same, and mended from the others.

use std::sync::Arc;

use bytes::Bytes;
use hikyaku_storage::{CrashKind, GroupId, LogConfig, SimDisk};

use crate::support::{Member, Setup, add_with, disks, leader_of, until};

const MESSAGES: u64 = 60;

/// So little is kept in memory that what was sent first is on the disk alone.
fn setup() -> Setup {
    let storage = LogConfig {
        cache_bytes: 4 << 10,
        ..LogConfig::small()
    };
    Setup {
        storage,
        ..Setup::default()
    }
}

/// The body of a message, which nothing else has.
fn body(number: u64) -> Bytes {
    format!("body {number} ").repeat(300).into()
}

/// A cluster in which every message stays needed, and the index of each.
async fn filled(setup: &Setup, disks: &[Arc<SimDisk>]) -> (Vec<Member>, Vec<u64>) {
    let members = setup.found(disks).await;
    let leader = leader_of(&members, 0).await;
    for number in 0..MESSAGES {
        let group = &members[leader].groups[0];
        add_with(group, 1, body(number)).await.expect("applied");
    }
    let live = |member: &Member| -> Vec<u64> {
        let group = &member.groups[0];
        group.with_machine(|sum| sum.live().iter().copied().collect())
    };
    let all = MESSAGES as usize;
    let whole = || members.iter().all(|member| live(member).len() == all);
    until("all have all", whole).await;
    let indexes = live(&members[0]);
    (members, indexes)
}

/// Flips a bit of what lies `after` bytes behind the first place of these bytes on a disk.
fn flip(disk: &SimDisk, bytes: &[u8], after: usize) {
    let found = disk.files().into_iter().find_map(|path| {
        let content = disk.content(&path)?;
        let at = content.windows(bytes.len()).position(|it| it == bytes)?;
        Some((path, at + after))
    });
    let (path, at) = found.expect("it is on the disk");
    disk.flip_bit(&path, at as u64, 2);
}

async fn read(member: &Member, index: u64) -> Option<Bytes> {
    let read = member.groups[0].read_bodies(&[(index, 0)]).await;
    read.into_iter().next().expect("one was asked for").ok()
}

#[tokio::test(start_paused = true)]
async fn a_body_that_rots_comes_from_another_node_and_is_here_again_afterwards() {
    let (setup, disks) = (setup(), disks());
    let (members, indexes) = filled(&setup, &disks).await;
    for (place, (member, disk)) in members.iter().zip(&disks).enumerate() {
        // So far from each other that none is read ahead with the one before.
        let message = 10 + 20 * place;
        flip(disk, &body(message as u64), 100);
        let index = indexes[message];
        assert_eq!(read(member, index).await, Some(body(message as u64)));
        assert!(member.log.damages().bodies.is_empty());
        assert_eq!(member.log.stats().damage.healed, 1);
    }
    // Nobody is there to be asked a second time.
    (1..=3).for_each(|node| setup.wires.unplug(node));
    for (place, member) in members.iter().enumerate() {
        let message = 10 + 20 * place;
        let again = read(member, indexes[message]).await;
        assert_eq!(again, Some(body(message as u64)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_can_be_asked_for_is_not_served_and_waits_to_be_mended() {
    let (setup, disks) = (setup(), disks());
    let (members, indexes) = filled(&setup, &disks).await;
    (1..=3).for_each(|node| setup.wires.unplug(node));
    flip(&disks[0], &body(10), 100);
    assert_eq!(read(&members[0], indexes[10]).await, None);
    assert!(!members[0].log.damages().bodies.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_scrub_finds_is_mended_without_a_reader() {
    let (setup, disks) = (setup(), disks());
    let (members, indexes) = filled(&setup, &disks).await;
    for message in [10, 11, 30] {
        flip(&disks[1], &body(message), 100);
    }
    members[1].log.scrub();
    assert!(!members[1].log.damages().bodies.is_empty());
    until("mended", || members[1].log.damages().bodies.is_empty()).await;
    assert_eq!(members[1].log.stats().damage.found[1], 3);
    (1..=3).for_each(|node| setup.wires.unplug(node));
    for message in [10, 11, 30] {
        let again = read(&members[1], indexes[message as usize]).await;
        assert_eq!(again, Some(body(message)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_with_a_body_that_rotted_meanwhile_gets_it_from_the_others() {
    let (setup, mut disks) = (setup(), disks());
    let (mut members, _) = filled(&setup, &disks).await;
    let stopped = members.pop().expect("three");
    setup.wires.unplug(3);
    drop(stopped);
    disks[2] = Arc::new(disks[2].crash(CrashKind::PowerCut));
    flip(&disks[2], &body(10), 100);
    let member = setup.start(3, &disks[2]).await;
    let live = || member.groups[0].with_machine(|sum| sum.live().len());
    until("it has applied all", || live() == MESSAGES as usize).await;
    assert!(member.log.damages().bodies.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_replica_with_a_damaged_entry_stops_wherever_it_is_and_the_others_go_on() {
    for damaged_leads in [true, false] {
        let (setup, disks) = (setup(), disks());
        let (members, _) = filled(&setup, &disks).await;
        let leader = leader_of(&members, 0).await;
        let victim = if damaged_leads {
            leader
        } else {
            (leader + 1) % 3
        };
        // The record's header, before the table of its one body and the head.
        let (path, at) = header_of(&disks[victim], &body(10));
        disks[victim].flip_bit(&path, at, 2);
        members[victim].log.scrub();
        let node = &members[victim].node;
        assert!(node.damaged().contains_key(&1));
        let group = &members[victim].groups[0];
        until("it stops", || !group.leadership().serving).await;
        let log = members[victim].log.group(GroupId(1));
        let before = log.state();

        let others: Vec<&Member> = (0..3)
            .filter(|place| *place != victim)
            .map(|place| &members[place])
            .collect();
        let serving = || {
            let mut serving = others.iter();
            serving.position(|member| member.groups[0].leadership().serving)
        };
        until("another leads", || serving().is_some()).await;
        let led = &others[serving().expect("one serves")].groups[0];
        add_with(led, 1, body(1_000)).await.expect("applied");
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        assert_eq!(log.state(), before, "it votes and takes nothing any more");
    }
}

/// The file and the place of a byte in the header of the record with this body.
fn header_of(disk: &SimDisk, body: &[u8]) -> (String, u64) {
    let found = disk.files().into_iter().find_map(|path| {
        let content = disk.content(&path)?;
        let at = content.windows(body.len()).position(|it| it == body)?;
        // Eight bytes of number and one of kind are its head.
        Some((path, at - 9 - 8 - 20))
    });
    let (path, at) = found.expect("it is on the disk");
    (path, at as u64)
}
