//! Reclaim: which segments are free, which are worth compacting, which groups hold the log up.
//!
//! A body may go when it is dead in the oldest checkpoint that is kept or pinned; an entry may go
//! when its group's durable purge mark has passed it. Both together are a group's **floor**: above
//! it entries are needed whole, at or below it only the bodies that the checkpoint names.
//!
//! Victims are picked by estimates, upper bounds per (segment, group) that are renewed when a
//! group's floor moves; nothing is kept per message. Only the copying itself looks at every entry.

use crate::checkpoint;
use crate::compact::{self, CompactError, Policy};
use crate::disk::is_full;
use crate::engine::{Draining, Engine};
use crate::files::Spare;
use crate::live::LiveSet;
use crate::record::Tag;
use crate::section::Span;
use crate::segment::{Heat, LOG_DIR, Segment};
use crate::types::{GroupId, LogId};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Spares beyond the reserve that are kept for reuse; more are removed.
const EXTRA_SPARES: usize = 2;
/// So many small cold segments are merged even if that frees little.
const MERGE_SMALL: usize = 4;
/// So many cold segments are counted exactly in one run.
const EXACT_PER_RUN: usize = 8;
/// What framing costs per surviving body, roughly, in bytes.
const FRAMING: u64 = 80;

/// A group's floor: entries up to the index may go but for what the checkpoint names.
pub(crate) type Floor = Option<(u64, LogId)>;

/// Of the entries up to an index, at most so many bodies are live.
#[derive(Clone, Copy)]
struct Bound {
    upto: u64,
    bodies: u64,
}

/// The reclaimer's own state.
#[derive(Default)]
pub(crate) struct Reclaimer {
    /// The floors that the estimates were made for.
    floors: BTreeMap<GroupId, Floor>,
    /// The segments that the estimates were made for.
    seen: BTreeSet<u64>,
    /// Upper bounds of what is live.
    live: BTreeMap<(u64, GroupId), Bound>,
    /// Cold segments whose estimate is a guess, to be counted.
    guessed: BTreeSet<u64>,
    /// Segments that cannot be copied: something in them is damaged.
    unmovable: BTreeSet<u64>,
    /// What was mended when that was found.
    healed: u64,
    /// Segments that turned out to be full of what is needed; until a floor moves in them.
    dense: BTreeSet<u64>,
}

impl Reclaimer {
    /// Works until nothing is left to do. `pace` is told how many bytes were copied, and may sleep.
    pub(crate) fn run(&mut self, engine: &Engine, pace: &dyn Fn(u64)) {
        loop {
            if engine.is_dead() || engine.stopping.load(Ordering::Acquire) {
                return;
            }
            match self.pass(engine, pace) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if is_full(&error) => break,
                Err(error) => {
                    engine.die("cannot reclaim", &error);
                    return;
                }
            }
        }
        self.ask_for_checkpoints(engine);
        self.judge_room(engine);
    }

    fn pass(&mut self, engine: &Engine, pace: &dyn Fn(u64)) -> io::Result<bool> {
        save_footers(engine)?;
        engine.remove_obsolete()?;
        let (tag, segments) = self.renew_estimates(engine);
        let (dead, others) = segments
            .into_iter()
            .partition(|segment| self.is_dead(segment));
        let freed = self.free(engine, dead)?;
        let compacted = self.compact(engine, tag, others, pace)?;
        drain(engine)?;
        refill(engine)?;
        Ok(freed || compacted)
    }

    /// Recounts the groups whose floor moved, and returns the sealed segments, oldest first, and a
    /// tag for what is copied of them. All are of one moment: a floor says nothing about segments
    /// that were sealed after it was taken, nor about a replica that was opened after it.
    fn renew_estimates(&mut self, engine: &Engine) -> (Tag, Vec<Arc<Segment>>) {
        let (tag, floors, segments) = {
            let state = engine.state();
            let floors: BTreeMap<GroupId, Floor> = state
                .groups
                .iter()
                .map(|(id, group)| (*id, group.floor()))
                .collect();
            let segments: Vec<_> = state.sealed.values().cloned().collect();
            (engine.files.mint(), floors, segments)
        };
        let epochs: BTreeSet<u64> = segments.iter().map(|segment| segment.epoch()).collect();
        self.live.retain(|(epoch, _), _| epochs.contains(epoch));
        self.guessed.retain(|epoch| epochs.contains(epoch));
        self.unmovable.retain(|epoch| epochs.contains(epoch));
        engine.damage.keep_suspects(|epoch| epochs.contains(&epoch));
        let healed = engine.damage.healed();
        if std::mem::replace(&mut self.healed, healed) != healed {
            self.unmovable.clear();
        }
        self.dense.retain(|epoch| epochs.contains(epoch));
        for (group, floor) in &floors {
            let moved = self.floors.get(group) != Some(floor);
            let Some((index, oldest)) = floor else {
                continue;
            };
            let unknown: Vec<&Arc<Segment>> = segments
                .iter()
                .filter(|segment| moved || !self.seen.contains(&segment.epoch()))
                .filter(|segment| segment.spans.get(group).is_some_and(|s| s.low <= *index))
                .collect();
            if unknown.is_empty() {
                continue;
            }
            for segment in &unknown {
                self.dense.remove(&segment.epoch());
            }
            if let Some(names) = names(engine, *group, *oldest) {
                let live = LiveSet::new(&names.live);
                unknown
                    .iter()
                    .for_each(|s| self.estimate(s, *group, *index, &live));
            }
        }
        self.floors = floors;
        self.seen = epochs;
        self.count_exactly(engine, &segments);
        (tag, segments)
    }

    fn estimate(&mut self, segment: &Segment, group: GroupId, floor: u64, live: &LiveSet) {
        let Some(span) = segment.spans.get(&group).filter(|span| span.low <= floor) else {
            return;
        };
        let upto = span.high.min(floor);
        let mut bodies = live.count(span.low, upto);
        // Other cold segments may hold the bodies that were counted here.
        if segment.heat == Heat::Cold && bodies > 0 {
            self.guessed.insert(segment.epoch());
        }
        // What was dead stays dead, but only as far as it was looked at.
        let before = self.live.get(&(segment.epoch(), group));
        if let Some(before) = before.filter(|before| before.upto == upto) {
            bodies = bodies.min(before.bodies);
        }
        let bodies = bodies.min(span.bodies);
        self.live
            .insert((segment.epoch(), group), Bound { upto, bodies });
    }

    fn count_exactly(&mut self, engine: &Engine, segments: &[Arc<Segment>]) {
        let epochs: Vec<u64> = self.guessed.iter().copied().take(EXACT_PER_RUN).collect();
        for segment in segments.iter().filter(|s| epochs.contains(&s.epoch())) {
            self.guessed.remove(&segment.epoch());
            for (group, span) in &segment.spans {
                let policy = self.policy(engine, *group);
                let Policy::Judge { floor, .. } = &policy else {
                    continue;
                };
                // What cannot be read stays a guess, which is an upper bound.
                let section = engine.section(segment, *group).ok().flatten();
                let Some(entries) = section.and_then(|section| section.all()) else {
                    continue;
                };
                let below = entries.iter().filter(|at| at.id.index <= *floor);
                let bodies = below
                    .map(|at| policy.surviving_bodies(at).len() as u64)
                    .sum();
                let bound = Bound {
                    upto: span.high.min(*floor),
                    bodies,
                };
                self.live.insert((segment.epoch(), *group), bound);
            }
        }
    }

    fn policy(&self, engine: &Engine, group: GroupId) -> Policy {
        policy(engine, group, self.floors.get(&group).copied())
    }

    /// The bytes of a segment that are needed, at most; none if it is free.
    fn needed(&self, segment: &Segment) -> Option<u64> {
        let groups = segment.spans.iter();
        groups
            .filter_map(|(group, span)| self.needed_by(segment.epoch(), *group, span))
            .reduce(|a, b| a + b)
    }

    /// The bytes of a group's part that are needed, at most; none if nothing is.
    fn needed_by(&self, epoch: u64, group: GroupId, span: &Span) -> Option<u64> {
        let Some((floor, _)) = self.floors.get(&group)? else {
            return Some(span.bytes);
        };
        let bodies = if span.low > *floor {
            0
        } else {
            let upto = span.high.min(*floor);
            let bound = self
                .live
                .get(&(epoch, group))
                .filter(|bound| bound.upto == upto);
            // Not counted: everything may be needed.
            let Some(bound) = bound else {
                return Some(span.bytes);
            };
            bound.bodies
        };
        if span.high <= *floor && bodies == 0 {
            return None;
        }
        let average = span.body_bytes / span.bodies.max(1) + FRAMING;
        Some((span.bytes_above(Some(*floor)) + bodies * average).min(span.bytes))
    }

    /// A segment whose footer has holes may hold what nobody knows of: it is not dead.
    fn is_dead(&self, segment: &Segment) -> bool {
        !segment.footer.damaged && self.needed(segment).is_none()
    }

    /// Takes segments out of the log. Their files follow when the last reader lets go.
    fn free(&mut self, engine: &Engine, segments: Vec<Arc<Segment>>) -> io::Result<bool> {
        if segments.is_empty() {
            return Ok(false);
        }
        {
            let mut state = engine.state();
            segments.iter().for_each(|segment| {
                state.sealed.remove(&segment.epoch());
            });
        }
        let mut draining = Vec::with_capacity(segments.len());
        for segment in segments {
            let spare = engine.files.retire(segment.epoch(), segment.heat)?;
            draining.push(Draining { segment, spare });
        }
        engine.disk().sync_dir(LOG_DIR)?;
        engine.counters.segments_freed.add(draining.len() as u64);
        engine.state().draining.extend(draining);
        Ok(true)
    }

    /// Copies the survivors of sparse segments together and frees the segments.
    fn compact(
        &mut self,
        engine: &Engine,
        tag: Tag,
        segments: Vec<Arc<Segment>>,
        pace: &dyn Fn(u64),
    ) -> io::Result<bool> {
        let victims = self.victims(engine, segments);
        if victims.is_empty() {
            return Ok(false);
        }
        let groups: BTreeSet<GroupId> = victims
            .iter()
            .flat_map(|segment| segment.spans.keys().copied())
            .collect();
        let mut policies = BTreeMap::new();
        for group in groups {
            policies.insert(group, self.policy(engine, group));
        }
        let damaged = victims
            .iter()
            .any(|it| engine.damage.is_suspect(it.epoch()));
        match compact::compact(engine, tag, victims, &policies, damaged, pace) {
            Ok((cold, victims)) => {
                if let Some(cold) = cold {
                    engine.state().seal(cold);
                    // From here on readers find the copies first: a later epoch is looked at first.
                }
                self.free(engine, victims)?;
                Ok(true)
            }
            Err(CompactError::Unmovable(epoch)) => {
                self.unmovable.insert(epoch);
                Ok(true)
            }
            Err(CompactError::Dense(epoch)) => {
                self.dense.insert(epoch);
                Ok(true)
            }
            Err(CompactError::Full) => Ok(false),
            Err(CompactError::Io(error)) => Err(error),
        }
    }

    /// The oldest sparse segments whose survivors fit one new segment, if that is worth it.
    fn victims(&self, engine: &Engine, sealed: Vec<Arc<Segment>>) -> Vec<Arc<Segment>> {
        let whole = engine.config.segment_bytes;
        let small = |s: &Segment| s.heat == Heat::Cold && s.end < whole / 4;
        let size = |s: &Segment| if s.end < whole / 4 * 3 { s.end } else { whole };
        let (mut victims, mut needed, mut sizes, mut smalls) = (Vec::new(), 0, 0, 0);
        let mut sealed = sealed;
        sealed.retain(|it| !it.footer.damaged && !self.unmovable.contains(&it.epoch()));
        let damaged = sealed
            .iter()
            .find(|it| engine.damage.is_suspect(it.epoch()));
        if let Some(damaged) = damaged {
            return vec![damaged.clone()];
        }
        for segment in sealed {
            if self.dense.contains(&segment.epoch()) {
                continue;
            }
            let need = self.needed(&segment).unwrap_or(0);
            let limit = size(&segment) * u64::from(engine.config.compact_below_percent) / 100;
            let worth = need < limit || small(&segment);
            if worth && needed + need <= whole / 10 * 8 {
                needed += need;
                sizes += size(&segment);
                smalls += usize::from(small(&segment));
                victims.push(segment);
            }
        }
        let urgent = !engine.room.load(Ordering::Acquire);
        let goal = if urgent { whole / 8 } else { whole / 2 };
        let frees = sizes.saturating_sub(needed);
        let enough = frees >= goal && needed < sizes;
        if enough || smalls >= MERGE_SMALL {
            victims
        } else {
            Vec::new()
        }
    }

    /// When more than the budget is unpurged, names the groups that hold the oldest of it.
    fn ask_for_checkpoints(&self, engine: &Engine) {
        let state = engine.state();
        let purged = |group: &GroupId| {
            let markers = state.groups.get(group).map(|group| &group.markers);
            markers.map(|markers| markers.purged.map(|id| id.index))
        };
        let mut total = 0;
        let mut oldest_first = Vec::new();
        for (group, span) in state.sealed.values().flat_map(|segment| &segment.spans) {
            let bytes = purged(group).map_or(0, |purged| span.bytes_above(purged));
            total += bytes;
            if bytes > 0 {
                oldest_first.push((*group, bytes));
            }
        }
        drop(state);
        engine.unpurged_bytes.store(total, Ordering::Relaxed);
        let mut excess = total.saturating_sub(engine.config.purge_budget_bytes);
        let mut wanted = BTreeSet::new();
        for (group, bytes) in oldest_first {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(bytes);
            wanted.insert(group);
        }
        let wanted: Vec<GroupId> = wanted.into_iter().collect();
        engine.wanted.send_if_modified(|old| {
            let changed = *old != wanted;
            *old = wanted;
            changed
        });
    }

    fn judge_room(&self, engine: &Engine) {
        let Ok(free) = engine.disk().free_bytes() else {
            return;
        };
        let spares = engine.files.spare_count() >= engine.config.reserve_segments;
        let disk = free
            >= engine
                .config
                .min_free_bytes
                .saturating_add(engine.config.segment_bytes);
        let room = spares && disk;
        if engine.room.swap(room, Ordering::AcqRel) != room {
            tracing::warn!(room, free, "room on the disk changed");
        }
    }
}

/// How the entries of a group with this floor are judged; without one it is gone.
pub(crate) fn policy(engine: &Engine, group: GroupId, floor: Option<Floor>) -> Policy {
    match floor {
        None => Policy::Drop,
        Some(None) => Policy::Keep,
        // Damaged since it was opened: nobody knows what is dead.
        Some(Some((floor, oldest))) => match names(engine, group, oldest) {
            None => Policy::Keep,
            Some(names) => Policy::Judge {
                floor,
                live: LiveSet::new(&names.live),
                leaders: names.leaders,
            },
        },
    }
}

/// What a checkpoint names; none if that cannot be read (its group may be dropped right now).
pub(crate) fn names(engine: &Engine, group: GroupId, id: LogId) -> Option<checkpoint::Names> {
    match checkpoint::read_names(engine.disk(), group, id) {
        Ok(Some(names)) => Some(names),
        Ok(None) => {
            engine.drop_damaged(group, id);
            None
        }
        Err(error) => {
            tracing::warn!(%group, %id, %error, "cannot read a checkpoint's names");
            None
        }
    }
}

/// Makes the footers of sealed segments durable.
fn save_footers(engine: &Engine) -> io::Result<()> {
    let segments: Vec<Arc<Segment>> = engine.state().sealed.values().cloned().collect();
    let mut saved = Vec::new();
    for segment in segments {
        if let Some(footer) = segment.unsaved_footer() {
            engine.files.write_footer(segment.epoch(), &footer)?;
            saved.push(segment);
        }
    }
    if !saved.is_empty() {
        engine.disk().sync_dir(LOG_DIR)?;
        saved.iter().for_each(|segment| segment.footer_saved());
    }
    Ok(())
}

/// Turns freed segments without readers into spares.
fn drain(engine: &Engine) -> io::Result<()> {
    let drained: Vec<Draining> = {
        let mut state = engine.state();
        let (free, held) = std::mem::take(&mut state.draining)
            .into_iter()
            .partition(|draining| {
                Arc::strong_count(&draining.segment) == 1
                    && Arc::strong_count(&draining.segment.file) == 1
            });
        state.draining = held;
        free
    };
    for Draining { segment, spare } in drained {
        let file = segment.file.clone();
        let spare = Spare {
            number: spare,
            file,
        };
        let whole = spare.file.len()? == engine.config.segment_bytes;
        let wanted = engine.config.reserve_segments + EXTRA_SPARES;
        if whole && engine.files.spare_count() < wanted {
            engine.files.give(spare);
        } else {
            engine.files.discard(spare)?;
        }
    }
    Ok(())
}

/// Keeps the pool of spares at its size, as far as the disk has room.
fn refill(engine: &Engine) -> io::Result<()> {
    while engine.files.spare_count() <= engine.config.reserve_segments {
        match engine.files.create_spare() {
            Ok(spare) => engine.files.give(spare),
            Err(error) if is_full(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
