//! Message move tasks as clients name and bound them (SQS-CONTRACT section 9).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::arn::QueueArn;
use crate::error::SqsError;
use crate::hex::HexText;
use crate::queue_url::QueueRef;
use crate::wire::{Integer, Text};

/// The most messages a second that a task may be asked for.
const MAX_RATE: u16 = 500;

/// The most tasks that one listing has.
const MAX_LISTED: u8 = 10;

/// Messages that a task moves a second at most: 1 to 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveRate(u16);

/// How many tasks a listing has at most: 1 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxMoveTasks(u8);

/// What names a task to clients: base64 of JSON, as on AWS. It proves nothing: whoever may cancel tasks
/// of the queue may make one up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskHandle {
    /// The task's id, printed as a UUID.
    pub task: [u8; 16],
    /// The dead-letter queue.
    pub source: QueueArn,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireTaskHandle {
    task_id: String,
    source_arn: String,
}

impl TaskHandle {
    /// Reads a handle; what is none is invalid, whatever it is.
    #[must_use]
    pub fn try_parse(text: &str) -> Option<Self> {
        let bytes = BASE64_STANDARD.decode(text).ok()?;
        let wire: WireTaskHandle = serde_json::from_slice(&bytes).ok()?;
        Some(Self {
            task: uuid(&wire.task_id)?,
            source: QueueArn::try_parse(&wire.source_arn)?,
        })
    }

    /// The handle as clients get it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let wire = WireTaskHandle {
            task_id: HexText::uuid(&self.task).to_string(),
            source_arn: self.source.to_string(),
        };
        let json = serde_json::to_vec(&wire).expect("two texts can be written as JSON");
        BASE64_STANDARD.encode(json)
    }
}

/// The bytes of a UUID that is written as we write them.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.split('-').collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    let bytes = number.to_be_bytes();
    (HexText::uuid(&bytes).as_str() == text).then_some(bytes)
}

/// The queue that an ARN names. What is no ARN of a queue names one that does not exist.
pub(crate) fn queue_of_arn(parameter: &str, arn: Option<&Text<'_>>) -> Result<QueueRef, SqsError> {
    let arn = arn.map(|arn| &**arn).filter(|arn| !arn.is_empty());
    let arn = arn.ok_or_else(|| SqsError::missing_parameter(parameter))?;
    let arn = QueueArn::try_parse(arn);
    let arn = arn.ok_or_else(|| SqsError::resource_does_not_exist(parameter))?;
    Ok(QueueRef {
        account: Some(arn.account),
        name: arn.name,
    })
}

impl MoveRate {
    pub(crate) fn parse(Integer(number): Integer) -> Result<Self, SqsError> {
        let valid = u16::try_from(number).ok();
        let valid = valid.filter(|rate| (1..=MAX_RATE).contains(rate));
        valid.map(Self).ok_or_else(|| {
            let reason = "Must be an integer between 1 and 500, if provided.";
            SqsError::invalid_parameter("MaxNumberOfMessagesPerSecond", number, reason)
        })
    }

    /// Messages a second.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Default for MaxMoveTasks {
    fn default() -> Self {
        Self(1)
    }
}

impl MaxMoveTasks {
    pub(crate) fn parse(Integer(number): Integer) -> Result<Self, SqsError> {
        let valid = u8::try_from(number).ok();
        let valid = valid.filter(|most| (1..=MAX_LISTED).contains(most));
        valid.map(Self).ok_or_else(|| {
            let reason = "MaxResults must be an integer between 1 and 10.";
            SqsError::invalid_parameter("MaxResults", number, reason)
        })
    }

    /// The number of tasks.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{BASE64_STANDARD, Integer, MaxMoveTasks, MoveRate, TaskHandle};
    use crate::arn::QueueArn;
    use base64::Engine as _;

    #[test]
    fn a_handle_is_base64_of_the_task_and_its_queue() {
        let source = QueueArn::try_parse("arn:aws:sqs:eu-north-1:123456789012:dead").unwrap();
        let task = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef";
        let handle = TaskHandle { task, source };
        let json = BASE64_STANDARD.decode(handle.to_text()).unwrap();
        let expected = r#"{"taskId":"01234567-89ab-cdef-0123-456789abcdef","sourceArn":"arn:aws:sqs:eu-north-1:123456789012:dead"}"#;
        assert_eq!(String::from_utf8(json).unwrap(), expected);
        assert_eq!(TaskHandle::try_parse(&handle.to_text()), Some(handle));
    }

    #[test]
    fn what_is_no_handle_is_invalid() {
        for text in [
            "",
            "AQEB",
            "not base64!",
            &BASE64_STANDARD.encode("{}"),
            &BASE64_STANDARD.encode(r#"{"taskId":"1","sourceArn":"arn:aws:sqs:r:123456789012:q"}"#),
            &BASE64_STANDARD.encode(
                r#"{"taskId":"01234567-89ab-cdef-0123-456789abcdef","sourceArn":"dead"}"#,
            ),
            &BASE64_STANDARD.encode(
                r#"{"taskId":"0123456789abcdef0123456789abcdef","sourceArn":"arn:aws:sqs:r:123456789012:q"}"#,
            ),
        ] {
            assert_eq!(TaskHandle::try_parse(text), None, "{text}");
        }
    }

    #[test]
    fn ranges_include_their_bounds() {
        for (number, rate, listed) in [(0, false, false), (1, true, true), (10, true, true)] {
            assert_eq!(MoveRate::parse(Integer(number)).is_ok(), rate);
            assert_eq!(MaxMoveTasks::parse(Integer(number)).is_ok(), listed);
        }
        assert_eq!(MoveRate::parse(Integer(500)).unwrap().get(), 500);
        assert!(MoveRate::parse(Integer(501)).is_err());
        assert!(MaxMoveTasks::parse(Integer(11)).is_err());
    }
}
