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
    BoxedStream, Group, GroupClock, GroupSpec, LiveRun, Machine, MachineError, Net, Peers,
    ProposeError, RaftConfig, RaftNode,
};
use hikyaku_storage::{CrashKind, GroupId, Log, LogConfig, SimDisk, Work};

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

struct NoClock;

impl GroupClock for NoClock {
    fn leader_time_ms(&self) -> u64 {
        0
    }
    fn heard_leader_time(&self, _time_ms: u64) {}
    fn believed_time_ms(&self) -> u64 {
        0
    }
    fn wall_clock_ms(&self) -> u64 {
        0
    }
    fn heard_follower(&self, _node: u64, _wall_clock_ms: u64, _believed_time_ms: u64) {}
}

/// Adds up the numbers it is given; dies of the first entry after its fuse was lit.
struct Sum {
    total: u64,
    newest: Option<u64>,
    fuse: Arc<AtomicBool>,
}

impl Machine for Sum {
    type Reply = u64;

    fn apply(&mut self, index: u64, head: &[u8]) -> Result<u64, MachineError> {
        assert!(!self.fuse.swap(false, Ordering::SeqCst), "the fuse was lit");
        let bytes = head
            .try_into()
            .map_err(|_| MachineError("not a number".to_owned()))?;
        self.total += u64::from_be_bytes(bytes);
        self.newest = Some(index);
        Ok(self.total)
    }

    fn live_runs(&self) -> Vec<LiveRun> {
        let run = |first_index| LiveRun {
            first_index,
            entries: 1,
            ordinal: 0,
            count: 1,
        };
        self.newest.map(run).into_iter().collect()
    }

    fn encode(&self) -> Vec<u8> {
        let newest = self.newest.unwrap_or(u64::MAX);
        [self.total.to_be_bytes(), newest.to_be_bytes()].concat()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), MachineError> {
        let (total, newest) = state.split_at(8);
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        self.total = number(total);
        self.newest = Some(number(newest)).filter(|newest| *newest != u64::MAX);
        Ok(())
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
    let peers = Peers::new(Arc::new(NoNet), []);
    let node = RaftNode::new(config, log.clone(), peers, Work::Task).expect("valid");
    let fuse = Arc::new(AtomicBool::new(false));
    let spec = GroupSpec {
        group: 5,
        replica: 1,
        clock: Arc::new(NoClock),
    };
    let burning = Arc::clone(&fuse);
    let make = move || Sum {
        total: 0,
        newest: None,
        fuse: Arc::clone(&burning),
    };
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

async fn add(group: &Group<Sum>, number: u64) -> Result<u64, ProposeError> {
    let body = Bytes::from(number.to_string());
    let submitted = group
        .submit(number.to_be_bytes().to_vec().into(), vec![body])
        .await?;
    submitted.await.map(|applied| applied.reply)
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
            total += 1;
            let body = vec![Bytes::from(vec![0; 4_096])];
            let head = 1_u64.to_be_bytes().to_vec();
            let submitted = one.group.submit(head.into(), body).await.expect("leads");
            assert_eq!(submitted.await.expect("applied").reply, total);
            sent.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert!(total < 100_000, "nothing is ever reclaimed");
    }
    assert!(one.log.group(GroupId(5)).state().last_purged.is_some());
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
