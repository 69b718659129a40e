//! A node's replicas: closed and opened, dropped for good, and followed by others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hikyaku_raft::{DropGroupError, Machine, OpenGroupError, ProposeError, RaftConfig};
use hikyaku_storage::{CrashKind, GroupId, SimDisk};
use tokio::time::Instant;

use crate::support::{Member, Setup, add, add_with, disks, leader_of, open, until};

fn setup() -> Setup {
    Setup {
        config: RaftConfig {
            checkpoint_every_entries: 100,
            ..RaftConfig::default()
        },
        ..Setup::default()
    }
}

/// Three founded members, with the places of the leader and of a follower.
async fn three(setup: &Setup, disks: &[Arc<SimDisk>]) -> (Vec<Member>, usize, usize) {
    let members = setup.found(disks).await;
    let leader = leader_of(&members, 0).await;
    (members, leader, (leader + 1) % 3)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn total(member: &Member) -> u64 {
    member.groups[0].with_machine(|sum| sum.total)
}

#[tokio::test(start_paused = true)]
async fn a_closed_group_is_refused_and_goes_on_when_it_is_opened_again() {
    let (mut members, leader, other) = three(&Setup::default(), &disks()).await;
    let group = members[leader].groups[0].clone();
    add(&group, 1).await.expect("applied");
    until("it follows", || total(&members[other]) == 1).await;
    let replica = other as u64 + 1;
    let twice = open(&members[other].node, 1, replica).await.map(|_| ());
    assert!(
        matches!(twice, Err(OpenGroupError::AlreadyOpen { group: 1 })),
        "{twice:?}"
    );
    assert!(members[other].node.close_group(1).await);
    assert!(!members[other].node.close_group(1).await);
    let closed = members[other].groups[0].clone();
    let refused = add(&closed, 1).await;
    assert!(
        matches!(refused, Err(ProposeError::NotLeader { .. })),
        "{refused:?}"
    );
    add(&group, 2).await.expect("a majority is left");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(total(&members[other]), 1);
    let opened = open(&members[other].node, 1, replica).await;
    members[other].groups[0] = opened.expect("opens");
    until("it has caught up", || total(&members[other]) == 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_closed_leaves_no_caller_waiting() {
    let (members, leader, _) = three(&Setup::default(), &disks()).await;
    let group = members[leader].groups[0].clone();
    for other in (0..3).filter(|other| *other != leader) {
        members[other].node.close_group(1).await;
    }
    let submitted = group
        .submit(1_u64.to_be_bytes().to_vec().into(), Vec::new())
        .await;
    let submitted = submitted.expect("it leads yet");
    members[leader].node.close_group(1).await;
    let outcome = tokio::time::timeout(Duration::from_secs(1), submitted).await;
    let outcome = outcome.expect("answered");
    assert!(
        matches!(outcome, Err(ProposeError::Unknown { .. })),
        "{outcome:?}"
    );
    assert!(!group.leadership().serving);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_replica_s_node_comes_back_as_another_replica_with_a_snapshot() {
    let setup = setup();
    let (mut members, leader, other) = three(&setup, &disks()).await;
    let group = members[leader].groups[0].clone();
    let purged = |members: &[Member]| {
        let log = members[leader].log.group(GroupId(1));
        log.state().last_purged.is_some_and(|id| id.index > 10)
    };
    let (mut number, mut sum) = (0, 0);
    while !purged(&members) || number < 400 {
        for _ in 0..50 {
            number += 1;
            let body = Bytes::from(vec![number as u8; 4_096]);
            sum = add_with(&group, 1 + number % 2, body)
                .await
                .expect("applied");
        }
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(number < 100_000, "nothing is ever purged");
    }
    let (old, new) = (other as u64 + 1, 13);
    let node = old;
    let all: BTreeMap<u64, u64> = (1..=3).map(|id| (id, id)).collect();
    let rest = all.iter().filter(|(replica, _)| **replica != old);
    let mut goal: BTreeMap<u64, u64> = rest.map(|(replica, node)| (*replica, *node)).collect();
    group
        .set_voters(goal.clone(), soon())
        .await
        .expect("without it");
    let refused = members[other].node.drop_group(1, new).await;
    assert!(matches!(refused, Err(DropGroupError::OtherReplica { here, .. }) if here == old));
    members[other]
        .node
        .drop_group(1, old)
        .await
        .expect("dropped");
    assert!(members[other].node.replicas().is_empty());
    members[other]
        .node
        .drop_group(1, old)
        .await
        .expect("nothing to do");
    let opened = open(&members[other].node, 1, new).await.expect("opens");
    assert_eq!(opened.with_machine(|sum| sum.total), 0);
    members[other].groups[0] = opened;
    goal.insert(new, node);
    group.set_voters(goal, soon()).await.expect("with it again");
    until("it has caught up", || total(&members[other]) == sum).await;
    let log = members[other].log.group(GroupId(1));
    assert!(log.state().last_purged.is_some(), "it was a snapshot");
    let live = group.with_machine(|sum| sum.live().clone());
    let names: Vec<(u64, u32)> = live.iter().map(|index| (*index, 0)).collect();
    let here = members[other].groups[0].read_bodies(&names).await;
    let there = group.read_bodies(&names).await;
    assert!(names.len() > 100, "many bodies are needed");
    for (here, there) in here.into_iter().zip(there) {
        assert_eq!(here.expect("here"), there.expect("there"));
    }
}

/// The leader does not know yet that it talks to nobody.
#[tokio::test(start_paused = true)]
async fn messages_to_a_dropped_replica_do_not_reach_the_next_one() {
    let (mut members, leader, other) = three(&Setup::default(), &disks()).await;
    let group = members[leader].groups[0].clone();
    add(&group, 1).await.expect("applied");
    until("it follows", || total(&members[other]) == 1).await;
    let old = other as u64 + 1;
    members[other]
        .node
        .drop_group(1, old)
        .await
        .expect("dropped");
    members[other].groups[0] = open(&members[other].node, 1, 13).await.expect("opens");
    for _ in 0..20 {
        add(&group, 1).await.expect("a majority is left");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let next = &members[other].groups[0];
    assert_eq!(next.leadership(), hikyaku_raft::Leadership::default());
    assert_eq!(next.members(), hikyaku_raft::Members::default());
    let state = members[other].log.group(GroupId(1)).state();
    assert_eq!(
        (state.owner, state.vote, state.last),
        (Some(13), None, None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_volume_opens_only_as_the_replica_that_it_is_of() {
    let setup = setup();
    let disks = disks();
    let (mut members, leader, other) = three(&setup, &disks).await;
    let group = members[leader].groups[0].clone();
    for _ in 0..300 {
        add(&group, 1).await.expect("applied");
    }
    until("it follows", || total(&members[other]) == 300).await;
    let id = other as u64 + 1;
    let stopped = members.remove(other);
    setup.wires.unplug(id);
    stopped.node.stop().await;
    drop(stopped);
    let disk = Arc::new(disks[other].crash(CrashKind::PowerCut));
    let back = setup.start_empty(id, &disk).await;
    assert_eq!(back.node.replicas(), BTreeMap::from([(1, Some(id))]));
    let refused = open(&back.node, 1, 13).await.map(|_| ());
    assert!(
        matches!(refused, Err(OpenGroupError::OtherReplica { here, asked: 13, .. }) if here == id),
        "{refused:?}"
    );
    // A drop of what is not even open, and a power cut at once: it stays dropped.
    back.node.drop_group(1, id).await.expect("dropped");
    drop(back);
    let disk = Arc::new(disk.crash(CrashKind::PowerCut));
    let back = setup.start_empty(id, &disk).await;
    assert!(back.node.replicas().is_empty());
    let opened = open(&back.node, 1, 13).await.expect("opens");
    assert_eq!(opened.with_machine(Machine::encode), 0_u64.to_be_bytes());
}
