//! Footers: where the entries of a sealed segment are, per group, on disk beside the segment.
//!
//! A footer is derived data: lost or damaged, it is rebuilt by reading its segment. In memory only
//! a `Span` per (segment, group) stays; the `Section` of a group is read on demand. A section is
//! blocks of delta-encoded lines with a directory, so that one entry is found without decoding all.
//!
//! ```text
//! footer   magic 4 | crc 4 | length 4 | version 1 | flags 1 | epoch 8 | salt 8 | end 8
//!          | replaced epochs | groups: id, span, section place and crc | sections…
//! section  blocks: first index, last index, offset | lines…
//! ```

use crate::codec::{Reader, put_u32, put_u64, put_varint};
use crate::markers::{leader, put_leader};
use crate::record::{BodyLine, RECORD_HEADER, TABLE_LINE, Tag};
use crate::types::{GroupId, LeaderId, LogId};
use bytes::Bytes;
use std::collections::BTreeMap;

const MAGIC: u32 = 0x464b_5948;
const VERSION: u8 = 1;
const FLAG_DAMAGED: u8 = 1;
/// A block is closed when it has grown to this many bytes.
const BLOCK_BYTES: usize = 2048;
/// Bytes of the fixed fields before the header's variable part.
const FIXED: usize = 38;

/// Where a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyAt {
    pub(crate) ordinal: u32,
    pub(crate) line: BodyLine,
}

/// Where an entry, or some bodies of it, is in its segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryAt {
    /// The whole entry, not only some bodies.
    pub(crate) whole: bool,
    pub(crate) id: LogId,
    /// Where the record starts.
    pub(crate) offset: u64,
    pub(crate) head_len: u32,
    pub(crate) bodies: Vec<BodyAt>,
}

impl EntryAt {
    fn bodies_at(&self) -> u64 {
        let before = RECORD_HEADER + self.bodies.len() * TABLE_LINE;
        self.offset + before as u64 + u64::from(self.head_len)
    }

    pub(crate) fn body_bytes(&self) -> u64 {
        self.bodies
            .iter()
            .map(|body| u64::from(body.line.length))
            .sum()
    }

    /// Bytes of the record.
    pub(crate) fn record_len(&self) -> u64 {
        self.bodies_at() - self.offset + self.body_bytes()
    }

    /// Where in the segment a body is.
    pub(crate) fn body(&self, ordinal: u32) -> Option<(u64, BodyLine)> {
        let mut at = self.bodies_at();
        for body in &self.bodies {
            if body.ordinal == ordinal {
                return Some((at, body.line));
            }
            at += u64::from(body.line.length);
        }
        None
    }
}

/// What a group has in a segment, as far as memory remembers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) entries: u64,
    /// Bytes of the records, bodies included.
    pub(crate) bytes: u64,
    pub(crate) bodies: u64,
    pub(crate) body_bytes: u64,
}

impl Span {
    pub(crate) fn of(entries: &[EntryAt]) -> Span {
        let mut span = Span {
            low: u64::MAX,
            ..Span::default()
        };
        for entry in entries {
            span.low = span.low.min(entry.id.index);
            span.high = span.high.max(entry.id.index);
            span.entries += 1;
            span.bytes += entry.record_len();
            span.bodies += entry.bodies.len() as u64;
            span.body_bytes += entry.body_bytes();
        }
        span
    }

    /// The share of `bytes` above an index, assuming that entries are alike.
    pub(crate) fn bytes_above(&self, floor: Option<u64>) -> u64 {
        let Some(floor) = floor else {
            return self.bytes;
        };
        if floor < self.low {
            return self.bytes;
        }
        let above = u128::from(self.high.saturating_sub(floor));
        let width = u128::from(self.high - self.low + 1);
        (u128::from(self.bytes) * above / width) as u64
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    first: u64,
    last: u64,
    at: usize,
}

/// The lines of one group in one segment, ascending by index.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    blocks: Vec<Block>,
    lines: Bytes,
}

impl Section {
    /// Bytes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.lines.len() + self.blocks.len() * size_of::<Block>()
    }

    fn encode(entries: &[EntryAt]) -> Vec<u8> {
        let mut blocks = Vec::new();
        let mut lines = Vec::new();
        let mut state = LineState::default();
        for entry in entries {
            let full = blocks
                .last()
                .is_none_or(|block: &Block| lines.len() - block.at > BLOCK_BYTES);
            if full {
                blocks.push(Block {
                    first: entry.id.index,
                    last: 0,
                    at: lines.len(),
                });
                state = LineState::default();
            }
            if let Some(block) = blocks.last_mut() {
                block.last = entry.id.index;
            }
            state.put(&mut lines, entry);
        }
        let mut out = Vec::with_capacity(lines.len() + 16);
        put_varint(&mut out, blocks.len() as u64);
        for block in &blocks {
            put_varint(&mut out, block.first);
            put_varint(&mut out, block.last - block.first);
            put_varint(&mut out, block.at as u64);
        }
        out.extend_from_slice(&lines);
        out
    }

    fn parse(bytes: &Bytes) -> Option<Section> {
        let mut reader = Reader::new(bytes);
        let count = reader.count()?;
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            let first = reader.varint()?;
            let last = first.checked_add(reader.varint()?)?;
            blocks.push(Block {
                first,
                last,
                at: usize::try_from(reader.varint()?).ok()?,
            });
        }
        let lines = bytes.slice(bytes.len() - reader.len()..);
        blocks
            .iter()
            .all(|block| block.at <= lines.len())
            .then_some(Section { blocks, lines })
    }

    fn block(&self, number: usize) -> Option<Vec<EntryAt>> {
        let from = self.blocks.get(number)?.at;
        let to = self
            .blocks
            .get(number + 1)
            .map_or(self.lines.len(), |next| next.at);
        let mut reader = Reader::new(self.lines.get(from..to)?);
        let mut state = LineState::default();
        let mut entries = Vec::new();
        while !reader.is_empty() {
            entries.push(state.take(&mut reader)?);
        }
        Some(entries)
    }

    /// All lines of an index; `None` if the section makes no sense.
    pub(crate) fn find(&self, index: u64) -> Option<Vec<EntryAt>> {
        let mut found = Vec::new();
        let start = self.blocks.partition_point(|block| block.last < index);
        for number in start..self.blocks.len() {
            if self.blocks[number].first > index {
                break;
            }
            let block = self.block(number)?;
            found.extend(block.into_iter().filter(|entry| entry.id.index == index));
        }
        Some(found)
    }

    /// Every line; `None` if the section makes no sense.
    pub(crate) fn all(&self) -> Option<Vec<EntryAt>> {
        let mut all = Vec::new();
        for number in 0..self.blocks.len() {
            all.extend(self.block(number)?);
        }
        Some(all)
    }
}

/// What a line leaves out because the line before it in the block said it.
#[derive(Default)]
struct LineState {
    index: u64,
    offset: u64,
    leader: Option<LeaderId>,
}

const LINE_WHOLE: u8 = 1;
const LINE_LEADER: u8 = 2;

impl LineState {
    fn put(&mut self, out: &mut Vec<u8>, entry: &EntryAt) {
        let new_leader = self.leader != Some(entry.id.leader);
        out.push(u8::from(entry.whole) * LINE_WHOLE + u8::from(new_leader) * LINE_LEADER);
        if new_leader {
            put_leader(out, entry.id.leader);
        }
        put_varint(out, entry.id.index - self.index);
        put_varint(out, entry.offset.wrapping_sub(self.offset));
        put_varint(out, u64::from(entry.head_len));
        put_varint(out, entry.bodies.len() as u64);
        for body in &entry.bodies {
            if !entry.whole {
                put_varint(out, u64::from(body.ordinal));
            }
            put_varint(out, u64::from(body.line.length));
            put_u32(out, body.line.crc);
        }
        *self = LineState {
            index: entry.id.index,
            offset: entry.offset,
            leader: Some(entry.id.leader),
        };
    }

    fn take(&mut self, reader: &mut Reader<'_>) -> Option<EntryAt> {
        let flags = reader.u8()?;
        if flags & LINE_LEADER != 0 {
            self.leader = Some(leader(reader)?);
        }
        self.index = self.index.checked_add(reader.varint()?)?;
        self.offset = self.offset.wrapping_add(reader.varint()?);
        let whole = flags & LINE_WHOLE != 0;
        let head_len = reader.varint32()?;
        let count = reader.count()?;
        let mut bodies = Vec::with_capacity(count);
        for ordinal in 0..count as u32 {
            let ordinal = if whole { ordinal } else { reader.varint32()? };
            let line = BodyLine {
                length: reader.varint32()?,
                crc: reader.u32()?,
            };
            bodies.push(BodyAt { ordinal, line });
        }
        let id = LogId {
            leader: self.leader?,
            index: self.index,
        };
        Some(EntryAt {
            whole,
            id,
            offset: self.offset,
            head_len,
            bodies,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    len: u32,
    crc: u32,
}

/// A footer's header: everything but the sections.
#[derive(Clone, Debug)]
pub(crate) struct Footer {
    pub(crate) tag: Tag,
    /// Where the segment's records end.
    pub(crate) end: u64,
    /// Some record could not be read when the footer was made.
    pub(crate) damaged: bool,
    /// For a cold segment: the segments that it replaces.
    pub(crate) replaces: Vec<u64>,
    groups: BTreeMap<GroupId, (Span, Place)>,
}

/// The entries of a segment, per group and ascending, from which its footer is made.
pub(crate) type Sections = BTreeMap<GroupId, Vec<EntryAt>>;

impl Footer {
    /// The bytes of a footer file.
    pub(crate) fn encode(
        tag: Tag,
        end: u64,
        damaged: bool,
        replaces: &[u64],
        sections: &Sections,
    ) -> Vec<u8> {
        let encoded: Vec<Vec<u8>> = sections
            .values()
            .map(|entries| Section::encode(entries))
            .collect();
        let mut header = Vec::new();
        put_varint(&mut header, replaces.len() as u64);
        replaces
            .iter()
            .for_each(|epoch| put_varint(&mut header, *epoch));
        put_varint(&mut header, sections.len() as u64);
        // Section offsets count from the end of the header, whose length is not known yet.
        let mut offset = 0;
        for ((group, entries), section) in sections.iter().zip(&encoded) {
            let span = Span::of(entries);
            put_u64(&mut header, group.0);
            for field in [
                span.low,
                span.high,
                span.entries,
                span.bytes,
                span.bodies,
                span.body_bytes,
            ] {
                put_varint(&mut header, field);
            }
            put_varint(&mut header, offset);
            put_varint(&mut header, section.len() as u64);
            put_u32(&mut header, crc32c::crc32c(section));
            offset += section.len() as u64;
        }
        let mut out = Vec::new();
        put_u32(&mut out, MAGIC);
        put_u32(&mut out, 0);
        put_u32(&mut out, (FIXED + header.len()) as u32);
        out.extend_from_slice(&[VERSION, u8::from(damaged) * FLAG_DAMAGED]);
        for field in [tag.epoch, tag.salt, end] {
            put_u64(&mut out, field);
        }
        out.extend_from_slice(&header);
        let crc = crc32c::crc32c(&out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        encoded
            .iter()
            .for_each(|section| out.extend_from_slice(section));
        out
    }

    /// How many bytes the header of a footer file has, from its first 12.
    pub(crate) fn header_len(start: &[u8]) -> Option<usize> {
        let mut reader = Reader::new(start);
        (reader.u32()? == MAGIC).then_some(())?;
        reader.u32()?;
        Some(reader.u32()? as usize)
    }

    /// Parses the header.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Footer> {
        let length = Footer::header_len(bytes)?;
        let bytes = bytes.get(..length)?;
        let mut reader = Reader::new(bytes);
        reader.u32()?;
        if reader.u32()? != crc32c::crc32c(bytes.get(8..)?) {
            return None;
        }
        reader.u32()?;
        if reader.u8()? != VERSION {
            return None;
        }
        let damaged = reader.u8()? & FLAG_DAMAGED != 0;
        let tag = Tag {
            epoch: reader.u64()?,
            salt: reader.u64()?,
        };
        let end = reader.u64()?;
        let replaces: Option<Vec<u64>> = (0..reader.count()?).map(|_| reader.varint()).collect();
        let mut groups = BTreeMap::new();
        for _ in 0..reader.count()? {
            let group = GroupId(reader.u64()?);
            let span = Span {
                low: reader.varint()?,
                high: reader.varint()?,
                entries: reader.varint()?,
                bytes: reader.varint()?,
                bodies: reader.varint()?,
                body_bytes: reader.varint()?,
            };
            let offset = length as u64 + reader.varint()?;
            let place = Place {
                offset,
                len: reader.varint32()?,
                crc: reader.u32()?,
            };
            groups.insert(group, (span, place));
        }
        Some(Footer {
            tag,
            end,
            damaged,
            replaces: replaces?,
            groups,
        })
    }

    pub(crate) fn spans(&self) -> BTreeMap<GroupId, Span> {
        self.groups
            .iter()
            .map(|(group, (span, _))| (*group, *span))
            .collect()
    }

    /// Where a group's section is in the footer file: offset and length.
    pub(crate) fn place(&self, group: GroupId) -> Option<(u64, usize)> {
        let (_, place) = self.groups.get(&group)?;
        Some((place.offset, place.len as usize))
    }

    /// Checks and parses a group's section.
    pub(crate) fn section(&self, group: GroupId, bytes: &Bytes) -> Option<Section> {
        let (_, place) = self.groups.get(&group)?;
        (crc32c::crc32c(bytes) == place.crc)
            .then(|| Section::parse(bytes))
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries() -> impl Strategy<Value = Vec<EntryAt>> {
        let line = (
            0u64..3,
            1u64..4,
            60u64..5000,
            any::<bool>(),
            0u32..100,
            0u32..5,
        );
        proptest::collection::vec(line, 1..200).prop_map(|lines| {
            let (mut index, mut offset) = (0, 0);
            lines
                .into_iter()
                .map(|(step, term, size, whole, head_len, count)| {
                    index += step;
                    offset += size;
                    let body = |n| BodyAt {
                        ordinal: if whole { n } else { n * 3 },
                        line: BodyLine {
                            length: n * 700,
                            crc: n ^ 0xdead_beef,
                        },
                    };
                    EntryAt {
                        whole,
                        id: LogId {
                            leader: LeaderId {
                                term,
                                node: u64::MAX - term,
                            },
                            index,
                        },
                        offset,
                        head_len,
                        bodies: (0..count).map(body).collect(),
                    }
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn footers_round_trip(entries in entries()) {
            let tag = Tag { epoch: 3, salt: 8 };
            let group = GroupId(5);
            let sections = Sections::from([(group, entries.clone())]);
            let bytes = Bytes::from(Footer::encode(tag, 4096, false, &[1, 2], &sections));
            let footer = Footer::parse(&bytes).unwrap();
            prop_assert_eq!((footer.tag, footer.end, &footer.replaces[..]), (tag, 4096, &[1, 2][..]));
            prop_assert_eq!(footer.spans()[&group], Span::of(&entries));
            let (at, len) = footer.place(group).unwrap();
            let section = footer.section(group, &bytes.slice(at as usize..at as usize + len)).unwrap();
            prop_assert_eq!(&section.all().unwrap(), &entries);
            for index in 0..=entries.last().unwrap().id.index + 1 {
                let expected: Vec<EntryAt> =
                    entries.iter().filter(|entry| entry.id.index == index).cloned().collect();
                prop_assert_eq!(section.find(index).unwrap(), expected);
            }
        }

        #[test]
        fn a_flipped_bit_is_noticed(entries in entries(), at in any::<prop::sample::Index>()) {
            let tag = Tag { epoch: 3, salt: 8 };
            let group = GroupId(5);
            let sections = Sections::from([(group, entries)]);
            let mut bytes = Footer::encode(tag, 4096, false, &[], &sections);
            let at = at.index(bytes.len());
            bytes[at] ^= 4;
            let bytes = Bytes::from(bytes);
            let read = Footer::parse(&bytes).and_then(|footer| {
                let (at, len) = footer.place(group)?;
                footer.section(group, &bytes.slice(at as usize..at as usize + len))
            });
            prop_assert!(read.is_none());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Footer::parse(&bytes).is_none());
            if let Some(section) = Section::parse(&Bytes::from(bytes)) {
                let _ = (section.all(), section.find(3));
            }
        }
    }

    #[test]
    fn bytes_above_a_floor_are_a_share() {
        let span = Span {
            low: 10,
            high: 19,
            bytes: 1000,
            ..Span::default()
        };
        assert_eq!(span.bytes_above(None), 1000);
        assert_eq!(span.bytes_above(Some(5)), 1000);
        assert_eq!(span.bytes_above(Some(14)), 500);
        assert_eq!(span.bytes_above(Some(19)), 0);
        assert_eq!(span.bytes_above(Some(100)), 0);
    }
}
