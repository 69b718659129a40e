//! A message as it stands in a request, nothing checked yet.

use serde::Deserialize;

use crate::wire::{Integer, Members, Text};

/// The members of `SendMessage` and of an entry of `SendMessageBatch`, which has an `Id` instead of
/// a `QueueUrl`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireMessage<'a> {
    #[serde(borrow)]
    pub(crate) queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) message_body: Option<Text<'a>>,
    pub(crate) delay_seconds: Option<Integer>,
    #[serde(borrow, default)]
    pub(crate) message_attributes: Members<'a, WireAttributeValue<'a>>,
    #[serde(borrow, default)]
    pub(crate) message_system_attributes: Members<'a, WireAttributeValue<'a>>,
    #[serde(borrow)]
    pub(crate) message_deduplication_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) message_group_id: Option<Text<'a>>,
}

/// The value of a message attribute; the list forms of the model were never implemented by AWS.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WireAttributeValue<'a> {
    #[serde(borrow)]
    pub(crate) data_type: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) string_value: Option<Text<'a>>,
    /// Base64.
    #[serde(borrow)]
    pub(crate) binary_value: Option<Text<'a>>,
}

impl WireMessage<'_> {
    /// The size that counts against the limit of a batch: body and client's attributes.
    pub(crate) fn size_bytes(&self) -> usize {
        let body = self.message_body.as_deref().map_or(0, str::len);
        let attribute =
            |(name, value): &(Text<'_>, WireAttributeValue<'_>)| name.len() + value.size_bytes();
        body + self
            .message_attributes
            .0
            .iter()
            .map(attribute)
            .sum::<usize>()
    }
}

impl WireAttributeValue<'_> {
    fn size_bytes(&self) -> usize {
        let length = |text: &Option<Text<'_>>| text.as_deref().map_or(0, str::len);
        length(&self.data_type) + length(&self.string_value) + self.binary_bytes()
    }

    /// How many bytes the Base64 stands for: three for four characters, padding aside.
    fn binary_bytes(&self) -> usize {
        let text = self.binary_value.as_deref().unwrap_or_default();
        text.trim_end_matches('=').len() * 3 / 4
    }
}
