//! The wall clocks of the other nodes, as read over the control streams, against our own.
//!
//! A node whose clock is far from the median must not lead: T is steered by wall clocks, and only
//! the median of them can be trusted (DESIGN section 5, "One clock"). One clock, or one of two,
//! proves nothing about another; a verdict takes three.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// How long a reading counts.
const FRESH: Duration = Duration::from_secs(10);

/// A reading that took longer says too little.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);

/// Clocks, this node's included, that it takes to say which is wrong.
const CLOCKS_MIN: usize = 3;

/// This node's wall clock.
pub trait WallClock: Send + Sync + 'static {
    /// Milliseconds since the epoch.
    fn wall_clock_ms(&self) -> u64;
}

/// Readings of the other nodes' clocks. Clones share them.
#[derive(Clone)]
pub struct Clocks {
    own: Arc<dyn WallClock>,
    readings: Arc<Mutex<BTreeMap<u64, Reading>>>,
}

#[derive(Clone, Copy)]
struct Reading {
    /// The other clock minus ours.
    offset_ms: i64,
    at: Instant,
}

impl Clocks {
    pub fn new(own: Arc<dyn WallClock>) -> Self {
        Self {
            own,
            readings: Arc::default(),
        }
    }

    pub fn wall_clock_ms(&self) -> u64 {
        self.own.wall_clock_ms()
    }

    /// Notes that the clock of `node` showed `wall_clock_ms` somewhere within the last `round_trip`.
    pub fn read(&self, node: u64, wall_clock_ms: u64, round_trip: Duration) {
        if round_trip > ROUND_TRIP_MAX {
            return;
        }
        let half_ms = round_trip.as_millis() as i128 / 2;
        let offset = i128::from(wall_clock_ms) + half_ms - i128::from(self.own.wall_clock_ms());
        let bound = i128::from(i64::MAX);
        let reading = Reading {
            offset_ms: offset.clamp(-bound, bound) as i64,
            at: Instant::now(),
        };
        self.lock().insert(node, reading);
    }

    /// How far this node's wall clock is ahead of the median of all, milliseconds; `None` while too
    /// few are known to say which is wrong.
    pub fn skew_ms(&self) -> Option<i64> {
        let now = Instant::now();
        let mut offsets: Vec<i64> = self
            .lock()
            .values()
            .filter(|reading| now - reading.at <= FRESH)
            .map(|reading| reading.offset_ms)
            .chain([0])
            .collect();
        offsets.sort_unstable();
        // With an even number, the one of the two in the middle that is nearer to ours: no alarm for
        // what another choice would not show.
        let (lower, upper) = (offsets[(offsets.len() - 1) / 2], offsets[offsets.len() / 2]);
        let median = if lower.abs() <= upper.abs() {
            lower
        } else {
            upper
        };
        (offsets.len() >= CLOCKS_MIN).then_some(-median)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Reading>> {
        self.readings
            .lock()
            .expect("no panic happens under this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct At(u64);

    impl WallClock for At {
        fn wall_clock_ms(&self) -> u64 {
            self.0
        }
    }

    fn clocks(own: u64) -> Clocks {
        Clocks::new(Arc::new(At(own)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_other_clock_proves_nothing() {
        let clocks = clocks(100_000);
        clocks.read(2, 900_000, Duration::ZERO);
        assert_eq!(clocks.skew_ms(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_odd_one_out_knows_it() {
        let clocks = clocks(100_000);
        clocks.read(2, 107_000, Duration::from_millis(20));
        clocks.read(3, 107_004, Duration::from_millis(20));
        assert_eq!(clocks.skew_ms(), Some(-7_010));
    }

    #[tokio::test(start_paused = true)]
    async fn another_s_odd_clock_is_not_ours() {
        let clocks = clocks(100_000);
        clocks.read(2, 900_000, Duration::ZERO);
        clocks.read(3, 100_003, Duration::ZERO);
        assert_eq!(clocks.skew_ms(), Some(-3));
    }

    #[tokio::test(start_paused = true)]
    async fn readings_grow_old() {
        let clocks = clocks(100_000);
        clocks.read(2, 107_000, Duration::ZERO);
        clocks.read(3, 107_000, Duration::ZERO);
        tokio::time::advance(FRESH + Duration::from_millis(1)).await;
        clocks.read(3, 107_000, Duration::ZERO);
        assert_eq!(clocks.skew_ms(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_and_absurd_readings_do_no_harm() {
        let clocks = clocks(100_000);
        clocks.read(2, 107_000, Duration::from_secs(2));
        clocks.read(3, u64::MAX, Duration::ZERO);
        clocks.read(4, 100_000, Duration::ZERO);
        assert_eq!(clocks.skew_ms(), Some(0));
    }
}
