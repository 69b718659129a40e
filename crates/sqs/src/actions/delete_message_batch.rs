//! `DeleteMessageBatch`: deletes up to ten received messages.

use serde::Deserialize;

use super::required_handle;
use crate::batch::{BatchEntry, BatchResponse, BatchSuccess, check_ids};
use crate::error::SqsError;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::wire::{Items, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireDeleteMessageBatch<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    entries: Items<WireEntry<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WireEntry<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_handle: Option<Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct DeleteMessageBatch<'a> {
    /// The queue.
    pub queue: QueueRef,
    entries: Items<WireEntry<'a>>,
}

impl<'a> DeleteMessageBatch<'a> {
    pub(crate) fn from_wire(
        wire: WireDeleteMessageBatch<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            entries: wire.entries,
        })
    }

    /// The entries with their receipt handles, not yet opened.
    pub fn check(&self) -> Result<Vec<BatchEntry<'_, &str>>, SqsError> {
        let entries = &self.entries.0;
        let ids = entries.iter().map(|entry| entry.id.as_ref());
        let ids = check_ids("DeleteMessageBatchRequestEntry", ids)?;
        let checked = entries
            .iter()
            .map(|entry| required_handle(entry.receipt_handle.as_ref()));
        Ok(ids
            .into_iter()
            .zip(checked)
            .map(|(id, checked)| BatchEntry { id, checked })
            .collect())
    }
}

/// The answer.
pub type DeleteMessageBatchResponse<'a> = BatchResponse<'a, BatchSuccess<'a>>;
