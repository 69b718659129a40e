//! How much memory the machines of this node hold together.
//!
//! Each partition's leader task reports its own share once a second; sends are refused when the sum
//! is over the budget, before the process is in danger.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The node's total, shared by its partitions.
#[derive(Clone)]
pub struct MemoryBudget {
    total: Arc<AtomicUsize>,
    budget_bytes: usize,
}

impl MemoryBudget {
    /// Nothing held yet; `budget_bytes` for all machines of the node.
    pub fn new(budget_bytes: usize) -> Self {
        Self {
            total: Arc::default(),
            budget_bytes,
        }
    }

    /// One partition's share.
    pub fn share(&self) -> MemoryShare {
        MemoryShare {
            budget: self.clone(),
            reported: 0,
        }
    }

    /// Bytes held by all machines, as last reported.
    pub fn total_bytes(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }
}

/// What one partition holds of the total.
pub struct MemoryShare {
    budget: MemoryBudget,
    reported: usize,
}

impl MemoryShare {
    /// Says how much the partition holds now.
    pub fn report(&mut self, bytes: usize) {
        self.budget.total.fetch_add(bytes, Ordering::Relaxed);
        self.budget
            .total
            .fetch_sub(self.reported, Ordering::Relaxed);
        self.reported = bytes;
    }

    /// Whether the node holds more than it may.
    pub fn is_exceeded(&self) -> bool {
        self.budget.total_bytes() > self.budget.budget_bytes
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.report(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_follows_the_shares() {
        let budget = MemoryBudget::new(100);
        let (mut first, mut second) = (budget.share(), budget.share());
        first.report(60);
        second.report(30);
        assert!(!first.is_exceeded());
        second.report(50);
        assert!(first.is_exceeded());
        drop(second);
        assert_eq!(budget.total_bytes(), 60);
    }
}
