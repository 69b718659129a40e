//! One partition's T, as this replica knows it (DESIGN section 5, "One clock").
//!
//! T is the leader's: it advances with the leader's monotonic clock, slewed by at most 200 ppm
//! towards the median wall clock of the voters. A follower remembers the last T it heard and when,
//! so what it believes is at most what the leader has. A new leader starts from the latest it or a
//! follower has heard; only when nobody has heard a T since its start does it start from the wall
//! clocks' median. No single wall clock can move T.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hikyaku_queue::LATEST_T;
use hikyaku_raft::GroupClock;

use crate::ports::Clock;

/// How fast T may be steered towards the wall clocks, parts per million.
const SLEW_PPM: u64 = 200;

/// How far a replica's belief may run ahead of a T it hears (clocks differ in rate), microseconds.
const AHEAD_US: u64 = 5_000;

/// T of one partition. Shared by the partition's leader task, the router and the raft transport.
pub struct PartitionClock {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The latest T known and the monotonic instant at which it was true.
    known: Option<Point>,
    leading: bool,
    /// The monotonic instant at which a leader was last heard, or this was one.
    leader_at: Option<Duration>,
    /// Other voters' wall clocks minus ours, milliseconds, by node.
    offsets_ms: BTreeMap<u64, i64>,
}

#[derive(Clone, Copy)]
struct Point {
    time_us: u64,
    at: Duration,
}

impl Point {
    fn extended_to(self, now: Duration) -> u64 {
        self.time_us + micros(now.saturating_sub(self.at))
    }
}

impl PartitionClock {
    /// A clock that knows no T yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
        }
    }

    /// Takes over T. `applied_ms` is the T of the last applied entry.
    pub fn lead(&self, applied_ms: u64) {
        let now = self.clock.monotonic();
        let mut state = self.lock();
        let start_us = match state.known {
            Some(known) => known.extended_to(now),
            None => self.median_wall_ms(&state).saturating_mul(1_000),
        };
        let time_us = start_us.max(applied_ms.saturating_mul(1_000));
        state.known = Some(Point { time_us, at: now });
        state.leading = true;
    }

    /// Whether [`PartitionClock::lead`] would start from what it should: from a T that was heard, or
    /// from the clocks of all `others` voters.
    pub fn is_ready_to_lead(&self, others: usize) -> bool {
        let state = self.lock();
        state.known.is_some() || state.offsets_ms.len() >= others
    }

    /// Gives T up; what is known stays known.
    pub fn follow(&self) {
        let mut state = self.lock();
        if state.leading {
            self.advance(&mut state);
            state.leading = false;
            state.leader_at = Some(self.clock.monotonic());
        }
    }

    /// T now, milliseconds: exact on the leader, a lower bound on a follower, `None` when no T was
    /// heard since this replica started.
    pub fn now_ms(&self) -> Option<u64> {
        let mut state = self.lock();
        if state.leading {
            self.advance(&mut state);
        }
        let now = self.clock.monotonic();
        state.known.map(|known| known.extended_to(now) / 1_000)
    }

    /// How long ago a leader was heard; nothing on the leader itself, `None` when none was. What other
    /// followers believe does not count.
    pub fn leader_age(&self) -> Option<Duration> {
        let state = self.lock();
        let age = |at| self.clock.monotonic().saturating_sub(at);
        match state.leading {
            true => Some(Duration::ZERO),
            false => state.leader_at.map(age),
        }
    }

    /// Moves a leader's T to this moment, steered towards the wall clocks.
    fn advance(&self, state: &mut State) {
        let now = self.clock.monotonic();
        let known = state.known.expect("a leader knows T");
        let elapsed_us = micros(now.saturating_sub(known.at));
        let time_us = known.time_us + elapsed_us;
        let target_us = self.median_wall_ms(state).saturating_mul(1_000);
        let step = (elapsed_us * SLEW_PPM / 1_000_000).min(time_us.abs_diff(target_us));
        if step == 0 && time_us != target_us {
            return; // too short a time to steer in; it adds up
        }
        let time_us = if target_us > time_us {
            time_us + step
        } else {
            time_us - step
        };
        state.known = Some(Point { time_us, at: now });
    }

    fn median_wall_ms(&self, state: &State) -> u64 {
        let mut offsets: Vec<i64> = state.offsets_ms.values().copied().chain([0]).collect();
        offsets.sort_unstable();
        // With an even number, the lower of the two in the middle.
        let median = self
            .clock
            .wall_ms()
            .saturating_add_signed(offsets[(offsets.len() - 1) / 2]);
        // Clocks set beyond what an entry can carry must not stop the leader.
        median.min(LATEST_T)
    }

    fn hear(&self, state: &mut State, time_ms: u64) {
        let now = self.clock.monotonic();
        let heard_us = time_ms.saturating_mul(1_000);
        let believed_us = state.known.map_or(0, |known| known.extended_to(now));
        let time_us = heard_us.max(believed_us.min(heard_us.saturating_add(AHEAD_US)));
        state.known = Some(Point { time_us, at: now });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic happens under this lock")
    }
}

/// A duration as it stands in messages.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl GroupClock for PartitionClock {
    fn leader_time_ms(&self) -> u64 {
        let leading = self.lock().leading;
        if leading {
            self.now_ms().unwrap_or(0)
        } else {
            0
        }
    }

    fn heard_leader_time(&self, time_ms: u64) {
        let mut state = self.lock();
        // A T that no entry could carry is nobody's T.
        if !state.leading && time_ms <= LATEST_T {
            self.hear(&mut state, time_ms);
            state.leader_at = Some(self.clock.monotonic());
        }
    }

    fn believed_time_ms(&self) -> u64 {
        self.now_ms().unwrap_or(0)
    }

    fn heard_follower(&self, node: u64, wall_clock_ms: u64, believed_time_ms: u64) {
        let own_wall = self.clock.wall_ms();
        let offset = i64::try_from(i128::from(wall_clock_ms) - i128::from(own_wall));
        let mut state = self.lock();
        state.offsets_ms.insert(node, offset.unwrap_or(0));
        // Before it serves, a new leader learns the latest T that a follower has heard.
        if !state.leading && (1..=LATEST_T).contains(&believed_time_ms) {
            let now = self.clock.monotonic();
            let believed_us = state.known.map_or(0, |known| known.extended_to(now));
            let time_us = believed_us.max(believed_time_ms.saturating_mul(1_000));
            state.known = Some(Point { time_us, at: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Hands {
        monotonic_ms: AtomicU64,
        wall_ms: AtomicU64,
    }

    impl Hands {
        fn pass(&self, ms: u64) {
            self.monotonic_ms.fetch_add(ms, Ordering::Relaxed);
            self.wall_ms.fetch_add(ms, Ordering::Relaxed);
        }
    }

    impl Clock for Hands {
        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.monotonic_ms.load(Ordering::Relaxed))
        }

        fn wall_ms(&self) -> u64 {
            self.wall_ms.load(Ordering::Relaxed)
        }
    }

    fn clock_at(wall_ms: u64) -> (Arc<Hands>, PartitionClock) {
        let hands = Arc::new(Hands::default());
        hands.wall_ms.store(wall_ms, Ordering::Relaxed);
        (Arc::clone(&hands), PartitionClock::new(hands))
    }

    #[test]
    fn a_leader_that_heard_nothing_starts_from_the_wall_clocks() {
        let (hands, clock) = clock_at(50_000);
        assert_eq!(clock.now_ms(), None);
        clock.heard_follower(2, 51_000, 0);
        clock.heard_follower(3, 90_000, 0);
        clock.lead(7);
        assert_eq!(clock.now_ms(), Some(51_000));
        hands.pass(10);
        assert_eq!(clock.now_ms(), Some(51_010));
    }

    #[test]
    fn a_new_leader_continues_from_what_was_heard() {
        let (hands, clock) = clock_at(900_000);
        clock.heard_leader_time(20_000);
        hands.pass(500);
        clock.heard_follower(2, 900_500, 20_700);
        clock.lead(19_000);
        assert_eq!(clock.now_ms(), Some(20_700));
    }

    #[test]
    fn never_starts_below_what_is_applied() {
        let (_, clock) = clock_at(1_000);
        clock.lead(5_000);
        assert_eq!(clock.now_ms(), Some(5_000));
    }

    #[test]
    fn a_jump_of_the_wall_clock_moves_t_by_the_slew_alone() {
        let (hands, clock) = clock_at(1_000_000);
        clock.lead(0);
        hands.wall_ms.fetch_add(3_600_000, Ordering::Relaxed);
        for _ in 0..1_000 {
            hands.pass(1_000);
            clock.now_ms();
        }
        assert_eq!(clock.now_ms(), Some(2_000_000 + 200));
    }

    #[test]
    fn wall_clocks_beyond_all_time_are_cut_off() {
        let (_, clock) = clock_at(u64::MAX);
        clock.lead(0);
        assert_eq!(clock.now_ms(), Some(LATEST_T));
    }

    #[test]
    fn who_hears_followers_alone_has_heard_no_leader() {
        let (hands, clock) = clock_at(50_000);
        clock.heard_follower(2, 50_000, 20_000);
        assert_eq!(clock.leader_age(), None);
        clock.heard_leader_time(20_000);
        hands.pass(700);
        clock.heard_follower(2, 50_700, 20_700);
        assert_eq!(clock.leader_age(), Some(Duration::from_millis(700)));
        clock.lead(20_700);
        hands.pass(300);
        assert_eq!(clock.leader_age(), Some(Duration::ZERO));
        clock.follow();
        hands.pass(200);
        assert_eq!(clock.leader_age(), Some(Duration::from_millis(200)));
    }

    #[test]
    fn a_belief_never_runs_far_ahead_of_what_is_heard() {
        let (hands, clock) = clock_at(0);
        clock.heard_leader_time(1_000);
        hands.pass(100);
        clock.heard_leader_time(1_050);
        assert_eq!(clock.now_ms(), Some(1_055));
    }
}
