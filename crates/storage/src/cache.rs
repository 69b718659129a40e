//! The hot tail: the newest entries of every group, in memory.
//!
//! It serves replication, apply and most receives, and it is where entries are read from before
//! they are written: an entry is never evicted before its round is published. Bounded in bytes for
//! the whole node; the oldest entry goes first, whatever its group. A group's cached entries are
//! always consecutive and reach up to its last.

use crate::types::{Entry, GroupId, LeaderId};
use std::collections::{BTreeMap, VecDeque};

/// Entries are numbered in the order in which they were submitted.
pub(crate) type Sequence = u64;

struct Place {
    sequence: Sequence,
    group: GroupId,
}

/// The hot tail cache of a node.
pub(crate) struct TailCache {
    limit: usize,
    bytes: usize,
    tails: BTreeMap<GroupId, VecDeque<(Sequence, Entry)>>,
    /// In the order of submission; may name entries that were truncated since.
    ring: VecDeque<Place>,
    next: Sequence,
    /// Entries before this one are on disk.
    published: Sequence,
}

impl TailCache {
    pub(crate) fn new(limit: usize) -> TailCache {
        TailCache {
            limit,
            bytes: 0,
            tails: BTreeMap::new(),
            ring: VecDeque::new(),
            next: 0,
            published: 0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number after the last entry pushed.
    pub(crate) fn next_sequence(&self) -> Sequence {
        self.next
    }

    pub(crate) fn push(&mut self, group: GroupId, entry: Entry) {
        let tail = self.tails.entry(group).or_default();
        if tail
            .back()
            .is_some_and(|(_, last)| last.id.index + 1 != entry.id.index)
        {
            self.bytes -= tail.drain(..).map(|(_, old)| old.weight()).sum::<usize>();
        }
        self.bytes += entry.weight();
        self.ring.push_back(Place {
            sequence: self.next,
            group,
        });
        tail.push_back((self.next, entry));
        self.next += 1;
    }

    /// Forgets a group's entries from an index on.
    pub(crate) fn truncate(&mut self, group: GroupId, from: u64) {
        let Some(tail) = self.tails.get_mut(&group) else {
            return;
        };
        while let Some((_, entry)) = tail.pop_back_if(|(_, entry)| entry.id.index >= from) {
            self.bytes -= entry.weight();
        }
    }

    pub(crate) fn forget(&mut self, group: GroupId) {
        self.truncate(group, 0);
        self.tails.remove(&group);
    }

    /// Entries before `sequence` are on disk now: evicts what is over the limit.
    pub(crate) fn publish(&mut self, sequence: Sequence) {
        self.published = self.published.max(sequence);
        while let Some(place) = self.ring.front() {
            let stale = !self.holds(place);
            if place.sequence >= self.published || (self.bytes <= self.limit && !stale) {
                return;
            }
            if let Some(place) = self.ring.pop_front().filter(|_| !stale) {
                let tail = self.tails.entry(place.group).or_default();
                if let Some((_, entry)) = tail.pop_front() {
                    self.bytes -= entry.weight();
                }
            }
        }
    }

    /// Whether the entry is the first of its group's tail (older ones went before it).
    fn holds(&self, place: &Place) -> bool {
        let first = self.tails.get(&place.group).and_then(VecDeque::front);
        first.is_some_and(|(sequence, _)| *sequence == place.sequence)
    }

    pub(crate) fn get(&self, group: GroupId, index: u64) -> Option<&Entry> {
        let tail = self.tails.get(&group)?;
        let first = tail.front()?.1.id.index;
        let at = usize::try_from(index.checked_sub(first)?).ok()?;
        Some(&tail.get(at)?.1)
    }

    /// An entry, only if that leader wrote it.
    pub(crate) fn get_by(&self, group: GroupId, index: u64, leader: LeaderId) -> Option<&Entry> {
        self.get(group, index)
            .filter(|entry| entry.id.leader == leader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::LogId;
    use bytes::Bytes;

    const GROUP: GroupId = GroupId(1);

    fn entry(term: u64, index: u64, size: usize) -> Entry {
        let id = LogId {
            leader: LeaderId { term, node: 1 },
            index,
        };
        Entry {
            id,
            head: Bytes::new(),
            bodies: vec![Bytes::from(vec![0; size])],
        }
    }

    #[test]
    fn evicts_the_oldest_but_nothing_unpublished() {
        let mut cache = TailCache::new(3000);
        for index in 0..5 {
            cache.push(GROUP, entry(1, index, 1000));
        }
        cache.publish(0);
        assert!(cache.get(GROUP, 0).is_some(), "nothing is on disk yet");
        cache.publish(4);
        assert!(cache.get(GROUP, 2).is_none());
        assert!(cache.get(GROUP, 3).is_some() && cache.get(GROUP, 4).is_some());
        assert!(cache.bytes() <= 3000);
    }

    #[test]
    fn truncated_entries_are_gone_and_their_bytes_with_them() {
        let mut cache = TailCache::new(10_000);
        for index in 0..4 {
            cache.push(GROUP, entry(1, index, 1000));
        }
        cache.truncate(GROUP, 2);
        cache.push(GROUP, entry(2, 2, 10));
        assert_eq!(cache.get(GROUP, 2).unwrap().id.leader.term, 2);
        assert!(
            cache
                .get_by(GROUP, 2, LeaderId { term: 1, node: 1 })
                .is_none()
        );
        assert!(cache.get(GROUP, 3).is_none());
        cache.forget(GROUP);
        assert_eq!(cache.bytes(), 0);
        cache.publish(cache.next_sequence());
        assert!(cache.ring.is_empty(), "stale places leave the ring");
    }

    #[test]
    fn a_gap_starts_the_tail_anew() {
        let mut cache = TailCache::new(10_000);
        cache.push(GROUP, entry(1, 0, 10));
        cache.push(GROUP, entry(1, 50, 10));
        assert!(cache.get(GROUP, 0).is_none());
        assert!(cache.get(GROUP, 50).is_some());
    }
}
