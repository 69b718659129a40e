//! `SendMessage`: sends one message.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::error::{ErrorCode, SqsError};
use crate::message::md5::Md5Hex;
use crate::message::stored::MessageId;
use crate::message::wire::WireMessage;
use crate::message::{
    CheckedMessage, MessageDigests, QueueFacts, check_message, check_queue_needs,
};
use crate::queue_url::QueueRef;
use crate::reply;
use crate::request::Envelope;

/// The request.
#[derive(Debug)]
pub struct SendMessage<'a> {
    /// The queue.
    pub queue: QueueRef,
    message: WireMessage<'a>,
    trace_header: Option<&'a str>,
}

impl<'a> SendMessage<'a> {
    pub(crate) fn from_wire(
        message: WireMessage<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(message.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            message,
            trace_header: envelope.trace_header,
        })
    }

    /// The message, if a queue with these facts takes it.
    pub fn check(&self, facts: QueueFacts) -> Result<CheckedMessage<'_>, SqsError> {
        let checked = check_message(&self.message, facts, self.trace_header)?;
        if checked.is_larger_than(facts.maximum_message_size) {
            let message = format!(
                "One or more parameters are invalid. Reason: Message must be shorter than {} \
                 bytes.",
                facts.maximum_message_size
            );
            return Err(SqsError::new(ErrorCode::InvalidParameterValue, message));
        }
        check_queue_needs(&self.message, facts)?;
        Ok(checked)
    }
}

/// The answer.
#[derive(Debug)]
pub struct SendMessageResponse {
    message_id: MessageId,
    md5_of_message_body: Md5Hex,
    md5_of_message_attributes: Option<Md5Hex>,
    md5_of_message_system_attributes: Option<Md5Hex>,
    sequence_number: Option<String>,
}

impl Serialize for SendMessageResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut answer = serializer.serialize_struct("SendMessageResponse", Self::MEMBERS)?;
        self.serialize_members(&mut answer)?;
        answer.end()
    }
}

impl SendMessageResponse {
    /// How many members there are at most.
    pub(super) const MEMBERS: usize = 5;

    /// Writes the members, which an entry of a batch's answer has too.
    pub(super) fn serialize_members<S: SerializeStruct>(
        &self,
        answer: &mut S,
    ) -> Result<(), S::Error> {
        answer.serialize_field("MessageId", &self.message_id)?;
        answer.serialize_field("MD5OfMessageBody", &self.md5_of_message_body)?;
        if let Some(digest) = &self.md5_of_message_attributes {
            answer.serialize_field("MD5OfMessageAttributes", digest)?;
        }
        if let Some(digest) = &self.md5_of_message_system_attributes {
            answer.serialize_field("MD5OfMessageSystemAttributes", digest)?;
        }
        if let Some(number) = &self.sequence_number {
            answer.serialize_field("SequenceNumber", number)?;
        }
        Ok(())
    }

    /// The answer about a message that was stored, or is the duplicate of one that was.
    #[must_use]
    pub fn new(id: MessageId, digests: MessageDigests, sequence_number: Option<u64>) -> Self {
        Self {
            message_id: id,
            md5_of_message_body: digests.body,
            md5_of_message_attributes: digests.attributes,
            md5_of_message_system_attributes: digests.system_attributes,
            sequence_number: sequence_number.map(sequence_number_text),
        }
    }

    /// The body of the answer in JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        reply::to_json(self)
    }
}

/// A sequence number as clients read it: always 20 digits, so that texts compare as numbers do.
pub(crate) fn sequence_number_text(number: u64) -> String {
    format!("{number:020}")
}
