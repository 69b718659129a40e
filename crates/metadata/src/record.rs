//! What the cluster knows of one queue.
//!
//! The part that the queue machine obeys is the descriptor; the part that only the client reads back
//! is [`Settings`].

use crate::codec::{DecodeError, Reader, Writer};
use crate::move_task::MoveTask;
use crate::tenant::TenantId;
use hikyaku_queue::{DeduplicationScope, Descriptor, QueueKind};
use std::collections::BTreeMap;

/// Messages of one queue that may be in flight at once, on standard and FIFO alike.
pub const IN_FLIGHT_LIMIT: u32 = 120_000;

/// One queue: its owner, its name, its descriptor and everything a client set on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRecord {
    /// The owner.
    pub tenant: TenantId,
    /// The name, unique among the tenant's queues.
    pub name: String,
    /// What partitions obey.
    pub descriptor: Descriptor,
    /// What only clients and the gateway read.
    pub settings: Settings,
    /// Tags by key.
    pub tags: BTreeMap<String, String>,
    /// When the queue was created, in ms of the metadata group's time.
    pub created_at_ms: u64,
    /// When its attributes were last set, in ms of the metadata group's time.
    pub modified_at_ms: u64,
    /// When it was last purged, in ms of the metadata group's time.
    pub purged_at_ms: Option<u64>,
    /// The metadata revision of the last change of this record.
    pub revision: u64,
    /// The message move tasks of this dead-letter queue, the latest first: one that is active, and some
    /// that have ended.
    pub moves: Vec<MoveTask>,
}

/// How FIFO throughput is counted; it reads back and changes nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FifoThroughputLimit {
    /// One limit for the queue.
    PerQueue,
    /// One limit for each message group.
    PerMessageGroupId,
}

/// Attributes that the queue machine does not need.
///
/// Texts are empty when the attribute is not set: SQS removes one by setting it to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The largest message, body and attributes, in bytes.
    pub max_message_bytes: u32,
    /// How long a receive waits when it does not say, in seconds.
    pub receive_wait_seconds: u32,
    /// Whether the hash of the body stands in for a missing deduplication id.
    pub content_based_deduplication: bool,
    /// The deduplication scope as it reads back; the one of the descriptor, given at creation, rules.
    pub deduplication_scope: DeduplicationScope,
    /// How FIFO throughput is counted.
    pub fifo_throughput_limit: FifoThroughputLimit,
    /// The access policy, JSON.
    pub policy: String,
    /// The redrive policy, JSON.
    pub redrive_policy: String,
    /// The redrive allow policy, JSON.
    pub redrive_allow_policy: String,
    /// The KMS key; when set, `sqs_managed_sse` is false.
    pub kms_master_key_id: String,
    /// How long a KMS data key is used, in seconds.
    pub kms_data_key_reuse_seconds: u32,
    /// Whether encryption with keys of the service's own is reported.
    pub sqs_managed_sse: bool,
    /// How many partitions the owner of a standard queue wishes; zero leaves it to the cluster.
    pub spread_width: u32,
    /// What the redrive policy says. The descriptor has it too, while a queue of that name and of the
    /// same kind exists.
    pub redrive_target: Option<RedriveTarget>,
}

/// Where a redrive policy sends messages, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveTarget {
    /// The name of the dead-letter queue, of the same owner.
    pub queue: String,
    /// How often a message is received before it moves.
    pub max_receive_count: u32,
}

impl Default for Settings {
    /// A new queue's settings when its creator says nothing (SQS's own defaults).
    fn default() -> Self {
        Self {
            max_message_bytes: 1_048_576,
            receive_wait_seconds: 0,
            content_based_deduplication: false,
            deduplication_scope: DeduplicationScope::Queue,
            fifo_throughput_limit: FifoThroughputLimit::PerQueue,
            policy: String::new(),
            redrive_policy: String::new(),
            redrive_allow_policy: String::new(),
            kms_master_key_id: String::new(),
            kms_data_key_reuse_seconds: 300,
            sqs_managed_sse: true,
            spread_width: 0,
            redrive_target: None,
        }
    }
}

/// Version 1 of records, and of checkpoints full of them, had no spread width.
pub(crate) const WITHOUT_SPREAD_WIDTH: u8 = 1;

/// Records up to version 2, and checkpoints up to version 3, had the redrive policy as a text only.
/// Such a policy takes effect when it is set again.
pub(crate) const WITHOUT_REDRIVE_TARGET: u8 = 3;

/// Records without move tasks are written as this version, which earlier releases read. There are no
/// records of versions 3 and 5: versions are counted with those of checkpoints.
const WITHOUT_MOVE_TASKS: u8 = 4;

/// With each record's move tasks at its end.
pub(crate) const WITH_MOVE_TASKS: u8 = 6;

impl QueueRecord {
    /// Whether it is a FIFO queue.
    pub fn is_fifo(&self) -> bool {
        matches!(self.descriptor.kind, QueueKind::Fifo { .. })
    }

    /// Writes the record in its versioned form, for catalogue copies.
    pub fn encode(&self) -> Vec<u8> {
        let version = version_of([self], WITHOUT_MOVE_TASKS);
        let mut writer = Writer::versioned(version);
        self.write(&mut writer, version);
        writer.finish()
    }

    /// Reads what [`QueueRecord::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (mut reader, version) = Reader::up_to(bytes, WITH_MOVE_TASKS)?;
        let record = Self::read(&mut reader, version)?;
        reader.finish()?;
        Ok(record)
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: u8) {
        writer.u64(self.tenant.number());
        writer.text(&self.name);
        writer.descriptor(&self.descriptor);
        self.settings.write(writer);
        writer.texts(&self.tags);
        writer.u64(self.created_at_ms);
        writer.u64(self.modified_at_ms);
        writer.optional_u64(self.purged_at_ms);
        writer.u64(self.revision);
        if version >= WITH_MOVE_TASKS {
            writer.count(self.moves.len());
            self.moves.iter().for_each(|task| task.write(writer));
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, version: u8) -> Result<Self, DecodeError> {
        Ok(Self {
            tenant: reader.tenant()?,
            name: reader.text()?,
            descriptor: reader.descriptor()?,
            settings: Settings::read(reader, version)?,
            tags: reader.texts()?,
            created_at_ms: reader.u64()?,
            modified_at_ms: reader.u64()?,
            purged_at_ms: reader.optional_u64()?,
            revision: reader.u64()?,
            moves: match version {
                WITH_MOVE_TASKS.. => reader.list(MoveTask::read)?,
                _ => Vec::new(),
            },
        })
    }
}

/// The version in which these records can be written: this one, if none has move tasks.
pub(crate) fn version_of<'a>(
    records: impl IntoIterator<Item = &'a QueueRecord>,
    without_move_tasks: u8,
) -> u8 {
    match records.into_iter().all(|it| it.moves.is_empty()) {
        true => without_move_tasks,
        false => WITH_MOVE_TASKS,
    }
}

impl Settings {
    fn write(&self, writer: &mut Writer) {
        writer.u32(self.max_message_bytes);
        writer.u32(self.receive_wait_seconds);
        writer.flag(self.content_based_deduplication);
        writer.deduplication_scope(self.deduplication_scope);
        writer.fifo_throughput_limit(self.fifo_throughput_limit);
        writer.text(&self.policy);
        writer.text(&self.redrive_policy);
        writer.text(&self.redrive_allow_policy);
        writer.text(&self.kms_master_key_id);
        writer.u32(self.kms_data_key_reuse_seconds);
        writer.flag(self.sqs_managed_sse);
        writer.u32(self.spread_width);
        RedriveTarget::write(self.redrive_target.as_ref(), writer);
    }

    fn read(reader: &mut Reader<'_>, version: u8) -> Result<Self, DecodeError> {
        Ok(Self {
            max_message_bytes: reader.u32()?,
            receive_wait_seconds: reader.u32()?,
            content_based_deduplication: reader.flag()?,
            deduplication_scope: reader.deduplication_scope()?,
            fifo_throughput_limit: reader.fifo_throughput_limit()?,
            policy: reader.text()?,
            redrive_policy: reader.text()?,
            redrive_allow_policy: reader.text()?,
            kms_master_key_id: reader.text()?,
            kms_data_key_reuse_seconds: reader.u32()?,
            sqs_managed_sse: reader.flag()?,
            spread_width: match version {
                WITHOUT_SPREAD_WIDTH => 0,
                _ => reader.u32()?,
            },
            redrive_target: match version {
                ..=WITHOUT_REDRIVE_TARGET => None,
                _ => RedriveTarget::read(reader)?,
            },
        })
    }
}

impl RedriveTarget {
    pub(crate) fn write(target: Option<&Self>, writer: &mut Writer) {
        writer.flag(target.is_some());
        if let Some(target) = target {
            writer.text(&target.queue);
            writer.u32(target.max_receive_count);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        Ok(match reader.flag()? {
            true => Some(Self {
                queue: reader.text()?,
                max_receive_count: reader.u32()?,
            }),
            false => None,
        })
    }
}
