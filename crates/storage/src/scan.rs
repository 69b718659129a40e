//! Reads the rounds of a segment and tells a torn write from damage.
//!
//! Pure: bytes in, findings out. Framing is robust because rounds start on sectors: after a bad
//! header the next good one is looked for, sector by sector.

use crate::cold::replaced_epochs;
use crate::damage::BodyName;
use crate::footer::Sections;
use crate::record::{Kind, RecordView, Tag};
use crate::round::{ROUND_HEADER, RoundHeader, SECTOR};
use crate::section::{BodyAt, EntryAt};
use bytes::Bytes;

/// The rounds found in a stretch of a segment.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) found: Vec<RoundHeader>,
    /// Stretches between rounds where no round header could be read.
    pub(crate) gaps: Vec<(u64, u64)>,
}

impl Rounds {
    /// Finds the rounds that start in `from..end`.
    pub(crate) fn find(bytes: &[u8], tag: Tag, from: u64, end: u64) -> Rounds {
        let mut rounds = Rounds::default();
        let mut at = from;
        let mut lost: Option<u64> = None;
        let end = end.min(bytes.len() as u64);
        while at < end {
            match RoundHeader::parse(&bytes[at as usize..], tag, at) {
                Some(header) => {
                    if let Some(since) = lost.take() {
                        rounds.gaps.push((since, at));
                    }
                    rounds.found.push(header);
                    at = header.end();
                }
                None => {
                    lost.get_or_insert(at);
                    at += SECTOR;
                }
            }
        }
        rounds
    }

    /// Everything below this offset was once known to be durable.
    pub(crate) fn last_mark(&self) -> u64 {
        self.found
            .iter()
            .map(|round| round.durable_before)
            .max()
            .unwrap_or(0)
    }

    /// The first gap that begins below the mark.
    pub(crate) fn damage_below(&self, mark: u64) -> Option<u64> {
        self.gaps
            .iter()
            .map(|(from, _)| *from)
            .find(|from| *from < mark)
    }
}

/// A record in a segment's bytes.
pub(crate) struct Found<'a> {
    pub(crate) offset: u64,
    pub(crate) view: RecordView<'a>,
    /// All bodies are there and right.
    pub(crate) bodies: Option<Vec<Bytes>>,
}

impl Found<'_> {
    /// The names of the bodies that are not right.
    pub(crate) fn damaged_bodies(&self, bytes: &Bytes) -> Vec<BodyName> {
        let from = self.offset as usize;
        let record = bytes.slice(from..from + self.view.length);
        let found = self.view.bodies_found(&record);
        let ordinals = self.view.ordinals().into_iter().zip(found);
        ordinals
            .filter(|(_, body)| body.is_none())
            .map(|(ordinal, _)| (self.view.id, ordinal))
            .collect()
    }

    /// The record's line in a footer; none for a marker.
    pub(crate) fn entry_at(&self) -> Option<EntryAt> {
        let whole = match self.view.kind {
            Kind::Entry => true,
            Kind::Cold => false,
            _ => return None,
        };
        let lines = self.view.ordinals().into_iter().zip(&self.view.bodies);
        Some(EntryAt {
            whole,
            id: self.view.id,
            offset: self.offset,
            head_len: self.view.head.len() as u32,
            bodies: lines
                .map(|(ordinal, line)| BodyAt {
                    ordinal,
                    line: *line,
                })
                .collect(),
        })
    }
}

/// The records of a round. `Err` holds the offset of the first that cannot be read.
pub(crate) fn records<'a>(
    bytes: &'a Bytes,
    tag: Tag,
    round: &RoundHeader,
) -> Result<Vec<Found<'a>>, u64> {
    let mut at = round.offset + ROUND_HEADER as u64;
    let end = at + u64::from(round.payload);
    let mut found = Vec::with_capacity(round.records.min(4096) as usize);
    for _ in 0..round.records {
        let rest = bytes.get(at as usize..end as usize).ok_or(at)?;
        let view = RecordView::parse(rest, tag).ok_or(at)?;
        let length = view.length as u64;
        if at + length > end {
            return Err(at);
        }
        let bodies = view.checked_bodies(&bytes.slice(at as usize..(at + length) as usize));
        found.push(Found {
            offset: at,
            view,
            bodies,
        });
        at += length;
    }
    Ok(found)
}

/// What a sealed segment holds, found by reading all of it.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) sections: Sections,
    pub(crate) replaces: Vec<u64>,
    /// Where the records end.
    pub(crate) end: u64,
    /// Some record or round could not be read.
    pub(crate) damaged: bool,
}

/// Reads a sealed segment whose footer is lost. `end` is where its records end, if that is known.
pub(crate) fn content(bytes: &Bytes, tag: Tag, from: u64, end: Option<u64>) -> Content {
    let rounds = Rounds::find(bytes, tag, from, end.unwrap_or(bytes.len() as u64));
    let last = rounds.found.last().map_or(from, RoundHeader::end);
    let mut content = Content {
        end: end.unwrap_or(last),
        // Rounds may be missing in a gap or, when the end is known, at the end.
        damaged: !rounds.gaps.is_empty() || end.is_some_and(|end| last < end),
        ..Content::default()
    };
    for round in &rounds.found {
        match records(bytes, tag, round) {
            Ok(found) => found.iter().for_each(|record| content.add(record)),
            Err(_) => content.damaged = true,
        }
    }
    for entries in content.sections.values_mut() {
        entries.sort_by_key(|entry| entry.id.index);
    }
    content
}

impl Content {
    fn add(&mut self, record: &Found<'_>) {
        if record.view.kind == Kind::Replaces {
            self.replaces = replaced_epochs(&record.view);
        }
        if record.view.kind == Kind::Forget {
            self.sections.remove(&record.view.group);
        }
        if let Some(entry) = record.entry_at() {
            // A body that is wrong is found by whoever reads it: its line has its checksum.
            // Entries that were truncated stay listed: their leader tells them apart.
            self.sections
                .entry(record.view.group)
                .or_default()
                .push(entry);
        }
    }
}
