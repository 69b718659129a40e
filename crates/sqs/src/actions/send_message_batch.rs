//! `SendMessageBatch`: sends up to ten messages, in their order on FIFO queues.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::send_message::SendMessageResponse;
use crate::batch::{BatchEntry, BatchEntryId, BatchResponse, check_ids};
use crate::error::{ErrorCode, SqsError};
use crate::message::stored::MessageId;
use crate::message::wire::WireMessage;
use crate::message::{
    CheckedMessage, MessageDigests, QueueFacts, check_message, check_queue_needs,
};
use crate::queue_attributes::MAX_MESSAGE_BYTES;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::wire::{Items, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireSendMessageBatch<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    entries: Items<WireMessage<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct SendMessageBatch<'a> {
    /// The queue.
    pub queue: QueueRef,
    entries: Items<WireMessage<'a>>,
    trace_header: Option<&'a str>,
}

impl<'a> SendMessageBatch<'a> {
    pub(crate) fn from_wire(
        wire: WireSendMessageBatch<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            entries: wire.entries,
            trace_header: envelope.trace_header,
        })
    }

    /// The entries, each with its message if a queue with these facts takes it.
    pub fn check(
        &self,
        facts: QueueFacts,
    ) -> Result<Vec<BatchEntry<'_, CheckedMessage<'_>>>, SqsError> {
        let entries = &self.entries.0;
        let ids = entries.iter().map(|entry| entry.id.as_ref());
        let ids = check_ids("SendMessageBatchRequestEntry", ids)?;
        self.check_total_size()?;
        for entry in entries {
            // What a FIFO queue needs refuses the batch, and always as an invalid value.
            check_queue_needs(entry, facts)
                .map_err(|error| SqsError::new(ErrorCode::InvalidParameterValue, error.message))?;
        }
        let checked = entries.iter().map(|entry| self.check_entry(entry, facts));
        Ok(ids
            .into_iter()
            .zip(checked)
            .map(|(id, checked)| BatchEntry { id, checked })
            .collect())
    }

    /// The sum is bounded by the largest message there can be, whatever the queue's own limit.
    fn check_total_size(&self) -> Result<(), SqsError> {
        let total: usize = self.entries.0.iter().map(WireMessage::size_bytes).sum();
        if u32::try_from(total).is_ok_and(|total| total <= MAX_MESSAGE_BYTES) {
            return Ok(());
        }
        let message = format!(
            "Batch requests cannot be longer than {MAX_MESSAGE_BYTES} bytes. You have sent {total} \
             bytes."
        );
        Err(SqsError::new(ErrorCode::BatchRequestTooLong, message))
    }

    fn check_entry<'e>(
        &'e self,
        entry: &'e WireMessage<'e>,
        facts: QueueFacts,
    ) -> Result<CheckedMessage<'e>, SqsError> {
        let checked = check_message(entry, facts, self.trace_header)?;
        if checked.is_larger_than(facts.maximum_message_size) {
            let message = format!(
                "One or more parameters cannot be validated. Reason: Message must be shorter than \
                 {} bytes.",
                facts.maximum_message_size
            );
            return Err(SqsError::new(ErrorCode::InvalidParameterValue, message));
        }
        Ok(checked)
    }
}

/// One entry of the answer: its id and what a single send would answer.
#[derive(Debug)]
pub struct SendMessageBatchSuccess<'a> {
    id: BatchEntryId<'a>,
    sent: SendMessageResponse,
}

impl Serialize for SendMessageBatchSuccess<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = 1 + SendMessageResponse::MEMBERS;
        let mut success = serializer.serialize_struct("SendMessageBatchResultEntry", members)?;
        success.serialize_field("Id", &self.id)?;
        self.sent.serialize_members(&mut success)?;
        success.end()
    }
}

impl<'a> SendMessageBatchSuccess<'a> {
    /// The answer about an entry that was stored, or is the duplicate of one that was.
    #[must_use]
    pub fn new(
        id: BatchEntryId<'a>,
        message_id: MessageId,
        digests: MessageDigests,
        sequence_number: Option<u64>,
    ) -> Self {
        Self {
            id,
            sent: SendMessageResponse::new(message_id, digests, sequence_number),
        }
    }
}

/// The answer.
pub type SendMessageBatchResponse<'a> = BatchResponse<'a, SendMessageBatchSuccess<'a>>;
