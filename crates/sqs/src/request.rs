//! A request of any operation, read from its dialect.
//!
//! Reading settles the shape only: see the crate's page for the order of checks.

use serde::Deserialize;

use crate::action::Action;
use crate::actions::add_permission::AddPermission;
use crate::actions::cancel_message_move_task::CancelMessageMoveTask;
use crate::actions::change_message_visibility::ChangeMessageVisibility;
use crate::actions::change_message_visibility_batch::ChangeMessageVisibilityBatch;
use crate::actions::create_queue::CreateQueue;
use crate::actions::delete_message::DeleteMessage;
use crate::actions::delete_message_batch::DeleteMessageBatch;
use crate::actions::delete_queue::DeleteQueue;
use crate::actions::get_queue_attributes::GetQueueAttributes;
use crate::actions::get_queue_url::GetQueueUrl;
use crate::actions::list_dead_letter_source_queues::ListDeadLetterSourceQueues;
use crate::actions::list_message_move_tasks::ListMessageMoveTasks;
use crate::actions::list_queue_tags::ListQueueTags;
use crate::actions::list_queues::ListQueues;
use crate::actions::purge_queue::PurgeQueue;
use crate::actions::receive_message::ReceiveMessage;
use crate::actions::remove_permission::RemovePermission;
use crate::actions::send_message::SendMessage;
use crate::actions::send_message_batch::SendMessageBatch;
use crate::actions::set_queue_attributes::SetQueueAttributes;
use crate::actions::start_message_move_task::StartMessageMoveTask;
use crate::actions::tag_queue::TagQueue;
use crate::actions::untag_queue::UntagQueue;
use crate::error::SqsError;
use crate::query::{Form, from_form};
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

/// Where a request's members are, in one dialect or the other.
#[derive(Clone, Copy)]
enum Source<'a> {
    Json(&'a [u8]),
    Query(&'a Form<'a>),
}

impl<'a> Source<'a> {
    fn read<T: Deserialize<'a>>(self, action: Action) -> Result<T, SqsError> {
        match self {
            Self::Json(body) => from_json(body),
            Self::Query(form) => from_form(action, form),
        }
    }
}

/// A request whose shape is right.
#[derive(Debug)]
#[expect(missing_docs, reason = "each variant is the action of that name")]
pub enum Request<'a> {
    AddPermission(AddPermission<'a>),
    CancelMessageMoveTask(CancelMessageMoveTask),
    ChangeMessageVisibility(ChangeMessageVisibility<'a>),
    ChangeMessageVisibilityBatch(ChangeMessageVisibilityBatch<'a>),
    CreateQueue(Box<CreateQueue>),
    DeleteMessage(DeleteMessage<'a>),
    DeleteMessageBatch(DeleteMessageBatch<'a>),
    DeleteQueue(DeleteQueue),
    GetQueueAttributes(GetQueueAttributes<'a>),
    GetQueueUrl(GetQueueUrl),
    ListDeadLetterSourceQueues(ListDeadLetterSourceQueues),
    ListMessageMoveTasks(ListMessageMoveTasks),
    ListQueueTags(ListQueueTags),
    ListQueues(ListQueues),
    PurgeQueue(PurgeQueue),
    ReceiveMessage(ReceiveMessage<'a>),
    RemovePermission(RemovePermission<'a>),
    SendMessage(SendMessage<'a>),
    SendMessageBatch(SendMessageBatch<'a>),
    SetQueueAttributes(SetQueueAttributes<'a>),
    StartMessageMoveTask(StartMessageMoveTask),
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
        Self::read(action, Source::Json(body), envelope)
    }

    /// Reads a request from the parameters of a form.
    pub fn from_query(
        action: Action,
        form: &'a Form<'a>,
        envelope: Envelope<'a>,
    ) -> Result<Self, SqsError> {
        Self::read(action, Source::Query(form), envelope)
    }

    fn read(action: Action, source: Source<'a>, envelope: Envelope<'a>) -> Result<Self, SqsError> {
        match action {
            Action::AddPermission => {
                AddPermission::from_wire(source.read(action)?, envelope).map(Self::AddPermission)
            }
            Action::ChangeMessageVisibility => {
                ChangeMessageVisibility::from_wire(source.read(action)?, envelope)
                    .map(Self::ChangeMessageVisibility)
            }
            Action::ChangeMessageVisibilityBatch => {
                ChangeMessageVisibilityBatch::from_wire(source.read(action)?, envelope)
                    .map(Self::ChangeMessageVisibilityBatch)
            }
            Action::CreateQueue => CreateQueue::from_wire(&source.read(action)?)
                .map(Box::new)
                .map(Self::CreateQueue),
            Action::DeleteMessage => {
                DeleteMessage::from_wire(source.read(action)?, envelope).map(Self::DeleteMessage)
            }
            Action::DeleteMessageBatch => {
                DeleteMessageBatch::from_wire(source.read(action)?, envelope)
                    .map(Self::DeleteMessageBatch)
            }
            Action::DeleteQueue => {
                DeleteQueue::from_wire(&source.read(action)?, envelope).map(Self::DeleteQueue)
            }
            Action::GetQueueAttributes => {
                GetQueueAttributes::from_wire(source.read(action)?, envelope)
                    .map(Self::GetQueueAttributes)
            }
            Action::GetQueueUrl => {
                GetQueueUrl::from_wire(&source.read(action)?).map(Self::GetQueueUrl)
            }
            Action::ListDeadLetterSourceQueues => {
                ListDeadLetterSourceQueues::from_wire(&source.read(action)?, envelope)
                    .map(Self::ListDeadLetterSourceQueues)
            }
            Action::ListQueueTags => {
                ListQueueTags::from_wire(&source.read(action)?, envelope).map(Self::ListQueueTags)
            }
            Action::ListQueues => {
                ListQueues::from_wire(&source.read(action)?).map(Self::ListQueues)
            }
            Action::PurgeQueue => {
                PurgeQueue::from_wire(&source.read(action)?, envelope).map(Self::PurgeQueue)
            }
            Action::ReceiveMessage => {
                ReceiveMessage::from_wire(source.read(action)?, envelope).map(Self::ReceiveMessage)
            }
            Action::RemovePermission => RemovePermission::from_wire(source.read(action)?, envelope)
                .map(Self::RemovePermission),
            Action::SendMessage => {
                SendMessage::from_wire(source.read(action)?, envelope).map(Self::SendMessage)
            }
            Action::SendMessageBatch => SendMessageBatch::from_wire(source.read(action)?, envelope)
                .map(Self::SendMessageBatch),
            Action::SetQueueAttributes => {
                SetQueueAttributes::from_wire(source.read(action)?, envelope)
                    .map(Self::SetQueueAttributes)
            }
            Action::TagQueue => {
                TagQueue::from_wire(source.read(action)?, envelope).map(Self::TagQueue)
            }
            Action::UntagQueue => {
                UntagQueue::from_wire(source.read(action)?, envelope).map(Self::UntagQueue)
            }
            Action::CancelMessageMoveTask => {
                CancelMessageMoveTask::from_wire(&source.read(action)?)
                    .map(Self::CancelMessageMoveTask)
            }
            Action::ListMessageMoveTasks => ListMessageMoveTasks::from_wire(&source.read(action)?)
                .map(Self::ListMessageMoveTasks),
            Action::StartMessageMoveTask => StartMessageMoveTask::from_wire(&source.read(action)?)
                .map(Self::StartMessageMoveTask),
        }
    }

    /// The existing queue that the request is about; none for those that name or list queues.
    #[must_use]
    pub const fn queue(&self) -> Option<&QueueRef> {
        match self {
            Self::AddPermission(request) => Some(&request.queue),
            Self::CancelMessageMoveTask(request) => Some(&request.source),
            Self::ChangeMessageVisibility(request) => Some(&request.queue),
            Self::ChangeMessageVisibilityBatch(request) => Some(&request.queue),
            Self::DeleteMessage(request) => Some(&request.queue),
            Self::DeleteMessageBatch(request) => Some(&request.queue),
            Self::DeleteQueue(request) => Some(&request.queue),
            Self::GetQueueAttributes(request) => Some(&request.queue),
            Self::ListDeadLetterSourceQueues(request) => Some(&request.queue),
            Self::ListMessageMoveTasks(request) => Some(&request.source),
            Self::ListQueueTags(request) => Some(&request.queue),
            Self::PurgeQueue(request) => Some(&request.queue),
            Self::ReceiveMessage(request) => Some(&request.queue),
            Self::RemovePermission(request) => Some(&request.queue),
            Self::SendMessage(request) => Some(&request.queue),
            Self::SendMessageBatch(request) => Some(&request.queue),
            Self::SetQueueAttributes(request) => Some(&request.queue),
            Self::StartMessageMoveTask(request) => Some(&request.source),
            Self::TagQueue(request) => Some(&request.queue),
            Self::UntagQueue(request) => Some(&request.queue),
            Self::CreateQueue(_) | Self::GetQueueUrl(_) | Self::ListQueues(_) => None,
        }
    }
}
