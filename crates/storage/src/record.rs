//! Rounds and records: the form of the log's bytes on disk, version 1.
//!
//! ```text
//! round   magic 4 | crc 4 | epoch 8 | salt 8 | offset 8 | durable before 8 | payload 4 | records 4
//!         | zero 16 | records… | zeros up to the next sector
//! record  crc 4 | length 4 | life 8 | group 8 | index 8 | term 8 | node 8 | kind 1 | version 1
//!         | zero 2 | head length 4 | bodies 4 | (length 4, crc 4) per body | head | bodies…
//! ```
//!
//! A round is what one fdatasync covers. It starts on a sector, so a torn write never touches what
//! was durable, and a reader that lost its way finds the next round by looking at sectors only. Its
//! header names the offset known durable before it: the log's **mark**. A bad byte below a mark is
//! damage, above the last mark it is a torn write.
//!
//! A record's crc covers everything but the bodies; each body has its own in the table, so one body
//! is read and checked alone. `life` is the segment's epoch mixed with its random salt: bytes that a
//! recycled segment still holds from an earlier life never parse.

use crate::codec::{Reader, put_u32, put_u64};
use crate::disk::{DiskFile, write_all_at};
use crate::types::{GroupId, LeaderId, LogId};
use bytes::Bytes;
use std::io::{self, IoSlice};

/// Rounds start at multiples of this: what a power cut keeps or loses as a whole.
pub(crate) const SECTOR: u64 = 512;
/// Bytes of a round's header.
pub(crate) const ROUND_HEADER: usize = 64;
/// Bytes of a record before its table.
pub(crate) const RECORD_HEADER: usize = 60;
/// Bytes of one body's line in the table.
pub(crate) const TABLE_LINE: usize = 8;

const ROUND_MAGIC: u32 = 0x524b_5948;
const RECORD_VERSION: u8 = 1;
/// Shorter bodies are copied into the round's buffer; a slice of their own would cost more.
const COPY_BELOW: usize = 512;

/// Which life of a segment file bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The segment's number, never used twice while a file of it exists.
    pub(crate) epoch: u64,
    /// Drawn at random for each life.
    pub(crate) salt: u64,
}

impl Tag {
    fn life(self) -> u64 {
        self.epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.salt
    }
}

/// The start of the next sector.
pub(crate) fn sector_up(offset: u64) -> u64 {
    offset.next_multiple_of(SECTOR)
}

/// What a record is. The numbers are on disk and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A log entry, whole.
    Entry = 1,
    /// A vote; the head is the vote.
    Vote = 2,
    /// Entries after the named one are void; an empty head means all of them.
    Truncate = 3,
    /// Entries up to the named one are purged.
    Purge = 4,
    /// The named entry is committed; an empty head means none.
    Committed = 5,
    /// Some bodies of an entry; the head is their ordinals.
    Cold = 6,
    /// A group's markers as of here; at the head of every hot segment.
    State = 7,
    /// The group is dropped.
    Forget = 8,
    /// At the head of a cold segment: the epochs of the segments that it replaces.
    Replaces = 9,
}

impl Kind {
    fn parse(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Entry,
            2 => Kind::Vote,
            3 => Kind::Truncate,
            4 => Kind::Purge,
            5 => Kind::Committed,
            6 => Kind::Cold,
            7 => Kind::State,
            8 => Kind::Forget,
            9 => Kind::Replaces,
            _ => return None,
        })
    }
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) group: GroupId,
    pub(crate) id: LogId,
    pub(crate) head: &'a [u8],
    pub(crate) bodies: &'a [Bytes],
}

impl<'a> Record<'a> {
    /// A record without bodies.
    pub(crate) fn marker(kind: Kind, group: GroupId, id: LogId, head: &'a [u8]) -> Record<'a> {
        Record {
            kind,
            group,
            id,
            head,
            bodies: &[],
        }
    }

    /// Bytes on disk.
    pub(crate) fn encoded_len(&self) -> u64 {
        let bodies: usize = self.bodies.iter().map(|body| body.len() + TABLE_LINE).sum();
        (RECORD_HEADER + self.head.len() + bodies) as u64
    }
}

/// Where a body is within its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyLine {
    pub(crate) length: u32,
    pub(crate) crc: u32,
}

/// A record that was read and whose crc was right. The bodies are not checked yet.
#[derive(Clone, Debug)]
pub(crate) struct RecordView<'a> {
    pub(crate) kind: Kind,
    pub(crate) group: GroupId,
    pub(crate) id: LogId,
    pub(crate) head: &'a [u8],
    pub(crate) bodies: Vec<BodyLine>,
    /// Bytes on disk, bodies included.
    pub(crate) length: usize,
    /// Where the bodies begin, from the start of the record.
    pub(crate) bodies_at: usize,
}

impl<'a> RecordView<'a> {
    /// Parses the record at the start of `bytes`; the bodies need not be there.
    pub(crate) fn parse(bytes: &'a [u8], tag: Tag) -> Option<RecordView<'a>> {
        let mut reader = Reader::new(bytes);
        let crc = reader.u32()?;
        let length = reader.u32()? as usize;
        if reader.u64()? != tag.life() {
            return None;
        }
        let group = GroupId(reader.u64()?);
        let index = reader.u64()?;
        let leader = LeaderId {
            term: reader.u64()?,
            node: reader.u64()?,
        };
        let kind = Kind::parse(reader.u8()?)?;
        if reader.u8()? != RECORD_VERSION || reader.bytes(2)? != [0, 0] {
            return None;
        }
        let head_len = reader.u32()? as usize;
        let count = reader.u32()? as usize;
        let table = reader.bytes(count.checked_mul(TABLE_LINE)?)?;
        let head = reader.bytes(head_len)?;
        let bodies_at = RECORD_HEADER + table.len() + head_len;
        if crc32c::crc32c(&bytes[4..bodies_at]) != crc {
            return None;
        }
        let mut lines = Reader::new(table);
        let mut bodies = Vec::with_capacity(count);
        while let (Some(length), Some(crc)) = (lines.u32(), lines.u32()) {
            bodies.push(BodyLine { length, crc });
        }
        let total: u64 = bodies.iter().map(|line| u64::from(line.length)).sum();
        (bodies_at as u64 + total == length as u64).then_some(RecordView {
            kind,
            group,
            id: LogId { leader, index },
            head,
            bodies,
            length,
            bodies_at,
        })
    }

    /// The ordinals of the bodies: those that the head of a cold record lists, or simply all.
    pub(crate) fn ordinals(&self) -> Vec<u32> {
        if self.kind != Kind::Cold {
            return (0..self.bodies.len() as u32).collect();
        }
        let mut reader = Reader::new(self.head);
        std::iter::from_fn(|| reader.u32())
            .take(self.bodies.len())
            .collect()
    }

    /// The bodies out of the record's bytes; none if they are cut short or one is damaged.
    pub(crate) fn checked_bodies(&self, record: &Bytes) -> Option<Vec<Bytes>> {
        if record.len() < self.length {
            return None;
        }
        let mut at = self.bodies_at;
        let mut bodies = Vec::with_capacity(self.bodies.len());
        for line in &self.bodies {
            let body = record.slice(at..at + line.length as usize);
            if crc32c::crc32c(&body) != line.crc {
                return None;
            }
            at += body.len();
            bodies.push(body);
        }
        Some(bodies)
    }
}

/// The header of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundHeader {
    /// Where the round starts in its segment.
    pub(crate) offset: u64,
    /// Everything below this offset was durable before the round was written.
    pub(crate) durable_before: u64,
    /// Bytes of records.
    pub(crate) payload: u32,
    /// How many records.
    pub(crate) records: u32,
}

impl RoundHeader {
    /// Where the next round starts.
    pub(crate) fn end(&self) -> u64 {
        sector_up(self.offset + ROUND_HEADER as u64 + u64::from(self.payload))
    }

    fn encode(&self, tag: Tag) -> [u8; ROUND_HEADER] {
        let mut out = Vec::with_capacity(ROUND_HEADER);
        put_u32(&mut out, ROUND_MAGIC);
        put_u32(&mut out, 0);
        for field in [tag.epoch, tag.salt, self.offset, self.durable_before] {
            put_u64(&mut out, field);
        }
        put_u32(&mut out, self.payload);
        put_u32(&mut out, self.records);
        let mut bytes = [0; ROUND_HEADER];
        bytes[..out.len()].copy_from_slice(&out);
        let crc = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the header of the round that starts at `offset`.
    pub(crate) fn parse(bytes: &[u8], tag: Tag, offset: u64) -> Option<RoundHeader> {
        let bytes = bytes.get(..ROUND_HEADER)?;
        let mut reader = Reader::new(bytes);
        if reader.u32()? != ROUND_MAGIC || reader.u32()? != crc32c::crc32c(&bytes[8..]) {
            return None;
        }
        if reader.u64()? != tag.epoch || reader.u64()? != tag.salt || reader.u64()? != offset {
            return None;
        }
        Some(RoundHeader {
            offset,
            durable_before: reader.u64()?,
            payload: reader.u32()?,
            records: reader.u32()?,
        })
    }
}

enum Piece {
    /// A range of the buffer.
    Buffer(usize, usize),
    Body(Bytes),
}

/// Where a record was placed in its segment, with the crcs that the footer keeps.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) offset: u64,
    pub(crate) bodies: Vec<BodyLine>,
}

/// A round being put together. Long bodies are not copied.
pub(crate) struct RoundBuilder {
    tag: Tag,
    offset: u64,
    buffer: Vec<u8>,
    pieces: Vec<Piece>,
    /// Bytes of records so far.
    payload: u64,
    records: u32,
}

impl RoundBuilder {
    pub(crate) fn new(tag: Tag, offset: u64) -> RoundBuilder {
        assert!(offset.is_multiple_of(SECTOR), "rounds start on sectors");
        RoundBuilder {
            tag,
            offset,
            buffer: vec![0; ROUND_HEADER],
            pieces: vec![Piece::Buffer(0, ROUND_HEADER)],
            payload: 0,
            records: 0,
        }
    }

    pub(crate) fn payload(&self) -> u64 {
        self.payload
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Where the next round would start if the round ended here.
    pub(crate) fn end(&self) -> u64 {
        sector_up(self.offset + ROUND_HEADER as u64 + self.payload)
    }

    pub(crate) fn push(&mut self, record: &Record<'_>) -> Placed {
        let offset = self.offset + ROUND_HEADER as u64 + self.payload;
        let length = record.encoded_len();
        let start = self.buffer.len();
        let out = &mut self.buffer;
        put_u32(out, 0);
        put_u32(
            out,
            u32::try_from(length).expect("a record fits its segment, at most 1 GiB"),
        );
        for field in [
            self.tag.life(),
            record.group.0,
            record.id.index,
            record.id.leader.term,
            record.id.leader.node,
        ] {
            put_u64(out, field);
        }
        out.extend_from_slice(&[record.kind as u8, RECORD_VERSION, 0, 0]);
        put_u32(out, record.head.len() as u32);
        put_u32(out, record.bodies.len() as u32);
        let mut lines = Vec::with_capacity(record.bodies.len());
        for body in record.bodies {
            let line = BodyLine {
                length: body.len() as u32,
                crc: crc32c::crc32c(body),
            };
            put_u32(out, line.length);
            put_u32(out, line.crc);
            lines.push(line);
        }
        out.extend_from_slice(record.head);
        let crc = crc32c::crc32c(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        self.extend_buffer(start);
        for body in record.bodies {
            self.push_body(body);
        }
        self.payload += length;
        self.records += 1;
        Placed {
            offset,
            bodies: lines,
        }
    }

    fn push_body(&mut self, body: &Bytes) {
        if body.len() >= COPY_BELOW {
            self.pieces.push(Piece::Body(body.clone()));
        } else {
            let start = self.buffer.len();
            self.buffer.extend_from_slice(body);
            self.extend_buffer(start);
        }
    }

    /// Covers the buffer from `start` on, joining the last piece when it ends there.
    fn extend_buffer(&mut self, start: usize) {
        let end = self.buffer.len();
        match self.pieces.last_mut() {
            Some(Piece::Buffer(_, last)) if *last == start => *last = end,
            _ => self.pieces.push(Piece::Buffer(start, end)),
        }
    }

    /// Completes the round: its header and the zeros up to the next sector.
    pub(crate) fn finish(mut self, durable_before: u64) -> Round {
        let header = RoundHeader {
            offset: self.offset,
            durable_before,
            payload: u32::try_from(self.payload).expect("a round fits its segment"),
            records: self.records,
        };
        self.buffer[..ROUND_HEADER].copy_from_slice(&header.encode(self.tag));
        let end = header.end();
        let start = self.buffer.len();
        let unpadded = self.offset + ROUND_HEADER as u64 + self.payload;
        self.buffer.resize(start + (end - unpadded) as usize, 0);
        self.extend_buffer(start);
        Round {
            offset: self.offset,
            end,
            buffer: self.buffer,
            pieces: self.pieces,
        }
    }
}

/// A complete round, ready to be written (again and again, if the disk is full).
pub(crate) struct Round {
    offset: u64,
    end: u64,
    buffer: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Round {
    /// Where the next round starts.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes on disk.
    pub(crate) fn len(&self) -> u64 {
        self.end - self.offset
    }

    /// Writes the round where it belongs, with one call if the kernel takes it in one.
    pub(crate) fn write(&self, file: &dyn DiskFile) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            slices.push(match piece {
                Piece::Buffer(from, to) => IoSlice::new(&self.buffer[*from..*to]),
                Piece::Body(body) => IoSlice::new(body),
            });
        }
        write_all_at(file, &mut slices, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, SimDisk};
    use proptest::prelude::*;

    const TAG: Tag = Tag { epoch: 5, salt: 99 };

    fn id(term: u64, node: u64, index: u64) -> LogId {
        LogId {
            leader: LeaderId { term, node },
            index,
        }
    }

    fn written(record: &Record<'_>) -> Bytes {
        let disk = SimDisk::new(1);
        let file = disk.create("s").unwrap();
        let mut round = RoundBuilder::new(TAG, 0);
        round.push(record);
        round.finish(0).write(&*file).unwrap();
        Bytes::from(disk.content("s").unwrap())
    }

    proptest! {
        #[test]
        fn records_round_trip(
            head in proptest::collection::vec(any::<u8>(), 0..100),
            sizes in proptest::collection::vec(0usize..1500, 0..5),
        ) {
            let bodies: Vec<Bytes> =
                sizes.iter().map(|n| Bytes::from(vec![*n as u8; *n])).collect();
            let id = id(3, 4, 17);
            let record =
                Record { kind: Kind::Entry, group: GroupId(9), id, head: &head, bodies: &bodies };
            let bytes = written(&record);
            let round = RoundHeader::parse(&bytes, TAG, 0).unwrap();
            prop_assert_eq!(round.records, 1);
            prop_assert_eq!(round.end(), bytes.len() as u64);
            let bytes = bytes.slice(ROUND_HEADER..);
            let view = RecordView::parse(&bytes, TAG).unwrap();
            prop_assert_eq!((view.group, view.id, view.head), (GroupId(9), id, &head[..]));
            prop_assert_eq!(view.checked_bodies(&bytes).unwrap(), bodies);
        }

        #[test]
        fn any_flipped_bit_is_noticed(at in 0usize..1260, bit in 0u8..8) {
            let body = Bytes::from(vec![7; 1000]);
            let bodies = [body];
            let record = Record {
                kind: Kind::Entry, group: GroupId(9), id: id(3, 4, 17), head: &[1; 192], bodies: &bodies,
            };
            let mut bytes = written(&record)[ROUND_HEADER..].to_vec();
            bytes[at] ^= 1 << bit;
            let bytes = Bytes::from(bytes);
            let whole = RecordView::parse(&bytes, TAG).and_then(|view| view.checked_bodies(&bytes));
            prop_assert!(whole.is_none());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(RecordView::parse(&bytes, TAG).is_none());
            prop_assert!(RoundHeader::parse(&bytes, TAG, 0).is_none());
        }
    }

    #[test]
    fn bytes_of_another_life_do_not_parse() {
        let bytes = written(&Record::marker(
            Kind::Vote,
            GroupId(1),
            LogId::default(),
            b"vote",
        ));
        for other in [Tag { epoch: 6, ..TAG }, Tag { salt: 98, ..TAG }] {
            assert!(RoundHeader::parse(&bytes, other, 0).is_none());
            assert!(RecordView::parse(&bytes[ROUND_HEADER..], other).is_none());
        }
    }

    /// The format is a promise: these are the bytes of version 1.
    #[test]
    fn version_1_bytes_still_parse() {
        let bytes = written(&Record::marker(Kind::Purge, GroupId(2), id(3, 4, 5), b"h"));
        let known = "48594b52fc818961050000000000000063000000000000000000000000000000\
                     00000000000000003d0000000100000000000000000000000000000000000000";
        assert_eq!(hex(&bytes[..ROUND_HEADER]), known);
        let known = "25045a133d0000000a6c747c9f60151702000000000000000500000000000000\
                     03000000000000000400000000000000040100000100000000000000\
                     68";
        assert_eq!(hex(&bytes[ROUND_HEADER..ROUND_HEADER + 61]), known);
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
