//! The machine again, as plainly as it can be said: vectors and linear searches, no counters, no
//! indexes, nothing kept that can be found by looking.

use hikyaku_queue::{
    ChangeVisibilityError, Command, Counts, DeduplicationScope, DeleteError, Delivery, Descriptor,
    MessageId, Name, Operation, PartitionId, QueueId, QueueKind, QueueState, ReceiptHandle, Reply,
    RequestId, SendError, SendMessage, Sent, VisibilityChange,
};

use crate::support::{HOUR, MINUTE, SECOND};

const WINDOW: u64 = 5 * MINUTE;
const IDLE: u64 = 10 * MINUTE;

#[derive(Debug, Clone)]
struct Message {
    name: Name,
    sent_at: u64,
    message_group: String,
    /// T from which it is visible, once it is on its own: received before, or sent with a delay.
    own_time: Option<u64>,
    count: u32,
    number: u32,
    first_received_at: u64,
}

#[derive(Debug, Clone)]
struct Remembered {
    message_group: String,
    deduplication_id: String,
    sent_at: u64,
    id: MessageId,
    sequence: u64,
}

#[derive(Debug, Clone)]
struct Attempt {
    id: String,
    made_at: u64,
    deliveries: Vec<Delivery>,
}

#[derive(Debug, Clone)]
pub struct Queue {
    pub descriptor: Descriptor,
    messages: Vec<Message>,
    remembered: Vec<Remembered>,
    attempts: Vec<Attempt>,
    /// Groups that are ready, in turn.
    turns: Vec<String>,
    own_is_next: bool,
    used_at: u64,
}

#[derive(Debug, Default)]
pub struct Model {
    pub now: u64,
    pub queues: Vec<Queue>,
    tombstones: Vec<(QueueId, u64, u64)>,
    answered: Vec<(RequestId, Reply)>,
}

pub const PARTITION: PartitionId = PartitionId(3);

fn sequence(name: Name) -> u64 {
    139 * (1 << 56) + name.index * (1 << 16) + u64::from(name.ordinal)
}

impl Model {
    pub fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.descriptor.id == id)
    }

    pub fn has_answered(&self, id: RequestId) -> bool {
        self.answered.iter().any(|(answered, _)| *answered == id)
    }

    pub fn apply_entry(&mut self, index: u64, now: u64, commands: &[Command]) -> Vec<Reply> {
        self.now = self.now.max(now);
        let mut name = Name { index, ordinal: 0 };
        let mut replies = Vec::new();
        for command in commands {
            replies.push(self.apply(name, command));
            if let Operation::Send { messages } = &command.operation {
                name.ordinal += messages.len() as u32;
            }
        }
        replies
    }

    fn apply(&mut self, name: Name, command: &Command) -> Reply {
        match &command.operation {
            Operation::PutDescriptor(descriptor) => return self.put(descriptor),
            Operation::Housekeep => return self.housekeep(),
            _ => (),
        }
        if command.not_after < self.now {
            return Reply::Late;
        }
        if let Some((_, reply)) = self
            .answered
            .iter()
            .find(|(id, _)| *id == command.request_id)
        {
            return reply.clone();
        }
        if self.tombstones.iter().any(|(id, ..)| *id == command.queue) {
            return Reply::QueueGone;
        }
        let now = self.now;
        let found = self
            .queues
            .iter_mut()
            .find(|queue| queue.descriptor.id == command.queue);
        let have = found.as_ref().map(|queue| queue.descriptor.version);
        let Some(queue) = found.filter(|_| have >= Some(command.descriptor_version)) else {
            return Reply::DescriptorNeeded { have };
        };
        queue.pass_time(now);
        queue.used_at = now;
        let reply = queue.operate(now, name, &command.operation);
        if reply != Reply::Received(vec![]) && reply != Reply::OverInFlightLimit {
            self.answered.push((command.request_id, reply.clone()));
        }
        reply
    }

    fn put(&mut self, newer: &Descriptor) -> Reply {
        let now = self.now;
        if let Some(queue) = self.queues.iter_mut().find(|q| q.descriptor.id == newer.id) {
            if newer.version > queue.descriptor.version {
                if newer.state == QueueState::Deleted {
                    self.queues.retain(|queue| queue.descriptor.id != newer.id);
                    self.tombstones.push((newer.id, newer.version, now + IDLE));
                } else {
                    queue.pass_time(now);
                    queue.take(newer.clone(), now);
                }
            }
        } else if let Some(tomb) = self.tombstones.iter_mut().find(|(id, ..)| *id == newer.id) {
            if newer.state == QueueState::Deleted && newer.version > tomb.1 {
                *tomb = (newer.id, newer.version, now + IDLE);
            }
        } else if newer.state == QueueState::Deleted {
            self.tombstones.push((newer.id, newer.version, now + IDLE));
        } else {
            self.queues.push(Queue::new(newer.clone(), now));
        }
        Reply::DescriptorPut
    }

    fn housekeep(&mut self) -> Reply {
        let now = self.now;
        self.tombstones.retain(|(_, _, until)| *until > now);
        for queue in &mut self.queues {
            if queue.has_chores(now) {
                queue.pass_time(now);
            }
        }
        self.queues
            .retain(|queue| !queue.is_empty() || queue.used_at + IDLE > now);
        Reply::Housekept
    }
}

impl Queue {
    fn new(descriptor: Descriptor, now: u64) -> Self {
        Self {
            descriptor,
            messages: vec![],
            remembered: vec![],
            attempts: vec![],
            turns: vec![],
            own_is_next: false,
            used_at: now,
        }
    }

    fn is_fifo(&self) -> bool {
        self.descriptor.kind != QueueKind::Standard
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.remembered.is_empty() && self.attempts.is_empty()
    }

    fn is_expired(&self, message: &Message, now: u64) -> bool {
        self.stamp(message) + self.descriptor.retention_ms <= now
    }

    fn stamp(&self, message: &Message) -> u64 {
        let rounded = message.sent_at.div_ceil(4 * SECOND) * 4 * SECOND;
        if self.is_fifo() {
            message.sent_at
        } else {
            rounded
        }
    }

    fn has_chores(&self, now: u64) -> bool {
        self.messages
            .iter()
            .any(|message| self.is_expired(message, now))
            || self
                .remembered
                .iter()
                .any(|remembered| remembered.sent_at + WINDOW <= now)
            || self
                .attempts
                .iter()
                .any(|attempt| attempt.made_at + WINDOW <= now)
    }

    fn visible_at(&self, message: &Message) -> u64 {
        let delay = if self.is_fifo() {
            self.descriptor.delay_ms
        } else {
            0
        };
        message.own_time.unwrap_or(message.sent_at + delay)
    }

    fn pass_time(&mut self, now: u64) {
        self.remembered
            .retain(|remembered| remembered.sent_at + WINDOW > now);
        self.attempts
            .retain(|attempt| attempt.made_at + WINDOW > now);
        while let Some(at) = self.messages.iter().position(|m| self.is_expired(m, now)) {
            let message_group = self.messages.remove(at).message_group;
            let next = self.head(&message_group);
            if next.is_none_or(|next| !self.is_expired(&next, now)) {
                self.file(&message_group, now);
            }
        }
        self.file_all(now, |queue, head| (queue.visible_at(head), head.name));
    }

    fn head(&self, message_group: &str) -> Option<Message> {
        self.messages
            .iter()
            .find(|message| message.message_group == message_group)
            .cloned()
    }

    /// Puts a group in its place among the turns.
    fn file(&mut self, message_group: &str, now: u64) {
        let head = self.head(message_group);
        let ready = head.is_some_and(|head| self.visible_at(&head) <= now);
        let has_turn = self.turns.iter().any(|turn| turn == message_group);
        if self.is_fifo() && ready && !has_turn {
            self.turns.push(message_group.to_owned());
        }
        if !ready {
            self.turns.retain(|turn| turn != message_group);
        }
    }

    /// Files all groups, in the order of what `order` says of their heads.
    fn file_all<K: Ord>(&mut self, now: u64, order: impl Fn(&Self, &Message) -> K) {
        let mut heads: Vec<Message> = vec![];
        for message in &self.messages {
            if !heads
                .iter()
                .any(|head| head.message_group == message.message_group)
            {
                heads.push(message.clone());
            }
        }
        heads.sort_by_key(|head| order(self, head));
        for head in heads {
            self.file(&head.message_group, now);
        }
    }

    fn take(&mut self, newer: Descriptor, now: u64) {
        if newer.purge_epoch > self.descriptor.purge_epoch {
            *self = Self {
                used_at: self.used_at,
                ..Self::new(newer, now)
            };
        } else {
            self.descriptor = newer;
            self.file_all(now, |_, head| head.name);
        }
    }

    fn operate(&mut self, now: u64, first: Name, operation: &Operation) -> Reply {
        match operation {
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
            Operation::ReturnUnread { deliveries } => {
                deliveries
                    .iter()
                    .for_each(|(name, count)| self.return_unread(now, *name, *count));
                Reply::Returned
            }
            Operation::PutDescriptor(_) | Operation::Housekeep => panic!("not a queue's"),
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
        };
        let QueueKind::Fifo { dedup_scope } = self.descriptor.kind else {
            let delay = sent.delay_ms.unwrap_or(self.descriptor.delay_ms);
            message.own_time = (delay > 0).then_some(now + delay);
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

    fn in_flight(&self, now: u64) -> usize {
        let held = |m: &&Message| m.number > 0 && self.visible_at(m) > now;
        self.messages.iter().filter(held).count()
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
        let mut chosen: Vec<Name> = vec![];
        while chosen.len() < max {
            let left = self
                .messages
                .iter()
                .filter(|message| !chosen.contains(&message.name));
            let mut own: Vec<_> = left
                .clone()
                .filter_map(|message| Some((message.own_time?, message.name)))
                .filter(|(at, _)| *at <= now)
                .collect();
            own.sort();
            let own = own.first().map(|(_, name)| *name);
            let untouched = left.filter(|message| message.own_time.is_none());
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
            chosen.push(next);
        }
        chosen
            .into_iter()
            .map(|name| self.hand_out(now, name, until))
            .collect()
    }

    fn receive_fifo(&mut self, now: u64, max: usize, until: u64) -> Vec<Delivery> {
        let mut chosen: Vec<Vec<Name>> = vec![];
        let mut left = max;
        for turn in &self.turns {
            let group = self
                .messages
                .iter()
                .filter(|message| message.message_group == *turn);
            let visible = group.take_while(|message| self.visible_at(message) <= now);
            let names: Vec<Name> = visible.map(|message| message.name).take(left).collect();
            left -= names.len();
            chosen.push(names);
        }
        let mut deliveries = vec![];
        for names in chosen.into_iter().filter(|names| !names.is_empty()) {
            let message_group = self.message(names[0]).unwrap().message_group.clone();
            for name in names {
                deliveries.push(self.hand_out(now, name, until));
            }
            self.turns.retain(|turn| *turn != message_group);
            self.file(&message_group, now);
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

    fn return_unread(&mut self, now: u64, name: Name, count: u32) {
        if let Some(message) = self.message(name)
            && message.count == count
            && count > 0
            && message.own_time > Some(now)
        {
            message.count -= 1;
            self.re_time(now, name, now);
        }
    }

    pub fn names(&self) -> impl Iterator<Item = Name> {
        self.messages.iter().map(|message| message.name)
    }

    pub fn counts(&self, now: u64) -> Counts {
        let in_flight = self.in_flight(now) as u64;
        let delayed = |m: &&Message| m.number == 0 && self.visible_at(m) > now;
        let delayed = self.messages.iter().filter(delayed).count() as u64;
        let oldest = self
            .messages
            .iter()
            .map(|message| self.stamp(message))
            .min();
        Counts {
            visible: self.messages.len() as u64 - in_flight - delayed,
            in_flight,
            delayed,
            oldest_sent_at: oldest.map(|sent_at| sent_at.min(now)),
        }
    }
}
