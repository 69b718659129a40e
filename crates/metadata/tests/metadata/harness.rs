//! A cluster that applies one command per entry, so that stories read as such.

use crate::script::{PARTITIONS, cluster, envelope, tenant};
use hikyaku_metadata::{
    Attributes, Command, CreateQueue, Created, DeleteQueue, DescriptorDelivered, Envelope, Found,
    Metadata, Outcome, PurgeQueue, QueueRecord, Reply, SetAttributes, encode_entry, home_partition,
};
use hikyaku_queue::{PartitionId, QueueId};
use std::collections::BTreeMap;

/// A founded cluster that applies one command per entry.
pub struct Cluster {
    pub metadata: Metadata,
    pub entries: u64,
}

pub const SECOND: u64 = 1_000;

impl Cluster {
    pub fn empty() -> Self {
        Self {
            metadata: Metadata::new(),
            entries: 0,
        }
    }

    pub fn founded() -> Self {
        let mut founded = Self::empty();
        assert_eq!(
            founded.ask(0, Command::Found(Found::everywhere(cluster()))),
            Reply::Founded(Ok(()))
        );
        founded
    }

    pub fn ask(&mut self, now: u64, command: Command) -> Reply {
        self.request(
            now,
            1_000 + u128::from(self.entries),
            now + 20 * SECOND,
            command,
        )
        .reply
    }

    /// Applies commands in one entry.
    pub fn ask_all(&mut self, now: u64, commands: Vec<Command>) -> Vec<Reply> {
        self.entries += 1;
        let ids = (u128::from(self.entries) << 64)..;
        let envelopes = ids.zip(commands);
        let envelopes: Vec<Envelope> = envelopes
            .map(|(id, command)| envelope(id, now + 20 * SECOND, command))
            .collect();
        let bytes = encode_entry(now, &envelopes);
        let outcomes = self.metadata.apply_entry(self.entries, &bytes).unwrap();
        outcomes.into_iter().map(|outcome| outcome.reply).collect()
    }

    pub fn request(&mut self, now: u64, id: u128, not_after: u64, command: Command) -> Outcome {
        self.entries += 1;
        let bytes = encode_entry(now, &[envelope(id, not_after, command)]);
        let mut outcomes = self.metadata.apply_entry(self.entries, &bytes).unwrap();
        assert_eq!(outcomes.len(), 1);
        outcomes.remove(0)
    }

    pub fn create(&mut self, now: u64, name: &str) -> QueueId {
        match self.ask(now, create(name, Attributes::default())) {
            Reply::QueueCreated(Ok(Created {
                queue,
                existed: false,
            })) => queue,
            other => panic!("{name} was not created: {other:?}"),
        }
    }

    pub fn delete(&mut self, now: u64, queue: QueueId) -> Reply {
        self.ask(now, Command::DeleteQueue(DeleteQueue { queue }))
    }

    pub fn purge(&mut self, now: u64, queue: QueueId) -> Reply {
        self.ask(now, Command::PurgeQueue(PurgeQueue { queue }))
    }

    pub fn set(&mut self, now: u64, queue: QueueId, attributes: Attributes) -> Reply {
        self.ask(
            now,
            Command::SetAttributes(SetAttributes { queue, attributes }),
        )
    }

    pub fn deliver(&mut self, now: u64, queue: QueueId, version: u64) {
        let partition = home_partition(queue, PARTITIONS);
        let delivered = DescriptorDelivered {
            queue,
            version,
            partition,
        };
        let reply = self.ask(now, Command::DescriptorDelivered(delivered));
        assert_eq!(reply, Reply::DescriptorDelivered);
    }

    pub fn record(&self, queue: QueueId) -> &QueueRecord {
        self.metadata.queue(queue).unwrap()
    }

    pub fn pending(&self) -> Vec<(QueueId, u64, PartitionId)> {
        let pending = self.metadata.pending_deliveries();
        pending
            .map(|(descriptor, at)| (descriptor.id, descriptor.version, at))
            .collect()
    }
}

pub fn create(name: &str, attributes: Attributes) -> Command {
    let fifo = name.ends_with(".fifo");
    let name = name.to_owned();
    let tags = BTreeMap::new();
    Command::CreateQueue(CreateQueue {
        tenant: tenant(0),
        name,
        fifo,
        attributes,
        tags,
    })
}

pub fn delay(ms: u64) -> Attributes {
    Attributes {
        delay_ms: Some(ms),
        ..Attributes::default()
    }
}
