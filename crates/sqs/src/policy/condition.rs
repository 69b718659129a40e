//! Conditions of a statement: an operator, a key, and the values that it may have.
//!
//! All conditions of a statement must hold. One holds when the key's value fits one of its values, or,
//! for the operators that deny (`StringNotEquals` and the like), none of them. A key that the request
//! does not have fits nothing: so it meets those that deny, those with `...IfExists`, and those
//! `ForAllValues:`. No key here has more than one value, which makes `ForAllValues:` and
//! `ForAnyValue:` say no more than that.

use std::cmp::Ordering;
use std::net::IpAddr;

use super::context::{Found, Key, Kind, Surroundings};
use super::fault::PolicyFault;
use super::pattern;
use super::principal::Principal;
use crate::timestamp::Timestamp;

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Text,
    TextInAnyCase,
    Like,
    Order(&'static [Ordering]),
    Flag,
    Network,
    Arn,
}

/// The names of operators, how they compare, and whether they deny. `Null` stands apart.
#[rustfmt::skip] // a table: one line each
const OPERATORS: [(&str, Comparison, bool); 25] = [
    ("StringEquals", Comparison::Text, false),
    ("StringNotEquals", Comparison::Text, true),
    ("StringEqualsIgnoreCase", Comparison::TextInAnyCase, false),
    ("StringNotEqualsIgnoreCase", Comparison::TextInAnyCase, true),
    ("StringLike", Comparison::Like, false),
    ("StringNotLike", Comparison::Like, true),
    ("NumericEquals", Comparison::Order(&[Ordering::Equal]), false),
    ("NumericNotEquals", Comparison::Order(&[Ordering::Equal]), true),
    ("NumericLessThan", Comparison::Order(&[Ordering::Less]), false),
    ("NumericLessThanEquals", Comparison::Order(&[Ordering::Less, Ordering::Equal]), false),
    ("NumericGreaterThan", Comparison::Order(&[Ordering::Greater]), false),
    ("NumericGreaterThanEquals", Comparison::Order(&[Ordering::Greater, Ordering::Equal]), false),
    ("DateEquals", Comparison::Order(&[Ordering::Equal]), false),
    ("DateNotEquals", Comparison::Order(&[Ordering::Equal]), true),
    ("DateLessThan", Comparison::Order(&[Ordering::Less]), false),
    ("DateLessThanEquals", Comparison::Order(&[Ordering::Less, Ordering::Equal]), false),
    ("DateGreaterThan", Comparison::Order(&[Ordering::Greater]), false),
    ("DateGreaterThanEquals", Comparison::Order(&[Ordering::Greater, Ordering::Equal]), false),
    ("Bool", Comparison::Flag, false),
    ("IpAddress", Comparison::Network, false),
    ("NotIpAddress", Comparison::Network, true),
    ("ArnEquals", Comparison::Arn, false),
    ("ArnLike", Comparison::Arn, false),
    ("ArnNotEquals", Comparison::Arn, true),
    ("ArnNotLike", Comparison::Arn, true),
];

const NULL: &str = "Null";
const IF_EXISTS: &str = "IfExists";
const FOR_ALL: &str = "ForAllValues:";
const FOR_ANY: &str = "ForAnyValue:";

/// What is asked of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    key: Key,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// Whether the request has no such key; both, if both were asked for.
    Absent {
        holds_absent: bool,
        holds_present: bool,
    },
    Compare {
        comparison: Comparison,
        values: Vec<Operand>,
        denies: bool,
        /// What holds when the request has no such key.
        holds_absent: bool,
    },
}

/// A value to compare with, read as the operator needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    Text(String),
    Flag(bool),
    /// Milliseconds since the epoch.
    Moment(i64),
    /// An address, and how many of its bits count.
    Network(IpAddr, u32),
}

impl Condition {
    /// A condition as it is written.
    pub(super) fn parse(operator: &str, key: &str, values: &[String]) -> Result<Self, PolicyFault> {
        let known = Key::from_name(key).ok_or_else(|| PolicyFault::Key(key.to_owned()))?;
        let test = match operator == NULL {
            true => absence(values)?,
            false => comparison(operator, known, values)?,
        };
        Ok(Self { key: known, test })
    }

    /// Whether it holds for a request.
    pub(super) fn holds(&self, principal: &Principal, around: &Surroundings<'_>) -> bool {
        let found = self.key.of(principal, around);
        match (&self.test, found) {
            (Test::Absent { holds_absent, .. }, None) => *holds_absent,
            (Test::Absent { holds_present, .. }, Some(_)) => *holds_present,
            (Test::Compare { holds_absent, .. }, None) => *holds_absent,
            (
                Test::Compare {
                    comparison,
                    values,
                    denies,
                    ..
                },
                Some(found),
            ) => {
                let fits = |value| fits(*comparison, value, &found);
                values.iter().any(fits) != *denies
            }
        }
    }
}

fn absence(values: &[String]) -> Result<Test, PolicyFault> {
    let flags = values.iter().map(|value| flag(value));
    let flags = flags.collect::<Option<Vec<_>>>();
    let flags = flags.ok_or_else(|| PolicyFault::value("Null", values.join(", ")))?;
    Ok(Test::Absent {
        holds_absent: flags.contains(&true),
        holds_present: flags.contains(&false),
    })
}

fn comparison(operator: &str, key: Key, values: &[String]) -> Result<Test, PolicyFault> {
    let unknown = || PolicyFault::Operator(operator.to_owned());
    let (for_all, rest) = match operator.strip_prefix(FOR_ALL) {
        Some(rest) => (true, rest),
        None => (false, operator),
    };
    let (for_any, rest) = match rest.strip_prefix(FOR_ANY) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (if_exists, name) = match rest.strip_suffix(IF_EXISTS) {
        Some(name) => (true, name),
        None => (false, rest),
    };
    let known = OPERATORS.into_iter().find(|(known, ..)| *known == name);
    let (_, comparison, denies) = known
        .filter(|_| !(for_all && for_any))
        .ok_or_else(unknown)?;
    if !goes_with(name, comparison, key.kind()) {
        let (operator, key) = (operator.to_owned(), key.name().to_owned());
        return Err(PolicyFault::Misfit { operator, key });
    }
    let operand = |value: &String| {
        let operand = operand(comparison, value);
        operand.ok_or_else(|| PolicyFault::value("Condition", value))
    };
    Ok(Test::Compare {
        comparison,
        values: values.iter().map(operand).collect::<Result<_, _>>()?,
        denies,
        holds_absent: if_exists || for_all || (denies && !for_any),
    })
}

/// Whether the operator of this name can say anything about a key of this kind.
fn goes_with(name: &str, comparison: Comparison, kind: Kind) -> bool {
    match comparison {
        Comparison::Text | Comparison::TextInAnyCase | Comparison::Like => {
            matches!(kind, Kind::Text | Kind::Arn | Kind::Flag)
        }
        // Both keys that are moments may be compared as either; as numbers they are seconds.
        Comparison::Order(_) => kind == Kind::Moment,
        Comparison::Flag => kind == Kind::Flag,
        Comparison::Network => kind == Kind::Address,
        Comparison::Arn => kind == Kind::Arn && name.starts_with("Arn"),
    }
}

fn operand(comparison: Comparison, value: &str) -> Option<Operand> {
    match comparison {
        // A variable would have to be filled in, and is not here.
        Comparison::Text | Comparison::TextInAnyCase | Comparison::Like | Comparison::Arn => {
            (!value.contains("${")).then(|| Operand::Text(value.to_owned()))
        }
        Comparison::Order(_) => moment(value).map(Operand::Moment),
        Comparison::Flag => flag(value).map(Operand::Flag),
        Comparison::Network => network(value),
    }
}

fn flag(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A moment in milliseconds since the epoch: seconds since then, a day, or a second of UTC in the form
/// of ISO 8601.
fn moment(value: &str) -> Option<i64> {
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        return value.parse::<i64>().ok()?.checked_mul(1_000);
    }
    let of_day = |day: &str, time: &str| {
        let written = day.len() == 10 && time.len() == 9 && time.ends_with('Z');
        let text = format!("{}T{}", day.replace('-', ""), time.replace(':', ""));
        let moment = Timestamp::parse(&text).filter(|_| written)?;
        i64::try_from(moment.ms()).ok()
    };
    match value.split_once('T') {
        Some((day, time)) => of_day(day, time),
        None => of_day(value, "00:00:00Z"),
    }
}

/// An address, or a network in the form `ADDRESS/BITS`.
fn network(value: &str) -> Option<Operand> {
    let (address, bits) = match value.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (value, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().ok()?,
        Some(_) => return None,
        None => most,
    };
    (bits <= most).then_some(Operand::Network(address, bits))
}

fn fits(comparison: Comparison, value: &Operand, found: &Found) -> bool {
    match (value, found) {
        (Operand::Text(value), found) => fits_text(comparison, value, found),
        (Operand::Flag(value), Found::Flag(found)) => value == found,
        (Operand::Moment(value), Found::Moment(found)) => match comparison {
            Comparison::Order(orders) => orders.contains(&found.cmp(value)),
            _ => false,
        },
        (Operand::Network(network, bits), Found::Address(found)) => within(*found, *network, *bits),
        (Operand::Flag(_) | Operand::Moment(_) | Operand::Network(..), _) => false,
    }
}

fn fits_text(comparison: Comparison, value: &str, found: &Found) -> bool {
    let flag;
    let found = match found {
        Found::Text(found) => found.as_str(),
        Found::Flag(found) => {
            flag = found.to_string();
            &flag
        }
        Found::Moment(_) | Found::Address(_) => return false,
    };
    match comparison {
        Comparison::Text => value == found,
        Comparison::TextInAnyCase => value.to_lowercase() == found.to_lowercase(),
        Comparison::Like => pattern::matches(value, found),
        Comparison::Arn => pattern::matches_arn(value, found),
        Comparison::Order(_) | Comparison::Flag | Comparison::Network => false,
    }
}

/// Whether an address has the first bits of another.
fn within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differing = address.to_bits() ^ network.to_bits();
            differing.leading_zeros() >= bits
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differing = address.to_bits() ^ network.to_bits();
            differing.leading_zeros() >= bits
        }
        _ => false,
    }
}
