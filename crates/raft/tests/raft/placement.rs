//! A node's replicas: closed and opened, dropped for good, and followed by others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_raft::{Machine, OpenGroupError, ProposeError, RaftConfig};
use hikyaku_storage::{CrashKind, GroupId, SimDisk};

use crate::support::{Member, Setup, add, disks, leader_of, open, until};

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
    assert!(next.voters().is_empty());
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
