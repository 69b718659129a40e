//! Footers: where the entries of a sealed segment are, per group, on disk beside the segment.
//!
//! A footer is derived data: lost or damaged, it is rebuilt by reading its segment. In memory only
//! a `Span` per (segment, group) stays; the `Section` of a group is read on demand.
//!
//! ```text
//! footer   magic 4 | crc 4 | length 4 | version 1 | flags 1 | epoch 8 | salt 8 | end 8
//!          | replaced epochs | groups: id, span, section place and crc | sections…
//! ```

use crate::codec::{Reader, put_u32, put_u64, put_varint};
use crate::record::Tag;
use crate::section::{EntryAt, Section, Span};
use crate::types::GroupId;
use bytes::Bytes;
use std::collections::BTreeMap;

const MAGIC: u32 = 0x464b_5948;
const VERSION: u8 = 1;
const FLAG_DAMAGED: u8 = 1;
/// Bytes of the fixed fields before the header's variable part.
const FIXED: usize = 38;

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
            let offset = reader.varint()?.checked_add(length as u64)?;
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
    use crate::record::BodyLine;
    use crate::section::BodyAt;
    use crate::types::{LeaderId, LogId};
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

    #[test]
    fn a_section_beyond_any_file_is_damage() {
        for (offset, read) in [(0, true), (u64::MAX, false)] {
            let mut header = vec![0, 1];
            put_u64(&mut header, 5);
            header.extend_from_slice(&[0; 6]);
            put_varint(&mut header, offset);
            header.extend_from_slice(&[0; 5]);
            let mut bytes = Footer::encode(Tag { epoch: 3, salt: 8 }, 4096, false, &[], &[].into());
            bytes.truncate(FIXED);
            bytes.extend_from_slice(&header);
            let length = bytes.len() as u32;
            bytes[8..12].copy_from_slice(&length.to_le_bytes());
            let crc = crc32c::crc32c(&bytes[8..]);
            bytes[4..8].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Footer::parse(&bytes).is_some(), read, "{offset}");
        }
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
}
