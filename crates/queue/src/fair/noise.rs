//! What noisy groups have, for whoever counts messages.
//!
//! Asked about times that may be ahead of the last settling, as all counts are.

use super::Fair;
use crate::held::{Held, HeldMessages, Wait};

/// The part of noisy groups in a slice's messages.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NoisyCounts {
    pub groups: u64,
    pub messages: u64,
    pub in_flight: u64,
    pub delayed: u64,
}

impl Fair {
    /// Whether a message is of a group that is noisy at `now`.
    pub fn is_noisy(&self, held: Held, now: u64) -> bool {
        let slot = held.fair_group();
        slot.is_some_and(|slot| self.group(slot).is_noisy(now))
    }

    /// The messages of groups that are noisy at `now`, which may be ahead of the last settling.
    pub fn noisy_counts(&self, held: &HeldMessages, now: u64) -> NoisyCounts {
        let mut counts = NoisyCounts::default();
        let noisy = self.noisy.iter().map(|(.., slot)| self.group(*slot));
        for group in noisy.filter(|group| group.is_noisy(now)) {
            counts.groups += 1;
            counts.messages += group.messages();
            counts.in_flight += group.in_flight;
            counts.delayed += group.delayed;
        }
        if counts.groups > 0 {
            let passed = held.released(now).filter_map(|(_, name)| held.get(name));
            for message in passed.filter(|message| self.is_noisy(*message, now)) {
                match held.wait(message) {
                    Wait::InFlight => counts.in_flight -= 1,
                    Wait::Delayed => counts.delayed -= 1,
                    Wait::Receive => (),
                }
            }
        }
        counts
    }
}
