//! A small queue that keeps its promises, and clients that overlap: it makes clean histories.
//!
//! Effects happen one after the other on a virtual clock; each operation's span lies around its
//! effect and overlaps those of others. Some answers get lost.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{
    ChangeVisibility, Delete, Delivery, Kind, Ledger, Outcome, Purge, Receive, Send, Sent, Span,
};

const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(2);
const GROUPS: u32 = 3;

/// A message that exists.
struct Held {
    id: String,
    body: String,
    message_group: Option<String>,
    sequence: Option<u128>,
    receive_count: u32,
    visible_at: Duration,
}

/// The queue, its clock and its clients.
struct World {
    rng: StdRng,
    kind: Kind,
    now: Duration,
    next: u32,
    queue: Vec<Held>,
    /// Deduplication id -> id and sequence number of the message.
    remembered: BTreeMap<String, Sent>,
    ledger: Ledger,
}

/// A history of `operations` operations and a drain, kept by a correct queue.
pub(super) fn clean_history(kind: Kind, seed: u64, operations: u32) -> Ledger {
    let mut world = World {
        rng: StdRng::seed_from_u64(seed),
        kind,
        now: Duration::from_secs(1),
        next: 0,
        queue: Vec::new(),
        remembered: BTreeMap::new(),
        ledger: Ledger::new(kind),
    };
    for _ in 0..operations {
        world.step();
    }
    world.drain();
    world.ledger
}

impl World {
    fn step(&mut self) {
        self.now += Duration::from_millis(self.rng.random_range(1..40));
        match self.rng.random_range(0..100) {
            0..40 => self.send(),
            40..75 => self.receive_and_act(),
            75..99 => self.now += Duration::from_millis(self.rng.random_range(1..400)),
            _ => self.purge(),
        }
    }

    /// A span around the effect that happens now.
    fn span(&mut self) -> Span {
        let before = Duration::from_micros(self.rng.random_range(0..60_000));
        let after = Duration::from_micros(self.rng.random_range(0..60_000));
        Span {
            invoked: self.now.saturating_sub(before),
            returned: self.now + after,
        }
    }

    /// The answer, or that it was lost.
    fn told<T>(&mut self, answer: T) -> Outcome<T> {
        if self.rng.random_ratio(1, 20) {
            Outcome::Info
        } else {
            Outcome::Ok(answer)
        }
    }

    fn send(&mut self) {
        self.next += 1;
        let number = self.next;
        let fifo = self.kind != Kind::Standard;
        let delayed = !fifo && self.rng.random_ratio(1, 5);
        let mut send = Send {
            span: self.span(),
            body: format!("body {number}"),
            message_group: fifo.then(|| format!("g{}", self.rng.random_range(0..GROUPS))),
            deduplication_id: fifo.then(|| format!("d{number}")),
            delay: if delayed {
                Duration::from_millis(700)
            } else {
                Duration::ZERO
            },
            outcome: Outcome::Fail,
        };
        if self.rng.random_ratio(1, 30) {
            self.ledger.sent(send); // Refused.
            return;
        }
        let lost_on_the_way = self.rng.random_ratio(1, 40);
        if lost_on_the_way {
            send.outcome = Outcome::Info;
            self.ledger.sent(send);
            return;
        }
        let sent = self.accept(&send);
        send.outcome = self.told(sent);
        let again = send.outcome == Outcome::Info && fifo;
        self.ledger.sent(send.clone());
        if again {
            self.now += Duration::from_millis(3);
            let sent = self.accept(&send);
            let span = Span {
                invoked: send.span.returned,
                returned: self.now.max(send.span.returned),
            };
            self.ledger.sent(Send {
                span,
                outcome: Outcome::Ok(sent),
                ..send
            });
        }
    }

    fn accept(&mut self, send: &Send) -> Sent {
        if let Some(sent) = send
            .deduplication_id
            .as_ref()
            .and_then(|id| self.remembered.get(id))
        {
            return sent.clone();
        }
        let fifo = self.kind != Kind::Standard;
        let sent = Sent {
            message_id: format!("id of {}", send.body),
            sequence: fifo.then_some(u128::from(self.next) * 7),
        };
        self.queue.push(Held {
            id: sent.message_id.clone(),
            body: send.body.clone(),
            message_group: send.message_group.clone(),
            sequence: sent.sequence,
            receive_count: 0,
            visible_at: self.now + send.delay,
        });
        if let Some(id) = &send.deduplication_id {
            self.remembered.insert(id.clone(), sent.clone());
        }
        sent
    }

    /// What a receive may return now: the visible ones, on FIFO up to each group's first hidden one.
    fn candidates(&self, max: usize) -> Vec<usize> {
        let mut blocked: Vec<&str> = Vec::new();
        let mut found = Vec::new();
        for (place, held) in self.queue.iter().enumerate() {
            let group = held.message_group.as_deref();
            if group.is_some_and(|g| blocked.contains(&g)) {
                continue;
            }
            if held.visible_at > self.now {
                blocked.extend(group);
            } else if found.len() < max {
                found.push(place);
            }
        }
        found
    }

    fn receive(&mut self, max: usize) -> Receive {
        let mut deliveries = Vec::new();
        for place in self.candidates(max) {
            let held = &mut self.queue[place];
            held.receive_count += 1;
            held.visible_at = self.now + VISIBILITY_TIMEOUT;
            deliveries.push(Delivery {
                message_id: held.id.clone(),
                body: held.body.clone(),
                receive_count: held.receive_count,
                message_group: held.message_group.clone(),
                sequence: held.sequence,
            });
        }
        let span = self.span();
        let outcome = self.told(deliveries);
        Receive {
            span,
            visibility_timeout: VISIBILITY_TIMEOUT,
            outcome,
        }
    }

    fn receive_and_act(&mut self) {
        let max = self.rng.random_range(1..=10);
        let receive = self.receive(max);
        self.ledger.received(receive.clone());
        self.now = self.now.max(receive.span.returned);
        for delivery in receive.outcome.ok().into_iter().flatten() {
            match self.rng.random_range(0..10) {
                0..5 => self.delete(&delivery.message_id),
                5..7 => self.change(&delivery.message_id),
                _ => {} // The client forgets it.
            }
        }
    }

    fn delete(&mut self, message_id: &str) {
        // The client acts only after it was told of the message.
        let span = Span {
            invoked: self.now,
            returned: self.span().returned,
        };
        let lost_on_the_way = self.rng.random_ratio(1, 30);
        if !lost_on_the_way {
            self.queue.retain(|held| held.id != message_id);
        }
        let outcome = if lost_on_the_way {
            Outcome::Info
        } else {
            self.told(())
        };
        self.ledger.deleted(Delete {
            span,
            message_id: message_id.to_owned(),
            outcome,
        });
    }

    fn change(&mut self, message_id: &str) {
        let visibility_timeout = Duration::from_millis(self.rng.random_range(0..4) * 1_000);
        let span = Span {
            invoked: self.now,
            returned: self.span().returned,
        };
        let found = self.queue.iter_mut().find(|held| held.id == message_id);
        let outcome = match found {
            Some(held) => {
                held.visible_at = self.now + visibility_timeout;
                self.told(())
            }
            None => Outcome::Fail,
        };
        let message_id = message_id.to_owned();
        self.ledger.changed(ChangeVisibility {
            span,
            message_id,
            visibility_timeout,
            outcome,
        });
    }

    fn purge(&mut self) {
        self.queue.clear();
        let span = self.span();
        let outcome = self.told(());
        self.ledger.purged(Purge { span, outcome });
    }

    /// Receives and deletes until nothing is left, visible or not.
    fn drain(&mut self) {
        self.now += Duration::from_secs(1);
        self.ledger.drain_begins(self.now);
        while !self.queue.is_empty() {
            self.now += Duration::from_millis(100);
            let mut receive = self.receive(10);
            receive.span.invoked = receive.span.invoked.max(self.now);
            self.ledger.received(receive.clone());
            self.now = self.now.max(receive.span.returned);
            for delivery in receive.outcome.ok().into_iter().flatten() {
                self.delete(&delivery.message_id);
            }
        }
    }
}
