//! A client that writes all it does into a history.
//!
//! Times are those of tokio's clock, so the same recorder works on the machine and in the
//! simulation. An operation without an answer is written down as *info*, never forgotten.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::client::{
    Accepted, CallError, Connection, Counts, EntryResult, Incoming, Outgoing, Wanted,
};
use crate::history::{
    self, Action, Attributes, ChangeEntry, Content, DeleteEntry, Delivery, History, Mark, Mentions,
    Operation, Outcome, Receive, SendEntry, Sent,
};

/// The account of clients that sign nothing.
pub const TENANT: &str = "000000000000";

/// Named once by a batch's answer, as done.
const DONE: Mentions = Mentions {
    successful: 1,
    failed: 0,
};

/// One history, shared by all clients of a run, and the epoch of their clock.
#[derive(Debug, Clone)]
pub struct Recorder {
    history: Arc<Mutex<History>>,
    clients: Arc<AtomicU32>,
    epoch: Instant,
}

impl Recorder {
    /// An empty history that begins now. The wall clocks of any two nodes differ by at most so much.
    pub fn new(clock_bound_ms: u64) -> Self {
        let history = History {
            clock_bound_ms,
            ..History::default()
        };
        Self {
            history: Arc::new(Mutex::new(history)),
            clients: Arc::default(),
            epoch: Instant::now(),
        }
    }

    /// Now, on the clock of the history, microseconds.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The history itself. Do not hold it across an await.
    pub fn history(&self) -> MutexGuard<'_, History> {
        // A client that panicked while it wrote fails its test anyway; the rest is worth reading.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a queue, or finds it, and writes that down.
    ///
    /// # Errors
    /// Those of the call; they are in the history already.
    pub async fn create_queue(
        &self,
        connection: &mut Connection,
        name: &str,
        attributes: &[(&str, &str)],
    ) -> Result<Target, CallError> {
        let mut target = Target {
            client: 0,
            queue: name.to_owned(),
            queue_url: String::new(),
            recorder: self.clone(),
        };
        let invoked_us = self.now_us();
        let answer = connection.create_queue(name, attributes).await;
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let action = Action::CreateQueue {
            attributes: attributes.iter().map(owned).collect(),
            outcome: outcome(&answer, |_| ()),
        };
        target.write(invoked_us, action);
        target.queue_url = answer?;
        Ok(target)
    }
}

/// One queue, as one client uses it.
#[derive(Debug)]
pub struct Target {
    client: u32,
    /// The queue's name.
    pub queue: String,
    /// The queue's URL.
    pub queue_url: String,
    /// Where to write.
    pub recorder: Recorder,
}

impl Clone for Target {
    /// The queue for another client.
    fn clone(&self) -> Self {
        Self {
            client: self.recorder.clients.fetch_add(1, Ordering::Relaxed) + 1,
            queue: self.queue.clone(),
            queue_url: self.queue_url.clone(),
            recorder: self.recorder.clone(),
        }
    }
}

impl Target {
    /// Writes down what was invoked then and returned now.
    fn write(&self, invoked_us: u64, action: Action) {
        let returned_us = self.recorder.now_us();
        self.recorder.history().operations.push(Operation {
            client: self.client,
            tenant: TENANT.to_owned(),
            queue: self.queue.clone(),
            invoked_us,
            returned_us,
            action,
        });
    }

    /// Since `from_us` all clients have only received and deleted, and now the queue is empty.
    pub fn drained(&self, from_us: u64) {
        let until_us = self.recorder.now_us();
        self.recorder.history().marks.push(Mark::Drained {
            tenant: TENANT.to_owned(),
            queue: self.queue.clone(),
            from_us,
            until_us,
        });
    }

    /// Sends up to ten messages in one call and writes down each.
    ///
    /// # Errors
    /// Those of the call; they are in the history already.
    pub async fn send(
        &self,
        connection: &mut Connection,
        messages: &[Outgoing],
    ) -> Result<Vec<EntryResult<Accepted>>, CallError> {
        let invoked_us = self.recorder.now_us();
        let answer = connection.send(&self.queue_url, messages).await;
        let entry = |(place, message): (usize, &Outgoing)| {
            let (outcome, mentions) = entry_outcome(&answer, place, |accepted| Sent {
                message_id: accepted.message_id.clone(),
                sequence: accepted.sequence,
            });
            SendEntry {
                content: Content::of(&message.body),
                group: message.message_group.clone(),
                deduplication_id: message.deduplication_id.clone(),
                delay_ms: message.delay_seconds.map(|s| u64::from(s) * 1_000),
                outcome,
                mentions,
            }
        };
        let entries = messages.iter().enumerate().map(entry).collect();
        self.write(invoked_us, Action::Send { entries });
        answer
    }

    /// Receives and writes down what came.
    ///
    /// # Errors
    /// Those of the call; they are in the history already.
    pub async fn receive(
        &self,
        connection: &mut Connection,
        wanted: Wanted,
    ) -> Result<Vec<Incoming>, CallError> {
        let milliseconds = |seconds: u32| u64::from(seconds) * 1_000;
        let invoked_us = self.recorder.now_us();
        let answer = connection.receive(&self.queue_url, wanted).await;
        let receive = Receive {
            max: wanted.max,
            wait_ms: wanted.wait.map(milliseconds),
            visibility_timeout_ms: wanted.visibility_timeout.map(milliseconds),
            attempt_id: None,
            outcome: outcome(&answer, |messages| messages.iter().map(delivery).collect()),
        };
        self.write(invoked_us, Action::Receive(receive));
        answer
    }

    /// Deletes up to ten messages in one call and writes down each.
    ///
    /// # Errors
    /// Those of the call; they are in the history already.
    pub async fn delete(
        &self,
        connection: &mut Connection,
        messages: &[Incoming],
    ) -> Result<Vec<EntryResult<()>>, CallError> {
        let handles: Vec<String> = messages.iter().map(|m| m.receipt_handle.clone()).collect();
        let invoked_us = self.recorder.now_us();
        let answer = connection.delete(&self.queue_url, &handles).await;
        let entry = |(place, message): (usize, &Incoming)| {
            let (outcome, mentions) = entry_outcome(&answer, place, |()| ());
            DeleteEntry {
                message_id: message.message_id.clone(),
                receipt: receipt(message),
                outcome,
                mentions,
            }
        };
        let entries = messages.iter().enumerate().map(entry).collect();
        self.write(invoked_us, Action::Delete { entries });
        answer
    }

    /// Changes the visibility timeout of one message and writes it down.
    ///
    /// # Errors
    /// Those of the call; they are in the history already.
    pub async fn change_visibility(
        &self,
        connection: &mut Connection,
        message: &Incoming,
        seconds: u32,
    ) -> Result<(), CallError> {
        let handle = &message.receipt_handle;
        let invoked_us = self.recorder.now_us();
        let answer = connection
            .change_visibility(&self.queue_url, handle, seconds)
            .await;
        let entries = vec![ChangeEntry {
            message_id: message.message_id.clone(),
            receipt: receipt(message),
            visibility_timeout_ms: u64::from(seconds) * 1_000,
            outcome: outcome(&answer, |()| ()),
            mentions: None,
        }];
        self.write(invoked_us, Action::ChangeVisibility { entries });
        answer
    }

    /// Sets some of the queue's attributes and writes that down.
    ///
    /// # Errors
    /// Those of the call; they are in the history already.
    pub async fn set_attributes(
        &self,
        connection: &mut Connection,
        attributes: &[(&str, String)],
    ) -> Result<(), CallError> {
        let invoked_us = self.recorder.now_us();
        let answer = connection.set_attributes(&self.queue_url, attributes).await;
        let owned = |(name, value): &(&str, String)| ((*name).to_owned(), value.clone());
        let action = Action::SetAttributes {
            attributes: attributes.iter().map(owned).collect(),
            outcome: outcome(&answer, |()| ()),
        };
        self.write(invoked_us, action);
        answer
    }

    /// Reads the queue's attributes, writes them down and gives back the counts among them.
    ///
    /// # Errors
    /// Those of the call; they are in the history already.
    pub async fn counts(&self, connection: &mut Connection) -> Result<Counts, CallError> {
        let invoked_us = self.recorder.now_us();
        let answer = connection.attributes(&self.queue_url).await;
        let texts = |(name, value): (&String, &serde_json::Value)| {
            Some((name.clone(), value.as_str()?.to_owned()))
        };
        let outcome = outcome(&answer, |read| -> Attributes {
            read.iter().filter_map(texts).collect()
        });
        self.write(invoked_us, Action::GetAttributes { outcome });
        Counts::among(&answer?)
    }
}

fn delivery(message: &Incoming) -> Delivery {
    Delivery {
        message_id: message.message_id.clone(),
        content: Content::of(&message.body),
        receipt: receipt(message),
        receive_count: message.receive_count,
        sent_ms: message.sent_ms,
        sequence: message.sequence,
        group: message.message_group.clone(),
    }
}

fn receipt(message: &Incoming) -> u64 {
    history::digest(message.receipt_handle.as_bytes())
}

/// An entry that failed by the server's fault may still have its effect.
fn entry_outcome<T, U>(
    answer: &Result<Vec<EntryResult<T>>, CallError>,
    place: usize,
    read: impl Fn(&T) -> U,
) -> (Outcome<U>, Option<Mentions>) {
    match answer {
        Ok(entries) => match &entries[place] {
            Ok(entry) => (Outcome::Ok(read(entry)), Some(DONE)),
            Err(error) if error.sender_fault => (Outcome::Fail, Some(error.mentions)),
            Err(error) => (Outcome::Info, Some(error.mentions)),
        },
        Err(error) => (without_answer(error), None),
    }
}

fn outcome<T, U>(answer: &Result<T, CallError>, read: impl Fn(&T) -> U) -> Outcome<U> {
    match answer {
        Ok(answer) => Outcome::Ok(read(answer)),
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
