//! Reads what is kept on the disk, slowly, and checks it: what rots is found while others still have it.
//!
//! A pass goes through the sealed segments, oldest first, with their headers and footers, then through
//! the active segment as far as it is durable, then through the checkpoints. A segment's rounds are
//! read as they lie. Only when something is wrong with them is it asked whom that costs something, by
//! the footer: each entry and body that is still needed is read as a reader would read it, from any
//! copy, and what is whole in none is in the ledger of damage then.
//!
//! A wrong marker, or a wrong record that nobody needs, costs nothing in a sealed segment: the head of
//! each later segment restates all markers. The segment is written anew all the same, so that damage
//! does not pile up. In the active segment such damage would cost every replica of the node at its
//! next start; here the next segment is begun at once, which restates what may be lost.

use crate::checkpoint;
use crate::damage::Place;
use crate::disk::{DiskFile, read_up_to, write_at};
use crate::engine::Engine;
use crate::footer::Footer;
use crate::reclaim::policy;
use crate::record::Tag;
use crate::round::{ROUND_HEADER, RoundHeader, SECTOR};
use crate::scan;
use crate::section::EntryAt;
use crate::segment::{FIRST_ROUND, Heat, Segment, SegmentHeader, footer_path};
use crate::types::GroupId;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Checkpoints are read in pieces of so many bytes.
const PIECE_BYTES: usize = 256 << 10;

/// The scrubber. It keeps nothing from one pass to the next.
#[derive(Default)]
pub(crate) struct Scrubber;

impl Scrubber {
    /// Reads everything once. `pace` is told how many bytes were read, and may sleep.
    pub(crate) fn pass(&mut self, engine: &Engine, pace: &dyn Fn(u64)) {
        let pace = |bytes: u64| {
            engine.counters.scrubbed_bytes.add(bytes);
            pace(bytes);
        };
        let ends = || engine.is_dead() || engine.stopping.load(Ordering::Acquire);
        let mut next = 0;
        while let Some(segment) = segment_from(engine, next) {
            if ends() {
                return;
            }
            next = segment.epoch() + 1;
            if let Err(error) = scrub_segment(engine, &segment, &pace) {
                tracing::warn!(segment = segment.epoch(), %error, "a segment cannot be scrubbed now");
            }
        }
        scrub_active(engine, &pace);
        for group in groups(engine) {
            if ends() {
                return;
            }
            scrub_checkpoints(engine, group, &pace);
        }
    }
}

fn segment_from(engine: &Engine, epoch: u64) -> Option<Arc<Segment>> {
    let state = engine.state();
    let mut segments = state.sealed.range(epoch..);
    segments.next().map(|(_, segment)| segment.clone())
}

fn groups(engine: &Engine) -> Vec<GroupId> {
    engine.state().groups.keys().copied().collect()
}

fn scrub_segment(engine: &Engine, segment: &Arc<Segment>, pace: &dyn Fn(u64)) -> io::Result<()> {
    let epoch = segment.epoch();
    scrub_header(engine, segment)?;
    if segment.unsaved_footer().is_none() && !footer_is_whole(engine, segment, pace)? {
        // Whoever freed the segment meanwhile took its footer with it.
        if !engine.state().sealed.contains_key(&epoch) {
            return Ok(());
        }
        engine.rebuild_footer(segment)?;
    }
    let chain = Chain {
        file: &*segment.file,
        tag: segment.tag,
        end: segment.end,
    };
    let wrong = chain.wrong(pace)?;
    if wrong.is_empty() || !engine.state().sealed.contains_key(&epoch) {
        return Ok(());
    }
    for (offset, what) in &wrong {
        engine.damage.derived(Place::Segment(epoch, *offset), what);
    }
    engine.damage.suspect(epoch);
    for group in segment.spans.keys() {
        let section = engine.section(segment, *group)?;
        let entries = section.and_then(|section| section.all());
        check(engine, *group, &entries.unwrap_or_default());
    }
    engine.reclaim_signal.raise();
    Ok(())
}

/// The header says nothing that the log does not know; it is written anew.
fn scrub_header(engine: &Engine, segment: &Segment) -> io::Result<()> {
    let mut sector = vec![0; SECTOR as usize];
    read_up_to(&*segment.file, &mut sector, 0)?;
    if SegmentHeader::parse(&sector).is_ok_and(|header| header.tag == segment.tag) {
        return Ok(());
    }
    let place = Place::Segment(segment.epoch(), 0);
    engine
        .damage
        .derived(place, "the header of the segment is wrong");
    let before = || {
        let state = engine.state();
        let mut older = state.sealed.range(..segment.epoch()).rev();
        let hot = older.find(|(_, it)| it.heat == Heat::Hot);
        hot.map(|(epoch, it)| (*epoch, it.end))
    };
    let header = SegmentHeader {
        tag: segment.tag,
        previous: (segment.heat == Heat::Hot).then(before).flatten(),
    };
    let written = write_at(&*segment.file, &header.encode(), 0);
    if let Err(error) = written.and_then(|()| segment.file.sync_data()) {
        engine.die("cannot write the header of a segment", &error);
        return Err(error);
    }
    engine.damage.made_anew(1);
    Ok(())
}

/// Whether the footer on the disk is the one that is in memory, with all its sections.
fn footer_is_whole(engine: &Engine, segment: &Segment, pace: &dyn Fn(u64)) -> io::Result<bool> {
    let file = match engine.disk().open(&footer_path(segment.epoch())) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; file.len()? as usize];
    let got = read_up_to(&*file, &mut bytes, 0)?;
    pace(got as u64);
    bytes.truncate(got);
    let bytes = Bytes::from(bytes);
    let Some(footer) = Footer::parse(&bytes).filter(|footer| footer.tag == segment.tag) else {
        return Ok(false);
    };
    let mut groups = footer.spans().into_keys();
    Ok(groups.all(|group| {
        let place = footer.place(group);
        let section = place.and_then(|(offset, len)| {
            let from = usize::try_from(offset).ok()?;
            let to = from.checked_add(len).filter(|to| *to <= bytes.len())?;
            footer.section(group, &bytes.slice(from..to))
        });
        section.is_some()
    }))
}

fn scrub_active(engine: &Engine, pace: &dyn Fn(u64)) {
    let (tag, file, end, sections) = {
        let state = engine.state();
        let active = &state.active;
        (
            active.tag,
            active.file.clone(),
            active.durable,
            active.sections.clone(),
        )
    };
    let chain = Chain {
        file: &*file,
        tag,
        end,
    };
    let mut sector = vec![0; SECTOR as usize];
    let found = read_up_to(&*file, &mut sector, 0).and_then(|_| chain.wrong(pace));
    let wrong = match found {
        Ok(mut wrong) => {
            if !SegmentHeader::parse(&sector).is_ok_and(|header| header.tag == tag) {
                wrong.push((0, "the header of the segment is wrong"));
            }
            wrong
        }
        Err(error) => {
            tracing::warn!(segment = tag.epoch, %error, "a segment cannot be scrubbed now");
            return;
        }
    };
    if wrong.is_empty() {
        return;
    }
    for (offset, what) in &wrong {
        engine
            .damage
            .derived(Place::Segment(tag.epoch, *offset), what);
    }
    engine.damage.suspect(tag.epoch);
    engine.rotate.store(true, Ordering::Release);
    engine.writer_signal.raise();
    for (group, entries) in sections.iter() {
        check(engine, *group, entries);
    }
}

/// Reads all of these entries that is still needed, as readers do; what is wrong is in the ledger then.
fn check(engine: &Engine, group: GroupId, entries: &[EntryAt]) {
    let (floor, markers) = {
        let state = engine.state();
        let Some(known) = state.groups.get(&group) else {
            return;
        };
        (known.floor(), known.markers.clone())
    };
    let policy = policy(engine, group, Some(floor));
    for at in entries {
        let current = markers.leader_of(at.id.index) == Some(at.id.leader);
        if at.whole && current {
            // The answer is in the ledger.
            let _ = engine.load_entry(group, at.id);
        } else if !policy.keeps_whole(at.id.index) {
            for body in policy.surviving_bodies(at) {
                let _ = engine.load_body(group, at.id, body.ordinal);
            }
        }
    }
}

fn scrub_checkpoints(engine: &Engine, group: GroupId, pace: &dyn Fn(u64)) {
    let kept = {
        let state = engine.state();
        let known = state.groups.get(&group);
        known.map(|group| group.held()).unwrap_or_default()
    };
    for id in kept {
        match checkpoint::is_whole(engine.disk(), group, id, PIECE_BYTES, pace) {
            Ok(true) => {}
            Ok(false) => engine.drop_damaged(group, id),
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%group, %id, %error, "a checkpoint cannot be scrubbed now")
            }
        }
    }
}

/// The rounds of a segment, up to where they end.
struct Chain<'a> {
    file: &'a dyn DiskFile,
    tag: Tag,
    end: u64,
}

impl Chain<'_> {
    /// Where something is wrong, and what.
    fn wrong(&self, pace: &dyn Fn(u64)) -> io::Result<Vec<(u64, &'static str)>> {
        let mut wrong = Vec::new();
        let mut at = FIRST_ROUND;
        let mut lost = false;
        while at < self.end {
            let Some(round) = self.header(at)? else {
                if !std::mem::replace(&mut lost, true) {
                    wrong.push((at, "a round cannot be read"));
                }
                at += SECTOR;
                pace(SECTOR);
                continue;
            };
            lost = false;
            if let Some(found) = self.wrong_in(&round)? {
                wrong.push(found);
            }
            pace(round.end() - at);
            at = round.end();
        }
        Ok(wrong)
    }

    fn header(&self, at: u64) -> io::Result<Option<RoundHeader>> {
        let mut bytes = [0; ROUND_HEADER];
        read_up_to(self.file, &mut bytes, at)?;
        let header = RoundHeader::parse(&bytes, self.tag, at);
        Ok(header.filter(|round| round.end() <= self.end))
    }

    fn wrong_in(&self, round: &RoundHeader) -> io::Result<Option<(u64, &'static str)>> {
        let mut bytes = vec![0; (round.end() - round.offset) as usize];
        let got = read_up_to(self.file, &mut bytes, round.offset)?;
        bytes.truncate(got);
        let within = RoundHeader {
            offset: 0,
            ..*round
        };
        let bytes = Bytes::from(bytes);
        Ok(match scan::records(&bytes, self.tag, &within) {
            Err(at) => Some((round.offset + at, "a record cannot be read")),
            Ok(records) => records
                .iter()
                .find(|record| record.bodies.is_none())
                .map(|record| (round.offset + record.offset, "a body of a record is wrong")),
        })
    }
}
