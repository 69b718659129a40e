//! The attributes a client gives when it creates a queue or changes one.
//!
//! Only what was given is here: creating a queue that exists compares the given ones with the
//! current values and no others. Ranges are the gateway's to check; here stand the rules that need
//! the queue's current state, for only the machine sees it without a race.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::record::{FifoThroughputLimit, RedriveTarget, Settings};
use hikyaku_queue::{DeduplicationScope, Descriptor};
use std::fmt;

/// The attributes given in one request; `None` was not given, an empty text removes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// How long a received message stays hidden, in ms.
    pub visibility_timeout_ms: Option<u64>,
    /// How long a sent message waits before it can be received, in ms.
    pub delay_ms: Option<u64>,
    /// How long a message is kept, in ms.
    pub retention_ms: Option<u64>,
    /// See [`Settings::max_message_bytes`].
    pub max_message_bytes: Option<u32>,
    /// See [`Settings::receive_wait_seconds`].
    pub receive_wait_seconds: Option<u32>,
    /// See [`Settings::content_based_deduplication`]; FIFO only.
    pub content_based_deduplication: Option<bool>,
    /// See [`Settings::deduplication_scope`]; FIFO only.
    pub deduplication_scope: Option<DeduplicationScope>,
    /// See [`Settings::fifo_throughput_limit`]; FIFO only.
    pub fifo_throughput_limit: Option<FifoThroughputLimit>,
    /// See [`Settings::policy`].
    pub policy: Option<String>,
    /// See [`Settings::redrive_policy`].
    pub redrive_policy: Option<String>,
    /// See [`Settings::redrive_allow_policy`].
    pub redrive_allow_policy: Option<String>,
    /// See [`Settings::kms_master_key_id`].
    pub kms_master_key_id: Option<String>,
    /// See [`Settings::kms_data_key_reuse_seconds`].
    pub kms_data_key_reuse_seconds: Option<u32>,
    /// See [`Settings::sqs_managed_sse`].
    pub sqs_managed_sse: Option<bool>,
    /// See [`Settings::spread_width`]; standard only.
    pub spread_width: Option<u32>,
    /// See [`Settings::redrive_target`]; goes with the redrive policy, and is not compared.
    pub redrive_target: Option<Option<RedriveTarget>>,
}

/// An attribute by SQS's name; the numbers are persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(
    missing_docs,
    reason = "each is the SQS attribute of the same name, but for our own, whose names have a dot"
)]
pub enum AttributeName {
    VisibilityTimeout = 1,
    DelaySeconds = 2,
    MessageRetentionPeriod = 3,
    MaximumMessageSize = 4,
    ReceiveMessageWaitTimeSeconds = 5,
    ContentBasedDeduplication = 6,
    DeduplicationScope = 7,
    FifoThroughputLimit = 8,
    Policy = 9,
    RedrivePolicy = 10,
    RedriveAllowPolicy = 11,
    KmsMasterKeyId = 12,
    KmsDataKeyReusePeriodSeconds = 13,
    SqsManagedSseEnabled = 14,
    FifoQueue = 15,
    Spread = 16,
    RedriveTarget = 17,
}

/// Why attributes do not go with the queue, or with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// A FIFO attribute was given for a standard queue.
    #[error("attribute {0} is for FIFO queues only")]
    FifoOnly(AttributeName),
    /// An attribute of standard queues was given for a FIFO queue.
    #[error("attribute {0} is for standard queues only")]
    StandardOnly(AttributeName),
    /// A KMS key and SSE-SQS were asked for in one request.
    #[error("a queue is encrypted by a KMS key or by SSE-SQS, not by both")]
    TwoEncryptions,
    /// The throughput limit would be per message group while deduplication is per queue.
    #[error("FifoThroughputLimit perMessageGroupId needs DeduplicationScope messageGroup")]
    ThroughputLimitNeedsMessageGroupScope,
}

impl AttributeName {
    /// Every attribute, in the order of its number.
    pub const ALL: [Self; 17] = [
        Self::VisibilityTimeout,
        Self::DelaySeconds,
        Self::MessageRetentionPeriod,
        Self::MaximumMessageSize,
        Self::ReceiveMessageWaitTimeSeconds,
        Self::ContentBasedDeduplication,
        Self::DeduplicationScope,
        Self::FifoThroughputLimit,
        Self::Policy,
        Self::RedrivePolicy,
        Self::RedriveAllowPolicy,
        Self::KmsMasterKeyId,
        Self::KmsDataKeyReusePeriodSeconds,
        Self::SqsManagedSseEnabled,
        Self::FifoQueue,
        Self::Spread,
        Self::RedriveTarget,
    ];

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.u8()?;
        let found = Self::ALL.into_iter().find(|name| *name as u8 == number);
        found.ok_or_else(|| unknown("attribute", number))
    }
}

impl fmt::Display for AttributeName {
    /// Writes the name as clients do.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread => formatter.write_str("Hikyaku.Spread"),
            // A part of that attribute.
            Self::RedriveTarget => formatter.write_str("RedrivePolicy"),
            sqs => fmt::Debug::fmt(sqs, formatter),
        }
    }
}

impl Attributes {
    /// Checks the given ones against each other and against what the queue has now.
    pub(crate) fn check(&self, fifo: bool, current: &Settings) -> Result<(), AttributeError> {
        if !fifo && let Some(name) = self.first_fifo_attribute() {
            return Err(AttributeError::FifoOnly(name));
        }
        if fifo && self.spread_width.is_some() {
            return Err(AttributeError::StandardOnly(AttributeName::Spread));
        }
        let kms = self
            .kms_master_key_id
            .as_deref()
            .is_some_and(|key| !key.is_empty());
        if kms && self.sqs_managed_sse == Some(true) {
            return Err(AttributeError::TwoEncryptions);
        }
        let limit = self
            .fifo_throughput_limit
            .unwrap_or(current.fifo_throughput_limit);
        let scope = self
            .deduplication_scope
            .unwrap_or(current.deduplication_scope);
        if limit == FifoThroughputLimit::PerMessageGroupId && scope == DeduplicationScope::Queue {
            return Err(AttributeError::ThroughputLimitNeedsMessageGroupScope);
        }
        Ok(())
    }

    fn first_fifo_attribute(&self) -> Option<AttributeName> {
        if self.content_based_deduplication.is_some() {
            Some(AttributeName::ContentBasedDeduplication)
        } else if self.deduplication_scope.is_some() {
            Some(AttributeName::DeduplicationScope)
        } else if self.fifo_throughput_limit.is_some() {
            Some(AttributeName::FifoThroughputLimit)
        } else {
            None
        }
    }

    /// Sets the given ones. The caller has checked them, and spreads the queue as its settings say.
    pub(crate) fn apply(&self, settings: &mut Settings, descriptor: &mut Descriptor) {
        set(
            &mut descriptor.visibility_timeout_ms,
            &self.visibility_timeout_ms,
        );
        set(&mut descriptor.delay_ms, &self.delay_ms);
        set(&mut descriptor.retention_ms, &self.retention_ms);
        set(&mut settings.max_message_bytes, &self.max_message_bytes);
        set(
            &mut settings.receive_wait_seconds,
            &self.receive_wait_seconds,
        );
        set(
            &mut settings.content_based_deduplication,
            &self.content_based_deduplication,
        );
        set(&mut settings.deduplication_scope, &self.deduplication_scope);
        set(
            &mut settings.fifo_throughput_limit,
            &self.fifo_throughput_limit,
        );
        set(&mut settings.policy, &self.policy);
        set(&mut settings.redrive_policy, &self.redrive_policy);
        set(
            &mut settings.redrive_allow_policy,
            &self.redrive_allow_policy,
        );
        set(
            &mut settings.kms_data_key_reuse_seconds,
            &self.kms_data_key_reuse_seconds,
        );
        set(&mut settings.spread_width, &self.spread_width);
        set(&mut settings.redrive_target, &self.redrive_target);
        self.apply_encryption(settings);
    }

    /// One kind of encryption displaces the other; a removed KMS key leaves none (SQS, 2025-12).
    fn apply_encryption(&self, settings: &mut Settings) {
        if let Some(key) = &self.kms_master_key_id {
            settings.kms_master_key_id.clone_from(key);
        }
        match self.sqs_managed_sse {
            Some(true) => {
                settings.kms_master_key_id.clear();
                settings.sqs_managed_sse = true;
            }
            Some(false) => settings.sqs_managed_sse = false,
            None => settings.sqs_managed_sse &= settings.kms_master_key_id.is_empty(),
        }
    }

    /// Finds the first given attribute, in the order of the numbers, whose value is not the current.
    pub(crate) fn first_difference(
        &self,
        settings: &Settings,
        descriptor: &Descriptor,
    ) -> Option<AttributeName> {
        use AttributeName as Name;
        let differences = [
            (
                Name::VisibilityTimeout,
                differs(
                    &self.visibility_timeout_ms,
                    &descriptor.visibility_timeout_ms,
                ),
            ),
            (
                Name::DelaySeconds,
                differs(&self.delay_ms, &descriptor.delay_ms),
            ),
            (
                Name::MessageRetentionPeriod,
                differs(&self.retention_ms, &descriptor.retention_ms),
            ),
            (
                Name::MaximumMessageSize,
                differs(&self.max_message_bytes, &settings.max_message_bytes),
            ),
            (
                Name::ReceiveMessageWaitTimeSeconds,
                differs(&self.receive_wait_seconds, &settings.receive_wait_seconds),
            ),
            (
                Name::ContentBasedDeduplication,
                differs(
                    &self.content_based_deduplication,
                    &settings.content_based_deduplication,
                ),
            ),
            (
                Name::DeduplicationScope,
                differs(&self.deduplication_scope, &settings.deduplication_scope),
            ),
            (
                Name::FifoThroughputLimit,
                differs(&self.fifo_throughput_limit, &settings.fifo_throughput_limit),
            ),
            (Name::Policy, differs(&self.policy, &settings.policy)),
            (
                Name::RedrivePolicy,
                differs(&self.redrive_policy, &settings.redrive_policy),
            ),
            (
                Name::RedriveAllowPolicy,
                differs(&self.redrive_allow_policy, &settings.redrive_allow_policy),
            ),
            (
                Name::KmsMasterKeyId,
                differs(&self.kms_master_key_id, &settings.kms_master_key_id),
            ),
            (
                Name::KmsDataKeyReusePeriodSeconds,
                differs(
                    &self.kms_data_key_reuse_seconds,
                    &settings.kms_data_key_reuse_seconds,
                ),
            ),
            (
                Name::SqsManagedSseEnabled,
                differs(&self.sqs_managed_sse, &settings.sqs_managed_sse),
            ),
            (
                Name::Spread,
                differs(&self.spread_width, &settings.spread_width),
            ),
        ];
        differences
            .into_iter()
            .find(|(_, differs)| *differs)
            .map(|(name, _)| name)
    }
}

fn set<T: Clone>(current: &mut T, given: &Option<T>) {
    if let Some(given) = given {
        current.clone_from(given);
    }
}

fn differs<T: PartialEq>(given: &Option<T>, current: &T) -> bool {
    given.as_ref().is_some_and(|given| given != current)
}

/// On the wire: how many were given, then number and value of each, in the order of the numbers.
impl Attributes {
    pub(crate) fn write(&self, writer: &mut Writer) {
        use AttributeName as Name;
        let mut given = Given::default();
        given.put(
            Name::VisibilityTimeout,
            &self.visibility_timeout_ms,
            |w, v| w.u64(*v),
        );
        given.put(Name::DelaySeconds, &self.delay_ms, |w, v| w.u64(*v));
        given.put(Name::MessageRetentionPeriod, &self.retention_ms, |w, v| {
            w.u64(*v)
        });
        given.put(Name::MaximumMessageSize, &self.max_message_bytes, |w, v| {
            w.u32(*v)
        });
        given.put(
            Name::ReceiveMessageWaitTimeSeconds,
            &self.receive_wait_seconds,
            |w, v| {
                w.u32(*v);
            },
        );
        given.put(
            Name::ContentBasedDeduplication,
            &self.content_based_deduplication,
            |w, v| {
                w.flag(*v);
            },
        );
        given.put(
            Name::DeduplicationScope,
            &self.deduplication_scope,
            |w, v| {
                w.deduplication_scope(*v);
            },
        );
        given.put(
            Name::FifoThroughputLimit,
            &self.fifo_throughput_limit,
            |w, v| {
                w.fifo_throughput_limit(*v);
            },
        );
        given.put(Name::Policy, &self.policy, |w, v| w.text(v));
        given.put(Name::RedrivePolicy, &self.redrive_policy, |w, v| w.text(v));
        given.put(
            Name::RedriveAllowPolicy,
            &self.redrive_allow_policy,
            |w, v| w.text(v),
        );
        given.put(Name::KmsMasterKeyId, &self.kms_master_key_id, |w, v| {
            w.text(v)
        });
        given.put(
            Name::KmsDataKeyReusePeriodSeconds,
            &self.kms_data_key_reuse_seconds,
            |w, v| {
                w.u32(*v);
            },
        );
        given.put(Name::SqsManagedSseEnabled, &self.sqs_managed_sse, |w, v| {
            w.flag(*v)
        });
        given.put(Name::Spread, &self.spread_width, |w, v| w.u32(*v));
        given.put(Name::RedriveTarget, &self.redrive_target, |w, v| {
            RedriveTarget::write(v.as_ref(), w);
        });
        writer.u8(given.count);
        writer.raw(&given.values.finish());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut given = Self::default();
        for _ in 0..reader.u8()? {
            match AttributeName::read(reader)? {
                AttributeName::VisibilityTimeout => {
                    given.visibility_timeout_ms = Some(reader.u64()?);
                }
                AttributeName::DelaySeconds => given.delay_ms = Some(reader.u64()?),
                AttributeName::MessageRetentionPeriod => given.retention_ms = Some(reader.u64()?),
                AttributeName::MaximumMessageSize => given.max_message_bytes = Some(reader.u32()?),
                AttributeName::ReceiveMessageWaitTimeSeconds => {
                    given.receive_wait_seconds = Some(reader.u32()?);
                }
                AttributeName::ContentBasedDeduplication => {
                    given.content_based_deduplication = Some(reader.flag()?);
                }
                AttributeName::DeduplicationScope => {
                    given.deduplication_scope = Some(reader.deduplication_scope()?);
                }
                AttributeName::FifoThroughputLimit => {
                    given.fifo_throughput_limit = Some(reader.fifo_throughput_limit()?);
                }
                AttributeName::Policy => given.policy = Some(reader.text()?),
                AttributeName::RedrivePolicy => given.redrive_policy = Some(reader.text()?),
                AttributeName::RedriveAllowPolicy => {
                    given.redrive_allow_policy = Some(reader.text()?);
                }
                AttributeName::KmsMasterKeyId => given.kms_master_key_id = Some(reader.text()?),
                AttributeName::KmsDataKeyReusePeriodSeconds => {
                    given.kms_data_key_reuse_seconds = Some(reader.u32()?);
                }
                AttributeName::SqsManagedSseEnabled => {
                    given.sqs_managed_sse = Some(reader.flag()?);
                }
                AttributeName::Spread => given.spread_width = Some(reader.u32()?),
                AttributeName::RedriveTarget => {
                    given.redrive_target = Some(RedriveTarget::read(reader)?);
                }
                name @ AttributeName::FifoQueue => {
                    return Err(unknown("attribute that can be set", name as u8));
                }
            }
        }
        Ok(given)
    }
}

/// Attributes written so far, and how many they are.
#[derive(Default)]
struct Given {
    count: u8,
    values: Writer,
}

impl Given {
    fn put<T>(
        &mut self,
        name: AttributeName,
        value: &Option<T>,
        write: impl FnOnce(&mut Writer, &T),
    ) {
        if let Some(value) = value {
            self.count += 1;
            self.values.u8(name as u8);
            write(&mut self.values, value);
        }
    }
}

impl AttributeError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::FifoOnly(name) => {
                writer.u8(1);
                writer.u8(name as u8);
            }
            Self::TwoEncryptions => writer.u8(2),
            Self::ThroughputLimitNeedsMessageGroupScope => writer.u8(3),
            Self::StandardOnly(name) => {
                writer.u8(4);
                writer.u8(name as u8);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::FifoOnly(AttributeName::read(reader)?)),
            2 => Ok(Self::TwoEncryptions),
            3 => Ok(Self::ThroughputLimitNeedsMessageGroupScope),
            4 => Ok(Self::StandardOnly(AttributeName::read(reader)?)),
            kind => Err(unknown("attribute error", kind)),
        }
    }
}
