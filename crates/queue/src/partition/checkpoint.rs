//! A partition in a checkpoint, and what must hold of one.
//!
//! Everything that apply depends on is written and nothing else: replicas that applied the same
//! entries write the same bytes, however they came by their state.

use std::collections::{BTreeMap, BTreeSet};

use super::{Applied, Hosted, LiveRun, Partition, Tombstone};
use crate::codec::{DecodeError, Reader, Writer};
use crate::command::LATEST_T;
use crate::fair::Fair;
use crate::ids::{INDEX_LIMIT, QueueId};
use crate::moved::MovedMessages;
use crate::requests::Requests;
use crate::slice::{Moving, Slice};

/// Of a partition without moved messages; such ones stay readable to releases that know none.
const VERSION: u8 = 1;

/// With the slices' moved messages at the end.
const MOVED_VERSION: u8 = 2;

/// With the slices' fair message groups behind them.
const FAIR_VERSION: u8 = 3;

/// With how far move tasks are behind those, and with what redrives named.
const MOVE_TASK_VERSION: u8 = 4;

/// Up to this estimate of its memory, a partition is checked after each entry in debug builds.
const SMALL_BYTES: usize = 32 * 1024;

/// A larger one is checked after each so many entries.
const SELDOM: u64 = 4_096;

impl Partition {
    /// The persisted state: version 1, or 2 once messages have moved, or 3 while a standard queue has
    /// message groups, or 4 while a move task runs or messages are there that one has moved.
    pub fn encode(&self) -> Vec<u8> {
        let slices = || self.slices.values().map(|hosted| &hosted.slice);
        let with_moved: Vec<&Slice> = slices().filter(|it| it.moved().len() > 0).collect();
        let with_fair = slices().filter_map(|slice| Some((slice.descriptor.id, slice.fair()?)));
        let with_fair: Vec<(QueueId, &Fair)> = with_fair.collect();
        let moving: Vec<&Slice> = slices().filter(|slice| slice.moving.is_some()).collect();
        let redriven =
            !moving.is_empty() || with_moved.iter().any(|slice| slice.moved().has_redriven());
        let version = match (with_moved.is_empty(), with_fair.is_empty()) {
            _ if redriven => MOVE_TASK_VERSION,
            (_, false) => FAIR_VERSION,
            (false, true) => MOVED_VERSION,
            (true, true) => VERSION,
        };
        let mut writer = Writer::versioned(version);
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
        if version >= MOVED_VERSION {
            writer.length(with_moved.len());
            for slice in with_moved {
                writer.queue(slice.descriptor.id);
                slice.moved().write(&mut writer, redriven);
            }
        }
        if version >= FAIR_VERSION {
            writer.length(with_fair.len());
            for (queue, fair) in with_fair {
                writer.queue(queue);
                fair.write(&mut writer);
            }
        }
        if redriven {
            write_moving(&mut writer, &moving);
        }
        writer.finish()
    }

    /// Reads what [`Partition::encode`] wrote, and checks it as [`Partition::validate`] does.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let version = bytes.first().copied().unwrap_or(VERSION);
        let known = version.clamp(VERSION, MOVE_TASK_VERSION);
        let mut reader = Reader::versioned(bytes, known)?;
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
        let mut slices = BTreeMap::new();
        for _ in 0..reader.length("slices")? {
            let slice = Slice::read(&mut reader)?;
            if slices.insert(slice.descriptor.id, slice).is_some() {
                return Err(DecodeError::Impossible("slice twice"));
            }
        }
        let redriven = version >= MOVE_TASK_VERSION;
        if version >= MOVED_VERSION {
            read_moved(&mut reader, &mut slices, redriven)?;
        }
        if version >= FAIR_VERSION {
            read_fair(&mut reader, &mut slices)?;
        }
        if redriven {
            read_moving(&mut reader, &mut slices)?;
        }
        for (queue, slice) in slices {
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
        if !self.arrivals.is_empty() {
            return Err("no message is between slices when an entry is applied");
        }
        let mut agenda = BTreeSet::new();
        let mut bytes = 0;
        for (queue, hosted) in &self.slices {
            hosted.slice.check()?;
            if *queue != hosted.slice.descriptor.id || self.tombstones.contains_key(queue) {
                return Err("a queue is hosted under its id, or has a tombstone");
            }
            let order = hosted.slice.descriptor.move_order.as_ref();
            let moving = hosted.slice.moving;
            if order.map(|it| it.task) != moving.map(|it| it.task) {
                return Err("a slice is as far as it is with the task that it is ordered");
            }
            if moving.is_some_and(|it| it.before > self.applied.index) {
                return Err("no move task came in an entry yet to be applied");
            }
            if hosted.slice.held().settled_at() > self.applied.now {
                return Err("no slice is ahead of T");
            }
            if (hosted.chore_at, hosted.bytes) != (hosted.slice.next_chore(), hosted.slice.bytes())
            {
                return Err("a slice is filed as it is");
            }
            let mut moved = hosted.slice.moved().names();
            if moved.any(|name| name.index() > self.applied.index) {
                return Err("no message moved in an entry yet to be applied");
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
        if !are_distinct(&live) {
            return Err("a message is there once");
        }
        let last = live.iter().map(|run| run.last_index()).max();
        (last <= Some(self.applied.index))
            .then_some(())
            .ok_or("no message is ahead of the log")
    }
}

fn read_moved(
    reader: &mut Reader<'_>,
    slices: &mut BTreeMap<QueueId, Slice>,
    redriven: bool,
) -> Result<(), DecodeError> {
    for _ in 0..reader.length("slices with moved messages")? {
        let slice = slices.get_mut(&reader.queue()?);
        let slice = slice.ok_or(DecodeError::Impossible("moved messages without a slice"))?;
        let moved = MovedMessages::read(reader, redriven)?;
        if moved.len() == 0 || slice.moved().len() > 0 {
            return Err(DecodeError::Impossible("moved messages of a slice"));
        }
        slice.set_moved(moved);
    }
    Ok(())
}

fn read_fair(
    reader: &mut Reader<'_>,
    slices: &mut BTreeMap<QueueId, Slice>,
) -> Result<(), DecodeError> {
    for _ in 0..reader.length("slices with fair groups")? {
        let slice = slices.get_mut(&reader.queue()?);
        let slice = slice.ok_or(DecodeError::Impossible("fair groups without a slice"))?;
        slice.read_fair(reader)?;
    }
    Ok(())
}

fn write_moving(writer: &mut Writer, slices: &[&Slice]) {
    writer.length(slices.len());
    for slice in slices {
        let moving = slice.moving.expect("these have a task");
        writer.queue(slice.descriptor.id);
        writer.move_task(moving.task);
        writer.number(moving.before);
        writer.number(moving.total);
    }
}

fn read_moving(
    reader: &mut Reader<'_>,
    slices: &mut BTreeMap<QueueId, Slice>,
) -> Result<(), DecodeError> {
    for _ in 0..reader.length("slices with move tasks")? {
        let slice = slices.get_mut(&reader.queue()?);
        let slice = slice.ok_or(DecodeError::Impossible("a move task without a slice"))?;
        slice.moving = Some(Moving {
            task: reader.move_task()?,
            before: reader.number("beginning of a move task")?,
            total: reader.number("messages moved")?,
        });
    }
    Ok(())
}

/// Whether no message is in two of these runs, which are in their order.
fn are_distinct(live: &[LiveRun]) -> bool {
    // Runs by their first ordinal, with the ordinal behind their last and their last entry. Those that
    // reach the entry at hand have no ordinal in common; others are dropped when they are met.
    let mut reaching: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    for run in live {
        let end = run.ordinal + run.count;
        while let Some((ordinal, (other_end, last))) = reaching.range(..end).next_back() {
            if *last < run.first_index {
                let ended = *ordinal;
                reaching.remove(&ended);
            } else if *other_end > run.ordinal {
                return false;
            } else {
                break;
            }
        }
        reaching.insert(run.ordinal, (end, run.last_index()));
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::{LiveRun, are_distinct};

    fn runs() -> impl Strategy<Value = Vec<LiveRun>> {
        let run = (0..12_u64, 0..12_u32, 1..4_u64, 1..4_u32);
        let run = run.prop_map(|(first_index, ordinal, entries, count)| LiveRun {
            first_index,
            ordinal,
            entries,
            count,
        });
        proptest::collection::vec(run, 0..8)
    }

    proptest! {
        #[test]
        fn a_message_in_two_runs_is_found(mut runs in runs()) {
            runs.sort_unstable_by_key(|run| (run.first_index, run.ordinal));
            let names = runs.iter().flat_map(|run| {
                let ordinals = run.ordinal..run.ordinal + run.count;
                let entries = run.first_index..=run.last_index();
                entries.flat_map(move |index| ordinals.clone().map(move |ordinal| (index, ordinal)))
            });
            let names: Vec<(u64, u32)> = names.collect();
            let distinct: BTreeSet<_> = names.iter().collect();
            prop_assert_eq!(are_distinct(&runs), distinct.len() == names.len());
        }
    }
}
