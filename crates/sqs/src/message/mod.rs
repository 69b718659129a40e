//! A message as a client sends it, and everything that is refused about it.
//!
//! [`CheckedMessage`] is a message that fits its queue: made only by checking what the client sent
//! against [`QueueFacts`], it borrows body and attributes from the request.

pub mod attributes;
pub mod body;
pub mod ids;
pub mod md5;
pub mod received;
pub mod stored;
pub(crate) mod wire;

use crate::error::SqsError;
use crate::quantities::DelaySeconds;
use crate::queue_attributes::QueueAttributes;

use attributes::{MessageAttributes, TraceHeader};
use body::MessageBody;
use ids::{DeduplicationId, MessageGroupId};
use md5::{Md5Hex, md5_of_attributes, md5_of_body};
use stored::{MessageId, StoredMessage};
use wire::WireMessage;

/// What a queue must tell before a message can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFacts {
    /// The largest message, in bytes.
    pub maximum_message_size: u32,
    /// Whether it is a FIFO queue.
    pub fifo: bool,
    /// Whether a message without a deduplication id gets the hash of its body.
    pub content_based_deduplication: bool,
}

impl From<&QueueAttributes> for QueueFacts {
    fn from(attributes: &QueueAttributes) -> Self {
        Self {
            maximum_message_size: attributes.maximum_message_size,
            fifo: attributes.fifo.is_some(),
            content_based_deduplication: attributes
                .fifo
                .is_some_and(|fifo| fifo.content_based_deduplication),
        }
    }
}

/// A message that its queue takes.
#[derive(Clone, Debug)]
pub struct CheckedMessage<'a> {
    /// The body.
    pub body: MessageBody<'a>,
    /// The client's attributes.
    pub attributes: MessageAttributes<'a>,
    /// The trace header, from the message itself or else from the request.
    pub trace_header: Option<TraceHeader<'a>>,
    /// The delay; absent means the queue's.
    pub delay: Option<DelaySeconds>,
    /// The message group; always there on FIFO queues.
    pub message_group: Option<MessageGroupId<'a>>,
    /// The deduplication id, given or derived; there exactly on FIFO queues.
    pub deduplication_id: Option<DeduplicationId<'a>>,
    md5_of_system_attributes: Option<Md5Hex>,
}

/// What is answered about a message that was accepted, apart from its id and sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageDigests {
    /// Of the body.
    pub body: Md5Hex,
    /// Of the client's attributes, if it sent any.
    pub attributes: Option<Md5Hex>,
    /// Of the system attributes, if the message had any.
    pub system_attributes: Option<Md5Hex>,
}

impl<'a> CheckedMessage<'a> {
    /// The size that counts against limits: body and client's attributes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.body.as_str().len() + self.attributes.size_bytes()
    }

    /// Whether the message is larger than so many bytes.
    pub(crate) fn is_larger_than(&self, limit_bytes: u32) -> bool {
        !u32::try_from(self.size_bytes()).is_ok_and(|size| size <= limit_bytes)
    }

    /// The digests to answer with.
    #[must_use]
    pub fn digests(&self) -> MessageDigests {
        MessageDigests {
            body: md5_of_body(self.body.as_str()),
            attributes: md5_of_attributes(self.attributes.iter()),
            system_attributes: self.md5_of_system_attributes,
        }
    }

    /// What is stored of the message under this id.
    #[must_use]
    pub fn to_stored(&self, id: MessageId, sender_id: &'a str) -> StoredMessage<'a> {
        StoredMessage {
            id,
            sender_id: sender_id.into(),
            message_group: self.message_group.as_ref().map(|group| group.0.clone()),
            deduplication_id: self.deduplication_id.as_ref().map(|id| id.0.clone()),
            trace_header: self.trace_header.as_ref().map(|trace| trace.0.clone()),
            body: self.body.as_str().into(),
            attributes: self.attributes.clone(),
        }
    }
}

/// The faults for which AWS refuses a whole batch rather than one entry of it.
pub(crate) fn check_queue_needs(
    message: &WireMessage<'_>,
    facts: QueueFacts,
) -> Result<(), SqsError> {
    if !facts.fifo {
        return Ok(());
    }
    if message.message_group_id.is_none() {
        return Err(SqsError::missing_parameter("MessageGroupId"));
    }
    if message.message_deduplication_id.is_none() && !facts.content_based_deduplication {
        return Err(SqsError::missing_deduplication_id());
    }
    Ok(())
}

/// Checks a message alone; its size is the caller's to check, because single sends and batches word
/// that differently.
pub(crate) fn check_message<'a>(
    message: &'a WireMessage<'a>,
    facts: QueueFacts,
    trace_header: Option<&'a str>,
) -> Result<CheckedMessage<'a>, SqsError> {
    let body = MessageBody::parse(message.message_body.as_deref())?;
    let attributes = MessageAttributes::parse(&message.message_attributes)?;
    let own_trace = TraceHeader::parse(&message.message_system_attributes)?;
    let deduplication_id = match &message.message_deduplication_id {
        Some(id) if !facts.fifo => {
            let reason = "The request includes a parameter that is not valid for this queue type.";
            return Err(SqsError::invalid_parameter(
                "MessageDeduplicationId",
                &**id,
                reason,
            ));
        }
        Some(id) => Some(DeduplicationId::parse(id)?),
        None if facts.fifo => Some(DeduplicationId::of_body(body.as_str())),
        None => None,
    };
    let md5_of_system_attributes = own_trace
        .as_ref()
        .and_then(|trace| md5_of_attributes([&trace.as_attribute()]));
    let message_group = message
        .message_group_id
        .as_deref()
        .map(MessageGroupId::parse)
        .transpose()?;
    Ok(CheckedMessage {
        body,
        attributes,
        trace_header: own_trace.or_else(|| trace_header.map(TraceHeader::of_request)),
        delay: check_delay(message, facts)?,
        message_group,
        deduplication_id,
        md5_of_system_attributes,
    })
}

/// A FIFO queue delays all its messages alike, so only a zero may be given, which means the queue's.
fn check_delay(
    message: &WireMessage<'_>,
    facts: QueueFacts,
) -> Result<Option<DelaySeconds>, SqsError> {
    let Some(delay) = message.delay_seconds.map(DelaySeconds::parse).transpose()? else {
        return Ok(None);
    };
    if !facts.fifo {
        return Ok(Some(delay));
    }
    if delay.seconds() == 0 {
        return Ok(None);
    }
    Err(SqsError::delay_on_fifo(delay.seconds()))
}
