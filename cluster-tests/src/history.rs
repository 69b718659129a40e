//! What clients did to a cluster and what they were told, one operation after the other.
//!
//! Every operation has the instants of its invocation and its return on one monotonic clock, and an
//! outcome: *ok*; *fail*, which promises that it had no effect and never will; or *info* (a timeout,
//! a reset, a 5xx), which may take effect once, after it was invoked. Marks say what only the harness
//! knows: when no node remembered the time, and when a queue was drained.
//!
//! These types are the file format too (see [`lines`]); they hold no judgement. Bodies are kept as a
//! label and a digest, receipt handles as a digest, so that a million operations fit into memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub mod lines;

/// The part of a body that people read is at most this long, in bytes.
const MAX_LABEL_BYTES: usize = 64;

/// All that is known of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The most by which the wall clocks of two nodes differed, milliseconds.
    pub clock_bound_ms: u64,
    /// In no particular order.
    pub operations: Vec<Operation>,
    /// In no particular order.
    pub marks: Vec<Mark>,
}

/// One HTTP attempt of one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Which client, to tell them apart when reading.
    pub client: u32,
    /// The account that called.
    pub tenant: String,
    /// The name of the caller's queue; empty when the action has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// Before the first byte was written, microseconds.
    pub invoked_us: u64,
    /// After the last byte was read, or when the client gave up, microseconds.
    pub returned_us: u64,
    /// What was called, and what came of it.
    pub action: Action,
}

/// What a client knows about the effect of its operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<T> {
    /// It took effect, with this answer.
    Ok(T),
    /// It had no effect and never will.
    Fail,
    /// It may take effect once, now or later.
    Info,
}

impl<T> Outcome<T> {
    /// Whether it took effect or still may.
    pub fn may_have_effect(&self) -> bool {
        !matches!(self, Outcome::Fail)
    }

    /// Whether nobody knows.
    pub fn is_info(&self) -> bool {
        matches!(self, Outcome::Info)
    }

    /// The answer, when there was one.
    pub fn ok(&self) -> Option<&T> {
        match self {
            Outcome::Ok(answer) => Some(answer),
            Outcome::Fail | Outcome::Info => None,
        }
    }
}

/// The actions of SQS that change or show messages and queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// `CreateQueue`: new, or found with the same attributes.
    CreateQueue {
        /// As requested, by SQS's names.
        attributes: Attributes,
        /// What came of it.
        outcome: Outcome<()>,
    },
    /// `DeleteQueue`.
    DeleteQueue {
        /// What came of it.
        outcome: Outcome<()>,
    },
    /// `PurgeQueue`.
    PurgeQueue {
        /// What came of it.
        outcome: Outcome<()>,
    },
    /// `SetQueueAttributes`.
    SetAttributes {
        /// As requested, by SQS's names.
        attributes: Attributes,
        /// What came of it.
        outcome: Outcome<()>,
    },
    /// `GetQueueAttributes` with all of them; the counts are among them.
    GetAttributes {
        /// What came of it.
        outcome: Outcome<Attributes>,
    },
    /// `ListQueues`, to its last page.
    ListQueues {
        /// What came of it.
        outcome: Outcome<Vec<Listed>>,
    },
    /// `SendMessage` with one entry, `SendMessageBatch` with up to ten.
    Send {
        /// In the order of the request.
        entries: Vec<SendEntry>,
    },
    /// `ReceiveMessage`.
    Receive(Receive),
    /// `DeleteMessage` with one entry, `DeleteMessageBatch` with up to ten.
    Delete {
        /// In the order of the request.
        entries: Vec<DeleteEntry>,
    },
    /// `ChangeMessageVisibility` with one entry, its batch with up to ten.
    ChangeVisibility {
        /// In the order of the request.
        entries: Vec<ChangeEntry>,
    },
}

/// Attributes of a queue, by SQS's names.
pub type Attributes = BTreeMap<String, String>;

/// A queue as a listing names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The account in its URL.
    pub tenant: String,
    /// Its name.
    pub queue: String,
}

/// A body, told from every other one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Content {
    /// Its first word, for people.
    pub label: String,
    /// Of the whole body and its attributes.
    pub digest: u64,
}

impl Content {
    /// The content of a body without attributes.
    pub fn of(body: &str) -> Self {
        let word = body.split(' ').next().unwrap_or_default();
        let mut end = word.len().min(MAX_LABEL_BYTES);
        while !word.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            label: word[..end].to_owned(),
            digest: digest(body.as_bytes()),
        }
    }
}

/// A number for these bytes: the same on every machine and in every run (FNV-1a).
pub fn digest(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// How often the answer to a batch named an entry; each must be named once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mentions {
    /// Among the successful ones.
    pub successful: u32,
    /// Among the failed ones.
    pub failed: u32,
}

/// One message handed to the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendEntry {
    /// What is in it.
    pub content: Content,
    /// The message group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The deduplication id, or what stands for it when the queue derives it from the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deduplication_id: Option<String>,
    /// The message's own delay, milliseconds; the queue's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// What came of it.
    pub outcome: Outcome<Sent>,
    /// Of a batch that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<Mentions>,
}

/// The answer to a send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The queue's name for the message.
    pub message_id: String,
    /// FIFO's sequence number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u128>,
}

/// One receive with all that it returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receive {
    /// `MaxNumberOfMessages`.
    pub max: u32,
    /// `WaitTimeSeconds` in milliseconds; the queue's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// `VisibilityTimeout` in milliseconds; the queue's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility_timeout_ms: Option<u64>,
    /// `ReceiveRequestAttemptId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<String>,
    /// The messages, in the order of the answer.
    pub outcome: Outcome<Vec<Delivery>>,
}

/// One message of a receive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The queue's name for the message.
    pub message_id: String,
    /// What is in it.
    pub content: Content,
    /// The digest of its receipt handle.
    pub receipt: u64,
    /// `ApproximateReceiveCount`, which is exact here.
    pub receive_count: u32,
    /// `SentTimestamp`, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_ms: Option<u64>,
    /// FIFO's sequence number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u128>,
    /// The message group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// One message deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteEntry {
    /// Which message the receipt handle was for.
    pub message_id: String,
    /// The digest of the receipt handle.
    pub receipt: u64,
    /// What came of it.
    pub outcome: Outcome<()>,
    /// Of a batch that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<Mentions>,
}

/// One message's visibility timeout changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeEntry {
    /// Which message the receipt handle was for.
    pub message_id: String,
    /// The digest of the receipt handle.
    pub receipt: u64,
    /// From its effect on, milliseconds.
    pub visibility_timeout_ms: u64,
    /// What came of it.
    pub outcome: Outcome<()>,
    /// Of a batch that was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<Mentions>,
}

/// What the harness knows and clients do not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// In this time there may have been a moment in which no node remembered the cluster's time: all
    /// were down, or had come up and heard nothing yet. After it the time restarts from wall clocks
    /// (DESIGN section 5, "One clock"), so timers that span it are off by as much as these differ.
    TimeForgotten {
        /// Microseconds.
        from_us: u64,
        /// Microseconds.
        until_us: u64,
    },
    /// From `from_us` on clients only received from this queue and deleted; at `until_us` it said that
    /// nothing was left in it, visible or not.
    Drained {
        /// Whose queue.
        tenant: String,
        /// Its name.
        queue: String,
        /// Microseconds.
        from_us: u64,
        /// Microseconds.
        until_us: u64,
    },
}

impl Action {
    /// How many entries it has that are judged each for itself.
    pub fn entries(&self) -> usize {
        match self {
            Action::Send { entries } => entries.len(),
            Action::Delete { entries } => entries.len(),
            Action::ChangeVisibility { entries } => entries.len(),
            _ => 1,
        }
    }

    /// Of how many entries nobody knows the outcome.
    pub fn uncertain(&self) -> usize {
        let infos =
            |outcomes: &mut dyn Iterator<Item = bool>| outcomes.filter(|info| *info).count();
        match self {
            Action::CreateQueue { outcome, .. }
            | Action::DeleteQueue { outcome }
            | Action::PurgeQueue { outcome }
            | Action::SetAttributes { outcome, .. } => outcome.is_info().into(),
            Action::GetAttributes { outcome } => outcome.is_info().into(),
            Action::ListQueues { outcome } => outcome.is_info().into(),
            Action::Receive(receive) => receive.outcome.is_info().into(),
            Action::Send { entries } => infos(&mut entries.iter().map(|e| e.outcome.is_info())),
            Action::Delete { entries } => infos(&mut entries.iter().map(|e| e.outcome.is_info())),
            Action::ChangeVisibility { entries } => {
                infos(&mut entries.iter().map(|e| e.outcome.is_info()))
            }
        }
    }
}

impl History {
    /// How many operations of the kinds that matter most there are, in words.
    pub fn summary(&self) -> String {
        let (sends, deletes) = (self.acknowledged_sends(), self.acknowledged_deletes());
        let (deliveries, uncertain) = (self.deliveries(), self.uncertain());
        format!(
            "{} operations ({sends} acknowledged sends, {deliveries} deliveries, {deletes} \
             acknowledged deletes, {uncertain} uncertain entries)",
            self.operations.len()
        )
    }

    /// How many entries have no answer.
    pub fn uncertain(&self) -> usize {
        self.operations.iter().map(|o| o.action.uncertain()).sum()
    }

    /// How many messages were acknowledged.
    pub fn acknowledged_sends(&self) -> usize {
        let of = |operation: &Operation| match &operation.action {
            Action::Send { entries } => entries.iter().filter(|e| e.outcome.ok().is_some()).count(),
            _ => 0,
        };
        self.operations.iter().map(of).sum()
    }

    /// How many deletes were acknowledged.
    pub fn acknowledged_deletes(&self) -> usize {
        let of = |operation: &Operation| match &operation.action {
            Action::Delete { entries } => {
                entries.iter().filter(|e| e.outcome.ok().is_some()).count()
            }
            _ => 0,
        };
        self.operations.iter().map(of).sum()
    }

    /// How many messages were handed out, each as often as it was.
    pub fn deliveries(&self) -> usize {
        let of = |operation: &Operation| match &operation.action {
            Action::Receive(receive) => receive.outcome.ok().map_or(0, Vec::len),
            _ => 0,
        };
        self.operations.iter().map(of).sum()
    }

    /// A number for the whole history, times included: equal when the same happened at the same time.
    pub fn digest(&self) -> u64 {
        let mut text = Vec::new();
        lines::write(self, &mut text).expect("memory can be written to");
        digest(&text)
    }
}
