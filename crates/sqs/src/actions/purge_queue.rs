//! `PurgeQueue`: deletes all messages of a queue. No output.

use super::WireQueueOnly;
use crate::error::SqsError;
use crate::queue_url::QueueRef;
use crate::request::Envelope;

/// The request.
#[derive(Debug)]
pub struct PurgeQueue {
    /// The queue.
    pub queue: QueueRef,
}

impl PurgeQueue {
    pub(crate) fn from_wire(
        wire: &WireQueueOnly<'_>,
        envelope: Envelope<'_>,
    ) -> Result<Self, SqsError> {
        let queue = QueueRef::of_request(wire.queue_url.as_ref(), envelope.path)?;
        Ok(Self { queue })
    }
}
