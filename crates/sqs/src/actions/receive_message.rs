//! `ReceiveMessage`: receives up to ten messages.
//!
//! What a receive returns besides ids, handle and body is only what it asked for: names of system
//! attributes, and patterns for the client's attributes. Names that mean nothing are ignored.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::send_message::sequence_number_text;
use crate::arn::QueueArn;
use crate::error::SqsError;
use crate::message::QueueFacts;
use crate::message::attributes::MessageAttribute;
use crate::message::ids::ReceiveAttemptId;
use crate::message::md5::{Md5Hex, md5_of_attributes, md5_of_body};
use crate::message::received::{AttributeFilter, SystemAttribute, SystemAttributes, as_map};
use crate::message::stored::{MessageId, StoredMessage};
use crate::quantities::{MaxNumberOfMessages, VisibilityTimeout, WaitTimeSeconds};
use crate::queue_url::QueueRef;
use crate::reply;
use crate::request::Envelope;
use crate::wire::{Integer, Items, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireReceiveMessage<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    attribute_names: Items<Text<'a>>,
    #[serde(borrow, default)]
    message_system_attribute_names: Items<Text<'a>>,
    #[serde(borrow, default)]
    message_attribute_names: Items<Text<'a>>,
    max_number_of_messages: Option<Integer>,
    visibility_timeout: Option<Integer>,
    wait_time_seconds: Option<Integer>,
    #[serde(borrow)]
    receive_request_attempt_id: Option<Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct ReceiveMessage<'a> {
    /// The queue.
    pub queue: QueueRef,
    wire: WireReceiveMessage<'a>,
}

/// A receive whose values are valid.
#[derive(Debug)]
pub struct CheckedReceive<'a> {
    /// How many messages to return at most.
    pub max_number_of_messages: MaxNumberOfMessages,
    /// How long they stay hidden; absent means the queue's timeout.
    pub visibility_timeout: Option<VisibilityTimeout>,
    /// How long to wait for the first; absent means the queue's wait.
    pub wait_time: Option<WaitTimeSeconds>,
    /// What tells a repetition of this receive; on FIFO queues only.
    pub attempt_id: Option<ReceiveAttemptId<'a>>,
    system_attributes: SystemAttributes,
    filter: AttributeFilter<'a>,
}

impl<'a> ReceiveMessage<'a> {
    pub(crate) fn from_wire(
        wire: WireReceiveMessage<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self { queue, wire })
    }

    /// The receive, if a queue with these facts can do it.
    pub fn check(&self, facts: QueueFacts) -> Result<CheckedReceive<'_>, SqsError> {
        let wire = &self.wire;
        let names = wire
            .attribute_names
            .0
            .iter()
            .chain(&wire.message_system_attribute_names.0);
        let number = wire
            .max_number_of_messages
            .map(MaxNumberOfMessages::parse)
            .transpose()?;
        Ok(CheckedReceive {
            max_number_of_messages: number.unwrap_or_default(),
            visibility_timeout: wire
                .visibility_timeout
                .map(VisibilityTimeout::parse)
                .transpose()?,
            wait_time: wire
                .wait_time_seconds
                .map(WaitTimeSeconds::parse)
                .transpose()?,
            attempt_id: self.attempt_id(facts)?,
            system_attributes: SystemAttributes::parse(names.map(|name| &**name)),
            filter: AttributeFilter::parse(wire.message_attribute_names.0.iter().map(|n| &**n)),
        })
    }

    /// AWS takes the id on standard queues without complaint (awspring/spring-cloud-aws#529), where
    /// older Spring clients send it.
    fn attempt_id(&self, facts: QueueFacts) -> Result<Option<ReceiveAttemptId<'_>>, SqsError> {
        let id = self.wire.receive_request_attempt_id.as_deref();
        id.filter(|_| facts.fifo)
            .map(ReceiveAttemptId::parse)
            .transpose()
    }
}

/// A message handed out, with what the queue knows of it.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// The handle of this receive.
    pub receipt_handle: String,
    /// What is stored of the message.
    pub stored: StoredMessage<'a>,
    /// When it was sent, in milliseconds since the epoch.
    pub sent_ms: u64,
    /// How often it was received, this time included.
    pub receive_count: u32,
    /// When it was first received, in milliseconds since the epoch.
    pub first_received_ms: u64,
    /// Its sequence number; on FIFO queues only.
    pub sequence_number: Option<u64>,
    /// The queue from which it came as a dead letter.
    pub dead_letter_source: Option<&'a QueueArn>,
}

/// A message as a receive returns it.
#[derive(Debug, Serialize)]
pub struct ReceivedMessage<'a> {
    #[serde(rename = "MessageId")]
    message_id: MessageId,
    #[serde(rename = "ReceiptHandle")]
    receipt_handle: String,
    #[serde(rename = "MD5OfBody")]
    md5_of_body: Md5Hex,
    #[serde(rename = "Body")]
    body: Cow<'a, str>,
    #[serde(
        rename = "Attributes",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "as_map::system_attributes"
    )]
    attributes: Vec<(SystemAttribute, Cow<'a, str>)>,
    #[serde(
        rename = "MD5OfMessageAttributes",
        skip_serializing_if = "Option::is_none"
    )]
    md5_of_message_attributes: Option<Md5Hex>,
    #[serde(
        rename = "MessageAttributes",
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "as_map::message_attributes"
    )]
    message_attributes: Vec<MessageAttribute<'a>>,
}

impl CheckedReceive<'_> {
    /// The message as this receive asked for it.
    #[must_use]
    pub fn present<'m>(&self, delivery: Delivery<'m>) -> ReceivedMessage<'m> {
        let attributes = self
            .system_attributes
            .iter()
            .filter_map(|name| system_attribute(name, &delivery).map(|value| (name, value)))
            .collect();
        let stored = delivery.stored;
        let message_attributes = self.filter.select(stored.attributes);
        ReceivedMessage {
            message_id: stored.id,
            receipt_handle: delivery.receipt_handle,
            md5_of_body: md5_of_body(&stored.body),
            body: stored.body,
            attributes,
            md5_of_message_attributes: md5_of_attributes(&message_attributes),
            message_attributes,
        }
    }
}

fn system_attribute<'m>(name: SystemAttribute, delivery: &Delivery<'m>) -> Option<Cow<'m, str>> {
    let stored = &delivery.stored;
    match name {
        SystemAttribute::SenderId => Some(stored.sender_id.clone()),
        SystemAttribute::SentTimestamp => Some(delivery.sent_ms.to_string().into()),
        SystemAttribute::ApproximateReceiveCount => Some(delivery.receive_count.to_string().into()),
        SystemAttribute::ApproximateFirstReceiveTimestamp => {
            Some(delivery.first_received_ms.to_string().into())
        }
        SystemAttribute::SequenceNumber => delivery
            .sequence_number
            .map(|number| sequence_number_text(number).into()),
        SystemAttribute::MessageDeduplicationId => stored.deduplication_id.clone(),
        SystemAttribute::MessageGroupId => stored.message_group.clone(),
        SystemAttribute::AwsTraceHeader => stored.trace_header.clone(),
        SystemAttribute::DeadLetterQueueSourceArn => delivery
            .dead_letter_source
            .map(|arn| arn.to_string().into()),
    }
}

/// The answer; without messages it has no members.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ReceiveMessageResponse<'a> {
    /// The messages, in the order in which the queue hands them out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<ReceivedMessage<'a>>,
}

impl ReceiveMessageResponse<'_> {
    /// The body of the answer in JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        reply::to_json(self)
    }
}
