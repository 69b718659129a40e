//! One file per action: what it asks of the cluster, and what each failure of that is to the client.
//!
//! Every action keeps AWS's order: the request's shape (checked before it gets here), the queue, the
//! values, the effect.

mod add_permission;
mod cancel_message_move_task;
mod change_message_visibility;
mod change_message_visibility_batch;
mod create_queue;
mod delete_message;
mod delete_message_batch;
mod delete_queue;
mod get_queue_attributes;
mod get_queue_url;
mod list_dead_letter_source_queues;
mod list_message_move_tasks;
mod list_queue_tags;
mod list_queues;
mod purge_queue;
mod receive_message;
mod remove_permission;
mod send_message;
mod send_message_batch;
mod set_queue_attributes;
mod start_message_move_task;
mod tag_queue;
mod untag_queue;

use std::future::Future;
use std::pin::Pin;

use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::request::Request;

use crate::call::Call;

/// The body of the answer of an action without output.
const NO_OUTPUT: Vec<u8> = Vec::new();

/// An action under way: what [`Call::answer`] wrote, or its refusal.
///
/// Boxed one by one, so that a waiting poll holds no room for the largest action.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, SqsError>> + Send + 'a>>;

/// Runs a request.
pub(crate) fn run<'a>(request: Request<'a>, call: &'a Call<'a>) -> Running<'a> {
    match request {
        Request::AddPermission(request) => Box::pin(add_permission::run(request, call)),
        Request::CancelMessageMoveTask(request) => {
            Box::pin(cancel_message_move_task::run(request, call))
        }
        Request::ChangeMessageVisibility(request) => {
            Box::pin(change_message_visibility::run(request, call))
        }
        Request::ChangeMessageVisibilityBatch(request) => {
            Box::pin(change_message_visibility_batch::run(request, call))
        }
        Request::CreateQueue(request) => Box::pin(create_queue::run(*request, call)),
        Request::DeleteMessage(request) => Box::pin(delete_message::run(request, call)),
        Request::DeleteMessageBatch(request) => Box::pin(delete_message_batch::run(request, call)),
        Request::DeleteQueue(request) => Box::pin(delete_queue::run(request, call)),
        Request::GetQueueAttributes(request) => Box::pin(get_queue_attributes::run(request, call)),
        Request::GetQueueUrl(request) => Box::pin(get_queue_url::run(request, call)),
        Request::ListDeadLetterSourceQueues(request) => {
            Box::pin(list_dead_letter_source_queues::run(request, call))
        }
        Request::ListMessageMoveTasks(request) => {
            Box::pin(list_message_move_tasks::run(request, call))
        }
        Request::ListQueueTags(request) => Box::pin(list_queue_tags::run(request, call)),
        Request::ListQueues(request) => Box::pin(list_queues::run(request, call)),
        Request::PurgeQueue(request) => Box::pin(purge_queue::run(request, call)),
        Request::ReceiveMessage(request) => Box::pin(receive_message::run(request, call)),
        Request::RemovePermission(request) => Box::pin(remove_permission::run(request, call)),
        Request::SendMessage(request) => Box::pin(send_message::run(request, call)),
        Request::SendMessageBatch(request) => Box::pin(send_message_batch::run(request, call)),
        Request::SetQueueAttributes(request) => Box::pin(set_queue_attributes::run(request, call)),
        Request::StartMessageMoveTask(request) => {
            Box::pin(start_message_move_task::run(request, call))
        }
        Request::TagQueue(request) => Box::pin(tag_queue::run(request, call)),
        Request::UntagQueue(request) => Box::pin(untag_queue::run(request, call)),
    }
}
