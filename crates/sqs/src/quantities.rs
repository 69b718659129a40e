//! Numbers of requests, each with its range and the text of its refusal.

use crate::error::SqsError;
use crate::wire::Integer;

/// The longest delay of a message, in seconds.
pub const MAX_DELAY_SECONDS: u32 = 900;
/// The longest visibility timeout, in seconds: twelve hours.
pub const MAX_VISIBILITY_TIMEOUT_SECONDS: u32 = 43_200;
/// The longest long poll, in seconds.
pub const MAX_WAIT_TIME_SECONDS: u32 = 20;
/// The most messages that one receive returns.
pub const MAX_NUMBER_OF_MESSAGES: u8 = 10;
/// The most items on a page of a listing.
pub const MAX_PAGE: u32 = 1_000;

/// How long a message stays hidden after it was sent: 0 to 900 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DelaySeconds(u32);

/// How long a received message stays hidden: 0 to 43200 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VisibilityTimeout(u32);

/// How long a receive waits for the first message: 0 to 20 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitTimeSeconds(u32);

/// How many messages a receive returns at most: 1 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MaxNumberOfMessages(u8);

/// How many items a page of a listing has at most: 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MaxResults(u32);

/// The number, if it lies between the two bounds.
fn in_range(number: i64, lowest: u32, highest: u32) -> Option<u32> {
    u32::try_from(number)
        .ok()
        .filter(|number| (lowest..=highest).contains(number))
}

impl DelaySeconds {
    pub(crate) fn parse(Integer(number): Integer) -> Result<Self, SqsError> {
        in_range(number, 0, MAX_DELAY_SECONDS)
            .map(Self)
            .ok_or_else(|| {
                let reason = "DelaySeconds must be >= 0 and <= 900.";
                SqsError::invalid_parameter("DelaySeconds", number, reason)
            })
    }

    /// The delay in seconds.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        self.0
    }
}

impl VisibilityTimeout {
    pub(crate) fn parse(Integer(number): Integer) -> Result<Self, SqsError> {
        in_range(number, 0, MAX_VISIBILITY_TIMEOUT_SECONDS)
            .map(Self)
            .ok_or_else(|| {
                let reason = "Must be between 0 and 43200, if provided.";
                SqsError::invalid_parameter("VisibilityTimeout", number, reason)
            })
    }

    /// The timeout in seconds.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        self.0
    }
}

impl WaitTimeSeconds {
    pub(crate) fn parse(Integer(number): Integer) -> Result<Self, SqsError> {
        in_range(number, 0, MAX_WAIT_TIME_SECONDS)
            .map(Self)
            .ok_or_else(|| {
                let reason = "Must be >= 0 and <= 20, if provided.";
                SqsError::invalid_parameter("WaitTimeSeconds", number, reason)
            })
    }

    /// The wait in seconds.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        self.0
    }
}

impl Default for MaxNumberOfMessages {
    fn default() -> Self {
        Self(1)
    }
}

impl MaxNumberOfMessages {
    pub(crate) fn parse(Integer(number): Integer) -> Result<Self, SqsError> {
        let valid = u8::try_from(number)
            .ok()
            .filter(|n| (1..=MAX_NUMBER_OF_MESSAGES).contains(n));
        valid.map(Self).ok_or_else(|| {
            let reason = "Must be between 1 and 10, if provided.";
            SqsError::invalid_parameter("MaxNumberOfMessages", number, reason)
        })
    }

    /// The number of messages.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl MaxResults {
    pub(crate) fn parse(Integer(number): Integer) -> Result<Self, SqsError> {
        in_range(number, 1, MAX_PAGE).map(Self).ok_or_else(|| {
            let reason = "MaxResults must be an integer between 1 and 1000.";
            SqsError::invalid_parameter("MaxResults", number, reason)
        })
    }

    /// The number of items.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{
        DelaySeconds, Integer, MaxNumberOfMessages, MaxResults, VisibilityTimeout, WaitTimeSeconds,
    };

    #[test]
    fn ranges_include_their_bounds() {
        assert_eq!(DelaySeconds::parse(Integer(900)).unwrap().seconds(), 900);
        assert_eq!(
            VisibilityTimeout::parse(Integer(43_200)).unwrap().seconds(),
            43_200
        );
        assert_eq!(WaitTimeSeconds::parse(Integer(20)).unwrap().seconds(), 20);
        assert_eq!(MaxNumberOfMessages::parse(Integer(1)).unwrap().get(), 1);
        assert_eq!(MaxNumberOfMessages::parse(Integer(10)).unwrap().get(), 10);
        assert_eq!(MaxResults::parse(Integer(1_000)).unwrap().get(), 1_000);
    }

    #[test]
    fn refusals_say_what_aws_says() {
        let texts = [
            (
                DelaySeconds::parse(Integer(54_524)).unwrap_err(),
                "Value 54524 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
            ),
            (
                VisibilityTimeout::parse(Integer(43_201)).unwrap_err(),
                "Value 43201 for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and 43200, if provided.",
            ),
            (
                WaitTimeSeconds::parse(Integer(21)).unwrap_err(),
                "Value 21 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
            ),
            (
                MaxNumberOfMessages::parse(Integer(11)).unwrap_err(),
                "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
            ),
            (
                MaxNumberOfMessages::parse(Integer(0)).unwrap_err(),
                "Value 0 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
            ),
        ];
        for (error, text) in texts {
            assert_eq!(error.message, text);
        }
        assert!(DelaySeconds::parse(Integer(-1)).is_err());
        assert!(MaxResults::parse(Integer(0)).is_err());
    }
}
