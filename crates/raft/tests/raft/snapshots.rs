//! A follower for which the log no longer suffices.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hikyaku_raft::RaftConfig;
use hikyaku_storage::{CrashKind, GroupId, SimDisk};

use crate::support::{Member, Setup, add_with, disks, leader_of, until};

const BODY_BYTES: usize = 4_096;

fn setup() -> Setup {
    Setup {
        config: RaftConfig {
            checkpoint_every_entries: 100,
            ..RaftConfig::default()
        },
        ..Setup::default()
    }
}

/// Three members of which the last was stopped and has missed so much that the log it needs is purged.
struct Behind {
    setup: Setup,
    disks: Vec<Arc<SimDisk>>,
    members: Vec<Member>,
    leader: u64,
    total: u64,
}

fn body(number: u64) -> Bytes {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(BODY_BYTES, 7);
    body.into()
}

impl Behind {
    async fn new(setup: Setup) -> Self {
        let disks = disks();
        let mut members = setup.found(&disks).await;
        let led = leader_of(&members, 0).await;
        if led == 2 {
            let group = &members[2].groups[0];
            group.transfer_leader(1).await.expect("asked");
            until("node 1 leads", || members[0].groups[0].leadership().serving).await;
        }
        let gone = members.pop().expect("three");
        setup.wires.unplug(3);
        gone.node.stop().await;
        let place = leader_of(&members, 0).await;
        let mut total = 0;
        let purged = |members: &[Member]| {
            let log = members[place].log.group(GroupId(1));
            log.state().last_purged.is_some_and(|id| id.index > 10)
        };
        let mut number = 0;
        while !purged(&members) || number < 1_000 {
            for _ in 0..50 {
                // Every other body stays needed.
                number += 1;
                let added = 1 + number % 2;
                let group = &members[place].groups[0];
                total = add_with(group, added, body(number)).await.expect("applied");
            }
            tokio::time::sleep(Duration::from_millis(600)).await;
            assert!(number < 100_000, "nothing is ever purged");
        }
        let leader = place as u64 + 1;
        Self {
            setup,
            disks,
            members,
            leader,
            total,
        }
    }

    async fn back(&self) -> Member {
        self.setup.start(3, &self.disks[2]).await
    }

    /// Waits until node 3 has everything, and compares.
    async fn caught_up(&self, member: &Member) {
        let group = &member.groups[0];
        until("node 3 has caught up", || {
            group.with_machine(|sum| sum.total) == self.total
        })
        .await;
        let live = group.with_machine(|sum| sum.live().clone());
        let names: Vec<(u64, u32)> = live.iter().map(|index| (*index, 0)).collect();
        assert!(names.len() > 400, "many bodies are needed");
        let there = &self.members[self.leader as usize - 1].groups[0];
        let (here, there) = (
            group.read_bodies(&names).await,
            there.read_bodies(&names).await,
        );
        for (here, there) in here.into_iter().zip(there) {
            assert_eq!(here.expect("here"), there.expect("there"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_behind_a_purged_log_catches_up() {
    let behind = Behind::new(setup()).await;
    let member = behind.back().await;
    behind.caught_up(&member).await;
    assert!(
        member.log.group(GroupId(1)).state().last_purged.is_some(),
        "it was a snapshot that it caught up with"
    );
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_broke_off_goes_on_where_it_was() {
    let behind = Behind::new(setup()).await;
    let before = behind.setup.wires.carried(behind.leader, 3);
    let live = behind.members[0].groups[0].with_machine(|sum| sum.live().len());
    let bodies = (live * BODY_BYTES) as u64;
    behind.setup.wires.break_after(behind.leader, 3, bodies / 2);
    let member = behind.back().await;
    behind.caught_up(&member).await;
    let carried = behind.setup.wires.carried(behind.leader, 3) - before;
    assert!(
        carried < bodies + bodies / 4,
        "{carried} bytes for {bodies} bytes of bodies"
    );
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_loses_its_power_half_way_begins_anew() {
    let slow = RaftConfig {
        snapshot_bytes_per_second: 1 << 20,
        ..setup().config
    };
    let behind = Behind::new(Setup {
        config: slow,
        ..setup()
    })
    .await;
    let before = behind.setup.wires.carried(behind.leader, 3);
    let member = behind.back().await;
    until("something has arrived", || {
        behind.setup.wires.carried(behind.leader, 3) > before + (3 << 18)
    })
    .await;
    assert_eq!(member.groups[0].with_machine(|sum| sum.total), 0);
    behind.setup.wires.unplug(3);
    let disk = Arc::new(behind.disks[2].crash(CrashKind::PowerCut));
    drop(member);
    let member = behind.setup.start(3, &disk).await;
    behind.caught_up(&member).await;
}
