//! The public face of the log (interim: the bodies are being written).
#![expect(
    missing_docs,
    unused_variables,
    clippy::unimplemented,
    reason = "being written"
)]

use crate::config::LogConfig;
use crate::disk::Disk;
use crate::error::{CheckpointError, OpenError, ReadError};
use crate::stats::LogStats;
use crate::types::{Checkpoint, Done, Entry, GroupId, GroupState, LogId, Work};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::watch;

#[derive(Clone)]
pub struct Log;

impl Log {
    pub fn open(disk: Arc<dyn Disk>, config: LogConfig, work: Work) -> Result<Log, OpenError> {
        unimplemented!()
    }
    pub fn group(&self, id: GroupId) -> GroupLog {
        unimplemented!()
    }
    pub fn groups(&self) -> Vec<GroupId> {
        unimplemented!()
    }
    /// False: refuse new bodies (sends); receives and deletes still fit the reserve.
    pub fn has_room(&self) -> bool {
        unimplemented!()
    }
    pub fn stats(&self) -> LogStats {
        unimplemented!()
    }
    /// The groups that should be checkpointed and purged because the budget is exceeded.
    pub fn wanted_checkpoints(&self) -> watch::Receiver<Vec<GroupId>> {
        unimplemented!()
    }
    /// Runs reclaim until nothing is left to do, on the calling thread.
    pub fn reclaim(&self) {
        unimplemented!()
    }
    pub async fn close(self) {
        unimplemented!()
    }
}

#[derive(Clone)]
pub struct GroupLog;

impl GroupLog {
    pub fn id(&self) -> GroupId {
        unimplemented!()
    }
    pub fn append(&self, entries: Vec<Entry>, done: Done) {
        unimplemented!()
    }
    pub fn save_vote(&self, vote: Bytes, done: Done) {
        unimplemented!()
    }
    pub fn truncate_after(&self, last_kept: Option<LogId>, done: Done) {
        unimplemented!()
    }
    pub fn purge(&self, upto: LogId, done: Done) {
        unimplemented!()
    }
    pub fn save_committed(&self, committed: Option<LogId>) {
        unimplemented!()
    }
    pub fn state(&self) -> GroupState {
        unimplemented!()
    }
    pub fn read_entries(
        &self,
        range: Range<u64>,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        unimplemented!()
    }
    pub fn cached(&self, range: &Range<u64>) -> bool {
        unimplemented!()
    }
    pub fn read_body(&self, entry: LogId, ordinal: u32) -> Result<Bytes, ReadError> {
        unimplemented!()
    }
    pub fn body_cached(&self, index: u64) -> bool {
        unimplemented!()
    }
    /// Blocking.
    pub fn write_checkpoint(&self, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        unimplemented!()
    }
    /// Blocking.
    pub fn load_checkpoint(&self) -> Result<Option<Checkpoint>, CheckpointError> {
        unimplemented!()
    }
    /// Oldest first, pinned ones included: purge only up to the first.
    pub fn checkpoint_ids(&self) -> Vec<LogId> {
        unimplemented!()
    }
    /// Blocking.
    pub fn pin(&self) -> Result<SnapshotPin, CheckpointError> {
        unimplemented!()
    }
    pub fn begin_install(&self) -> Install {
        unimplemented!()
    }
    /// Blocking: drops the group's records and files.
    pub fn forget(&self) {
        unimplemented!()
    }
}

pub struct SnapshotPin;

impl SnapshotPin {
    pub fn checkpoint(&self) -> &Checkpoint {
        unimplemented!()
    }
    /// The live bodies in order, from a name on.
    pub fn bodies(
        &self,
        from_index: u64,
        from_ordinal: u32,
    ) -> impl Iterator<Item = Result<(LogId, u32, Bytes), ReadError>> + '_ {
        std::iter::from_fn(|| unimplemented!())
    }
}

pub struct Install;

impl Install {
    /// Blocking.
    pub fn add(&mut self, entry: LogId, ordinal: u32, body: Bytes) -> Result<(), CheckpointError> {
        unimplemented!()
    }
    /// Blocking: bodies durable, conflicting log truncated, checkpoint durable, log purged.
    pub fn finish(self, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        unimplemented!()
    }
}
