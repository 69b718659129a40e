//! `ChangeMessageVisibility`: sets the visibility timeout of one message in flight. No output.

use serde::Deserialize;

use super::required_handle;
use crate::error::SqsError;
use crate::quantities::VisibilityTimeout;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::wire::{Integer, Text};

/// The members of the operation and of an entry of its batch, which has an `Id` instead of a
/// `QueueUrl`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireChange<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_handle: Option<Text<'a>>,
    visibility_timeout: Option<Integer>,
}

impl WireChange<'_> {
    pub(super) fn check(&self) -> Result<VisibilityChange<'_>, SqsError> {
        let receipt_handle = required_handle(self.receipt_handle.as_ref())?;
        let timeout = self.visibility_timeout;
        let timeout = timeout.ok_or_else(|| SqsError::missing_parameter("VisibilityTimeout"))?;
        Ok(VisibilityChange {
            receipt_handle,
            timeout: VisibilityTimeout::parse(timeout)?,
        })
    }
}

/// A new visibility timeout for the message of a receipt handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibilityChange<'a> {
    /// The receipt handle, not yet opened.
    pub receipt_handle: &'a str,
    /// The timeout from now on.
    pub timeout: VisibilityTimeout,
}

/// The request.
#[derive(Debug)]
pub struct ChangeMessageVisibility<'a> {
    /// The queue.
    pub queue: QueueRef,
    change: WireChange<'a>,
}

impl<'a> ChangeMessageVisibility<'a> {
    pub(crate) fn from_wire(
        change: WireChange<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(change.queue_url.as_ref(), envelope.path)?;
        Ok(Self { queue, change })
    }

    /// The change asked for.
    pub fn check(&self) -> Result<VisibilityChange<'_>, SqsError> {
        self.change.check()
    }
}
