//! What ends all messages of a queue at once: purges, and deletes of the queue.

/// One such operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    /// Its place in the history.
    pub operation: usize,
    pub invoked: u64,
    pub returned: u64,
    /// It took effect within its span; otherwise at any time after it was invoked, or never.
    pub certain: bool,
}

/// The endings of one queue, ready to be asked.
#[derive(Debug, Default)]
pub(super) struct Endings {
    /// In the order of their invocation.
    all: Vec<Ending>,
    /// For each of `all`, the latest time at which it or one before it may take effect.
    latest: Vec<u64>,
    /// The certain ones, in the order of their invocation.
    certain: Vec<Ending>,
    /// For each of `certain`, where the one is that returned first from there on.
    first_returned: Vec<usize>,
}

impl Endings {
    pub fn of(mut all: Vec<Ending>) -> Self {
        all.sort_by_key(|ending| ending.invoked);
        let mut latest = Vec::with_capacity(all.len());
        let mut so_far = 0;
        for ending in &all {
            let returned = if ending.certain {
                ending.returned
            } else {
                u64::MAX
            };
            so_far = returned.max(so_far);
            latest.push(so_far);
        }
        let certain: Vec<Ending> = all.iter().copied().filter(|e| e.certain).collect();
        let mut first_returned: Vec<usize> = (0..certain.len()).collect();
        for place in (1..certain.len()).rev() {
            let next = first_returned[place];
            if certain[next].returned < certain[place - 1].returned {
                first_returned[place - 1] = next;
            }
        }
        Self {
            all,
            latest,
            certain,
            first_returned,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The first that may end a message which came into being at `born` or later.
    pub fn first_possible(&self, born: u64) -> Option<&Ending> {
        self.all
            .get(self.latest.partition_point(|latest| *latest <= born))
    }

    /// Of those that certainly came after `at`, the one that returned first.
    pub fn first_certain_after(&self, at: u64) -> Option<&Ending> {
        let from = self.certain.partition_point(|ending| ending.invoked <= at);
        self.first_returned
            .get(from)
            .map(|place| &self.certain[*place])
    }

    /// Whether one of them returned before `at`.
    pub fn one_certainly_before(&self, at: u64) -> bool {
        self.certain.iter().any(|ending| ending.returned < at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(invoked: u64, returned: u64, certain: bool) -> Ending {
        Ending {
            operation: 0,
            invoked,
            returned,
            certain,
        }
    }

    #[test]
    fn an_ending_that_returned_before_the_birth_does_not_count() {
        let endings = Endings::of(vec![ending(10, 20, true), ending(30, 40, true)]);
        assert_eq!(endings.first_possible(5).unwrap().invoked, 10);
        assert_eq!(endings.first_possible(19).unwrap().invoked, 10);
        assert_eq!(endings.first_possible(20).unwrap().invoked, 30);
        assert!(endings.first_possible(40).is_none());
    }

    #[test]
    fn an_ending_without_answer_may_come_at_any_time() {
        let endings = Endings::of(vec![ending(10, 20, false)]);
        assert_eq!(endings.first_possible(1_000).unwrap().invoked, 10);
        assert!(endings.first_certain_after(0).is_none());
    }

    #[test]
    fn of_overlapping_endings_the_first_to_return_counts() {
        let endings = Endings::of(vec![ending(10, 90, true), ending(20, 30, true)]);
        assert_eq!(endings.first_certain_after(5).unwrap().returned, 30);
        assert_eq!(endings.first_certain_after(15).unwrap().returned, 30);
        assert!(endings.first_certain_after(20).is_none());
    }
}
