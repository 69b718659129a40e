//! A request of any operation, read from its dialect.
//!
//! Reading settles the shape only: see the crate's page for the order of checks.

use crate::action::Action;
use crate::actions::change_message_visibility::ChangeMessageVisibility;
use crate::actions::change_message_visibility_batch::ChangeMessageVisibilityBatch;
use crate::actions::create_queue::CreateQueue;
use crate::actions::delete_message::DeleteMessage;
use crate::actions::delete_message_batch::DeleteMessageBatch;
use crate::actions::delete_queue::DeleteQueue;
use crate::actions::get_queue_attributes::GetQueueAttributes;
use crate::actions::get_queue_url::GetQueueUrl;
use crate::actions::list_queue_tags::ListQueueTags;
use crate::actions::list_queues::ListQueues;
use crate::actions::purge_queue::PurgeQueue;
use crate::actions::receive_message::ReceiveMessage;
use crate::actions::send_message::SendMessage;
use crate::actions::send_message_batch::SendMessageBatch;
use crate::actions::set_queue_attributes::SetQueueAttributes;
use crate::actions::tag_queue::TagQueue;
use crate::actions::untag_queue::UntagQueue;
use crate::error::SqsError;
use crate::queue_url::QueueRef;
use crate::wire::from_json;

/// What of a request matters besides its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Envelope<'a> {
    /// The path it was posted to; names the queue when the body has no `QueueUrl`.
    pub path: &'a str,
    /// The header `X-Amzn-Trace-Id`, if there is one.
    pub trace_header: Option<&'a str>,
}

/// A request whose shape is right.
#[derive(Debug)]
#[expect(missing_docs, reason = "each variant is the action of that name")]
pub enum Request<'a> {
    ChangeMessageVisibility(ChangeMessageVisibility<'a>),
    ChangeMessageVisibilityBatch(ChangeMessageVisibilityBatch<'a>),
    CreateQueue(Box<CreateQueue>),
    DeleteMessage(DeleteMessage<'a>),
    DeleteMessageBatch(DeleteMessageBatch<'a>),
    DeleteQueue(DeleteQueue),
    GetQueueAttributes(GetQueueAttributes<'a>),
    GetQueueUrl(GetQueueUrl),
    ListQueueTags(ListQueueTags),
    ListQueues(ListQueues),
    PurgeQueue(PurgeQueue),
    ReceiveMessage(ReceiveMessage<'a>),
    SendMessage(SendMessage<'a>),
    SendMessageBatch(SendMessageBatch<'a>),
    SetQueueAttributes(SetQueueAttributes<'a>),
    TagQueue(TagQueue<'a>),
    UntagQueue(UntagQueue<'a>),
}

impl<'a> Request<'a> {
    /// Reads the JSON body of a request.
    pub fn from_json(
        action: Action,
        body: &'a [u8],
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        match action {
            Action::ChangeMessageVisibility => {
                ChangeMessageVisibility::from_wire(from_json(body)?, envelope)
                    .map(Self::ChangeMessageVisibility)
            }
            Action::ChangeMessageVisibilityBatch => {
                ChangeMessageVisibilityBatch::from_wire(from_json(body)?, envelope)
                    .map(Self::ChangeMessageVisibilityBatch)
            }
            Action::CreateQueue => CreateQueue::from_wire(&from_json(body)?)
                .map(Box::new)
                .map(Self::CreateQueue),
            Action::DeleteMessage => {
                DeleteMessage::from_wire(from_json(body)?, envelope).map(Self::DeleteMessage)
            }
            Action::DeleteMessageBatch => DeleteMessageBatch::from_wire(from_json(body)?, envelope)
                .map(Self::DeleteMessageBatch),
            Action::DeleteQueue => {
                DeleteQueue::from_wire(&from_json(body)?, envelope).map(Self::DeleteQueue)
            }
            Action::GetQueueAttributes => GetQueueAttributes::from_wire(from_json(body)?, envelope)
                .map(Self::GetQueueAttributes),
            Action::GetQueueUrl => GetQueueUrl::from_wire(&from_json(body)?).map(Self::GetQueueUrl),
            Action::ListQueueTags => {
                ListQueueTags::from_wire(&from_json(body)?, envelope).map(Self::ListQueueTags)
            }
            Action::ListQueues => ListQueues::from_wire(&from_json(body)?).map(Self::ListQueues),
            Action::PurgeQueue => {
                PurgeQueue::from_wire(&from_json(body)?, envelope).map(Self::PurgeQueue)
            }
            Action::ReceiveMessage => {
                ReceiveMessage::from_wire(from_json(body)?, envelope).map(Self::ReceiveMessage)
            }
            Action::SendMessage => {
                SendMessage::from_wire(from_json(body)?, envelope).map(Self::SendMessage)
            }
            Action::SendMessageBatch => {
                SendMessageBatch::from_wire(from_json(body)?, envelope).map(Self::SendMessageBatch)
            }
            Action::SetQueueAttributes => SetQueueAttributes::from_wire(from_json(body)?, envelope)
                .map(Self::SetQueueAttributes),
            Action::TagQueue => TagQueue::from_wire(from_json(body)?, envelope).map(Self::TagQueue),
            Action::UntagQueue => {
                UntagQueue::from_wire(from_json(body)?, envelope).map(Self::UntagQueue)
            }
            Action::AddPermission
            | Action::CancelMessageMoveTask
            | Action::ListDeadLetterSourceQueues
            | Action::ListMessageMoveTasks
            | Action::RemovePermission
            | Action::StartMessageMoveTask => Err(SqsError::not_offered(action)),
        }
    }

    /// The existing queue that the request is about; none for those that name or list queues.
    #[must_use]
    pub const fn queue(&self) -> Option<&QueueRef> {
        match self {
            Self::ChangeMessageVisibility(request) => Some(&request.queue),
            Self::ChangeMessageVisibilityBatch(request) => Some(&request.queue),
            Self::DeleteMessage(request) => Some(&request.queue),
            Self::DeleteMessageBatch(request) => Some(&request.queue),
            Self::DeleteQueue(request) => Some(&request.queue),
            Self::GetQueueAttributes(request) => Some(&request.queue),
            Self::ListQueueTags(request) => Some(&request.queue),
            Self::PurgeQueue(request) => Some(&request.queue),
            Self::ReceiveMessage(request) => Some(&request.queue),
            Self::SendMessage(request) => Some(&request.queue),
            Self::SendMessageBatch(request) => Some(&request.queue),
            Self::SetQueueAttributes(request) => Some(&request.queue),
            Self::TagQueue(request) => Some(&request.queue),
            Self::UntagQueue(request) => Some(&request.queue),
            Self::CreateQueue(_) | Self::GetQueueUrl(_) | Self::ListQueues(_) => None,
        }
    }
}
