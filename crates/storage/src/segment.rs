//! Segments: the files of the log, their names, their headers, and what memory keeps of a sealed one.
//!
//! ```text
//! log/<epoch>.seg     hot: rounds in the order of time; begins with the markers of every group
//! log/<epoch>.cold    survivors of compaction, or bodies of an installed snapshot; never changes
//! log/<epoch>.idx     the footer of either
//! log/spare-<number>  preallocated, for the next segment
//! ```
//!
//! A segment is written under its spare's name, synced, and then renamed: a `.seg` or `.cold` file
//! always starts with a whole header and a whole first round, or it is damaged.

use crate::codec::{Reader, put_u32, put_u64};
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::footer::Footer;
use crate::record::Tag;
use crate::round::SECTOR;
use crate::section::{Section, Span};
use crate::types::GroupId;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the first round of a segment starts: the header has the sector before it.
pub(crate) const FIRST_ROUND: u64 = SECTOR;

/// The directory of segments.
pub(crate) const LOG_DIR: &str = "log";

const MAGIC: u32 = 0x534b_5948;
/// The format of segments that this program writes.
pub(crate) const VERSION: u32 = 1;
const HEADER_BYTES: usize = 48;

/// Hot or cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heat {
    /// Written by the writer.
    Hot,
    /// Written by compaction or an install.
    Cold,
}

pub(crate) fn segment_path(epoch: u64, heat: Heat) -> String {
    let extension = if heat == Heat::Hot { "seg" } else { "cold" };
    format!("{LOG_DIR}/{epoch:016x}.{extension}")
}

pub(crate) fn footer_path(epoch: u64) -> String {
    format!("{LOG_DIR}/{epoch:016x}.idx")
}

pub(crate) fn spare_path(number: u64) -> String {
    format!("{LOG_DIR}/spare-{number:016x}")
}

/// A file's place in the naming scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Segment(u64, Heat),
    Footer(u64),
    Spare(u64),
    Unknown,
}

pub(crate) fn parse_name(name: &str) -> Named {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let named = if let Some(text) = name.strip_prefix("spare-") {
        number(text).map(Named::Spare)
    } else if let Some(text) = name.strip_suffix(".seg") {
        number(text).map(|epoch| Named::Segment(epoch, Heat::Hot))
    } else if let Some(text) = name.strip_suffix(".cold") {
        number(text).map(|epoch| Named::Segment(epoch, Heat::Cold))
    } else if let Some(text) = name.strip_suffix(".idx") {
        number(text).map(Named::Footer)
    } else {
        None
    };
    named.unwrap_or(Named::Unknown)
}

/// The first sector of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) tag: Tag,
    /// For a hot segment: the hot segment before it, and where that one's records end.
    pub(crate) previous: Option<(u64, u64)>,
}

/// What is wrong with a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Damaged,
    Version(u32),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SECTOR as usize);
        put_u32(&mut out, MAGIC);
        put_u32(&mut out, 0);
        put_u32(&mut out, VERSION);
        put_u32(&mut out, 0);
        put_u64(&mut out, self.tag.epoch);
        put_u64(&mut out, self.tag.salt);
        // Epochs start at 1 and ends are never 0.
        let (epoch, end) = self.previous.unwrap_or((0, 0));
        put_u64(&mut out, epoch);
        put_u64(&mut out, end);
        let crc = crc32c::crc32c(&out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out.resize(SECTOR as usize, 0);
        out
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<SegmentHeader, HeaderError> {
        let fields = || {
            let bytes = bytes.get(..HEADER_BYTES)?;
            let mut reader = Reader::new(bytes);
            if reader.u32()? != MAGIC || reader.u32()? != crc32c::crc32c(&bytes[8..]) {
                return None;
            }
            let version = reader.u32()?;
            reader.u32()?;
            let tag = Tag {
                epoch: reader.u64()?,
                salt: reader.u64()?,
            };
            let (epoch, end) = (reader.u64()?, reader.u64()?);
            let previous = (epoch != 0).then_some((epoch, end));
            Some((version, SegmentHeader { tag, previous }))
        };
        match fields() {
            None => Err(HeaderError::Damaged),
            Some((VERSION, header)) => Ok(header),
            Some((version, _)) => Err(HeaderError::Version(version)),
        }
    }
}

/// A sealed segment. Readers hold the `Arc`; its file is not reused before they let go.
pub(crate) struct Segment {
    pub(crate) tag: Tag,
    pub(crate) heat: Heat,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Where its records end.
    pub(crate) end: u64,
    pub(crate) footer: Footer,
    pub(crate) spans: BTreeMap<GroupId, Span>,
    /// The whole footer, until it is durable on disk.
    unsaved: Mutex<Option<Bytes>>,
}

impl Segment {
    pub(crate) fn new(
        heat: Heat,
        file: Arc<dyn DiskFile>,
        footer: Footer,
        unsaved: Option<Bytes>,
    ) -> Segment {
        let spans = footer.spans();
        Segment {
            tag: footer.tag,
            heat,
            file,
            end: footer.end,
            footer,
            spans,
            unsaved: Mutex::new(unsaved),
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.tag.epoch
    }

    /// The same segment, for a log in which the group's part of it is dead.
    pub(crate) fn without(&self, group: GroupId) -> Segment {
        let mut spans = self.spans.clone();
        spans.remove(&group);
        Segment {
            tag: self.tag,
            heat: self.heat,
            file: self.file.clone(),
            end: self.end,
            footer: self.footer.clone(),
            spans,
            unsaved: Mutex::new(self.unsaved_footer()),
        }
    }

    fn unsaved_lock(&self) -> MutexGuard<'_, Option<Bytes>> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The footer's bytes if they are not on disk yet.
    pub(crate) fn unsaved_footer(&self) -> Option<Bytes> {
        self.unsaved_lock().clone()
    }

    /// The footer is durable: memory may forget it.
    pub(crate) fn footer_saved(&self) {
        *self.unsaved_lock() = None;
    }

    /// Reads and checks a group's section. `Ok(None)` means that the footer is damaged.
    pub(crate) fn load_section(
        &self,
        disk: &dyn Disk,
        group: GroupId,
    ) -> io::Result<Option<Section>> {
        let Some((offset, len)) = self.footer.place(group) else {
            return Ok(None);
        };
        let bytes = match self.unsaved_footer() {
            Some(footer) => footer.slice(offset as usize..offset as usize + len),
            None => {
                let file = disk.open(&footer_path(self.epoch()))?;
                match read_exact_at(&*file, len, offset) {
                    Ok(bytes) => Bytes::from(bytes),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(self.footer.section(group, &bytes))
    }
}

/// Footer sections read lately, bounded in bytes; the least recently used goes first.
pub(crate) struct SectionCache {
    limit: usize,
    inner: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    sections: BTreeMap<(u64, GroupId), (u64, Arc<Section>)>,
    order: BTreeMap<u64, (u64, GroupId)>,
    clock: u64,
    weight: usize,
}

impl SectionCache {
    pub(crate) fn new(limit: usize) -> SectionCache {
        SectionCache {
            limit,
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recent> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: (u64, GroupId)) -> Option<Arc<Section>> {
        let mut recent = self.lock();
        recent.clock += 1;
        let now = recent.clock;
        let (used, section) = recent.sections.get_mut(&key)?;
        let before = std::mem::replace(used, now);
        let section = section.clone();
        recent.order.remove(&before);
        recent.order.insert(now, key);
        Some(section)
    }

    pub(crate) fn put(&self, key: (u64, GroupId), section: Arc<Section>) {
        let mut recent = self.lock();
        recent.clock += 1;
        let now = recent.clock;
        recent.weight += section.weight();
        if let Some((before, old)) = recent.sections.insert(key, (now, section)) {
            recent.weight -= old.weight();
            recent.order.remove(&before);
        }
        recent.order.insert(now, key);
        // The newest stays even if it alone is over the limit: its reader needs it now.
        while recent.weight > self.limit && recent.order.len() > 1 {
            let Some((_, oldest)) = recent.order.pop_first() else {
                break;
            };
            if let Some((_, section)) = recent.sections.remove(&oldest) {
                recent.weight -= section.weight();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let name = |path: String| path.strip_prefix("log/").unwrap().to_owned();
        assert_eq!(
            parse_name(&name(segment_path(9, Heat::Hot))),
            Named::Segment(9, Heat::Hot)
        );
        assert_eq!(
            parse_name(&name(segment_path(9, Heat::Cold))),
            Named::Segment(9, Heat::Cold)
        );
        assert_eq!(parse_name(&name(footer_path(255))), Named::Footer(255));
        assert_eq!(parse_name(&name(spare_path(3))), Named::Spare(3));
        assert_eq!(parse_name("lost+found"), Named::Unknown);
    }

    #[test]
    fn headers_round_trip_and_notice_damage() {
        let tag = Tag { epoch: 7, salt: 11 };
        for previous in [None, Some((6, 4096))] {
            let header = SegmentHeader { tag, previous };
            let mut bytes = header.encode();
            assert_eq!(SegmentHeader::parse(&bytes), Ok(header));
            bytes[20] ^= 1;
            assert_eq!(SegmentHeader::parse(&bytes), Err(HeaderError::Damaged));
        }
    }

    /// The format is a promise: these are the bytes of version 1.
    #[test]
    fn version_1_bytes_still_parse() {
        let header = SegmentHeader {
            tag: Tag { epoch: 7, salt: 11 },
            previous: Some((6, 4096)),
        };
        let hex: String = header.encode()[..HEADER_BYTES]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let known = "48594b53e1235b84010000000000000007000000000000000b00000000000000\
                     06000000000000000010000000000000";
        assert_eq!(hex, known);
    }
}
