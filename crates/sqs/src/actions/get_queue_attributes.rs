//! `GetQueueAttributes`: reads attributes of a queue.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::error::SqsError;
use crate::queue_attributes::description::AttributeSelection;
use crate::queue_attributes::names::QueueAttributeName;
use crate::queue_url::QueueRef;
use crate::reply;
use crate::request::Envelope;
use crate::wire::{Items, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireGetQueueAttributes<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    attribute_names: Items<Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct GetQueueAttributes<'a> {
    /// The queue.
    pub queue: QueueRef,
    names: Items<Text<'a>>,
}

impl<'a> GetQueueAttributes<'a> {
    pub(crate) fn from_wire(
        wire: WireGetQueueAttributes<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            names: wire.attribute_names,
        })
    }

    /// The attributes asked for; without names, none.
    pub fn check(&self) -> Result<AttributeSelection, SqsError> {
        AttributeSelection::parse(self.names.0.iter().map(|name| &**name))
    }
}

/// The answer; without attributes it has no members.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GetQueueAttributesResponse {
    /// What [`AttributeSelection::of`] selected.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    pub attributes: Vec<(QueueAttributeName, String)>,
}

impl GetQueueAttributesResponse {
    /// The body of the answer in JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        reply::to_json(self)
    }
}

fn as_map<S: Serializer>(
    attributes: &[(QueueAttributeName, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(attributes.len()))?;
    for (name, value) in attributes {
        map.serialize_entry(name.as_str(), value)?;
    }
    map.end()
}
