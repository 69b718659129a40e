//! The names of queue attributes.

/// One of the attributes a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(
    missing_docs,
    reason = "the names are AWS's own and say what they are; ours are documented where they are held"
)]
pub enum QueueAttributeName {
    VisibilityTimeout,
    DelaySeconds,
    MaximumMessageSize,
    MessageRetentionPeriod,
    ReceiveMessageWaitTimeSeconds,
    Policy,
    RedrivePolicy,
    RedriveAllowPolicy,
    KmsMasterKeyId,
    KmsDataKeyReusePeriodSeconds,
    SqsManagedSseEnabled,
    FifoQueue,
    ContentBasedDeduplication,
    DeduplicationScope,
    FifoThroughputLimit,
    Spread,
    QueueArn,
    CreatedTimestamp,
    LastModifiedTimestamp,
    ApproximateNumberOfMessages,
    ApproximateNumberOfMessagesNotVisible,
    ApproximateNumberOfMessagesDelayed,
}

impl QueueAttributeName {
    /// All names.
    pub const ALL: [Self; 22] = [
        Self::VisibilityTimeout,
        Self::DelaySeconds,
        Self::MaximumMessageSize,
        Self::MessageRetentionPeriod,
        Self::ReceiveMessageWaitTimeSeconds,
        Self::Policy,
        Self::RedrivePolicy,
        Self::RedriveAllowPolicy,
        Self::KmsMasterKeyId,
        Self::KmsDataKeyReusePeriodSeconds,
        Self::SqsManagedSseEnabled,
        Self::FifoQueue,
        Self::ContentBasedDeduplication,
        Self::DeduplicationScope,
        Self::FifoThroughputLimit,
        Self::Spread,
        Self::QueueArn,
        Self::CreatedTimestamp,
        Self::LastModifiedTimestamp,
        Self::ApproximateNumberOfMessages,
        Self::ApproximateNumberOfMessagesNotVisible,
        Self::ApproximateNumberOfMessagesDelayed,
    ];

    /// The name as clients write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::VisibilityTimeout => "VisibilityTimeout",
            Self::DelaySeconds => "DelaySeconds",
            Self::MaximumMessageSize => "MaximumMessageSize",
            Self::MessageRetentionPeriod => "MessageRetentionPeriod",
            Self::ReceiveMessageWaitTimeSeconds => "ReceiveMessageWaitTimeSeconds",
            Self::Policy => "Policy",
            Self::RedrivePolicy => "RedrivePolicy",
            Self::RedriveAllowPolicy => "RedriveAllowPolicy",
            Self::KmsMasterKeyId => "KmsMasterKeyId",
            Self::KmsDataKeyReusePeriodSeconds => "KmsDataKeyReusePeriodSeconds",
            Self::SqsManagedSseEnabled => "SqsManagedSseEnabled",
            Self::FifoQueue => "FifoQueue",
            Self::ContentBasedDeduplication => "ContentBasedDeduplication",
            Self::DeduplicationScope => "DeduplicationScope",
            Self::FifoThroughputLimit => "FifoThroughputLimit",
            // A dot keeps our own names apart from all that AWS may ever add.
            Self::Spread => "Hikyaku.Spread",
            Self::QueueArn => "QueueArn",
            Self::CreatedTimestamp => "CreatedTimestamp",
            Self::LastModifiedTimestamp => "LastModifiedTimestamp",
            Self::ApproximateNumberOfMessages => "ApproximateNumberOfMessages",
            Self::ApproximateNumberOfMessagesNotVisible => "ApproximateNumberOfMessagesNotVisible",
            Self::ApproximateNumberOfMessagesDelayed => "ApproximateNumberOfMessagesDelayed",
        }
    }

    /// Finds an attribute by its name; names are case-sensitive.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// Whether it is one of the three counts of messages.
    #[must_use]
    pub const fn is_count(self) -> bool {
        matches!(
            self,
            Self::ApproximateNumberOfMessages
                | Self::ApproximateNumberOfMessagesNotVisible
                | Self::ApproximateNumberOfMessagesDelayed
        )
    }
}
