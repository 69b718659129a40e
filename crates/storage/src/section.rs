//! Where the entries of one group are in one segment: lines, spans and sections.
//!
//! A section is blocks of delta-encoded lines, ascending by index, with a directory, so that one
//! entry is found without decoding all. A line has the crc of every body: one body is read with one
//! read and checked. In memory only a `Span` per (segment, group) stays.
//!
//! ```text
//! section  count | per block: first index, last index - first, offset | lines…
//! line     flags 1 | leader, if it changed | index and offset as deltas | head length | bodies
//!          | per body: ordinal, unless the entry is whole | length | crc 4
//! ```

use crate::codec::{Reader, put_u32, put_varint};
use crate::markers::{leader, put_leader};
use crate::record::{BodyLine, RECORD_HEADER, TABLE_LINE};
use crate::types::{LeaderId, LogId};
use bytes::Bytes;

/// A block is closed when it has grown to this many bytes.
const BLOCK_BYTES: usize = 2048;

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
        let width = u128::from(self.high.saturating_sub(self.low)) + 1;
        (u128::from(self.bytes) * above.min(width) / width) as u64
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

    pub(crate) fn encode(entries: &[EntryAt]) -> Vec<u8> {
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

    pub(crate) fn parse(bytes: &Bytes) -> Option<Section> {
        let mut reader = Reader::new(bytes);
        let count = reader.count()?;
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            let first = reader.index()?;
            let last = first + reader.index()?;
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

    /// The block of lines in which an index begins; `None` if there is none.
    pub(crate) fn block_of(&self, index: u64) -> Option<Vec<EntryAt>> {
        self.block(self.blocks.partition_point(|block| block.last < index))
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
        self.index = self.index.checked_add(reader.index()?)?;
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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_span_that_makes_no_sense_is_survived() {
        for (low, high) in [(10, 3), (0, u64::MAX), (u64::MAX, 0)] {
            let span = Span {
                low,
                high,
                bytes: 1000,
                ..Span::default()
            };
            for floor in [None, Some(0), Some(u64::MAX)] {
                assert!(span.bytes_above(floor) <= 1000, "{low}..={high}");
            }
        }
    }
}
