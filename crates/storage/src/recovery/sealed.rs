//! Opening the segments of a log: headers, footers, spares, and what a crash left behind.
//!
//! Sealed segments are not read, only the headers of their footers; one whose footer is lost is read
//! whole and gets a new one.

use super::{Recovery, damaged};
use crate::damage::{Finding, Place};
use crate::disk::{DiskFile, read_exact_at, read_up_to, write_at};
use crate::error::OpenError;
use crate::files::Spare;
use crate::footer::Footer;
use crate::round::SECTOR;
use crate::scan;
use crate::segment::{
    FIRST_ROUND, HeaderError, Heat, LOG_DIR, Named, Segment, SegmentHeader, VERSION, footer_path,
    parse_name, segment_path, spare_path,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// A segment file whose header is right.
pub(super) struct SegmentFile {
    pub(super) heat: Heat,
    pub(super) header: SegmentHeader,
    pub(super) file: Arc<dyn DiskFile>,
}

#[derive(Default)]
pub(super) struct SegmentFiles(BTreeMap<u64, SegmentFile>);

impl SegmentFiles {
    pub(super) fn pop_newest_hot(&mut self) -> Option<SegmentFile> {
        let hot = self
            .0
            .iter()
            .rev()
            .find(|(_, segment)| segment.heat == Heat::Hot);
        let epoch = *hot?.0;
        self.0.remove(&epoch)
    }
}

impl Recovery {
    /// Opens all segment files, fills the pool of spares, removes what belongs to nothing.
    pub(super) fn open_segments(&mut self) -> Result<SegmentFiles, OpenError> {
        let mut segments = SegmentFiles::default();
        let mut footers = BTreeSet::new();
        for name in self.disk.list(LOG_DIR)? {
            match parse_name(&name) {
                Named::Segment(epoch, heat) => {
                    segments.0.insert(epoch, self.open_segment(epoch, heat)?);
                    self.files.saw_epoch(epoch);
                }
                Named::Footer(epoch) => {
                    footers.insert(epoch);
                    self.files.saw_epoch(epoch);
                }
                Named::Spare(number) => self.open_spare(number)?,
                Named::Unknown => tracing::warn!(name, "unknown file in the log directory"),
            }
        }
        for epoch in footers
            .iter()
            .copied()
            .filter(|epoch| !segments.0.contains_key(epoch))
        {
            self.disk.remove(&footer_path(epoch))?;
        }
        self.footers = footers;
        Ok(segments)
    }

    fn open_segment(&mut self, epoch: u64, heat: Heat) -> Result<SegmentFile, OpenError> {
        let file = self.disk.open(&segment_path(epoch, heat))?;
        let mut sector = vec![0; SECTOR as usize];
        read_up_to(&*file, &mut sector, 0)?;
        let header = match SegmentHeader::parse(&sector) {
            Ok(header) if header.tag.epoch == epoch => header,
            Ok(_) => {
                return Err(damaged(
                    epoch,
                    0,
                    "the header names another segment",
                    vec![],
                ));
            }
            Err(HeaderError::Damaged) => self.header_from_footer(epoch, &*file)?,
            Err(HeaderError::Version(version)) => {
                let known = VERSION;
                return Err(OpenError::Version {
                    segment: epoch,
                    version,
                    known,
                });
            }
        };
        Ok(SegmentFile { heat, header, file })
    }

    /// A sealed segment's header says nothing that its footer does not say too.
    fn header_from_footer(
        &mut self,
        epoch: u64,
        file: &dyn DiskFile,
    ) -> Result<SegmentHeader, OpenError> {
        let footer = self
            .read_footer(epoch)?
            .filter(|footer| footer.tag.epoch == epoch);
        let footer = footer.ok_or_else(|| damaged(epoch, 0, "the header is bad", vec![]))?;
        let header = SegmentHeader {
            tag: footer.tag,
            previous: None,
        };
        // Were the footer damaged as well one day, nobody would know what is in the segment.
        write_at(file, &header.encode(), 0)?;
        file.sync_data()?;
        let place = Place::Segment(epoch, 0);
        self.findings.push(Finding::Derived(
            place,
            "the header of the segment is wrong",
        ));
        Ok(header)
    }

    fn open_spare(&self, number: u64) -> io::Result<()> {
        self.files.saw_spare(number);
        let file = self.disk.open(&spare_path(number))?;
        if file.len()? == self.files.segment_bytes {
            self.files.give(Spare { number, file });
            return Ok(());
        }
        self.disk.remove(&spare_path(number))
    }

    pub(super) fn load_sealed(
        &mut self,
        found: &SegmentFiles,
        newest: Option<&SegmentFile>,
    ) -> Result<BTreeMap<u64, Arc<Segment>>, OpenError> {
        // Every hot segment's header says where the one before it ends.
        let ends: BTreeMap<u64, u64> = found
            .0
            .values()
            .chain(newest)
            .filter_map(|segment| segment.header.previous)
            .collect();
        let mut sealed = BTreeMap::new();
        for (epoch, segment) in &found.0 {
            let end = ends.get(epoch).copied();
            let loaded = match self.load_footer(segment, end)? {
                Some(footer) => Segment::new(segment.heat, segment.file.clone(), footer, None),
                None => {
                    // Perhaps a crash only left half of it: it costs nothing either way.
                    if self.footers.contains(epoch) {
                        let place = Place::Footer(*epoch);
                        self.findings
                            .push(Finding::Derived(place, "the footer is wrong"));
                    }
                    self.rebuild(segment, end)?
                }
            };
            sealed.insert(*epoch, Arc::new(loaded));
        }
        Ok(sealed)
    }

    /// The footer of a segment; none if it is missing, damaged or of another life.
    fn load_footer(&self, segment: &SegmentFile, end: Option<u64>) -> io::Result<Option<Footer>> {
        let tag = segment.header.tag;
        let footer = self.read_footer(tag.epoch)?;
        Ok(footer.filter(|footer| footer.tag == tag && end.is_none_or(|end| end == footer.end)))
    }

    /// Reads a footer's header; none if it is missing or damaged.
    fn read_footer(&self, epoch: u64) -> io::Result<Option<Footer>> {
        let file = match self.disk.open(&footer_path(epoch)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut start = vec![0; 12];
        let got = read_up_to(&*file, &mut start, 0)?;
        let length = file.len()?;
        let header = Footer::header_len(&start[..got]).filter(|len| *len as u64 <= length);
        let Some(header) = header else {
            return Ok(None);
        };
        Ok(Footer::parse(&read_exact_at(&*file, header, 0)?))
    }

    fn rebuild(&mut self, segment: &SegmentFile, end: Option<u64>) -> io::Result<Segment> {
        let tag = segment.header.tag;
        tracing::warn!(
            segment = tag.epoch,
            "no usable footer, reading the whole segment"
        );
        let length = segment.file.len()?;
        let bytes = Bytes::from(read_exact_at(&*segment.file, length as usize, 0)?);
        let content = scan::content(&bytes, tag, FIRST_ROUND, end);
        if content.damaged {
            let place = Place::Segment(tag.epoch, content.end);
            let what = "records cannot be read, and the footer is wrong";
            self.findings.push(Finding::Derived(place, what));
        }
        let footer = Bytes::from(Footer::encode(
            tag,
            content.end,
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

    /// Removes segments that a complete cold segment replaces: the crash came in between.
    pub(super) fn remove_replaced(
        &self,
        sealed: &mut BTreeMap<u64, Arc<Segment>>,
    ) -> io::Result<()> {
        let replaced: Vec<u64> = sealed
            .values()
            .flat_map(|segment| segment.footer.replaces.clone())
            .collect();
        for epoch in replaced {
            if let Some(segment) = sealed.remove(&epoch) {
                let number = self.files.retire(epoch, segment.heat)?;
                self.disk.sync_dir(LOG_DIR)?;
                self.open_spare(number)?;
            }
        }
        Ok(())
    }
}
