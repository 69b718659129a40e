//! The JSON of requests and answers.

use serde_json::{Value, json};

use super::{CallError, EntryError, EntryResult, Incoming, Outgoing};
use crate::history::Mentions;

/// Operations without output have an empty body.
pub(super) fn json_value(body: &[u8]) -> Result<Value, CallError> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    let text = || String::from_utf8_lossy(body).into_owned();
    serde_json::from_slice(body).map_err(|e| CallError::NotUnderstood(format!("{e}: {}", text())))
}

pub(super) fn refused(head: &http::response::Parts, body: &Value) -> CallError {
    let header = head
        .headers
        .get("x-amzn-query-error")
        .and_then(|v| v.to_str().ok());
    let query_code = header.and_then(|v| v.split(';').next());
    let shape = body
        .get("__type")
        .and_then(Value::as_str)
        .and_then(|t| t.rsplit('#').next());
    CallError::Refused {
        status: head.status.as_u16(),
        code: query_code.or(shape).unwrap_or_default().to_owned(),
        message: body
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
    }
}

pub(super) fn entry_id(place: usize) -> String {
    format!("e{place}")
}

pub(super) fn send_entry((place, message): (usize, &Outgoing)) -> Value {
    let mut entry = json!({ "Id": entry_id(place), "MessageBody": message.body });
    if let Some(group) = &message.message_group {
        entry["MessageGroupId"] = json!(group);
    }
    if let Some(id) = &message.deduplication_id {
        entry["MessageDeduplicationId"] = json!(id);
    }
    if let Some(seconds) = message.delay_seconds {
        entry["DelaySeconds"] = json!(seconds);
    }
    entry
}

/// The outcome of each entry, found by its id.
pub(super) fn batch_results<T>(
    answer: &Value,
    entries: usize,
    read: impl Fn(&Value) -> Result<T, CallError>,
) -> Result<Vec<EntryResult<T>>, CallError> {
    let by_id = |member: &'static str, id: &str| {
        let entries = list(answer, member).iter();
        let named = entries.filter(|e| e.get("Id").and_then(Value::as_str) == Some(id));
        named.collect::<Vec<&Value>>()
    };
    let result = |place| {
        let id = entry_id(place);
        let (successful, failed) = (by_id("Successful", &id), by_id("Failed", &id));
        let mentions = Mentions {
            successful: successful.len() as u32,
            failed: failed.len() as u32,
        };
        match (successful.as_slice(), failed.as_slice()) {
            ([entry], []) => Ok(Ok(read(entry)?)),
            ([], [entry]) => Ok(Err(EntryError {
                code: text(entry, "Code")?,
                sender_fault: entry
                    .get("SenderFault")
                    .and_then(Value::as_bool)
                    .unwrap_or(false),
                mentions,
            })),
            _ => Ok(Err(EntryError {
                code: String::new(),
                sender_fault: false,
                mentions,
            })),
        }
    };
    (0..entries).map(result).collect()
}

pub(super) fn incoming(message: &Value) -> Result<Incoming, CallError> {
    let attributes = message
        .get("Attributes")
        .ok_or_else(|| lacks(message, "Attributes"))?;
    let group = attributes.get("MessageGroupId").and_then(Value::as_str);
    Ok(Incoming {
        message_id: text(message, "MessageId")?,
        receipt_handle: text(message, "ReceiptHandle")?,
        body: text(message, "Body")?,
        receive_count: number(attributes, "ApproximateReceiveCount")?,
        sent_ms: match attributes.get("SentTimestamp") {
            Some(_) => Some(number(attributes, "SentTimestamp")?),
            None => None,
        },
        message_group: group.map(str::to_owned),
        sequence: sequence(attributes)?,
    })
}

/// An absent list is an empty one: that is how AWS writes it.
pub(super) fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value
        .get(member)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn text(value: &Value, member: &str) -> Result<String, CallError> {
    let found = value.get(member).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| lacks(value, member))
}

pub(super) fn number<T: std::str::FromStr>(value: &Value, member: &str) -> Result<T, CallError> {
    text(value, member)?
        .parse()
        .map_err(|_| lacks(value, member))
}

pub(super) fn sequence(value: &Value) -> Result<Option<u128>, CallError> {
    let present = value.get("SequenceNumber").is_some();
    present.then(|| number(value, "SequenceNumber")).transpose()
}

pub(super) fn lacks(value: &Value, member: &str) -> CallError {
    CallError::NotUnderstood(format!("no good {member} in {value}"))
}
