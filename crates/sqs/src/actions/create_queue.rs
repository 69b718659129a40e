//! `CreateQueue`: creates a queue, or returns the URL of the equal one that exists.

use serde::{Deserialize, Serialize};

use crate::error::SqsError;
use crate::queue_attributes::QueueAttributes;
use crate::queue_attributes::changes::AttributeChanges;
use crate::queue_name::QueueName;
use crate::reply;
use crate::tags::Tags;
use crate::wire::{Members, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireCreateQueue<'a> {
    #[serde(borrow)]
    queue_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    attributes: Members<'a, Text<'a>>,
    // The model has this one member in lower case.
    #[serde(borrow, default, rename = "tags")]
    tags: Members<'a, Text<'a>>,
}

/// The request, checked: nothing about it depends on a queue.
#[derive(Debug)]
pub struct CreateQueue {
    /// The queue's name.
    pub name: QueueName,
    /// The attributes that a new queue gets.
    pub attributes: QueueAttributes,
    /// The tags that a new queue gets.
    pub tags: Tags,
    /// The attributes that the client gave, without the defaults.
    pub asked: AttributeChanges,
}

impl CreateQueue {
    pub(crate) fn from_wire(wire: &WireCreateQueue<'_>) -> Result<Self, SqsError> {
        let name = wire.queue_name.as_deref().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| SqsError::missing_parameter("QueueName"))?;
        let name = QueueName::parse(name)?;
        let pairs = wire
            .attributes
            .0
            .iter()
            .map(|(name, value)| (&**name, &**value));
        let asked = AttributeChanges::parse(pairs)?;
        let attributes = QueueAttributes::create(&name, &asked)?;
        let tags = Tags::parse(&wire.tags)?;
        tags.check_count(name.as_str())?;
        Ok(Self {
            name,
            attributes,
            tags,
            asked,
        })
    }

    /// Whether a queue of this name that exists is the one asked for.
    ///
    /// Only the attributes given are compared, with what holds now. Tags are not: no source shows that
    /// AWS does (SQS-CONTRACT section 12), and a refusal would name an attribute.
    pub fn check_existing(&self, existing: &QueueAttributes) -> Result<(), SqsError> {
        match existing.first_difference(&self.attributes, &self.asked) {
            None => Ok(()),
            Some(name) => Err(SqsError::queue_name_exists(name.as_str())),
        }
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateQueueResponse {
    /// The URL of the queue.
    pub queue_url: String,
}

impl CreateQueueResponse {
    /// The body of the answer in JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        reply::to_json(self)
    }
}
