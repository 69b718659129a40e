//! A history turned around: by message instead of by operation.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{ChangeVisibility, Delete, Delivery, Ledger, Outcome, Send, Span};

/// One delivery and the receive it belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Which receive of the ledger.
    pub receive: usize,
    /// Where in that receive's answer.
    pub place: usize,
    pub span: Span,
    pub visibility_timeout: Duration,
    pub delivery: &'a Delivery,
}

/// All that is known of one message id.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub id: &'a str,
    pub body: &'a str,
    pub message_group: Option<&'a str>,
    pub sequence: Option<u128>,
    /// When the first send that was told this id returned.
    pub acknowledged: Option<Duration>,
    /// In the order of their receive counts.
    pub seen: Vec<Seen<'a>>,
    pub deletes: Vec<&'a Delete>,
    pub changes: Vec<&'a ChangeVisibility>,
}

impl<'a> Message<'a> {
    fn new(id: &'a str, body: &'a str, message_group: Option<&'a str>) -> Self {
        Self {
            id,
            body,
            message_group,
            sequence: None,
            acknowledged: None,
            seen: Vec::new(),
            deletes: Vec::new(),
            changes: Vec::new(),
        }
    }
}

/// The history by message id, and the sends by body.
#[derive(Debug)]
pub(super) struct Messages<'a> {
    pub by_id: BTreeMap<&'a str, Message<'a>>,
    pub sends_by_body: BTreeMap<&'a str, Vec<&'a Send>>,
}

impl<'a> Messages<'a> {
    pub fn of(ledger: &'a Ledger) -> Self {
        let mut messages = Self {
            by_id: BTreeMap::new(),
            sends_by_body: BTreeMap::new(),
        };
        ledger.sends.iter().for_each(|send| messages.add_send(send));
        for (number, receive) in ledger.receives.iter().enumerate() {
            let deliveries = receive.outcome.ok().into_iter().flatten();
            for (place, delivery) in deliveries.enumerate() {
                messages.add_seen(Seen {
                    receive: number,
                    place,
                    span: receive.span,
                    visibility_timeout: receive.visibility_timeout,
                    delivery,
                });
            }
        }
        for delete in ledger
            .deletes
            .iter()
            .filter(|d| d.outcome.may_have_effect())
        {
            if let Some(message) = messages.by_id.get_mut(delete.message_id.as_str()) {
                message.deletes.push(delete);
            }
        }
        for change in ledger
            .changes
            .iter()
            .filter(|c| c.outcome.may_have_effect())
        {
            if let Some(message) = messages.by_id.get_mut(change.message_id.as_str()) {
                message.changes.push(change);
            }
        }
        for message in messages.by_id.values_mut() {
            message
                .seen
                .sort_by_key(|s| (s.delivery.receive_count, s.span.invoked));
        }
        messages
    }

    fn add_send(&mut self, send: &'a Send) {
        if send.outcome.may_have_effect() {
            self.sends_by_body.entry(&send.body).or_default().push(send);
        }
        let Some(sent) = send.outcome.ok() else {
            return;
        };
        let new = || Message::new(&sent.message_id, &send.body, send.message_group.as_deref());
        let message = self.by_id.entry(&sent.message_id).or_insert_with(new);
        message.sequence = message.sequence.or(sent.sequence);
        let returned = send.span.returned;
        message.acknowledged = Some(message.acknowledged.map_or(returned, |a| a.min(returned)));
    }

    fn add_seen(&mut self, seen: Seen<'a>) {
        let delivery = seen.delivery;
        let new = || {
            Message::new(
                &delivery.message_id,
                &delivery.body,
                delivery.message_group.as_deref(),
            )
        };
        let message = self.by_id.entry(&delivery.message_id).or_insert_with(new);
        message.sequence = message.sequence.or(delivery.sequence);
        message.seen.push(seen);
    }

    /// The sends that may have made this message.
    pub fn sends_of(&self, message: &Message<'_>) -> &[&'a Send] {
        self.sends_by_body
            .get(message.body)
            .map_or(&[], Vec::as_slice)
    }

    /// When the message may have come into being at the earliest.
    pub fn born(&self, message: &Message<'_>) -> Duration {
        let sends = self.sends_of(message);
        sends
            .iter()
            .map(|s| s.span.invoked)
            .min()
            .unwrap_or(Duration::ZERO)
    }
}

/// How many messages, visible or not, a queue may hold after this history: exactly one number when
/// every answer came.
pub(super) fn expected(ledger: &Ledger) -> RangeInclusive<u64> {
    let messages = Messages::of(ledger);
    let mut least = 0;
    let mut most = 0;
    for message in messages.by_id.values() {
        let deleted = message.deletes.iter().any(|d| d.outcome.ok().is_some());
        if !deleted {
            most += 1;
            least += u64::from(message.deletes.is_empty());
        }
    }
    let seen: BTreeSet<&str> = messages.by_id.values().map(|m| m.body).collect();
    let unsure = ledger
        .sends
        .iter()
        .filter(|send| send.outcome == Outcome::Info);
    let unsure: BTreeSet<&str> = unsure.map(|send| send.body.as_str()).collect();
    most += unsure.difference(&seen).count() as u64;
    least..=most
}
