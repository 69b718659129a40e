//! Which term wrote which entries: the leader id that the machine applied, by index.
//!
//! Bodies are looked up by index *and* leader id, so that bytes of an entry that was truncated and
//! written again by another leader are never served.

use hikyaku_storage::LeaderId;

/// Terms by the first index applied in them, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaders(Vec<(u64, LeaderId)>);

impl Leaders {
    pub fn from_starts(starts: Vec<(u64, LeaderId)>) -> Self {
        assert!(
            starts.is_sorted_by_key(|(first, _)| *first),
            "term starts ascend"
        );
        Self(starts)
    }

    pub fn starts(&self) -> &[(u64, LeaderId)] {
        &self.0
    }

    /// Notes that the entry at `index`, just applied, was written by `leader`.
    pub fn applied(&mut self, index: u64, leader: LeaderId) {
        if self.0.last().is_none_or(|(_, last)| *last != leader) {
            self.0.push((index, leader));
        }
    }

    /// The leader that wrote the applied entry at `index`.
    pub fn of(&self, index: u64) -> Option<LeaderId> {
        let after = self.0.partition_point(|(first, _)| *first <= index);
        after.checked_sub(1).map(|position| self.0[position].1)
    }

    /// Forgets what lies wholly below `oldest`, the oldest index anybody may still ask for.
    pub fn forget_below(&mut self, oldest: u64) {
        let after = self.0.partition_point(|(first, _)| *first <= oldest);
        self.0.drain(..after.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(term: u64) -> LeaderId {
        LeaderId { term, node: 0 }
    }

    #[test]
    fn answers_by_index_and_forgets_the_past() {
        let mut leaders = Leaders::default();
        for (index, t) in [(1, 1), (2, 1), (3, 4), (9, 4), (10, 5)] {
            leaders.applied(index, term(t));
        }
        assert_eq!(leaders.of(0), None);
        assert_eq!(leaders.of(2), Some(term(1)));
        assert_eq!(leaders.of(9), Some(term(4)));
        assert_eq!(leaders.of(11), Some(term(5)));
        leaders.forget_below(5);
        assert_eq!(leaders.of(2), None);
        assert_eq!(leaders.of(5), Some(term(4)));
    }
}
