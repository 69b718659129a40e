//! A queue's name, and the account that owns it.

use std::fmt;

use crate::error::{ErrorCode, SqsError};

/// The longest name of a queue, in characters; the suffix counts.
const MAX_QUEUE_NAME: usize = 80;

/// What the name of every FIFO queue, and of no other, ends with.
pub const FIFO_SUFFIX: &str = ".fifo";

/// How many digits an account id has.
const ACCOUNT_DIGITS: usize = 12;

/// A valid name: 1 to 80 of alphanumerics, hyphens and underscores, `.fifo` at the end allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(String);

impl QueueName {
    /// Parses a name that a client gave as `QueueName`.
    pub fn parse(name: &str) -> Result<Self, SqsError> {
        Self::try_new(name).ok_or_else(Self::refusal)
    }

    /// The name, if it is valid.
    #[must_use]
    pub fn try_new(name: &str) -> Option<Self> {
        let base = name.strip_suffix(FIFO_SUFFIX).unwrap_or(name);
        let valid = !base.is_empty()
            && name.len() <= MAX_QUEUE_NAME
            && base
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        valid.then(|| Self(name.to_owned()))
    }

    /// What is answered to a name that cannot be that of a standard queue.
    pub(crate) fn refusal() -> SqsError {
        let text =
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
        SqsError::new(ErrorCode::InvalidParameterValue, text)
    }

    /// What is answered to a name that cannot be that of a FIFO queue.
    pub(crate) fn fifo_refusal() -> SqsError {
        let text = "The name of a FIFO queue can only include alphanumeric characters, hyphens, or \
                    underscores, must end with .fifo suffix and be 1 to 80 in length.";
        SqsError::new(ErrorCode::InvalidParameterValue, text)
    }

    /// Whether the name is that of a FIFO queue.
    #[must_use]
    pub fn is_fifo(&self) -> bool {
        self.0.ends_with(FIFO_SUFFIX)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The twelve digits of a tenant, as URLs and ARNs carry them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountId(String);

impl AccountId {
    /// The account, if the text is twelve digits.
    #[must_use]
    pub fn try_new(digits: &str) -> Option<Self> {
        let valid = digits.len() == ACCOUNT_DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
        valid.then(|| Self(digits.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{AccountId, QueueName};

    #[test]
    fn accepts_what_aws_accepts() {
        let longest = "a".repeat(80);
        let longest_fifo = format!("{}.fifo", "a".repeat(75));
        for name in ["a", "Orders-2_x", "orders.fifo", &longest, &longest_fifo] {
            assert_eq!(QueueName::parse(name).unwrap().as_str(), name);
        }
        assert!(QueueName::parse("orders.fifo").unwrap().is_fifo());
        assert!(!QueueName::parse("orders-fifo").unwrap().is_fifo());
    }

    #[test]
    fn refuses_everything_else() {
        let too_long = "a".repeat(81);
        let too_long_fifo = format!("{}.fifo", "a".repeat(76));
        for name in [
            "",
            ".fifo",
            "a b",
            "a/b",
            "a.b",
            "a.fifo.fifo",
            "é",
            &too_long,
            &too_long_fifo,
        ] {
            let error = QueueName::parse(name).unwrap_err();
            assert_eq!(
                error.message,
                "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
                "{name}"
            );
        }
    }

    #[test]
    fn an_account_is_twelve_digits() {
        assert!(AccountId::try_new("000000000000").is_some());
        for digits in ["", "00000000000", "0000000000000", "00000000000a", "queue"] {
            assert!(AccountId::try_new(digits).is_none(), "{digits}");
        }
    }
}
