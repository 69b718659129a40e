//! Writes a cold segment: bodies and entries that outlive the segment they were written in.
//!
//! A cold segment is written whole under its spare's name, with its footer, and then renamed, so
//! that it is either there and complete or not there. Its first record lists the segments that it
//! replaces: after a crash between the rename and their removal, recovery removes them.

use crate::codec::{Reader, put_u32, put_u64};
use crate::disk::write_at;
use crate::files::{Claim, Files, Spare};
use crate::footer::{Footer, Sections};
use crate::record::{Kind, Record, RecordView, Tag};
use crate::round::RoundBuilder;
use crate::section::{BodyAt, EntryAt};
use crate::segment::{FIRST_ROUND, Heat, Segment, SegmentHeader};
use crate::types::{Entry, GroupId, LogId};
use bytes::Bytes;
use std::io;

/// Rounds of a cold segment are written when they have grown to this many bytes.
const ROUND_BYTES: u64 = 1 << 20;

/// A cold segment being written.
pub(crate) struct ColdWriter {
    spare: Spare,
    tag: Tag,
    round: RoundBuilder,
    sections: Sections,
    replaces: Vec<u64>,
    /// Bytes that the segment may have.
    limit: u64,
}

impl ColdWriter {
    /// Starts a segment of this life. `None` means that the disk is full.
    pub(crate) fn start(
        files: &Files,
        tag: Tag,
        replaces: Vec<u64>,
    ) -> io::Result<Option<ColdWriter>> {
        let Some(spare) = files.take(Claim::Compactor)? else {
            return Ok(None);
        };
        let mut round = RoundBuilder::new(tag, FIRST_ROUND);
        let head = encode_replaces(&replaces);
        round.push(&Record::marker(
            Kind::Replaces,
            GroupId(0),
            LogId::default(),
            &head,
        ));
        let sections = Sections::new();
        Ok(Some(ColdWriter {
            limit: files.segment_bytes,
            spare,
            tag,
            round,
            sections,
            replaces,
        }))
    }

    /// Whether a record of so many bytes still fits.
    pub(crate) fn fits(&self, record_len: u64) -> bool {
        // The record may have to start a round of its own: a header and two paddings.
        self.round.end() + record_len + 2048 <= self.limit
    }

    /// Adds a whole entry.
    pub(crate) fn push_entry(&mut self, group: GroupId, entry: &Entry) -> io::Result<u64> {
        let record = Record {
            kind: Kind::Entry,
            group,
            id: entry.id,
            head: &entry.head,
            bodies: &entry.bodies,
        };
        let ordinals: Vec<u32> = (0..entry.bodies.len() as u32).collect();
        self.push(&record, true, &ordinals)
    }

    /// Adds some bodies of an entry.
    pub(crate) fn push_bodies(
        &mut self,
        group: GroupId,
        id: LogId,
        bodies: &[(u32, Bytes)],
    ) -> io::Result<u64> {
        let mut head = Vec::with_capacity(bodies.len() * 4);
        bodies
            .iter()
            .for_each(|(ordinal, _)| put_u32(&mut head, *ordinal));
        let ordinals: Vec<u32> = bodies.iter().map(|(ordinal, _)| *ordinal).collect();
        let bodies: Vec<Bytes> = bodies.iter().map(|(_, body)| body.clone()).collect();
        let record = Record {
            kind: Kind::Cold,
            group,
            id,
            head: &head,
            bodies: &bodies,
        };
        self.push(&record, false, &ordinals)
    }

    fn push(&mut self, record: &Record<'_>, whole: bool, ordinals: &[u32]) -> io::Result<u64> {
        assert!(
            self.fits(record.encoded_len()),
            "the caller asked whether the record fits"
        );
        let placed = self.round.push(record);
        let bodies = ordinals.iter().zip(placed.bodies);
        self.sections
            .entry(record.group)
            .or_default()
            .push(EntryAt {
                whole,
                id: record.id,
                offset: placed.offset,
                head_len: record.head.len() as u32,
                bodies: bodies
                    .map(|(ordinal, line)| BodyAt {
                        ordinal: *ordinal,
                        line,
                    })
                    .collect(),
            });
        if self.round.payload() >= ROUND_BYTES {
            self.flush()?;
        }
        Ok(record.encoded_len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let next = RoundBuilder::new(self.tag, self.round.end());
        let round = std::mem::replace(&mut self.round, next);
        // Nothing is durable before the whole segment is: no mark.
        round.finish(0).write(&*self.spare.file)
    }

    /// Gives the spare back; nothing was written as far as the log knows.
    pub(crate) fn abandon(self, files: &Files) {
        files.give(self.spare);
    }

    /// Completes the segment and makes it durable under its name.
    pub(crate) fn finish(mut self, files: &Files) -> io::Result<Segment> {
        if !self.round.is_empty() {
            self.flush()?;
        }
        // Where the round after the last one would start: there is none.
        let end = self.round.start();
        let header = SegmentHeader {
            tag: self.tag,
            previous: None,
        };
        write_at(&*self.spare.file, &header.encode(), 0)?;
        if end < self.limit / 4 * 3 {
            self.spare.file.truncate(end)?;
        }
        for entries in self.sections.values_mut() {
            entries.sort_by_key(|entry| entry.id.index);
        }
        let bytes = Bytes::from(Footer::encode(
            self.tag,
            end,
            false,
            &self.replaces,
            &self.sections,
        ));
        files.write_footer(self.tag.epoch, &bytes)?;
        files.commit(&self.spare, self.tag, Heat::Cold)?;
        let footer = Footer::parse(&bytes).expect("a footer that was just encoded parses");
        Ok(Segment::new(Heat::Cold, self.spare.file, footer, None))
    }
}

fn encode_replaces(epochs: &[u64]) -> Vec<u8> {
    let mut head = Vec::with_capacity(epochs.len() * 8);
    epochs.iter().for_each(|epoch| put_u64(&mut head, *epoch));
    head
}

/// The epochs in the first record of a cold segment.
pub(crate) fn replaced_epochs(record: &RecordView<'_>) -> Vec<u64> {
    let mut reader = Reader::new(record.head);
    std::iter::from_fn(|| reader.u64()).collect()
}
