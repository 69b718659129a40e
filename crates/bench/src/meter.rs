//! What a run measures: latencies, messages and calls of the measured window, errors of all of it.
//!
//! Latencies are those of calls that began (or were due) within the window, however late their answers
//! came; rates count what was answered within it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::connection::CallError;

/// The longest latency that is told from longer ones, in microseconds: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Digits of a latency that are kept: within 0.1 %.
const DIGITS: u8 = 3;

/// The one clock of a run: nanoseconds since its begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).expect("a run of less than 584 years")
    }
}

/// The three things that clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Send,
    Receive,
    Delete,
}

/// What was measured of one of them.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Messages acknowledged, received or deleted.
    pub(crate) messages: u64,
    pub(crate) calls: u64,
    /// Receives that brought nothing; they have no latency.
    pub(crate) empty: u64,
    /// Microseconds.
    pub(crate) latencies: Histogram<u64>,
    pub(crate) errors: Errors,
}

/// Calls and batch entries that failed, by the error's name.
pub(crate) type Errors = BTreeMap<String, u64>;

/// Collects from all clients.
#[derive(Debug)]
pub(crate) struct Meter {
    from: AtomicU64,
    until: AtomicU64,
    deeds: [Mutex<Figures>; 3],
    end_to_end: Mutex<Histogram<u64>>,
    other_errors: Mutex<Errors>,
}

/// What the meter has at the end.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// Length of the window, in nanoseconds.
    pub(crate) window: u64,
    /// In the order of [`Deed`].
    pub(crate) deeds: [Figures; 3],
    pub(crate) end_to_end: Histogram<u64>,
    /// Outside the window.
    pub(crate) other_errors: Errors,
}

impl Measured {
    pub(crate) fn of(&self, deed: Deed) -> &Figures {
        &self.deeds[deed as usize]
    }
}

/// One call, answered or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) deed: Deed,
    /// When it began or was due, and when it ended.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// What was achieved.
    pub(crate) messages: usize,
}

impl Meter {
    /// A meter whose window is not open.
    pub(crate) fn new() -> Self {
        let figures = || {
            Mutex::new(Figures {
                messages: 0,
                calls: 0,
                empty: 0,
                latencies: histogram(),
                errors: Errors::new(),
            })
        };
        Self {
            from: AtomicU64::new(u64::MAX),
            until: AtomicU64::new(u64::MAX),
            deeds: [figures(), figures(), figures()],
            end_to_end: Mutex::new(histogram()),
            other_errors: Mutex::default(),
        }
    }

    pub(crate) fn open_window(&self, now: u64) {
        self.from.store(now, Ordering::SeqCst);
    }

    pub(crate) fn close_window(&self, now: u64) {
        self.until.store(now, Ordering::SeqCst);
    }

    fn in_window(&self, at: u64) -> bool {
        (self.from.load(Ordering::SeqCst)..self.until.load(Ordering::SeqCst)).contains(&at)
    }

    /// Counts a call that has an answer.
    pub(crate) fn answered(&self, call: Call) {
        let (begun, ended) = (self.in_window(call.begun), self.in_window(call.ended));
        if !begun && !ended {
            return;
        }
        let is_empty = call.deed == Deed::Receive && call.messages == 0;
        let mut figures = locked(&self.deeds[call.deed as usize]);
        if ended {
            figures.calls += 1;
            figures.messages += call.messages as u64;
            figures.empty += u64::from(is_empty);
        }
        if begun && !is_empty {
            record(&mut figures.latencies, call.begun, call.ended);
        }
    }

    /// Counts a call that failed as a whole. A call given up counts among the latencies: leaving out
    /// the worst would flatter them, as quick refusals would.
    pub(crate) fn failed(&self, call: Call, error: &CallError) {
        if self.in_window(call.begun) && matches!(error, CallError::TooSlow(_)) {
            let mut figures = locked(&self.deeds[call.deed as usize]);
            record(&mut figures.latencies, call.begun, call.ended);
        }
        self.error(call.deed, call.ended, error.code());
    }

    /// Counts an error: of a call, or of an entry of a batch.
    pub(crate) fn error(&self, deed: Deed, at: u64, code: &str) {
        if self.in_window(at) {
            add(&mut locked(&self.deeds[deed as usize]).errors, code);
        } else {
            add(&mut locked(&self.other_errors), code);
        }
    }

    /// Counts the way of a message that was sent within the window.
    pub(crate) fn arrived(&self, sent_at: u64, now: u64) {
        if self.in_window(sent_at) {
            record(&mut locked(&self.end_to_end), sent_at, now);
        }
    }

    /// Errors outside the window so far.
    pub(crate) fn other_errors(&self) -> Errors {
        locked(&self.other_errors).clone()
    }

    pub(crate) fn result(&self) -> Measured {
        let from = self.from.load(Ordering::SeqCst);
        let until = self.until.load(Ordering::SeqCst);
        Measured {
            window: until.saturating_sub(from),
            deeds: [0, 1, 2].map(|deed| locked(&self.deeds[deed]).clone()),
            end_to_end: locked(&self.end_to_end).clone(),
            other_errors: self.other_errors(),
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("bounds that a histogram can have")
}

fn record(latencies: &mut Histogram<u64>, begun: u64, ended: u64) {
    latencies.saturating_record(ended.saturating_sub(begun) / 1_000);
}

fn add(errors: &mut Errors, code: &str) {
    match errors.get_mut(code) {
        Some(count) => *count += 1,
        None => drop(errors.insert(code.to_owned(), 1)),
    }
}

/// The lock of a value that is whole even if a client that held it panicked, which ends the run.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn call(deed: Deed, begun: u64, ended: u64, messages: usize) -> Call {
        Call {
            deed,
            begun: begun * MS,
            ended: ended * MS,
            messages,
        }
    }

    fn measuring(calls: &[Call]) -> Measured {
        let meter = Meter::new();
        meter.open_window(100 * MS);
        meter.close_window(200 * MS);
        calls.iter().for_each(|call| meter.answered(*call));
        meter.result()
    }

    #[test]
    fn latencies_are_of_what_begins_and_rates_of_what_ends_in_the_window() {
        let measured = measuring(&[
            call(Deed::Send, 90, 99, 1),
            call(Deed::Send, 90, 110, 2),
            call(Deed::Send, 110, 120, 4),
            call(Deed::Send, 190, 5_190, 8),
            call(Deed::Send, 200, 210, 16),
        ]);
        let sends = measured.of(Deed::Send);
        assert_eq!((sends.calls, sends.messages), (2, 6));
        assert_eq!(sends.latencies.len(), 2);
        let longest = sends.latencies.max();
        assert!((4_990_000..5_010_000).contains(&longest), "{longest}");
        assert_eq!(measured.window, 100 * MS);
    }

    #[test]
    fn an_empty_receive_has_no_latency() {
        let measured = measuring(&[
            call(Deed::Receive, 110, 120, 0),
            call(Deed::Receive, 110, 120, 3),
        ]);
        let receives = measured.of(Deed::Receive);
        assert_eq!(
            (receives.calls, receives.empty, receives.messages),
            (2, 1, 3)
        );
        assert_eq!(receives.latencies.len(), 1);
    }

    #[test]
    fn errors_of_the_window_are_apart_from_the_others() {
        let meter = Meter::new();
        meter.error(Deed::Send, 5, "Before");
        meter.open_window(10);
        let refused = CallError::Refused {
            status: 400,
            code: "Within".to_owned(),
            message: String::new(),
        };
        meter.failed(call(Deed::Send, 1, 2, 0), &refused);
        let too_slow = CallError::TooSlow(std::time::Duration::from_secs(2));
        meter.failed(call(Deed::Delete, 1, 3, 0), &too_slow);
        meter.close_window(4 * MS);
        meter.error(Deed::Send, 5 * MS, "After");
        let measured = meter.result();
        let one = |code: &str| Errors::from([(code.to_owned(), 1)]);
        assert_eq!(measured.of(Deed::Send).errors, one("Within"));
        assert_eq!(measured.of(Deed::Send).latencies.len(), 0);
        assert_eq!(measured.of(Deed::Delete).errors, one("(no answer in time)"));
        assert_eq!(measured.of(Deed::Delete).latencies.len(), 1);
        let others: Vec<_> = measured.other_errors.keys().collect();
        assert_eq!(others, ["After", "Before"]);
    }
}
