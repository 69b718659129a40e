//! What becomes of a call that arrives: refused, proposed, parked or answered at once.

use hikyaku_queue::{Operation, QueueId, Reply};
use tokio::time::Instant;

use super::{Host, answer_plainly, refuse};
use crate::partition::{Call, SubmitError};

/// How long those who were told of messages have, in T, before others are.
const TELL_AGAIN_MS: u64 = 20;

impl Host {
    pub(super) fn admit(&mut self, call: Call) {
        if !self.serving {
            let leader_node = self.leadership.borrow().leader_node;
            refuse(
                call,
                SubmitError::NotLeader {
                    leader_node,
                    no_effect: true,
                },
            );
            return;
        }
        if let Operation::ReturnUnread { receive, .. } = call.command.operation {
            self.given_up.note(receive);
        }
        match call.command.operation {
            // A retry of a send that was applied gets its answer, room or not.
            Operation::Send { .. } if self.is_short_of_room() && !self.has_answer(&call) => {
                let full = !self.raft.has_room();
                refuse(
                    call,
                    if full {
                        SubmitError::DiskFull
                    } else {
                        SubmitError::Overloaded
                    },
                );
            }
            Operation::Receive { .. } if call.looks() => self.admit_look(call),
            Operation::Receive { .. } => self.admit_receive(call),
            // A receive that handed nothing out leaves nothing to take back.
            Operation::ReturnUnread { .. }
                if self.proposals.is_empty() && !self.has_taken(&call) =>
            {
                answer_plainly(call, Reply::Returned, self.now_ms());
            }
            _ => self.waiting.push_back(call),
        }
    }

    pub(super) fn is_short_of_room(&self) -> bool {
        !self.raft.has_room() || self.memory.is_exceeded()
    }

    /// Whether the receive that a return is about was answered; one under way may be.
    fn has_taken(&self, call: &Call) -> bool {
        let Operation::ReturnUnread { receive, .. } = &call.command.operation else {
            return false;
        };
        self.group
            .with_machine(|machine| machine.0.has_answer(*receive))
    }

    pub(super) fn has_answer(&self, call: &Call) -> bool {
        self.group
            .with_machine(|machine| machine.0.has_answer(call.command.request_id))
    }

    /// Answers when the queue has something to hand out, or is gone.
    fn admit_look(&mut self, call: Call) {
        let now_ms = self.now_ms();
        let queue = call.command.queue;
        let (gone, candidate) = self.group.with_machine(|machine| {
            let machine = &machine.0;
            (machine.is_gone(queue), machine.has_candidate(queue, now_ms))
        });
        if gone {
            answer_plainly(call, Reply::QueueGone, now_ms);
        } else if candidate {
            answer_empty(call, now_ms);
        } else {
            self.park_or_answer(call, now_ms);
        }
    }

    pub(super) fn is_given_up(&self, call: &Call) -> bool {
        self.given_up.contains(call.command.request_id)
    }

    /// Proposes a receive that may find something, or that has an answer already; the others wait or
    /// are answered without an entry.
    pub(super) fn admit_receive(&mut self, call: Call) {
        let now_ms = self.now_ms();
        if self.is_given_up(&call) {
            return answer_empty(call, now_ms);
        }
        let queue = call.command.queue;
        let repeats_only = matches!(call.command.operation, Operation::Receive { max: 0, .. });
        let (candidate, at_once) = self.group.with_machine(|machine| {
            let machine = &machine.0;
            let again = match &call.command.operation {
                Operation::Receive {
                    attempt_id: Some(attempt_id),
                    ..
                } => machine.is_repeatable(queue, attempt_id, now_ms),
                _ => false,
            };
            let at_once = again
                || machine.has_answer(call.command.request_id)
                || machine.is_gone(queue)
                || (call.wait_until.is_none()
                    && !repeats_only
                    && machine.is_over_in_flight_limit(queue, now_ms));
            let candidate = !repeats_only && machine.has_candidate(queue, now_ms);
            (candidate, at_once)
        });
        // Polls that came before are served before.
        let first_in_line = !self.parking.knows(queue) || call.wait_until.is_none();
        if at_once || (candidate && first_in_line) {
            self.waiting.push_back(call);
            return;
        }
        self.park_or_answer(call, now_ms);
        if candidate {
            self.grant(queue);
        }
    }

    pub(super) fn park_or_answer(&mut self, call: Call, now_ms: u64) {
        let queue = call.command.queue;
        match call.wait_until {
            Some(until)
                if !self.is_given_up(&call)
                    && until > Instant::now()
                    && self.parking.len() < self.limits.parked_polls =>
            {
                self.parking.park(call, until);
                self.refresh_deadline(queue);
            }
            _ => answer_empty(call, now_ms),
        }
    }

    pub(super) fn refresh_deadline(&mut self, queue: QueueId) {
        let now_ms = self.now_ms();
        let deadline = self
            .group
            .with_machine(|machine| machine.0.next_deadline(queue, now_ms));
        self.parking.set_deadline(queue, deadline);
    }

    /// Proposes parked polls of a queue while it has candidates and its window is open. Of those that
    /// only look, as many are told as there are messages; more follow when the messages are still here
    /// a little later.
    pub(super) fn grant(&mut self, queue: QueueId) {
        let now_ms = self.now_ms();
        let mut told = 0;
        while let Some(visible) = self.candidates(queue, now_ms)
            && told < visible
        {
            let Some(call) = self.parking.grant(queue) else {
                break;
            };
            if call.looks() {
                told += 1;
                answer_empty(call, now_ms);
                self.parking.told(queue);
            } else {
                self.waiting.push_back(call);
            }
        }
        if told > 0 && self.parking.knows(queue) {
            self.parking.tell_again(queue, now_ms + TELL_AGAIN_MS);
        }
    }

    /// How many messages of a queue are visible, if one may be handed out.
    fn candidates(&self, queue: QueueId, now_ms: u64) -> Option<u64> {
        self.group.with_machine(|machine| {
            let counts = machine.0.counts(queue, now_ms)?;
            let candidate = machine.0.has_candidate(queue, now_ms);
            candidate.then_some(counts.visible.max(1))
        })
    }
}

pub(super) fn answer_empty(call: Call, now_ms: u64) {
    answer_plainly(call, Reply::Received(Vec::new()), now_ms);
}
