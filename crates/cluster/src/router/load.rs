//! What this router knows of the load of partitions: its own requests that wait for an answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use hikyaku_queue::PartitionId;

/// Requests under way, by partition.
pub struct Load(Vec<AtomicUsize>);

/// One request under way; it counts until this is dropped.
pub struct UnderWay<'a>(&'a AtomicUsize);

impl Load {
    /// Nothing under way at any of so many partitions.
    pub fn new(partitions: usize) -> Self {
        Self((0..partitions).map(|_| AtomicUsize::new(0)).collect())
    }

    /// Counts a request; `None` for a partition that does not exist.
    pub fn begin(&self, partition: PartitionId) -> Option<UnderWay<'_>> {
        let count = self.0.get(usize::try_from(partition.0).ok()?)?;
        count.fetch_add(1, Ordering::Relaxed);
        Some(UnderWay(count))
    }

    /// How many requests are under way.
    pub fn of(&self, partition: PartitionId) -> usize {
        let count = usize::try_from(partition.0)
            .ok()
            .and_then(|at| self.0.get(at));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_while_it_is_under_way() {
        let load = Load::new(2);
        let one = load.begin(PartitionId(1)).expect("it exists");
        let other = load.begin(PartitionId(1)).expect("it exists");
        assert_eq!((load.of(PartitionId(0)), load.of(PartitionId(1))), (0, 2));
        drop(one);
        assert_eq!(load.of(PartitionId(1)), 1);
        drop(other);
        assert_eq!(load.of(PartitionId(1)), 0);
        assert!(load.begin(PartitionId(2)).is_none());
    }
}
