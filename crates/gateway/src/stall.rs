//! A stream that ends by itself when its client stalls, or sends too much before it proves anything.
//!
//! Timed are: the head of a request, from the connection's start or the head's first byte on; its
//! body, between two of its bytes and as a whole; the connection while it is unused; and a client
//! that does not take the bytes of an answer. A connection that has not proved anything yet may be
//! unused only as long as a head may take. While a request is being served nothing is timed on the
//! reading side, however long a poll lasts: who serves it has its own limits.
//!
//! The timers only run while the client is waited for; a client that keeps up costs none.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::config::GatewayLimits;
use crate::unproved::{Share, Unproved};

/// What the server waits for, as far as timing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The head of a request that has begun, or of the connection's first.
    Head,
    /// The body of a request.
    Body,
    /// The next request.
    Idle,
    /// Its own answer.
    Nothing,
}

/// How far a connection is, shared between its stream and who serves its requests.
#[derive(Clone)]
pub(crate) struct Phase(Arc<Shared>);

struct Shared {
    /// The wait in the lower bits, and above them the count of changes, so that the stream sees that
    /// a wait is a new one even if it did not look in between.
    word: AtomicU64,
    /// Only the task of the connection comes here, so that nobody ever waits.
    claims: Mutex<Claims>,
}

/// What a connection has taken on trust.
struct Claims {
    share: Share,
    /// Whether a request of this connection was somebody's who may ask.
    proved: bool,
    /// Whether the request being read is known to be; its bytes are counted elsewhere.
    request_proved: bool,
    /// Whether there was no memory for what it sent.
    crowded: bool,
}

const WAIT_BITS: u32 = 2;

impl Phase {
    /// A new connection, which is to send its first request soon.
    pub(crate) fn new(unproved: &Unproved) -> Self {
        Self(Arc::new(Shared {
            word: AtomicU64::new(0),
            claims: Mutex::new(Claims {
                share: unproved.share(),
                proved: false,
                request_proved: false,
                crowded: false,
            }),
        }))
    }

    /// The head of a request is complete.
    pub(crate) fn head_read(&self) {
        self.change(Wait::Body);
    }

    /// A request is complete; its answer is being made.
    pub(crate) fn serving(&self) {
        self.change(Wait::Nothing);
    }

    /// A request is from somebody who may ask.
    pub(crate) fn proved(&self) {
        let mut claims = self.claims();
        claims.proved = true;
        claims.request_proved = true;
        claims.share.release();
    }

    /// An answer is complete.
    pub(crate) fn answered(&self) {
        let mut claims = self.claims();
        claims.request_proved = false;
        // Whoever has proved nothing keeps the buffer, and holds it against the limit.
        if claims.proved {
            claims.share.release();
        }
        drop(claims);
        self.change(Wait::Idle);
    }

    /// Whether the connection ends because there was no memory for what it sent.
    pub(crate) fn crowded(&self) -> bool {
        self.claims().crowded
    }

    /// Counts bytes of a request that has not been proved.
    fn count(&self, bytes: usize) -> io::Result<()> {
        let mut claims = self.claims();
        if claims.request_proved {
            return Ok(());
        }
        let counted = claims.share.count(bytes);
        claims.crowded |= counted.is_err();
        counted.map_err(io::Error::other)
    }

    // Whole at any time, whoever panicked.
    fn claims(&self) -> MutexGuard<'_, Claims> {
        let claims = self.0.claims.lock();
        claims.unwrap_or_else(PoisonError::into_inner)
    }

    // Only the task of the connection changes the phase, so load and store need not be one step.
    fn change(&self, wait: Wait) {
        let changes = (self.0.word.load(Ordering::Relaxed) >> WAIT_BITS) + 1;
        let number = match wait {
            Wait::Head => 0,
            Wait::Body => 1,
            Wait::Idle => 2,
            Wait::Nothing => 3,
        };
        let word = changes << WAIT_BITS | number;
        self.0.word.store(word, Ordering::Relaxed);
    }

    /// What is waited for, and a number that differs between waits.
    fn now(&self) -> (Wait, u64) {
        let word = self.0.word.load(Ordering::Relaxed);
        let wait = match word & ((1 << WAIT_BITS) - 1) {
            0 => Wait::Head,
            1 => Wait::Body,
            2 => Wait::Idle,
            _ => Wait::Nothing,
        };
        (wait, word)
    }
}

/// How long each wait may last.
struct Timeouts {
    head: Duration,
    body_stall: Duration,
    request: Duration,
    idle: Duration,
    write: Duration,
}

/// The stream.
pub(crate) struct Stalling<Io> {
    io: Io,
    phase: Phase,
    timeouts: Timeouts,
    /// When the request being read began.
    begun: Instant,
    /// The first byte of the connection, read ahead of all others.
    first: Option<u8>,
    reading: Timer,
    /// The wait for which `reading` was set.
    timed_wait: Option<u64>,
    writing: Timer,
    /// Whether `writing` was set since the client last took something.
    write_timed: bool,
}

impl<Io> Stalling<Io> {
    /// Times a new connection.
    pub(crate) fn new(io: Io, phase: Phase, limits: &GatewayLimits) -> Self {
        Self {
            io,
            phase,
            timeouts: Timeouts {
                head: limits.header_timeout,
                body_stall: limits.body_stall_timeout,
                request: limits.read_timeout,
                idle: limits.idle_timeout,
                write: limits.write_timeout,
            },
            begun: Instant::now(),
            first: None,
            reading: Timer::default(),
            timed_wait: None,
            writing: Timer::default(),
            write_timed: false,
        }
    }

    /// Notes that the client sent something.
    fn heard(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Ok(()); // It said that it is done.
        }
        match self.phase.now().0 {
            Wait::Idle => {
                self.begun = Instant::now();
                self.phase.change(Wait::Head);
            }
            // The next silence is timed anew.
            Wait::Body => self.timed_wait = None,
            Wait::Head | Wait::Nothing => {}
        }
        self.phase.count(bytes)
    }

    /// Whether the client was waited for too long.
    fn read_stalled(&mut self, cx: &mut Context<'_>) -> bool {
        let (wait, number) = self.phase.now();
        if wait == Wait::Nothing {
            return false;
        }
        if self.timed_wait != Some(number) {
            self.timed_wait = Some(number);
            let deadline = self.deadline(wait);
            self.reading.set(deadline);
        }
        self.reading.poll_elapsed(cx).is_ready()
    }

    /// When a wait that begins now has lasted too long.
    fn deadline(&self, wait: Wait) -> Instant {
        let now = Instant::now();
        match wait {
            Wait::Head => self.begun + self.timeouts.head,
            Wait::Body => {
                let whole = self.begun + self.timeouts.request;
                whole.min(now + self.timeouts.body_stall)
            }
            Wait::Idle if self.phase.claims().proved => now + self.timeouts.idle,
            Wait::Idle => now + self.timeouts.head,
            Wait::Nothing => unreachable!("nothing is waited for"),
        }
    }

    fn write_outcome<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.write_timed = false;
            return outcome;
        }
        if !self.write_timed {
            self.write_timed = true;
            self.writing.set(Instant::now() + self.timeouts.write);
        }
        match self.writing.poll_elapsed(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<Io: AsyncRead + Unpin> Stalling<Io> {
    /// Waits for the connection's first byte, which is read again later: until there is one, nothing
    /// needs a buffer. False if the client leaves or says nothing.
    pub(crate) async fn speaks(&mut self) -> bool {
        let mut byte = [0];
        let read = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut byte);
            let read = ready!(Pin::new(&mut *self).poll_read(cx, &mut buffer));
            Poll::Ready(read.is_ok() && !buffer.filled().is_empty())
        });
        let spoke = read.await;
        self.first = spoke.then_some(byte[0]);
        spoke
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Stalling<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(byte) = self.first.take() {
            buffer.put_slice(&[byte]);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(self.heard(buffer.filled().len() - before)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if self.read_stalled(cx) => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Stalling<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.write_outcome(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write_vectored(cx, parts);
        self.write_outcome(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_flush(cx);
        if outcome.is_ready() {
            // Whoever waited for the next request while this one was served does not look again
            // before it comes: the wait that begins with the end of the answer is timed from here.
            // If it is over already, reading will say so.
            let _ = self.read_stalled(cx);
        }
        self.write_outcome(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_shutdown(cx);
        self.write_outcome(cx, outcome)
    }
}

/// A timer that is made when it is first needed, and reused.
#[derive(Default)]
struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    fn set(&mut self, deadline: Instant) {
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().reset(deadline),
            None => self.0 = Some(Box::pin(tokio::time::sleep_until(deadline))),
        }
    }

    fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
