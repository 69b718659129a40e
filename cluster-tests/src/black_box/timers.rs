//! How exact a timer of the queue is, seen from outside.
//!
//! A timer may end early by 5 ms and 0.05 % (RELIABILITY R10), for the milliseconds in which the log
//! counts and for the slewing of its clock. It may end late by a second more.
//!
//! One situation needs more. The cluster's time T lies, while it runs, within the wall clocks of its
//! nodes: it starts at their median and is steered towards it. When every node was down at once, no
//! node remembers T and it starts from the wall clocks again (DESIGN section 5, "One clock"). T minus
//! real time was between the slowest and the fastest clock before, and is so after; it changes by at
//! most their difference, however often that happens while a timer runs. So the bound on the clocks is
//! added once, to a timer that spans a time in which T may have been forgotten, and to no other.

use crate::history::{History, Mark};

/// Any timer may be early by this much ...
const SLACK_US: u64 = 5_000;

/// ... and by one part in this many.
const SLACK_PARTS: u64 = 2_000;

/// How much later than on time something must have ended.
const LATE_US: u64 = 1_000_000;

/// When timers end.
#[derive(Debug)]
pub(super) struct Timers {
    /// Disjoint and in order: when T may have been forgotten.
    forgotten: Vec<(u64, u64)>,
    clock_bound_us: u64,
}

impl Timers {
    pub fn of(history: &History) -> Self {
        let spans = history.marks.iter().filter_map(|mark| match mark {
            Mark::TimeForgotten { from_us, until_us } => Some((*from_us, *until_us)),
            Mark::Drained { .. } => None,
        });
        let mut spans: Vec<(u64, u64)> = spans.collect();
        spans.sort_unstable();
        let mut forgotten: Vec<(u64, u64)> = Vec::new();
        for (from, until) in spans {
            match forgotten.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => forgotten.push((from, until)),
            }
        }
        Self {
            forgotten,
            clock_bound_us: history.clock_bound_ms * 1_000,
        }
    }

    /// What the wall clocks add to the slack of a timer that runs in this time.
    fn clock_slack(&self, from: u64, until: u64) -> u64 {
        let next = self.forgotten.partition_point(|span| span.1 < from);
        let spanned = self.forgotten.get(next).is_some_and(|span| span.0 <= until);
        if spanned { self.clock_bound_us } else { 0 }
    }

    /// Whether a timer that was started at `start` or later cannot be over at `at`.
    pub fn is_early(&self, start: u64, timer: u64, at: u64) -> bool {
        let slack = SLACK_US + timer / SLACK_PARTS + self.clock_slack(start, at);
        at.saturating_add(slack) < start.saturating_add(timer)
    }

    /// Until when a timer that was started at `start` or later is certainly not over.
    pub fn not_before(&self, start: u64, timer: u64) -> u64 {
        let end = start.saturating_add(timer);
        let slack = SLACK_US + timer / SLACK_PARTS + self.clock_slack(start, end);
        end.saturating_sub(slack).max(start)
    }

    /// Whether a timer that was started at `start` or earlier must have been over before `at`.
    pub fn is_late(&self, start: u64, timer: u64, at: u64) -> bool {
        let slack = LATE_US + SLACK_US + timer / SLACK_PARTS + self.clock_slack(start, at);
        at > start.saturating_add(timer).saturating_add(slack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn timers(marks: &[(u64, u64)]) -> Timers {
        let mark = |(from_us, until_us): &(u64, u64)| Mark::TimeForgotten {
            from_us: *from_us,
            until_us: *until_us,
        };
        Timers::of(&History {
            clock_bound_ms: 400,
            operations: Vec::new(),
            marks: marks.iter().map(mark).collect(),
        })
    }

    #[test]
    fn a_timer_is_exact_to_five_milliseconds_and_a_little() {
        let timers = timers(&[]);
        let timer = 10 * SECOND;
        assert!(timers.is_early(0, timer, timer - 10_001));
        assert!(!timers.is_early(0, timer, timer - 10_000));
        assert_eq!(timers.not_before(0, timer), timer - 10_000);
        assert!(timers.is_late(0, timer, 11 * SECOND + 10_001));
        assert!(!timers.is_late(0, timer, 11 * SECOND + 10_000));
    }

    #[test]
    fn only_timers_that_span_a_forgotten_time_are_off_by_the_clocks() {
        let timers = timers(&[(3 * SECOND, 4 * SECOND), (4 * SECOND, 5 * SECOND)]);
        let early = 10 * SECOND - 400_000;
        assert!(!timers.is_early(0, 10 * SECOND, early));
        assert!(timers.is_early(0, 10 * SECOND, early - 10_001));
        let (after, before) = (5 * SECOND + 1, 3 * SECOND - 1);
        assert!(timers.is_early(after, 10 * SECOND, after + early));
        assert!(timers.is_early(0, before + 400_000, before));
    }
}
