//! The writer: turns what waits into rounds, one write and one fdatasync each.
//!
//! It alone appends to the active segment, in the order of the queue, and answers in that order. It
//! keeps every group's markers *as written* and restates them at the head of each new segment.
//!
//! A full disk is not an error: the round waits and is tried again. Any other failure of a write or
//! a sync ends the process, because nobody knows any longer what is on the disk.

use crate::disk::{DiskFile, is_full, write_at};
use crate::engine::{Active, Change, Engine, Pending, State};
use crate::files::{Claim, Files, Spare};
use crate::footer::{Footer, Sections};
use crate::markers::{Markers, Persisted};
use crate::record::{Kind, Record, Tag};
use crate::round::{Round, RoundBuilder, SECTOR};
use crate::section::{BodyAt, EntryAt};
use crate::segment::{FIRST_ROUND, Heat, Segment, SegmentHeader};
use crate::types::{Done, Entry, GroupId, LogId};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a step of the writer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing waits.
    Idle,
    /// Something was written; there may be more.
    Wrote,
    /// The disk is full; try again later.
    Full,
    /// The disk failed; never try again.
    Dead,
}

/// What becomes visible once a round is durable.
enum Effect {
    Placed(GroupId, EntryAt),
    /// Entries from this index on are void.
    Truncated(GroupId, u64),
    Purged(GroupId, LogId),
    /// What the group had in the active segment is dead.
    Forgotten(GroupId),
}

/// A round and what follows from it.
struct Composed {
    /// None if only barriers waited.
    round: Option<Round>,
    effects: Vec<Effect>,
    done: Vec<Done>,
    operations: u64,
    sequence: u64,
}

enum Composition {
    Nothing,
    /// The next change needs a new segment.
    NoSpace,
    Round(Composed),
}

/// The writer's own state.
pub(crate) struct Writer {
    persisted: Persisted,
    tag: Tag,
    file: Arc<dyn DiskFile>,
    /// Where the next round starts.
    position: u64,
    /// Everything below is durable.
    durable: u64,
    /// Taken from the queue, not composed yet.
    carry: VecDeque<Pending>,
    /// Composed, waiting for a full disk.
    unwritten: Option<Composed>,
    /// The last round was a closing mark.
    marked: bool,
}

/// A fresh hot segment.
pub(crate) struct Started {
    pub(crate) tag: Tag,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Where its first round after the head starts.
    pub(crate) position: u64,
    pub(crate) sections: Sections,
}

/// Writes the head of a hot segment into a spare and makes it durable under its name. `carried`
/// are entries that recovery copies; they come before the markers, which already count them.
pub(crate) fn start_segment(
    files: &Files,
    spare: &Spare,
    previous: Option<(u64, u64)>,
    persisted: &Persisted,
    carried: &[(GroupId, Entry)],
) -> io::Result<Started> {
    let tag = files.mint();
    let mut round = RoundBuilder::new(tag, FIRST_ROUND);
    let mut sections = Sections::new();
    for (group, entry) in carried {
        let placed = place_entry(&mut round, *group, entry);
        sections.entry(*group).or_default().push(placed);
    }
    for (group, markers) in &persisted.groups {
        let state = markers.encode();
        round.push(&Record::marker(
            Kind::State,
            *group,
            LogId::default(),
            &state,
        ));
    }
    for group in &persisted.forgetting {
        round.push(&Record::marker(Kind::Forget, *group, LogId::default(), &[]));
    }
    let position = round.end();
    assert!(
        position <= files.segment_bytes / 2,
        "the markers of all groups fit half a segment"
    );
    write_at(&*spare.file, &SegmentHeader { tag, previous }.encode(), 0)?;
    round.finish(FIRST_ROUND).write(&*spare.file)?;
    files.commit(spare, tag, Heat::Hot)?;
    Ok(Started {
        tag,
        file: spare.file.clone(),
        position,
        sections,
    })
}

fn place_entry(round: &mut RoundBuilder, group: GroupId, entry: &Entry) -> EntryAt {
    let placed = round.push(&entry_record(group, entry));
    let lines = placed.bodies.into_iter().enumerate();
    EntryAt {
        whole: true,
        id: entry.id,
        offset: placed.offset,
        head_len: entry.head.len() as u32,
        bodies: lines
            .map(|(n, line)| BodyAt {
                ordinal: n as u32,
                line,
            })
            .collect(),
    }
}

/// The record of an entry.
pub(crate) fn entry_record(group: GroupId, entry: &Entry) -> Record<'_> {
    Record {
        kind: Kind::Entry,
        group,
        id: entry.id,
        head: &entry.head,
        bodies: &entry.bodies,
    }
}

/// Bytes that a change takes in a round.
fn cost(group: GroupId, change: &Change) -> u64 {
    let marker =
        |head: &[u8]| Record::marker(Kind::Vote, group, LogId::default(), head).encoded_len();
    match change {
        Change::Append(entries) => entries
            .iter()
            .map(|entry| entry_record(group, entry).encoded_len())
            .sum(),
        Change::Vote(vote) => marker(vote),
        Change::Own(owner) => marker(&owner.encode()),
        Change::Truncate(_) | Change::Purge(_) | Change::Forget => marker(NAMED),
        Change::Forgotten | Change::Barrier => 0,
    }
}

/// The head of a marker that names an entry; a marker that names none has an empty head.
const NAMED: &[u8] = &[1];

fn head_of(id: Option<LogId>) -> &'static [u8] {
    if id.is_some() { NAMED } else { &[] }
}

impl Writer {
    pub(crate) fn new(persisted: Persisted, started: &Started) -> Writer {
        Writer {
            persisted,
            tag: started.tag,
            file: started.file.clone(),
            position: started.position,
            durable: started.position,
            carry: VecDeque::new(),
            unwritten: None,
            marked: false,
        }
    }

    /// Writes one round, or starts the next segment, if something waits.
    pub(crate) fn step(&mut self, engine: &Engine) -> Step {
        if engine.is_dead() {
            self.give_up();
            return Step::Dead;
        }
        let composed = match self.unwritten.take() {
            Some(composed) => composed,
            None if engine.rotate.swap(false, Ordering::AcqRel) => return self.rotate(engine),
            None => match self.compose(engine) {
                Composition::Nothing => return Step::Idle,
                Composition::NoSpace => return self.rotate(engine),
                Composition::Round(composed) => composed,
            },
        };
        if let Some(round) = &composed.round {
            match round.write(&*self.file) {
                Ok(()) => {}
                Err(error) if is_full(&error) => {
                    self.unwritten = Some(composed);
                    return full(engine);
                }
                Err(error) => return dead(engine, "cannot write the log", &error),
            }
            if let Err(error) = self.file.sync_data() {
                return dead(engine, "cannot sync the log", &error);
            }
            self.position = round.end();
            self.durable = self.position;
            self.marked = false;
            engine.counters.syncs.add(1);
            engine.counters.rounds.add(1);
            engine.counters.bytes_appended.add(round.len());
        }
        engine.counters.operations.add(composed.operations);
        publish(
            &mut engine.state(),
            self.durable,
            composed.effects,
            composed.sequence,
        );
        composed.done.into_iter().for_each(|done| done(Ok(())));
        Step::Wrote
    }

    /// Forgets what waits, unanswered.
    pub(crate) fn give_up(&mut self) {
        self.carry.clear();
        self.unwritten = None;
    }

    fn compose(&mut self, engine: &Engine) -> Composition {
        if self.carry.is_empty() {
            std::mem::swap(&mut self.carry, &mut engine.queue().pending);
        }
        if self.carry.is_empty() {
            return Composition::Nothing;
        }
        let mut round = RoundBuilder::new(self.tag, self.position);
        let (mut effects, mut done) = (Vec::new(), Vec::new());
        let (mut operations, mut sequence) = (0, 0);
        while let Some(next) = self.carry.front() {
            let cost = cost(next.group, &next.change);
            let too_long = round.payload() + cost > engine.config.max_round_bytes;
            let too_far = round.end() + cost + SECTOR > engine.config.segment_bytes;
            if too_far || (too_long && !round.is_empty()) {
                break;
            }
            let Some(next) = self.carry.pop_front() else {
                break;
            };
            self.write(&mut round, next.group, next.change, &mut effects);
            done.extend(next.done);
            operations += 1;
            sequence = next.sequence;
        }
        if operations == 0 {
            return Composition::NoSpace;
        }
        self.write_committed(engine, &mut round);
        let round = (!round.is_empty()).then(|| round.finish(self.durable));
        Composition::Round(Composed {
            round,
            effects,
            done,
            operations,
            sequence,
        })
    }

    fn write(
        &mut self,
        round: &mut RoundBuilder,
        group: GroupId,
        change: Change,
        effects: &mut Vec<Effect>,
    ) {
        let markers = self.persisted.markers(group);
        let mut marker = |kind, id: Option<LogId>, head: &[u8]| {
            round.push(&Record::marker(kind, group, id.unwrap_or_default(), head));
        };
        match change {
            Change::Append(entries) => {
                for entry in &entries {
                    markers.append(entry.id);
                    effects.push(Effect::Placed(group, place_entry(round, group, entry)));
                }
            }
            Change::Vote(vote) => {
                marker(Kind::Vote, None, &vote);
                markers.vote = Some(vote);
            }
            Change::Truncate(last_kept) => {
                marker(Kind::Truncate, last_kept, head_of(last_kept));
                markers.truncate(last_kept);
                effects.push(Effect::Truncated(group, markers.next_index()));
            }
            Change::Purge(upto) => {
                marker(Kind::Purge, Some(upto), NAMED);
                markers.purge(upto);
                effects.push(Effect::Purged(group, upto));
            }
            Change::Barrier => {}
            Change::Own(owner) => {
                marker(Kind::Owner, None, &owner.encode());
                markers.owner = Some(owner);
            }
            Change::Forget => {
                marker(Kind::Forget, None, &[]);
                self.persisted.forget(group);
                effects.push(Effect::Forgotten(group));
            }
            Change::Forgotten => {
                if *markers == Markers::default() {
                    self.persisted.groups.remove(&group);
                }
            }
        }
    }

    /// Lets the committed marks ride along, as far as they fit. One that is ahead of what is
    /// written waits: after a crash it would point past the log.
    fn write_committed(&mut self, engine: &Engine, round: &mut RoundBuilder) {
        engine.queue().committed.retain(|group, committed| {
            let markers = self.persisted.markers(*group);
            let ahead = committed.map(|id| id.index) > markers.last.map(|id| id.index);
            let head = head_of(*committed);
            let id = committed.unwrap_or_default();
            let record = Record::marker(Kind::Committed, *group, id, head);
            let full = round.end() + record.encoded_len() + SECTOR > engine.config.segment_bytes;
            if ahead || full {
                return true;
            }
            round.push(&record);
            markers.commit(*committed);
            false
        });
    }

    /// Whether nothing was written since the last closing mark.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked
    }

    /// Leaves a closing mark: what is durable is then proven by the log itself.
    pub(crate) fn mark(&mut self, engine: &Engine, sync: bool) {
        if self.marked || engine.is_dead() || self.unwritten.is_some() {
            return;
        }
        let mut round = RoundBuilder::new(self.tag, self.position);
        if round.end() > engine.config.segment_bytes {
            return;
        }
        self.write_committed(engine, &mut round);
        let round = round.finish(self.durable);
        let written = round.write(&*self.file);
        let written = if sync {
            written.and_then(|()| self.file.sync_data())
        } else {
            written
        };
        match written {
            Ok(()) => {
                self.position = round.end();
                self.marked = true;
            }
            Err(error) if is_full(&error) => {}
            Err(error) => engine.die("cannot write a mark", &error),
        }
    }

    /// Seals the active segment and starts the next.
    fn rotate(&mut self, engine: &Engine) -> Step {
        let spare = match engine.files.take(Claim::Writer) {
            Ok(Some(spare)) => spare,
            Ok(None) => return full(engine),
            Err(error) => return dead(engine, "cannot create a segment", &error),
        };
        let previous = Some((self.tag.epoch, self.position));
        let started = start_segment(&engine.files, &spare, previous, &self.persisted, &[]);
        let started = match started {
            Ok(started) => started,
            Err(error) if is_full(&error) => {
                engine.files.give(spare);
                return full(engine);
            }
            Err(error) => return dead(engine, "cannot start a segment", &error),
        };
        self.seal(engine, &started);
        self.tag = started.tag;
        self.file = started.file;
        self.position = started.position;
        self.durable = started.position;
        self.marked = false;
        engine.counters.syncs.add(1);
        engine.reclaim_signal.raise();
        Step::Wrote
    }

    fn seal(&self, engine: &Engine, next: &Started) {
        // Only the writer changes the sections, so nothing is added while they are encoded.
        let sections = engine.state().active.sections.clone();
        let sealed = sealed_segment(self.tag, self.file.clone(), self.position, &sections);
        drop(sections);
        let mut state = engine.state();
        state.seal(sealed);
        state.active = Active {
            tag: next.tag,
            file: next.file.clone(),
            durable: next.position,
            sections: Arc::new(Sections::new()),
        };
    }
}

/// A hot segment that nothing is appended to any longer, its footer still in memory.
pub(crate) fn sealed_segment(
    tag: Tag,
    file: Arc<dyn DiskFile>,
    end: u64,
    sections: &Sections,
) -> Segment {
    let bytes = Bytes::from(Footer::encode(tag, end, false, &[], sections));
    let footer = Footer::parse(&bytes).expect("a footer that was just encoded parses");
    Segment::new(Heat::Hot, file, footer, Some(bytes))
}

fn publish(state: &mut State, durable: u64, effects: Vec<Effect>, sequence: u64) {
    state.active.durable = durable;
    let sections = Arc::make_mut(&mut state.active.sections);
    for effect in effects {
        match effect {
            Effect::Placed(group, entry) => sections.entry(group).or_default().push(entry),
            Effect::Truncated(group, next) => {
                if let Some(entries) = sections.get_mut(&group) {
                    let keep = entries.partition_point(|entry| entry.id.index < next);
                    entries.truncate(keep);
                }
            }
            Effect::Forgotten(group) => {
                sections.remove(&group);
                // A purge of the dropped replica may have been published just now.
                if let Some(group) = state.groups.get_mut(&group) {
                    group.durable_purged = None;
                }
            }
            Effect::Purged(group, upto) => {
                if let Some(group) = state.groups.get_mut(&group) {
                    let newer = group
                        .durable_purged
                        .is_none_or(|old| old.index < upto.index);
                    group.durable_purged = if newer {
                        Some(upto)
                    } else {
                        group.durable_purged
                    };
                }
            }
        }
    }
    sections.retain(|_, entries| !entries.is_empty());
    state.cache.publish(sequence);
}

fn full(engine: &Engine) -> Step {
    engine.counters.full_disk_waits.add(1);
    engine.room.store(false, Ordering::Release);
    engine.reclaim_signal.raise();
    Step::Full
}

fn dead(engine: &Engine, what: &str, error: &io::Error) -> Step {
    engine.die(what, error);
    Step::Dead
}
