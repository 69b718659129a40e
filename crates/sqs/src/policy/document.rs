//! Policies as they are understood: read from JSON once, and refused whole if any part is not known.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::condition::Condition;
use super::fault::PolicyFault;
use super::pattern;
use super::permitted::ActionPattern;
use super::principal::NamedPrincipals;
use super::wire::{WireDocument, WireStatement};
use crate::action::Action;
use crate::wire::json_depth;

/// The largest policy, in bytes (SQS developer guide, quotas of policies).
pub(super) const MAX_POLICY_BYTES: usize = 8_192;
/// The most statements of a policy (the same).
pub(super) const MAX_STATEMENTS: usize = 20;
/// The most actions of a statement (the same).
pub(super) const MAX_ACTIONS: usize = 7;
/// The most principals of a policy (the same).
pub(super) const MAX_PRINCIPALS: usize = 50;
/// The most conditions of a policy (the same): pairs of an operator and a key.
const MAX_CONDITIONS: usize = 10;
/// How deep the JSON may nest; a condition's values are at six.
const MAX_DEPTH: usize = 8;

/// The versions of the language. They differ in variables, which neither has here.
const VERSIONS: [&str; 2] = ["2008-10-17", "2012-10-17"];

/// What stands on a queue: who may do what to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePolicy(pub(super) Vec<Statement>);

/// What stands on an access key: what its user may do to which queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityPolicy(pub(super) Vec<Statement>);

/// Whether a statement allows or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Allow,
    Deny,
}

/// What a statement is about, or what alone it is not about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection<T> {
    pub(super) items: T,
    pub(super) inverted: bool,
}

/// A statement; it applies when all of it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) effect: Effect,
    /// On a key, its user is meant, and nobody is named.
    pub(super) principals: Option<Selection<NamedPrincipals>>,
    pub(super) actions: Selection<Vec<ActionPattern>>,
    pub(super) resources: Selection<Vec<String>>,
    pub(super) conditions: Vec<Condition>,
}

impl QueuePolicy {
    /// Reads what a client sets as a queue's policy.
    pub fn parse(text: &str) -> Result<Self, PolicyFault> {
        let statements = statements(text, |wire| {
            let named = one_of("Principal", &wire.principal, &wire.not_principal)?;
            if named.inverted && wire.effect == "Allow" {
                return Err(PolicyFault::AllowNotPrincipal);
            }
            let items = principals(named.items)?;
            let inverted = named.inverted;
            Ok(Some(Selection { items, inverted }))
        })?;
        let named = statements.iter().filter_map(|it| it.principals.as_ref());
        let found = named.map(|named| named.items.count()).sum();
        limit("Principals", found, MAX_PRINCIPALS)?;
        Ok(Self(statements))
    }
}

impl IdentityPolicy {
    /// Reads what an operator sets as an access key's policy.
    pub fn parse(text: &str) -> Result<Self, PolicyFault> {
        let statements = statements(text, |wire| match (&wire.principal, &wire.not_principal) {
            (None, None) => Ok(None),
            (Some(_), _) => Err(PolicyFault::Misplaced("Principal")),
            (None, Some(_)) => Err(PolicyFault::Misplaced("NotPrincipal")),
        })?;
        Ok(Self(statements))
    }
}

impl Selection<Vec<ActionPattern>> {
    pub(super) fn includes(&self, action: Action) -> bool {
        self.items.iter().any(|pattern| pattern.matches(action)) != self.inverted
    }
}

impl Selection<Vec<String>> {
    pub(super) fn includes(&self, resource: &str) -> bool {
        let matches = |pattern: &String| pattern::matches(pattern, resource);
        self.items.iter().any(matches) != self.inverted
    }
}

type Named = Option<Selection<NamedPrincipals>>;

fn statements(
    text: &str,
    named: impl Fn(&WireStatement) -> Result<Named, PolicyFault>,
) -> Result<Vec<Statement>, PolicyFault> {
    limit("Bytes", text.len(), MAX_POLICY_BYTES)?;
    let document = read(text)?;
    if let Some(version) = document.version.filter(|it| !VERSIONS.contains(&&**it)) {
        return Err(PolicyFault::Version(version));
    }
    limit("Statements", document.statement.len(), MAX_STATEMENTS)?;
    let mut ids = BTreeSet::new();
    let mut statements = Vec::new();
    for wire in &document.statement {
        if let Some(id) = &wire.sid
            && !ids.insert(id)
        {
            return Err(PolicyFault::Repeated(id.clone()));
        }
        statements.push(statement(wire, named(wire)?)?);
    }
    let conditions = statements.iter().map(|it| it.conditions.len()).sum();
    limit("Conditions", conditions, MAX_CONDITIONS)?;
    Ok(statements)
}

fn read(text: &str) -> Result<WireDocument, PolicyFault> {
    let form = |error: serde_json::Error| PolicyFault::Form(error.to_string());
    if json_depth(text.as_bytes()) > MAX_DEPTH {
        let deep = format!("it nests deeper than {MAX_DEPTH} levels");
        return Err(PolicyFault::Form(deep));
    }
    serde_json::from_str::<DistinctKeys>(text).map_err(form)?;
    serde_json::from_str(text).map_err(form)
}

fn statement(wire: &WireStatement, principals: Named) -> Result<Statement, PolicyFault> {
    let actions = one_of("Action", &wire.action, &wire.not_action)?;
    let resources = one_of("Resource", &wire.resource, &wire.not_resource)?;
    Ok(Statement {
        effect: match wire.effect.as_str() {
            "Allow" => Effect::Allow,
            "Deny" => Effect::Deny,
            other => return Err(PolicyFault::value("Effect", other)),
        },
        principals,
        actions: Selection {
            items: action_patterns(actions.items)?,
            inverted: actions.inverted,
        },
        resources: Selection {
            items: resource_patterns(resources.items)?,
            inverted: resources.inverted,
        },
        conditions: match &wire.condition {
            Some(condition) => conditions(condition)?,
            None => Vec::new(),
        },
    })
}

/// Which of an element and its `Not...` there is.
fn one_of<'v>(
    element: &'static str,
    plain: &'v Option<Value>,
    inverse: &'v Option<Value>,
) -> Result<Selection<&'v Value>, PolicyFault> {
    match (plain, inverse) {
        (Some(items), None) => Ok(Selection {
            items,
            inverted: false,
        }),
        (None, Some(items)) => Ok(Selection {
            items,
            inverted: true,
        }),
        (Some(_), Some(_)) | (None, None) => Err(PolicyFault::OneOf(element)),
    }
}

fn principals(value: &Value) -> Result<NamedPrincipals, PolicyFault> {
    let mut named = NamedPrincipals::default();
    match value {
        Value::String(everyone) if everyone == "*" => named.add("AWS", everyone)?,
        Value::Object(kinds) if !kinds.is_empty() => {
            for (kind, names) in kinds {
                for name in texts("Principal", names)? {
                    named.add(kind, &name)?;
                }
            }
        }
        other => return Err(PolicyFault::value("Principal", other)),
    }
    Ok(named)
}

fn action_patterns(value: &Value) -> Result<Vec<ActionPattern>, PolicyFault> {
    let names = texts("Action", value)?;
    limit("Actions", names.len(), MAX_ACTIONS)?;
    let pattern = |name: &String| {
        let pattern = ActionPattern::parse(name);
        pattern.ok_or_else(|| PolicyFault::value("Action", name))
    };
    names.iter().map(pattern).collect()
}

/// ARNs of queues, with wildcards or without; anything else would never be met.
fn resource_patterns(value: &Value) -> Result<Vec<String>, PolicyFault> {
    let patterns = texts("Resource", value)?;
    let known =
        |text: &String| !text.contains("${") && (text == "*" || text.starts_with("arn:aws:sqs:"));
    match patterns.iter().find(|text| !known(text)) {
        Some(text) => Err(PolicyFault::value("Resource", text)),
        None => Ok(patterns),
    }
}

fn conditions(value: &Value) -> Result<Vec<Condition>, PolicyFault> {
    let object = |value: &Value| match value {
        Value::Object(members) if !members.is_empty() => Ok(members.clone()),
        other => Err(PolicyFault::value("Condition", other)),
    };
    let mut conditions = Vec::new();
    for (operator, keys) in object(value)? {
        for (key, values) in object(&keys)? {
            let values = texts("Condition", &values)?;
            conditions.push(Condition::parse(&operator, &key, &values)?);
        }
    }
    Ok(conditions)
}

/// One text or several; numbers and truth values are taken as their texts, as AWS takes them.
fn texts(element: &'static str, value: &Value) -> Result<Vec<String>, PolicyFault> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) if element == "Condition" => Ok(value.to_string()),
        other => Err(PolicyFault::value(element, other)),
    };
    match value {
        Value::Array(items) if !items.is_empty() => items.iter().map(text).collect(),
        one => Ok(vec![text(one)?]),
    }
}

/// Refuses more of something than a policy may have.
pub(super) fn limit(what: &'static str, found: usize, most: usize) -> Result<(), PolicyFault> {
    match found > most {
        true => Err(PolicyFault::TooMany { what, found, most }),
        false => Ok(()),
    }
}

/// A JSON text in which no object has a key twice: of two that contradict each other, a reader would
/// take one and forget the other.
struct DistinctKeys;

impl<'de> Deserialize<'de> for DistinctKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;

        impl<'de> Visitor<'de> for Walk {
            type Value = DistinctKeys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_bool<E>(self, _: bool) -> Result<DistinctKeys, E> {
                Ok(DistinctKeys)
            }

            fn visit_i64<E>(self, _: i64) -> Result<DistinctKeys, E> {
                Ok(DistinctKeys)
            }

            fn visit_u64<E>(self, _: u64) -> Result<DistinctKeys, E> {
                Ok(DistinctKeys)
            }

            fn visit_f64<E>(self, _: f64) -> Result<DistinctKeys, E> {
                Ok(DistinctKeys)
            }

            fn visit_str<E>(self, _: &str) -> Result<DistinctKeys, E> {
                Ok(DistinctKeys)
            }

            fn visit_unit<E>(self) -> Result<DistinctKeys, E> {
                Ok(DistinctKeys)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<DistinctKeys, A::Error> {
                while list.next_element::<DistinctKeys>()?.is_some() {}
                Ok(DistinctKeys)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DistinctKeys, A::Error> {
                let mut seen = BTreeSet::new();
                while let Some((key, DistinctKeys)) = map.next_entry::<String, _>()? {
                    if let Some(twice) = seen.replace(key) {
                        return Err(serde::de::Error::custom(format_args!(
                            "{twice} stands twice"
                        )));
                    }
                }
                Ok(DistinctKeys)
            }
        }

        deserializer.deserialize_any(Walk)
    }
}
