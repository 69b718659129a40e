//! The few SQS calls in AWS JSON 1.0, written and read with few allocations.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Names the dialect.
pub(crate) const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// The most messages of one call.
pub(crate) const BATCH_LIMIT: usize = 10;

/// The calls that a run makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    CreateQueue,
    DeleteQueue,
    SendMessage,
    SendMessageBatch,
    ReceiveMessage,
    DeleteMessage,
    DeleteMessageBatch,
}

impl Action {
    /// The `X-Amz-Target` header.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::CreateQueue => "AmazonSQS.CreateQueue",
            Self::DeleteQueue => "AmazonSQS.DeleteQueue",
            Self::SendMessage => "AmazonSQS.SendMessage",
            Self::SendMessageBatch => "AmazonSQS.SendMessageBatch",
            Self::ReceiveMessage => "AmazonSQS.ReceiveMessage",
            Self::DeleteMessage => "AmazonSQS.DeleteMessage",
            Self::DeleteMessageBatch => "AmazonSQS.DeleteMessageBatch",
        }
    }
}

/// The body of `CreateQueue`.
pub(crate) fn create_queue(name: &str, attributes: &[(&str, &str)]) -> String {
    let attributes = attributes.iter();
    let attributes: Map<String, Value> = attributes
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    json!({ "QueueName": name, "Attributes": attributes }).to_string()
}

/// The queue's URL in the answer of `CreateQueue`.
pub(crate) fn queue_url(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    Some(answer.get("QueueUrl")?.as_str()?.to_owned())
}

/// The body of `DeleteQueue`.
pub(crate) fn delete_queue(queue_url: &str) -> String {
    json!({ "QueueUrl": queue_url }).to_string()
}

/// The body of `ReceiveMessage`.
pub(crate) fn receive(queue_url: &str, max: u32, wait_seconds: u32) -> String {
    json!({
        "QueueUrl": queue_url,
        "MaxNumberOfMessages": max,
        "WaitTimeSeconds": wait_seconds,
    })
    .to_string()
}

/// Writes the entries of one call into a JSON object, for a batch or for one message alone.
pub(crate) struct Entries {
    out: Vec<u8>,
    is_batch: bool,
    count: u8,
}

impl Entries {
    /// `queue_url` is JSON already.
    pub(crate) fn new(queue_url: &str, is_batch: bool, capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.extend_from_slice(b"{\"QueueUrl\":");
        out.extend_from_slice(queue_url.as_bytes());
        if is_batch {
            out.extend_from_slice(b",\"Entries\":[");
        }
        Self {
            out,
            is_batch,
            count: 0,
        }
    }

    /// Begins an entry, whose id is its place.
    pub(crate) fn entry(&mut self) -> &mut Self {
        assert!(
            self.is_batch || self.count == 0,
            "one message without a batch"
        );
        assert!(usize::from(self.count) < BATCH_LIMIT, "ten messages a call");
        if self.is_batch {
            let comma = if self.count == 0 { "" } else { "}," };
            self.out.extend_from_slice(comma.as_bytes());
            self.out.extend_from_slice(b"{\"Id\":\"");
            self.out.push(b'0' + self.count);
            self.out.push(b'"');
        }
        self.count += 1;
        self
    }

    /// Adds a member to the entry, whose text needs no escapes.
    pub(crate) fn plain(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.member(name);
        self.out.push(b'"');
        write(&mut self.out);
        self.out.push(b'"');
        self
    }

    /// Adds a member to the entry.
    pub(crate) fn text(&mut self, name: &str, text: &str) -> &mut Self {
        self.member(name);
        serde_json::to_writer(&mut self.out, text).expect("a vector takes everything");
        self
    }

    fn member(&mut self, name: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// The object.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        assert!(self.count > 0, "a call has an entry");
        let end = if self.is_batch { "}]}" } else { "}" };
        self.out.extend_from_slice(end.as_bytes());
        self.out
    }
}

/// What became of one entry of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryOutcome {
    Done,
    Failed {
        code: String,
        sender_fault: bool,
    },
    /// The answer does not tell.
    Unanswered,
}

impl EntryOutcome {
    /// The error's name in the report, if it is one.
    pub(crate) fn error(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Failed { code, .. } => Some(code),
            Self::Unanswered => Some("(entry not answered)"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BatchAnswer<'a> {
    #[serde(borrow)]
    successful: Option<Vec<Successful<'a>>>,
    #[serde(borrow)]
    failed: Option<Vec<Failed<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Successful<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failed<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    code: String,
    #[serde(default)]
    sender_fault: bool,
}

/// The outcomes of a batch of so many entries, in their order. `None` if the answer is not readable.
pub(crate) fn batch_outcomes(answer: &[u8], entries: usize) -> Option<Vec<EntryOutcome>> {
    let answer: BatchAnswer<'_> = serde_json::from_slice(answer).ok()?;
    let mut outcomes = vec![EntryOutcome::Unanswered; entries];
    for done in answer.successful.into_iter().flatten() {
        *outcomes.get_mut(done.id.parse::<usize>().ok()?)? = EntryOutcome::Done;
    }
    for failed in answer.failed.into_iter().flatten() {
        *outcomes.get_mut(failed.id.parse::<usize>().ok()?)? = EntryOutcome::Failed {
            code: failed.code,
            sender_fault: failed.sender_fault,
        };
    }
    Some(outcomes)
}

/// A received message, in the answer's own bytes where they have no escapes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) body: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) receipt_handle: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceiveAnswer<'a> {
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
}

/// The messages in an answer of `ReceiveMessage`. `None` if it is not readable.
pub(crate) fn messages(answer: &[u8]) -> Option<Vec<Message<'_>>> {
    let answer: ReceiveAnswer<'_> = serde_json::from_slice(answer).ok()?;
    Some(answer.messages.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json_of(entries: Entries) -> Value {
        serde_json::from_slice(&entries.finish()).unwrap()
    }

    #[test]
    fn writes_batches_and_single_messages() {
        let mut batch = Entries::new("\"u\"", true, 0);
        batch.entry().text("ReceiptHandle", "a\"\\/é");
        batch
            .entry()
            .plain("MessageBody", |out| out.extend_from_slice(b"b"))
            .text("MessageGroupId", "g");
        let expected = json!({ "QueueUrl": "u", "Entries": [
            { "Id": "0", "ReceiptHandle": "a\"\\/é" },
            { "Id": "1", "MessageBody": "b", "MessageGroupId": "g" },
        ]});
        assert_eq!(json_of(batch), expected);
        let mut single = Entries::new("\"u\"", false, 0);
        single.entry().text("ReceiptHandle", "h");
        let expected = json!({ "QueueUrl": "u", "ReceiptHandle": "h" });
        assert_eq!(json_of(single), expected);
    }

    #[test]
    fn reads_what_became_of_each_entry() {
        let answer =
            br#"{"Failed":[{"Id":"2","Code":"InternalError","Message":"m","SenderFault":false}],
            "Successful":[{"Id":"0","MessageId":"x","MD5OfMessageBody":"y"}]}"#;
        let failed = EntryOutcome::Failed {
            code: "InternalError".to_owned(),
            sender_fault: false,
        };
        assert_eq!(
            batch_outcomes(answer, 3),
            Some(vec![EntryOutcome::Done, EntryOutcome::Unanswered, failed])
        );
        assert_eq!(batch_outcomes(answer, 2), None);
        assert_eq!(batch_outcomes(b"<html>", 2), None);
    }

    #[test]
    fn reads_messages_with_and_without_escapes() {
        let answer = br#"{"Messages":[{"MessageId":"i","ReceiptHandle":"a\/b","Body":"plain"}]}"#;
        let messages = messages(answer).unwrap();
        assert_eq!(messages[0].receipt_handle, "a/b");
        assert!(matches!(messages[0].body, Cow::Borrowed("plain")));
        assert!(super::messages(b"{}").unwrap().is_empty());
        assert!(super::messages(b"[").is_none());
    }
}
