//! What the behaviour suites share: a log over either disk, and short ways to say things.

#![allow(dead_code, reason = "each suite uses its own part")]
#![allow(clippy::unwrap_used, reason = "a step that fails fails its test")]

pub mod model;

use bytes::Bytes;
use hikyaku_storage::{
    Checkpoint, Disk, Done, Entry, GroupId, GroupLog, LeaderId, LiveRun, Log, LogConfig, LogId,
    SimDisk, Work,
};
use std::io;
use std::sync::{Arc, Mutex, mpsc};

pub const GROUP: GroupId = GroupId(7);
pub const OTHER: GroupId = GroupId(8);

pub fn id(term: u64, index: u64) -> LogId {
    LogId {
        leader: LeaderId {
            term,
            node: 0xfeed_0001,
        },
        index,
    }
}

/// A body that can only be the one of this name.
pub fn body(index: u64, ordinal: u32, size: usize) -> Bytes {
    let seed = index.wrapping_mul(31).wrapping_add(u64::from(ordinal));
    Bytes::from(
        (0..size)
            .map(|at| (seed.wrapping_mul(7) as usize + at) as u8)
            .collect::<Vec<u8>>(),
    )
}

pub fn entry(term: u64, index: u64, sizes: &[usize]) -> Entry {
    let bodies = sizes
        .iter()
        .enumerate()
        .map(|(n, size)| body(index, n as u32, *size))
        .collect();
    Entry {
        id: id(term, index),
        head: Bytes::from(format!("head {term} {index}")),
        bodies,
    }
}

/// A callback and where its outcome arrives.
pub fn outcome() -> (Done, mpsc::Receiver<io::Result<()>>) {
    let (sender, receiver) = mpsc::channel();
    let done: Done = Box::new(move |outcome| {
        let _ = sender.send(outcome);
    });
    (done, receiver)
}

pub fn ignore() -> Done {
    Box::new(|_| {})
}

/// A checkpoint in which exactly these bodies are live, all written in term 1.
pub fn checkpoint(at: LogId, live: &[(u64, u32)]) -> Checkpoint {
    let run = |(index, ordinal): &(u64, u32)| LiveRun {
        first_index: *index,
        entries: 1,
        ordinal: *ordinal,
        count: 1,
    };
    Checkpoint {
        id: at,
        meta: Bytes::from_static(b"membership"),
        leaders: vec![(0, id(1, 0).leader)],
        live: live.iter().map(run).collect(),
        state: Bytes::from(format!("state at {}", at.index)),
    }
}

/// A log in task mode on a runtime of its own: nothing happens but what the test drives.
pub struct Sim {
    pub runtime: tokio::runtime::Runtime,
    pub disk: SimDisk,
    pub log: Log,
}

impl Sim {
    pub fn open(disk: SimDisk, config: LogConfig) -> Sim {
        Sim::try_open(disk, config).expect("the log opens")
    }

    pub fn try_open(disk: SimDisk, config: LogConfig) -> Result<Sim, hikyaku_storage::OpenError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let opened = {
            let _context = runtime.enter();
            Log::open(Arc::new(disk.clone()), config, Work::Task)
        };
        Ok(Sim {
            log: opened?,
            runtime,
            disk,
        })
    }

    pub fn group(&self) -> GroupLog {
        self.log.group(GROUP)
    }

    /// Runs the writer until the outcome is there; none if the log died.
    pub fn wait(&self, receiver: &mpsc::Receiver<io::Result<()>>) -> Option<io::Result<()>> {
        self.runtime.block_on(async {
            for _ in 0..100 {
                match receiver.try_recv() {
                    Ok(outcome) => return Some(outcome),
                    Err(mpsc::TryRecvError::Disconnected) => return None,
                    Err(mpsc::TryRecvError::Empty) => tokio::task::yield_now().await,
                }
            }
            None
        })
    }

    /// Appends and waits; true if it was acknowledged.
    pub fn append(&self, group: GroupId, entries: Vec<Entry>) -> bool {
        let (done, receiver) = outcome();
        self.log.group(group).append(entries, done);
        matches!(self.wait(&receiver), Some(Ok(())))
    }

    pub fn vote(&self, group: GroupId, vote: &str) -> bool {
        let (done, receiver) = outcome();
        self.log
            .group(group)
            .save_vote(Bytes::from(vote.to_owned()), done);
        matches!(self.wait(&receiver), Some(Ok(())))
    }

    pub fn truncate(&self, group: GroupId, last_kept: Option<LogId>) -> bool {
        let (done, receiver) = outcome();
        self.log.group(group).truncate_after(last_kept, done);
        matches!(self.wait(&receiver), Some(Ok(())))
    }

    pub fn purge(&self, group: GroupId, upto: LogId) -> bool {
        let (done, receiver) = outcome();
        self.log.group(group).purge(upto, done);
        matches!(self.wait(&receiver), Some(Ok(())))
    }

    pub fn close(self) -> SimDisk {
        self.runtime.block_on(self.log.close());
        self.disk
    }

    /// Reads every unpurged entry of a group, whatever is cached.
    pub fn entries(&self, group: GroupId) -> Vec<Entry> {
        self.log
            .group(group)
            .read_entries(0..u64::MAX, usize::MAX)
            .expect("entries are readable")
    }
}

/// A log on threads over any disk.
pub fn threaded(disk: Arc<dyn Disk>, config: LogConfig) -> Log {
    Log::open(disk, config, Work::Thread).expect("the log opens")
}

/// Waits for a threaded log.
pub fn durable(submit: impl FnOnce(Done)) {
    let (done, receiver) = outcome();
    submit(done);
    receiver
        .recv()
        .expect("the log answers")
        .expect("the log accepts");
}

/// Collects the order of callbacks.
#[derive(Clone, Default)]
pub struct Order(Arc<Mutex<Vec<u64>>>);

impl Order {
    pub fn done(&self, number: u64) -> Done {
        let order = self.0.clone();
        Box::new(move |_| order.lock().unwrap().push(number))
    }

    pub fn seen(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}
