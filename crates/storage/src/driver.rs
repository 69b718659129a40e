//! Runs the writer, the reclaimer and the scrubber: as threads, or as tasks of a simulation.
//!
//! Whoever opened the log owns them through `Drivers`: closing waits for all, dropping tells them to
//! stop.

use crate::engine::{Engine, lock};
use crate::types::Work;
use crate::writer::Step;
use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long someone waits who waits for a signal only.
const LONG: Duration = Duration::from_secs(3600);

/// The shortest pause of the compactor.
const PAUSE: Duration = Duration::from_millis(2);

/// The running writer, reclaimer and scrubber.
pub(crate) struct Drivers {
    engine: Arc<Engine>,
    /// Dropped by a driver when it ends.
    ended: Mutex<Vec<oneshot::Receiver<()>>>,
}

impl Drivers {
    pub(crate) fn start(engine: Arc<Engine>) -> io::Result<Drivers> {
        let (write_ended, writing) = oneshot::channel();
        let (reclaim_ended, reclaiming) = oneshot::channel();
        let (scrub_ended, scrubbing) = oneshot::channel();
        let (for_writer, for_reclaimer) = (engine.clone(), engine.clone());
        let for_scrub = engine.clone();
        match engine.work {
            Work::Thread => {
                spawn("hikyaku-log", move || {
                    write_loop(&for_writer);
                    // The disk is free for another log as soon as the end is told.
                    drop(for_writer);
                    drop(write_ended);
                })?;
                spawn("hikyaku-reclaim", move || {
                    reclaim_loop(&for_reclaimer);
                    drop(for_reclaimer);
                    drop(reclaim_ended);
                })?;
                spawn("hikyaku-scrub", move || {
                    scrub_loop(&for_scrub);
                    drop(for_scrub);
                    drop(scrub_ended);
                })?;
            }
            Work::Task => {
                tokio::spawn(async move {
                    write_task(&for_writer).await;
                    drop(for_writer);
                    drop(write_ended);
                });
                tokio::spawn(async move {
                    reclaim_task(&for_reclaimer).await;
                    drop(for_reclaimer);
                    drop(reclaim_ended);
                });
                tokio::spawn(async move {
                    scrub_task(&for_scrub).await;
                    drop(for_scrub);
                    drop(scrub_ended);
                });
            }
        }
        Ok(Drivers {
            engine,
            ended: Mutex::new(vec![writing, reclaiming, scrubbing]),
        })
    }

    /// Writes what waits, leaves a closing mark, and waits until all have ended.
    pub(crate) async fn stop(&self) {
        self.tell();
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for receiver in ended {
            // The sender is dropped, not used: an error is how the end is told.
            let _ = receiver.await;
        }
    }

    fn tell(&self) {
        self.engine.stopping.store(true, Ordering::Release);
        self.engine.writer_signal.raise();
        self.engine.reclaim_signal.raise();
        self.engine.scrub_signal.raise();
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        self.tell();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
}

/// What the writer does next.
enum Next {
    Again,
    /// Wait so long for work; then leave a mark if `mark`.
    Wait {
        limit: Duration,
        mark: bool,
    },
    End,
}

fn write_step(engine: &Engine) -> Next {
    let mut writer = lock(&engine.writer);
    let stopping = engine.stopping.load(Ordering::Acquire);
    match writer.step(engine) {
        Step::Wrote => Next::Again,
        Step::Dead => Next::End,
        Step::Full if stopping => {
            writer.give_up();
            engine.close_queue();
            Next::End
        }
        Step::Full => {
            let limit = Duration::from_millis(engine.config.full_disk_retry_ms);
            Next::Wait { limit, mark: false }
        }
        Step::Idle if stopping => {
            {
                let mut queue = engine.queue();
                if !queue.pending.is_empty() {
                    return Next::Again;
                }
                queue.closed = true;
            }
            writer.mark(engine, true);
            Next::End
        }
        Step::Idle if writer.is_marked() => Next::Wait {
            limit: LONG,
            mark: false,
        },
        Step::Idle => {
            let limit = Duration::from_millis(engine.config.idle_mark_ms);
            Next::Wait { limit, mark: true }
        }
    }
}

fn write_loop(engine: &Engine) {
    loop {
        match write_step(engine) {
            Next::Again => {}
            Next::End => return,
            Next::Wait { limit, mark } => {
                if !engine.writer_signal.wait_blocking(limit) && mark {
                    lock(&engine.writer).mark(engine, false);
                }
            }
        }
    }
}

async fn write_task(engine: &Engine) {
    loop {
        match write_step(engine) {
            Next::Again => tokio::task::yield_now().await,
            Next::End => return,
            Next::Wait { limit, mark } => {
                if !engine.writer_signal.wait(limit).await && mark {
                    lock(&engine.writer).mark(engine, false);
                }
            }
        }
    }
}

fn reclaim_loop(engine: &Engine) {
    let rate = engine.config.compaction_bytes_per_second;
    // Small sleeps are imprecise: bytes are gathered until they are worth one.
    let owed = Cell::new(0);
    let pace = |bytes: u64| {
        owed.set(owed.get() + bytes);
        let pause = Duration::from_nanos(owed.get().saturating_mul(1_000_000_000) / rate);
        // A full disk is no time to be polite, and neither is the end.
        let hurry = !engine.room.load(Ordering::Acquire) || engine.stopping.load(Ordering::Acquire);
        if pause >= PAUSE && !hurry {
            owed.set(0);
            std::thread::sleep(pause);
        }
    };
    let interval = Duration::from_millis(engine.config.reclaim_interval_ms);
    while !engine.stopping.load(Ordering::Acquire) && !engine.is_dead() {
        lock(&engine.reclaimer).run(engine, &pace);
        engine.reclaim_signal.wait_blocking(interval);
    }
}

async fn reclaim_task(engine: &Engine) {
    let interval = Duration::from_millis(engine.config.reclaim_interval_ms);
    while !engine.stopping.load(Ordering::Acquire) && !engine.is_dead() {
        lock(&engine.reclaimer).run(engine, &|_| {});
        engine.reclaim_signal.wait(interval).await;
    }
}

/// Pauses of the scrub are cut into pieces of this length, so that an end need not wait for them.
const SCRUB_PAUSE: Duration = Duration::from_millis(50);

fn ends(engine: &Engine) -> bool {
    engine.stopping.load(Ordering::Acquire) || engine.is_dead()
}

fn scrub_loop(engine: &Engine) {
    let rate = engine.config.scrub_bytes_per_second;
    let pace = |bytes: u64| {
        let mut rest = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1));
        while !rest.is_zero() && !ends(engine) {
            let piece = rest.min(SCRUB_PAUSE);
            std::thread::sleep(piece);
            rest -= piece;
        }
    };
    let pause = Duration::from_millis(engine.config.scrub_pause_ms);
    while rate > 0 && !ends(engine) {
        lock(&engine.scrubber).pass(engine, &pace);
        engine.scrub_signal.wait_blocking(pause);
    }
}

async fn scrub_task(engine: &Engine) {
    let rate = engine.config.scrub_bytes_per_second;
    let pause = Duration::from_millis(engine.config.scrub_pause_ms);
    while rate > 0 && !ends(engine) {
        // Nothing sleeps in the middle of a file here: the pause comes after the whole pass.
        let read = Cell::new(0);
        lock(&engine.scrubber).pass(engine, &|bytes| read.set(read.get() + bytes));
        let owed = Duration::from_nanos(read.get().saturating_mul(1_000_000_000) / rate);
        engine.scrub_signal.wait(pause + owed).await;
    }
}
