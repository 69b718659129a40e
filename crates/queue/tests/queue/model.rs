//! The machine again, as plainly as it can be said: vectors and linear searches, no counters, no
//! indexes, nothing kept that can be found by looking.

mod fair;
mod moves;
mod operations;

use hikyaku_queue::{
    Command, Counts, Delivery, Descriptor, MessageId, MoveTaskId, Name, Operation, PartitionId,
    QueueId, QueueKind, QueueState, Reply, RequestId,
};

use crate::support::{MINUTE, SECOND};

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
    letter: Option<Letter>,
}

/// What is known of a message that came from another queue.
#[derive(Debug, Clone)]
struct Letter {
    body: Name,
    sent_at: Option<u64>,
    /// None once it was moved back.
    source: Option<String>,
    /// Receives before it came here.
    count: u32,
    /// The name that the last move back gave it.
    redriven: Option<Name>,
}

/// A message that left a queue in the entry at hand.
#[derive(Debug)]
struct Arriving {
    target: QueueId,
    purge_epoch: u64,
    /// None for one that moves back.
    source: Option<String>,
    message: Message,
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
    fair: fair::Fair,
    used_at: u64,
    /// Of the receive at hand: after how many receives messages leave, and those that did.
    limit: Option<u32>,
    leaving: Vec<Message>,
    /// The move task, the entry that brought it, and how many messages it moved.
    moving: Option<(MoveTaskId, u64, u64)>,
}

#[derive(Debug, Default)]
pub struct Model {
    pub now: u64,
    pub queues: Vec<Queue>,
    tombstones: Vec<(QueueId, u64, u64)>,
    answered: Vec<Answered>,
    /// Everything that was ever handed out, once for each time.
    handed_out: Vec<Grant>,
    /// What was taken back of it.
    taken_back: Vec<Grant>,
    arriving: Vec<Arriving>,
    /// Queues at which messages arrived with the last entry.
    pub arrived: Vec<QueueId>,
}

#[derive(Debug, Clone)]
struct Answered {
    id: RequestId,
    not_after: u64,
    reply: Reply,
}

/// One receive of one message.
type Grant = (QueueId, Name, u32);

fn grant(delivery: &Delivery) -> Grant {
    let number = delivery.receipt.receive_number;
    (delivery.receipt.queue, delivery.name, number)
}

pub const PARTITION: PartitionId = PartitionId(3);

impl Model {
    pub fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.descriptor.id == id)
    }

    fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        let found = self.queues.iter_mut().find(|it| it.descriptor.id == id);
        found.expect("the queue was looked for")
    }

    pub fn has_answered(&self, id: RequestId) -> bool {
        self.answered.iter().any(|answered| answered.id == id)
    }

    pub fn apply_entry(&mut self, index: u64, now: u64, commands: &[Command]) -> Vec<Reply> {
        self.now = self.now.max(now);
        let mut name = Name { index, ordinal: 0 };
        let mut replies = Vec::new();
        for command in commands {
            let reply = self.apply(name, command);
            self.hand_out(&reply);
            replies.push(reply);
            if let Operation::Send { messages } = &command.operation {
                name.ordinal += messages.len() as u32;
            }
        }
        self.arrive(name);
        replies
    }

    /// What left in the entry arrives, named behind all that the entry sent.
    fn arrive(&mut self, mut name: Name) {
        let now = self.now;
        self.arrived.clear();
        for arriving in std::mem::take(&mut self.arriving) {
            let mut found = self.queues.iter_mut();
            let found = found.find(|queue| queue.descriptor.id == arriving.target);
            if let Some(queue) = found
                && queue.descriptor.purge_epoch == arriving.purge_epoch
            {
                queue.take_in(name, now, arriving);
                self.arrived.push(queue.descriptor.id);
            }
            name.ordinal += 1;
        }
    }

    /// Where the messages of a queue go that leave it: nowhere, or to be asked for.
    fn target(&self, source: QueueId) -> Result<Option<QueueId>, QueueId> {
        let source = self.queue(source).expect("the command has met its queue");
        let Some(redrive) = &source.descriptor.redrive else {
            return Ok(None);
        };
        let target = redrive.target;
        if self.tombstones.iter().any(|(id, ..)| *id == target) {
            return Ok(None);
        }
        let queue = self.queue(target).ok_or(target)?;
        let descriptor = &queue.descriptor;
        let mut takes = descriptor.spread.iter().chain(&descriptor.guests);
        let is_here = takes.any(|partition| *partition == PARTITION);
        let fits = queue.is_fifo() == source.is_fifo() && target != source.descriptor.id;
        Ok((fits && is_here).then_some(target))
    }

    /// What was taken back is nobody's under its old receive number.
    fn hand_out(&mut self, reply: &Reply) {
        let Reply::Received(deliveries) = reply else {
            return;
        };
        for grant in deliveries.iter().map(grant) {
            assert!(!self.taken_back.contains(&grant), "two hold {grant:?}");
            self.handed_out.push(grant);
        }
    }

    fn apply(&mut self, name: Name, command: &Command) -> Reply {
        match &command.operation {
            Operation::PutDescriptor(descriptor) => return self.put(descriptor, name.index),
            Operation::Housekeep => return self.housekeep(),
            _ => (),
        }
        if command.not_after < self.now {
            return Reply::Late;
        }
        let same = |answered: &&Answered| answered.id == command.request_id;
        if let Some(answered) = self.answered.iter().find(same) {
            return answered.reply.clone();
        }
        if self.tombstones.iter().any(|(id, ..)| *id == command.queue) {
            return Reply::QueueGone;
        }
        let now = self.now;
        let have = self.queue(command.queue).map(|it| it.descriptor.version);
        if have.is_none() || have < Some(command.descriptor_version) {
            return Reply::DescriptorNeeded { have };
        }
        if let Operation::MoveBack { task, max } = command.operation {
            let reply = self.move_back(command.queue, task, usize::from(max));
            if matches!(reply, Reply::MovedBack { now: 1.., .. }) {
                self.answered.push(Answered {
                    id: command.request_id,
                    not_after: command.not_after,
                    reply: reply.clone(),
                });
            }
            return reply;
        }
        let receives = matches!(command.operation, Operation::Receive { .. });
        let target = match self.target(command.queue) {
            Ok(target) => target.filter(|_| receives),
            Err(target) if receives => return Reply::TargetNeeded { target },
            Err(_) => None,
        };
        let queue = self.queue_mut(command.queue);
        queue.pass_time(now);
        queue.used_at = now;
        let redrive = queue.descriptor.redrive.clone();
        let redrive = redrive.filter(|_| target.is_some());
        queue.limit = redrive.as_ref().map(|redrive| redrive.max_receive_count);
        let mut reply = match &command.operation {
            Operation::ReturnUnread {
                receive,
                deliveries,
            } => self.return_unread(command.queue, *receive, deliveries),
            operation => queue.operate(now, name, operation),
        };
        let on_its_way = |it: &Arriving| it.target == command.queue;
        if let Reply::Emptiness { empty } = &mut reply {
            *empty &= !self.arriving.iter().any(on_its_way);
        }
        let leaving = std::mem::take(&mut self.queue_mut(command.queue).leaving);
        if let Some(redrive) = redrive.filter(|_| !leaving.is_empty()) {
            let queue = self.queue_mut(redrive.target);
            queue.pass_time(now);
            queue.used_at = now;
            let purge_epoch = queue.descriptor.purge_epoch;
            self.arriving
                .extend(leaving.into_iter().map(|message| Arriving {
                    target: redrive.target,
                    purge_epoch,
                    source: Some(redrive.source.clone()),
                    message,
                }));
        }
        let without_effect = match &reply {
            Reply::Received(deliveries) => deliveries.is_empty(),
            Reply::OverInFlightLimit | Reply::TakesNoSends | Reply::Emptiness { .. } => true,
            _ => false,
        };
        if !without_effect {
            self.answered.push(Answered {
                id: command.request_id,
                not_after: command.not_after,
                reply: reply.clone(),
            });
        }
        reply
    }

    /// A receive is taken back if it can still be retried and nobody else was handed the same.
    fn return_unread(&mut self, id: QueueId, receive: RequestId, named: &[(Name, u32)]) -> Reply {
        let now = self.now;
        let answered = self.answered.iter().find(|answered| answered.id == receive);
        let Some(Reply::Received(received)) = answered
            .filter(|answered| answered.not_after >= now)
            .map(|answered| answered.reply.clone())
        else {
            return Reply::Returned;
        };
        let times = |grant: Grant| self.handed_out.iter().filter(|out| **out == grant).count();
        let shared = received.iter().any(|delivery| times(grant(delivery)) > 1);
        let is_named = |delivery: &&Delivery| {
            let number = delivery.receipt.receive_number;
            let named = named.is_empty() || named.contains(&(delivery.name, number));
            delivery.receipt.queue == id && named
        };
        let unread: Vec<&Delivery> = received.iter().filter(is_named).collect();
        if shared || unread.is_empty() {
            return Reply::Returned;
        }
        self.answered.retain(|answered| answered.id != receive);
        let queue = self.queues.iter_mut().find(|q| q.descriptor.id == id);
        let queue = queue.expect("the command has met its queue");
        for delivery in unread {
            self.taken_back.push(grant(delivery));
            queue.take_back(now, delivery);
        }
        Reply::Returned
    }

    fn put(&mut self, newer: &Descriptor, index: u64) -> Reply {
        let now = self.now;
        if let Some(queue) = self.queues.iter_mut().find(|q| q.descriptor.id == newer.id) {
            if newer.version > queue.descriptor.version {
                if newer.state == QueueState::Deleted {
                    self.queues.retain(|queue| queue.descriptor.id != newer.id);
                    self.tombstones.push((newer.id, newer.version, now + IDLE));
                } else {
                    queue.pass_time(now);
                    queue.take(newer.clone(), now);
                    queue.take_order(index);
                }
            }
        } else if let Some(tomb) = self.tombstones.iter_mut().find(|(id, ..)| *id == newer.id) {
            if newer.state == QueueState::Deleted && newer.version > tomb.1 {
                *tomb = (newer.id, newer.version, now + IDLE);
            }
        } else if newer.state == QueueState::Deleted {
            self.tombstones.push((newer.id, newer.version, now + IDLE));
        } else {
            let mut queue = Queue::new(newer.clone(), now);
            queue.take_order(index);
            self.queues.push(queue);
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
            fair: fair::Fair::default(),
            used_at: now,
            limit: None,
            leaving: vec![],
            moving: None,
        }
    }

    fn take_order(&mut self, index: u64) {
        let ordered = self.descriptor.move_order.as_ref().map(|it| it.task);
        if ordered != self.moving.map(|(task, ..)| task) {
            self.moving = ordered.map(|task| (task, index, 0));
        }
    }

    /// On FIFO, as if it had been sent now.
    fn take_in(&mut self, name: Name, now: u64, arriving: Arriving) {
        let mut message = arriving.message;
        let before = message.letter.take();
        let body = before.as_ref().map_or(message.name, |letter| letter.body);
        let redriven = before.as_ref().and_then(|letter| letter.redriven);
        let comes_back = arriving.source.is_none();
        if comes_back {
            (message.count, message.number) = (0, 0);
        }
        let mut sent_at = before.and_then(|letter| letter.sent_at);
        message.name = name;
        message.own_time = Some(now);
        if comes_back && !self.is_fifo() {
            sent_at = Some(now);
            message.sent_at = now;
            message.own_time = Some(now + self.descriptor.delay_ms);
        }
        if self.is_fifo() {
            sent_at = Some(now);
            message.sent_at = now;
            message.own_time = None;
            message.number = message.count;
        }
        message.letter = Some(Letter {
            body,
            sent_at,
            source: arriving.source,
            count: message.count,
            redriven: if comes_back { Some(name) } else { redriven },
        });
        let message_group = message.message_group.clone();
        self.hear_of(&message_group, now);
        self.messages.push(message);
        self.file(&message_group, now);
    }

    fn is_fifo(&self) -> bool {
        self.descriptor.kind != QueueKind::Standard
    }

    fn is_empty(&self) -> bool {
        let empty = self.messages.is_empty() && self.remembered.is_empty();
        empty && self.attempts.is_empty() && self.moving.is_none()
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
        self.pass_fair_time(now);
        while let Some(first) = self.messages.iter().find(|m| self.is_expired(m, now)) {
            let message_group = first.message_group.clone();
            let of_this_group = |m: &&Message| m.message_group == message_group;
            let group = self.messages.iter().filter(of_this_group);
            let expired = group.filter(|message| self.is_expired(message, now));
            let expired: Vec<Name> = expired.map(|message| message.name).collect();
            self.messages
                .retain(|message| !expired.contains(&message.name));
            self.file(&message_group, now);
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
        self.watch(now);
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
                moving: self.moving,
                ..Self::new(newer, now)
            };
        } else {
            self.descriptor = newer;
            self.file_all(now, |_, head| head.name);
        }
    }

    /// Where the messages' bodies lie.
    pub fn bodies(&self) -> impl Iterator<Item = Name> {
        self.messages.iter().map(|message| {
            let letter = message.letter.as_ref();
            letter.map_or(message.name, |letter| letter.body)
        })
    }

    fn is_delayed(&self, message: &Message, now: u64) -> bool {
        let untouched = message.number == 0 || message.own_time.is_none();
        untouched && self.visible_at(message) > now
    }

    fn is_in_flight(&self, message: &Message, now: u64) -> bool {
        let received = message.number > 0 && message.own_time.is_some();
        received && self.visible_at(message) > now
    }

    pub fn counts(&self, now: u64) -> Counts {
        let in_flight = self.in_flight(now) as u64;
        let delayed = self.messages.iter().filter(|it| self.is_delayed(it, now));
        let delayed = delayed.count() as u64;
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
            noisy_groups: self.noisy_groups(now).len() as u64,
            quiet: self.quiet_counts(now),
        }
    }
}
