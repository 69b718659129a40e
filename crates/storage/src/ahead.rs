//! Read-ahead: entries taken from a segment before a receive asks for them.
//!
//! A deep backlog is received in about the order in which it was sent. So a miss that comes close
//! behind the last one of its group is answered by one read of the whole entries that follow in the
//! segment, and the next receives find them in memory. A miss elsewhere reads its one body, since a
//! message that comes back late says nothing about its neighbours.
//!
//! Bounded in bytes for the whole node; what was read first goes first. An entry here was checked
//! as any other read is, and is named by its leader too, so that it can never stand in for another.

use crate::disk::read_exact_at;
use crate::engine::Engine;
use crate::error::ReadError;
use crate::reader::{Copy, parse_entry};
use crate::section::EntryAt;
use crate::types::{Entry, GroupId, LogId};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// One read takes at most so many bytes of a segment: enough to make the read's own cost small, and
/// little enough that some dozen groups can read ahead at once.
const RUN_BYTES: u64 = 256 << 10;

/// A miss at most so many indexes behind the last one of its group continues it.
const NEAR: u64 = 64;

/// The entries read ahead.
pub(crate) struct AheadCache {
    limit: usize,
    bytes: usize,
    entries: BTreeMap<(GroupId, u64), Entry>,
    /// In the order in which they were read; may name entries of forgotten groups.
    order: VecDeque<(GroupId, u64)>,
    /// Where each group missed last.
    missed: BTreeMap<GroupId, u64>,
}

impl AheadCache {
    pub(crate) fn new(limit: usize) -> AheadCache {
        AheadCache {
            limit,
            bytes: 0,
            entries: BTreeMap::new(),
            order: VecDeque::new(),
            missed: BTreeMap::new(),
        }
    }

    pub(crate) fn get(&self, group: GroupId, index: u64) -> Option<&Entry> {
        self.entries.get(&(group, index))
    }

    /// Notes that a body was not in memory; tells whether the group is being read in order.
    pub(crate) fn miss(&mut self, group: GroupId, index: u64) -> bool {
        let last = self.missed.insert(group, index);
        last.is_some_and(|last| (last..=last.saturating_add(NEAR)).contains(&index))
    }

    fn put(&mut self, group: GroupId, entries: Vec<Entry>) {
        for entry in entries {
            let key = (group, entry.id.index);
            self.bytes += entry.weight();
            match self.entries.insert(key, entry) {
                Some(old) => self.bytes -= old.weight(),
                None => self.order.push_back(key),
            }
        }
        while self.bytes > self.limit {
            let Some(key) = self.order.pop_front() else {
                return;
            };
            if let Some(entry) = self.entries.remove(&key) {
                self.bytes -= entry.weight();
            }
        }
    }

    pub(crate) fn forget(&mut self, group: GroupId) {
        self.missed.remove(&group);
        let gone: Vec<_> = self
            .entries
            .range((group, 0)..=(group, u64::MAX))
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            if let Some(entry) = self.entries.remove(&key) {
                self.bytes -= entry.weight();
            }
        }
        self.order.retain(|(other, _)| *other != group);
    }
}

impl Engine {
    /// Reads the entry of a sealed copy and the ones behind it, keeps them, and returns the body.
    ///
    /// `None` leaves the body to a read of its own: the copy cannot be read ahead from, or what was
    /// read does not check out, which that read will find and report.
    pub(crate) fn read_ahead(
        &self,
        group: GroupId,
        copy: &Copy,
        ordinal: u32,
    ) -> Result<Option<Bytes>, ReadError> {
        let Some(segment) = &copy.segment else {
            return Ok(None);
        };
        let Some(section) = self.section(segment, group)? else {
            return Ok(None);
        };
        let Some(block) = section.block_of(copy.at.id.index) else {
            return Ok(None);
        };
        let room = RUN_BYTES.min(self.config.read_ahead_bytes as u64 / 2);
        let run = run(block, copy.at.id, room);
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            return Ok(None);
        };
        let start = first.offset;
        let length = (last.offset + last.record_len() - start) as usize;
        let bytes = Bytes::from(read_exact_at(&*copy.file, length, start)?);
        let entries: Vec<Entry> = run
            .iter()
            .filter_map(|at| {
                let from = (at.offset - start) as usize;
                let record = bytes.slice(from..from + at.record_len() as usize);
                parse_entry(&record, copy.tag, group, at)
            })
            .collect();
        let body = entries
            .first()
            .filter(|entry| entry.id == copy.at.id)
            .and_then(|entry| entry.bodies.get(ordinal as usize).cloned());
        self.state().ahead.put(group, entries);
        Ok(body)
    }
}

/// The whole entries from `id` on that lie one behind the other within `room` bytes.
fn run(block: Vec<EntryAt>, id: LogId, room: u64) -> Vec<EntryAt> {
    let mut run: Vec<EntryAt> = Vec::new();
    for at in block.into_iter().skip_while(|at| at.id != id || !at.whole) {
        let end = at.offset + at.record_len();
        let fits = match (run.first(), run.last()) {
            (Some(first), Some(last)) => {
                at.offset >= last.offset + last.record_len() && end - first.offset <= room
            }
            _ => at.record_len() <= room,
        };
        if !at.whole || !fits {
            break;
        }
        run.push(at);
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LogConfig;
    use crate::disk::SimDisk;
    use crate::log::Log;
    use crate::types::{LeaderId, Work};
    use std::sync::Arc;

    const ONE: GroupId = GroupId(1);
    const TWO: GroupId = GroupId(2);

    fn id(index: u64) -> LogId {
        let leader = LeaderId { term: 1, node: 1 };
        LogId { leader, index }
    }

    fn entry(index: u64) -> Entry {
        Entry {
            id: id(index),
            head: Bytes::new(),
            bodies: vec![Bytes::from(vec![0; 100])],
        }
    }

    fn at(index: u64, offset: u64, head_len: u32) -> EntryAt {
        EntryAt {
            whole: true,
            id: id(index),
            offset,
            head_len,
            bodies: Vec::new(),
        }
    }

    #[test]
    fn only_a_miss_close_behind_the_last_one_is_read_ahead() {
        let mut cache = AheadCache::new(1000);
        assert!(!cache.miss(ONE, 100), "the first says nothing");
        assert!(cache.miss(ONE, 100), "another body of the same entry");
        assert!(cache.miss(ONE, 100 + NEAR));
        assert!(!cache.miss(ONE, 101 + 2 * NEAR), "too far ahead");
        assert!(!cache.miss(ONE, 5), "backwards");
        assert!(!cache.miss(TWO, 6), "another group's");
    }

    #[test]
    fn what_was_read_first_goes_first_and_a_forgotten_group_at_once() {
        let mut cache = AheadCache::new(3 * entry(0).weight());
        cache.put(ONE, vec![entry(1), entry(2)]);
        cache.put(TWO, vec![entry(1), entry(2)]);
        assert!(cache.get(ONE, 1).is_none());
        assert!(cache.get(ONE, 2).is_some() && cache.get(TWO, 1).is_some());
        cache.put(TWO, vec![entry(2)]);
        assert_eq!(cache.bytes, 3 * entry(0).weight(), "read twice, held once");
        cache.forget(TWO);
        assert_eq!(cache.bytes, entry(0).weight());
        assert!(cache.get(TWO, 2).is_none() && cache.get(ONE, 2).is_some());
    }

    #[test]
    fn a_run_ends_at_its_room_at_a_partial_copy_and_at_a_step_back() {
        let len = at(0, 0, 0).record_len();
        let block = || vec![at(1, 0, 0), at(2, 500, 0), at(3, 900, 0), at(4, 1400, 0)];
        let indexes = |run: Vec<EntryAt>| run.iter().map(|at| at.id.index).collect::<Vec<_>>();
        assert_eq!(indexes(run(block(), id(2), 900 + len)), [2, 3, 4]);
        assert_eq!(indexes(run(block(), id(2), 400 + len)), [2, 3]);
        assert!(run(block(), id(2), len - 1).is_empty(), "too large itself");
        let mut partial = block();
        partial[2].whole = false;
        assert_eq!(indexes(run(partial, id(1), 5000)), [1, 2]);
        let mut back = block();
        back[2].offset = 100;
        assert_eq!(indexes(run(back, id(1), 5000)), [1, 2]);
    }

    #[test]
    fn a_backlog_read_in_order_comes_from_memory() {
        let disk = Arc::new(SimDisk::new(1));
        let log = Log::open(disk, LogConfig::small(), Work::Thread).expect("opens");
        let (one, other) = (log.group(ONE), log.group(TWO));
        let body =
            |index: u64, ordinal: u32| Bytes::from(vec![(index + u64::from(ordinal)) as u8; 300]);
        let (sender, written) = std::sync::mpsc::channel();
        for index in 0..400 {
            let bodies = vec![body(index, 0), body(index, 1)];
            one.append(
                vec![Entry {
                    bodies,
                    ..entry(index)
                }],
                Box::new(drop),
            );
            let sender = sender.clone();
            other.append(
                vec![entry(index)],
                Box::new(move |done| drop(sender.send(done))),
            );
            written.recv().expect("answered").expect("written");
        }
        let read = |index, ordinal| {
            let found = one.read_body(id(index), ordinal).expect("it is live");
            assert_eq!(found, body(index, ordinal), "{index} {ordinal}");
        };
        (0..200).for_each(|index| (0..2).for_each(|ordinal| read(index, ordinal)));
        let in_order = log.stats();
        assert!(
            in_order.cache_hits > 8 * in_order.cache_misses,
            "{in_order:?}"
        );
        [100, 50, 0].iter().for_each(|index| read(*index, 1));
        let scattered = log.stats().cache_misses - in_order.cache_misses;
        assert_eq!(scattered, 3, "one read each");
    }
}
