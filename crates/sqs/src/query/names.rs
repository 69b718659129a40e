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
