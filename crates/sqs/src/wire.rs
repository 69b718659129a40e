//! How request bodies become structs: borrowing where the text allows it, bounded everywhere.
//!
//! Members that a struct does not know are ignored, as AWS ignores them; a member of the wrong type
//! refuses the request. Lists and maps are held as they came: order kept, length bounded, keys of a
//! map distinct, because a body of one megabyte must not unfold into a hundred of small structs.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};

use crate::error::{ErrorCode, SqsError};

/// How deep objects and lists of a request body may nest; the API needs five.
const MAX_JSON_DEPTH: usize = 32;

/// How many items a list or map of a request may have; the API's largest useful one has fifty.
pub(crate) const MAX_ITEMS: usize = 1_000;

/// Reads the JSON body of an operation.
pub(crate) fn from_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, SqsError> {
    let body = if body.is_empty() {
        b"{}".as_slice()
    } else {
        body
    };
    if json_depth(body) > MAX_JSON_DEPTH {
        let message = format!("the request body nests deeper than {MAX_JSON_DEPTH} levels");
        return Err(SqsError::new(ErrorCode::Serialization, message));
    }
    serde_json::from_slice(body).map_err(|error| {
        SqsError::new(
            ErrorCode::Serialization,
            format!("the request body is not valid: {error}"),
        )
    })
}

/// The deepest nesting of a JSON text; of something else, any number.
pub(crate) fn json_depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    deepest
}

/// Moves past the closing quote of a JSON string.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.find(|byte| matches!(byte, b'"' | b'\\')) {
        if *byte == b'"' {
            return;
        }
        bytes.next();
    }
}

/// A string of a request: borrowed from the body unless it held escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text))
            }
        }

        deserializer.deserialize_str(TextVisitor).map(Self)
    }
}

/// A list of a request; an absent one is empty.
#[derive(Clone, Debug)]
pub(crate) struct Items<T>(pub(crate) Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
            type Value = Items<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Items::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    refuse_too_many::<A::Error>(items.len())?;
                    items.push(item);
                }
                Ok(Items(items))
            }
        }

        deserializer.deserialize_any(ItemsVisitor(PhantomData))
    }
}

/// A map of a request in the order of its text; an absent one is empty.
#[derive(Clone, Debug)]
pub(crate) struct Members<'a, V>(pub(crate) Vec<(Text<'a>, V)>);

impl<V> Default for Members<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Members<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor<'a, V>(PhantomData<(&'a (), V)>);

        impl<'de: 'a, 'a, V: Deserialize<'de>> Visitor<'de> for MembersVisitor<'a, V> {
            type Value = Members<'a, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Members::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    refuse_too_many::<A::Error>(members.len())?;
                    members.push(member);
                }
                refuse_repeated_key::<A::Error, V>(&members)?;
                Ok(Members(members))
            }
        }

        deserializer.deserialize_any(MembersVisitor(PhantomData))
    }
}

fn refuse_too_many<E: serde::de::Error>(held: usize) -> Result<(), E> {
    if held < MAX_ITEMS {
        return Ok(());
    }
    Err(E::custom(format_args!("more than {MAX_ITEMS} items")))
}

fn refuse_repeated_key<E: serde::de::Error, V>(members: &[(Text<'_>, V)]) -> Result<(), E> {
    let mut keys: Vec<&str> = members.iter().map(|(key, _)| &**key).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(E::custom(format_args!("duplicate key `{}`", pair[0]))),
        None => Ok(()),
    }
}

/// An integer of a request, as a number or as its digits in a string, which AWS takes as well.
///
/// One beyond 63 bits is out of every range and kept as the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer(pub(crate) i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntegerVisitor;

        impl Visitor<'_> for IntegerVisitor {
            type Value = Integer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }

            fn visit_i64<E>(self, number: i64) -> Result<Integer, E> {
                Ok(Integer(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Integer, E> {
                Ok(Integer(i64::try_from(number).unwrap_or(i64::MAX)))
            }

            fn visit_str<E: serde::de::Error>(self, digits: &str) -> Result<Integer, E> {
                let number = digits.parse().map(Integer);
                number.map_err(|_| E::invalid_value(Unexpected::Str(digits), &self))
            }
        }

        deserializer.deserialize_any(IntegerVisitor)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{Cow, Integer, Items, Members, Text, from_json, json_depth};
    use crate::error::{ErrorCode, SqsError};

    #[derive(Debug, Deserialize)]
    struct Sample<'a> {
        #[serde(borrow)]
        text: Option<Text<'a>>,
        #[serde(borrow, default)]
        items: Items<Text<'a>>,
        #[serde(borrow, default)]
        members: Members<'a, Text<'a>>,
        number: Option<Integer>,
    }

    fn refused(body: &str) -> SqsError {
        let error = from_json::<Sample<'_>>(body.as_bytes()).unwrap_err();
        assert_eq!(error.code, ErrorCode::Serialization);
        error
    }

    #[test]
    fn borrows_plain_text_and_copies_escaped_text() {
        let plain: Sample<'_> = from_json(br#"{"text":"plain"}"#).unwrap();
        assert!(matches!(plain.text, Some(Text(Cow::Borrowed("plain")))));
        let escaped: Sample<'_> = from_json(br#"{"text":"a\nb"}"#).unwrap();
        assert_eq!(escaped.text.unwrap().0, "a\nb");
    }

    #[test]
    fn takes_absent_and_null_members_as_absent() {
        for body in [
            "",
            "{}",
            r#"{"text":null,"items":null,"members":null,"number":null}"#,
        ] {
            let sample: Sample<'_> = from_json(body.as_bytes()).unwrap();
            assert!(sample.text.is_none() && sample.number.is_none());
            assert!(sample.items.0.is_empty() && sample.members.0.is_empty());
        }
    }

    #[test]
    fn ignores_unknown_members() {
        let sample: Sample<'_> = from_json(br#"{"other":[{"deep":1}],"number":7}"#).unwrap();
        assert_eq!(sample.number, Some(Integer(7)));
    }

    #[test]
    fn refuses_wrong_types() {
        for body in [
            r#"{"text":1}"#,
            r#"{"number":"one"}"#,
            r#"{"number":""}"#,
            r#"{"number":true}"#,
            r#"{"number":1.5}"#,
            r#"{"items":{}}"#,
            r#"{"items":[1]}"#,
            r#"{"members":[]}"#,
            r#"{"members":{"a":1}}"#,
            r#"{"text":"\ud800"}"#,
            "[]",
            "7",
            "{",
            "not json",
        ] {
            refused(body);
        }
        assert!(from_json::<Sample<'_>>(b"{\"text\":\"\xff\"}").is_err());
    }

    #[test]
    fn refuses_a_key_given_twice() {
        assert!(
            refused(r#"{"members":{"a":"1","a":"2"}}"#)
                .message
                .contains("duplicate key `a`")
        );
        refused(r#"{"text":"1","text":"2"}"#);
    }

    #[test]
    fn refuses_nesting_beyond_the_limit() {
        let nested = |depth: usize| {
            format!(
                "{{\"other\":{}{}}}",
                "[".repeat(depth - 1),
                "]".repeat(depth - 1)
            )
        };
        assert!(from_json::<Sample<'_>>(nested(32).as_bytes()).is_ok());
        assert!(
            refused(&nested(33))
                .message
                .contains("nests deeper than 32")
        );
    }

    #[test]
    fn brackets_inside_strings_do_not_nest() {
        assert_eq!(json_depth(br#"{"a":"[[[\"[[","b":[1]}"#), 2);
        assert_eq!(json_depth(br#"{"a":"\\","b":[[1]]}"#), 3);
    }

    #[test]
    fn refuses_lists_beyond_the_limit() {
        let list = |length: usize| format!("{{\"items\":[{}]}}", vec!["\"\""; length].join(","));
        assert!(from_json::<Sample<'_>>(list(1_000).as_bytes()).is_ok());
        assert!(
            refused(&list(1_001))
                .message
                .contains("more than 1000 items")
        );
    }

    #[test]
    fn takes_an_integer_in_a_string() {
        let sample: Sample<'_> = from_json(br#"{"number":"-7"}"#).unwrap();
        assert_eq!(sample.number, Some(Integer(-7)));
    }

    #[test]
    fn keeps_integers_beyond_64_bits_out_of_range() {
        let sample: Sample<'_> = from_json(br#"{"number":18446744073709551615}"#).unwrap();
        assert_eq!(sample.number, Some(Integer(i64::MAX)));
    }
}
