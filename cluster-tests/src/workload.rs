//! Producers and consumers that go on through crashes, and the final drain.
//!
//! They decide by the bodies of the messages, not by chance, so that a simulation with one seed has
//! one course. A client whose connection broke dials again until the server is back; what it did not
//! hear the end of is in the history as such. FIFO producers try again with the same deduplication id;
//! producers for a standard queue go on with the next message, since a repeated send would be a new
//! message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep};

use crate::client::{CallError, Connection, Incoming, Outgoing, Wanted};
use crate::recorder::Target;

/// Between two attempts to reach a server that is down.
const DIAL_INTERVAL: Duration = Duration::from_millis(20);

/// The most that SQS takes and gives in one call.
pub const MAX_BATCH: usize = 10;

/// How a client comes to a connection: over the machine's TCP or over the simulation's.
pub trait Dial: Clone + Send + Sync + 'static {
    /// Connects to the server, wherever it is now.
    ///
    /// # Errors
    /// When it cannot be reached; the client waits and dials again.
    fn dial(&self) -> impl Future<Output = anyhow::Result<Connection>> + Send;
}

/// How far all clients of a queue are, and whether they shall end.
#[derive(Debug, Default)]
pub struct Progress {
    acknowledged: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// How many sends were acknowledged by now.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Asks all clients to end after what they do now.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// One client of one queue.
#[derive(Debug)]
pub struct Client<D> {
    dial: D,
    target: Target,
    progress: Arc<Progress>,
    connection: Option<Connection>,
}

/// What a producer sends.
#[derive(Debug, Clone)]
pub struct Production {
    /// Begins every body, to tell producers apart.
    pub name: String,
    /// In batches of ten.
    pub messages: usize,
    /// Every body is at least this long.
    pub body_bytes: usize,
    /// FIFO's message groups; none for a standard queue.
    pub message_groups: usize,
    /// Between two batches.
    pub pause: Duration,
}

/// What a consumer does with what it receives, in percent; the rest it forgets.
#[derive(Debug, Clone, Copy)]
pub struct Consumption {
    /// Deleted at once.
    pub deleted: u64,
    /// Made visible again at once.
    pub released: u64,
}

impl<D: Dial> Client<D> {
    /// A client that is not connected yet.
    pub fn new(dial: D, target: Target, progress: Arc<Progress>) -> Self {
        Self {
            dial,
            target,
            progress,
            connection: None,
        }
    }

    /// The connection, made anew if the last one broke.
    async fn connection(&mut self) -> (&Target, &mut Connection) {
        if self.connection.as_ref().is_none_or(|c| !c.is_usable()) {
            self.connection = None;
            loop {
                match self.dial.dial().await {
                    Ok(connection) => break self.connection = Some(connection),
                    Err(_) => sleep(DIAL_INTERVAL).await,
                }
            }
        }
        (
            &self.target,
            self.connection.as_mut().expect("it was just made"),
        )
    }

    /// A connection that did not answer as it should is not used again.
    fn note<T>(&mut self, answer: Result<T, CallError>) -> Option<T> {
        if answer.as_ref().is_err_and(|error| !error.had_no_effect()) {
            self.connection = None;
        }
        answer.ok()
    }

    /// Sends all of a production, unless it is told to stop before.
    pub async fn produce(mut self, production: Production) {
        let numbers: Vec<usize> = (0..production.messages).collect();
        for batch in numbers.chunks(MAX_BATCH) {
            sleep(production.pause).await;
            if self.progress.is_stopped() {
                return;
            }
            let mut left: Vec<Outgoing> = batch.iter().map(|n| production.message(*n)).collect();
            while !left.is_empty() {
                let failed = self.send(&left).await;
                let try_again = production.message_groups > 0;
                left = if try_again { failed } else { Vec::new() };
            }
        }
    }

    /// Sends a batch and gives back what was not acknowledged.
    async fn send(&mut self, messages: &[Outgoing]) -> Vec<Outgoing> {
        let (target, connection) = self.connection().await;
        let answer = target.send(connection, messages).await;
        if let Err(CallError::Refused { status: 400, .. }) = &answer {
            panic!("a producer sends nothing that can be refused: {answer:?}");
        }
        let Some(entries) = self.note(answer) else {
            return messages.to_vec();
        };
        let pairs = messages.iter().zip(&entries);
        let failed: Vec<Outgoing> = pairs
            .filter(|(_, entry)| entry.is_err())
            .map(|(message, _)| message.clone())
            .collect();
        let acknowledged = (messages.len() - failed.len()) as u64;
        self.progress
            .acknowledged
            .fetch_add(acknowledged, Ordering::Relaxed);
        failed
    }

    /// Receives, deletes, releases and forgets until it is told to stop.
    pub async fn consume(mut self, consumption: Consumption) {
        let wanted = Wanted {
            max: MAX_BATCH as u32,
            visibility_timeout: None,
            wait: Some(1),
        };
        while !self.progress.is_stopped() {
            let messages = self.receive(wanted).await;
            self.act(consumption, messages).await;
        }
    }

    async fn receive(&mut self, wanted: Wanted) -> Vec<Incoming> {
        let (target, connection) = self.connection().await;
        let answer = target.receive(connection, wanted).await;
        self.note(answer).unwrap_or_default()
    }

    /// Deletes some of the messages, then releases some of the others.
    async fn act(&mut self, consumption: Consumption, messages: Vec<Incoming>) {
        let Consumption { deleted, released } = consumption;
        let (done, rest): (Vec<_>, Vec<_>) = messages
            .into_iter()
            .partition(|message| fate(message) < deleted);
        if !done.is_empty() {
            self.delete(&done).await;
        }
        for message in rest
            .iter()
            .filter(|message| fate(message) < deleted + released)
        {
            let (target, connection) = self.connection().await;
            let answer = target.change_visibility(connection, message, 0).await;
            self.note(answer);
        }
    }

    /// Deletes once: what fails is left to its visibility timeout.
    async fn delete(&mut self, messages: &[Incoming]) {
        let (target, connection) = self.connection().await;
        let answer = target.delete(connection, messages).await;
        self.note(answer);
    }

    /// Receives and deletes until the queue says that it holds nothing, visible or not, and marks that
    /// in the history. No other client may be at work.
    ///
    /// # Errors
    /// When that does not happen within `deadline`.
    pub async fn drain(&mut self, deadline: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + deadline;
        let from_us = self.target.recorder.now_us();
        let wanted = Wanted {
            max: MAX_BATCH as u32,
            visibility_timeout: None,
            wait: Some(1),
        };
        loop {
            let messages = self.receive(wanted).await;
            if !messages.is_empty() {
                self.delete(&messages).await;
                continue;
            }
            let (target, connection) = self.connection().await;
            let answer = target.counts(connection).await;
            let counts = self.note(answer);
            if counts.is_some_and(|counts| counts.total() == 0) {
                self.target.drained(from_us);
                return Ok(());
            }
            ensure!(
                Instant::now() < until,
                "not empty after {deadline:?}: {counts:?}"
            );
        }
    }

    /// The queue's counts, once the server answers.
    pub async fn counts(&mut self) -> crate::client::Counts {
        loop {
            let (target, connection) = self.connection().await;
            let answer = target.counts(connection).await;
            match self.note(answer) {
                Some(counts) => return counts,
                None => sleep(DIAL_INTERVAL).await,
            }
        }
    }
}

impl Production {
    /// The nth message.
    fn message(&self, number: usize) -> Outgoing {
        let mut body = format!("{}-{number} ", self.name);
        let missing = self.body_bytes.saturating_sub(body.len());
        body.extend(std::iter::repeat_n('.', missing));
        let fifo = self.message_groups > 0;
        Outgoing {
            body,
            message_group: fifo.then(|| format!("group-{}", number % self.message_groups)),
            deduplication_id: fifo.then(|| format!("{}-{number}", self.name)),
            delay_seconds: None,
        }
    }
}

/// A number below 100 that depends on the body and on how often it was received (FNV-1a).
fn fate(message: &Incoming) -> u64 {
    let seed = 0xcbf2_9ce4_8422_2325 ^ u64::from(message.receive_count);
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    (message.body.bytes().fold(seed, mix) >> 32) % 100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn production(message_groups: usize) -> Production {
        Production {
            name: "p".into(),
            messages: 100,
            body_bytes: 64,
            message_groups,
            pause: Duration::ZERO,
        }
    }

    #[test]
    fn bodies_differ_and_have_their_length() {
        let bodies: std::collections::BTreeSet<String> =
            (0..100).map(|n| production(0).message(n).body).collect();
        assert_eq!(bodies.len(), 100);
        assert!(bodies.iter().all(|body| body.len() == 64));
    }

    #[test]
    fn only_fifo_messages_have_a_group() {
        assert_eq!(production(0).message(1).message_group, None);
        assert!(production(7).message(1).deduplication_id.is_some());
    }

    #[test]
    fn fates_are_spread_and_change_with_the_receive_count() {
        let message = |number, receive_count| Incoming {
            message_id: String::new(),
            receipt_handle: String::new(),
            body: production(0).message(number).body,
            receive_count,
            sent_ms: None,
            message_group: None,
            sequence: None,
        };
        let low = (0..1_000).filter(|n| fate(&message(*n, 1)) < 50).count();
        assert!((400..600).contains(&low), "{low} of 1000 below 50");
        let moved = (0..1_000)
            .filter(|n| fate(&message(*n, 1)) != fate(&message(*n, 2)))
            .count();
        assert!(moved > 900, "{moved} of 1000 moved");
    }
}
