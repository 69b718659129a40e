//! `StartMessageMoveTask`: has the messages of a dead-letter queue moved back.

use serde::{Deserialize, Serialize};

use crate::error::SqsError;
use crate::move_task::{MoveRate, queue_of_arn};
use crate::queue_url::QueueRef;
use crate::wire::{Integer, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireStartMessageMoveTask<'a> {
    #[serde(borrow)]
    source_arn: Option<Text<'a>>,
    #[serde(borrow)]
    destination_arn: Option<Text<'a>>,
    max_number_of_messages_per_second: Option<Integer>,
}

/// The request, checked as far as it does not depend on queues.
#[derive(Debug)]
pub struct StartMessageMoveTask {
    /// The dead-letter queue.
    pub source: QueueRef,
    /// Where all messages go; without it each goes to the queue whose dead letter it is.
    pub destination: Option<QueueRef>,
    /// How fast; without it that is left to the service.
    pub rate: Option<MoveRate>,
}

impl StartMessageMoveTask {
    pub(crate) fn from_wire(wire: &WireStartMessageMoveTask<'_>) -> Result<Self, SqsError> {
        let destination = wire.destination_arn.as_ref();
        let rate = wire.max_number_of_messages_per_second;
        Ok(Self {
            source: queue_of_arn("SourceArn", wire.source_arn.as_ref())?,
            destination: destination
                .map(|arn| queue_of_arn("DestinationArn", Some(arn)))
                .transpose()?,
            rate: rate.map(MoveRate::parse).transpose()?,
        })
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct StartMessageMoveTaskResponse {
    /// What cancels the task: see [`crate::move_task::TaskHandle`].
    pub task_handle: String,
}
