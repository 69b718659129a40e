//! The calls about messages: what of them takes effect, when, and what the client is told.

use rand::RngExt;

use super::queue::Offered;
use super::{Deed, MS_US, SECOND_US, World};
use crate::history::{
    Action, ChangeEntry, Content, DeleteEntry, Delivery, Mentions, Outcome, Receive, SendEntry,
    Sent,
};

impl World {
    pub(super) fn send(&mut self, queue: usize) {
        let count = self.rng.random_range(1..=3);
        let lost = self.lost();
        let answered = self.told(()).ok().is_some() && lost.is_none();
        let mut entries = Vec::new();
        let mut again = Vec::new();
        for _ in 0..count {
            self.next += 1;
            let refused = answered && self.rng.random_ratio(1, 30);
            let offered = self.queues[queue].offer(self.next, &mut self.rng);
            let outcome = match lost {
                _ if refused => Outcome::Fail,
                Some(None) => Outcome::Info,
                Some(Some(at)) => {
                    self.later(at, queue, Deed::LateSend(offered.clone()));
                    Outcome::Info
                }
                None => {
                    let sent = self.queues[queue].accept(&offered, self.t);
                    if answered {
                        Outcome::Ok(sent)
                    } else {
                        Outcome::Info
                    }
                }
            };
            entries.push(entry(&offered, outcome, answered, refused));
            again.push(offered);
        }
        let returned = self.record(queue, false, Action::Send { entries });
        // FIFO producers try again under the same deduplication ids.
        if !answered && self.queues[queue].fifo {
            self.pass(returned + MS_US - self.now);
            let sent = again.into_iter().map(|offered| {
                let sent = self.queues[queue].accept(&offered, self.t);
                entry(&offered, Outcome::Ok(sent), true, false)
            });
            let entries = sent.collect();
            self.record(queue, true, Action::Send { entries });
        }
    }

    pub(super) fn receive(&mut self, queue: usize, attempt: Option<String>) {
        let max = self.rng.random_range(1..=10);
        let own = self.rng.random_range(1..6);
        let timeout_s = self.rng.random_ratio(1, 3).then_some(own);
        let new_attempt = self.queues[queue].fifo && self.rng.random_ratio(1, 4);
        let repeated = attempt.is_some();
        let attempt = attempt.or_else(|| {
            self.next += 1;
            new_attempt.then(|| format!("attempt {}", self.next))
        });
        let outcome = match self.lost() {
            Some(late) => {
                if let Some(at) = late.filter(|_| attempt.is_none()) {
                    self.later(at, queue, Deed::LateReceive);
                }
                Outcome::Info
            }
            None => {
                let taken = self.take(queue, max, timeout_s, attempt.as_deref());
                self.told(taken)
            }
        };
        let action = Action::Receive(Receive {
            max: max as u32,
            wait_ms: None,
            visibility_timeout_ms: timeout_s.map(|seconds| seconds * 1_000),
            attempt_id: attempt.clone(),
            outcome: outcome.clone(),
        });
        let returned = self.record(queue, repeated, action);
        if let Some(name) = attempt.filter(|_| self.rng.random_ratio(1, 2)) {
            let at = returned + self.rng.random_range(1..SECOND_US);
            self.later(at, queue, Deed::Attempt { name });
        }
        for delivery in outcome.ok().into_iter().flatten() {
            self.act_on(queue, delivery, returned);
        }
    }

    pub(super) fn take(
        &mut self,
        queue: usize,
        max: usize,
        timeout_s: Option<u64>,
        attempt: Option<&str>,
    ) -> Vec<Delivery> {
        let (taken, dead) = self.queues[queue].receive(max, timeout_s, attempt, self.t);
        if let Some(target) = self.queues[queue].dead_letters {
            self.queues[target].messages.extend(dead);
        }
        taken
    }

    /// What the client does with a message after it was told of it.
    fn act_on(&mut self, queue: usize, delivery: &Delivery, returned: u64) {
        let soon = self.rng.random_range(1..500 * MS_US);
        let often_late = self.rng.random_range(1..5 * SECOND_US);
        let at = returned
            + if self.rng.random_ratio(1, 5) {
                often_late
            } else {
                soon
            };
        let (id, receipt) = (delivery.message_id.clone(), delivery.receipt);
        let deed = match self.rng.random_range(0..10) {
            0..5 => Deed::Delete { id, receipt },
            5..7 => {
                let timeout_s = self.rng.random_range(0..5);
                Deed::Change {
                    id,
                    receipt,
                    timeout_s,
                }
            }
            _ => return, // The client forgets it.
        };
        self.later(at, queue, deed);
    }

    pub(super) fn delete(&mut self, queue: usize, id: String, receipt: u64) {
        let outcome = match self.lost() {
            Some(late) => {
                if let Some(at) = late {
                    let id = id.clone();
                    self.later(at, queue, Deed::LateDelete { id, receipt });
                }
                Outcome::Info
            }
            None if self.queues[queue].delete(&id, receipt, self.t) => self.told(()),
            None => Outcome::Fail,
        };
        let entries = vec![DeleteEntry {
            message_id: id,
            receipt,
            outcome,
            mentions: None,
        }];
        self.record(queue, true, Action::Delete { entries });
    }

    pub(super) fn change(&mut self, queue: usize, id: String, receipt: u64, timeout_s: u64) {
        let outcome = match self.lost() {
            Some(late) => {
                if let Some(at) = late {
                    let id = id.clone();
                    self.later(
                        at,
                        queue,
                        Deed::LateChange {
                            id,
                            receipt,
                            timeout_s,
                        },
                    );
                }
                Outcome::Info
            }
            None if self.queues[queue].change(&id, receipt, timeout_s, self.t) => self.told(()),
            None => Outcome::Fail,
        };
        let entries = vec![ChangeEntry {
            message_id: id,
            receipt,
            visibility_timeout_ms: timeout_s * 1_000,
            outcome,
            mentions: None,
        }];
        self.record(queue, true, Action::ChangeVisibility { entries });
    }
}

fn entry(offered: &Offered, outcome: Outcome<Sent>, answered: bool, refused: bool) -> SendEntry {
    SendEntry {
        content: Content::of(&offered.body),
        group: offered.group.clone(),
        deduplication_id: offered.deduplication_id.clone(),
        delay_ms: offered.delay_s.map(|seconds| seconds * 1_000),
        outcome,
        mentions: answered.then_some(Mentions {
            successful: u32::from(!refused),
            failed: u32::from(refused),
        }),
    }
}
