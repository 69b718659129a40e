//! `ListMessageMoveTasks`: the latest moves of dead letters out of a queue.

use serde::{Deserialize, Serialize};

use crate::error::SqsError;
use crate::move_task::{MaxMoveTasks, queue_of_arn};
use crate::queue_url::QueueRef;
use crate::wire::{Integer, Text};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireListMessageMoveTasks<'a> {
    #[serde(borrow)]
    source_arn: Option<Text<'a>>,
    max_results: Option<Integer>,
}

/// The request, checked: nothing more about it depends on the queue.
#[derive(Debug)]
pub struct ListMessageMoveTasks {
    /// The dead-letter queue.
    pub source: QueueRef,
    /// How many tasks to list: the latest one if nothing is said.
    pub max_results: MaxMoveTasks,
}

impl ListMessageMoveTasks {
    pub(crate) fn from_wire(wire: &WireListMessageMoveTasks<'_>) -> Result<Self, SqsError> {
        let max_results = wire.max_results.map(MaxMoveTasks::parse).transpose()?;
        Ok(Self {
            source: queue_of_arn("SourceArn", wire.source_arn.as_ref())?,
            max_results: max_results.unwrap_or_default(),
        })
    }
}

/// The answer; a list without tasks is left out, as other lists are (SQS-CONTRACT section 1).
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListMessageMoveTasksResponse {
    /// The tasks, the latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ListedMoveTask>,
}

/// One task.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListedMoveTask {
    /// What cancels the task, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_handle: Option<String>,
    /// Where it stands.
    pub status: MoveTaskStatus,
    /// The ARN of the dead-letter queue.
    pub source_arn: String,
    /// The ARN of the destination, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_arn: Option<String>,
    /// How fast it was to be, if that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_number_of_messages_per_second: Option<u32>,
    /// The messages moved so far, about.
    pub approximate_number_of_messages_moved: u64,
    /// The messages in the queue at the start, about.
    pub approximate_number_of_messages_to_move: u64,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<&'static str>,
    /// When it started, in milliseconds since the epoch.
    pub started_timestamp: u64,
}

/// Where a task stands, as clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are AWS's own")]
pub enum MoveTaskStatus {
    Running,
    Completed,
    Cancelling,
    Cancelled,
    Failed,
}

impl Serialize for MoveTaskStatus {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Cancelling => "CANCELLING",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
        })
    }
}
