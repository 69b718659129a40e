//! What a queue tells about itself: its attributes and the facts that only others know.

use super::QueueAttributes;
use super::names::QueueAttributeName;
use crate::arn::QueueArn;
use crate::error::SqsError;

/// Approximate numbers of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Messages that a receive could get.
    pub visible: u64,
    /// Messages in flight.
    pub not_visible: u64,
    /// Messages whose delay still runs.
    pub delayed: u64,
}

/// A queue as `GetQueueAttributes` describes it.
#[derive(Clone, Copy, Debug)]
pub struct QueueDescription<'a> {
    /// The settable attributes.
    pub attributes: &'a QueueAttributes,
    /// The queue's ARN.
    pub arn: &'a QueueArn,
    /// When the queue was created, in seconds since the epoch.
    pub created_seconds: u64,
    /// When its attributes last changed, in seconds since the epoch.
    pub last_modified_seconds: u64,
    /// Its counts; only looked at if [`AttributeSelection::wants_counts`].
    pub counts: MessageCounts,
}

/// The attributes a client asked for, in the order and number in which we answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeSelection(Vec<QueueAttributeName>);

impl AttributeSelection {
    /// Parses the names of a request; `All` may stand among others.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, SqsError> {
        let mut selected = Vec::new();
        for name in names {
            if name == "All" {
                selected.extend(QueueAttributeName::ALL);
                continue;
            }
            let known = QueueAttributeName::from_name(name)
                .ok_or_else(|| SqsError::unknown_attribute(name))?;
            selected.push(known);
        }
        selected.sort_unstable();
        selected.dedup();
        Ok(Self(selected))
    }

    /// Whether the answer needs the counts of messages.
    #[must_use]
    pub fn wants_counts(&self) -> bool {
        self.0.iter().any(|name| name.is_count())
    }

    /// The selected attributes that are set, with their values.
    #[must_use]
    pub fn of(&self, queue: &QueueDescription<'_>) -> Vec<(QueueAttributeName, String)> {
        let pair = |name: &QueueAttributeName| queue.value(*name).map(|value| (*name, value));
        self.0.iter().filter_map(pair).collect()
    }
}

impl QueueDescription<'_> {
    fn value(&self, name: QueueAttributeName) -> Option<String> {
        use QueueAttributeName as Name;
        match name {
            Name::QueueArn => Some(self.arn.to_string()),
            Name::CreatedTimestamp => Some(self.created_seconds.to_string()),
            Name::LastModifiedTimestamp => Some(self.last_modified_seconds.to_string()),
            Name::ApproximateNumberOfMessages => Some(self.counts.visible.to_string()),
            Name::ApproximateNumberOfMessagesNotVisible => {
                Some(self.counts.not_visible.to_string())
            }
            Name::ApproximateNumberOfMessagesDelayed => Some(self.counts.delayed.to_string()),
            settable => self.attributes.value(settable),
        }
    }
}
