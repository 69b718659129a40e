//! Reading entries and bodies: from the hot tail, or by one checked read from a segment.
//!
//! A reader looks up under the lock, clones the segment's `Arc`, and reads without the lock. The
//! clone keeps the file from being reused. What is read must name the group, index and leader that
//! were asked for, and every crc must be right; otherwise the answer is an error, never bytes, and
//! the ledger of damage hears of it.
//!
//! Whole copies and copies of single bodies complete each other: an entry is whole when its head is
//! right in one copy and each of its bodies in any.

use crate::damage::{Grade, Place, damaged};
use crate::disk::{DiskFile, read_exact_at, read_up_to};
use crate::engine::Engine;
use crate::error::ReadError;
use crate::footer::Footer;
use crate::record::{Kind, RecordView, Tag};
use crate::scan;
use crate::section::{EntryAt, Section};
use crate::segment::{FIRST_ROUND, Segment};
use crate::types::{Entry, GroupId, LogId};
use bytes::Bytes;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A copy of an entry, or of some of its bodies.
pub(crate) struct Copy {
    pub(crate) tag: Tag,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) at: EntryAt,
    /// The sealed segment it is in; holding it keeps the file from being reused.
    pub(crate) segment: Option<Arc<Segment>>,
}

impl Engine {
    /// Entries from `range` on, at least one if there is one, then as many as fit `max_bytes`.
    pub(crate) fn read_entries(
        &self,
        group: GroupId,
        range: Range<u64>,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        let mut index = {
            let state = self.state();
            let Some(known) = state.groups.get(&group) else {
                return Ok(entries);
            };
            range.start.max(known.markers.first_index())
        };
        while index < range.end {
            let Some(entry) = self.read_entry(group, index)? else {
                break;
            };
            bytes += entry.payload_bytes();
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry);
            index += 1;
        }
        Ok(entries)
    }

    /// One unpurged entry; none past the end of the log.
    fn read_entry(&self, group: GroupId, index: u64) -> Result<Option<Entry>, ReadError> {
        let id = {
            let state = self.state();
            let known = state.groups.get(&group);
            let Some(leader) = known.and_then(|group| group.markers.leader_of(index)) else {
                return Ok(None);
            };
            if let Some(entry) = state.cache.get_by(group, index, leader) {
                self.counters.cache_hits.add(1);
                return Ok(Some(entry.clone()));
            }
            LogId { leader, index }
        };
        self.counters.cache_misses.add(1);
        self.load_entry(group, id)
    }

    /// One unpurged entry, from the disk. None if it was purged or truncated meanwhile: then it is
    /// rightly missing.
    pub(crate) fn load_entry(&self, group: GroupId, id: LogId) -> Result<Option<Entry>, ReadError> {
        let copies = self.copies(group, id)?;
        let (place, error) = match self.assemble(group, id, &copies) {
            Ok(entry) => return Ok(Some(entry)),
            Err(found) => found,
        };
        let leader = {
            let state = self.state();
            let known = state.groups.get(&group);
            known.and_then(|group| group.markers.leader_of(id.index))
        };
        if leader != Some(id.leader) {
            return Ok(None);
        }
        match &error {
            ReadError::Bodies { ordinals, .. } => {
                let names = ordinals.iter().map(|ordinal| (id, *ordinal));
                self.damage.bodies(group, place, names);
            }
            ReadError::Damaged { what, .. } => self.damage.lost(group, Grade::Log, place, what),
            // It may pass; what does not is met again.
            ReadError::Gone { .. } | ReadError::Io(_) => {}
        }
        Err(error)
    }

    /// Puts an entry together from its copies; what is wrong with it, and where, if that fails.
    fn assemble(
        &self,
        group: GroupId,
        id: LogId,
        copies: &[Copy],
    ) -> Result<Entry, (Place, ReadError)> {
        let missing = damaged(group, id.index, 0, 0, "no segment holds the entry");
        let mut worst = (Place::Segment(0, 0), missing);
        for copy in copies.iter().filter(|copy| copy.at.whole) {
            let place = Place::Segment(copy.tag.epoch, copy.at.offset);
            let (head, found) = match read_parts(copy, group) {
                Ok(Some(parts)) => parts,
                Ok(None) => {
                    let (epoch, offset) = (copy.tag.epoch, copy.at.offset);
                    worst = (
                        place,
                        damaged(group, id.index, epoch, offset, "bad checksum"),
                    );
                    continue;
                }
                Err(error) => {
                    worst = (place, error.into());
                    continue;
                }
            };
            let ordinals = 0u32..;
            let bodies: Vec<Option<Bytes>> = ordinals
                .zip(found)
                .map(|(ordinal, body)| body.or_else(|| body_of(copies, ordinal).ok()))
                .collect();
            let lacks = |body: &Option<Bytes>| body.is_none();
            let ordinals: Vec<u32> = (0u32..)
                .zip(&bodies)
                .filter_map(|(ordinal, body)| lacks(body).then_some(ordinal))
                .collect();
            if ordinals.is_empty() {
                let bodies = bodies.into_iter().flatten().collect();
                return Ok(Entry { id, head, bodies });
            }
            let entry = id;
            return Err((
                place,
                ReadError::Bodies {
                    group,
                    entry,
                    ordinals,
                },
            ));
        }
        Err(worst)
    }

    /// One body, wherever a copy of it lies.
    pub(crate) fn read_body(
        &self,
        group: GroupId,
        id: LogId,
        ordinal: u32,
    ) -> Result<Bytes, ReadError> {
        let gone = ReadError::Gone {
            group,
            entry: id,
            ordinal,
        };
        let in_order = {
            let mut state = self.state();
            if !state.groups.contains_key(&group) {
                // A replica that was dropped may have left it.
                return Err(gone);
            }
            if let Some(entry) = state.in_memory(group, id) {
                self.counters.cache_hits.add(1);
                return entry.bodies.get(ordinal as usize).cloned().ok_or(gone);
            }
            state.ahead.miss(group, id.index)
        };
        self.counters.cache_misses.add(1);
        let copies = self.copies(group, id)?;
        if in_order {
            for copy in copies.iter().filter(|copy| copy.at.body(ordinal).is_some()) {
                if let Ok(Some(body)) = self.read_ahead(group, copy, ordinal) {
                    return Ok(body);
                }
            }
        }
        self.body_from(group, id, ordinal, &copies)
    }

    /// One body, from the disk.
    pub(crate) fn load_body(
        &self,
        group: GroupId,
        id: LogId,
        ordinal: u32,
    ) -> Result<Bytes, ReadError> {
        let copies = self.copies(group, id)?;
        self.body_from(group, id, ordinal, &copies)
    }

    fn body_from(
        &self,
        group: GroupId,
        id: LogId,
        ordinal: u32,
        copies: &[Copy],
    ) -> Result<Bytes, ReadError> {
        let index = id.index;
        let wrong = match body_of(copies, ordinal) {
            Ok(body) => return Ok(body),
            Err(wrong) => wrong,
        };
        // Where a record could not be read, nobody knows what it was: missing may mean damaged.
        let holes = || {
            let state = self.state();
            let mut sealed = state.sealed.values();
            sealed.find(|s| s.footer.damaged).map(|s| s.epoch())
        };
        let (epoch, offset, what) = match wrong {
            Some(wrong) => wrong,
            None => match holes() {
                Some(epoch) => (epoch, 0, "not found, and this segment is damaged"),
                None => {
                    return Err(ReadError::Gone {
                        group,
                        entry: id,
                        ordinal,
                    });
                }
            },
        };
        let place = Place::Segment(epoch, offset);
        self.damage.bodies(group, place, [(id, ordinal)]);
        Err(damaged(group, index, epoch, offset, what))
    }

    /// Every copy of an entry that the footers name, the newest first.
    pub(crate) fn copies(&self, group: GroupId, id: LogId) -> Result<Vec<Copy>, ReadError> {
        let (mut copies, candidates) = {
            let state = self.state();
            let active = state
                .active
                .sections
                .get(&group)
                .into_iter()
                .flat_map(|entries| {
                    let from = entries.partition_point(|entry| entry.id.index < id.index);
                    entries[from..]
                        .iter()
                        .take_while(|entry| entry.id.index == id.index)
                });
            let copies: Vec<Copy> = active
                .filter(|entry| entry.id == id)
                .map(|entry| Copy {
                    tag: state.active.tag,
                    file: state.active.file.clone(),
                    at: entry.clone(),
                    segment: None,
                })
                .collect();
            let within = |segment: &&Arc<Segment>| {
                let span = segment.spans.get(&group);
                span.is_some_and(|span| span.low <= id.index && id.index <= span.high)
            };
            let candidates: Vec<Arc<Segment>> = state
                .sealed
                .values()
                .rev()
                .filter(within)
                .cloned()
                .collect();
            (copies, candidates)
        };
        for segment in candidates {
            let Some(found) = self.find(&segment, group, id.index)? else {
                // The segment was freed meanwhile; what it held has moved. Look again.
                return self.copies(group, id);
            };
            copies.extend(found.into_iter().filter(|at| at.id == id).map(|at| Copy {
                tag: segment.tag,
                file: segment.file.clone(),
                at,
                segment: Some(segment.clone()),
            }));
        }
        Ok(copies)
    }

    fn find(
        &self,
        segment: &Arc<Segment>,
        group: GroupId,
        index: u64,
    ) -> Result<Option<Vec<EntryAt>>, ReadError> {
        let Some(section) = self.section(segment, group)? else {
            return Ok(None);
        };
        let found = section.find(index);
        found.map(Some).ok_or_else(|| {
            damaged(
                group,
                index,
                segment.epoch(),
                0,
                "a footer section makes no sense",
            )
        })
    }

    /// A group's section of a segment; none if the segment is no longer part of the log.
    pub(crate) fn section(
        &self,
        segment: &Arc<Segment>,
        group: GroupId,
    ) -> io::Result<Option<Arc<Section>>> {
        let key = (segment.epoch(), group);
        if let Some(section) = self.sections.get(key) {
            return Ok(Some(section));
        }
        match segment.load_section(self.disk(), group) {
            Ok(Some(section)) => {
                let section = Arc::new(section);
                self.sections.put(key, section.clone());
                return Ok(Some(section));
            }
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let current = self.state().sealed.get(&segment.epoch()).cloned();
        match current {
            None => Ok(None),
            // Somebody else has rebuilt it in the meantime.
            Some(current) if !Arc::ptr_eq(&current, segment) => self.section(&current, group),
            Some(current) => {
                let rebuilt = self.rebuild_footer(&current)?;
                if !rebuilt.spans.contains_key(&group) {
                    return Ok(None);
                }
                Ok(rebuilt.load_section(self.disk(), group)?.map(Arc::new))
            }
        }
    }

    /// Makes a lost or damaged footer anew by reading its segment.
    pub(crate) fn rebuild_footer(&self, segment: &Arc<Segment>) -> io::Result<Arc<Segment>> {
        let place = Place::Footer(segment.epoch());
        self.damage.derived(place, "the footer is wrong");
        let rebuilt = rebuild(segment)?;
        self.damage.made_anew(1);
        let mut state = self.state();
        if !state.sealed.contains_key(&segment.epoch()) {
            return Ok(rebuilt.into());
        }
        state.seal(rebuilt);
        let rebuilt = state.sealed[&segment.epoch()].clone();
        drop(state);
        self.reclaim_signal.raise();
        Ok(rebuilt)
    }
}

fn rebuild(segment: &Segment) -> io::Result<Segment> {
    let bytes = Bytes::from(read_exact_at(&*segment.file, segment.end as usize, 0)?);
    let content = scan::content(&bytes, segment.tag, FIRST_ROUND, Some(segment.end));
    let footer = Bytes::from(Footer::encode(
        segment.tag,
        segment.end,
        content.damaged,
        &content.replaces,
        &content.sections,
    ));
    let parsed = Footer::parse(&footer).expect("a footer that was just encoded parses");
    Ok(Segment::new(
        segment.heat,
        segment.file.clone(),
        parsed,
        Some(footer),
    ))
}

/// Where a body is wrong in a segment, and what is wrong with it.
type Wrong = (u64, u64, &'static str);

/// A body out of the first copy in which it is right; else where it is wrong, if it is anywhere.
fn body_of(copies: &[Copy], ordinal: u32) -> Result<Bytes, Option<Wrong>> {
    let mut wrong = None;
    for copy in copies {
        let Some((offset, line)) = copy.at.body(ordinal) else {
            continue;
        };
        // A disk that cannot read a sector has lost it as well as one that reads something else.
        let what = match read_exact_at(&*copy.file, line.length as usize, offset) {
            Ok(bytes) if crc32c::crc32c(&bytes) == line.crc => return Ok(Bytes::from(bytes)),
            Ok(_) => "bad body",
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => "the file is cut short",
            Err(_) => "the disk cannot read it",
        };
        // The place is that of the record, whoever finds it.
        wrong = Some((copy.tag.epoch, copy.at.offset, what));
    }
    Err(wrong)
}

/// The head of an entry, and those of its bodies that are right.
type Parts = (Bytes, Vec<Option<Bytes>>);

/// Reads a whole copy of an entry. `Ok(None)` means that its record is damaged, bodies aside.
fn read_parts(copy: &Copy, group: GroupId) -> io::Result<Option<Parts>> {
    let at = &copy.at;
    let mut bytes = vec![0; at.record_len() as usize];
    let got = read_up_to(&*copy.file, &mut bytes, at.offset)?;
    bytes.truncate(got);
    let bytes = Bytes::from(bytes);
    let view = RecordView::parse(&bytes, copy.tag);
    let view = view.filter(|it| it.kind == Kind::Entry && it.group == group && it.id == at.id);
    Ok(view.map(|view| {
        let head = bytes.slice(view.bodies_at - view.head.len()..view.bodies_at);
        (head, view.bodies_found(&bytes))
    }))
}

/// A whole entry out of its record's bytes; none if they are damaged, or another's.
pub(crate) fn parse_entry(bytes: &Bytes, tag: Tag, group: GroupId, at: &EntryAt) -> Option<Entry> {
    let view = RecordView::parse(bytes, tag)?;
    if view.kind != Kind::Entry || view.group != group || view.id != at.id {
        return None;
    }
    let head = bytes.slice(view.bodies_at - view.head.len()..view.bodies_at);
    Some(Entry {
        id: view.id,
        head,
        bodies: view.checked_bodies(bytes)?,
    })
}
