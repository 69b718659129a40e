//! The attributes that clients put on messages, and the one system attribute they may set.
//!
//! Invariant: [`MessageAttributes`] are sorted by name and no name occurs twice.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::body::first_forbidden;
use super::wire::WireAttributeValue;
use crate::error::{ErrorCode, SqsError};
use crate::wire::{Members, Text};

/// The most attributes of a message.
const MAX_ATTRIBUTES: usize = 10;
/// The longest name and the longest data type of an attribute, in characters.
const MAX_NAME: usize = 256;
/// The most significant digits of a number.
const MAX_NUMBER_DIGITS: usize = 38;
/// The smallest and the largest power of ten of a number's first digit.
const NUMBER_EXPONENTS: std::ops::RangeInclusive<i64> = -128..=126;

/// The system attribute that a client may set.
pub(crate) const TRACE_HEADER: &str = "AWSTraceHeader";

/// One attribute of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageAttribute<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// `String`, `Number` or `Binary`, perhaps with a suffix of the client's after a dot.
    pub data_type: Cow<'a, str>,
    /// Its value.
    pub value: AttributeValue<'a>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// Of the types `String` and `Number`.
    Text(Cow<'a, str>),
    /// Of the type `Binary`.
    Binary(Cow<'a, [u8]>),
}

impl AttributeValue<'_> {
    /// The value's bytes: raw ones of a binary, UTF-8 of a text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

/// The attributes of a message, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageAttributes<'a>(Vec<MessageAttribute<'a>>);

impl<'a> MessageAttributes<'a> {
    /// Attributes in any order, if no name occurs twice.
    #[must_use]
    pub fn try_new(mut attributes: Vec<MessageAttribute<'a>>) -> Option<Self> {
        attributes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let distinct = attributes
            .windows(2)
            .all(|pair| pair[0].name != pair[1].name);
        distinct.then_some(Self(attributes))
    }

    pub(crate) fn parse(
        members: &'a Members<'a, WireAttributeValue<'a>>,
    ) -> Result<Self, SqsError> {
        let count = members.0.len();
        if count > MAX_ATTRIBUTES {
            return Err(invalid(format!(
                "Number of message attributes [{count}] exceeds the allowed maximum \
                 [{MAX_ATTRIBUTES}]."
            )));
        }
        let parsed = members
            .0
            .iter()
            .map(|(name, value)| parse_attribute(name, value));
        let attributes = parsed.collect::<Result<Vec<_>, _>>()?;
        Ok(Self::try_new(attributes).expect("the keys of a request's map are distinct"))
    }

    /// The attributes, sorted by name.
    pub fn iter(&self) -> std::slice::Iter<'_, MessageAttribute<'a>> {
        self.0.iter()
    }

    pub(crate) fn into_vec(self) -> Vec<MessageAttribute<'a>> {
        self.0
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The size that counts against limits: names, data types and values.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let size = |attribute: &MessageAttribute<'_>| {
            attribute.name.len() + attribute.data_type.len() + attribute.value.as_bytes().len()
        };
        self.0.iter().map(size).sum()
    }
}

fn invalid(message: String) -> SqsError {
    SqsError::new(ErrorCode::InvalidParameterValue, message)
}

fn parse_attribute<'a>(
    name: &'a str,
    value: &'a WireAttributeValue<'a>,
) -> Result<MessageAttribute<'a>, SqsError> {
    check_name(name)?;
    let data_type = value.data_type.as_deref().unwrap_or_default();
    let base = data_type.split('.').next().unwrap_or_default();
    if data_type.is_empty() {
        let message =
            format!("Message (user) attribute '{name}' must contain a non-empty attribute type.");
        return Err(invalid(message));
    }
    if !matches!(base, "String" | "Number" | "Binary") || !is_type_text(data_type) {
        return Err(invalid(format!(
            "The type of message (user) attribute '{name}' is invalid. You must use only the \
             following supported type prefixes: Binary, Number, String."
        )));
    }
    let value = if base == "Binary" {
        parse_binary(name, data_type, value.binary_value.as_ref())?
    } else {
        parse_text(
            name,
            data_type,
            value.string_value.as_ref(),
            base == "Number",
        )?
    };
    Ok(MessageAttribute {
        name: name.into(),
        data_type: data_type.into(),
        value,
    })
}

fn check_name(name: &str) -> Result<(), SqsError> {
    let lower = name.to_ascii_lowercase();
    let refuse = |what: &str| Err(invalid(format!("Message (user) attribute name {what}")));
    if name.is_empty() {
        return refuse("must not be empty.");
    }
    if name.chars().count() > MAX_NAME {
        return refuse("can be at most 256 characters long.");
    }
    if lower.starts_with("aws.") || lower.starts_with("amazon.") {
        return refuse(&format!(
            "'{name}' must not start with a reserved prefix: AWS., Amazon."
        ));
    }
    if name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        return refuse(&format!(
            "'{name}' must not start or end with a dot or repeat dots."
        ));
    }
    if !name
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
    {
        return refuse(&format!(
            "'{name}' can only include alphanumeric characters, hyphens, underscores, or dots."
        ));
    }
    Ok(())
}

fn is_type_text(data_type: &str) -> bool {
    data_type.chars().count() <= MAX_NAME && first_forbidden(data_type).is_none()
}

fn missing_value(name: &str, data_type: &str) -> SqsError {
    invalid(format!(
        "Message (user) attribute '{name}' must contain a non-empty value of type '{data_type}'."
    ))
}

fn parse_text<'a>(
    name: &str,
    data_type: &str,
    value: Option<&'a Text<'a>>,
    number: bool,
) -> Result<AttributeValue<'a>, SqsError> {
    let Some(text) = value.filter(|text| !text.is_empty()) else {
        return Err(missing_value(name, data_type));
    };
    if let Some(found) = first_forbidden(text) {
        return Err(invalid(format!(
            "Invalid binary character '#x{:X}' was found in the value of message (user) attribute \
             '{name}'.",
            u32::from(found)
        )));
    }
    if number && !is_number(text) {
        let message =
            format!("Can't cast the value of message (user) attribute '{name}' to a number.");
        return Err(invalid(message));
    }
    Ok(AttributeValue::Text(Cow::Borrowed(text)))
}

fn parse_binary<'a>(
    name: &str,
    data_type: &str,
    value: Option<&Text<'_>>,
) -> Result<AttributeValue<'a>, SqsError> {
    let text = value.map_or("", |text| &text.0);
    let bytes = BASE64_STANDARD.decode(text).map_err(|_| {
        let message = format!("the binary value of attribute '{name}' is not valid base64");
        SqsError::new(ErrorCode::Serialization, message)
    })?;
    if bytes.is_empty() {
        return Err(missing_value(name, data_type));
    }
    Ok(AttributeValue::Binary(Cow::Owned(bytes)))
}

/// Whether the text is a decimal number that AWS takes: 38 digits, 10^-128 to 10^126.
///
/// It is kept as it was sent. AWS's guide has zeros trimmed, and no recorded answer shows it
/// (SQS-CONTRACT section 12); a client that checks the digest of what it sent must find it.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()),
        None => (unsigned, Some(0)),
    };
    let Some(exponent) = exponent else {
        return false;
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().count() == 0 || !digits().all(|digit| digit.is_ascii_digit()) {
        return false;
    }
    let Some(first) = digits().position(|digit| digit != b'0') else {
        return true;
    };
    let last = digits()
        .enumerate()
        .filter(|(_, digit)| *digit != b'0')
        .last();
    let significant = last.map_or(0, |(last, _)| last + 1 - first);
    let position = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let power = i64::from(exponent) + position(whole.len()) - 1 - position(first);
    significant <= MAX_NUMBER_DIGITS && NUMBER_EXPONENTS.contains(&power)
}

/// Tracing data of AWS X-Ray, carried along unread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceHeader<'a>(pub(crate) Cow<'a, str>);

impl<'a> TraceHeader<'a> {
    /// The header `X-Amzn-Trace-Id` of the request that brought the message.
    pub(crate) fn of_request(header: &'a str) -> Self {
        Self(Cow::Borrowed(header))
    }

    pub(crate) fn parse(
        members: &'a Members<'a, WireAttributeValue<'a>>,
    ) -> Result<Option<Self>, SqsError> {
        let mut trace = None;
        for (name, value) in &members.0 {
            if &**name != TRACE_HEADER {
                return Err(invalid(format!(
                    "Message system attribute name '{}' is invalid.",
                    &**name
                )));
            }
            if value.data_type.as_deref() != Some("String") {
                return Err(invalid(format!(
                    "The type of message system attribute '{TRACE_HEADER}' is invalid. You must \
                     use only the following supported type prefixes: String."
                )));
            }
            let text = value
                .string_value
                .as_deref()
                .filter(|text| !text.is_empty());
            let Some(text) = text.filter(|text| first_forbidden(text).is_none()) else {
                return Err(invalid(format!(
                    "Message system attribute '{TRACE_HEADER}' must contain a non-empty value of \
                     type 'String'."
                )));
            };
            trace = Some(Self(Cow::Borrowed(text)));
        }
        Ok(trace)
    }

    /// The header as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form in which it is digested.
    pub(crate) fn as_attribute(&self) -> MessageAttribute<'_> {
        MessageAttribute {
            name: TRACE_HEADER.into(),
            data_type: "String".into(),
            value: AttributeValue::Text(Cow::Borrowed(&self.0)),
        }
    }
}

#[cfg(test)]
mod tests;
