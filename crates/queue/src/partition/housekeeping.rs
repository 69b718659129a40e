//! Dropping what has outlived its time when no command comes to do it.
//!
//! Retention, deduplication windows, receive attempts, answered requests, tombstones and idle
//! slices. One round does a bounded amount of work, so that no entry takes long to apply.

use super::{Partition, without_effect};
use crate::ids::QueueId;
use crate::reply::{Outcome, Reply};

/// Things dropped, and slices visited, in one round: some milliseconds.
const BUDGET: usize = 10_000;

impl Partition {
    /// Whether a [`crate::Operation::Housekeep`] applied at `now` would drop something.
    pub fn housekeeping_due(&self, now: u64) -> bool {
        let agenda = self.agenda.first().map(|(at, _)| *at);
        let next = agenda.into_iter().chain(self.requests.next_end()).min();
        next.is_some_and(|at| at <= now)
    }

    pub(super) fn housekeep(&mut self) -> Outcome {
        let now = self.applied.now;
        let mut outcome = without_effect(Reply::Housekept);
        let mut budget = BUDGET;
        self.requests.settle(now, &mut budget);
        while budget > 0
            && let Some((at, queue)) = self.agenda.first().copied()
            && at <= now
        {
            budget -= 1;
            if self.tombstones.remove(&queue).is_some() {
                self.agenda.remove(&(at, queue));
            } else {
                self.tidy(queue, &mut budget, &mut outcome);
            }
        }
        outcome
    }

    fn tidy(&mut self, queue: QueueId, budget: &mut usize, outcome: &mut Outcome) {
        let now = self.applied.now;
        let Some(hosted) = self.slices.get_mut(&queue) else {
            return;
        };
        let slice = &mut hosted.slice;
        let is_idle = slice.is_empty();
        slice.settle_within(now, budget);
        if is_idle {
            self.remove_slice(queue);
            return;
        }
        if slice.has_candidate(now) {
            outcome.effects.receivable.push(queue);
        }
        outcome.effects.deadline_changed.push(queue);
        self.refile(queue);
    }
}
