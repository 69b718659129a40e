//! What the attributes of one queue may have been, and when.

use std::collections::BTreeMap;

/// A value given to an attribute.
#[derive(Debug, Clone)]
pub(super) struct Write {
    /// Its place in the history.
    pub operation: usize,
    pub invoked: u64,
    pub returned: u64,
    /// It took effect within its span; otherwise at any time after it was invoked, or never.
    pub certain: bool,
    /// `None` is SQS's own value, for what a creation does not name.
    pub value: Option<String>,
}

/// The attributes that clients wrote. There are few writes, so a question looks at all of them.
#[derive(Debug, Default)]
pub(super) struct Written {
    by_name: BTreeMap<String, Vec<Write>>,
    /// Whether its creation is in the history: otherwise nothing is known of what was not written.
    pub created: bool,
}

impl Written {
    pub fn add(&mut self, name: &str, write: Write) {
        self.by_name.entry(name.to_owned()).or_default().push(write);
    }

    /// The writes that may have been the last one at some moment between `from` and `until`.
    pub fn candidates(&self, name: &str, from: u64, until: u64) -> impl Iterator<Item = &Write> {
        let writes = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        let over = |write: &&Write| write.certain && write.returned < from;
        let last = writes.iter().filter(over).map(|write| write.invoked).max();
        let current = move |write: &&Write| {
            let replaced = write.certain && last.is_some_and(|last| write.returned < last);
            write.invoked <= until && !replaced
        };
        writes.iter().filter(current)
    }

    /// The values that a number may have had between `from` and `until`; `None` when anything goes.
    pub fn numbers(&self, name: &str, from: u64, until: u64, default: u64) -> Option<Vec<u64>> {
        let number = |write: &Write| match &write.value {
            Some(text) => text.parse().ok(),
            None => Some(default),
        };
        let numbers: Option<Vec<u64>> = self.candidates(name, from, until).map(number).collect();
        match numbers {
            Some(numbers) if numbers.is_empty() => self.created.then(|| vec![default]),
            numbers => numbers.filter(|_| self.created),
        }
    }

    /// What was given to an attribute first.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.by_name.get(name)?.first()?.value.as_deref()
    }

    /// The names that were ever given a value.
    pub fn is_written(&self, name: &str) -> bool {
        let writes = self.by_name.get(name);
        writes.is_some_and(|writes| writes.iter().any(|write| write.value.is_some()))
    }
}
