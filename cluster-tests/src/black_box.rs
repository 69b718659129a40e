//! The black-box judge: whether a cluster that keeps its promises could have told clients this.
//!
//! It knows a [`History`] and nothing else, and reports only what no order of effects explains: a
//! finding is never a false alarm, whatever clients did at the same time and whatever got lost. What
//! it does not report may still be wrong. The rules are Q1 to Q20 of RELIABILITY section 2; each is a
//! function under [`rules`] that opens with its text.
//!
//! The history is indexed once, by queue, message, content and message group; the rules sort and scan.
//! Time is O(n log n) and memory O(n) in the number of entries; [`Verdict::looked`] counts the steps.
//!
//! A rule that met nothing it could have judged has shown nothing, so the verdict says for each on how
//! many operations it was exercised.

use std::collections::BTreeSet;
use std::fmt;

use crate::history::{History, lines};

mod actions;
mod attributes;
mod endings;
mod index;
mod message;
mod rules;
mod timers;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod model;
#[cfg(test)]
mod story;
#[cfg(test)]
mod tests;

/// More violations than this are counted, not printed.
const MAX_PRINTED_VIOLATIONS: usize = 20;

/// The promises, in the order of RELIABILITY section 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// No acknowledged send is lost.
    AcknowledgedSend,
    /// Nothing comes out that was not sent.
    Phantom,
    /// A deleted message does not come back.
    Delete,
    /// A received message is hidden until its visibility timeout.
    Visibility,
    /// A changed visibility timeout holds, and only its holder changes it.
    VisibilityChange,
    /// A message group comes out in order.
    GroupOrder,
    /// Nothing of a message group comes out behind a message in flight.
    GroupInFlight,
    /// Sequence numbers rise with time, and names are never used twice.
    Sequence,
    /// One deduplication id makes one message within five minutes.
    Deduplication,
    /// A repeated receive attempt gets what the first one got.
    ReceiveAttempt,
    /// Receive counts are 1, 2, 3 and so on.
    ReceiveCount,
    /// Who was received too often moves to the dead-letter queue, once.
    DeadLetter,
    /// A delayed message is hidden until its delay is over.
    Delay,
    /// Nothing is served beyond its retention.
    Retention,
    /// A purge is one point in time.
    Purge,
    /// Queues come, change and go at one point in time.
    Queue,
    /// No tenant sees another's.
    Tenant,
    /// Each entry of a batch is judged alone and answered once.
    Batch,
    /// What has no answer takes effect within a minute or never.
    Uncertain,
    /// While nothing runs, the counts say how many messages there are.
    Counts,
}

/// All rules, in their order.
pub const RULES: [Rule; 20] = [
    Rule::AcknowledgedSend,
    Rule::Phantom,
    Rule::Delete,
    Rule::Visibility,
    Rule::VisibilityChange,
    Rule::GroupOrder,
    Rule::GroupInFlight,
    Rule::Sequence,
    Rule::Deduplication,
    Rule::ReceiveAttempt,
    Rule::ReceiveCount,
    Rule::DeadLetter,
    Rule::Delay,
    Rule::Retention,
    Rule::Purge,
    Rule::Queue,
    Rule::Tenant,
    Rule::Batch,
    Rule::Uncertain,
    Rule::Counts,
];

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Q{} {self:?}", *self as usize + 1)
    }
}

/// A promise broken, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub rule: Rule,
    /// What no order of effects explains.
    pub message: String,
    /// The operations that show it, as places in the history.
    pub evidence: Vec<usize>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            message,
            evidence,
        } = self;
        write!(f, "{rule}: {message} (operations {evidence:?})")
    }
}

/// What the judge says of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Every broken promise, rule by rule.
    pub violations: Vec<Violation>,
    /// How many operations each rule could have found broken.
    exercised: [u64; RULES.len()],
    looked: u64,
}

/// Judges a history.
pub fn judge(history: &History) -> Verdict {
    let index = index::Index::of(history);
    let mut verdict = Verdict::default();
    for check in rules::ALL {
        check(&index, &mut verdict);
    }
    verdict.violations.sort_by_key(|violation| violation.rule);
    verdict
}

/// Panics with the verdict when a promise is broken, and says where the history is kept.
pub fn assert_kept(history: &History) {
    let verdict = judge(history);
    if verdict.violations.is_empty() {
        return;
    }
    let (summary, kept) = (history.summary(), lines::kept(history));
    panic!("{summary}; {kept}:\n{verdict}");
}

impl Verdict {
    /// On how many operations a rule was exercised.
    pub fn exercised(&self, rule: Rule) -> u64 {
        self.exercised[rule as usize]
    }

    /// The rules that this history says nothing about.
    pub fn not_exercised(&self) -> Vec<Rule> {
        let nothing = |rule: &Rule| self.exercised(*rule) == 0;
        RULES.into_iter().filter(nothing).collect()
    }

    /// The rules that are broken.
    pub fn broken(&self) -> BTreeSet<Rule> {
        self.violations.iter().map(|v| v.rule).collect()
    }

    /// How many comparisons the rules made: the measure of their cost.
    pub fn looked(&self) -> u64 {
        self.looked
    }

    fn exercise(&mut self, rule: Rule) {
        self.exercised[rule as usize] += 1;
        self.looked += 1;
    }

    fn look(&mut self, comparisons: usize) {
        self.looked += comparisons as u64;
    }

    fn find(&mut self, rule: Rule, message: String, evidence: &[usize]) {
        self.violations.push(Violation {
            rule,
            message,
            evidence: evidence.to_vec(),
        });
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.violations.len();
        writeln!(f, "{found} broken promises")?;
        for violation in self.violations.iter().take(MAX_PRINTED_VIOLATIONS) {
            writeln!(f, "{violation}")?;
        }
        if found > MAX_PRINTED_VIOLATIONS {
            writeln!(f, "and {} more", found - MAX_PRINTED_VIOLATIONS)?;
        }
        for rule in RULES {
            match self.exercised(rule) {
                0 => writeln!(f, "{rule}: not exercised")?,
                times => writeln!(f, "{rule}: exercised on {times}")?,
            }
        }
        Ok(())
    }
}
