//! Clean histories: small queues that keep their promises, and clients that overlap and lose answers.
//!
//! Effects happen one after the other on a virtual clock; each operation's span lies around its effect
//! and overlaps those of others. Some answers get lost, some requests too, and some requests without
//! an answer take effect much later. Now and then all nodes are down and the queues' time T restarts
//! from clocks that differ.
//!
//! It shares no code with the rules: what both get wrong would not be seen.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::history::{Action, Attributes, History, Listed, Mark, Operation, Outcome, Receive};
use queue::{ModelQueue, Offered};

mod calls;
mod queue;

const MS_US: u64 = 1_000;
const SECOND_US: u64 = 1_000_000;

/// The most by which T may differ from real time.
const CLOCK_BOUND_MS: u64 = 400;

/// What has no answer takes effect within this time.
const LATE_US: u64 = 50 * SECOND_US;

const TENANTS: [&str; 2] = ["333333333333", "444444444444"];

/// What a client does later, or what takes effect later.
enum Deed {
    Delete {
        id: String,
        receipt: u64,
    },
    Change {
        id: String,
        receipt: u64,
        timeout_s: u64,
    },
    Attempt {
        name: String,
    },
    LateSend(Offered),
    LateDelete {
        id: String,
        receipt: u64,
    },
    LateChange {
        id: String,
        receipt: u64,
        timeout_s: u64,
    },
    LateReceive,
}

/// The queues, their time and their clients.
struct World {
    rng: StdRng,
    now: u64,
    /// T, which never falls.
    t: u64,
    /// What T is ahead of real time.
    ahead: u64,
    next: u64,
    queues: Vec<ModelQueue>,
    /// By the time at which they happen, and for which queue.
    deeds: BTreeMap<(u64, u64), (usize, Deed)>,
    history: History,
}

/// A history of so many steps and a drain of all queues.
pub(super) fn clean_history(seed: u64, steps: u32) -> History {
    let mut world = World {
        rng: StdRng::seed_from_u64(seed),
        now: SECOND_US,
        t: 0,
        ahead: 0,
        next: 0,
        queues: ModelQueue::all(TENANTS),
        deeds: BTreeMap::new(),
        history: History {
            clock_bound_ms: CLOCK_BOUND_MS,
            ..History::default()
        },
    };
    for queue in 0..world.queues.len() {
        world.create(queue);
    }
    for _ in 0..steps {
        world.step();
    }
    world.settle();
    for queue in 0..world.queues.len() {
        world.drain(queue);
    }
    world.history
}

impl World {
    fn step(&mut self) {
        let soon = self.rng.random_range(MS_US..40 * MS_US);
        self.pass(soon);
        let queue = self.rng.random_range(0..self.queues.len());
        match self.rng.random_range(0..200) {
            0..70 => self.send(queue),
            70..140 => self.receive(queue, None),
            140..144 => self.set_timeout(queue),
            144..146 => self.purge(queue),
            146 => {
                self.delete_queue(queue);
                self.create(queue);
            }
            147..152 => self.read(queue),
            152..154 => self.list(queue),
            154..156 => self.forget_the_time(),
            _ => {
                let idle = self.rng.random_range(0..400 * MS_US);
                self.pass(idle);
            }
        }
    }

    /// Lets time pass, and what is due happen.
    fn pass(&mut self, us: u64) {
        let until = self.now + us;
        while let Some(entry) = self.deeds.first_entry()
            && entry.key().0 <= until
        {
            let ((at, _), (queue, deed)) = entry.remove_entry();
            self.move_to(self.now.max(at));
            self.happen(queue, deed);
        }
        self.move_to(self.now.max(until));
    }

    fn move_to(&mut self, now: u64) {
        self.now = now;
        self.t = self.t.max(now + self.ahead);
        for queue in &mut self.queues {
            queue.expire(self.t);
        }
    }

    fn later(&mut self, at: u64, queue: usize, deed: Deed) {
        self.next += 1;
        self.deeds.insert((at, self.next), (queue, deed));
    }

    fn happen(&mut self, queue: usize, deed: Deed) {
        match deed {
            Deed::Delete { id, receipt } => self.delete(queue, id, receipt),
            Deed::Change {
                id,
                receipt,
                timeout_s,
            } => self.change(queue, id, receipt, timeout_s),
            Deed::Attempt { name } => self.receive(queue, Some(name)),
            Deed::LateSend(offered) => {
                self.queues[queue].accept(&offered, self.t);
            }
            Deed::LateDelete { id, receipt } => {
                self.queues[queue].delete(&id, receipt, self.t);
            }
            Deed::LateChange {
                id,
                receipt,
                timeout_s,
            } => {
                self.queues[queue].change(&id, receipt, timeout_s, self.t);
            }
            Deed::LateReceive => {
                self.take(queue, 10, None, None);
            }
        }
    }

    /// Writes down an operation whose effect happens now; it was invoked now, or a little before.
    fn record(&mut self, queue: usize, at_once: bool, action: Action) -> u64 {
        let before = self.rng.random_range(0..60 * MS_US);
        let returned_us = self.now + self.rng.random_range(0..60 * MS_US);
        let queue = &self.queues[queue];
        self.history.operations.push(Operation {
            client: self.rng.random_range(0..5),
            tenant: queue.tenant.into(),
            queue: queue.name.into(),
            invoked_us: if at_once {
                self.now
            } else {
                self.now.saturating_sub(before)
            },
            returned_us,
            action,
        });
        returned_us
    }

    /// Long enough for all answers that are on their way to arrive.
    fn wait_for_answers(&mut self) {
        self.pass(100 * MS_US);
    }

    /// The answer, or that it got lost on its way back.
    fn told<T>(&mut self, answer: T) -> Outcome<T> {
        if self.rng.random_ratio(1, 25) {
            Outcome::Info
        } else {
            Outcome::Ok(answer)
        }
    }

    /// Whether a request gets lost on its way, and when it arrives late nevertheless.
    fn lost(&mut self) -> Option<Option<u64>> {
        let lost = self.rng.random_ratio(1, 30);
        let late = self.rng.random_ratio(1, 2);
        let at = self.now + 1 + self.rng.random_range(0..LATE_US);
        lost.then_some(late.then_some(at))
    }

    fn create(&mut self, queue: usize) {
        self.wait_for_answers();
        let attributes = self.queues[queue].created_with.clone();
        self.queues[queue].begin();
        let outcome = Outcome::Ok(());
        self.record(
            queue,
            true,
            Action::CreateQueue {
                attributes,
                outcome,
            },
        );
        self.wait_for_answers();
    }

    /// What was still to happen to the queue happens to none.
    fn delete_queue(&mut self, queue: usize) {
        self.deeds.retain(|_, (of, _)| *of != queue);
        self.queues[queue].end();
        let outcome = Outcome::Ok(());
        self.record(queue, false, Action::DeleteQueue { outcome });
    }

    fn purge(&mut self, queue: usize) {
        self.queues[queue].purge();
        let outcome = self.told(());
        self.record(queue, false, Action::PurgeQueue { outcome });
    }

    fn set_timeout(&mut self, queue: usize) {
        let timeout_s = self.rng.random_range(1..5);
        self.queues[queue].timeout_s = timeout_s;
        let attributes = [("VisibilityTimeout".to_owned(), timeout_s.to_string())].into();
        let outcome = self.told(());
        self.record(
            queue,
            false,
            Action::SetAttributes {
                attributes,
                outcome,
            },
        );
    }

    fn read(&mut self, queue: usize) {
        let outcome = Outcome::Ok(self.attributes(queue));
        self.record(queue, false, Action::GetAttributes { outcome });
    }

    fn attributes(&self, queue: usize) -> Attributes {
        self.queues[queue].attributes(self.t)
    }

    fn list(&mut self, queue: usize) {
        let tenant = self.queues[queue].tenant;
        let own = self.queues.iter().filter(|queue| queue.tenant == tenant);
        let listed = own.map(|queue| Listed {
            tenant: queue.tenant.into(),
            queue: queue.name.into(),
        });
        let outcome = Outcome::Ok(listed.collect());
        self.record(queue, false, Action::ListQueues { outcome });
    }

    /// All nodes are down for a while; T restarts from other clocks.
    fn forget_the_time(&mut self) {
        let from_us = self.now;
        let down = self.rng.random_range(100 * MS_US..2 * SECOND_US);
        // Nothing takes effect meanwhile.
        let waiting = std::mem::take(&mut self.deeds);
        for ((at, number), deed) in waiting {
            self.deeds.insert((at.max(from_us + down), number), deed);
        }
        self.now = from_us + down;
        self.ahead = self.rng.random_range(0..=CLOCK_BOUND_MS) * MS_US;
        let until_us = self.now;
        self.history
            .marks
            .push(Mark::TimeForgotten { from_us, until_us });
        self.move_to(until_us);
    }

    /// Lets everything happen that is still under way.
    fn settle(&mut self) {
        while let Some(((at, _), _)) = self.deeds.last_key_value() {
            let wait = at.saturating_sub(self.now);
            self.pass(wait);
        }
        self.pass(SECOND_US);
    }

    /// Receives and deletes until nothing is left, visible or not.
    fn drain(&mut self, queue: usize) {
        self.read_alone(queue);
        let from_us = self.now;
        while !self.queues[queue].messages.is_empty() {
            let taken = self.take(queue, 10, None, None);
            let lost = self.rng.random_ratio(1, 30);
            let outcome = if lost {
                Outcome::Info
            } else {
                Outcome::Ok(taken)
            };
            let action = Action::Receive(Receive {
                max: 10,
                wait_ms: None,
                visibility_timeout_ms: None,
                attempt_id: None,
                outcome: outcome.clone(),
            });
            self.record(queue, true, action);
            self.wait_for_answers();
            for delivery in outcome.ok().into_iter().flatten() {
                self.delete(queue, delivery.message_id.clone(), delivery.receipt);
            }
            self.settle();
        }
        self.read_alone(queue);
        self.history.marks.push(Mark::Drained {
            tenant: self.queues[queue].tenant.into(),
            queue: self.queues[queue].name.into(),
            from_us,
            until_us: self.now,
        });
    }

    fn read_alone(&mut self, queue: usize) {
        self.wait_for_answers();
        let outcome = Outcome::Ok(self.attributes(queue));
        self.record(queue, true, Action::GetAttributes { outcome });
        self.wait_for_answers();
    }
}
