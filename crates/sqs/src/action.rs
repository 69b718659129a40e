//! The 23 operations, by the names clients call them.
//!
//! The names are the same in both dialects: `X-Amz-Target: AmazonSQS.<name>` in JSON, `Action=<name>`
//! in Query.

/// One of the operations of the SQS API of 2012-11-05.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Adds a statement to the queue's policy.
    AddPermission,
    /// Stops a running move of dead letters.
    CancelMessageMoveTask,
    /// Sets the visibility timeout of one message in flight.
    ChangeMessageVisibility,
    /// Sets the visibility timeouts of up to ten messages in flight.
    ChangeMessageVisibilityBatch,
    /// Creates a queue, or returns the equal one that exists.
    CreateQueue,
    /// Deletes one received message.
    DeleteMessage,
    /// Deletes up to ten received messages.
    DeleteMessageBatch,
    /// Deletes a queue and what is in it.
    DeleteQueue,
    /// Reads attributes of a queue.
    GetQueueAttributes,
    /// Finds a queue's URL by its name.
    GetQueueUrl,
    /// Lists the queues that have this queue as their dead-letter queue.
    ListDeadLetterSourceQueues,
    /// Lists recent moves of dead letters.
    ListMessageMoveTasks,
    /// Lists the tags of a queue.
    ListQueueTags,
    /// Lists the URLs of queues.
    ListQueues,
    /// Deletes all messages of a queue.
    PurgeQueue,
    /// Receives up to ten messages.
    ReceiveMessage,
    /// Removes a statement from the queue's policy.
    RemovePermission,
    /// Sends one message.
    SendMessage,
    /// Sends up to ten messages.
    SendMessageBatch,
    /// Changes attributes of a queue.
    SetQueueAttributes,
    /// Starts to move dead letters back.
    StartMessageMoveTask,
    /// Adds or overwrites tags of a queue.
    TagQueue,
    /// Removes tags of a queue.
    UntagQueue,
}

/// What precedes the operation's name in `X-Amz-Target`.
const TARGET_PREFIX: &str = "AmazonSQS.";

impl Action {
    /// All operations, in the alphabetical order of their names.
    pub const ALL: [Self; 23] = [
        Self::AddPermission,
        Self::CancelMessageMoveTask,
        Self::ChangeMessageVisibility,
        Self::ChangeMessageVisibilityBatch,
        Self::CreateQueue,
        Self::DeleteMessage,
        Self::DeleteMessageBatch,
        Self::DeleteQueue,
        Self::GetQueueAttributes,
        Self::GetQueueUrl,
        Self::ListDeadLetterSourceQueues,
        Self::ListMessageMoveTasks,
        Self::ListQueueTags,
        Self::ListQueues,
        Self::PurgeQueue,
        Self::ReceiveMessage,
        Self::RemovePermission,
        Self::SendMessage,
        Self::SendMessageBatch,
        Self::SetQueueAttributes,
        Self::StartMessageMoveTask,
        Self::TagQueue,
        Self::UntagQueue,
    ];

    /// The operation's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddPermission => "AddPermission",
            Self::CancelMessageMoveTask => "CancelMessageMoveTask",
            Self::ChangeMessageVisibility => "ChangeMessageVisibility",
            Self::ChangeMessageVisibilityBatch => "ChangeMessageVisibilityBatch",
            Self::CreateQueue => "CreateQueue",
            Self::DeleteMessage => "DeleteMessage",
            Self::DeleteMessageBatch => "DeleteMessageBatch",
            Self::DeleteQueue => "DeleteQueue",
            Self::GetQueueAttributes => "GetQueueAttributes",
            Self::GetQueueUrl => "GetQueueUrl",
            Self::ListDeadLetterSourceQueues => "ListDeadLetterSourceQueues",
            Self::ListMessageMoveTasks => "ListMessageMoveTasks",
            Self::ListQueueTags => "ListQueueTags",
            Self::ListQueues => "ListQueues",
            Self::PurgeQueue => "PurgeQueue",
            Self::ReceiveMessage => "ReceiveMessage",
            Self::RemovePermission => "RemovePermission",
            Self::SendMessage => "SendMessage",
            Self::SendMessageBatch => "SendMessageBatch",
            Self::SetQueueAttributes => "SetQueueAttributes",
            Self::StartMessageMoveTask => "StartMessageMoveTask",
            Self::TagQueue => "TagQueue",
            Self::UntagQueue => "UntagQueue",
        }
    }

    /// Finds the operation with this name; names are case-sensitive.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }

    /// Finds the operation that the header `X-Amz-Target` names.
    #[must_use]
    pub fn from_target(target: &str) -> Option<Self> {
        Self::from_name(target.strip_prefix(TARGET_PREFIX)?)
    }
}

#[cfg(test)]
mod tests {
    use super::Action;

    #[test]
    fn finds_every_operation_by_its_target() {
        for action in Action::ALL {
            let target = format!("AmazonSQS.{}", action.name());
            assert_eq!(Action::from_target(&target), Some(action));
            assert_eq!(format!("{action:?}"), action.name());
        }
    }

    #[test]
    fn knows_no_other_target() {
        for target in [
            "SendMessage",
            "AmazonSQS.",
            "AmazonSQS.sendMessage",
            "AmazonSNS.Publish",
        ] {
            assert_eq!(Action::from_target(target), None, "{target}");
        }
    }
}
