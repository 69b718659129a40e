//! `DeleteMessage`: deletes one received message. No output.

use serde::Deserialize;

use super::required_handle;
use crate::error::SqsError;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::wire::Text;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireDeleteMessage<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_handle: Option<Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct DeleteMessage<'a> {
    /// The queue.
    pub queue: QueueRef,
    receipt_handle: Option<Text<'a>>,
}

impl<'a> DeleteMessage<'a> {
    pub(crate) fn from_wire(
        wire: WireDeleteMessage<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            receipt_handle: wire.receipt_handle,
        })
    }

    /// The receipt handle, not yet opened.
    pub fn check(&self) -> Result<&str, SqsError> {
        required_handle(self.receipt_handle.as_ref())
    }
}
