//! What a group's log remembers beside its entries: vote, purge mark, committed, last, leaders.
//!
//! The same value lives twice: as submitted (what the group reads back at once) and as written
//! (what the writer restates at the head of every new segment, so that no old segment ever holds
//! the only vote). Both change through the same methods.
//!
//! `leaders` says who wrote each unpurged entry, as runs. With it an (index, leader) pair picks the
//! one right copy of an entry wherever copies lie, and stale ones need not be erased.

use crate::codec::{Reader, put_u64, put_varint};
use crate::owner::Owner;
use crate::record::{Kind, RecordView};
use crate::types::{GroupId, GroupState, LeaderId, LogId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// A group's markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Markers {
    pub(crate) vote: Option<Bytes>,
    pub(crate) committed: Option<LogId>,
    pub(crate) purged: Option<LogId>,
    pub(crate) last: Option<LogId>,
    /// (first index, leader) of the unpurged entries, ascending.
    pub(crate) leaders: Vec<(u64, LeaderId)>,
    /// Whose records they are; `None` on a volume that is older than owner records.
    pub(crate) owner: Option<Owner>,
}

/// The version that is written. Version 1 knew no owner.
const STATE_VERSION: u8 = 2;

impl Markers {
    pub(crate) fn append(&mut self, id: LogId) {
        if let Some(last) = self.last {
            assert_eq!(
                id.index,
                last.index + 1,
                "entries are appended without a gap"
            );
        }
        if self
            .leaders
            .last()
            .is_none_or(|(_, leader)| *leader != id.leader)
        {
            self.leaders.push((id.index, id.leader));
        }
        self.last = Some(id);
    }

    /// Voids the entries after `last_kept`; what is purged stays purged.
    pub(crate) fn truncate(&mut self, last_kept: Option<LogId>) {
        let kept = last_kept.max_by_index(self.purged);
        let next = kept.map_or(0, |id| id.index + 1);
        if self.last.is_none_or(|last| last.index < next) {
            return;
        }
        self.leaders.retain(|(first, _)| *first < next);
        self.last = kept;
        self.clamp_committed();
    }

    pub(crate) fn purge(&mut self, upto: LogId) {
        self.purged = Some(upto).max_by_index(self.purged);
        let next = upto.index + 1;
        if self.last.is_none_or(|last| last.index <= upto.index) {
            self.last = Some(upto).max_by_index(self.last);
            self.leaders.clear();
            return;
        }
        let at = self.leaders.partition_point(|(first, _)| *first <= next);
        self.leaders.drain(..at.saturating_sub(1));
        if let Some((first, _)) = self.leaders.first_mut() {
            *first = next.max(*first);
        }
    }

    pub(crate) fn commit(&mut self, committed: Option<LogId>) {
        self.committed = committed;
        self.clamp_committed();
    }

    /// A committed mark may be newer than a tail that was lost: it never points past the log.
    fn clamp_committed(&mut self) {
        if self.committed.map(|id| id.index) > self.last.map(|id| id.index) {
            self.committed = self.last;
        }
    }

    /// The first index that can be read.
    pub(crate) fn first_index(&self) -> u64 {
        self.leaders.first().map_or_else(
            || self.last.map_or(0, |last| last.index + 1),
            |(first, _)| *first,
        )
    }

    /// The index after the last.
    pub(crate) fn next_index(&self) -> u64 {
        self.last.map_or(0, |last| last.index + 1)
    }

    /// Who wrote the entry at an unpurged index.
    pub(crate) fn leader_of(&self, index: u64) -> Option<LeaderId> {
        (index < self.next_index())
            .then(|| leader_at(&self.leaders, index))
            .flatten()
    }

    pub(crate) fn state(&self) -> GroupState {
        GroupState {
            vote: self.vote.clone(),
            committed: self.committed,
            last_purged: self.purged,
            last: self.last,
            owner: self.owner.map(|owner| owner.replica),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![STATE_VERSION];
        match &self.vote {
            None => put_varint(&mut out, 0),
            Some(vote) => {
                put_varint(&mut out, vote.len() as u64 + 1);
                out.extend_from_slice(vote);
            }
        }
        for id in [self.committed, self.purged, self.last] {
            put_log_id(&mut out, id);
        }
        put_varint(&mut out, self.leaders.len() as u64);
        for (first, leader) in &self.leaders {
            put_varint(&mut out, *first);
            put_leader(&mut out, *leader);
        }
        out.push(u8::from(self.owner.is_some()));
        if let Some(owner) = self.owner {
            owner.put(&mut out);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Markers> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        if !(1..=STATE_VERSION).contains(&version) {
            return None;
        }
        let vote = match reader.varint()? {
            0 => None,
            more => {
                let len = usize::try_from(more - 1).ok()?;
                Some(Bytes::copy_from_slice(reader.bytes(len)?))
            }
        };
        let committed = log_id(&mut reader)?;
        let purged = log_id(&mut reader)?;
        let last = log_id(&mut reader)?;
        let count = reader.count()?;
        let mut leaders = Vec::with_capacity(count);
        for _ in 0..count {
            leaders.push((reader.index()?, leader(&mut reader)?));
        }
        let owner = match version {
            1 => None,
            _ => match reader.u8()? {
                0 => None,
                1 => Some(Owner::take(&mut reader)?),
                _ => return None,
            },
        };
        reader.is_empty().then_some(Markers {
            vote,
            committed,
            purged,
            last,
            leaders,
            owner,
        })
    }

    /// Replays a record of this group. `None` if its content makes no sense.
    pub(crate) fn replay(&mut self, record: &RecordView<'_>) -> Option<()> {
        let named = (!record.head.is_empty()).then_some(record.id);
        match record.kind {
            Kind::Entry
                if self
                    .last
                    .is_some_and(|last| record.id.index != last.index + 1) =>
            {
                return None;
            }
            Kind::Entry => self.append(record.id),
            Kind::Vote => self.vote = Some(Bytes::copy_from_slice(record.head)),
            Kind::Truncate => self.truncate(named),
            Kind::Purge => self.purge(record.id),
            Kind::Committed => self.commit(named),
            Kind::State => *self = Markers::decode(record.head)?,
            Kind::Forget => *self = Markers::default(),
            Kind::Owner => self.owner = Some(Owner::decode(record.head)?),
            Kind::Cold | Kind::Replaces => return None,
        }
        Some(())
    }
}

/// What every group's markers are, as written.
#[derive(Default)]
pub(crate) struct Persisted {
    pub(crate) groups: BTreeMap<GroupId, Markers>,
    /// Dropped groups whose checkpoint files may still be there.
    pub(crate) forgetting: BTreeSet<GroupId>,
}

impl Persisted {
    /// The markers of a group that something is written for: it is not being dropped any longer.
    pub(crate) fn markers(&mut self, group: GroupId) -> &mut Markers {
        self.forgetting.remove(&group);
        self.groups.entry(group).or_default()
    }

    pub(crate) fn forget(&mut self, group: GroupId) {
        self.groups.remove(&group);
        self.forgetting.insert(group);
    }
}

/// The leader of an index in ascending runs.
pub(crate) fn leader_at(leaders: &[(u64, LeaderId)], index: u64) -> Option<LeaderId> {
    let at = leaders.partition_point(|(first, _)| *first <= index);
    Some(leaders.get(at.checked_sub(1)?)?.1)
}

trait MaxByIndex {
    fn max_by_index(self, other: Self) -> Self;
}

impl MaxByIndex for Option<LogId> {
    fn max_by_index(self, other: Option<LogId>) -> Option<LogId> {
        if self.map(|id| id.index) >= other.map(|id| id.index) {
            self
        } else {
            other
        }
    }
}

pub(crate) fn put_leader(out: &mut Vec<u8>, leader: LeaderId) {
    put_varint(out, leader.term);
    put_u64(out, leader.node);
}

pub(crate) fn leader(reader: &mut Reader<'_>) -> Option<LeaderId> {
    Some(LeaderId {
        term: reader.varint()?,
        node: reader.u64()?,
    })
}

fn put_log_id(out: &mut Vec<u8>, id: Option<LogId>) {
    out.push(u8::from(id.is_some()));
    if let Some(id) = id {
        put_leader(out, id.leader);
        put_varint(out, id.index);
    }
}

fn log_id(reader: &mut Reader<'_>) -> Option<Option<LogId>> {
    match reader.u8()? {
        0 => Some(None),
        1 => Some(Some(LogId {
            leader: leader(reader)?,
            index: reader.index()?,
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::INDEX_END;
    use crate::owner::Since;
    use crate::record::{Record, Tag};
    use proptest::prelude::*;

    fn id(term: u64, index: u64) -> LogId {
        LogId {
            leader: LeaderId { term, node: 1 },
            index,
        }
    }

    fn appended(ids: &[LogId]) -> Markers {
        let mut markers = Markers::default();
        ids.iter().for_each(|id| markers.append(*id));
        markers
    }

    #[test]
    fn an_index_that_no_log_reaches_is_damage() {
        for (index, read) in [(INDEX_END - 1, true), (INDEX_END, false), (u64::MAX, false)] {
            let markers = Markers {
                last: Some(id(1, index)),
                ..Markers::default()
            };
            let markers = Markers::decode(&markers.encode());
            assert_eq!(markers.is_some(), read, "{index}");
            assert!(markers.is_none_or(|markers| markers.next_index() == INDEX_END));
            let tag = Tag { epoch: 1, salt: 2 };
            let mut record = Vec::new();
            Record::marker(Kind::Purge, GroupId(1), id(1, index), b"")
                .encode_head(tag, &mut record);
            assert_eq!(RecordView::parse(&record, tag).is_some(), read, "{index}");
        }
    }

    #[test]
    fn leaders_are_known_for_unpurged_entries_only() {
        let mut markers = appended(&[id(1, 0), id(1, 1), id(2, 2), id(2, 3), id(4, 4)]);
        assert_eq!(markers.leader_of(1), Some(id(1, 1).leader));
        markers.purge(id(2, 2));
        assert_eq!(markers.leader_of(2), None);
        assert_eq!(markers.leader_of(3), Some(id(2, 3).leader));
        assert_eq!(markers.leader_of(4), Some(id(4, 4).leader));
        assert_eq!(markers.leader_of(5), None);
        assert_eq!((markers.first_index(), markers.next_index()), (3, 5));
    }

    #[test]
    fn truncation_keeps_what_is_purged() {
        let mut markers = appended(&[id(1, 0), id(1, 1), id(2, 2)]);
        markers.commit(Some(id(2, 2)));
        markers.purge(id(1, 0));
        markers.truncate(None);
        assert_eq!(markers.last, Some(id(1, 0)));
        assert_eq!(markers.committed, Some(id(1, 0)));
        markers.append(id(3, 1));
        assert_eq!(markers.leader_of(1), Some(id(3, 1).leader));
    }

    #[test]
    fn a_purge_past_the_end_moves_the_end() {
        let mut markers = appended(&[id(1, 0)]);
        markers.purge(id(5, 100));
        assert_eq!((markers.first_index(), markers.next_index()), (101, 101));
        markers.append(id(5, 101));
        assert_eq!(markers.leader_of(101), Some(id(5, 101).leader));
    }

    /// Version 1, of which only the end differs: it knew no owner.
    #[test]
    fn version_1_bytes_still_parse() {
        let mut markers = appended(&[id(1, 0), id(2, 1)]);
        markers.vote = Some(Bytes::from_static(b"v"));
        markers.commit(Some(id(1, 0)));
        let leader = |term: u8| [term, 1, 0, 0, 0, 0, 0, 0, 0];
        let one = [&[1][..], &leader(1), &[0]].concat();
        let last = [&[1][..], &leader(2), &[1]].concat();
        let runs = [&[2, 0][..], &leader(1), &[1], &leader(2)].concat();
        let bytes = [&[1, 2, b'v'][..], &one, &[0], &last, &runs].concat();
        assert_eq!(Markers::decode(&bytes), Some(markers.clone()));
        let now = markers.encode();
        assert_eq!(now[0], 2);
        assert_eq!(now[1..], [&bytes[1..], &[0]].concat());
    }

    proptest! {
        #[test]
        fn markers_round_trip(
            terms in proptest::collection::vec(0u64..5, 0..20), purge in 0u64..20, vote: Option<u8>,
            owner: Option<(u64, u64, u64)>,
        ) {
            let mut markers = Markers::default();
            let mut terms = terms;
            terms.sort_unstable();
            for (index, term) in terms.iter().enumerate() {
                markers.append(id(*term, index as u64));
            }
            if let Some(term) = terms.get(purge as usize) {
                markers.purge(id(*term, purge));
            }
            markers.vote = vote.map(|byte| Bytes::from(vec![byte]));
            let owned = |(replica, hot, cold)| Owner { replica, since: Since { hot, cold } };
            markers.owner = owner.map(owned);
            prop_assert_eq!(Markers::decode(&markers.encode()), Some(markers));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Markers::decode(&bytes);
        }
    }
}
