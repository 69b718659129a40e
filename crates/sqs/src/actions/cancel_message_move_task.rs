//! `CancelMessageMoveTask`: stops a running move of dead letters.

use serde::{Deserialize, Serialize};

use crate::error::SqsError;
use crate::move_task::TaskHandle;
use crate::queue_url::QueueRef;
use crate::wire::Text;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireCancelMessageMoveTask<'a> {
    #[serde(borrow)]
    task_handle: Option<Text<'a>>,
}

/// The request, checked: whether there is such a task is for the cluster to know.
#[derive(Debug)]
pub struct CancelMessageMoveTask {
    /// The dead-letter queue.
    pub source: QueueRef,
    /// The id of its task.
    pub task: [u8; 16],
}

impl CancelMessageMoveTask {
    pub(crate) fn from_wire(wire: &WireCancelMessageMoveTask<'_>) -> Result<Self, SqsError> {
        let handle = wire.task_handle.as_deref().filter(|it| !it.is_empty());
        let handle = handle.ok_or_else(|| SqsError::missing_parameter("TaskHandle"))?;
        let handle = TaskHandle::try_parse(handle).ok_or_else(SqsError::invalid_task_handle)?;
        Ok(Self {
            source: QueueRef {
                account: Some(handle.source.account),
                name: handle.source.name,
            },
            task: handle.task,
        })
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CancelMessageMoveTaskResponse {
    /// The messages that had been moved, about.
    pub approximate_number_of_messages_moved: u64,
}
