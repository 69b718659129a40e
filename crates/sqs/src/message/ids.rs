//! The ids that clients choose for messages of FIFO queues (and for fair queues).

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::error::SqsError;

/// The longest id, in characters.
const MAX_ID: usize = 128;

/// The message group that a message belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageGroupId<'a>(pub(crate) Cow<'a, str>);

/// What tells a repeated send from a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeduplicationId<'a>(pub(crate) Cow<'a, str>);

/// What tells a repeated receive from a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveAttemptId<'a>(pub(crate) Cow<'a, str>);

impl<'a> MessageGroupId<'a> {
    pub(crate) fn parse(id: &'a str) -> Result<Self, SqsError> {
        check("MessageGroupId", id).map(Self)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'a> DeduplicationId<'a> {
    pub(crate) fn parse(id: &'a str) -> Result<Self, SqsError> {
        check("MessageDeduplicationId", id).map(Self)
    }

    /// The id that content-based deduplication gives: the SHA-256 of the body, in hex.
    pub(crate) fn of_body(body: &str) -> Self {
        let mut hex = String::with_capacity(64);
        for byte in Sha256::digest(body.as_bytes()) {
            write!(hex, "{byte:02x}").expect("a String takes every character");
        }
        Self(Cow::Owned(hex))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'a> ReceiveAttemptId<'a> {
    pub(crate) fn parse(id: &'a str) -> Result<Self, SqsError> {
        check("ReceiveRequestAttemptId", id).map(Self)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check<'a>(parameter: &str, id: &'a str) -> Result<Cow<'a, str>, SqsError> {
    if (1..=MAX_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Cow::Borrowed(id));
    }
    let reason = format!(
        "{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."
    );
    Err(SqsError::invalid_parameter(parameter, id, &reason))
}

#[cfg(test)]
mod tests {
    use super::{DeduplicationId, MessageGroupId};

    #[test]
    fn takes_alphanumerics_and_punctuation() {
        let id = r##"aZ09!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~"##;
        assert_eq!(MessageGroupId::parse(id).unwrap().as_str(), id);
        assert!(DeduplicationId::parse(&"x".repeat(128)).is_ok());
    }

    #[test]
    fn refuses_the_rest() {
        let too_long = "x".repeat(129);
        for id in ["", " ", "a b", "é", "a\n", &too_long] {
            let error = MessageGroupId::parse(id).unwrap_err();
            assert_eq!(
                error.message,
                format!(
                    "Value {id} for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length."
                )
            );
        }
    }

    #[test]
    fn the_content_based_id_is_the_sha_256_of_the_body() {
        assert_eq!(
            DeduplicationId::of_body("abc").as_str(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
