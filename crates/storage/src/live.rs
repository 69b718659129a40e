//! The bodies that a checkpoint still names, as runs that can be searched.
//!
//! Long runs are split, so that the runs which may contain an index are found by looking back a
//! bounded distance; nothing is kept per message.

use crate::codec::{Reader, put_varint};
use crate::types::{LiveRun, LogId};

/// Runs are split into pieces of at most this many log indexes.
const PIECE: u64 = 1024;

/// A searchable set of live names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveSet {
    pieces: Vec<LiveRun>,
}

impl LiveSet {
    pub(crate) fn new(runs: &[LiveRun]) -> LiveSet {
        let mut pieces = Vec::with_capacity(runs.len());
        for run in runs.iter().filter(|run| run.count > 0) {
            let mut done = 0;
            while done < run.entries {
                let entries = (run.entries - done).min(PIECE);
                pieces.push(LiveRun {
                    first_index: run.first_index + done,
                    entries,
                    ..*run
                });
                done += entries;
            }
        }
        pieces.sort_unstable();
        LiveSet { pieces }
    }

    /// The pieces that may contain indexes of `low..=high`.
    fn around(&self, low: u64, high: u64) -> impl Iterator<Item = &LiveRun> {
        let from = low.saturating_sub(PIECE - 1);
        let start = self
            .pieces
            .partition_point(|piece| piece.first_index < from);
        self.pieces[start..]
            .iter()
            .take_while(move |piece| piece.first_index <= high)
            .filter(move |piece| piece.first_index + piece.entries > low)
    }

    /// How many bodies are live in the indexes `low..=high`.
    pub(crate) fn count(&self, low: u64, high: u64) -> u64 {
        self.around(low, high)
            .map(|piece| {
                let from = piece.first_index.max(low);
                let to = (piece.first_index + piece.entries - 1).min(high);
                (to - from + 1) * u64::from(piece.count)
            })
            .sum()
    }

    /// Whether one body is live.
    pub(crate) fn contains(&self, index: u64, ordinal: u32) -> bool {
        self.around(index, index)
            .any(|piece| ordinal >= piece.ordinal && ordinal - piece.ordinal < piece.count)
    }

    /// The live names from one on, in order.
    pub(crate) fn names_from(
        &self,
        index: u64,
        ordinal: u32,
    ) -> impl Iterator<Item = (u64, u32)> + '_ {
        let mut at = index;
        let mut waiting: std::vec::IntoIter<u32> = Vec::new().into_iter();
        let mut current = index;
        std::iter::from_fn(move || {
            loop {
                if let Some(next) = waiting.next() {
                    if (current, next) >= (index, ordinal) {
                        return Some((current, next));
                    }
                    continue;
                }
                current = self.next_index(at)?;
                at = current + 1;
                waiting = self.ordinals(current).into_iter();
            }
        })
    }

    /// The first index at or after `from` with a live body.
    fn next_index(&self, from: u64) -> Option<u64> {
        let first = self.around(from, u64::MAX).next()?;
        Some(first.first_index.max(from))
    }

    fn ordinals(&self, index: u64) -> Vec<u32> {
        let mut ordinals: Vec<u32> = self
            .around(index, index)
            .flat_map(|piece| piece.ordinal..piece.ordinal + piece.count)
            .collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        ordinals
    }
}

/// The form of runs on disk: deltas, so that neighbours cost a few bytes.
pub(crate) fn encode(runs: &[LiveRun]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, runs.len() as u64);
    let mut previous = 0u64;
    for run in runs {
        put_varint(&mut out, run.first_index.wrapping_sub(previous));
        put_varint(&mut out, run.entries);
        put_varint(&mut out, u64::from(run.ordinal));
        put_varint(&mut out, u64::from(run.count));
        previous = run.first_index;
    }
    out
}

/// Reads what `encode` wrote for a checkpoint after the entry `last`: what it names was applied.
pub(crate) fn decode(bytes: &[u8], last: LogId) -> Option<Vec<LiveRun>> {
    let mut reader = Reader::new(bytes);
    let count = reader.count()?;
    let mut runs = Vec::with_capacity(count);
    let mut previous = 0u64;
    for _ in 0..count {
        let run = LiveRun {
            first_index: previous.wrapping_add(reader.varint()?),
            entries: reader.varint()?,
            ordinal: reader.varint32()?,
            count: reader.varint32()?,
        };
        if !run.is_up_to(last) {
            return None;
        }
        previous = run.first_index;
        runs.push(run);
    }
    reader.is_empty().then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::LeaderId;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn run() -> impl Strategy<Value = LiveRun> {
        (0u64..3000, 0u64..2500, 0u32..6, 0u32..4).prop_map(
            |(first_index, entries, ordinal, count)| LiveRun {
                first_index,
                entries,
                ordinal,
                count,
            },
        )
    }

    /// Runs that name no body twice, as the machine makes them.
    fn disjoint(runs: Vec<LiveRun>) -> (Vec<LiveRun>, BTreeSet<(u64, u32)>) {
        let mut names = BTreeSet::new();
        let mut kept = Vec::new();
        for run in runs {
            let own: Vec<(u64, u32)> = (run.first_index..run.first_index + run.entries)
                .flat_map(|index| (run.ordinal..run.ordinal + run.count).map(move |o| (index, o)))
                .collect();
            if own.iter().all(|name| !names.contains(name)) {
                names.extend(own);
                kept.push(run);
            }
        }
        kept.sort_unstable();
        (kept, names)
    }

    #[test]
    fn runs_beyond_what_was_applied_are_damage() {
        let run = LiveRun {
            first_index: 3,
            ordinal: 0,
            entries: 5,
            count: 2,
        };
        let last = |index| LogId {
            leader: LeaderId { term: 1, node: 1 },
            index,
        };
        assert!(decode(&encode(&[run]), last(7)).is_some());
        assert!(decode(&encode(&[run]), last(6)).is_none());
        let endless = [
            LiveRun {
                entries: u64::MAX,
                ..run
            },
            LiveRun {
                count: u32::MAX,
                ..run
            },
        ];
        for run in endless {
            assert!(decode(&encode(&[run]), last(7)).is_none(), "{run:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn agrees_with_a_plain_set(
            runs in proptest::collection::vec(run(), 0..6), low in 0u64..5000, width in 0u64..3000,
        ) {
            let (runs, names) = disjoint(runs);
            let live = LiveSet::new(&runs);
            let within = names.range((low, 0)..=(low + width, u32::MAX)).count() as u64;
            prop_assert_eq!(live.count(low, low + width), within);
            for ordinal in 0..10 {
                prop_assert_eq!(live.contains(low, ordinal), names.contains(&(low, ordinal)));
            }
            let listed: Vec<(u64, u32)> = live.names_from(low, 2).collect();
            let expected: Vec<(u64, u32)> = names.range((low, 2)..).copied().collect();
            prop_assert_eq!(listed, expected);
        }

        #[test]
        fn runs_round_trip(runs in proptest::collection::vec(run(), 0..20)) {
            let last = LogId { leader: LeaderId { term: 1, node: 1 }, index: 10_000 };
            prop_assert_eq!(decode(&encode(&runs), last), Some(runs));
        }
    }
}
