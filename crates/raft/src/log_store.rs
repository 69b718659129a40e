//! openraft's view of one group's part of the shared log.
//!
//! Writes are handed over and reported by callback after the round's `fdatasync`; votes, truncations
//! and purges travel through the same ordered stream, so nothing overtakes.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};

use futures_util::{Stream, StreamExt, stream};
use hikyaku_storage::{self as storage, BodyName, GroupLog, ReadError, Work};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use tokio::sync::oneshot;

use crate::codec;
use crate::healing::Mender;
use crate::types::{Entry, LogId, TypeConfig, Vote};

/// One group's log. Cloned freely: openraft reads from several tasks.
#[derive(Clone)]
pub struct LogStore {
    log: GroupLog,
    work: Work,
    /// Most bytes of entries read at once; one entry always fits.
    read_bytes: usize,
    /// Where damaged bodies come from; none in the storage suite.
    mender: Option<Mender>,
}

impl LogStore {
    pub fn new(log: GroupLog, work: Work, read_bytes: usize, mender: Option<Mender>) -> Self {
        Self {
            log,
            work,
            read_bytes,
            mender,
        }
    }

    /// Entries from the start of `range`, at most about `max_bytes` of them.
    async fn read(&self, range: Range<u64>, max_bytes: usize) -> io::Result<Vec<Entry>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let entries = if self.log.cached(&range) {
            self.log.read_entries(range, max_bytes)
        } else {
            self.read_whole(range, max_bytes).await
        };
        let entries = entries.map_err(io::Error::other)?;
        entries
            .into_iter()
            .map(|entry| Ok(codec::entry_from_storage(entry)?))
            .collect()
    }

    /// From the disk; bodies that are damaged there come from other replicas first.
    async fn read_whole(
        &self,
        range: Range<u64>,
        max_bytes: usize,
    ) -> Result<Vec<storage::Entry>, ReadError> {
        let mut mended = None;
        loop {
            let (log, range) = (self.log.clone(), range.clone());
            let read = on_disk(self.work, move || log.read_entries(range, max_bytes)).await;
            let (mender, damaged, entry, ordinals) = match (read, &self.mender) {
                (
                    Err(ReadError::Bodies {
                        group,
                        entry,
                        ordinals,
                    }),
                    Some(mender),
                ) if mended != Some(entry) => (mender, group, entry, ordinals),
                (read, _) => return read,
            };
            let names: Vec<BodyName> = ordinals.iter().map(|it| (entry, *it)).collect();
            // If that fails the next read says so.
            mender.mend(damaged.0, &self.log, &names).await;
            mended = Some(entry);
        }
    }

    fn bounds(&self, range: &impl RangeBounds<u64>) -> Range<u64> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => self.log.state().last_purged.map_or(0, |id| id.index + 1),
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let last = self.log.state().last.map_or(0, |id| id.index + 1);
        start..end.min(last)
    }
}

/// Runs something that may wait for the disk where it disturbs no other task; in a simulation, here.
pub async fn on_disk<T: Send + 'static>(work: Work, job: impl FnOnce() -> T + Send + 'static) -> T {
    match work {
        Work::Task => job(),
        Work::Thread => match tokio::task::spawn_blocking(job).await {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        },
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<Entry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let store = self.clone();
        let bounds = self.bounds(&range);
        // Read piece by piece: after a restart the range may be all that was not checkpointed.
        stream::unfold(Some((store, bounds)), |state| async move {
            let (store, range) = state.filter(|(_, range)| !range.is_empty())?;
            match store.read(range.clone(), store.read_bytes).await {
                Ok(entries) if entries.is_empty() => {
                    let gap = format!("log entries {range:?} are missing");
                    Some((vec![Err(io::Error::other(gap))], None))
                }
                Ok(entries) => {
                    let next = range.start + entries.len() as u64..range.end;
                    Some((entries.into_iter().map(Ok).collect(), Some((store, next))))
                }
                Err(error) => Some((vec![Err(error)], None)),
            }
        })
        .flat_map(stream::iter)
    }

    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        self.read(self.bounds(&range), usize::MAX).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        let vote = self.log.state().vote;
        Ok(vote.map(|bytes| codec::decode_vote(&bytes)).transpose()?)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        self.read(start..end, self.read_bytes).await
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let state = self.log.state();
        let last_purged_log_id = state.last_purged.map(codec::log_id_from_storage);
        let last_log_id = state
            .last
            .map(codec::log_id_from_storage)
            .or(last_purged_log_id);
        Ok(LogState {
            last_purged_log_id,
            last_log_id,
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let (done, durable) = completion();
        self.log.save_vote(codec::encode_vote(vote), done);
        wait(durable).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.log
            .save_committed(committed.as_ref().map(codec::log_id_to_storage));
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.log.state().committed.map(codec::log_id_from_storage))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: IOFlushed<TypeConfig>,
    ) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().map(codec::entry_to_storage).collect();
        self.log.append(
            entries,
            Box::new(move |result| callback.io_completed(result)),
        );
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        let (done, durable) = completion();
        self.log
            .truncate_after(last_log_id.as_ref().map(codec::log_id_to_storage), done);
        wait(durable).await
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        let (done, durable) = completion();
        self.log.purge(codec::log_id_to_storage(&log_id), done);
        wait(durable).await
    }
}

type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

fn completion() -> (Done, oneshot::Receiver<io::Result<()>>) {
    let (sender, receiver) = oneshot::channel();
    // The receiver is gone only when the group is shutting down; nobody waits for the result then.
    (Box::new(move |result| drop(sender.send(result))), receiver)
}

async fn wait(durable: oneshot::Receiver<io::Result<()>>) -> io::Result<()> {
    durable
        .await
        .unwrap_or_else(|_| Err(io::Error::other("the log was closed")))
}
