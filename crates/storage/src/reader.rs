//! Reading entries and bodies: from the hot tail, or by one checked read from a segment.
//!
//! A reader looks up under the lock, clones the segment's `Arc`, and reads without the lock. The
//! clone keeps the file from being reused. What is read must name the group, index and leader that
//! were asked for, and every crc must be right; otherwise the answer is `Damaged`, never bytes.

use crate::disk::{DiskFile, read_exact_at};
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
        let copies = self.copies(group, id)?;
        let mut worst = damaged(group, index, 0, 0, "no segment holds the entry");
        for copy in copies.iter().filter(|copy| copy.at.whole) {
            match read_entry_at(&*copy.file, copy.tag, group, &copy.at) {
                Ok(Some(entry)) => return Ok(Some(entry)),
                Ok(None) => {
                    let (epoch, offset) = (copy.tag.epoch, copy.at.offset);
                    worst = self.found_damage(damaged(group, index, epoch, offset, "bad checksum"));
                }
                Err(error) => worst = error.into(),
            }
        }
        // Purged or truncated while we looked: then it is rightly missing.
        let state = self.state();
        let known = state.groups.get(&group);
        let leader = known.and_then(|group| group.markers.leader_of(index));
        if leader == Some(id.leader) {
            Err(worst)
        } else {
            Ok(None)
        }
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
        let mut worst = gone;
        for copy in self.copies(group, id)? {
            let Some((offset, line)) = copy.at.body(ordinal) else {
                continue;
            };
            if in_order && let Some(body) = self.read_ahead(group, &copy, ordinal)? {
                return Ok(body);
            }
            match read_exact_at(&*copy.file, line.length as usize, offset) {
                Ok(bytes) if crc32c::crc32c(&bytes) == line.crc => return Ok(Bytes::from(bytes)),
                Ok(_) => {
                    let epoch = copy.tag.epoch;
                    worst = self.found_damage(damaged(group, id.index, epoch, offset, "bad body"));
                }
                Err(error) => worst = error.into(),
            }
        }
        // Where a record could not be read, nobody knows what it was: missing may mean damaged.
        let damage = self
            .state()
            .sealed
            .values()
            .find(|s| s.footer.damaged)
            .map(|s| s.epoch());
        match (worst, damage) {
            (ReadError::Gone { .. }, Some(epoch)) => Err(damaged(
                group,
                id.index,
                epoch,
                0,
                "not found, and this segment is damaged",
            )),
            (worst, _) => Err(worst),
        }
    }

    fn found_damage(&self, damage: ReadError) -> ReadError {
        self.counters.damaged.add(1);
        tracing::error!(%damage, "damaged bytes found by a read");
        damage
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
    fn rebuild_footer(&self, segment: &Arc<Segment>) -> io::Result<Arc<Segment>> {
        self.counters.damaged.add(1);
        tracing::warn!(segment = segment.epoch(), "footer damaged, rebuilding it");
        let rebuilt = rebuild(segment)?;
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

/// Reads a whole entry. `Ok(None)` means that it is damaged.
pub(crate) fn read_entry_at(
    file: &dyn DiskFile,
    tag: Tag,
    group: GroupId,
    at: &EntryAt,
) -> io::Result<Option<Entry>> {
    let bytes = Bytes::from(read_exact_at(file, at.record_len() as usize, at.offset)?);
    Ok(parse_entry(&bytes, tag, group, at))
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

fn damaged(group: GroupId, index: u64, segment: u64, offset: u64, what: &'static str) -> ReadError {
    ReadError::Damaged {
        group,
        index,
        segment,
        offset,
        what,
    }
}
