//! Rounds: what one fdatasync covers. Format version 1.
//!
//! ```text
//! magic 4 | crc 4 | epoch 8 | salt 8 | offset 8 | durable before 8 | payload 4 | records 4 | zero 16
//! | records… | zeros up to the next sector
//! ```
//!
//! A round starts on a sector, so a torn write never touches what was durable, and a reader that
//! lost its way finds the next round by looking at sectors only. Its header names the offset known
//! durable before it: the log's **mark**. A bad byte below a mark is damage, above the last mark it
//! is a torn write.

use crate::codec::{Reader, put_u32, put_u64};
use crate::disk::{DiskFile, write_all_at};
use crate::record::{BodyLine, Record, Tag};
use bytes::Bytes;
use std::io::{self, IoSlice};

/// Rounds start at multiples of this: what a power cut keeps or loses as a whole.
pub(crate) const SECTOR: u64 = 512;
/// Bytes of a round's header.
pub(crate) const ROUND_HEADER: usize = 64;

const ROUND_MAGIC: u32 = 0x524b_5948;
/// Shorter bodies are copied into the round's buffer; a slice of their own would cost more.
const COPY_BELOW: usize = 512;

/// The start of the next sector.
pub(crate) fn sector_up(offset: u64) -> u64 {
    offset.next_multiple_of(SECTOR)
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

    /// Where the round starts.
    pub(crate) fn start(&self) -> u64 {
        self.offset
    }

    /// Where the next round would start if the round ended here.
    pub(crate) fn end(&self) -> u64 {
        sector_up(self.offset + ROUND_HEADER as u64 + self.payload)
    }

    pub(crate) fn push(&mut self, record: &Record<'_>) -> Placed {
        let offset = self.offset + ROUND_HEADER as u64 + self.payload;
        let length = record.encoded_len();
        let start = self.buffer.len();
        let lines = record.encode_head(self.tag, &mut self.buffer);
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
