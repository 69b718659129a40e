//! When the cluster's time may have been forgotten: by all nodes at once.
//!
//! A node remembers the time T while it lives (DESIGN section 5, "One clock"). Killed, it has forgotten
//! it, and after its start it knows it again when it hears a leader or one that remembers. When that
//! is, a harness does not see; it says how long it may last. A moment in which every node may have
//! forgotten is marked in the history, and the judge allows timers that span it the clocks' difference.
//!
//! That all nodes were down at the same moment is the plain case. Down one after the other is enough:
//! a node that came up and heard nobody yet remembers no more than one that is down.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::Mark;

/// What each node has forgotten, and when.
#[derive(Debug)]
pub struct Memory {
    /// How long a node may have heard no T after its start.
    hears_within: Duration,
    /// By node: since when it may have forgotten T, and until when.
    forgotten: BTreeMap<&'static str, Vec<(Duration, Duration)>>,
}

impl Memory {
    /// Nobody has forgotten anything: at the beginning no timer runs.
    pub fn new(nodes: &[&'static str], hears_within: Duration) -> Self {
        Self {
            hears_within,
            forgotten: nodes.iter().map(|node| (*node, Vec::new())).collect(),
        }
    }

    /// A node was killed.
    pub fn killed(&mut self, node: &'static str, at: Duration) {
        let spans = self.forgotten.entry(node).or_default();
        spans.push((at, Duration::MAX));
    }

    /// A node was started again.
    pub fn started(&mut self, node: &'static str, at: Duration) {
        let spans = self.forgotten.entry(node).or_default();
        if let Some(last) = spans.last_mut() {
            last.1 = at + self.hears_within;
        }
    }

    /// The times in which all may have forgotten. The history's clock began with the nodes'.
    pub fn marks(&self) -> Vec<Mark> {
        let mut common = vec![(Duration::ZERO, Duration::MAX)];
        for spans in self.forgotten.values() {
            let pairs = common
                .iter()
                .flat_map(|one| spans.iter().map(move |other| (one, other)));
            let both = pairs.map(|(one, other)| (one.0.max(other.0), one.1.min(other.1)));
            common = both.filter(|(from, until)| from <= until).collect();
        }
        let micros = |at: Duration| u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        let mark = |(from, until): &(Duration, Duration)| Mark::TimeForgotten {
            from_us: micros(*from),
            until_us: micros(*until),
        };
        common.iter().map(mark).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn memory() -> Memory {
        Memory::new(&["one", "two"], Duration::from_secs(10))
    }

    #[test]
    fn one_node_that_never_died_remembers() {
        let mut memory = memory();
        memory.killed("one", at(1));
        memory.started("one", at(2));
        assert_eq!(memory.marks(), []);
    }

    #[test]
    fn nodes_that_die_one_after_the_other_may_forget() {
        let mut memory = memory();
        memory.killed("one", at(1));
        memory.started("one", at(2));
        memory.killed("two", at(5));
        memory.started("two", at(30));
        memory.killed("one", at(50));
        let mark = Mark::TimeForgotten {
            from_us: 5 * SECOND_US,
            until_us: 12 * SECOND_US,
        };
        assert_eq!(memory.marks(), [mark]);
    }

    #[test]
    fn a_node_that_stays_down_remembers_nothing() {
        let mut memory = memory();
        memory.killed("one", at(1));
        memory.killed("two", at(5));
        let mark = Mark::TimeForgotten {
            from_us: 5 * SECOND_US,
            until_us: u64::MAX,
        };
        assert_eq!(memory.marks(), [mark]);
    }
}
