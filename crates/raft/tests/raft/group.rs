//! One group on one node, over a simulated disk and a paused clock.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hikyaku_raft::{
    BoxedStream, Group, GroupSpec, Identity, Net, Peers, ProposeError, RaftConfig, RaftNode,
};
use hikyaku_storage::{CrashKind, GroupId, Log, LogConfig, SimDisk, Work};

use crate::support::{Hands, NoClock, Sum, add, add_with};

struct NoNet;

impl Net for NoNet {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>> {
        Box::pin(async move { Err(io::Error::other(format!("no way to {address}"))) })
    }

    fn listen(
        &self,
        _address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>> {
        Box::pin(async { Err(io::Error::other("nobody listens here")) })
    }
}

struct OneNode {
    node: RaftNode,
    group: Group<Sum>,
    fuse: Arc<AtomicBool>,
    log: Log,
}

async fn open(disk: &Arc<SimDisk>, config: RaftConfig, storage: LogConfig) -> OneNode {
    let log = Log::open(Arc::clone(disk) as _, storage, Work::Task).expect("opens");
    let peers = Peers::new(Arc::new(NoNet), Identity::new(1), []);
    let node = RaftNode::new(
        config,
        log.clone(),
        peers,
        Arc::new(Hands::default()),
        Work::Task,
    )
    .expect("valid");
    let fuse = Arc::new(AtomicBool::new(false));
    let spec = GroupSpec {
        group: 5,
        replica: 1,
        clock: Arc::new(NoClock),
    };
    let burning = Arc::clone(&fuse);
    let make = move || Sum::new(Arc::clone(&burning));
    let group = node.open_group(spec, make).await.expect("opens");
    group
        .found(BTreeMap::from([(1, 1)]))
        .await
        .expect("founded");
    group
        .watch_leadership()
        .wait_for(|now| now.serving)
        .await
        .expect("leads");
    node.start_maintenance();
    OneNode {
        node,
        group,
        fuse,
        log,
    }
}

#[tokio::test(start_paused = true)]
async fn entries_are_answered_by_the_machine_in_order() {
    let one = open(
        &Arc::new(SimDisk::new(1)),
        RaftConfig::default(),
        LogConfig::small(),
    )
    .await;
    let first = one
        .group
        .submit(1_u64.to_be_bytes().to_vec().into(), Vec::new())
        .await
        .unwrap();
    let second = one
        .group
        .submit(2_u64.to_be_bytes().to_vec().into(), Vec::new())
        .await
        .unwrap();
    assert_eq!(second.await.unwrap().reply, 3);
    assert_eq!(first.await.unwrap().reply, 1);
    one.node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_loses_no_answered_entry() {
    let disk = Arc::new(SimDisk::new(2));
    let one = open(&disk, RaftConfig::default(), LogConfig::small()).await;
    for number in 1..=10 {
        add(&one.group, number).await.expect("applied");
    }
    let disk = Arc::new(disk.crash(CrashKind::PowerCut));
    drop(one);
    let one = open(&disk, RaftConfig::default(), LogConfig::small()).await;
    assert_eq!(add(&one.group, 0).await.expect("applied"), 55);
    one.node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_core_died_is_opened_again() {
    let one = open(
        &Arc::new(SimDisk::new(3)),
        RaftConfig::default(),
        LogConfig::small(),
    )
    .await;
    add(&one.group, 1).await.expect("applied");
    one.fuse.store(true, Ordering::SeqCst);
    let lost = add(&one.group, 2).await;
    assert!(
        matches!(lost, Err(ProposeError::Unknown { .. })),
        "{lost:?}"
    );
    let mut leadership = one.group.watch_leadership();
    for serving in [false, true] {
        let seen = leadership.wait_for(|now| now.serving == serving);
        let in_time = tokio::time::timeout(Duration::from_secs(30), seen).await;
        in_time.expect("in time").expect("the group is watched");
    }
    // The entry was in the log, so it took effect after all.
    assert_eq!(add(&one.group, 4).await.expect("applied"), 7);
    one.node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_log_is_checkpointed_purged_and_reclaimed() {
    let disk = Arc::new(SimDisk::new(4));
    let config = RaftConfig {
        checkpoint_every_entries: 100,
        ..RaftConfig::default()
    };
    let one = open(&disk, config.clone(), LogConfig::small()).await;
    let sent = AtomicU64::new(0);
    let mut total = 0;
    while one.log.stats().segments_freed == 0 {
        for _ in 0..50 {
            total += 2;
            let body = vec![Bytes::from(vec![0; 4_096])];
            let head = 2_u64.to_be_bytes().to_vec();
            let submitted = one.group.submit(head.into(), body).await.expect("leads");
            assert_eq!(submitted.await.expect("applied").reply, total);
            sent.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(total < 100_000, "nothing is ever reclaimed");
    }
    assert!(one.log.group(GroupId(5)).state().last_purged.is_some());
    let body = Bytes::from(vec![0; 4_096]);
    total = add_with(&one.group, 1, body).await.expect("applied");
    let index = one.group.watch_applied().borrow().index;
    let mut bodies = one.group.read_bodies(&[(index, 0)]).await;
    let body = bodies.remove(0).expect("the newest body is live");
    assert_eq!(body.len(), 4_096);
    one.node.stop().await;
    let disk = Arc::new(disk.crash(CrashKind::PowerCut));
    let one = open(&disk, config, LogConfig::small()).await;
    assert_eq!(add(&one.group, 0).await.expect("applied"), total);
    one.node.stop().await;
}
