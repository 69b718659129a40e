//! The answer to a Query request as JSON, for clients that accept nothing else.
//!
//! It shows AWS's own names for members, which are those of JSON but for some in lower case, maps as
//! lists of entries, and null for some members without content. Rarely asked for, so it takes the way
//! over [`serde_json::Value`].

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::names::{Shape, query_name};
use crate::action::Action;

/// Members of this form that are called otherwise than in the JSON dialect.
const RENAMED: [(&str, &str); 2] = [("Messages", "messages"), ("QueueUrls", "queueUrls")];

/// Members that are null when they have no content.
const NULLABLE: [(Action, &str); 4] = [
    (Action::GetQueueAttributes, "Attributes"),
    (Action::ListQueues, "NextToken"),
    (Action::ListQueues, "queueUrls"),
    (Action::ReceiveMessage, "messages"),
];

/// The tree of an action's answer.
pub(crate) fn to_tree<T: Serialize>(action: Action, answer: &T) -> Value {
    let answer = serde_json::to_value(answer).expect("answers have string keys");
    let mut tree = members(action, answer);
    if let Value::Object(tree) = &mut tree {
        for (nullable, member) in NULLABLE {
            if nullable == action {
                tree.entry(member).or_insert(Value::Null);
            }
        }
    }
    tree
}

fn members(action: Action, value: Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .map(|(member, value)| member_of(action, member, value))
                .collect(),
        ),
        Value::Array(items) => items
            .into_iter()
            .map(|item| members(action, item))
            .collect(),
        other => other,
    }
}

fn member_of(action: Action, member: String, value: Value) -> (String, Value) {
    let value = match (query_name(action, &member).shape, value) {
        (Shape::Map { key, value: name }, Value::Object(map)) => entries(key, name, map),
        (_, value) => members(action, value),
    };
    let renamed = RENAMED.into_iter().find(|(json, _)| *json == member);
    (renamed.map_or(member, |(_, name)| name.to_owned()), value)
}

fn entries(key: &str, name: &str, map: Map<String, Value>) -> Value {
    let entry = |(entry_key, value): (String, Value)| json!({ key: entry_key, name: value });
    map.into_iter().map(entry).collect()
}
