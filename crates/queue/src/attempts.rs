//! What recent receives with a `ReceiveRequestAttemptId` handed out.
//!
//! Within five minutes the same id gives the same messages under the same receipt handles, with
//! their visibility started anew, as long as none of them was deleted, re-timed or received again
//! and none has become visible. After that it is an ordinary receive. (AWS documents the first half
//! and leaves the edges open: SQS-CONTRACT section 12.)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Writer};
use crate::ids::RequestId;
use crate::reply::Delivery;

/// How long an attempt can be repeated.
const LIFE_MS: u64 = 5 * 60 * 1_000;

#[derive(Debug)]
struct Attempt {
    made_at: u64,
    /// The request that made it.
    receive: RequestId,
    deliveries: Vec<Delivery>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    by_id: BTreeMap<Arc<str>, Attempt>,
    by_time: BTreeSet<(u64, Arc<str>)>,
    deliveries: usize,
}

/// The bytes one attempt costs beside its deliveries: 16 + 48 and 24 in the two orders, and its id.
const ATTEMPT_BYTES: usize = (64 + 24) * 3 / 2 + 64;

impl Attempts {
    pub fn deliveries(&self, id: &str) -> Option<&[Delivery]> {
        self.by_id
            .get(id)
            .map(|attempt| attempt.deliveries.as_slice())
    }

    /// The request that made the attempt.
    pub fn receive(&self, id: &str) -> Option<RequestId> {
        self.by_id.get(id).map(|attempt| attempt.receive)
    }

    /// Remembers what an attempt handed out, but for the origins: the slice knows them.
    pub fn remember(
        &mut self,
        id: &str,
        made_at: u64,
        receive: RequestId,
        deliveries: &[Delivery],
    ) {
        self.forget(id);
        let without_origin = |delivery: &Delivery| Delivery {
            origin: None,
            ..delivery.clone()
        };
        let deliveries: Vec<Delivery> = deliveries.iter().map(without_origin).collect();
        let id: Arc<str> = id.into();
        self.deliveries += deliveries.len();
        self.by_time.insert((made_at, Arc::clone(&id)));
        self.by_id.insert(
            id,
            Attempt {
                made_at,
                receive,
                deliveries,
            },
        );
    }

    /// Records that the messages of an attempt were handed out again until `deadline`. The attempt
    /// does not live longer for it.
    pub fn renew(&mut self, id: &str, deadline: u64) {
        if let Some(attempt) = self.by_id.get_mut(id) {
            attempt
                .deliveries
                .iter_mut()
                .for_each(|delivery| delivery.deadline = deadline);
        }
    }

    fn forget(&mut self, id: &str) {
        if let Some((id, attempt)) = self.by_id.remove_entry(id) {
            self.deliveries -= attempt.deliveries.len();
            self.by_time.remove(&(attempt.made_at, id));
        }
    }

    /// When the oldest attempt ends.
    pub fn next_end(&self) -> Option<u64> {
        self.by_time
            .first()
            .map(|(made_at, _)| made_at.saturating_add(LIFE_MS))
    }

    /// Forgets what has ended, as far as `budget` goes.
    pub fn settle(&mut self, now: u64, budget: &mut usize) {
        while *budget > 0 && self.next_end().is_some_and(|end| end <= now) {
            if let Some((_, id)) = self.by_time.first().cloned() {
                self.forget(&id);
            }
            *budget -= 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.by_id.len() * ATTEMPT_BYTES + self.deliveries * size_of::<Delivery>()
    }

    pub fn check(&self) -> Result<(), &'static str> {
        let both = self.by_id.len() == self.by_time.len()
            && self
                .by_id
                .iter()
                .all(|(id, attempt)| self.by_time.contains(&(attempt.made_at, Arc::clone(id))));
        both.then_some(())
            .ok_or("every receive attempt is in both orders")
    }

    pub fn write(&self, writer: &mut Writer) {
        writer.length(self.by_id.len());
        for (id, attempt) in &self.by_id {
            writer.text(id);
            writer.number(attempt.made_at);
            writer.request_id(attempt.receive);
            writer.length(attempt.deliveries.len());
            attempt
                .deliveries
                .iter()
                .for_each(|delivery| delivery.write(writer));
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut attempts = Self::default();
        for _ in 0..reader.length("attempts")? {
            let id = reader.text("attempt id")?;
            let made_at = reader.number("made at")?;
            let receive = reader.request_id()?;
            let deliveries = reader.list("deliveries", Delivery::read)?;
            attempts.remember(id, made_at, receive, &deliveries);
        }
        Ok(attempts)
    }
}
