//! `TagQueue`: adds or overwrites tags of a queue. No output.

use serde::Deserialize;

use crate::error::SqsError;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::tags::Tags;
use crate::wire::{Members, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireTagQueue<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    tags: Members<'a, Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct TagQueue<'a> {
    /// The queue.
    pub queue: QueueRef,
    tags: Members<'a, Text<'a>>,
}

impl<'a> TagQueue<'a> {
    pub(crate) fn from_wire(
        wire: WireTagQueue<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            tags: wire.tags,
        })
    }

    /// The tags to add; how many the queue has with them is for the caller to know.
    pub fn check(&self) -> Result<Tags, SqsError> {
        if self.tags.0.is_empty() {
            return Err(SqsError::missing_parameter("Tags"));
        }
        let tags = Tags::parse(&self.tags)?;
        tags.check_count(self.queue.name.as_str())?;
        Ok(tags)
    }
}
