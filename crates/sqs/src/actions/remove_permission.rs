//! `RemovePermission`: a statement leaves the queue's policy. No output.

use serde::Deserialize;

use crate::error::SqsError;
use crate::policy::permission::Label;
use crate::queue_url::QueueRef;
use crate::request::Envelope;
use crate::wire::Text;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireRemovePermission<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    label: Option<Text<'a>>,
}

/// The request.
#[derive(Debug)]
pub struct RemovePermission<'a> {
    /// The queue.
    pub queue: QueueRef,
    label: Option<Text<'a>>,
}

impl<'a> RemovePermission<'a> {
    pub(crate) fn from_wire(
        wire: WireRemovePermission<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self {
            queue,
            label: wire.label,
        })
    }

    /// The label whose statement goes.
    pub fn check(&self) -> Result<Label, SqsError> {
        Label::parse(self.label.as_deref().unwrap_or_default())
    }
}
