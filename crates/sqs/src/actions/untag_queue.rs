//! `UntagQueue`: removes tags of a queue. No output.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::error::{ErrorCode, SqsError};
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::tags;
use crate::wire::{Items, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireUntagQueue<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    tag_keys: Items<Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct UntagQueue<'a> {
    /// The queue.
    pub queue: QueueRef,
    keys: Items<Text<'a>>,
}

impl<'a> UntagQueue<'a> {
    pub(crate) fn from_wire(
        wire: WireUntagQueue<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            keys: wire.tag_keys,
        })
    }

    /// The keys of the tags to take off; one that the queue lacks is no fault.
    pub fn check(&self) -> Result<BTreeSet<String>, SqsError> {
        if self.keys.0.is_empty() {
            let text = "Tag keys must be between 1 and 128 characters in length.";
            return Err(SqsError::new(ErrorCode::InvalidParameterValue, text));
        }
        let keys = self.keys.0.iter().map(|key| {
            tags::check_key(key)?;
            Ok(key.0.to_string())
        });
        keys.collect()
    }
}
