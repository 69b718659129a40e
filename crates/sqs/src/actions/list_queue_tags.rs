//! `ListQueueTags`: lists the tags of a queue.

use std::collections::BTreeMap;

use serde::Serialize;

use super::WireQueueOnly;
use crate::error::SqsError;
use crate::queue_url::QueueRef;
use crate::reply;
use crate::request::Envelope;
use crate::tags::Tags;

/// The request.
#[derive(Debug)]
pub struct ListQueueTags {
    /// The queue.
    pub queue: QueueRef,
}

impl ListQueueTags {
    pub(crate) fn from_wire(
        wire: &WireQueueOnly<'_>,
        envelope: Envelope<'_>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self { queue })
    }
}

/// The answer; without tags it has no members.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListQueueTagsResponse<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: &'a BTreeMap<String, String>,
}

impl<'a> ListQueueTagsResponse<'a> {
    /// The answer for a queue with these tags.
    #[must_use]
    pub fn new(tags: &'a Tags) -> Self {
        Self {
            tags: tags.as_map(),
        }
    }

    /// The body of the answer in JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        reply::to_json(self)
    }
}
