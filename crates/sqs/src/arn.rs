//! Amazon resource names of queues: `arn:aws:sqs:<region>:<account>:<name>`.

use std::fmt;

use crate::queue_name::{AccountId, QueueName};

/// The ARN of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueArn {
    /// The region: see [`is_region`].
    pub region: String,
    /// The owner.
    pub account: AccountId,
    /// The queue's name.
    pub name: QueueName,
}

impl QueueArn {
    /// The ARN, if the text is one of a queue.
    #[must_use]
    pub fn try_parse(text: &str) -> Option<Self> {
        let (region, rest) = text.strip_prefix("arn:aws:sqs:")?.split_once(':')?;
        let (account, name) = rest.split_once(':')?;
        Some(Self {
            region: is_region(region).then(|| region.to_owned())?,
            account: AccountId::try_new(account)?,
            name: QueueName::try_new(name)?,
        })
    }
}

/// Whether a text may be the name of a region: letters, digits, hyphens and underscores, as in the scope
/// of a signature. An ARN is repeated inside JSON, so that anything else could end the text around it.
#[must_use]
pub fn is_region(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !text.is_empty() && text.bytes().all(word)
}

impl fmt::Display for QueueArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "arn:aws:sqs:{}:{}:{}",
            self.region, self.account, self.name
        )
    }
}

#[cfg(test)]
mod tests {
    use super::QueueArn;

    #[test]
    fn reads_back_what_it_writes() {
        let text = "arn:aws:sqs:eu-north-1:123456789012:orders.fifo";
        assert_eq!(QueueArn::try_parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn refuses_what_names_no_queue() {
        for text in [
            "",
            "orders",
            "arn:aws:sns:eu-north-1:123456789012:orders",
            "arn:aws:sqs::123456789012:orders",
            "arn:aws:sqs:eu north:123456789012:orders",
            "arn:aws:sqs:eu\"north:123456789012:orders",
            "arn:aws:sqs:eu\nnorth:123456789012:orders",
            "arn:aws:sqs:\u{e9}:123456789012:orders",
            "arn:aws:sqs:eu-north-1:12:orders",
            "arn:aws:sqs:eu-north-1:123456789012:",
            "arn:aws:sqs:eu-north-1:123456789012:a:b",
        ] {
            assert_eq!(QueueArn::try_parse(text), None, "{text}");
        }
    }
}
