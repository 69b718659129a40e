//! One message group of a standard queue, and the time that its messages take.

use std::sync::Arc;

use super::{Due, QUIET_AFTER_MS};
use crate::ids::PackedName;
use crate::runs::Runs;

/// Processing time counts half after each such window of T.
const WINDOW_MS: u64 = 60_000;

/// More than slices can have: so many in flight, all the time. A bound for what is read.
const RECENT_MAX: u64 = 1 << 52;

/// The messages of one message group: those never handed out, and how many others.
#[derive(Debug)]
pub(super) struct Group {
    pub key: Arc<str>,
    pub waiting: Runs,
    /// Messages that are held, or just being handed out.
    pub held: u64,
    pub in_flight: u64,
    pub delayed: u64,
    /// T of the last send.
    pub sent_at: u64,
    pub noisy_since: Option<u64>,
    pub processing: Processing,
    /// Under what the group stands in the orders.
    pub filed: Filed,
}

/// The places of a group in the orders that groups are found by.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filed {
    pub fresh: Option<PackedName>,
    pub again: Option<Due>,
    /// What a noisy group has in flight, and when it is quiet again.
    pub noisy: Option<(u64, u64)>,
}

/// What a group costs beside its key and what is counted by the message: itself in a vector that
/// doubles; 24, 24 and 16 in the maps of keys and heads at two thirds; 32 for the shared key's header
/// and rounding; 64 for the first allocation of its runs.
pub(super) const GROUP_BYTES: usize =
    size_of::<Option<Group>>() * 4 / 3 + (24 + 24 + 16) * 3 / 2 + 32 + 64;

impl Group {
    pub fn new(key: Arc<str>, now: u64) -> Self {
        Self {
            key,
            waiting: Runs::default(),
            held: 0,
            in_flight: 0,
            delayed: 0,
            sent_at: now,
            noisy_since: None,
            processing: Processing::from(now),
            filed: Filed::default(),
        }
    }

    pub fn messages(&self) -> u64 {
        self.waiting.messages() + self.held
    }

    /// Messages that are not in flight.
    pub fn backlog(&self) -> u64 {
        self.messages() - self.in_flight
    }

    /// Under what a noisy group is filed.
    pub fn noisy(&self) -> Option<(u64, u64)> {
        let since = self.noisy_since?;
        let until = since.max(self.sent_at).saturating_add(QUIET_AFTER_MS);
        Some((self.in_flight, until))
    }

    /// Whether the group is noisy at `now`, which may be ahead of the last settling.
    pub fn is_noisy(&self, now: u64) -> bool {
        self.noisy().is_some_and(|(_, until)| until > now)
    }
}

/// The time that messages spent in flight, added up, of late: with each full minute of T what was before
/// counts half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Processing {
    /// Milliseconds of messages.
    pub recent_ms: u64,
    /// T up to which it is counted.
    pub counted_to: u64,
}

impl Processing {
    pub fn from(now: u64) -> Self {
        Self {
            recent_ms: 0,
            counted_to: now,
        }
    }

    /// Counts that so many messages were in flight until `now`.
    pub fn pass(&mut self, in_flight: u64, now: u64) {
        loop {
            let end = (self.counted_to / WINDOW_MS + 1) * WINDOW_MS;
            if end > now {
                break;
            }
            let whole = end - self.counted_to;
            let halved = (self.recent_ms + in_flight * whole) / 2;
            // What another window does not change, no number of them does.
            let is_steady = halved == self.recent_ms && whole == WINDOW_MS;
            self.counted_to = if is_steady {
                now - now % WINDOW_MS
            } else {
                end
            };
            self.recent_ms = halved;
        }
        self.recent_ms += in_flight * (now - self.counted_to);
        self.counted_to = now;
    }

    /// Milliseconds of messages.
    pub fn recent(self) -> u64 {
        self.recent_ms
    }

    /// Whether this can be so at T `now`.
    pub fn is_possible(self, now: u64) -> bool {
        self.recent_ms < RECENT_MAX && self.counted_to <= now
    }
}

#[cfg(test)]
mod tests {
    use super::{Processing, WINDOW_MS};
    use proptest::prelude::*;

    #[test]
    fn counts_half_after_each_minute() {
        let mut processing = Processing::from(0);
        processing.pass(3, 1_000);
        assert_eq!(processing.recent(), 3_000);
        processing.pass(0, WINDOW_MS);
        assert_eq!(processing.recent(), 1_500);
        processing.pass(0, 3 * WINDOW_MS - 1);
        assert_eq!(processing.recent(), 750);
    }

    #[test]
    fn a_long_time_at_one_level_is_counted_in_few_steps() {
        let mut processing = Processing::from(1);
        processing.pass(120_000, 1 << 43);
        let steady = 120_000 * WINDOW_MS;
        assert!((steady - 1..2 * steady).contains(&processing.recent()));
        processing.pass(0, (1 << 43) + (1 << 40));
        assert_eq!(processing.recent(), 0);
    }

    proptest! {
        /// When it is asked in between changes nothing.
        #[test]
        fn is_the_same_in_one_step_and_in_many(
            steps in prop::collection::vec((0..50u64, 0..10 * WINDOW_MS), 1..20),
            cut in 1..5u64,
        ) {
            let (mut one, mut many) = (Processing::from(7), Processing::from(7));
            let mut now = 7;
            for (in_flight, step) in steps {
                for part in 1..=cut {
                    many.pass(in_flight, now + step * part / cut);
                }
                now += step;
                one.pass(in_flight, now);
                prop_assert_eq!(one, many);
            }
        }
    }
}
