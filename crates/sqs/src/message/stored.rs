//! What is kept of a message as long as it lives: the bytes that a partition stores as its body.
//!
//! The bytes are a promise: they outlive the program that wrote them. Version 1, integers
//! little-endian, a *text* being its length as `u32` and its UTF-8 bytes:
//!
//! | what | form |
//! |---|---|
//! | version | `u8` = 1 |
//! | message id | 16 bytes |
//! | which optional texts follow | `u8`: bit 0 message group, bit 1 deduplication id, bit 2 trace header |
//! | sender id | text |
//! | the optional texts | texts |
//! | number of attributes | `u8` |
//! | each attribute | name text, data type text, kind `u8` (1 text, 2 binary), value as a text |
//! | body | text, the end of the bytes |
//!
//! The time of sending, the receive count and everything else that the queue decides is not in here.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use super::attributes::{AttributeValue, MessageAttribute, MessageAttributes};
use crate::hex::HexText;

const VERSION: u8 = 1;

const HAS_MESSAGE_GROUP: u8 = 1;
const HAS_DEDUPLICATION_ID: u8 = 1 << 1;
const HAS_TRACE_HEADER: u8 = 1 << 2;
const KNOWN_FLAGS: u8 = HAS_MESSAGE_GROUP | HAS_DEDUPLICATION_ID | HAS_TRACE_HEADER;

const TEXT_KIND: u8 = 1;
const BINARY_KIND: u8 = 2;

/// A message's id, shown as a lower-case UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(pub [u8; 16]);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HexText::uuid(&self.0).as_str())
    }
}

impl Serialize for MessageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HexText::uuid(&self.0).as_str())
    }
}

/// A message as it is stored; decoding borrows from the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage<'a> {
    /// The message's id.
    pub id: MessageId,
    /// Who sent it.
    pub sender_id: Cow<'a, str>,
    /// Its message group.
    pub message_group: Option<Cow<'a, str>>,
    /// Its deduplication id, given or derived.
    pub deduplication_id: Option<Cow<'a, str>>,
    /// Its trace header.
    pub trace_header: Option<Cow<'a, str>>,
    /// Its body.
    pub body: Cow<'a, str>,
    /// The client's attributes.
    pub attributes: MessageAttributes<'a>,
}

/// Why bytes are no stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by a later program.
    #[error("stored message has version {0}, newest known is {VERSION}")]
    UnknownVersion(u8),
    /// The bytes end too early.
    #[error("stored message ends early")]
    Truncated,
    /// The bytes go on after the end.
    #[error("stored message has {0} bytes too many")]
    TooLong(usize),
    /// A text is not UTF-8.
    #[error("stored message has text that is not UTF-8")]
    NotUtf8,
    /// A flag or kind that version 1 does not have.
    #[error("stored message has unknown tag {0}")]
    UnknownTag(u8),
    /// An attribute's name occurs twice.
    #[error("stored message has an attribute name twice")]
    RepeatedAttribute,
}

impl<'a> StoredMessage<'a> {
    /// The bytes to store.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        out.push(VERSION);
        out.extend_from_slice(&self.id.0);
        out.push(self.flags());
        put(&mut out, self.sender_id.as_bytes());
        for text in self.optional_texts().into_iter().flatten() {
            put(&mut out, text.as_bytes());
        }
        let count = u8::try_from(self.attributes.len());
        out.push(count.expect("a message has at most ten attributes"));
        for attribute in self.attributes.iter() {
            put(&mut out, attribute.name.as_bytes());
            put(&mut out, attribute.data_type.as_bytes());
            out.push(match attribute.value {
                AttributeValue::Text(_) => TEXT_KIND,
                AttributeValue::Binary(_) => BINARY_KIND,
            });
            put(&mut out, attribute.value.as_bytes());
        }
        put(&mut out, self.body.as_bytes());
        debug_assert_eq!(out.len(), self.encoded_len());
        out
    }

    /// How many bytes [`StoredMessage::encode`] makes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        const TEXT_OVERHEAD: usize = 4;
        let optional = self.optional_texts().into_iter().flatten();
        let optional: usize = optional.map(|text| TEXT_OVERHEAD + text.len()).sum();
        let per_attribute = 3 * TEXT_OVERHEAD + 1;
        1 + 16
            + 1
            + TEXT_OVERHEAD
            + self.sender_id.len()
            + optional
            + 1
            + self.attributes.len() * per_attribute
            + self.attributes.size_bytes()
            + TEXT_OVERHEAD
            + self.body.len()
    }

    /// Reads what [`StoredMessage::encode`] wrote; never panics on other bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader { rest: bytes };
        let version = reader.byte()?;
        if version != VERSION {
            return Err(DecodeError::UnknownVersion(version));
        }
        let id = MessageId(reader.array()?);
        let flags = reader.byte()?;
        if flags & !KNOWN_FLAGS != 0 {
            return Err(DecodeError::UnknownTag(flags));
        }
        let sender_id = reader.text()?;
        let mut optional = |flag: u8| (flags & flag != 0).then(|| reader.text()).transpose();
        let message_group = optional(HAS_MESSAGE_GROUP)?;
        let deduplication_id = optional(HAS_DEDUPLICATION_ID)?;
        let trace_header = optional(HAS_TRACE_HEADER)?;
        let count = reader.byte()?;
        let attributes = (0..count)
            .map(|_| reader.attribute())
            .collect::<Result<Vec<_>, _>>()?;
        let attributes =
            MessageAttributes::try_new(attributes).ok_or(DecodeError::RepeatedAttribute)?;
        let body = reader.text()?;
        match reader.rest.len() {
            0 => Ok(Self {
                id,
                sender_id,
                message_group,
                deduplication_id,
                trace_header,
                body,
                attributes,
            }),
            left => Err(DecodeError::TooLong(left)),
        }
    }

    fn optional_texts(&self) -> [Option<&str>; 3] {
        [
            self.message_group.as_deref(),
            self.deduplication_id.as_deref(),
            self.trace_header.as_deref(),
        ]
    }

    fn flags(&self) -> u8 {
        let bits = [HAS_MESSAGE_GROUP, HAS_DEDUPLICATION_ID, HAS_TRACE_HEADER];
        let texts = self.optional_texts().into_iter().zip(bits);
        texts
            .filter(|(text, _)| text.is_some())
            .fold(0, |flags, (_, bit)| flags | bit)
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("a request is far smaller than 4 GiB");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = u32::from_le_bytes(self.array()?);
        self.take(usize::try_from(length).map_err(|_| DecodeError::Truncated)?)
    }

    fn text(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::NotUtf8)?;
        Ok(Cow::Borrowed(text))
    }

    fn attribute(&mut self) -> Result<MessageAttribute<'a>, DecodeError> {
        let name = self.text()?;
        let data_type = self.text()?;
        let value = match self.byte()? {
            TEXT_KIND => AttributeValue::Text(self.text()?),
            BINARY_KIND => AttributeValue::Binary(Cow::Borrowed(self.bytes()?)),
            kind => return Err(DecodeError::UnknownTag(kind)),
        };
        Ok(MessageAttribute {
            name,
            data_type,
            value,
        })
    }
}

#[cfg(test)]
mod tests;
