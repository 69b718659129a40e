//! A client that writes all it does into the queue's ledger.
//!
//! Times are those of tokio's clock, so the same recorder works on the machine and in the
//! simulation. An operation without an answer is written down as *info*, never forgotten.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::client::{Accepted, CallError, Connection, EntryResult, Incoming, Outgoing, Wanted};
use crate::ledger::{
    ChangeVisibility, Delete, Delivery, Ledger, Outcome, Receive, Send, Sent, Span,
};

/// One queue's ledger, shared by the clients of that queue, and the epoch of their clock.
#[derive(Debug, Clone)]
pub struct Book {
    ledger: Arc<Mutex<Ledger>>,
    epoch: Instant,
}

impl Book {
    /// An empty book that begins now.
    pub fn new(ledger: Ledger) -> Self {
        Self {
            ledger: Arc::new(Mutex::new(ledger)),
            epoch: Instant::now(),
        }
    }

    /// Now, on the clock of the ledger's spans.
    pub fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// The ledger itself. Do not hold it across an await.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A client that panicked while it wrote fails its test anyway; the rest is worth reading.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queue that a recorder's operations are for.
#[derive(Debug, Clone)]
pub struct Target {
    /// The queue's URL.
    pub queue_url: String,
    /// The queue's own visibility timeout.
    pub visibility_timeout: Duration,
    /// The queue's own delay.
    pub delay: Duration,
    /// Where to write.
    pub book: Book,
}

impl Target {
    /// Sends up to ten messages in one call and writes down each.
    ///
    /// # Errors
    /// Those of the call; they are in the ledger already.
    pub async fn send(
        &self,
        connection: &mut Connection,
        messages: &[Outgoing],
    ) -> Result<Vec<EntryResult<Accepted>>, CallError> {
        let invoked = self.book.now();
        let answer = connection.send(&self.queue_url, messages).await;
        let span = Span {
            invoked,
            returned: self.book.now(),
        };
        let mut ledger = self.book.ledger();
        for (place, message) in messages.iter().enumerate() {
            let outcome = entry_outcome(&answer, place, |accepted| Sent {
                message_id: accepted.message_id.clone(),
                sequence: accepted.sequence,
            });
            let delay = message
                .delay_seconds
                .map_or(self.delay, |s| Duration::from_secs(s.into()));
            ledger.sent(Send {
                span,
                body: message.body.clone(),
                message_group: message.message_group.clone(),
                deduplication_id: message.deduplication_id.clone(),
                delay,
                outcome,
            });
        }
        answer
    }

    /// Receives and writes down what came.
    ///
    /// # Errors
    /// Those of the call; they are in the ledger already.
    pub async fn receive(
        &self,
        connection: &mut Connection,
        wanted: Wanted,
    ) -> Result<Vec<Incoming>, CallError> {
        let invoked = self.book.now();
        let answer = connection.receive(&self.queue_url, wanted).await;
        let span = Span {
            invoked,
            returned: self.book.now(),
        };
        let requested = wanted
            .visibility_timeout
            .map(|s| Duration::from_secs(s.into()));
        let outcome = match &answer {
            Ok(messages) => Outcome::Ok(messages.iter().map(delivery).collect()),
            Err(error) => without_answer(error),
        };
        self.book.ledger().received(Receive {
            span,
            visibility_timeout: requested.unwrap_or(self.visibility_timeout),
            outcome,
        });
        answer
    }

    /// Deletes up to ten messages in one call and writes down each.
    ///
    /// # Errors
    /// Those of the call; they are in the ledger already.
    pub async fn delete(
        &self,
        connection: &mut Connection,
        messages: &[Incoming],
    ) -> Result<Vec<EntryResult<()>>, CallError> {
        let handles: Vec<String> = messages.iter().map(|m| m.receipt_handle.clone()).collect();
        let invoked = self.book.now();
        let answer = connection.delete(&self.queue_url, &handles).await;
        let span = Span {
            invoked,
            returned: self.book.now(),
        };
        let mut ledger = self.book.ledger();
        for (place, message) in messages.iter().enumerate() {
            let outcome = entry_outcome(&answer, place, |()| ());
            ledger.deleted(Delete {
                span,
                message_id: message.message_id.clone(),
                outcome,
            });
        }
        answer
    }

    /// Changes the visibility timeout of one message and writes it down.
    ///
    /// # Errors
    /// Those of the call; they are in the ledger already.
    pub async fn change_visibility(
        &self,
        connection: &mut Connection,
        message: &Incoming,
        seconds: u32,
    ) -> Result<(), CallError> {
        let invoked = self.book.now();
        let handle = &message.receipt_handle;
        let answer = connection
            .change_visibility(&self.queue_url, handle, seconds)
            .await;
        let span = Span {
            invoked,
            returned: self.book.now(),
        };
        let outcome = match &answer {
            Ok(()) => Outcome::Ok(()),
            Err(error) => without_answer(error),
        };
        self.book.ledger().changed(ChangeVisibility {
            span,
            message_id: message.message_id.clone(),
            visibility_timeout: Duration::from_secs(seconds.into()),
            outcome,
        });
        answer
    }
}

fn delivery(message: &Incoming) -> Delivery {
    Delivery {
        message_id: message.message_id.clone(),
        body: message.body.clone(),
        receive_count: message.receive_count,
        message_group: message.message_group.clone(),
        sequence: message.sequence,
    }
}

/// An entry that failed by the server's fault may still have its effect.
fn entry_outcome<T, U>(
    answer: &Result<Vec<EntryResult<T>>, CallError>,
    place: usize,
    read: impl Fn(&T) -> U,
) -> Outcome<U> {
    match answer {
        Ok(entries) => match &entries[place] {
            Ok(entry) => Outcome::Ok(read(entry)),
            Err(error) if error.sender_fault => Outcome::Fail,
            Err(_) => Outcome::Info,
        },
        Err(error) => without_answer(error),
    }
}

fn without_answer<T>(error: &CallError) -> Outcome<T> {
    if error.had_no_effect() {
        Outcome::Fail
    } else {
        Outcome::Info
    }
}
