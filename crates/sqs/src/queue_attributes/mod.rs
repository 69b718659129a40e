//! The attributes of a queue, typed: what was asked for, what holds, what is told.
//!
//! [`changes::AttributeChanges`] is what a client asked for; [`QueueAttributes`] is what holds, and
//! can only be made by applying changes to the defaults or to what held before, so that it is always
//! consistent; [`description::QueueDescription`] answers `GetQueueAttributes`.
//!
//! Invariants: a queue has FIFO attributes exactly if it is a FIFO queue; `perMessageGroupId` comes
//! only with the deduplication scope `messageGroup`; a KMS key and SSE-SQS exclude each other.

pub mod changes;
pub mod description;
pub mod names;
pub mod redrive;

use crate::error::{ErrorCode, SqsError};
use crate::queue_name::QueueName;

use changes::{AttributeChanges, Change};
use names::QueueAttributeName;
use redrive::{RedriveAllowPolicy, RedrivePolicy};

/// The largest message of a queue unless it asks for less, and the largest sum of a batch, in bytes.
pub const MAX_MESSAGE_BYTES: u32 = 1_048_576;

/// The most partitions that the owner of a standard queue may ask for.
pub const MAX_SPREAD: u32 = 32;

/// For how long KMS data keys are reused unless the queue says otherwise, in seconds.
const DEFAULT_KMS_REUSE_SECONDS: u32 = 300;

/// Within what a deduplication id is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeduplicationScope {
    /// The whole queue.
    Queue,
    /// One message group.
    MessageGroup,
}

/// To what the throughput quota of a FIFO queue applies; reported, not enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FifoThroughputLimit {
    /// The whole queue.
    PerQueue,
    /// Each message group.
    PerMessageGroupId,
}

/// What only FIFO queues have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoAttributes {
    /// Whether a message without a deduplication id gets the hash of its body.
    pub content_based_deduplication: bool,
    /// The scope as it reads back; deduplication itself keeps to the scope at creation.
    pub deduplication_scope: DeduplicationScope,
    /// The throughput limit as it reads back.
    pub throughput_limit: FifoThroughputLimit,
}

/// How stored messages are said to be encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The KMS key, if one is set.
    pub kms_master_key_id: Option<String>,
    /// For how long a data key is reused, in seconds.
    pub kms_data_key_reuse_period_seconds: u32,
    /// Whether SSE-SQS is on.
    pub sqs_managed_sse_enabled: bool,
}

/// The settable attributes of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAttributes {
    /// How long a received message stays hidden unless the receive says otherwise.
    pub visibility_timeout_seconds: u32,
    /// How long a sent message stays hidden unless the send says otherwise.
    pub delay_seconds: u32,
    /// The largest message, in bytes.
    pub maximum_message_size: u32,
    /// How long a message is kept.
    pub message_retention_period_seconds: u32,
    /// How long a receive waits unless it says otherwise.
    pub receive_message_wait_time_seconds: u32,
    /// The access policy: a JSON object, as the client wrote it.
    pub policy: Option<String>,
    /// Where messages go that are received too often.
    pub redrive_policy: Option<RedrivePolicy>,
    /// Which queues may use this one as their dead-letter queue.
    pub redrive_allow_policy: Option<RedriveAllowPolicy>,
    /// How stored messages are said to be encrypted.
    pub encryption: Encryption,
    /// What only FIFO queues have.
    pub fifo: Option<FifoAttributes>,
    /// Over how many partitions a standard queue is spread, if its owner said so. Ours, not AWS's.
    pub spread: Option<u32>,
}

impl QueueAttributes {
    /// The attributes of a new queue.
    pub fn create(name: &QueueName, changes: &AttributeChanges) -> Result<Self, SqsError> {
        let fifo = match (changes.fifo_queue, name.is_fifo()) {
            (Some(true), true) => Some(FifoAttributes::default()),
            (Some(true), false) => return Err(QueueName::fifo_refusal()),
            (Some(false), _) => {
                return Err(SqsError::unknown_attribute(
                    QueueAttributeName::FifoQueue.as_str(),
                ));
            }
            (None, true) => return Err(QueueName::refusal()),
            (None, false) => None,
        };
        Self::defaults(fifo).with(changes)
    }

    fn defaults(fifo: Option<FifoAttributes>) -> Self {
        Self {
            visibility_timeout_seconds: 30,
            delay_seconds: 0,
            maximum_message_size: MAX_MESSAGE_BYTES,
            message_retention_period_seconds: 345_600,
            receive_message_wait_time_seconds: 0,
            policy: None,
            redrive_policy: None,
            redrive_allow_policy: None,
            encryption: Encryption {
                kms_master_key_id: None,
                kms_data_key_reuse_period_seconds: DEFAULT_KMS_REUSE_SECONDS,
                sqs_managed_sse_enabled: true,
            },
            fifo,
            spread: None,
        }
    }

    /// These attributes with the changes made, or the refusal if the result is not allowed.
    pub fn with(&self, changes: &AttributeChanges) -> Result<Self, SqsError> {
        let set = |change: Option<u32>, held: u32| change.unwrap_or(held);
        Ok(Self {
            visibility_timeout_seconds: set(
                changes.visibility_timeout_seconds,
                self.visibility_timeout_seconds,
            ),
            delay_seconds: set(changes.delay_seconds, self.delay_seconds),
            maximum_message_size: set(changes.maximum_message_size, self.maximum_message_size),
            message_retention_period_seconds: set(
                changes.message_retention_period_seconds,
                self.message_retention_period_seconds,
            ),
            receive_message_wait_time_seconds: set(
                changes.receive_message_wait_time_seconds,
                self.receive_message_wait_time_seconds,
            ),
            policy: Change::apply(changes.policy.as_ref(), self.policy.as_ref()),
            redrive_policy: Change::apply(
                changes.redrive_policy.as_ref(),
                self.redrive_policy.as_ref(),
            ),
            redrive_allow_policy: Change::apply(
                changes.redrive_allow_policy.as_ref(),
                self.redrive_allow_policy.as_ref(),
            ),
            encryption: self.encryption.with(changes)?,
            fifo: fifo_with(self.fifo, changes)?,
            spread: self.spread_with(changes)?,
        })
    }

    /// A FIFO queue's partitions are fixed at its creation.
    fn spread_with(&self, changes: &AttributeChanges) -> Result<Option<u32>, SqsError> {
        if self.fifo.is_some() && changes.spread.is_some() {
            let name = QueueAttributeName::Spread.as_str();
            return Err(SqsError::attribute_is_for_standard(name));
        }
        Ok(Change::apply(changes.spread.as_ref(), self.spread.as_ref()))
    }

    /// The first attribute asked for that is to have another value than here; `wanted` is what the
    /// asked values made of a new queue, and attributes not asked for do not count.
    ///
    /// This is what decides whether `CreateQueue` on an existing name succeeds.
    #[must_use]
    pub fn first_difference(
        &self,
        wanted: &Self,
        asked: &AttributeChanges,
    ) -> Option<QueueAttributeName> {
        QueueAttributeName::ALL
            .into_iter()
            .find(|name| asked.mentions(*name) && !self.agrees(wanted, *name))
    }

    fn agrees(&self, other: &Self, name: QueueAttributeName) -> bool {
        match name {
            QueueAttributeName::Policy => {
                redrive::same_json(self.policy.as_deref(), other.policy.as_deref())
            }
            QueueAttributeName::RedrivePolicy => {
                RedrivePolicy::agree(self.redrive_policy.as_ref(), other.redrive_policy.as_ref())
            }
            QueueAttributeName::RedriveAllowPolicy => redrive::same_json(
                self.redrive_allow_policy
                    .as_ref()
                    .map(RedriveAllowPolicy::as_str),
                other
                    .redrive_allow_policy
                    .as_ref()
                    .map(RedriveAllowPolicy::as_str),
            ),
            name => self.value(name) == other.value(name),
        }
    }

    /// The value of a settable attribute as text; nothing for one that is not set or not settable.
    #[must_use]
    pub fn value(&self, name: QueueAttributeName) -> Option<String> {
        use QueueAttributeName as Name;
        let encryption = &self.encryption;
        match name {
            Name::VisibilityTimeout => Some(self.visibility_timeout_seconds.to_string()),
            Name::DelaySeconds => Some(self.delay_seconds.to_string()),
            Name::MaximumMessageSize => Some(self.maximum_message_size.to_string()),
            Name::MessageRetentionPeriod => Some(self.message_retention_period_seconds.to_string()),
            Name::ReceiveMessageWaitTimeSeconds => {
                Some(self.receive_message_wait_time_seconds.to_string())
            }
            Name::Policy => self.policy.clone(),
            Name::RedrivePolicy => self.redrive_policy.as_ref().map(|p| p.as_str().to_owned()),
            Name::RedriveAllowPolicy => self
                .redrive_allow_policy
                .as_ref()
                .map(|p| p.as_str().to_owned()),
            Name::KmsMasterKeyId => encryption.kms_master_key_id.clone(),
            Name::KmsDataKeyReusePeriodSeconds => {
                let period = encryption.kms_data_key_reuse_period_seconds;
                (period != DEFAULT_KMS_REUSE_SECONDS).then(|| period.to_string())
            }
            Name::SqsManagedSseEnabled => Some(encryption.sqs_managed_sse_enabled.to_string()),
            Name::FifoQueue => self.fifo.map(|_| true.to_string()),
            Name::ContentBasedDeduplication => self
                .fifo
                .map(|fifo| fifo.content_based_deduplication.to_string()),
            Name::DeduplicationScope => self
                .fifo
                .map(|fifo| fifo.deduplication_scope.as_str().to_owned()),
            Name::FifoThroughputLimit => self
                .fifo
                .map(|fifo| fifo.throughput_limit.as_str().to_owned()),
            Name::Spread => self.spread.map(|width| width.to_string()),
            Name::QueueArn
            | Name::CreatedTimestamp
            | Name::LastModifiedTimestamp
            | Name::ApproximateNumberOfMessages
            | Name::ApproximateNumberOfMessagesNotVisible
            | Name::ApproximateNumberOfMessagesDelayed => None,
        }
    }

    /// Every attribute that is set, as text: what [`QueueAttributes::from_pairs`] reads back.
    #[must_use]
    pub fn to_pairs(&self) -> Vec<(QueueAttributeName, String)> {
        let pair = |name| self.value(name).map(|value| (name, value));
        QueueAttributeName::ALL
            .into_iter()
            .filter_map(pair)
            .collect()
    }

    /// Attributes of the queue of that name, from pairs that [`QueueAttributes::to_pairs`] wrote.
    pub fn from_pairs<'a>(
        name: &QueueName,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SqsError> {
        Self::create(name, &AttributeChanges::parse(pairs)?)
    }
}

impl Default for FifoAttributes {
    fn default() -> Self {
        Self {
            content_based_deduplication: false,
            deduplication_scope: DeduplicationScope::Queue,
            throughput_limit: FifoThroughputLimit::PerQueue,
        }
    }
}

impl DeduplicationScope {
    /// AWS's word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::MessageGroup => "messageGroup",
        }
    }
}

impl FifoThroughputLimit {
    /// AWS's word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PerQueue => "perQueue",
            Self::PerMessageGroupId => "perMessageGroupId",
        }
    }
}

impl Encryption {
    /// Setting a key turns SSE-SQS off, and removing it does not turn it on again.
    fn with(&self, changes: &AttributeChanges) -> Result<Self, SqsError> {
        let kms_master_key_id = Change::apply(
            changes.kms_master_key_id.as_ref(),
            self.kms_master_key_id.as_ref(),
        );
        if kms_master_key_id.is_some() && changes.sqs_managed_sse_enabled == Some(true) {
            return Err(SqsError::two_encryptions());
        }
        let held = self.sqs_managed_sse_enabled && kms_master_key_id.is_none();
        Ok(Self {
            kms_master_key_id,
            kms_data_key_reuse_period_seconds: changes
                .kms_data_key_reuse_period_seconds
                .unwrap_or(self.kms_data_key_reuse_period_seconds),
            sqs_managed_sse_enabled: changes.sqs_managed_sse_enabled.unwrap_or(held),
        })
    }
}

fn fifo_with(
    held: Option<FifoAttributes>,
    changes: &AttributeChanges,
) -> Result<Option<FifoAttributes>, SqsError> {
    let Some(held) = held else {
        refuse_fifo_attributes(changes)?;
        return Ok(None);
    };
    if changes.fifo_queue == Some(false) {
        let text = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not \
                    supported.";
        return Err(SqsError::new(ErrorCode::InvalidAttributeValue, text));
    }
    let fifo = FifoAttributes {
        content_based_deduplication: changes
            .content_based_deduplication
            .unwrap_or(held.content_based_deduplication),
        deduplication_scope: changes
            .deduplication_scope
            .unwrap_or(held.deduplication_scope),
        throughput_limit: changes
            .fifo_throughput_limit
            .unwrap_or(held.throughput_limit),
    };
    if fifo.throughput_limit == FifoThroughputLimit::PerMessageGroupId
        && fifo.deduplication_scope != DeduplicationScope::MessageGroup
    {
        return Err(SqsError::throughput_limit_needs_message_group_scope());
    }
    Ok(Some(fifo))
}

/// A standard queue knows no FIFO attribute.
fn refuse_fifo_attributes(changes: &AttributeChanges) -> Result<(), SqsError> {
    use QueueAttributeName as Name;
    let fifo_only = [
        Name::FifoQueue,
        Name::ContentBasedDeduplication,
        Name::DeduplicationScope,
        Name::FifoThroughputLimit,
    ];
    match fifo_only.into_iter().find(|name| changes.mentions(*name)) {
        Some(name) => Err(SqsError::attribute_is_for_fifo(name.as_str())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
