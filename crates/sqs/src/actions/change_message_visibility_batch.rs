//! `ChangeMessageVisibilityBatch`: sets the visibility timeouts of up to ten messages in flight.

use serde::Deserialize;

use super::change_message_visibility::{VisibilityChange, WireChange};
use crate::batch::{BatchEntry, BatchResponse, BatchSuccess, check_ids};
use crate::error::SqsError;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::wire::{Items, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireChangeMessageVisibilityBatch<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow, default)]
    entries: Items<WireChange<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct ChangeMessageVisibilityBatch<'a> {
    /// The queue.
    pub queue: QueueRef,
    entries: Items<WireChange<'a>>,
}

impl<'a> ChangeMessageVisibilityBatch<'a> {
    pub(crate) fn from_wire(
        wire: WireChangeMessageVisibilityBatch<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            entries: wire.entries,
        })
    }

    /// The changes asked for.
    pub fn check(&self) -> Result<Vec<BatchEntry<'_, VisibilityChange<'_>>>, SqsError> {
        let entries = &self.entries.0;
        let ids = entries.iter().map(|entry| entry.id.as_ref());
        let ids = check_ids("ChangeMessageVisibilityBatchRequestEntry", ids)?;
        let checked = entries.iter().map(WireChange::check);
        Ok(ids
            .into_iter()
            .zip(checked)
            .map(|(id, checked)| BatchEntry { id, checked })
            .collect())
    }
}

/// The answer.
pub type ChangeMessageVisibilityBatchResponse<'a> = BatchResponse<'a, BatchSuccess<'a>>;
