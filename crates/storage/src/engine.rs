//! The inside of a log: what the writer, the reclaimer and the readers share.
//!
//! Locks, taken in this order and never held during file access: `writer`, `reclaimer` or `scrubber`
//! (one holder works), then `state`, then `queue`. A submission changes the state that its group reads
//! back and joins the queue under one hold of `state`, so both have the same order.

use crate::ahead::AheadCache;
use crate::cache::{Sequence, TailCache};
use crate::config::LogConfig;
use crate::damage::{Finding, Ledger};
use crate::disk::{Disk, DiskFile};
use crate::files::Files;
use crate::footer::Sections;
use crate::markers::Markers;
use crate::owner::Owner;
use crate::reclaim::Reclaimer;
use crate::record::Tag;
use crate::scrub::Scrubber;
use crate::segment::{SectionCache, Segment};
use crate::signal::Signal;
use crate::stats::{Counters, DamageCounts, LogStats};
use crate::types::{Done, Entry, GroupId, LogId, Work};
use crate::writer::Writer;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use tokio::sync::watch;

/// A change of a group's log, in the order of the queue.
#[derive(Debug)]
pub(crate) enum Change {
    Append(Vec<Entry>),
    Vote(Bytes),
    Truncate(Option<LogId>),
    Purge(LogId),
    /// The group is this replica's.
    Own(Owner),
    /// The group is dropped; its checkpoint files follow.
    Forget,
    /// The files of a dropped group are gone: nothing has to remember it any longer.
    Forgotten,
    /// Writes nothing; answered when everything before it is durable.
    Barrier,
}

/// A change that waits to be written.
pub(crate) struct Pending {
    pub(crate) group: GroupId,
    pub(crate) change: Change,
    pub(crate) done: Option<Done>,
    /// The tail cache's entries before this are on disk once the change is.
    pub(crate) sequence: Sequence,
}

/// What waits for the writer.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) pending: VecDeque<Pending>,
    /// Rides along with the next round; only the newest of a group matters.
    pub(crate) committed: BTreeMap<GroupId, Option<LogId>>,
    /// The writer has ended: nothing is taken any longer.
    pub(crate) closed: bool,
}

/// A group, as memory knows it.
#[derive(Default)]
pub(crate) struct Group {
    /// As submitted: what the group reads back.
    pub(crate) markers: Markers,
    /// The purge mark that is durable: reclaim may rely on it.
    pub(crate) durable_purged: Option<LogId>,
    /// Valid kept checkpoints, oldest first.
    pub(crate) kept: Vec<LogId>,
    /// Checkpoints that are not whole; their files stay until a new one is written.
    pub(crate) damaged: Vec<LogId>,
    /// Checkpoints held for snapshots, with the number of pins.
    pub(crate) pins: BTreeMap<u64, (LogId, usize)>,
    /// Installs under way: their bodies are named by no checkpoint yet.
    pub(crate) installs: usize,
}

impl Group {
    /// All checkpoints whose names must not be reclaimed, oldest first.
    pub(crate) fn held(&self) -> Vec<LogId> {
        let pinned = self.pins.values().map(|(id, _)| *id);
        let mut held: Vec<LogId> = self.kept.iter().copied().chain(pinned).collect();
        held.sort_by_key(|id| id.index);
        held.dedup();
        held
    }

    /// Entries up to here may be reclaimed but for the bodies that the returned checkpoint names.
    pub(crate) fn floor(&self) -> Option<(u64, LogId)> {
        let oldest = *self.held().first()?;
        let purged = self.durable_purged?;
        (self.installs == 0).then_some((purged.index.min(oldest.index), oldest))
    }
}

/// The segment that the writer appends to.
pub(crate) struct Active {
    pub(crate) tag: Tag,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Up to here it is durable.
    pub(crate) durable: u64,
    /// What is durable in it. Shared so that sealing encodes it without holding the lock.
    pub(crate) sections: Arc<Sections>,
}

/// A segment that was freed and whose readers have not all let go.
pub(crate) struct Draining {
    pub(crate) segment: Arc<Segment>,
    pub(crate) spare: u64,
}

/// What readers see.
pub(crate) struct State {
    pub(crate) groups: BTreeMap<GroupId, Group>,
    /// How many replicas of a group were dropped since the log was opened, if any were.
    pub(crate) lives: BTreeMap<GroupId, u64>,
    pub(crate) sealed: BTreeMap<u64, Arc<Segment>>,
    pub(crate) active: Active,
    pub(crate) cache: TailCache,
    pub(crate) ahead: AheadCache,
    pub(crate) draining: Vec<Draining>,
    /// Checkpoint files that nothing holds any longer.
    pub(crate) obsolete: Vec<(GroupId, LogId)>,
}

/// The inside of a log.
pub(crate) struct Engine {
    pub(crate) files: Files,
    pub(crate) config: LogConfig,
    pub(crate) work: Work,
    pub(crate) counters: Counters,
    pub(crate) damage: Ledger,
    pub(crate) sections: SectionCache,
    pub(crate) writer_signal: Signal,
    pub(crate) reclaim_signal: Signal,
    pub(crate) scrub_signal: Signal,
    pub(crate) wanted: watch::Sender<Vec<GroupId>>,
    pub(crate) room: AtomicBool,
    pub(crate) unpurged_bytes: std::sync::atomic::AtomicU64,
    pub(crate) stopping: AtomicBool,
    /// The active segment is to be sealed: something in it is damaged, and the next one restates what
    /// may be.
    pub(crate) rotate: AtomicBool,
    dead: AtomicBool,
    /// One checkpoint is written at a time: they compete for the same disk as the log.
    pub(crate) checkpointing: Mutex<()>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) reclaimer: Mutex<Reclaimer>,
    pub(crate) scrubber: Mutex<Scrubber>,
    state: Mutex<State>,
    queue: Mutex<Queue>,
}

/// A lock whose holder panicked guards state that may be half changed: nobody may go on with it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of the log's locks panicked")
}

impl Engine {
    pub(crate) fn new(
        files: Files,
        config: LogConfig,
        work: Work,
        state: State,
        writer: Writer,
        findings: Vec<Finding>,
    ) -> Engine {
        let damage = Ledger::default();
        damage.take_in(findings);
        Engine {
            sections: SectionCache::new(config.footer_cache_bytes),
            files,
            config,
            work,
            counters: Counters::default(),
            damage,
            writer_signal: Signal::default(),
            reclaim_signal: Signal::default(),
            scrub_signal: Signal::default(),
            wanted: watch::Sender::new(Vec::new()),
            room: AtomicBool::new(true),
            unpurged_bytes: Default::default(),
            stopping: AtomicBool::new(false),
            rotate: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            checkpointing: Mutex::default(),
            writer: Mutex::new(writer),
            reclaimer: Mutex::default(),
            scrubber: Mutex::default(),
            state: Mutex::new(state),
            queue: Mutex::default(),
        }
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.files.disk
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// The disk broke its promise. A real process ends here; a simulated one answers nothing more.
    pub(crate) fn die(&self, reason: &str, error: &io::Error) {
        if !self.dead.swap(true, Ordering::AcqRel) {
            self.disk().abort(&format!("{reason}: {error}"));
        }
        self.close_queue();
        self.writer_signal.raise();
        self.reclaim_signal.raise();
        self.scrub_signal.raise();
    }

    /// Takes nothing any longer, and answers nothing that waits.
    pub(crate) fn close_queue(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        let unanswered = std::mem::take(&mut queue.pending);
        drop(queue);
        // Callbacks run foreign code when they are dropped: not under the lock.
        drop(unanswered);
    }

    /// Changes what the group reads back and queues the change for the writer. Refused when the
    /// replica was dropped whose handle this comes from.
    pub(crate) fn submit(&self, group: GroupId, life: u64, change: Change, done: Option<Done>) {
        let state = self.state();
        if state.life(group) == life {
            self.enqueue(state, group, change, done);
            return;
        }
        drop(state);
        if let Some(done) = done {
            done(Err(dropped_error()));
        }
    }

    pub(crate) fn enqueue(
        &self,
        mut state: MutexGuard<'_, State>,
        group: GroupId,
        change: Change,
        done: Option<Done>,
    ) {
        let mut queue = self.queue();
        if queue.closed {
            drop((queue, state));
            // After a disk failure nothing is answered; an orderly end says so.
            if let Some(done) = done.filter(|_| !self.is_dead()) {
                done(Err(io::Error::new(
                    io::ErrorKind::BrokenPipe,
                    "the log is closed",
                )));
            }
            return;
        }
        state.submitted(group, &change);
        if matches!(change, Change::Forget) {
            queue.committed.remove(&group);
            self.damage.forget(group);
        }
        let sequence = state.cache.next_sequence();
        queue.pending.push_back(Pending {
            group,
            change,
            done,
            sequence,
        });
        drop((queue, state));
        self.writer_signal.raise();
    }

    /// Remembers the committed mark; the next round writes it.
    pub(crate) fn submit_committed(&self, group: GroupId, life: u64, committed: Option<LogId>) {
        let mut state = self.state();
        if state.life(group) != life {
            return;
        }
        let markers = &mut state.groups.entry(group).or_default().markers;
        markers.commit(committed);
        self.queue().committed.insert(group, markers.committed);
    }

    /// Submits and blocks until the change is durable.
    pub(crate) fn submit_and_wait(
        &self,
        group: GroupId,
        life: u64,
        change: Change,
    ) -> io::Result<()> {
        self.and_wait(|done| self.submit(group, life, change, Some(done)))
    }

    /// Blocks until what `submit` hands over is durable.
    pub(crate) fn and_wait(&self, submit: impl FnOnce(Done)) -> io::Result<()> {
        let (sender, receiver) = mpsc::sync_channel(1);
        submit(Box::new(move |outcome| {
            // The receiver waits below; it can only be gone if that thread is.
            let _ = sender.send(outcome);
        }));
        if self.work == Work::Task {
            self.drive_inline();
        }
        let stuck = || io::Error::new(io::ErrorKind::StorageFull, "the log waits for disk space");
        match self.work {
            Work::Thread => receiver.recv().unwrap_or_else(|_| Err(dead_error())),
            Work::Task => match receiver.try_recv() {
                Ok(outcome) => outcome,
                Err(mpsc::TryRecvError::Empty) => Err(stuck()),
                Err(mpsc::TryRecvError::Disconnected) => Err(dead_error()),
            },
        }
    }

    /// Writes everything that waits, on this thread. Only in task mode, where nothing else runs.
    fn drive_inline(&self) {
        use crate::writer::Step;
        let mut writer = lock(&self.writer);
        let mut patience = 3;
        loop {
            match writer.step(self) {
                Step::Wrote => {}
                Step::Full if patience > 0 => {
                    patience -= 1;
                    lock(&self.reclaimer).run(self, &|_| {});
                }
                Step::Full | Step::Idle | Step::Dead => return,
            }
        }
    }

    /// The numbers of this moment.
    pub(crate) fn stats(&self) -> LogStats {
        let state = self.state();
        let hot = state
            .sealed
            .values()
            .filter(|segment| segment.heat == crate::segment::Heat::Hot);
        let hot = hot.count() as u64 + 1;
        let cold_bytes: u64 = state
            .sealed
            .values()
            .filter(|segment| segment.heat == crate::segment::Heat::Cold)
            .map(|segment| segment.end)
            .sum();
        let spare = self.files.spare_count() as u64;
        let whole = hot + spare + state.draining.len() as u64;
        LogStats {
            rounds: self.counters.rounds.get(),
            syncs: self.counters.syncs.get(),
            operations: self.counters.operations.get(),
            bytes_appended: self.counters.bytes_appended.get(),
            bytes_compacted: self.counters.bytes_compacted.get(),
            segments_freed: self.counters.segments_freed.get(),
            segments_hot: hot,
            segments_cold: state.sealed.len() as u64 + 1 - hot,
            segments_spare: spare,
            disk_bytes: whole * self.config.segment_bytes + cold_bytes,
            unpurged_bytes: self.unpurged_bytes.load(Ordering::Relaxed),
            cache_bytes: state.cache.bytes() as u64,
            cache_hits: self.counters.cache_hits.get(),
            cache_misses: self.counters.cache_misses.get(),
            scrubbed_bytes: self.counters.scrubbed_bytes.get(),
            damage: DamageCounts::of(&self.damage),
            checkpoints: self.counters.checkpoints.get(),
            full_disk_waits: self.counters.full_disk_waits.get(),
        }
    }
}

pub(crate) fn dead_error() -> io::Error {
    io::Error::other("the log stopped after a disk failure")
}

/// What a handle of a replica that was dropped hears.
pub(crate) fn dropped_error() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the replica was dropped")
}

impl State {
    /// An entry that this leader wrote, if it is in memory.
    pub(crate) fn in_memory(&self, group: GroupId, id: LogId) -> Option<&Entry> {
        let tail = self.cache.get_by(group, id.index, id.leader);
        tail.or_else(|| {
            self.ahead
                .get(group, id.index)
                .filter(|entry| entry.id == id)
        })
    }

    /// Applies a submitted change to what the group reads back.
    fn submitted(&mut self, id: GroupId, change: &Change) {
        let group = self.groups.entry(id).or_default();
        match change {
            Change::Append(entries) => {
                for entry in entries {
                    group.markers.append(entry.id);
                    self.cache.push(id, entry.clone());
                }
            }
            Change::Vote(vote) => group.markers.vote = Some(vote.clone()),
            Change::Truncate(last_kept) => {
                group.markers.truncate(*last_kept);
                self.cache.truncate(id, group.markers.next_index());
            }
            Change::Purge(upto) => group.markers.purge(*upto),
            Change::Own(owner) => {
                group.markers.owner = Some(*owner);
                self.disown(id);
            }
            Change::Forget => {
                // Whoever still pins or installs is of a life that is over.
                *group = Group::default();
                *self.lives.entry(id).or_default() += 1;
                self.cache.forget(id);
                self.ahead.forget(id);
                self.obsolete.retain(|(group, _)| *group != id);
            }
            Change::Barrier => {}
            Change::Forgotten => {
                if group.markers == Markers::default() {
                    self.groups.remove(&id);
                }
            }
        }
    }
}
