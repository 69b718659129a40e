//! `SetQueueAttributes`: changes attributes of a queue. No output.

use serde::Deserialize;

use crate::error::SqsError;
use crate::queue_attributes::QueueAttributes;
use crate::queue_attributes::changes::AttributeChanges;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::wire::{Members, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireSetQueueAttributes<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    attributes: Members<'a, Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct SetQueueAttributes<'a> {
    /// The queue.
    pub queue: QueueRef,
    attributes: Members<'a, Text<'a>>,
}

impl<'a> SetQueueAttributes<'a> {
    pub(crate) fn from_wire(
        wire: WireSetQueueAttributes<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            attributes: wire.attributes,
        })
    }

    /// The attributes that the queue has after the change.
    pub fn check(&self, current: &QueueAttributes) -> Result<QueueAttributes, SqsError> {
        current.with(&self.changes()?)
    }

    /// The changes alone, for a caller who looks at one of them.
    pub fn changes(&self) -> Result<AttributeChanges, SqsError> {
        if self.attributes.0.is_empty() {
            return Err(SqsError::missing_parameter("Attributes"));
        }
        let pairs = self
            .attributes
            .0
            .iter()
            .map(|(name, value)| (&**name, &**value));
        AttributeChanges::parse(pairs)
    }
}
