//! Three nodes over links that lose, delay and break.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hikyaku_raft::RaftConfig;
use hikyaku_storage::LogConfig;

use crate::support::{Member, Setup, add, add_with, disks, leader_of, until};
use crate::wires::{Weather, address};

/// Waits until all members' first groups have applied the same, and gives their sums.
async fn sums(members: &[Member], expected: u64) {
    let applied = |member: &Member| member.groups[0].with_machine(|sum| sum.total);
    let same = || members.iter().all(|member| applied(member) == expected);
    until("all applied all", same).await;
}

/// Node ids are places plus one.
fn id(place: usize) -> u64 {
    place as u64 + 1
}

#[tokio::test(start_paused = true)]
async fn what_is_proposed_together_is_applied_everywhere_in_order() {
    let members = Setup::default().found(&disks()).await;
    let leader = leader_of(&members, 0).await;
    let group = &members[leader].groups[0];
    let mut under_way = Vec::new();
    for number in 1..=500_u64 {
        let head = number.to_be_bytes().to_vec();
        under_way.push(group.submit(head.into(), Vec::new()).await.expect("leads"));
    }
    let mut sum = 0;
    for (submitted, number) in under_way.into_iter().zip(1..) {
        sum += number;
        assert_eq!(submitted.await.expect("applied").reply, sum);
    }
    sums(&members, sum).await;
}

/// One message at a time would need a round trip of the slow link for each.
#[tokio::test(start_paused = true)]
async fn replication_does_not_wait_for_answers() {
    let setup = Setup::default();
    let members = setup.found(&disks()).await;
    let leader = leader_of(&members, 0).await;
    let delay = Duration::from_millis(50);
    for other in (0..3).filter(|other| *other != leader) {
        setup
            .wires
            .between(id(leader), id(other), Weather::Slow(delay));
    }
    let group = &members[leader].groups[0];
    add(group, 0).await.expect("applied");
    let before = tokio::time::Instant::now();
    let mut under_way = Vec::new();
    for number in 1..=20_u64 {
        let head = number.to_be_bytes().to_vec();
        under_way.push(group.submit(head.into(), Vec::new()).await.expect("leads"));
        // Each in an entry and a request of its own.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for submitted in under_way {
        submitted.await.expect("applied");
    }
    let took = before.elapsed();
    assert!(took < delay * 20, "20 entries took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_of_all_groups_travel_together() {
    let setup = Setup {
        groups: 32,
        ..Setup::default()
    };
    let members = setup.found(&disks()).await;
    for group in 0..32 {
        leader_of(&members, group).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let sent = || {
        let stats = members.iter().map(|member| member.node.transport_stats());
        stats.fold((0, 0, 0), |(messages, requests, entries), stats| {
            (
                messages + stats.control.messages,
                requests + stats.control.requests,
                entries + stats.append.requests,
            )
        })
    };
    let before = sent();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let after = sent();
    let (messages, requests) = (after.0 - before.0, after.1 - before.1);
    assert_eq!(after.2, before.2, "nothing is replicated");
    // Ten seconds of five heartbeats a second to two followers of 32 groups.
    assert!((2_800..=3_400).contains(&requests), "{requests} heartbeats");
    // Each of the six ways carries at most two messages a beat, and two signs of life a second.
    assert!(messages <= 6 * (2 * 50 + 20), "{messages} messages");
}

#[tokio::test(start_paused = true)]
async fn a_follower_behind_a_silent_link_catches_up_when_it_carries_again() {
    let setup = Setup::default();
    let members = setup.found(&disks()).await;
    let leader = leader_of(&members, 0).await;
    let cut_off = (leader + 1) % 3;
    let group = &members[leader].groups[0];
    add(group, 1).await.expect("applied");
    sums(&members, 1).await;
    setup
        .wires
        .between(id(leader), id(cut_off), Weather::Swallows);
    for _ in 0..20 {
        add(group, 1).await.expect("a majority is left");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(members[cut_off].groups[0].with_machine(|sum| sum.total) < 21);
    setup.wires.between(id(leader), id(cut_off), Weather::Fair);
    let mended = tokio::time::Instant::now();
    sums(&members, 21).await;
    let took = mended.elapsed();
    assert!(took < Duration::from_secs(4), "it took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_connections_break_again_and_again() {
    let setup = Setup::default();
    let members = setup.found(&disks()).await;
    let leader = leader_of(&members, 0).await;
    let group = &members[leader].groups[0];
    for round in 0..20 {
        let other = (leader + 1 + round % 2) % 3;
        setup.wires.break_after(id(leader), id(other), 1_500);
        setup.wires.break_after(id(other), id(leader), 700);
        let body = Bytes::from(vec![7; 1_000]);
        let answers = join_all((0..10).map(|_| add_with(group, 1, body.clone()))).await;
        for answer in answers {
            answer.expect("a majority is left");
        }
    }
    sums(&members, 200).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_of_another_cluster_are_not_heard() {
    let setup = Setup::default();
    let foreign = Setup {
        cluster: Some(78),
        ..setup.clone()
    };
    let disks = disks();
    let one = setup.start(1, &disks[0]).await;
    let two = foreign.start(2, &disks[1]).await;
    let voters = std::collections::BTreeMap::from([(1, 1), (2, 2), (3, 3)]);
    one.groups[0].found(voters).await.expect("founded");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!one.groups[0].leadership().serving);
    assert_eq!(one.node.transport_stats().control.opened, 0);
    assert_eq!(two.node.transport_stats().control.opened, 0);
    assert!(two.groups[0].voters().is_empty(), "it heard of no group");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_knows_no_cluster_yet_hears_the_others() {
    let setup = Setup::default();
    let fresh = Setup {
        cluster: None,
        ..setup.clone()
    };
    let disks = disks();
    let one = setup.start(1, &disks[0]).await;
    let two = fresh.start(2, &disks[1]).await;
    let voters = std::collections::BTreeMap::from([(1, 1), (2, 2), (3, 3)]);
    one.groups[0].found(voters).await.expect("founded");
    let members = [one, two];
    leader_of(&members, 0).await;
}

/// Each group would elect either of the two that are left.
#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_far_off_does_not_campaign() {
    let setup = Setup {
        groups: 12,
        ..Setup::default()
    };
    let disks = disks();
    let mut members = setup.found(&disks).await;
    members[2].wall.0.store(6_000, Ordering::Relaxed);
    for group in 0..12 {
        leader_of(&members, group).await;
    }
    until("the skew is known", || {
        members[2]
            .node
            .clock_skew_ms()
            .is_some_and(|skew| skew > 5_900)
    })
    .await;
    assert!(
        members[1]
            .node
            .clock_skew_ms()
            .is_some_and(|skew| skew.abs() < 100)
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Whatever node 1 led, and what node 3 leads already, is to be led anew.
    for group in &members[2].groups {
        if group.leadership().serving {
            group.transfer_leader(1).await.expect("asked");
        }
    }
    until("node 3 leads nothing", || {
        members[2]
            .groups
            .iter()
            .all(|group| !group.leadership().serving)
    })
    .await;
    setup.wires.unplug(1);
    let gone = members.remove(0);
    gone.node.stop().await;
    drop(gone);
    for group in 0..12 {
        assert_eq!(
            leader_of(&members, group).await,
            0,
            "node 2 leads group {group}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_with_one_entry_larger_than_all_bounds_still_goes() {
    let setup = Setup {
        config: RaftConfig {
            append_bytes: 1_000,
            ..RaftConfig::default()
        },
        storage: LogConfig {
            segment_bytes: 32 << 20,
            max_entry_bytes: 8 << 20,
            max_round_bytes: 8 << 20,
            ..LogConfig::small()
        },
        ..Setup::default()
    };
    let members = setup.found(&disks()).await;
    let leader = leader_of(&members, 0).await;
    let group = &members[leader].groups[0];
    let large = Bytes::from(vec![7; 6 << 20]);
    let answers = join_all((0..3).map(|_| add_with(group, 1, large.clone()))).await;
    for answer in answers {
        answer.expect("applied");
    }
    sums(&members, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_was_removed_is_not_spoken_to_until_it_has_an_address_again() {
    let setup = Setup::default();
    let members = setup.found(&disks()).await;
    let leader = leader_of(&members, 0).await;
    let other = (leader + 1) % 3;
    let group = members[leader].groups[0].clone();
    let total = |member: &Member| member.groups[0].with_machine(|sum| sum.total);
    add(&group, 1).await.expect("applied");
    until("it follows", || total(&members[other]) == 1).await;
    let (here, there) = (id(leader), id(other));
    members[leader].node.peers().remove(there);
    assert!(!members[leader].node.peers().nodes().contains(&there));
    // What is on the wire yet.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let before = setup.wires.carried(here, there);
    for _ in 0..20 {
        add(&group, 1).await.expect("a majority is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(setup.wires.carried(here, there), before);
    assert_eq!(total(&members[other]), 1);
    members[leader]
        .node
        .peers()
        .set_address(there, address(there));
    until("it follows again", || total(&members[other]) == 21).await;
}
