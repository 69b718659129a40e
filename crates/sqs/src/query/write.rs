//! Writes the answer structs as XML: a struct is an element with its members inside, lists and maps
//! are flattened as `names` says.
//!
//! Characters that XML cannot carry do not occur in bodies and attributes, which are checked when
//! they are sent; texts of errors repeat what a client sent, and there they are replaced.

use std::fmt;

use serde::ser::{Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, Serializer};

use super::names::{QueryName, Shape, query_name};
use crate::action::Action;

/// The XML of an action's answer inside `<XResponse>`: `<XResult>` with what the answer has.
pub(crate) fn to_xml<T: Serialize>(action: Action, answer: &T, out: &mut Vec<u8>) {
    let name = format!("{}Result", action.name());
    let element = Element {
        action,
        name: QueryName::single(&name),
        out,
    };
    answer
        .serialize(element)
        .expect("answers are structs of texts, lists and maps");
}

/// Writes `<name>text</name>`.
pub(super) fn text_element(name: &str, text: &str, out: &mut Vec<u8>) {
    let begun = open(name, out);
    escape(text, out);
    close(name, begun, out);
}

/// Writes a start tag; where its content begins.
pub(super) fn open(name: &str, out: &mut Vec<u8>) -> usize {
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
    out.len()
}

/// Writes the end tag, or makes the start tag that of an empty element.
pub(super) fn close(name: &str, begun: usize, out: &mut Vec<u8>) {
    if out.len() == begun {
        out.truncate(begun - 1);
        out.extend_from_slice(b"/>");
        return;
    }
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

/// Writes text so that it reads back: AWS also writes quotes as entities, and a bare carriage return
/// would be read as a line feed.
pub(super) fn escape(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(position) = rest.find(is_special) {
        let (plain, special) = rest.split_at(position);
        out.extend_from_slice(plain.as_bytes());
        let mut characters = special.chars();
        let written = match characters.next() {
            Some('&') => "&amp;",
            Some('<') => "&lt;",
            Some('>') => "&gt;",
            Some('"') => "&quot;",
            Some('\r') => "&#xD;",
            _ => "\u{fffd}",
        };
        out.extend_from_slice(written.as_bytes());
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

fn is_special(character: char) -> bool {
    match character {
        '&' | '<' | '>' | '"' | '\r' => true,
        '\t' | '\n' => false,
        '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => true,
        _ => false,
    }
}

/// A value of a kind that no answer has.
#[derive(Debug, thiserror::Error)]
#[error("answers have no values of this kind: {0}")]
struct Unwritable(String);

impl serde::ser::Error for Unwritable {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

fn unwritable<T>(kind: &str) -> Result<T, Unwritable> {
    Err(Unwritable(kind.to_owned()))
}

/// Where a value is written, and under which name.
struct Element<'n, 'o> {
    action: Action,
    name: QueryName<'n>,
    out: &'o mut Vec<u8>,
}

impl<'n> Element<'n, '_> {
    /// The element of this name, at the same place.
    fn named<'m>(&mut self, name: QueryName<'m>) -> Element<'m, '_> {
        Element {
            action: self.action,
            name,
            out: self.out,
        }
    }
}

/// A struct, a list or a map under way; lists and maps have no element of their own.
struct Compound<'n, 'o> {
    element: Element<'n, 'o>,
    begun: usize,
}

impl<'n, 'o> Serializer for Element<'n, 'o> {
    type Ok = ();
    type Error = Unwritable;
    type SerializeSeq = Compound<'n, 'o>;
    type SerializeTuple = Impossible<(), Unwritable>;
    type SerializeTupleStruct = Impossible<(), Unwritable>;
    type SerializeTupleVariant = Impossible<(), Unwritable>;
    type SerializeMap = Compound<'n, 'o>;
    type SerializeStruct = Compound<'n, 'o>;
    type SerializeStructVariant = Impossible<(), Unwritable>;

    fn serialize_str(self, text: &str) -> Result<(), Unwritable> {
        text_element(self.name.name, text, self.out);
        Ok(())
    }

    fn serialize_bool(self, value: bool) -> Result<(), Unwritable> {
        self.serialize_str(if value { "true" } else { "false" })
    }

    fn serialize_u64(self, number: u64) -> Result<(), Unwritable> {
        self.serialize_str(&number.to_string())
    }

    fn serialize_u32(self, number: u32) -> Result<(), Unwritable> {
        self.serialize_u64(number.into())
    }

    fn serialize_none(self) -> Result<(), Unwritable> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_struct(
        self,
        _name: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStruct, Unwritable> {
        let begun = open(self.name.name, self.out);
        Ok(Compound {
            element: self,
            begun,
        })
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Self::SerializeSeq, Unwritable> {
        let begun = self.out.len();
        Ok(Compound {
            element: self,
            begun,
        })
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap, Unwritable> {
        self.serialize_seq(length)
    }

    fn serialize_i8(self, _value: i8) -> Result<(), Unwritable> {
        unwritable("i8")
    }

    fn serialize_i16(self, _value: i16) -> Result<(), Unwritable> {
        unwritable("i16")
    }

    fn serialize_i32(self, _value: i32) -> Result<(), Unwritable> {
        unwritable("i32")
    }

    fn serialize_i64(self, _value: i64) -> Result<(), Unwritable> {
        unwritable("i64")
    }

    fn serialize_u8(self, _value: u8) -> Result<(), Unwritable> {
        unwritable("u8")
    }

    fn serialize_u16(self, _value: u16) -> Result<(), Unwritable> {
        unwritable("u16")
    }

    fn serialize_f32(self, _value: f32) -> Result<(), Unwritable> {
        unwritable("f32")
    }

    fn serialize_f64(self, _value: f64) -> Result<(), Unwritable> {
        unwritable("f64")
    }

    fn serialize_char(self, _value: char) -> Result<(), Unwritable> {
        unwritable("char")
    }

    fn serialize_bytes(self, _value: &[u8]) -> Result<(), Unwritable> {
        unwritable("bytes")
    }

    fn serialize_unit(self) -> Result<(), Unwritable> {
        unwritable("unit")
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<(), Unwritable> {
        unwritable(name)
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
    ) -> Result<(), Unwritable> {
        unwritable(name)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<(), Unwritable> {
        unwritable(name)
    }

    fn serialize_tuple(self, _length: usize) -> Result<Self::SerializeTuple, Unwritable> {
        unwritable("tuple")
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleStruct, Unwritable> {
        unwritable(name)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleVariant, Unwritable> {
        unwritable(name)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStructVariant, Unwritable> {
        unwritable(name)
    }
}

impl SerializeStruct for Compound<'_, '_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        member: &'static str,
        value: &T,
    ) -> Result<(), Unwritable> {
        let name = query_name(self.element.action, member);
        value.serialize(self.element.named(name))
    }

    fn end(self) -> Result<(), Unwritable> {
        close(self.element.name.name, self.begun, self.element.out);
        Ok(())
    }
}

impl SerializeSeq for Compound<'_, '_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Unwritable> {
        let name = QueryName::single(self.element.name.name);
        item.serialize(self.element.named(name))
    }

    fn end(self) -> Result<(), Unwritable> {
        Ok(())
    }
}

impl SerializeMap for Compound<'_, '_> {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unwritable> {
        let Shape::Map { key: name, .. } = self.element.name.shape else {
            return unwritable("a map that the table of names does not know");
        };
        self.begun = open(self.element.name.name, self.element.out);
        key.serialize(self.element.named(QueryName::single(name)))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        let Shape::Map { value: name, .. } = self.element.name.shape else {
            return unwritable("a map that the table of names does not know");
        };
        value.serialize(self.element.named(QueryName::single(name)))?;
        close(self.element.name.name, self.begun, self.element.out);
        Ok(())
    }

    fn end(self) -> Result<(), Unwritable> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{escape, text_element};

    #[test]
    fn texts_are_escaped() {
        for (text, written) in [
            ("plain é", "plain é"),
            ("a<b>&\"c\"'", "a&lt;b&gt;&amp;&quot;c&quot;'"),
            ("\r\n\t", "&#xD;\n\t"),
            ("\u{1}\u{ffff}x", "\u{fffd}\u{fffd}x"),
            ("", ""),
        ] {
            let mut out = Vec::new();
            escape(text, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), written);
        }
    }

    /// What a reader of XML makes of text without tags.
    fn unescape(written: &str) -> String {
        let text = written.replace("\r\n", "\n").replace('\r', "\n");
        let text = text.replace("&#xD;", "\r").replace("&quot;", "\"");
        let text = text.replace("&lt;", "<").replace("&gt;", ">");
        text.replace("&amp;", "&")
    }

    proptest! {
        #[test]
        fn texts_that_messages_may_have_read_back(text in "[\t\n\r -\u{d7ff}\u{e000}-\u{fffd}😀&<>\"]{0,40}") {
            let mut out = Vec::new();
            escape(&text, &mut out);
            let written = String::from_utf8(out).unwrap();
            prop_assert!(!written.contains(['<', '>', '"', '\r']));
            prop_assert_eq!(unescape(&written), text);
        }
    }

    #[test]
    fn an_element_without_content_is_one_tag() {
        let mut out = Vec::new();
        text_element("Value", "", &mut out);
        text_element("Value", "v", &mut out);
        assert_eq!(out, b"<Value/><Value>v</Value>");
    }
}
