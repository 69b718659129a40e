//! The attributes whose values are JSON: access policy, redrive policy and redrive allow policy.
//!
//! Each keeps the client's own text, because tools compare what they read back with what they set.

use serde::Deserialize;
use serde_json::Value;

use crate::arn::QueueArn;
use crate::error::SqsError;
use crate::policy::QueuePolicy;
use crate::wire::json_depth;

/// How deep the JSON of an attribute may nest.
const MAX_DEPTH: usize = 32;
/// The most receives before a message moves to the dead-letter queue.
const MAX_RECEIVE_COUNT: u32 = 1_000;
/// The most queues that an allow policy may name.
const MAX_SOURCE_QUEUES: usize = 10;

const REDRIVE_POLICY: &str = "RedrivePolicy";
const REDRIVE_ALLOW_POLICY: &str = "RedriveAllowPolicy";

/// Where messages go that were received too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedrivePolicy {
    target: QueueArn,
    max_receive_count: u32,
    text: String,
}

/// Which queues may use this one as their dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedriveAllowPolicy {
    permission: RedrivePermission,
    text: String,
}

/// What an allow policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedrivePermission {
    /// Any queue may.
    AllowAll,
    /// No queue may.
    DenyAll,
    /// These queues may.
    ByQueue(Vec<QueueArn>),
}

#[derive(Deserialize)]
struct WireRedrivePolicy {
    #[serde(rename = "deadLetterTargetArn")]
    target: Option<Value>,
    #[serde(rename = "maxReceiveCount")]
    max_receive_count: Option<Value>,
}

#[derive(Deserialize)]
struct WireRedriveAllowPolicy {
    #[serde(rename = "redrivePermission")]
    permission: String,
    #[serde(rename = "sourceQueueArns")]
    sources: Option<Vec<String>>,
}

impl RedrivePolicy {
    /// Parses a policy that a client gave, or one that was stored.
    pub fn parse(text: &str) -> Result<Self, SqsError> {
        let refuse = |reason: &str| SqsError::invalid_parameter(REDRIVE_POLICY, text, reason);
        let missing = |name: &str| {
            refuse(&format!(
                "Redrive policy does not contain mandatory attribute: {name}."
            ))
        };
        let wire: WireRedrivePolicy =
            object(text).ok_or_else(|| refuse("Redrive policy is not a valid JSON map."))?;
        let target = wire.target.ok_or_else(|| missing("deadLetterTargetArn"))?;
        let count = wire
            .max_receive_count
            .ok_or_else(|| missing("maxReceiveCount"))?;
        let target = target
            .as_str()
            .and_then(QueueArn::try_parse)
            .ok_or_else(|| refuse("Invalid value for deadLetterTargetArn."))?;
        let max_receive_count = receive_count(&count).ok_or_else(|| {
            let shown = count
                .as_str()
                .map_or_else(|| count.to_string(), str::to_owned);
            refuse(&format!(
                "Invalid value for maxReceiveCount: {shown}, valid values are from 1 to \
                 {MAX_RECEIVE_COUNT} both inclusive."
            ))
        })?;
        let text = if count.is_number() {
            text.to_owned()
        } else {
            format!(
                "{{\"deadLetterTargetArn\":\"{target}\",\"maxReceiveCount\":{max_receive_count}}}"
            )
        };
        Ok(Self {
            target,
            max_receive_count,
            text,
        })
    }

    /// The dead-letter queue.
    #[must_use]
    pub const fn target(&self) -> &QueueArn {
        &self.target
    }

    /// How often a message may be received before it moves.
    #[must_use]
    pub const fn max_receive_count(&self) -> u32 {
        self.max_receive_count
    }

    /// The policy as it reads back: the client's text, the count as a number.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether both mean the same.
    pub(super) fn agree(one: Option<&Self>, other: Option<&Self>) -> bool {
        let meaning = |policy: &Self| (policy.target.clone(), policy.max_receive_count);
        one.map(meaning) == other.map(meaning)
    }
}

/// The count may come as a number or as its digits in a string, and reads back as a number: proved for
/// the number, and the likelier half for the string (SQS-CONTRACT section 12).
fn receive_count(count: &Value) -> Option<u32> {
    let number = match count {
        Value::Number(number) => u32::try_from(number.as_u64()?).ok()?,
        Value::String(digits) => digits.parse().ok()?,
        _ => return None,
    };
    (1..=MAX_RECEIVE_COUNT).contains(&number).then_some(number)
}

impl RedriveAllowPolicy {
    /// Parses a policy that a client gave, or one that was stored.
    pub fn parse(text: &str) -> Result<Self, SqsError> {
        let refuse = |reason: &str| SqsError::invalid_parameter(REDRIVE_ALLOW_POLICY, text, reason);
        let malformed = || SqsError::invalid_attribute_value(REDRIVE_ALLOW_POLICY);
        let wire: WireRedriveAllowPolicy = object(text).ok_or_else(malformed)?;
        let sources = wire.sources.unwrap_or_default();
        let permission = match wire.permission.as_str() {
            "allowAll" => RedrivePermission::AllowAll,
            "denyAll" => RedrivePermission::DenyAll,
            "byQueue" => {
                let sources = sources.iter().map(|source| QueueArn::try_parse(source));
                let sources = sources.collect::<Option<Vec<_>>>().ok_or_else(malformed)?;
                RedrivePermission::ByQueue(sources)
            }
            _ => return Err(malformed()),
        };
        match &permission {
            RedrivePermission::ByQueue(sources) if sources.is_empty() => Err(refuse(
                "Amazon SQS can't create the redrive allow policy. When you specify the byQueue \
                 permission type, you must also specify one or more sourceQueueArns values.",
            )),
            RedrivePermission::ByQueue(sources) if sources.len() > MAX_SOURCE_QUEUES => {
                Err(refuse(&format!(
                    "Amazon SQS can't create the redrive allow policy. The maximum number of \
                     source queue ARNs you can specify is {MAX_SOURCE_QUEUES}."
                )))
            }
            RedrivePermission::AllowAll | RedrivePermission::DenyAll if !sources.is_empty() => {
                Err(refuse(
                    "Amazon SQS can't create the redrive allow policy. To specify one or more \
                     source queue ARNs, you must set redrivePermission to byQueue.",
                ))
            }
            _ => Ok(Self {
                permission,
                text: text.to_owned(),
            }),
        }
    }

    /// What the policy says.
    #[must_use]
    pub const fn permission(&self) -> &RedrivePermission {
        &self.permission
    }

    /// Whether this source may use the queue as its dead-letter queue.
    #[must_use]
    pub fn allows(&self, source: &QueueArn) -> bool {
        match &self.permission {
            RedrivePermission::AllowAll => true,
            RedrivePermission::DenyAll => false,
            RedrivePermission::ByQueue(sources) => sources.contains(source),
        }
    }

    /// The policy as the client wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// An access policy that means something; the client's text is kept.
pub(super) fn policy_text(text: &str) -> Result<String, SqsError> {
    QueuePolicy::parse(text).map_err(|fault| fault.to_error())?;
    Ok(text.to_owned())
}

/// Whether both texts are the same JSON, whatever their layout.
pub(super) fn same_json(one: Option<&str>, other: Option<&str>) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    one.map(value) == other.map(value)
}

fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    if json_depth(text.as_bytes()) > MAX_DEPTH {
        return None;
    }
    serde_json::from_str(text).ok()
}
