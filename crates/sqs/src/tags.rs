//! Tags of queues: case-sensitive keys, values that may be empty.
//!
//! How AWS words its refusals of tags is not recorded (SQS-CONTRACT section 12); these texts are of the
//! form that others saw.

use std::collections::BTreeMap;

use crate::error::{ErrorCode, SqsError};
use crate::wire::{Members, Text};

/// The most tags a queue may have.
const MAX_TAGS: usize = 50;
/// The longest key, in characters.
const MAX_TAG_KEY: usize = 128;
/// The longest value, in characters.
const MAX_TAG_VALUE: usize = 256;

/// Valid tags, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(BTreeMap<String, String>);

impl Tags {
    pub(crate) fn parse(members: &Members<'_, Text<'_>>) -> Result<Self, SqsError> {
        let mut tags = BTreeMap::new();
        for (key, value) in &members.0 {
            check_key(key)?;
            if value.chars().count() > MAX_TAG_VALUE {
                let text = "Tag values must be between 0 and 256 characters in length.";
                return Err(SqsError::new(ErrorCode::InvalidParameterValue, text));
            }
            tags.insert(key.0.to_string(), value.0.to_string());
        }
        Ok(Self(tags))
    }

    /// Tags that were valid when they were stored.
    #[must_use]
    pub fn from_stored(tags: BTreeMap<String, String>) -> Self {
        Self(tags)
    }

    /// The tags by key.
    #[must_use]
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The tags by key, for storing.
    #[must_use]
    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn check_count(&self, queue_name: &str) -> Result<(), SqsError> {
        if self.0.len() <= MAX_TAGS {
            return Ok(());
        }
        Err(SqsError::too_many_tags(queue_name))
    }
}

/// Refuses a key of a length that no tag has.
pub(crate) fn check_key(key: &str) -> Result<(), SqsError> {
    if (1..=MAX_TAG_KEY).contains(&key.chars().count()) {
        return Ok(());
    }
    let text = "Tag keys must be between 1 and 128 characters in length.";
    Err(SqsError::new(ErrorCode::InvalidParameterValue, text))
}
