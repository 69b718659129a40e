//! What stands in « » in a table: things that are not known before, and texts too long to write out.
//!
//! In what is sent:
//!
//! - «1024 x» is x, 1,024 times; «newline» is one.
//! - «q.name» is what has this name: of a queue made by the case, or seen in an answer.
//!
//! In what is expected, besides the same: «uuid», «handle», «md5», «sequence», «token», «s» and «ms»
//! stand for any text of that kind, and «uuid m» gives it the name m. Times lie within the case.
//! «request» is the id of the request.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

/// The texts that have names, and the time of the case so far.
pub struct Known {
    names: BTreeMap<String, String>,
    /// Milliseconds since the epoch.
    pub times: RangeInclusive<u64>,
}

impl Known {
    pub fn since(ms: u64) -> Self {
        Self {
            names: BTreeMap::new(),
            times: ms..=ms,
        }
    }

    pub fn name(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.names.insert(name.into(), text.into());
    }

    pub fn forget(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// The text that a text of a table stands for.
    pub fn fill(&self, text: &str) -> String {
        let parts = parts(text).into_iter().map(|part| match part {
            Part::Plain(plain) => plain.to_owned(),
            Part::Marked(mark) => self
                .value(mark)
                .unwrap_or_else(|| panic!("«{mark}» is not known")),
        });
        parts.collect()
    }

    /// The same for all texts in a value; keys too.
    pub fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(members) => {
                let filled = members
                    .iter()
                    .map(|(key, value)| (self.fill(key), self.fill_value(value)));
                Value::Object(filled.collect::<Map<_, _>>())
            }
            other => other.clone(),
        }
    }

    fn value(&self, mark: &str) -> Option<String> {
        if mark == "newline" {
            return Some("\n".to_owned());
        }
        if let Some((count, text)) = mark.split_once(' ')
            && let Ok(count) = count.parse()
        {
            return Some(text.repeat(count));
        }
        self.names.get(mark).cloned()
    }

    /// Whether a text is the expected one; what is named in it is known from then on.
    pub fn matches(&mut self, expected: &str, found: &str) -> Result<(), String> {
        let differs = || format!("expected {}\n   found {}", shown(expected), shown(found));
        let mut rest = found;
        for part in parts(expected) {
            let taken = match part {
                Part::Plain(plain) => rest.starts_with(plain).then_some(plain.len()),
                Part::Marked(mark) => match self.value(mark) {
                    Some(value) => rest.starts_with(&value).then_some(value.len()),
                    None => self.take(mark, rest),
                },
            };
            rest = &rest[taken.ok_or_else(differs)?..];
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(differs())
        }
    }

    /// How much of a text is of the kind that a mark tells.
    fn take(&mut self, mark: &str, text: &str) -> Option<usize> {
        let (kind, name) = mark.split_once(' ').unwrap_or((mark, ""));
        let run = |of: fn(char) -> bool| text.find(|c| !of(c)).unwrap_or(text.len());
        let digits = run(|c| c.is_ascii_digit());
        let hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        let (length, fits) = match kind {
            "uuid" => (36, run(|c| matches!(c, '0'..='9' | 'a'..='f' | '-')) == 36),
            "md5" => (32, run(hex) == 32),
            "sequence" => (20, digits == 20),
            "handle" | "token" => {
                let length = run(|c| c.is_ascii_alphanumeric() || "+/=-_".contains(c));
                (length, (1..=1_024).contains(&length))
            }
            "ms" => (digits, self.is_time(&text[..digits], 1)),
            "s" => (digits, self.is_time(&text[..digits], 1_000)),
            _ => panic!("«{mark}» means nothing and is not known"),
        };
        if fits && !name.is_empty() {
            self.name(name, &text[..length]);
        }
        fits.then_some(length)
    }

    /// Whether a number is a time of this case, in units of so many milliseconds.
    fn is_time(&self, digits: &str, unit_ms: u64) -> bool {
        let times = self.times.start() / unit_ms..=self.times.end() / unit_ms;
        digits.parse().is_ok_and(|time: u64| times.contains(&time))
    }

    /// Whether a value is the expected one, member by member.
    pub fn matches_value(&mut self, expected: &Value, found: &Value) -> Result<(), String> {
        match (expected, found) {
            (Value::String(expected), Value::String(found)) => self.matches(expected, found),
            // A number that is not known before.
            (Value::String(expected), Value::Number(found))
                if expected.starts_with('«') && expected.ends_with('»') =>
            {
                self.matches(expected, &found.to_string())
            }
            (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
                let mut pairs = expected.iter().zip(found);
                pairs.try_for_each(|(expected, found)| self.matches_value(expected, found))
            }
            (Value::Object(expected), Value::Object(found))
                if expected.len() == found.len()
                    && expected
                        .keys()
                        .all(|key| found.contains_key(&self.fill(key))) =>
            {
                let mut pairs = expected.iter();
                pairs.try_for_each(|(key, expected)| {
                    let told = self.matches_value(expected, &found[&self.fill(key)]);
                    told.map_err(|fault| format!("{key}: {fault}"))
                })
            }
            (expected, found) if expected == found => Ok(()),
            (expected, found) => Err(format!(
                "expected {}\n   found {}",
                shown(&expected.to_string()),
                shown(&found.to_string())
            )),
        }
    }
}

/// A text that is short enough to be read.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 4_000;
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let head: String = text.chars().take(200).collect();
    format!("{head}... of {} bytes", text.len())
}

enum Part<'t> {
    Plain(&'t str),
    Marked(&'t str),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('«') {
        let (mark, after) = after
            .split_once('»')
            .unwrap_or_else(|| panic!("« without » in {text}"));
        parts.extend([Part::Plain(plain), Part::Marked(mark)]);
        rest = after;
    }
    parts.push(Part::Plain(rest));
    parts
}
