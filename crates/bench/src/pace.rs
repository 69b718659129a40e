//! When a producer sends next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::meter::Clock;

/// The longest nap of the thread that makes sends due: it looks whether it is to stop in between.
const NAP_LIMIT: Duration = Duration::from_millis(50);

/// The shortest, for which a thread is worth waking: what became due meanwhile is a little late, and
/// its latency counts from when it was due.
const NAP_MINIMUM: Duration = Duration::from_micros(50);

/// What one producer, or all of them together, go by.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// As fast as answers come.
    Closed,
    /// Until so many messages are sent.
    Until(Arc<AtomicU64>),
    /// As many messages as are deleted.
    Kept(Arc<Depth>),
    /// At the instants of a schedule.
    Scheduled(Arc<Schedule>),
}

/// What a producer is to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) messages: usize,
    /// When it was due, if there is a schedule.
    pub(crate) due: Option<u64>,
}

/// Ends a stage for all who hold one.
pub(crate) type Stop = watch::Receiver<bool>;

impl Pace {
    /// Waits for the next turn of up to `batch` messages. `None` when the stage is over.
    pub(crate) async fn turn(&self, batch: usize, stop: &mut Stop) -> Option<Turn> {
        if *stop.borrow() {
            return None;
        }
        let all = Turn {
            messages: batch,
            due: None,
        };
        match self {
            Self::Closed => Some(all),
            Self::Until(left) => {
                let take = |left: u64| left.checked_sub((batch as u64).min(left));
                let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
                let before = before.expect("a part of it can be taken");
                let messages = batch.min(usize::try_from(before).unwrap_or(batch));
                (messages > 0).then_some(Turn {
                    messages,
                    due: None,
                })
            }
            Self::Kept(depth) => got(depth.owed.acquire_many(permits(batch)), stop)
                .await
                .then_some(all),
            Self::Scheduled(schedule) => {
                let is_due = got(schedule.due.acquire(), stop).await;
                is_due.then(|| Turn {
                    messages: batch,
                    due: Some(schedule.take()),
                })
            }
        }
    }

    /// What came of a turn: what was not sent is to be sent again.
    pub(crate) fn done(&self, sent: usize, unsent: usize) {
        match self {
            Self::Until(left) => {
                left.fetch_add(unsent as u64, Ordering::SeqCst);
            }
            Self::Kept(depth) => {
                depth.owed.add_permits(unsent);
                depth.room.add_permits(sent);
            }
            Self::Closed | Self::Scheduled(_) => {}
        }
    }

    /// Whether a producer has time to wait after an error.
    pub(crate) fn has_time(&self) -> bool {
        !matches!(self, Self::Scheduled(_))
    }
}

/// Keeps a backlog as deep as it is: a message is sent for each that is deleted, and no more are
/// received than may be missing.
#[derive(Debug)]
pub(crate) struct Depth {
    /// Messages deleted and not yet replaced.
    owed: Semaphore,
    /// Messages that may still be received before others are sent.
    room: Semaphore,
}

/// The part of a backlog that may be missing: one in so many messages.
const MISSING_PART: u64 = 10;

impl Depth {
    /// Of a backlog of so many messages, received up to `batch` at a time.
    pub(crate) fn of(backlog: u64, batch: u32) -> Self {
        let missing = usize::try_from(backlog / MISSING_PART).unwrap_or(usize::MAX);
        let room = missing.clamp(batch as usize, Semaphore::MAX_PERMITS / 4);
        Self {
            owed: Semaphore::new(0),
            room: Semaphore::new(room),
        }
    }

    /// Waits for room for a receive of up to `batch` messages.
    pub(crate) async fn reserve(&self, batch: usize) {
        let room = self.room.acquire_many(permits(batch)).await;
        room.expect("nobody closes it").forget();
    }

    /// A receive brought fewer than it had room for.
    pub(crate) fn give_back(&self, messages: usize) {
        self.room.add_permits(messages);
    }

    pub(crate) fn deleted(&self, messages: usize) {
        self.owed.add_permits(messages);
    }

    /// The backlog need not be kept any more.
    pub(crate) fn release(&self) {
        self.room.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

fn permits(messages: usize) -> u32 {
    u32::try_from(messages).expect("ten messages at most")
}

/// Whether permits were got, and used, before the stage was over.
async fn got<'a>(
    permits: impl Future<Output = Result<tokio::sync::SemaphorePermit<'a>, tokio::sync::AcquireError>>,
    stop: &mut Stop,
) -> bool {
    // Neither branch has anything to lose: the loser has no permits.
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => false,
        permits = permits => {
            permits.expect("nobody closes it").forget();
            true
        }
    }
}

/// Instants at even distances, taken in their order by whichever producer is free.
///
/// A thread of its own makes them due: the runtime's timers are a millisecond coarse.
#[derive(Debug)]
pub(crate) struct Schedule {
    begin: u64,
    /// Nanoseconds.
    interval: f64,
    due: Semaphore,
    taken: AtomicU64,
}

impl Schedule {
    /// Sends of `batch` messages, `rate` messages a second, from `begin` on.
    pub(crate) fn new(begin: u64, batch: u32, rate: f64) -> Self {
        Self {
            begin,
            interval: f64::from(batch) / rate * 1e9,
            due: Semaphore::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// The instant of a send, by its number.
    fn instant(&self, number: u64) -> u64 {
        self.begin + (number as f64 * self.interval) as u64
    }

    /// The next instant that was made due.
    fn take(&self) -> u64 {
        self.instant(self.taken.fetch_add(1, Ordering::SeqCst))
    }

    /// Sends that are due and that no producer was free for.
    pub(crate) fn untaken(&self) -> u64 {
        self.due.available_permits() as u64
    }
}

/// The thread that makes a schedule's sends due.
#[derive(Debug)]
pub(crate) struct Pacer {
    schedule: Arc<Schedule>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Pacer {
    pub(crate) fn start(clock: Clock, schedule: Arc<Schedule>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("pacer".to_owned()).spawn({
            let (schedule, stop) = (Arc::clone(&schedule), Arc::clone(&stop));
            move || make_due(clock, &schedule, &stop)
        })?;
        Ok(Self {
            schedule,
            stop,
            thread,
        })
    }

    /// Stops it, and gives back how many sends were due and not begun.
    pub(crate) fn stop(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
        self.schedule.untaken()
    }
}

fn make_due(clock: Clock, schedule: &Schedule, stop: &AtomicBool) {
    let mut next = 0;
    while !stop.load(Ordering::SeqCst) {
        let now = clock.now();
        let first = next;
        while schedule.instant(next) <= now {
            next += 1;
        }
        schedule
            .due
            .add_permits(usize::try_from(next - first).expect("as many as are awake for"));
        let nap = Duration::from_nanos(schedule.instant(next).saturating_sub(clock.now()));
        thread::sleep(nap.clamp(NAP_MINIMUM, NAP_LIMIT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop() -> (watch::Sender<bool>, Stop) {
        watch::channel(false)
    }

    #[tokio::test]
    async fn a_preload_is_of_exactly_so_many() {
        let (_stop, mut stopped) = stop();
        let pace = Pace::Until(Arc::new(AtomicU64::new(25)));
        let mut turns = Vec::new();
        while let Some(turn) = pace.turn(10, &mut stopped).await {
            turns.push(turn.messages);
        }
        assert_eq!(turns, [10, 10, 5]);
        pace.done(2, 3);
        assert_eq!(pace.turn(10, &mut stopped).await.unwrap().messages, 3);
    }

    #[tokio::test]
    async fn a_depth_is_kept_from_both_sides() {
        let (stop, mut stopped) = stop();
        let depth = Arc::new(Depth::of(200, 10));
        let pace = Pace::Kept(Arc::clone(&depth));
        depth.reserve(10).await;
        depth.reserve(10).await;
        assert_eq!(depth.room.available_permits(), 0);
        depth.give_back(5);
        depth.deleted(15);
        assert!(pace.turn(10, &mut stopped).await.is_some());
        pace.done(9, 1);
        assert_eq!(depth.owed.available_permits(), 6);
        assert_eq!(depth.room.available_permits(), 14);
        stop.send_replace(true);
        assert!(pace.turn(10, &mut stopped).await.is_none());
    }

    #[tokio::test]
    async fn a_late_send_is_still_due_when_it_was() {
        let (_stop, mut stopped) = stop();
        // 100 messages a second in batches of 10: every 100 ms.
        let schedule = Arc::new(Schedule::new(1_000, 10, 100.0));
        schedule.due.add_permits(3);
        let pace = Pace::Scheduled(Arc::clone(&schedule));
        for due in [1_000, 100_001_000] {
            let turn = pace.turn(10, &mut stopped).await.unwrap();
            assert_eq!(turn.due, Some(due));
        }
        assert_eq!(schedule.untaken(), 1);
    }

    #[test]
    fn the_pacer_makes_due_what_the_clock_has_passed() {
        let clock = Clock::start();
        let schedule = Arc::new(Schedule::new(clock.now(), 1, 1e6));
        let pacer = Pacer::start(clock, Arc::clone(&schedule)).unwrap();
        while schedule.untaken() < 1_000 {
            thread::yield_now();
        }
        let due = pacer.stop();
        assert!(schedule.instant(due - 1) <= clock.now());
    }
}
