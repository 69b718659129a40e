//! How many messages of a queue with several partitions are in flight, as its partitions announced.
//!
//! A slice keeps to the limit by itself, exactly; a queue of many slices is held to it approximately,
//! as SQS holds its own. The sum is asked for at most once a second for each queue, by whoever
//! receives first; the others go by the sum before.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use hikyaku_queue::QueueId;
use tokio::time::Instant;

/// How long a sum is good for.
pub const GOOD_FOR: Duration = Duration::from_secs(1);

/// Queues whose sums are kept; beyond it, those not asked for lately are forgotten.
const QUEUES_MAX: usize = 4_096;

/// The latest sums.
#[derive(Default)]
pub struct InFlight(Mutex<BTreeMap<QueueId, Sum>>);

#[derive(Clone, Copy)]
struct Sum {
    asked_at: Instant,
    messages: u64,
}

impl InFlight {
    /// The latest sum if it is good, or if somebody is about to ask; `None` makes the caller the one
    /// who asks.
    pub fn known(&self, queue: QueueId, now: Instant) -> Option<u64> {
        let mut sums = self.0.lock().expect("no panic under this lock");
        let before = sums.get(&queue).copied();
        if let Some(sum) = before.filter(|sum| now < sum.asked_at + GOOD_FOR) {
            return Some(sum.messages);
        }
        if sums.len() >= QUEUES_MAX {
            sums.retain(|_, sum| now < sum.asked_at + GOOD_FOR);
        }
        if sums.len() < QUEUES_MAX {
            let messages = before.map_or(0, |sum| sum.messages);
            let asked_at = now;
            sums.insert(queue, Sum { asked_at, messages });
        }
        None
    }

    /// Notes a sum.
    pub fn announce(&self, queue: QueueId, messages: u64) {
        let mut sums = self.0.lock().expect("no panic under this lock");
        if let Some(sum) = sums.get_mut(&queue) {
            sum.messages = messages;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(1);

    #[tokio::test(start_paused = true)]
    async fn one_asks_and_the_others_go_by_what_is_known() {
        let (sums, now) = (InFlight::default(), Instant::now());
        assert_eq!(sums.known(QUEUE, now), None);
        assert_eq!(sums.known(QUEUE, now), Some(0), "somebody asks already");
        sums.announce(QUEUE, 7);
        assert_eq!(sums.known(QUEUE, now), Some(7));
        let later = now + GOOD_FOR;
        assert_eq!(sums.known(QUEUE, later), None);
        assert_eq!(sums.known(QUEUE, later), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_queues_are_kept() {
        let (sums, now) = (InFlight::default(), Instant::now());
        for number in 0..2 * QUEUES_MAX {
            assert_eq!(sums.known(QueueId(number as u64), now), None);
        }
        let later = now + GOOD_FOR;
        assert_eq!(sums.known(QUEUE, later), None);
        let kept = sums.0.lock().expect("no panic under this lock").len();
        assert_eq!(kept, 1);
    }
}
