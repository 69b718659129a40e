//! CreateQueue: makes a queue, or finds the one that has the name already. A queue with a redrive
//! policy has the home of its dead-letter queue, where its dead letters need not travel.
//!
//! SQS compares only the attributes that were given, and with the current values: its own
//! documentation asks for more than it does. Tags are not compared.

use crate::attributes::{AttributeError, AttributeName, Attributes};
use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::placement::{first_width, spread_from};
use crate::record::{IN_FLIGHT_LIMIT, QueueRecord, Settings};
use crate::tenant::TenantId;
use hikyaku_queue::{DeduplicationScope, Descriptor, PartitionId, QueueId, QueueKind, QueueState};
use std::collections::BTreeMap;

const DEFAULT_VISIBILITY_TIMEOUT_MS: u64 = 30_000;
const DEFAULT_RETENTION_MS: u64 = 345_600_000;

/// Creates a queue on its home partition, or on the spread that its kind or its owner asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateQueue {
    /// The owner.
    pub tenant: TenantId,
    /// The name, which the gateway has checked.
    pub name: String,
    /// Whether a FIFO queue is asked for. The given deduplication scope rules for ever.
    pub fifo: bool,
    /// The given attributes; the others get SQS's defaults.
    pub attributes: Attributes,
    /// The first tags.
    pub tags: BTreeMap<String, String>,
}

/// The queue that has the name now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// Its id.
    pub queue: QueueId,
    /// Whether it was there before.
    pub existed: bool,
}

/// Why there is no such queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateQueueError {
    /// The name is taken, and a given attribute is not what that queue has.
    #[error("a queue of this name has a different {0}")]
    ExistsWithDifferent(AttributeName),
    /// A queue of this name was deleted a moment ago.
    #[error("a queue of this name was deleted recently; the name is free in {wait_ms} ms")]
    DeletedRecently {
        /// How long until the name is free.
        wait_ms: u64,
    },
    /// The attributes do not go together.
    #[error(transparent)]
    Attributes(#[from] AttributeError),
    /// There are no partitions yet to put it on.
    #[error("the cluster is not founded yet")]
    NotFounded,
    /// Its owner is suspended or deleted.
    #[error("the tenant is not active")]
    TenantNotActive,
}

impl CreateQueue {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<Created, CreateQueueError> {
        self.attributes.check(self.fifo, &Settings::default())?;
        if !metadata.takes_queues(self.tenant) {
            return Err(CreateQueueError::TenantNotActive);
        }
        if let Some(record) = metadata.queue_by_name(self.tenant, &self.name) {
            return self.compare(record);
        }
        let Some(cluster) = metadata.cluster() else {
            return Err(CreateQueueError::NotFounded);
        };
        let partitions = cluster.partitions;
        if let Some(wait_ms) = metadata.name_taken_for(self.tenant, &self.name) {
            return Err(CreateQueueError::DeletedRecently { wait_ms });
        }
        let queue = metadata.next_queue_id();
        let home = self.home(metadata);
        let record = self.record(queue, home, partitions, metadata.now());
        metadata.add(record);
        Ok(Created {
            queue,
            existed: false,
        })
    }

    fn compare(&self, record: &QueueRecord) -> Result<Created, CreateQueueError> {
        let different = if self.fifo != record.is_fifo() {
            Some(AttributeName::FifoQueue)
        } else {
            self.attributes
                .first_difference(&record.settings, &record.descriptor)
        };
        match different {
            Some(name) => Err(CreateQueueError::ExistsWithDifferent(name)),
            None => Ok(Created {
                queue: record.descriptor.id,
                existed: true,
            }),
        }
    }

    /// The home of the dead-letter queue, if it exists already.
    fn home(&self, metadata: &Metadata) -> Option<PartitionId> {
        let target = self.attributes.redrive_target.as_ref()?.as_ref()?;
        let target = metadata.queue_by_name(self.tenant, &target.queue)?;
        target.descriptor.spread.first().copied()
    }

    fn record(
        self,
        queue: QueueId,
        home: Option<PartitionId>,
        partitions: u32,
        now: u64,
    ) -> QueueRecord {
        let kind = self.kind();
        let asked = self.attributes.spread_width.unwrap_or(0);
        let mut descriptor = Descriptor {
            id: queue,
            version: 1,
            state: QueueState::Active,
            kind,
            visibility_timeout_ms: DEFAULT_VISIBILITY_TIMEOUT_MS,
            delay_ms: 0,
            retention_ms: DEFAULT_RETENTION_MS,
            purge_epoch: 0,
            in_flight_limit: IN_FLIGHT_LIMIT,
            spread: spread_from(home, queue, partitions, first_width(kind, asked)),
            draining: Vec::new(),
            guests: Vec::new(),
            redrive: None,
            move_order: None,
        };
        let mut settings = Settings::default();
        self.attributes.apply(&mut settings, &mut descriptor);
        QueueRecord {
            tenant: self.tenant,
            name: self.name,
            descriptor,
            settings,
            tags: self.tags,
            created_at_ms: now,
            modified_at_ms: now,
            purged_at_ms: None,
            revision: 0,
            moves: Vec::new(),
        }
    }

    fn kind(&self) -> QueueKind {
        if !self.fifo {
            return QueueKind::Standard;
        }
        let scope = self.attributes.deduplication_scope;
        QueueKind::Fifo {
            dedup_scope: scope.unwrap_or(DeduplicationScope::Queue),
        }
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.tenant.number());
        writer.text(&self.name);
        writer.flag(self.fifo);
        self.attributes.write(writer);
        writer.texts(&self.tags);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            tenant: reader.tenant()?,
            name: reader.text()?,
            fifo: reader.flag()?,
            attributes: Attributes::read(reader)?,
            tags: reader.texts()?,
        })
    }
}

impl Created {
    pub(crate) fn write(self, writer: &mut Writer) {
        writer.queue(self.queue);
        writer.flag(self.existed);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            queue: reader.queue()?,
            existed: reader.flag()?,
        })
    }
}

impl CreateQueueError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::ExistsWithDifferent(name) => {
                writer.u8(1);
                writer.u8(name as u8);
            }
            Self::DeletedRecently { wait_ms } => {
                writer.u8(2);
                writer.u64(wait_ms);
            }
            Self::Attributes(error) => {
                writer.u8(3);
                error.write(writer);
            }
            Self::NotFounded => writer.u8(4),
            Self::TenantNotActive => writer.u8(5),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::ExistsWithDifferent(AttributeName::read(reader)?)),
            2 => Ok(Self::DeletedRecently {
                wait_ms: reader.u64()?,
            }),
            3 => Ok(Self::Attributes(AttributeError::read(reader)?)),
            4 => Ok(Self::NotFounded),
            5 => Ok(Self::TenantNotActive),
            kind => Err(unknown("error of creating a queue", kind)),
        }
    }
}
