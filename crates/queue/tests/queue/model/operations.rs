//! The model's operations on a queue.

use hikyaku_queue::{
    ChangeVisibilityError, DeduplicationScope, DeleteError, Delivery, Name, Operation, Origin,
    QueueKind, ReceiptHandle, Reply, SendError, SendMessage, Sent, VisibilityChange,
};

use super::{Attempt, Message, PARTITION, Queue, Remembered};
use crate::support::HOUR;

fn sequence(name: Name) -> u64 {
    139 * (1 << 56) + name.index * (1 << 16) + u64::from(name.ordinal)
}

impl Queue {
    pub(super) fn operate(&mut self, now: u64, first: Name, operation: &Operation) -> Reply {
        match operation {
            Operation::Send { .. } if !self.descriptor.spread.contains(&PARTITION) => {
                Reply::TakesNoSends
            }
            Operation::Send { messages } => {
                let named = (first.ordinal..).zip(messages);
                let sent = named.map(|(ordinal, message)| {
                    self.send(
                        now,
                        Name {
                            index: first.index,
                            ordinal,
                        },
                        message,
                    )
                });
                Reply::Sent(sent.collect())
            }
            Operation::Receive {
                max,
                visibility_timeout_ms,
                attempt_id,
            } => {
                let timeout =
                    visibility_timeout_ms.unwrap_or(self.descriptor.visibility_timeout_ms);
                self.receive(now, usize::from(*max), now + timeout, attempt_id.as_deref())
            }
            Operation::Delete { handles } => Reply::Deleted(
                handles
                    .iter()
                    .map(|handle| self.delete(now, handle))
                    .collect(),
            ),
            Operation::ChangeVisibility { changes } => Reply::VisibilityChanged(
                changes
                    .iter()
                    .map(|change| self.change(now, change))
                    .collect(),
            ),
            Operation::AskEmpty => Reply::Emptiness {
                empty: self.is_empty(),
            },
            Operation::ReturnUnread { .. }
            | Operation::PutDescriptor(_)
            | Operation::Housekeep
            | Operation::MoveBack { .. } => {
                panic!("not a queue's")
            }
        }
    }

    fn send(&mut self, now: u64, name: Name, sent: &SendMessage) -> Result<Sent, SendError> {
        let mut message = Message {
            name,
            sent_at: now,
            message_group: String::new(),
            own_time: None,
            count: 0,
            number: 0,
            first_received_at: 0,
            letter: None,
        };
        let QueueKind::Fifo { dedup_scope } = self.descriptor.kind else {
            let delay = sent.delay_ms.unwrap_or(self.descriptor.delay_ms);
            message.own_time = (delay > 0).then_some(now + delay);
            message.message_group = sent.message_group.clone().unwrap_or_default();
            self.hear_of(&message.message_group, now);
            self.messages.push(message);
            return Ok(Sent {
                id: sent.id,
                sequence: None,
                duplicate: false,
            });
        };
        let message_group = sent
            .message_group
            .clone()
            .ok_or(SendError::NoMessageGroup)?;
        let deduplication_id = sent
            .deduplication_id
            .clone()
            .ok_or(SendError::NoDeduplicationId)?;
        if sent.delay_ms.unwrap_or(0) > 0 {
            return Err(SendError::DelayOnFifo);
        }
        let first = self.remembered.iter().find(|remembered| {
            remembered.deduplication_id == deduplication_id
                && (dedup_scope == DeduplicationScope::Queue
                    || remembered.message_group == message_group)
        });
        if let Some(first) = first {
            return Ok(Sent {
                id: first.id,
                sequence: Some(first.sequence),
                duplicate: true,
            });
        }
        message.message_group = message_group.clone();
        self.messages.push(message);
        let (id, sequence) = (sent.id, sequence(name));
        let sent_at = now;
        let group = message_group.clone();
        self.remembered.push(Remembered {
            message_group,
            deduplication_id,
            sent_at,
            id,
            sequence,
        });
        self.file(&group, now);
        Ok(Sent {
            id,
            sequence: Some(sequence),
            duplicate: false,
        })
    }

    pub(super) fn in_flight(&self, now: u64) -> usize {
        let in_flight = self.messages.iter().filter(|it| self.is_in_flight(it, now));
        in_flight.count()
    }

    fn receive(&mut self, now: u64, max: usize, until: u64, attempt: Option<&str>) -> Reply {
        let room = (self.descriptor.in_flight_limit as usize).saturating_sub(self.in_flight(now));
        if room == 0 && !self.is_fifo() {
            return Reply::OverInFlightLimit;
        }
        if !self.is_fifo() {
            return Reply::Received(self.receive_standard(now, max.min(room), until));
        }
        if let Some(again) = attempt.and_then(|id| self.repeat(now, until, id)) {
            return Reply::Received(again);
        }
        let deliveries = self.receive_fifo(now, max.min(room), until);
        if let Some(id) = attempt
            && !deliveries.is_empty()
        {
            self.attempts.retain(|attempt| attempt.id != id);
            let (id, deliveries) = (id.to_owned(), deliveries.clone());
            self.attempts.push(Attempt {
                id,
                made_at: now,
                deliveries,
            });
        }
        Reply::Received(deliveries)
    }

    fn receive_standard(&mut self, now: u64, max: usize, until: u64) -> Vec<Delivery> {
        let mut deliveries: Vec<Delivery> = vec![];
        while deliveries.len() < max && self.leaving.len() < 100 {
            let given = |name: Name| deliveries.iter().any(|delivery| delivery.name == name);
            let left: Vec<&Message> = self.messages.iter().filter(|m| !given(m.name)).collect();
            let left = self.fairest(now, left);
            let own = left.iter().filter_map(|m| Some((m.own_time?, m.name)));
            let own = own.filter(|(at, _)| *at <= now).min();
            let own = own.map(|(_, name)| name);
            let untouched = left.iter().filter(|message| message.own_time.is_none());
            let untouched = untouched.map(|message| message.name).min();
            let next = match (own, untouched) {
                (Some(own), Some(untouched)) => {
                    let turn = self.own_is_next;
                    self.own_is_next = !turn;
                    if turn { own } else { untouched }
                }
                (Some(name), None) | (None, Some(name)) => name,
                (None, None) => break,
            };
            if self.leaves(next) {
                self.watch(now);
            } else {
                deliveries.push(self.hand_out(now, next, until));
                self.watch(now);
                self.judge(now, next);
            }
        }
        deliveries
    }

    /// Takes a message out if it was received as often as the policy allows.
    fn leaves(&mut self, name: Name) -> bool {
        let at = self.messages.iter().position(|it| it.name == name);
        let message = &self.messages[at.unwrap()];
        let before = message.letter.as_ref().map_or(0, |letter| letter.count);
        let leaves = self
            .limit
            .is_some_and(|limit| message.count - before >= limit);
        if leaves {
            let message = self.messages.remove(at.unwrap());
            self.leaving.push(message);
        }
        leaves
    }

    fn receive_fifo(&mut self, now: u64, max: usize, until: u64) -> Vec<Delivery> {
        let mut deliveries = vec![];
        for message_group in self.turns.clone() {
            let left = max - deliveries.len();
            let of_this_group = |m: &&Message| m.message_group == message_group;
            let group = self.messages.iter().filter(of_this_group);
            let visible = group.take_while(|message| self.visible_at(message) <= now);
            let names: Vec<Name> = visible.map(|message| message.name).collect();
            let mut chosen = vec![];
            for name in names {
                if chosen.len() < left && !self.leaves(name) {
                    chosen.push(name);
                }
            }
            for name in &chosen {
                deliveries.push(self.hand_out(now, *name, until));
            }
            if left > 0 {
                self.turns.retain(|turn| *turn != message_group);
                self.file(&message_group, now);
            }
        }
        deliveries
    }

    fn message(&mut self, name: Name) -> Option<&mut Message> {
        self.messages
            .iter_mut()
            .find(|message| message.name == name)
    }

    fn hand_out(&mut self, now: u64, name: Name, until: u64) -> Delivery {
        let queue = self.descriptor.id;
        let is_fifo = self.is_fifo();
        let message = self.message(name).unwrap();
        if message.count == 0 {
            message.first_received_at = now;
        }
        message.count += 1;
        message.number += 1;
        message.own_time = Some(until);
        Delivery {
            name,
            receive_count: message.count,
            first_received_at: message.first_received_at,
            deadline: until,
            sequence: is_fifo.then_some(sequence(name)),
            receipt: ReceiptHandle {
                partition: PARTITION,
                queue,
                name,
                receive_number: message.number,
                received_at: now,
                deadline: until,
            },
            origin: message.letter.as_ref().map(|letter| {
                Box::new(Origin {
                    body: letter.body,
                    sent_at: letter.sent_at,
                    source: letter.source.as_deref().map(Into::into),
                    redriven: letter.redriven,
                })
            }),
        }
    }

    fn repeat(&mut self, now: u64, until: u64, id: &str) -> Option<Vec<Delivery>> {
        let at = self.attempts.iter().position(|attempt| attempt.id == id)?;
        let mut deliveries = self.attempts[at].deliveries.clone();
        for delivery in &deliveries {
            let message = self.message(delivery.name)?;
            let unchanged = message.number == delivery.receipt.receive_number
                && message.own_time == Some(delivery.deadline)
                && delivery.deadline > now;
            if !unchanged {
                return None;
            }
        }
        for delivery in &mut deliveries {
            delivery.deadline = until;
            self.re_time(now, delivery.name, until);
        }
        self.attempts[at].deliveries = deliveries.clone();
        Some(deliveries)
    }

    fn re_time(&mut self, now: u64, name: Name, until: u64) {
        let message = self.message(name).unwrap();
        message.own_time = Some(until);
        let message_group = message.message_group.clone();
        self.file(&message_group, now);
    }

    fn delete(&mut self, now: u64, handle: &ReceiptHandle) -> Result<(), DeleteError> {
        if (handle.partition, handle.queue) != (PARTITION, self.descriptor.id) {
            return Err(DeleteError::ForeignHandle);
        }
        let is_fifo = self.is_fifo();
        let Some(message) = self.message(handle.name) else {
            return Ok(());
        };
        let holds = message.number == handle.receive_number && message.own_time > Some(now);
        if is_fifo && !holds {
            return Err(DeleteError::HandleExpired);
        }
        let message_group = message.message_group.clone();
        self.messages.retain(|message| message.name != handle.name);
        self.file(&message_group, now);
        Ok(())
    }

    fn change(&mut self, now: u64, change: &VisibilityChange) -> Result<(), ChangeVisibilityError> {
        let handle = &change.handle;
        if (handle.partition, handle.queue) != (PARTITION, self.descriptor.id) {
            return Err(ChangeVisibilityError::ForeignHandle);
        }
        let is_fifo = self.is_fifo();
        let message = self
            .message(handle.name)
            .ok_or(ChangeVisibilityError::NotAvailable)?;
        let holds = message.number == handle.receive_number && message.own_time > Some(now);
        if is_fifo && !holds {
            return Err(ChangeVisibilityError::HandleExpired);
        }
        if change.timeout_ms > 0 && now + change.timeout_ms > handle.received_at + 12 * HOUR {
            return Err(ChangeVisibilityError::TotalTimeoutTooLong);
        }
        self.re_time(now, handle.name, now + change.timeout_ms);
        Ok(())
    }

    pub(super) fn take_back(&mut self, now: u64, delivery: &Delivery) {
        let (handle, deadline) = (delivery.receipt, delivery.deadline);
        if let Some(message) = self.message(delivery.name)
            && message.number == handle.receive_number
        {
            message.count -= 1;
            if message.own_time == Some(deadline) && deadline > now {
                self.re_time(now, delivery.name, now);
            }
        }
    }
}
