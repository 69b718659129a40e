//! What an answer says, whatever its dialect.

use serde_json::Value;

use super::table::Expected;
use super::text::{Known, shown};
use crate::harness::Answer;

/// See the module.
#[derive(Debug)]
pub enum Said {
    NoOutput,
    Output(Value),
    Error { shape: String, message: String },
}

impl Said {
    /// Whether it is what was expected.
    pub fn is(&self, expected: &Expected, known: &mut Known) -> Result<(), String> {
        match (expected, self) {
            (Expected::NoOutput, Self::NoOutput) => Ok(()),
            (Expected::Output(expected), Self::Output(found)) => {
                known.matches_value(expected, found)
            }
            (
                Expected::Error { shape, message },
                Self::Error {
                    shape: found,
                    message: text,
                },
            ) if shape == found => known.matches(message, text),
            (_, said) => Err(format!("another answer: {}", shown(&format!("{said:?}")))),
        }
    }
}

/// Refuses another value of a header.
pub fn header(answer: &Answer, name: &str, value: &str) -> Result<(), String> {
    match answer.headers.get(name) {
        Some(found) if found == value => Ok(()),
        found => Err(format!("the header {name} is {found:?}, not {value}")),
    }
}
