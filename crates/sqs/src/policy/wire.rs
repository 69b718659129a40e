//! The JSON of a policy, element by element, in the order in which AWS writes them.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A policy document; an element that is not listed here refuses it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct WireDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "one_or_more")]
    pub(super) statement: Vec<WireStatement>,
}

/// A statement; as strict as the document.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct WireStatement {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sid: Option<String>,
    pub(super) effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_principal: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) action: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_action: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_resource: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) condition: Option<Value>,
}

/// The statements, which AWS lets one write without the list's brackets when there is one.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<WireStatement>, D::Error> {
    let items = match Value::deserialize(deserializer)? {
        Value::Array(items) => items,
        one => vec![one],
    };
    let statements = items.into_iter().map(serde_json::from_value);
    statements
        .collect::<Result<_, _>>()
        .map_err(D::Error::custom)
}

/// How AWS writes a list of its own: without brackets when it has one item.
pub(super) fn written(mut items: Vec<String>) -> Value {
    match items.len() {
        1 => Value::from(items.remove(0)),
        _ => Value::from(items),
    }
}
