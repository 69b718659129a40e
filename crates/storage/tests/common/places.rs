//! The two kinds of disk that a story is told on.

use crate::common::threaded;
use hikyaku_storage::{Disk, Log, LogConfig, RealDisk, SimDisk};
use std::sync::Arc;

/// A place for a log that can be opened again and again.
pub trait Place {
    fn disk(&self) -> Arc<dyn Disk>;
}

pub struct OnDisk(pub tempfile::TempDir);

impl Place for OnDisk {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(RealDisk::open(self.0.path()).unwrap())
    }
}

pub struct InMemory(pub SimDisk);

impl Place for InMemory {
    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.0.clone())
    }
}

pub fn open(place: &dyn Place) -> Log {
    threaded(place.disk(), LogConfig::small())
}

pub fn close(log: Log) {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(log.close());
}

/// Runs each story on both disks.
macro_rules! stories {
    ($($name:ident)*) => {
        mod real_disk {
            $(#[test] fn $name() {
                super::$name(&$crate::places::OnDisk(tempfile::tempdir().unwrap()));
            })*
        }
        mod sim_disk {
            $(#[test] fn $name() {
                let disk = hikyaku_storage::SimDisk::new(1);
                disk.set_short_writes(true);
                super::$name(&$crate::places::InMemory(disk));
            })*
        }
    };
}

pub(crate) use stories;
