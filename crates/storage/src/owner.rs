//! Whose records a group's are: one replica's, and nobody else's.
//!
//! A replica that was dropped leaves records behind, in segments that other groups still need. When
//! the group comes back as another replica, under a new id and with an empty log, none of them may
//! be taken for its own: not even where index and leader are the same. So the first record of every
//! replica says whose the group is from here on, and since which segments.
//!
//! A replica also ends in memory before it ends on disk: what its dead core still submits, installs
//! or checkpoints is refused. Each handle carries the **life** that it was made in.

use crate::checkpoint;
use crate::codec::{Reader, put_u64, put_varint};
use crate::engine::{Change, Engine, State, dead_error, lock};
use crate::error::ClaimError;
use crate::files::Files;
use crate::markers::Markers;
use crate::segment::{Heat, Segment};
use crate::types::GroupId;
use std::io;

/// The replica that a group's records belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Its id, never used by another placement.
    pub(crate) replica: u64,
    /// Where its records begin.
    pub(crate) since: Since,
}

/// The segments that may hold records of a replica; what older ones hold is another's.
///
/// Both numbers are taken at one moment, after every record of the replica before it. The hot segment
/// of that moment may hold records of both; its footer only lists those of the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Since {
    /// Hot segments from this epoch on.
    pub(crate) hot: u64,
    /// Cold segments after this epoch, which was minted for this purpose: a compaction that began
    /// before it may still be copying what the replica before left.
    pub(crate) cold: u64,
}

impl Since {
    fn covers(self, segment: &Segment) -> bool {
        match segment.heat {
            Heat::Hot => segment.epoch() >= self.hot,
            Heat::Cold => segment.epoch() > self.cold,
        }
    }
}

const OWNER_VERSION: u8 = 1;

impl Owner {
    /// The head of an owner record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![OWNER_VERSION];
        self.put(&mut out);
        out
    }

    pub(crate) fn decode(head: &[u8]) -> Option<Owner> {
        let mut reader = Reader::new(head);
        (reader.u8()? == OWNER_VERSION).then_some(())?;
        let owner = Owner::take(&mut reader)?;
        reader.is_empty().then_some(owner)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.replica);
        put_varint(out, self.since.hot);
        put_varint(out, self.since.cold);
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Option<Owner> {
        Some(Owner {
            replica: reader.u64()?,
            since: Since {
                hot: reader.varint()?,
                cold: reader.varint()?,
            },
        })
    }
}

/// What a claim of a group finds.
enum Standing {
    /// The replica's own.
    Own,
    /// Another replica's.
    Other(u64),
    /// Records of which nobody said whose they are: the volume is older than owner records.
    Unclaimed,
    /// Nothing.
    Empty,
}

impl State {
    /// The life that new handles of a group are made in.
    pub(crate) fn life(&self, group: GroupId) -> u64 {
        self.lives.get(&group).copied().unwrap_or(0)
    }

    /// Takes a segment into the log, without what dropped replicas left in it.
    pub(crate) fn seal(&mut self, mut segment: Segment) {
        let markers = |group: &GroupId| self.groups.get(group).map(|group| &group.markers);
        let strangers: Vec<GroupId> = segment
            .spans
            .keys()
            .filter(|group| markers(group).is_some_and(|markers| !owns(markers, &segment)))
            .copied()
            .collect();
        for group in strangers {
            segment.spans.remove(&group);
        }
        self.sealed.insert(segment.epoch(), segment.into());
    }

    /// Takes out of the sealed segments what a group's owner does not own.
    pub(crate) fn disown(&mut self, group: GroupId) {
        let Some(known) = self.groups.get(&group) else {
            return;
        };
        for segment in self.sealed.values_mut() {
            if segment.spans.contains_key(&group) && !owns(&known.markers, segment) {
                *segment = segment.without(group).into();
            }
        }
    }

    /// The same for every group.
    pub(crate) fn disown_all(&mut self) {
        let groups: Vec<GroupId> = self.groups.keys().copied().collect();
        groups.into_iter().for_each(|group| self.disown(group));
    }

    fn standing(&self, group: GroupId, replica: u64) -> Standing {
        let Some(known) = self.groups.get(&group) else {
            return Standing::Empty;
        };
        match known.markers.owner {
            Some(owner) if owner.replica == replica => Standing::Own,
            Some(owner) => Standing::Other(owner.replica),
            None if known.markers == Markers::default() && known.kept.is_empty() => Standing::Empty,
            None => Standing::Unclaimed,
        }
    }

    /// Where the records begin of a replica that begins now.
    fn since_now(&self, files: &Files) -> Since {
        Since {
            hot: self.active.tag.epoch,
            cold: files.mint().epoch,
        }
    }
}

fn owns(markers: &Markers, segment: &Segment) -> bool {
    let since = markers.owner.map(|owner| owner.since);
    since.is_none_or(|since| since.covers(segment))
}

impl Engine {
    /// Makes a group this replica's if it is nobody's. Returns the life of its handles.
    pub(crate) fn claim(&self, group: GroupId, replica: u64) -> Result<u64, ClaimError> {
        if self.is_dead() {
            return Err(dead_error().into());
        }
        self.sweep(group, replica)?;
        let state = self.state();
        let since = match state.standing(group, replica) {
            Standing::Own => return Ok(state.life(group)),
            Standing::Other(here) => {
                let asked = replica;
                return Err(ClaimError::OtherReplica { group, here, asked });
            }
            Standing::Unclaimed => Since::default(),
            Standing::Empty => state.since_now(&self.files),
        };
        let life = state.life(group);
        let change = Change::Own(Owner { replica, since });
        self.and_wait(|done| self.enqueue(state, group, change, Some(done)))?;
        Ok(life)
    }

    /// Removes the checkpoints that a dropped replica left, if its drop could not.
    fn sweep(&self, group: GroupId, replica: u64) -> io::Result<()> {
        let _one_at_a_time = lock(&self.checkpointing);
        let standing = self.state().standing(group, replica);
        if matches!(standing, Standing::Empty) {
            self.remove_checkpoints(group)?;
        }
        Ok(())
    }

    fn remove_checkpoints(&self, group: GroupId) -> io::Result<()> {
        let removed = checkpoint::remove_group(self.disk(), group);
        // A name whose removal may not be durable would bring back a dropped replica's state.
        removed.inspect_err(|error| self.die("cannot remove a replica's checkpoints", error))
    }

    /// Drops a group. The record comes first: a crash in between leaves files that the next start
    /// removes, never a group without its vote.
    pub(crate) fn forget(&self, group: GroupId, life: u64) -> io::Result<()> {
        self.submit_and_wait(group, life, Change::Forget)?;
        {
            let _one_at_a_time = lock(&self.checkpointing);
            self.remove_checkpoints(group)?;
        }
        self.submit(group, life + 1, Change::Forgotten, None);
        self.reclaim_signal.raise();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn owners_round_trip(replica: u64, hot: u64, cold: u64) {
            let owner = Owner { replica, since: Since { hot, cold } };
            prop_assert_eq!(Owner::decode(&owner.encode()), Some(owner));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..30)) {
            let _ = Owner::decode(&bytes);
        }
    }

    /// The format is a promise: these are the bytes of version 1.
    #[test]
    fn version_1_bytes_still_parse() {
        let bytes = [1, 9, 0, 0, 0, 0, 0, 0, 1, 5, 200, 1];
        let since = Since { hot: 5, cold: 200 };
        let replica = (1 << 56) + 9;
        let owner = Owner { replica, since };
        assert_eq!(Owner::decode(&bytes), Some(owner));
        assert_eq!(owner.encode(), bytes);
    }
}
