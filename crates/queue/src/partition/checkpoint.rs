//! A partition in a checkpoint, and what must hold of one.
//!
//! Everything that apply depends on is written and nothing else: replicas that applied the same
//! entries write the same bytes, however they came by their state.

use std::collections::BTreeSet;

use super::{Applied, Hosted, Partition, Tombstone};
use crate::codec::{DecodeError, Reader, Writer};
use crate::command::LATEST_T;
use crate::ids::INDEX_LIMIT;
use crate::requests::Requests;
use crate::slice::Slice;

const VERSION: u8 = 1;

/// Up to this estimate of its memory, a partition is checked after each entry in debug builds.
const SMALL_BYTES: usize = 32 * 1024;

/// A larger one is checked after each so many entries.
const SELDOM: u64 = 4_096;

impl Partition {
    /// The persisted state, version 1.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::versioned(VERSION);
        writer.partition(self.id);
        writer.byte(self.epoch);
        writer.number(self.applied.index);
        writer.number(self.applied.now);
        self.requests.write(&mut writer);
        writer.length(self.tombstones.len());
        for (queue, tombstone) in &self.tombstones {
            writer.queue(*queue);
            writer.number(tombstone.version);
            writer.number(tombstone.until);
        }
        writer.length(self.slices.len());
        for Hosted { slice, .. } in self.slices.values() {
            slice.write(&mut writer);
        }
        writer.finish()
    }

    /// Reads what [`Partition::encode`] wrote, and checks it as [`Partition::validate`] does.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::versioned(bytes, VERSION)?;
        let mut partition = Self::new(reader.partition()?);
        partition.epoch = reader.byte("epoch")?;
        partition.applied = Applied {
            index: reader.number("applied index")?,
            now: reader.number("T")?,
        };
        if partition.applied.now > LATEST_T || partition.applied.index >= INDEX_LIMIT {
            return Err(DecodeError::Impossible("index or T"));
        }
        partition.requests = Requests::read(&mut reader)?;
        for _ in 0..reader.length("tombstones")? {
            let queue = reader.queue()?;
            let version = reader.number("tombstone's version")?;
            let until = reader.number("tombstone's end")?;
            partition
                .tombstones
                .insert(queue, Tombstone { version, until });
            partition.agenda.insert((until, queue));
        }
        for _ in 0..reader.length("slices")? {
            let slice = Slice::read(&mut reader)?;
            let queue = slice.descriptor.id;
            if partition.slices.contains_key(&queue) {
                return Err(DecodeError::Impossible("slice twice"));
            }
            partition.host(queue, slice);
        }
        reader.finish()?;
        partition.check().map_err(DecodeError::Impossible)?;
        Ok(partition)
    }

    /// Asserts every invariant of the partition. Debug builds do it after each entry, and more
    /// seldom once the partition is large.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn validate(&self) {
        if let Err(broken) = self.check() {
            panic!("partition {}: {broken}", self.id);
        }
    }

    pub(super) fn validate_often(&self) {
        if self.state_bytes() <= SMALL_BYTES || self.applied.index.is_multiple_of(SELDOM) {
            self.validate();
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        self.requests.check()?;
        let mut agenda = BTreeSet::new();
        let mut bytes = 0;
        for (queue, hosted) in &self.slices {
            hosted.slice.check()?;
            if *queue != hosted.slice.descriptor.id || self.tombstones.contains_key(queue) {
                return Err("a queue is hosted under its id, or has a tombstone");
            }
            if hosted.slice.held().settled_at() > self.applied.now {
                return Err("no slice is ahead of T");
            }
            if (hosted.chore_at, hosted.bytes) != (hosted.slice.next_chore(), hosted.slice.bytes())
            {
                return Err("a slice is filed as it is");
            }
            agenda.insert((hosted.chore_at, *queue));
            bytes += hosted.bytes;
        }
        agenda.extend(
            self.tombstones
                .iter()
                .map(|(queue, tombstone)| (tombstone.until, *queue)),
        );
        if agenda != self.agenda || bytes != self.slice_bytes {
            return Err("agenda and memory follow the slices");
        }
        self.check_names()
    }

    /// Each message exists once, and none comes from an entry yet to be applied.
    fn check_names(&self) -> Result<(), &'static str> {
        let live = self.live_runs();
        let mut held = 0;
        for Hosted { slice, .. } in self.slices.values() {
            let counts = slice.counts(slice.held().settled_at());
            held += counts.visible + counts.in_flight + counts.delayed;
        }
        let messages: u64 = live
            .iter()
            .map(|run| run.entries * u64::from(run.count))
            .sum();
        if messages != held {
            return Err("the live runs are the slices' messages");
        }
        let last = live
            .iter()
            .map(|run| run.first_index + run.entries - 1)
            .max();
        (last <= Some(self.applied.index))
            .then_some(())
            .ok_or("no message is ahead of the log")
    }
}
