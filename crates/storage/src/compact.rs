//! Copies what survives of sparse segments into one cold segment.
//!
//! Every entry and body is checked before it is copied: damage is never laundered into a fresh
//! checksum. A segment in which something cannot be read is left as it is.

use crate::cold::ColdWriter;
use crate::disk::is_full;
use crate::engine::Engine;
use crate::live::LiveSet;
use crate::markers::leader_at;
use crate::record::Tag;
use crate::section::{BodyAt, EntryAt};
use crate::segment::{Heat, Segment};
use crate::types::{GroupId, LeaderId, LogId};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// How the entries of a group are judged.
pub(crate) enum Policy {
    /// The group is gone: nothing survives.
    Drop,
    /// Nothing may go.
    Keep,
    /// Above the floor everything survives, else the bodies that the oldest checkpoint names.
    Judge {
        floor: u64,
        live: LiveSet,
        leaders: Vec<(u64, LeaderId)>,
    },
}

impl Policy {
    pub(crate) fn keeps_whole(&self, index: u64) -> bool {
        match self {
            Policy::Drop => false,
            Policy::Keep => true,
            Policy::Judge { floor, .. } => index > *floor,
        }
    }

    /// The bodies of an entry that survive on their own.
    pub(crate) fn surviving_bodies(&self, at: &EntryAt) -> Vec<BodyAt> {
        if self.keeps_whole(at.id.index) {
            return at.bodies.clone();
        }
        let Policy::Judge { live, leaders, .. } = self else {
            return Vec::new();
        };
        if leader_at(leaders, at.id.index) != Some(at.id.leader) {
            return Vec::new();
        }
        let alive = |body: &&BodyAt| live.contains(at.id.index, body.ordinal);
        at.bodies.iter().filter(alive).copied().collect()
    }
}

/// Why segments were not compacted.
#[derive(Debug)]
pub(crate) enum CompactError {
    /// The segment holds something damaged, or too much.
    Unmovable(u64),
    /// The copy of this segment alone would take about as much as the segment.
    Dense(u64),
    /// There is no space for the copies.
    Full,
    /// The disk failed.
    Io(io::Error),
}

impl From<io::Error> for CompactError {
    fn from(error: io::Error) -> CompactError {
        if is_full(&error) {
            CompactError::Full
        } else {
            CompactError::Io(error)
        }
    }
}

/// Something that is copied.
struct Survivor {
    segment: Arc<Segment>,
    group: GroupId,
    at: EntryAt,
    /// The bodies to copy; none means the whole entry.
    bodies: Option<Vec<BodyAt>>,
}

impl Survivor {
    /// Bytes that the copy takes, at most.
    fn cost(&self) -> u64 {
        let ordinals = self
            .bodies
            .as_ref()
            .map_or(0, |bodies| bodies.len() as u64 * 4);
        match &self.bodies {
            None => self.at.record_len(),
            Some(bodies) => {
                let bytes: u64 = bodies
                    .iter()
                    .map(|body| u64::from(body.line.length) + 8)
                    .sum();
                bytes + ordinals + 64
            }
        }
    }
}

/// Copies the survivors of the victims. Returns the cold segment, if anything survived, and the
/// victims that it replaces: fewer than given if not all fit. The tag is of the moment of which the
/// victims are: it tells what they hold from what a replica wrote that was opened since. `anyway`
/// copies a segment that gets no smaller, because it is damaged.
pub(crate) fn compact(
    engine: &Engine,
    tag: Tag,
    victims: Vec<Arc<Segment>>,
    policies: &BTreeMap<GroupId, Policy>,
    anyway: bool,
    pace: &dyn Fn(u64),
) -> Result<(Option<Segment>, Vec<Arc<Segment>>), CompactError> {
    let mut survivors = Vec::new();
    let mut replaced = Vec::new();
    let mut cost = 0;
    for victim in victims {
        let found = survivors_of(engine, &victim, policies)?;
        let more: u64 = found.iter().map(Survivor::cost).sum();
        if cost + more > engine.config.segment_bytes / 10 * 9 {
            if replaced.is_empty() {
                return Err(CompactError::Unmovable(victim.epoch()));
            }
            break;
        }
        cost += more;
        survivors.extend(found);
        replaced.push(victim);
    }
    if survivors.is_empty() {
        return Ok((None, replaced));
    }
    // Estimates go by averages; this is exact. A compaction makes a cold segment of a hot one, or one
    // of several, or a clearly smaller one: so reclaim ends.
    if !anyway
        && let [alone] = &replaced[..]
        && alone.heat == Heat::Cold
        && cost > alone.end / 4 * 3
    {
        return Err(CompactError::Dense(alone.epoch()));
    }
    // Whole entries first, so that single bodies of the same entry are seen to be there already.
    survivors.sort_by_key(|s| (s.group, s.at.id.index, s.at.id.leader, s.bodies.is_some()));
    let epochs = replaced.iter().map(|segment| segment.epoch()).collect();
    let Some(mut cold) = ColdWriter::start(&engine.files, tag, epochs)? else {
        return Err(CompactError::Full);
    };
    match copy_all(engine, &mut cold, &survivors, pace) {
        Ok(bytes) => {
            let segment = cold.finish(&engine.files)?;
            engine.counters.bytes_compacted.add(bytes);
            Ok((Some(segment), replaced))
        }
        Err(error) => {
            cold.abandon(&engine.files);
            Err(error)
        }
    }
}

fn survivors_of(
    engine: &Engine,
    victim: &Arc<Segment>,
    policies: &BTreeMap<GroupId, Policy>,
) -> Result<Vec<Survivor>, CompactError> {
    let unmovable = || CompactError::Unmovable(victim.epoch());
    let mut survivors = Vec::new();
    for group in victim.spans.keys() {
        let policy = policies.get(group).ok_or_else(unmovable)?;
        if matches!(policy, Policy::Drop) {
            continue;
        }
        let section = engine
            .section(victim, *group)
            .ok()
            .flatten()
            .ok_or_else(unmovable)?;
        for at in section.all().ok_or_else(unmovable)? {
            let whole = at.whole && policy.keeps_whole(at.id.index);
            let bodies = (!whole).then(|| policy.surviving_bodies(&at));
            if bodies.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            survivors.push(Survivor {
                segment: victim.clone(),
                group: *group,
                at,
                bodies,
            });
        }
    }
    Ok(survivors)
}

fn copy_all(
    engine: &Engine,
    cold: &mut ColdWriter,
    survivors: &[Survivor],
    pace: &dyn Fn(u64),
) -> Result<u64, CompactError> {
    let mut seen: BTreeSet<(GroupId, LogId, u32)> = BTreeSet::new();
    let mut total = 0;
    for survivor in survivors {
        if !cold.fits(survivor.cost()) {
            return Err(CompactError::Unmovable(survivor.segment.epoch()));
        }
        let copied = copy(engine, cold, survivor, &mut seen)?;
        total += copied;
        pace(copied);
    }
    Ok(total)
}

fn copy(
    engine: &Engine,
    cold: &mut ColdWriter,
    survivor: &Survivor,
    seen: &mut BTreeSet<(GroupId, LogId, u32)>,
) -> Result<u64, CompactError> {
    let Survivor {
        segment,
        group,
        at,
        bodies,
    } = survivor;
    let unmovable = || CompactError::Unmovable(segment.epoch());
    let mut first = |ordinal: u32| seen.insert((*group, at.id, ordinal));
    let Some(bodies) = bodies else {
        // Damaged here, it may be whole elsewhere, or not be needed by now.
        let entry = match engine.load_entry(*group, at.id) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Ok(0),
            Err(_) => return Err(unmovable()),
        };
        at.bodies.iter().for_each(|body| {
            first(body.ordinal);
        });
        return Ok(cold.push_entry(*group, &entry)?);
    };
    let mut copies = Vec::with_capacity(bodies.len());
    for body in bodies.iter().filter(|body| first(body.ordinal)) {
        // Whichever copy is right.
        let bytes = engine.load_body(*group, at.id, body.ordinal);
        copies.push((body.ordinal, bytes.map_err(|_| unmovable())?));
    }
    if copies.is_empty() {
        Ok(0)
    } else {
        Ok(cold.push_bodies(*group, at.id, &copies)?)
    }
}
