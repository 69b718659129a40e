//! One file per action: its request, what is checked about it, its answer.
//!
//! Operations without output have no answer here: they answer with an empty body.

pub mod add_permission;
pub mod cancel_message_move_task;
pub mod change_message_visibility;
pub mod change_message_visibility_batch;
pub mod create_queue;
pub mod delete_message;
pub mod delete_message_batch;
pub mod delete_queue;
pub mod get_queue_attributes;
pub mod get_queue_url;
pub mod list_dead_letter_source_queues;
pub mod list_message_move_tasks;
pub mod list_queue_tags;
pub mod list_queues;
pub mod purge_queue;
pub mod receive_message;
pub mod remove_permission;
pub mod send_message;
pub mod send_message_batch;
pub mod set_queue_attributes;
pub mod start_message_move_task;
pub mod tag_queue;
pub mod untag_queue;

use serde::Deserialize;

use crate::error::SqsError;
use crate::wire::Text;

/// The members of operations that name a queue and nothing else.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireQueueOnly<'a> {
    #[serde(borrow)]
    pub(crate) queue_url: Option<Text<'a>>,
}

/// The receipt handle of a request, as the client sent it; what it says is for the cluster to read.
fn required_handle<'a>(handle: Option<&'a Text<'a>>) -> Result<&'a str, SqsError> {
    match handle {
        Some(handle) if !handle.is_empty() => Ok(&handle.0),
        _ => Err(SqsError::missing_parameter("ReceiptHandle")),
    }
}
