//! What members are called in the Query dialect, where that differs from JSON: the one table.
//!
//! A member that is not listed is a text of the same name in both dialects.

use crate::action::Action;

/// How a member's values stand in a form and in XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Once, under the name.
    Single,
    /// Each item under the name: with a number from 1 in forms, repeated in XML.
    List,
    /// Each entry as an item of a list, with a key and a value.
    Map {
        key: &'static str,
        value: &'static str,
    },
}

/// A member as the Query dialect has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueryName<'n> {
    pub(super) name: &'n str,
    pub(super) shape: Shape,
}

/// Entries called by what they are.
const NAMED: Shape = Shape::Map {
    key: "Name",
    value: "Value",
};
/// Entries of tags.
const KEYED: Shape = Shape::Map {
    key: "Key",
    value: "Value",
};

/// The members that are flattened, in requests and answers.
#[rustfmt::skip] // a table: one line each
const FLATTENED: [(&str, &str, Shape); 16] = [
    ("AWSAccountIds", "AWSAccountId", Shape::List),
    ("Actions", "ActionName", Shape::List),
    ("AttributeNames", "AttributeName", Shape::List),
    ("Attributes", "Attribute", NAMED),
    ("Failed", "BatchResultErrorEntry", Shape::List),
    ("MessageAttributeNames", "MessageAttributeName", Shape::List),
    ("MessageAttributes", "MessageAttribute", NAMED),
    // The model gives both lists of a receive the same name.
    ("MessageSystemAttributeNames", "AttributeName", Shape::List),
    ("MessageSystemAttributes", "MessageSystemAttribute", NAMED),
    ("Messages", "Message", Shape::List),
    ("QueueUrls", "QueueUrl", Shape::List),
    ("Results", "ListMessageMoveTasksResultEntry", Shape::List),
    ("TagKeys", "TagKey", Shape::List),
    ("Tags", "Tag", KEYED),
    ("queueUrls", "QueueUrl", Shape::List),
    ("tags", "Tag", KEYED),
];

/// What the entries of batches are called, in requests and answers.
#[rustfmt::skip] // a table: one line each
const BATCHES: [(Action, &str, &str); 3] = [
    (Action::ChangeMessageVisibilityBatch, "ChangeMessageVisibilityBatchRequestEntry", "ChangeMessageVisibilityBatchResultEntry"),
    (Action::DeleteMessageBatch, "DeleteMessageBatchRequestEntry", "DeleteMessageBatchResultEntry"),
    (Action::SendMessageBatch, "SendMessageBatchRequestEntry", "SendMessageBatchResultEntry"),
];

/// The name of a member of an action's request or answer.
pub(super) fn query_name(action: Action, member: &str) -> QueryName<'_> {
    if matches!(member, "Entries" | "Successful") {
        let batch = BATCHES.into_iter().find(|(batch, ..)| *batch == action);
        if let Some((_, request, result)) = batch {
            let name = if member == "Entries" { request } else { result };
            let shape = Shape::List;
            return QueryName { name, shape };
        }
    }
    let flattened = FLATTENED.into_iter().find(|(known, ..)| *known == member);
    match flattened {
        Some((_, name, shape)) => QueryName { name, shape },
        None => QueryName::single(member),
    }
}

impl<'n> QueryName<'n> {
    /// The name of a text or a structure.
    pub(super) const fn single(name: &'n str) -> Self {
        let shape = Shape::Single;
        Self { name, shape }
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, FLATTENED, Shape, query_name};

    /// Every flattened member of the last model that AWS published for this dialect, and how its
    /// first value is written in a form.
    #[rustfmt::skip] // a table: one line each
    const MODEL: [(&str, &str, &str); 30] = [
        ("AddPermission", "AWSAccountIds", "AWSAccountId.1"),
        ("AddPermission", "Actions", "ActionName.1"),
        ("ChangeMessageVisibilityBatch", "Entries", "ChangeMessageVisibilityBatchRequestEntry.1"),
        ("ChangeMessageVisibilityBatch", "Failed", "BatchResultErrorEntry.1"),
        ("ChangeMessageVisibilityBatch", "Successful", "ChangeMessageVisibilityBatchResultEntry.1"),
        ("CreateQueue", "Attributes", "Attribute.1.Name .Value"),
        ("CreateQueue", "tags", "Tag.1.Key .Value"),
        ("DeleteMessageBatch", "Entries", "DeleteMessageBatchRequestEntry.1"),
        ("DeleteMessageBatch", "Failed", "BatchResultErrorEntry.1"),
        ("DeleteMessageBatch", "Successful", "DeleteMessageBatchResultEntry.1"),
        ("GetQueueAttributes", "AttributeNames", "AttributeName.1"),
        ("GetQueueAttributes", "Attributes", "Attribute.1.Name .Value"),
        ("ListDeadLetterSourceQueues", "queueUrls", "QueueUrl.1"),
        ("ListMessageMoveTasks", "Results", "ListMessageMoveTasksResultEntry.1"),
        ("ListQueueTags", "Tags", "Tag.1.Key .Value"),
        ("ListQueues", "QueueUrls", "QueueUrl.1"),
        ("ReceiveMessage", "AttributeNames", "AttributeName.1"),
        ("ReceiveMessage", "Attributes", "Attribute.1.Name .Value"),
        ("ReceiveMessage", "MessageAttributeNames", "MessageAttributeName.1"),
        ("ReceiveMessage", "MessageAttributes", "MessageAttribute.1.Name .Value"),
        ("ReceiveMessage", "MessageSystemAttributeNames", "AttributeName.1"),
        ("ReceiveMessage", "Messages", "Message.1"),
        ("SendMessage", "MessageAttributes", "MessageAttribute.1.Name .Value"),
        ("SendMessage", "MessageSystemAttributes", "MessageSystemAttribute.1.Name .Value"),
        ("SendMessageBatch", "Entries", "SendMessageBatchRequestEntry.1"),
        ("SendMessageBatch", "Failed", "BatchResultErrorEntry.1"),
        ("SendMessageBatch", "Successful", "SendMessageBatchResultEntry.1"),
        ("SetQueueAttributes", "Attributes", "Attribute.1.Name .Value"),
        ("TagQueue", "Tags", "Tag.1.Key .Value"),
        ("UntagQueue", "TagKeys", "TagKey.1"),
    ];

    #[test]
    fn members_are_called_as_the_model_calls_them() {
        for (action, member, written) in MODEL {
            let name = query_name(Action::from_name(action).unwrap(), member);
            let found = match name.shape {
                Shape::Single => name.name.to_owned(),
                Shape::List => format!("{}.1", name.name),
                Shape::Map { key, value } => format!("{}.1.{key} .{value}", name.name),
            };
            assert_eq!(found, written, "{action}.{member}");
        }
        for (member, ..) in FLATTENED {
            assert!(
                MODEL.iter().any(|(_, known, _)| *known == member),
                "{member}"
            );
        }
    }

    #[test]
    fn the_rest_is_called_as_in_json() {
        for member in ["QueueUrl", "MessageBody", "Entries", "Successful"] {
            let name = query_name(Action::SendMessage, member);
            assert_eq!((name.name, name.shape), (member, Shape::Single));
        }
    }
}
