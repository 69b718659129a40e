//! Reads the request structs from the parameters of a form.
//!
//! A struct's members are looked up by their names in the Query dialect, so what no struct asks for
//! is ignored, and how deep a form can nest is for the structs to say. The entries of a list are
//! numbered from 1; gaps mean nothing. AWS's guide also leaves out the number of a single one, as in
//! `AttributeName=All`, and SDKs write an empty list as `AttributeName=`.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::form::{Form, Parameter};
use super::names::{QueryName, Shape, query_name};
use crate::action::Action;
use crate::error::{ErrorCode, SqsError};
use crate::wire::MAX_ITEMS;

/// Reads the members of an action's request.
pub(crate) fn from_form<'f, T: Deserialize<'f>>(
    action: Action,
    form: &'f Form<'f>,
) -> Result<T, SqsError> {
    let node = Node {
        action,
        name: QueryName::single(action.name()),
        value: None,
        below: form.parameters(),
        offset: 0,
    };
    T::deserialize(node).map_err(|refused| refused.error)
}

/// Why a form is refused, and whether the text says which parameter is wrong.
#[derive(Debug)]
struct Refused {
    error: SqsError,
    named: bool,
}

impl Refused {
    fn missing(parameter: &str) -> Self {
        Self {
            error: SqsError::missing_parameter(parameter),
            named: true,
        }
    }

    fn index(parameter: &str) -> Self {
        let message =
            format!("The parameter {parameter} has no list index between 1 and {MAX_ITEMS}.");
        Self {
            error: SqsError::new(ErrorCode::InvalidParameterValue, message),
            named: true,
        }
    }

    fn of(self, parameter: &str) -> Self {
        if self.named {
            return self;
        }
        let message = format!(
            "The parameter {parameter} is invalid: {}.",
            self.error.message
        );
        Self {
            error: SqsError::new(self.error.code, message),
            named: true,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refused {}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            error: SqsError::new(ErrorCode::InvalidParameterValue, message.to_string()),
            named: false,
        }
    }
}

/// A place in the tree of names: the parameter of that very name, and those below it.
#[derive(Clone, Copy)]
struct Node<'f> {
    action: Action,
    name: QueryName<'f>,
    value: Option<&'f str>,
    below: &'f [Parameter<'f>],
    /// Where in the names of `below` begins what follows this node's own name.
    offset: usize,
}

impl<'f> Node<'f> {
    /// What follows this node's name in that of a parameter below it.
    fn rest<'p>(&self, parameter: &'p Parameter<'_>) -> &'p str {
        &parameter.name[self.offset..]
    }

    /// The node of this name under this one.
    fn child(&self, name: QueryName<'f>) -> Self {
        let text = name.name;
        let at = self.below.partition_point(|p| self.rest(p) < text);
        let exact = self.below.get(at).filter(|p| self.rest(p) == text);
        // Names like `Tag-1` stand between `Tag` and `Tag.1`.
        let from = self.below.partition_point(|p| {
            let rest = self.rest(p);
            match rest.strip_prefix(text) {
                Some(after) => after.bytes().next().is_none_or(|first| first < b'.'),
                None => rest < text,
            }
        });
        let below = &self.below[from..];
        let to = below.partition_point(|p| {
            let after = self.rest(p).strip_prefix(text);
            after.is_some_and(|after| after.starts_with('.'))
        });
        Self {
            action: self.action,
            name,
            value: exact.map(|parameter| &*parameter.value),
            below: &below[..to],
            offset: self.offset + text.len() + 1,
        }
    }

    /// Whether a request has this member.
    fn is_present(&self) -> bool {
        match self.name.shape {
            Shape::Single => self.value.is_some(),
            Shape::List | Shape::Map { .. } => self.value.is_some() || !self.below.is_empty(),
        }
    }

    /// The numbered nodes under this one, in the order of their numbers.
    fn numbered(&self) -> Result<Vec<Self>, Refused> {
        let mut found: Vec<(usize, &'f str)> = Vec::new();
        for parameter in self.below {
            let segment = self.rest(parameter).split('.').next().unwrap_or_default();
            if found.last().is_some_and(|(_, last)| *last == segment) {
                continue;
            }
            let index = parse_index(segment).ok_or_else(|| Refused::index(&parameter.name))?;
            found.push((index, segment));
        }
        found.sort_unstable();
        found.dedup();
        let node = |(_, segment)| self.child(QueryName::single(segment));
        Ok(found.into_iter().map(node).collect())
    }

    /// The items of a list: one without a number first.
    fn items(&self) -> Result<Vec<Self>, Refused> {
        let mut items = self.numbered()?;
        if self.value.is_some_and(|value| !value.is_empty()) {
            let name = QueryName::single(self.name.name);
            items.insert(0, Self { name, ..*self });
        }
        Ok(items)
    }

    /// The entries of a map: several with numbers, or one without.
    fn entries(&self, key: &'static str) -> Result<Vec<Self>, Refused> {
        let numbered = |p| {
            self.rest(p)
                .starts_with(|first: char| first.is_ascii_digit())
        };
        let has_key = self.child(QueryName::single(key)).value.is_some();
        if has_key && !self.below.iter().any(numbered) {
            return Ok(vec![*self]);
        }
        self.numbered()
    }
}

/// An index as SDKs write it: digits without a leading zero.
fn parse_index(segment: &str) -> Option<usize> {
    let digits = segment.bytes().all(|byte| byte.is_ascii_digit()) && !segment.starts_with('0');
    let index = segment.parse().ok().filter(|_| digits);
    index.filter(|index| (1..=MAX_ITEMS).contains(index))
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.name.shape {
            Shape::Single => match self.value {
                Some(value) => visitor.visit_borrowed_str(value),
                None => Err(serde::de::Error::custom("a value is missing")),
            },
            Shape::List => visitor.visit_seq(ListAccess(self.items()?.into_iter())),
            Shape::Map { key, value } => visitor.visit_map(EntryAccess {
                list: self.name.name,
                key,
                value,
                entries: self.entries(key)?.into_iter(),
                current: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_map(MemberAccess {
            node: self,
            fields: fields.iter(),
            current: None,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The members of a struct that the form has.
struct MemberAccess<'f> {
    node: Node<'f>,
    fields: std::slice::Iter<'static, &'static str>,
    current: Option<Node<'f>>,
}

impl<'f> MapAccess<'f> for MemberAccess<'f> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'f>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        for field in self.fields.by_ref() {
            let member = self.node.child(query_name(self.node.action, field));
            if member.is_present() {
                self.current = Some(member);
                return seed
                    .deserialize(BorrowedStrDeserializer::new(field))
                    .map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'f>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let member = self.current.take().expect("a value follows its key");
        seed.deserialize(member)
            .map_err(|refused| refused.of(member.name.name))
    }
}

/// The items of a list.
struct ListAccess<'f>(std::vec::IntoIter<Node<'f>>);

impl<'f> SeqAccess<'f> for ListAccess<'f> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'f>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        self.0.next().map(|item| seed.deserialize(item)).transpose()
    }
}

/// The entries of a map.
struct EntryAccess<'f> {
    list: &'f str,
    key: &'static str,
    value: &'static str,
    entries: std::vec::IntoIter<Node<'f>>,
    current: Option<Node<'f>>,
}

impl<'f> EntryAccess<'f> {
    /// A key or value of an entry; one that is missing is named as clients write it.
    fn part<S: DeserializeSeed<'f>>(
        &self,
        entry: &Node<'f>,
        name: &'static str,
        seed: S,
    ) -> Result<S::Value, Refused> {
        let part = entry.child(QueryName::single(name));
        if part.value.is_some() || !part.below.is_empty() {
            return seed.deserialize(part);
        }
        let index = entry.name.name;
        let missing = if index == self.list {
            format!("{index}.{name}")
        } else {
            format!("{}.{index}.{name}", self.list)
        };
        Err(Refused::missing(&missing))
    }
}

impl<'f> MapAccess<'f> for EntryAccess<'f> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'f>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        self.current = self.entries.next();
        self.current
            .map(|entry| self.part(&entry, self.key, seed))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'f>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let entry = self.current.take().expect("a value follows its key");
        self.part(&entry, self.value, seed)
    }
}
