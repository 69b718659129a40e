//! What a receive may ask about a message: system attributes by name, client's attributes by pattern.

use super::attributes::{MessageAttribute, MessageAttributes};

/// What the queue tells about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are AWS's own and say what they are")]
pub enum SystemAttribute {
    SenderId,
    SentTimestamp,
    ApproximateReceiveCount,
    ApproximateFirstReceiveTimestamp,
    SequenceNumber,
    MessageDeduplicationId,
    MessageGroupId,
    AwsTraceHeader,
    DeadLetterQueueSourceArn,
}

impl SystemAttribute {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::SenderId,
        Self::SentTimestamp,
        Self::ApproximateReceiveCount,
        Self::ApproximateFirstReceiveTimestamp,
        Self::SequenceNumber,
        Self::MessageDeduplicationId,
        Self::MessageGroupId,
        Self::AwsTraceHeader,
        Self::DeadLetterQueueSourceArn,
    ];

    /// The name as clients write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SenderId => "SenderId",
            Self::SentTimestamp => "SentTimestamp",
            Self::ApproximateReceiveCount => "ApproximateReceiveCount",
            Self::ApproximateFirstReceiveTimestamp => "ApproximateFirstReceiveTimestamp",
            Self::SequenceNumber => "SequenceNumber",
            Self::MessageDeduplicationId => "MessageDeduplicationId",
            Self::MessageGroupId => "MessageGroupId",
            Self::AwsTraceHeader => super::attributes::TRACE_HEADER,
            Self::DeadLetterQueueSourceArn => "DeadLetterQueueSourceArn",
        }
    }
}

/// The system attributes that a receive asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct SystemAttributes(Vec<SystemAttribute>);

impl SystemAttributes {
    /// Parses the names of a request; unknown ones are ignored, as on AWS.
    pub(crate) fn parse<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let mut asked = [false; SystemAttribute::ALL.len()];
        for name in names {
            if name == "All" {
                return Self(SystemAttribute::ALL.to_vec());
            }
            let known = SystemAttribute::ALL
                .iter()
                .position(|known| known.as_str() == name);
            if let Some(position) = known {
                asked[position] = true;
            }
        }
        let asked = SystemAttribute::ALL.into_iter().zip(asked);
        Self(
            asked
                .filter(|(_, asked)| *asked)
                .map(|(name, _)| name)
                .collect(),
        )
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = SystemAttribute> {
        self.0.iter().copied()
    }
}

/// The names and patterns of client's attributes that a receive asked for.
#[derive(Clone, Debug)]
pub(crate) enum AttributeFilter<'a> {
    All,
    Some {
        names: Vec<&'a str>,
        prefixes: Vec<&'a str>,
    },
}

impl<'a> AttributeFilter<'a> {
    /// Parses the names of a request; those that fit no attribute are no fault.
    pub(crate) fn parse(patterns: impl Iterator<Item = &'a str>) -> Self {
        let (mut names, mut prefixes) = (Vec::new(), Vec::new());
        for pattern in patterns {
            if matches!(pattern, "All" | ".*" | "*") {
                return Self::All;
            }
            match pattern.strip_suffix(".*") {
                Some(prefix) => prefixes.push(prefix),
                None => names.push(pattern),
            }
        }
        Self::Some { names, prefixes }
    }

    /// The attributes that were asked for, still sorted by name.
    pub(crate) fn select<'m>(
        &self,
        attributes: MessageAttributes<'m>,
    ) -> Vec<MessageAttribute<'m>> {
        let mut attributes = attributes.into_vec();
        if let Self::Some { names, prefixes } = self {
            attributes.retain(|attribute| {
                let name = &*attribute.name;
                names.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
            });
        }
        attributes
    }
}

/// How the attributes of a received message are written in JSON: maps by name.
pub(crate) mod as_map {
    use std::borrow::Cow;

    use base64::display::Base64Display;
    use base64::engine::general_purpose::STANDARD;
    use serde::ser::{SerializeMap, SerializeStruct};
    use serde::{Serialize, Serializer};

    use super::SystemAttribute;
    use crate::message::attributes::{AttributeValue, MessageAttribute};

    pub(crate) fn system_attributes<S: Serializer>(
        attributes: &[(SystemAttribute, Cow<'_, str>)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(attributes.len()))?;
        for (name, value) in attributes {
            map.serialize_entry(name.as_str(), value)?;
        }
        map.end()
    }

    pub(crate) fn message_attributes<S: Serializer>(
        attributes: &[MessageAttribute<'_>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(attributes.len()))?;
        for attribute in attributes {
            map.serialize_entry(&attribute.name, &TypedValue(attribute))?;
        }
        map.end()
    }

    struct TypedValue<'a>(&'a MessageAttribute<'a>);

    impl Serialize for TypedValue<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut value = serializer.serialize_struct("MessageAttributeValue", 2)?;
            match &self.0.value {
                AttributeValue::Text(text) => value.serialize_field("StringValue", text)?,
                AttributeValue::Binary(bytes) => {
                    value.serialize_field("BinaryValue", &Base64(bytes))?;
                }
            }
            value.serialize_field("DataType", &self.0.data_type)?;
            value.end()
        }
    }

    struct Base64<'a>(&'a [u8]);

    impl Serialize for Base64<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(&Base64Display::new(self.0, &STANDARD))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AttributeFilter, SystemAttribute, SystemAttributes};
    use crate::message::attributes::{AttributeValue, MessageAttribute, MessageAttributes};

    fn selected(patterns: &[&str]) -> Vec<String> {
        let attribute = |name: &'static str| MessageAttribute {
            name: name.into(),
            data_type: "String".into(),
            value: AttributeValue::Text("v".into()),
        };
        let stored = ["foo", "foo.a", "foobar", "bar"].map(attribute).to_vec();
        let stored = MessageAttributes::try_new(stored).unwrap();
        let filter = AttributeFilter::parse(patterns.iter().copied());
        filter
            .select(stored)
            .into_iter()
            .map(|attribute| attribute.name.into_owned())
            .collect()
    }

    #[test]
    fn nothing_asked_is_nothing_returned() {
        assert!(selected(&[]).is_empty());
        assert!(selected(&["unknown", "", "Foo"]).is_empty());
    }

    #[test]
    fn three_patterns_mean_all() {
        for pattern in ["All", ".*", "*"] {
            assert_eq!(
                selected(&["unknown", pattern]),
                ["bar", "foo", "foo.a", "foobar"]
            );
        }
    }

    #[test]
    fn a_pattern_is_a_prefix_and_a_name_is_a_name() {
        assert_eq!(selected(&["foo.*"]), ["foo", "foo.a", "foobar"]);
        assert_eq!(selected(&["foo"]), ["foo"]);
        assert_eq!(selected(&["bar", "foo.a"]), ["bar", "foo.a"]);
    }

    #[test]
    fn unknown_system_attributes_are_ignored() {
        let parse = |names: &[&str]| {
            SystemAttributes::parse(names.iter().copied())
                .iter()
                .collect::<Vec<_>>()
        };
        assert!(parse(&["nonsense"]).is_empty());
        assert_eq!(
            parse(&["SentTimestamp", "nonsense", "SenderId", "SenderId"]),
            [SystemAttribute::SenderId, SystemAttribute::SentTimestamp]
        );
        assert_eq!(parse(&["SenderId", "All"]), SystemAttribute::ALL);
    }
}
