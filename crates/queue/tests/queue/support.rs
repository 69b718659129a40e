//! A partition with one queue, driven a command at a time.

use hikyaku_queue::{
    Command, Counts, DeduplicationScope, Delivery, Descriptor, Effects, MessageId, Name, Operation,
    Partition, PartitionId, QueueId, QueueKind, QueueState, ReceiptHandle, Reply, RequestId,
    SendMessage, Sent, VisibilityChange, encode_head,
};

pub const QUEUE: QueueId = QueueId(7);
pub const SECOND: u64 = 1_000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const FIFO: QueueKind = QueueKind::Fifo {
    dedup_scope: DeduplicationScope::Queue,
};

/// A descriptor with AWS's defaults.
pub fn descriptor(id: QueueId, kind: QueueKind) -> Descriptor {
    Descriptor {
        id,
        version: 1,
        state: QueueState::Active,
        kind,
        visibility_timeout_ms: 30 * SECOND,
        delay_ms: 0,
        retention_ms: 4 * 24 * HOUR,
        purge_epoch: 0,
        in_flight_limit: 120_000,
        spread: vec![PartitionId(3)],
        draining: vec![],
        guests: Vec::new(),
        redrive: None,
        move_order: None,
    }
}

/// A message whose id is made of its text.
pub fn message(text: &str) -> SendMessage {
    let mut id = [0; 16];
    id[..text.len()].copy_from_slice(text.as_bytes());
    SendMessage {
        id: MessageId(id),
        body_bytes: text.len() as u32,
        delay_ms: None,
        message_group: None,
        deduplication_id: None,
    }
}

/// A FIFO message that is its own deduplication id.
pub fn grouped(message_group: &str, text: &str) -> SendMessage {
    SendMessage {
        message_group: Some(message_group.to_owned()),
        deduplication_id: Some(text.to_owned()),
        ..message(text)
    }
}

/// One partition hosting [`QUEUE`]; messages are told apart by the text they were sent with.
pub struct Queue {
    pub partition: Partition,
    pub descriptor: Descriptor,
    pub effects: Effects,
    texts: Vec<(Name, String)>,
    index: u64,
    requests: u128,
}

impl Queue {
    pub fn new(descriptor: Descriptor) -> Self {
        let partition = Partition::new(PartitionId(3));
        let (effects, texts, index, requests) = (Effects::default(), Vec::new(), 0, 0);
        let mut queue = Self {
            partition,
            descriptor,
            effects,
            texts,
            index,
            requests,
        };
        queue.put(0, |_| ());
        queue
    }

    pub fn standard() -> Self {
        Self::new(descriptor(QUEUE, QueueKind::Standard))
    }

    pub fn fifo() -> Self {
        Self::new(descriptor(QUEUE, FIFO))
    }

    pub fn command(&mut self, operation: Operation) -> Command {
        self.requests += 1;
        Command {
            request_id: RequestId(self.requests),
            not_after: u64::MAX,
            queue: self.descriptor.id,
            descriptor_version: self.descriptor.version,
            operation,
        }
    }

    pub fn apply_command(&mut self, now: u64, command: Command) -> Reply {
        self.index += 1;
        let head = encode_head(now, &[command]);
        let outcome = self
            .partition
            .apply_entry(self.index, &head)
            .unwrap()
            .remove(0);
        self.effects = outcome.effects;
        outcome.reply
    }

    pub fn apply(&mut self, now: u64, operation: Operation) -> Reply {
        let command = self.command(operation);
        self.apply_command(now, command)
    }

    /// Puts a new version of the descriptor.
    pub fn put(&mut self, now: u64, change: impl FnOnce(&mut Descriptor)) {
        change(&mut self.descriptor);
        if self.index > 0 {
            self.descriptor.version += 1;
        }
        let operation = Operation::PutDescriptor(self.descriptor.clone());
        assert_eq!(self.apply(now, operation), Reply::DescriptorPut);
    }

    pub fn send_messages(&mut self, now: u64, messages: Vec<SendMessage>) -> Reply {
        let first = self.index + 1;
        for (ordinal, message) in (0..).zip(&messages) {
            let end = message
                .id
                .0
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(16);
            let text = String::from_utf8(message.id.0[..end].to_vec()).unwrap();
            self.texts.push((
                Name {
                    index: first,
                    ordinal,
                },
                text,
            ));
        }
        self.apply(now, Operation::Send { messages })
    }

    pub fn send(&mut self, now: u64, texts: &[&str]) {
        let messages = texts.iter().map(|text| message(text)).collect();
        self.send_messages(now, messages);
    }

    /// Sends one FIFO message and returns what the sender is told.
    pub fn send_to(&mut self, now: u64, message_group: &str, text: &str) -> Sent {
        match self.send_messages(now, vec![grouped(message_group, text)]) {
            Reply::Sent(results) => results[0].unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub fn receive_with(
        &mut self,
        now: u64,
        max: u8,
        timeout: Option<u64>,
        attempt: Option<&str>,
    ) -> Vec<Delivery> {
        let attempt_id = attempt.map(str::to_owned);
        let operation = Operation::Receive {
            max,
            visibility_timeout_ms: timeout,
            attempt_id,
        };
        match self.apply(now, operation) {
            Reply::Received(deliveries) => deliveries,
            other => panic!("{other:?}"),
        }
    }

    pub fn receive(&mut self, now: u64, max: u8) -> Vec<Delivery> {
        self.receive_with(now, max, None, None)
    }

    pub fn receive_texts(&mut self, now: u64, max: u8) -> Vec<String> {
        let deliveries = self.receive(now, max);
        self.texts(&deliveries)
    }

    pub fn texts(&self, deliveries: &[Delivery]) -> Vec<String> {
        let text = |delivery: &Delivery| {
            let found = self.texts.iter().find(|(name, _)| *name == delivery.name);
            found.unwrap().1.clone()
        };
        deliveries.iter().map(text).collect()
    }

    pub fn delete(
        &mut self,
        now: u64,
        handle: ReceiptHandle,
    ) -> Result<(), hikyaku_queue::DeleteError> {
        match self.apply(
            now,
            Operation::Delete {
                handles: vec![handle],
            },
        ) {
            Reply::Deleted(results) => results[0],
            other => panic!("{other:?}"),
        }
    }

    pub fn change(
        &mut self,
        now: u64,
        handle: ReceiptHandle,
        timeout_ms: u64,
    ) -> Result<(), hikyaku_queue::ChangeVisibilityError> {
        let changes = vec![VisibilityChange { handle, timeout_ms }];
        match self.apply(now, Operation::ChangeVisibility { changes }) {
            Reply::VisibilityChanged(results) => results[0],
            other => panic!("{other:?}"),
        }
    }

    /// Receives under `command`'s request id; a second time it is a retry.
    pub fn receive_as(&mut self, now: u64, command: &Command) -> Vec<Delivery> {
        match self.apply_command(now, command.clone()) {
            Reply::Received(deliveries) => deliveries,
            other => panic!("{other:?}"),
        }
    }

    /// A receive of up to ten messages that can be retried.
    pub fn receive_command(&mut self, attempt: Option<&str>) -> Command {
        self.command(Operation::Receive {
            max: 10,
            visibility_timeout_ms: None,
            attempt_id: attempt.map(str::to_owned),
        })
    }

    /// Takes back what `receive` handed out.
    pub fn return_unread(&mut self, now: u64, receive: &Command, deliveries: &[Delivery]) {
        let name_and_number = |delivery: &Delivery| {
            let number = delivery.receipt.receive_number;
            (delivery.name, number)
        };
        let operation = Operation::ReturnUnread {
            receive: receive.request_id,
            deliveries: deliveries.iter().map(name_and_number).collect(),
        };
        assert_eq!(self.apply(now, operation), Reply::Returned);
    }

    /// Visible, in flight, delayed.
    pub fn counts(&self, now: u64) -> (u64, u64, u64) {
        let counts: Counts = self.partition.counts(self.descriptor.id, now).unwrap();
        (counts.visible, counts.in_flight, counts.delayed)
    }
}
