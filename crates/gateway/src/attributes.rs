//! Attributes of queues in two forms: the protocol's, in seconds and with texts parsed, and the
//! metadata's, in milliseconds and with texts as stored.

use hikyaku_metadata::{self as metadata, AttributeError, Attributes, QueueRecord, RedriveTarget};
use hikyaku_queue as queue;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::QueueFacts;
use hikyaku_sqs::queue_attributes::changes::{AttributeChanges, Change};
use hikyaku_sqs::queue_attributes::redrive::{RedriveAllowPolicy, RedrivePolicy};
use hikyaku_sqs::queue_attributes::{
    DeduplicationScope, Encryption, FifoAttributes, FifoThroughputLimit, QueueAttributes,
};

/// What the metadata is asked to set for what the client asked for.
pub(crate) fn to_metadata(changes: &AttributeChanges) -> Attributes {
    let AttributeChanges {
        visibility_timeout_seconds,
        delay_seconds,
        maximum_message_size,
        message_retention_period_seconds,
        receive_message_wait_time_seconds,
        policy,
        redrive_policy,
        redrive_allow_policy,
        kms_master_key_id,
        kms_data_key_reuse_period_seconds,
        sqs_managed_sse_enabled,
        // Fixed at creation, where the name says it.
        fifo_queue: _,
        content_based_deduplication,
        deduplication_scope,
        fifo_throughput_limit,
        spread,
    } = changes;
    Attributes {
        visibility_timeout_ms: visibility_timeout_seconds.map(to_ms),
        delay_ms: delay_seconds.map(to_ms),
        retention_ms: message_retention_period_seconds.map(to_ms),
        max_message_bytes: *maximum_message_size,
        receive_wait_seconds: *receive_message_wait_time_seconds,
        content_based_deduplication: *content_based_deduplication,
        deduplication_scope: deduplication_scope.map(scope_to_metadata),
        fifo_throughput_limit: fifo_throughput_limit.map(limit_to_metadata),
        policy: text(policy.as_ref(), String::as_str),
        redrive_policy: text(redrive_policy.as_ref(), RedrivePolicy::as_str),
        redrive_allow_policy: text(redrive_allow_policy.as_ref(), RedriveAllowPolicy::as_str),
        kms_master_key_id: text(kms_master_key_id.as_ref(), String::as_str),
        kms_data_key_reuse_seconds: *kms_data_key_reuse_period_seconds,
        sqs_managed_sse: *sqs_managed_sse_enabled,
        redrive_target: redrive_policy.as_ref().map(|change| match change {
            Change::Set(policy) => Some(RedriveTarget {
                queue: policy.target().name.as_str().to_owned(),
                max_receive_count: policy.max_receive_count(),
            }),
            Change::Remove => None,
        }),
        spread_width: spread.as_ref().map(|change| match change {
            Change::Set(width) => *width,
            Change::Remove => 0,
        }),
    }
}

/// The attributes of a queue as the protocol knows them.
pub(crate) fn of_record(record: &QueueRecord) -> QueueAttributes {
    let (descriptor, settings) = (&record.descriptor, &record.settings);
    let fifo = record.is_fifo().then(|| FifoAttributes {
        content_based_deduplication: settings.content_based_deduplication,
        deduplication_scope: scope_of_metadata(settings.deduplication_scope),
        throughput_limit: limit_of_metadata(settings.fifo_throughput_limit),
    });
    QueueAttributes {
        visibility_timeout_seconds: to_seconds(descriptor.visibility_timeout_ms),
        delay_seconds: to_seconds(descriptor.delay_ms),
        maximum_message_size: settings.max_message_bytes,
        message_retention_period_seconds: to_seconds(descriptor.retention_ms),
        receive_message_wait_time_seconds: settings.receive_wait_seconds,
        policy: set(&settings.policy).map(str::to_owned),
        redrive_policy: stored_policy(&settings.redrive_policy, RedrivePolicy::parse),
        redrive_allow_policy: stored_policy(
            &settings.redrive_allow_policy,
            RedriveAllowPolicy::parse,
        ),
        encryption: Encryption {
            kms_master_key_id: set(&settings.kms_master_key_id).map(str::to_owned),
            kms_data_key_reuse_period_seconds: settings.kms_data_key_reuse_seconds,
            sqs_managed_sse_enabled: settings.sqs_managed_sse,
        },
        fifo,
        spread: (settings.spread_width > 0).then_some(settings.spread_width),
    }
}

/// What must be known of a queue before a message for it can be checked.
pub(crate) fn facts_of(record: &QueueRecord) -> QueueFacts {
    QueueFacts {
        maximum_message_size: record.settings.max_message_bytes,
        fifo: record.is_fifo(),
        content_based_deduplication: record.settings.content_based_deduplication,
    }
}

/// Why the metadata refused attributes, in AWS's words.
pub(crate) fn refusal(error: AttributeError) -> SqsError {
    match error {
        AttributeError::FifoOnly(name) => SqsError::attribute_is_for_fifo(&name.to_string()),
        AttributeError::StandardOnly(name) => {
            SqsError::attribute_is_for_standard(&name.to_string())
        }
        AttributeError::TwoEncryptions => SqsError::two_encryptions(),
        AttributeError::ThroughputLimitNeedsMessageGroupScope => {
            SqsError::throughput_limit_needs_message_group_scope()
        }
    }
}

/// Milliseconds of so many seconds.
pub(crate) fn to_ms(seconds: u32) -> u64 {
    u64::from(seconds) * 1_000
}

fn to_seconds(ms: u64) -> u32 {
    u32::try_from(ms / 1_000).expect("durations of queues are at most 14 days")
}

/// The metadata removes a text that is set to nothing.
fn text<T>(change: Option<&Change<T>>, as_str: impl Fn(&T) -> &str) -> Option<String> {
    change.map(|change| match change {
        Change::Set(value) => as_str(value).to_owned(),
        Change::Remove => String::new(),
    })
}

fn set(stored: &str) -> Option<&str> {
    (!stored.is_empty()).then_some(stored)
}

fn stored_policy<T>(stored: &str, parse: impl Fn(&str) -> Result<T, SqsError>) -> Option<T> {
    let parsed = parse(set(stored)?);
    if let Err(error) = &parsed {
        tracing::error!(%error, "a stored policy cannot be read");
    }
    parsed.ok()
}

fn scope_to_metadata(scope: DeduplicationScope) -> queue::DeduplicationScope {
    match scope {
        DeduplicationScope::Queue => queue::DeduplicationScope::Queue,
        DeduplicationScope::MessageGroup => queue::DeduplicationScope::MessageGroup,
    }
}

fn scope_of_metadata(scope: queue::DeduplicationScope) -> DeduplicationScope {
    match scope {
        queue::DeduplicationScope::Queue => DeduplicationScope::Queue,
        queue::DeduplicationScope::MessageGroup => DeduplicationScope::MessageGroup,
    }
}

fn limit_to_metadata(limit: FifoThroughputLimit) -> metadata::FifoThroughputLimit {
    match limit {
        FifoThroughputLimit::PerQueue => metadata::FifoThroughputLimit::PerQueue,
        FifoThroughputLimit::PerMessageGroupId => metadata::FifoThroughputLimit::PerMessageGroupId,
    }
}

fn limit_of_metadata(limit: metadata::FifoThroughputLimit) -> FifoThroughputLimit {
    match limit {
        metadata::FifoThroughputLimit::PerQueue => FifoThroughputLimit::PerQueue,
        metadata::FifoThroughputLimit::PerMessageGroupId => FifoThroughputLimit::PerMessageGroupId,
    }
}

#[cfg(test)]
mod tests;
