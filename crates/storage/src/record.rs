//! Records: entries, votes and markers as bytes on disk. Format version 1.
//!
//! ```text
//! crc 4 | length 4 | life 8 | group 8 | index 8 | term 8 | node 8 | kind 1 | version 1 | zero 2
//! | head length 4 | bodies 4 | (length 4, crc 4) per body | head | bodies…
//! ```
//!
//! A record's crc covers everything but the bodies; each body has its own in the table, so one body
//! is read and checked alone. `life` is the segment's epoch mixed with its random salt: bytes that a
//! recycled segment still holds from an earlier life never parse.

use crate::codec::{INDEX_END, Reader, put_u32, put_u64};
use crate::types::{GroupId, LeaderId, LogId};
use bytes::Bytes;

/// Bytes of a record before its table.
pub(crate) const RECORD_HEADER: usize = 60;
/// Bytes of one body's line in the table.
pub(crate) const TABLE_LINE: usize = 8;

const RECORD_VERSION: u8 = 1;

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
    /// The replica that the group's records are of, from here on.
    Owner = 10,
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
            10 => Kind::Owner,
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

    /// Appends everything but the bodies, and returns their lines.
    pub(crate) fn encode_head(&self, tag: Tag, out: &mut Vec<u8>) -> Vec<BodyLine> {
        let start = out.len();
        let length =
            u32::try_from(self.encoded_len()).expect("a record fits its segment, at most 1 GiB");
        put_u32(out, 0);
        put_u32(out, length);
        let LogId { leader, index } = self.id;
        for field in [tag.life(), self.group.0, index, leader.term, leader.node] {
            put_u64(out, field);
        }
        out.extend_from_slice(&[self.kind as u8, RECORD_VERSION, 0, 0]);
        put_u32(out, self.head.len() as u32);
        put_u32(out, self.bodies.len() as u32);
        let mut lines = Vec::with_capacity(self.bodies.len());
        for body in self.bodies {
            let line = BodyLine {
                length: body.len() as u32,
                crc: crc32c::crc32c(body),
            };
            put_u32(out, line.length);
            put_u32(out, line.crc);
            lines.push(line);
        }
        out.extend_from_slice(self.head);
        let crc = crc32c::crc32c(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        lines
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
        let index = reader.u64().filter(|index| *index < INDEX_END)?;
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
        self.bodies_found(record).into_iter().collect()
    }

    /// Each body out of the record's bytes, none in the place of one that is cut short or damaged.
    pub(crate) fn bodies_found(&self, record: &Bytes) -> Vec<Option<Bytes>> {
        let mut at = self.bodies_at;
        let lines = self.bodies.iter();
        lines
            .map(|line| {
                let from = at;
                at += line.length as usize;
                let whole = record.len() >= at && crc32c::crc32c(&record[from..at]) == line.crc;
                whole.then(|| record.slice(from..at))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, SimDisk};
    use crate::round::{ROUND_HEADER, RoundBuilder, RoundHeader};
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
