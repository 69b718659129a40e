//! A stream that ends by itself when its client stalls.
//!
//! Three things are timed: sending a request, leaving the connection unused, and not taking the bytes
//! of an answer. While a request is being served nothing is timed on the reading side, however long a
//! poll lasts: who serves it has its own limits.
//!
//! The timers only run while the client is waited for; a client that keeps up costs none.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::config::GatewayLimits;

/// What the server waits for, as far as timing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// A request that has begun.
    Request,
    /// The next request.
    Idle,
    /// Its own answer.
    Nothing,
}

/// What the server waits for, shared between the stream and who serves its requests.
///
/// The count of changes is in the upper bits, so that the stream sees that a wait is a new one even
/// if it did not look in between.
#[derive(Clone, Default)]
pub(crate) struct Phase(Arc<AtomicU64>);

const WAIT_BITS: u32 = 2;

impl Phase {
    /// A request is complete; its answer is being made.
    pub(crate) fn serving(&self) {
        self.change(Wait::Nothing);
    }

    /// An answer is complete.
    pub(crate) fn answered(&self) {
        self.change(Wait::Idle);
    }

    // Only the task of the connection changes the phase, so load and store need not be one step.
    fn change(&self, wait: Wait) {
        let changes = (self.0.load(Ordering::Relaxed) >> WAIT_BITS) + 1;
        let number = match wait {
            Wait::Request => 0,
            Wait::Idle => 1,
            Wait::Nothing => 2,
        };
        self.0
            .store(changes << WAIT_BITS | number, Ordering::Relaxed);
    }

    /// What is waited for, and a number that differs between waits.
    fn now(&self) -> (Wait, u64) {
        let word = self.0.load(Ordering::Relaxed);
        let wait = match word & ((1 << WAIT_BITS) - 1) {
            0 => Wait::Request,
            1 => Wait::Idle,
            _ => Wait::Nothing,
        };
        (wait, word)
    }
}

/// The stream.
pub(crate) struct Stalling<Io> {
    io: Io,
    phase: Phase,
    read_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Duration,
    reading: Timer,
    /// The wait for which `reading` was set.
    timed_wait: Option<u64>,
    writing: Timer,
    /// Whether `writing` was set since the client last took something.
    write_timed: bool,
}

impl<Io> Stalling<Io> {
    /// Times a new connection, which is to send its first request soon.
    pub(crate) fn new(io: Io, phase: Phase, limits: &GatewayLimits) -> Self {
        Self {
            io,
            phase,
            read_timeout: limits.read_timeout,
            idle_timeout: limits.idle_timeout,
            write_timeout: limits.write_timeout,
            reading: Timer::default(),
            timed_wait: None,
            writing: Timer::default(),
            write_timed: false,
        }
    }

    /// Whether the client was waited for too long.
    fn read_stalled(&mut self, cx: &mut Context<'_>) -> bool {
        let (wait, number) = self.phase.now();
        let timeout = match wait {
            Wait::Request => self.read_timeout,
            Wait::Idle => self.idle_timeout,
            Wait::Nothing => return false,
        };
        if self.timed_wait != Some(number) {
            self.timed_wait = Some(number);
            self.reading.set(timeout);
        }
        self.reading.poll_elapsed(cx).is_ready()
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
            self.writing.set(self.write_timeout);
        }
        match self.writing.poll_elapsed(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Stalling<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.io).poll_read(cx, buffer) {
            Poll::Ready(result) => {
                if self.phase.now().0 == Wait::Idle {
                    self.phase.change(Wait::Request);
                }
                Poll::Ready(result)
            }
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
    fn set(&mut self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
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
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::{Phase, Stalling};
    use crate::config::GatewayLimits;

    fn limits() -> GatewayLimits {
        GatewayLimits {
            read_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(100),
            write_timeout: Duration::from_secs(20),
            ..GatewayLimits::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_trickles_is_given_up_ten_seconds_after_it_began() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut server = Stalling::new(server, Phase::default(), &limits());
        let begun = tokio::time::Instant::now();
        let trickle = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
        });
        let mut sent = Vec::new();
        let error = server.read_to_end(&mut sent).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), 10);
        trickle.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn an_unused_connection_may_stay_longer() {
        let (mut client, server) = tokio::io::duplex(64);
        let phase = Phase::default();
        let mut server = Stalling::new(server, phase.clone(), &limits());
        for _ in 0..2 {
            client.write_all(b"x").await.unwrap();
            server.read_u8().await.unwrap();
            phase.serving();
            phase.answered();
            let begun = tokio::time::Instant::now();
            let waited = tokio::time::timeout(Duration::from_secs(99), server.read_u8()).await;
            assert!(waited.is_err(), "still open after 99 s");
            assert_eq!(begun.elapsed().as_secs(), 99);
        }
        let error = server.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn serving_takes_as_long_as_it_takes() {
        let (_client, server) = tokio::io::duplex(64);
        let phase = Phase::default();
        let mut server = Stalling::new(server, phase.clone(), &limits());
        phase.serving();
        let hour = Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, server.read_u8()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_no_answer_is_given_up() {
        let (_client, server) = tokio::io::duplex(4);
        let mut server = Stalling::new(server, Phase::default(), &limits());
        let begun = tokio::time::Instant::now();
        let error = server.write_all(b"longer than four").await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed().as_secs(), 20);
    }
}
