//! The public face of the shared log.

use crate::aside::{is_set_aside, loss_is_told};
use crate::config::LogConfig;
use crate::damage::{BodyName, Damages};
use crate::disk::Disk;
use crate::driver::Drivers;
use crate::engine::{Change, Engine, lock};
use crate::error::{CheckpointError, ClaimError, OpenError, ReadError};
use crate::install::Install;
use crate::mend;
use crate::pin::SnapshotPin;
use crate::record::{RECORD_HEADER, TABLE_LINE};
use crate::recovery::{Recovered, recover};
use crate::stats::LogStats;
use crate::types::{Checkpoint, Done, Entry, GroupId, GroupState, LogId, Work};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// The shared log of a node. Clones are the same log; dropping the last one stops its work.
#[derive(Clone)]
pub struct Log {
    drivers: Arc<Drivers>,
    engine: Arc<Engine>,
}

impl Log {
    /// Opens the log on a disk, founding it when the disk is empty. Recovery is done on return.
    ///
    /// Blocks. `Work::Task` has to be called within a tokio runtime with its timer enabled. Every
    /// segment is an open file: raise the limit of open files for large disks.
    pub fn open(disk: Arc<dyn Disk>, config: LogConfig, work: Work) -> Result<Log, OpenError> {
        config.validate()?;
        let Recovered {
            files,
            state,
            writer,
            findings,
        } = recover(disk, &config)?;
        let engine = Arc::new(Engine::new(files, config, work, state, writer, findings));
        let drivers = Arc::new(Drivers::start(engine.clone())?);
        Ok(Log { drivers, engine })
    }

    /// A handle to one group's log, which is empty when the group is new. It is a handle to what the
    /// group is now: once that was forgotten, the handle writes nothing any longer.
    pub fn group(&self, id: GroupId) -> GroupLog {
        let life = self.engine.state().life(id);
        self.handle(id, life)
    }

    /// A handle to one group's log for the replica that its records on this disk belong to. The first
    /// replica that asks becomes the owner of an empty group, and of one on a volume that is older
    /// than this question; that is durable on return. Any other is refused until the owner was
    /// dropped with `GroupLog::forget`. Blocks.
    pub fn open_replica(&self, id: GroupId, replica: u64) -> Result<GroupLog, ClaimError> {
        let life = self.engine.claim(id, replica)?;
        Ok(self.handle(id, life))
    }

    fn handle(&self, id: GroupId, life: u64) -> GroupLog {
        GroupLog {
            log: self.clone(),
            id,
            life,
        }
    }

    /// The groups that the log knows, with the replica that each one's records belong to; `None` if
    /// nobody has asked yet.
    pub fn replicas(&self) -> BTreeMap<GroupId, Option<u64>> {
        let state = self.engine.state();
        let owner = |group: &crate::engine::Group| group.markers.owner.map(|owner| owner.replica);
        let groups = state.groups.iter();
        groups.map(|(id, group)| (*id, owner(group))).collect()
    }

    /// The groups that the log knows, in order.
    pub fn groups(&self) -> Vec<GroupId> {
        self.engine.state().groups.keys().copied().collect()
    }

    /// False when new bodies (sends) should be refused; receives and deletes still fit the reserve.
    pub fn has_room(&self) -> bool {
        self.engine.room.load(Ordering::Acquire)
    }

    /// The numbers of this moment.
    pub fn stats(&self) -> LogStats {
        self.engine.stats()
    }

    /// The groups that should be checkpointed if behind and purged up to their oldest checkpoint,
    /// because the node's purge budget is exceeded and they hold the oldest of it.
    pub fn wanted_checkpoints(&self) -> watch::Receiver<Vec<GroupId>> {
        self.engine.wanted.subscribe()
    }

    /// What is known to be damaged here and waits to be mended.
    pub fn damages(&self) -> Damages {
        self.engine.damage.open()
    }

    /// Follows `damages`: the number changes when something was added, or a replica was dropped.
    pub fn watch_damages(&self) -> watch::Receiver<u64> {
        self.engine.damage.watch()
    }

    /// Whether the records that were here before this log were set aside, damaged, and nobody has said
    /// since that the cluster knows of it.
    pub fn lost_its_records(&self) -> io::Result<bool> {
        is_set_aside(self.engine.disk())
    }

    /// The cluster knows of all replicas whose records were set aside. Durable on return.
    pub fn loss_is_told(&self) -> io::Result<()> {
        loss_is_told(self.engine.disk())
    }

    /// Reads and checks everything that is kept on the disk once, on the calling thread and without a
    /// rate limit. What is wrong is in `damages` then, unless it could be made anew at once.
    pub fn scrub(&self) {
        lock(&self.engine.scrubber).pass(&self.engine, &|_| {});
    }

    /// Reclaims until nothing is left to do, on the calling thread and without a rate limit.
    pub fn reclaim(&self) {
        lock(&self.engine.reclaimer).run(&self.engine, &|_| {});
    }

    /// Writes what waits, leaves a closing mark, and ends the log's work. Later writes are refused.
    pub async fn close(self) {
        self.drivers.stop().await;
    }
}

/// One group's part of the log. Clones are the same group.
#[derive(Clone)]
pub struct GroupLog {
    log: Log,
    id: GroupId,
    life: u64,
}

impl GroupLog {
    /// The group.
    pub fn id(&self) -> GroupId {
        self.id
    }

    fn engine(&self) -> &Engine {
        &self.log.engine
    }

    fn submit(&self, change: Change, done: Option<Done>) {
        self.engine().submit(self.id, self.life, change, done);
    }

    /// Appends entries, which must follow the last one without a gap. An entry larger than
    /// `max_entry_bytes` is refused, and nothing is appended.
    pub fn append(&self, entries: Vec<Entry>, done: Done) {
        let config = &self.engine().config;
        if let Some(entry) = entries
            .iter()
            .find(|e| encoded_len(e) > config.max_entry_bytes)
        {
            let text = format!(
                "entry {} has {} bytes, more than max_entry_bytes {}",
                entry.id,
                encoded_len(entry),
                config.max_entry_bytes
            );
            done(Err(io::Error::new(io::ErrorKind::InvalidInput, text)));
            return;
        }
        let mut parts = split(entries, config.max_round_bytes);
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            self.submit(Change::Append(part), None);
        }
        self.submit(Change::Append(last), Some(done));
    }

    /// Saves the vote.
    pub fn save_vote(&self, vote: Bytes, done: Done) {
        self.submit(Change::Vote(vote), Some(done));
    }

    /// Voids the entries after `last_kept`. What is purged stays purged.
    pub fn truncate_after(&self, last_kept: Option<LogId>, done: Done) {
        self.submit(Change::Truncate(last_kept), Some(done));
    }

    /// Purges the entries up to `upto`. Never past the first of `checkpoint_ids`.
    pub fn purge(&self, upto: LogId, done: Done) {
        self.submit(Change::Purge(upto), Some(done));
    }

    /// Remembers the committed mark. It is written with the next round and not waited for.
    pub fn save_committed(&self, committed: Option<LogId>) {
        self.engine()
            .submit_committed(self.id, self.life, committed);
    }

    /// What the log remembers of the group, submitted operations included.
    pub fn state(&self) -> GroupState {
        let state = self.engine().state();
        state
            .groups
            .get(&self.id)
            .map(|group| group.markers.state())
            .unwrap_or_default()
    }

    /// Reads entries from the first readable index of the range on: at least one if there is one,
    /// then as many as fit `max_bytes`. Submitted entries are visible before they are durable.
    pub fn read_entries(
        &self,
        range: Range<u64>,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        self.engine().read_entries(self.id, range, max_bytes)
    }

    /// Whether a read of the whole range would be answered from memory.
    pub fn cached(&self, range: &Range<u64>) -> bool {
        let state = self.engine().state();
        range
            .clone()
            .all(|index| state.cache.get(self.id, index).is_some())
    }

    /// Reads one body of the entry that this leader wrote at this index, purged or not.
    pub fn read_body(&self, entry: LogId, ordinal: u32) -> Result<Bytes, ReadError> {
        self.engine().read_body(self.id, entry, ordinal)
    }

    /// Whether the bodies of the entry at an index are in memory.
    pub fn body_cached(&self, index: u64) -> bool {
        let state = self.engine().state();
        state.cache.get(self.id, index).is_some() || state.ahead.get(self.id, index).is_some()
    }

    /// Writes bodies that are damaged here, as other replicas have them, so that they are found again.
    /// A body that is not the one of its name, as far as that is known here, is left out. Blocks.
    pub fn mend(&self, bodies: Vec<(BodyName, Bytes)>) -> Result<(), CheckpointError> {
        mend::mend(&self.log.engine, self.id, self.life, bodies)
    }

    /// Nobody needs these bodies any longer: they are no damage.
    pub fn need_no_more(&self, names: &[BodyName]) {
        self.engine().damage.settled(self.id, names, false);
    }

    /// Whether what this replica promised may be lost here: it must neither vote nor lead.
    pub fn is_lost(&self) -> bool {
        self.engine().damage.is_lost(self.id)
    }

    /// Writes a checkpoint durably; the two newest are kept. Blocks.
    ///
    /// The log is made durable first, so that a checkpoint never names a body that is not.
    pub fn write_checkpoint(&self, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        let engine = self.engine();
        engine.submit_and_wait(self.id, self.life, Change::Barrier)?;
        engine.write_checkpoint(self.id, self.life, &checkpoint, false)
    }

    /// Reads the newest checkpoint that is whole. Blocks.
    pub fn load_checkpoint(&self) -> Result<Option<Checkpoint>, CheckpointError> {
        self.engine().load_checkpoint(self.id)
    }

    /// The kept and pinned checkpoints, oldest first: the log may be purged up to the first.
    pub fn checkpoint_ids(&self) -> Vec<LogId> {
        let state = self.engine().state();
        state
            .groups
            .get(&self.id)
            .map(|group| group.held())
            .unwrap_or_default()
    }

    /// Holds the newest checkpoint, its live bodies and the log after it, for a snapshot. Blocks.
    pub fn pin(&self) -> Result<SnapshotPin, CheckpointError> {
        SnapshotPin::new(self.log.engine.clone(), self.id, self.life)
    }

    /// Begins to install a snapshot that another replica sends.
    pub fn begin_install(&self) -> Install {
        Install::new(self.log.engine.clone(), self.id, self.life)
    }

    /// Drops the replica: its records, its markers and its checkpoints. On return that is durable, and
    /// the group may be opened again, empty, as another replica; all handles to this one, and what
    /// was made from them, write nothing any longer. Blocks.
    ///
    /// After an error that is not `NotFound` (a handle to what was dropped before), the replica is
    /// either whole or gone, which the next start of the log decides.
    pub fn forget(&self) -> io::Result<()> {
        self.engine().forget(self.id, self.life)
    }
}

fn encoded_len(entry: &Entry) -> u64 {
    (RECORD_HEADER + entry.bodies.len() * TABLE_LINE + entry.payload_bytes()) as u64
}

/// Cuts an append into parts that fit a round each.
fn split(entries: Vec<Entry>, max_round_bytes: u64) -> Vec<Vec<Entry>> {
    let mut parts: Vec<Vec<Entry>> = vec![Vec::new()];
    let mut bytes = 0;
    for entry in entries {
        let more = encoded_len(&entry);
        if bytes > 0 && bytes + more > max_round_bytes {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += more;
        if let Some(part) = parts.last_mut() {
            part.push(entry);
        }
    }
    parts
}
