//! How busy the queues of one partition are, and which have been too busy for long.
//!
//! Only queues that took messages within the last second are known here: a wider spread helps those
//! alone.

use std::collections::BTreeMap;
use std::time::Duration;

use hikyaku_queue::QueueId;

/// Messages a second that one partition should take of one queue: beyond it, another partition on
/// another disk helps.
pub const BUSY_SENDS_PER_SECOND: u64 = 1_000;

/// Messages waiting in one partition of a queue that still takes more.
pub const BUSY_WAITING: u64 = 1_000_000;

/// Looks in a row, a second apart, that must find a queue busy.
const BUSY_LOOKS: u32 = 10;

/// A queue that has been too much for a partition for ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The queue.
    pub queue: QueueId,
    /// The descriptor version under which it was seen.
    pub version: u64,
    /// Whether by its sends; otherwise by what waits.
    pub by_sends: bool,
}

/// See the module.
#[derive(Default)]
pub struct Traffic(BTreeMap<QueueId, Sends>);

#[derive(Default)]
struct Sends {
    messages: u64,
    busy_looks: u32,
}

impl Traffic {
    /// Counts messages taken.
    pub fn took(&mut self, queue: QueueId, messages: usize) {
        self.0.entry(queue).or_default().messages += messages as u64;
    }

    /// Looks at what came since the last look, about a second ago: the queues that were found busy
    /// ten times in a row, and whether by their sends. `waiting` tells a queue's visible messages.
    pub fn look(
        &mut self,
        since: Duration,
        waiting: impl Fn(QueueId) -> u64,
    ) -> Vec<(QueueId, bool)> {
        let since_ms = (since.as_millis() as u64).max(1);
        let mut busy = Vec::new();
        self.0.retain(|queue, sends| {
            let messages = std::mem::take(&mut sends.messages);
            if messages == 0 {
                return false;
            }
            let by_sends = messages * 1_000 / since_ms > BUSY_SENDS_PER_SECOND;
            let is_busy = by_sends || waiting(*queue) > BUSY_WAITING;
            sends.busy_looks = if is_busy { sends.busy_looks + 1 } else { 0 };
            if sends.busy_looks == BUSY_LOOKS {
                sends.busy_looks = 0;
                busy.push((*queue, by_sends));
            }
            true
        });
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(1);
    const SECOND: Duration = Duration::from_secs(1);

    /// One look after so many sends, with nothing waiting.
    fn look(traffic: &mut Traffic, sends: usize) -> Vec<(QueueId, bool)> {
        traffic.took(QUEUE, sends);
        traffic.look(SECOND, |_| 0)
    }

    #[test]
    fn a_queue_is_busy_after_ten_seconds_and_then_begins_anew() {
        let mut traffic = Traffic::default();
        for _ in 0..2 {
            for _ in 0..9 {
                assert_eq!(look(&mut traffic, 1_001), []);
            }
            assert_eq!(look(&mut traffic, 1_001), [(QUEUE, true)]);
        }
    }

    #[test]
    fn a_quiet_second_begins_anew() {
        let mut traffic = Traffic::default();
        for _ in 0..9 {
            look(&mut traffic, 5_000);
        }
        assert_eq!(look(&mut traffic, 1_000), []);
        assert_eq!(look(&mut traffic, 5_000), []);
    }

    #[test]
    fn what_waits_makes_a_queue_busy_that_still_takes_more() {
        let mut traffic = Traffic::default();
        let waiting = |_| BUSY_WAITING + 1;
        for _ in 0..9 {
            traffic.took(QUEUE, 1);
            assert_eq!(traffic.look(SECOND, waiting), []);
        }
        traffic.took(QUEUE, 1);
        assert_eq!(traffic.look(SECOND, waiting), [(QUEUE, false)]);
        for _ in 0..20 {
            assert_eq!(traffic.look(SECOND, waiting), [], "it takes nothing");
        }
        assert!(traffic.0.is_empty(), "and is forgotten");
    }

    #[test]
    fn a_late_look_counts_by_the_second() {
        let mut traffic = Traffic::default();
        for _ in 0..20 {
            traffic.took(QUEUE, 2_000);
            assert_eq!(traffic.look(2 * SECOND, |_| 0), []);
        }
    }
}
