//! Why a policy is refused when it is set.

use crate::error::{ErrorCode, SqsError};

/// What is wrong with a policy. A policy that could be misunderstood is refused whole, since a part of
/// it that had no effect might be the one that forbids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// It is no JSON, or not of this form; what the reader says.
    #[error("the document cannot be read: {0}")]
    Form(String),
    /// A version that is none of the two.
    #[error("there is no version {0}")]
    Version(String),
    /// A statement has neither of two elements, or both.
    #[error("a statement has either {0} or Not{0}")]
    OneOf(&'static str),
    /// An element that this kind of policy does not have.
    #[error("{0} has no place in this policy")]
    Misplaced(&'static str),
    /// `NotPrincipal` would let in everyone else, whoever that is.
    #[error("NotPrincipal goes with Deny only")]
    AllowNotPrincipal,
    /// An element has a value that it cannot have.
    #[error("{element} cannot be {value}")]
    Value {
        /// The element.
        element: &'static str,
        /// The value as it was given.
        value: String,
    },
    /// An operator of conditions that is not known here.
    #[error("there is no condition operator {0}")]
    Operator(String),
    /// A key of conditions that is not known here.
    #[error("the condition key {0} is not known here")]
    Key(String),
    /// An operator that does not go with a key.
    #[error("the condition operator {operator} does not go with {key}")]
    Misfit {
        /// The operator.
        operator: String,
        /// The key.
        key: String,
    },
    /// Two statements have the same id.
    #[error("there are two statements with the Sid {0}")]
    Repeated(String),
    /// More of something than a policy may have.
    #[error("{found} {what} were found, maximum allowed is {most}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        most: usize,
    },
}

impl PolicyFault {
    /// The value of an element, refused.
    pub(super) fn value(element: &'static str, value: impl std::fmt::Display) -> Self {
        let value = value.to_string();
        Self::Value { element, value }
    }

    /// What the client is told that set the policy. AWS says no more than that the value is invalid;
    /// the reason behind it is ours.
    #[must_use]
    pub fn to_error(&self) -> SqsError {
        match self {
            Self::TooMany { .. } => SqsError::new(ErrorCode::OverLimit, format!("{self}.")),
            _ => {
                let message = format!("Invalid value for the parameter Policy. Reason: {self}.");
                SqsError::new(ErrorCode::InvalidAttributeValue, message)
            }
        }
    }
}
