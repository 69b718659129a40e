//! Attributes that a client asked for in `CreateQueue` or `SetQueueAttributes`.
//!
//! Each value is checked alone here; what depends on the queue or on other values is checked when
//! the changes are applied.

use super::names::QueueAttributeName;
use super::redrive::{RedriveAllowPolicy, RedrivePolicy, policy_text};
use super::{DeduplicationScope, FifoThroughputLimit};
use crate::error::SqsError;

/// A new value for something that can also be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// It gets this value.
    Set(T),
    /// It is set no longer: the client sent an empty text.
    Remove,
}

impl<T: Clone> Change<T> {
    /// What holds after the change, if there is one.
    pub(super) fn apply(change: Option<&Self>, held: Option<&T>) -> Option<T> {
        match change {
            Some(Self::Set(value)) => Some(value.clone()),
            Some(Self::Remove) => None,
            None => held.cloned(),
        }
    }
}

/// Valid values for some of the settable attributes; `None` where none was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each field is the attribute of that name; see QueueAttributes"
)]
pub struct AttributeChanges {
    pub visibility_timeout_seconds: Option<u32>,
    pub delay_seconds: Option<u32>,
    pub maximum_message_size: Option<u32>,
    pub message_retention_period_seconds: Option<u32>,
    pub receive_message_wait_time_seconds: Option<u32>,
    pub policy: Option<Change<String>>,
    pub redrive_policy: Option<Change<RedrivePolicy>>,
    pub redrive_allow_policy: Option<Change<RedriveAllowPolicy>>,
    pub kms_master_key_id: Option<Change<String>>,
    pub kms_data_key_reuse_period_seconds: Option<u32>,
    pub sqs_managed_sse_enabled: Option<bool>,
    pub fifo_queue: Option<bool>,
    pub content_based_deduplication: Option<bool>,
    pub deduplication_scope: Option<DeduplicationScope>,
    pub fifo_throughput_limit: Option<FifoThroughputLimit>,
    pub spread: Option<Change<u32>>,
}

impl AttributeChanges {
    /// Parses names and values as a client sent them.
    pub fn parse<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SqsError> {
        let mut changes = Self::default();
        for (name, value) in pairs {
            let known = QueueAttributeName::from_name(name)
                .ok_or_else(|| SqsError::unknown_attribute(name))?;
            changes.put(known, value)?;
        }
        Ok(changes)
    }

    fn put(&mut self, name: QueueAttributeName, value: &str) -> Result<(), SqsError> {
        use QueueAttributeName as Name;
        match name {
            Name::VisibilityTimeout => {
                self.visibility_timeout_seconds = Some(number(name, value, 0, 43_200)?);
            }
            Name::DelaySeconds => self.delay_seconds = Some(number(name, value, 0, 900)?),
            Name::MaximumMessageSize => {
                let highest = super::MAX_MESSAGE_BYTES;
                self.maximum_message_size = Some(number(name, value, 1_024, highest)?);
            }
            Name::MessageRetentionPeriod => {
                self.message_retention_period_seconds = Some(number(name, value, 60, 1_209_600)?);
            }
            Name::ReceiveMessageWaitTimeSeconds => {
                self.receive_message_wait_time_seconds = Some(number(name, value, 0, 20)?);
            }
            Name::Policy => self.policy = Some(removable(value, policy_text)?),
            Name::RedrivePolicy => {
                self.redrive_policy = Some(removable(value, RedrivePolicy::parse)?);
            }
            Name::RedriveAllowPolicy => {
                self.redrive_allow_policy = Some(removable(value, RedriveAllowPolicy::parse)?);
            }
            Name::KmsMasterKeyId => {
                self.kms_master_key_id = Some(removable(value, |key| Ok(key.to_owned()))?);
            }
            Name::KmsDataKeyReusePeriodSeconds => {
                self.kms_data_key_reuse_period_seconds = Some(number(name, value, 60, 86_400)?);
            }
            Name::SqsManagedSseEnabled => {
                self.sqs_managed_sse_enabled = Some(boolean(name, value)?);
            }
            Name::FifoQueue => self.fifo_queue = Some(boolean(name, value)?),
            Name::ContentBasedDeduplication => {
                self.content_based_deduplication = Some(boolean(name, value)?);
            }
            Name::DeduplicationScope => {
                let words = [DeduplicationScope::Queue, DeduplicationScope::MessageGroup];
                let word = words.into_iter().find(|word| word.as_str() == value);
                self.deduplication_scope = Some(word.ok_or_else(|| invalid(name))?);
            }
            Name::FifoThroughputLimit => {
                let words = [
                    FifoThroughputLimit::PerQueue,
                    FifoThroughputLimit::PerMessageGroupId,
                ];
                let word = words.into_iter().find(|word| word.as_str() == value);
                self.fifo_throughput_limit = Some(word.ok_or_else(|| invalid(name))?);
            }
            Name::Spread => {
                let width = |value: &str| number(name, value, 1, super::MAX_SPREAD);
                self.spread = Some(removable(value, width)?);
            }
            Name::QueueArn
            | Name::CreatedTimestamp
            | Name::LastModifiedTimestamp
            | Name::ApproximateNumberOfMessages
            | Name::ApproximateNumberOfMessagesNotVisible
            | Name::ApproximateNumberOfMessagesDelayed => {
                return Err(SqsError::unknown_attribute(name.as_str()));
            }
        }
        Ok(())
    }

    /// Whether the client gave a value for this attribute.
    #[must_use]
    pub fn mentions(&self, name: QueueAttributeName) -> bool {
        use QueueAttributeName as Name;
        match name {
            Name::VisibilityTimeout => self.visibility_timeout_seconds.is_some(),
            Name::DelaySeconds => self.delay_seconds.is_some(),
            Name::MaximumMessageSize => self.maximum_message_size.is_some(),
            Name::MessageRetentionPeriod => self.message_retention_period_seconds.is_some(),
            Name::ReceiveMessageWaitTimeSeconds => self.receive_message_wait_time_seconds.is_some(),
            Name::Policy => self.policy.is_some(),
            Name::RedrivePolicy => self.redrive_policy.is_some(),
            Name::RedriveAllowPolicy => self.redrive_allow_policy.is_some(),
            Name::KmsMasterKeyId => self.kms_master_key_id.is_some(),
            Name::KmsDataKeyReusePeriodSeconds => self.kms_data_key_reuse_period_seconds.is_some(),
            Name::SqsManagedSseEnabled => self.sqs_managed_sse_enabled.is_some(),
            Name::FifoQueue => self.fifo_queue.is_some(),
            Name::ContentBasedDeduplication => self.content_based_deduplication.is_some(),
            Name::DeduplicationScope => self.deduplication_scope.is_some(),
            Name::FifoThroughputLimit => self.fifo_throughput_limit.is_some(),
            Name::Spread => self.spread.is_some(),
            Name::QueueArn
            | Name::CreatedTimestamp
            | Name::LastModifiedTimestamp
            | Name::ApproximateNumberOfMessages
            | Name::ApproximateNumberOfMessagesNotVisible
            | Name::ApproximateNumberOfMessagesDelayed => false,
        }
    }
}

fn invalid(name: QueueAttributeName) -> SqsError {
    SqsError::invalid_attribute_value(name.as_str())
}

fn number(
    name: QueueAttributeName,
    value: &str,
    lowest: u32,
    highest: u32,
) -> Result<u32, SqsError> {
    let number = value
        .parse()
        .ok()
        .filter(|number| (lowest..=highest).contains(number));
    number.ok_or_else(|| invalid(name))
}

/// Clients of some languages write `True`.
fn boolean(name: QueueAttributeName, value: &str) -> Result<bool, SqsError> {
    if value.eq_ignore_ascii_case("true") {
        return Ok(true);
    }
    if value.eq_ignore_ascii_case("false") {
        return Ok(false);
    }
    Err(invalid(name))
}

fn removable<T>(
    value: &str,
    parse: impl FnOnce(&str) -> Result<T, SqsError>,
) -> Result<Change<T>, SqsError> {
    if value.is_empty() {
        Ok(Change::Remove)
    } else {
        parse(value).map(Change::Set)
    }
}
