//! A connection that receives and deletes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use crate::check::MessageKey;
use crate::connection::{CallError, Client};
use crate::meter::{Call, Deed};
use crate::pace::{Depth, Stop};
use crate::producer::PAUSE;
use crate::shared::Shared;
use crate::wire::{Action, BATCH_LIMIT, Entries, EntryOutcome, Message, batch_outcomes, messages};

/// Between two rounds through several queues that were all empty: they are asked without waiting.
const EMPTY_ROUND_PAUSE: Duration = Duration::from_millis(20);

/// Bytes of an entry besides its receipt handle, about.
const ENTRY_BYTES: usize = 48;

/// One consumer.
pub(crate) struct Consumer {
    shared: Arc<Shared>,
    client: Client,
    number: usize,
    queues: Vec<u32>,
    /// The depth that is kept, if one is.
    depth: Option<Arc<Depth>>,
    /// The call's messages that are to be deleted.
    keys: Vec<MessageKey>,
}

impl Consumer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        number: usize,
        queues: Vec<u32>,
        depth: Option<Arc<Depth>>,
    ) -> Self {
        Self {
            client: shared.client(),
            shared,
            number,
            queues,
            depth,
            keys: Vec::new(),
        }
    }

    /// Receives and deletes until the stage is over.
    pub(crate) async fn run(mut self, stop: Stop) {
        let mut empty_in_a_row = 0;
        for place in (0..self.queues.len()).cycle() {
            if *stop.borrow() {
                return;
            }
            let found = self.take(self.queues[place]).await;
            empty_in_a_row = if found { 0 } else { empty_in_a_row + 1 };
            if self.queues.len() > 1 && empty_in_a_row >= self.queues.len() {
                empty_in_a_row = 0;
                sleep(EMPTY_ROUND_PAUSE).await;
            }
        }
    }

    /// Receives once from a queue, and deletes what came. Whether something did.
    async fn take(&mut self, queue: u32) -> bool {
        let batch = self.shared.options.batch as usize;
        if let Some(depth) = &self.depth {
            depth.reserve(batch).await;
        }
        let answer = self.receive(queue).await;
        let found = answer.as_deref().and_then(messages).unwrap_or_default();
        let deleted = match self.judge(queue, &found) {
            Some((action, body)) => self.delete(action, body).await,
            None => 0,
        };
        if let Some(depth) = &self.depth {
            depth.deleted(deleted);
            depth.give_back(batch.saturating_sub(deleted));
        }
        if answer.is_none() {
            sleep(PAUSE).await;
        }
        !found.is_empty()
    }

    /// Receives once: an answer that can be read.
    async fn receive(&mut self, queue: u32) -> Option<Bytes> {
        let shared = &self.shared;
        let texts = &shared.queues[queue as usize];
        let request = match self.queues.len() {
            1 => texts.patient_receive.clone(),
            _ => texts.quick_receive.clone(),
        };
        let begun = shared.clock.now();
        shared.check().begin_receive(self.number, begun);
        let answer = self.client.call(Action::ReceiveMessage, request).await;
        let ended = shared.clock.now();
        let mut call = Call {
            deed: Deed::Receive,
            begun,
            ended,
            messages: 0,
        };
        let understood = answer.and_then(|answer| match messages(&answer) {
            Some(found) if found.len() <= BATCH_LIMIT => {
                call.messages = found.len();
                Ok(answer)
            }
            _ => Err(CallError::NotUnderstood(String::new())),
        });
        match understood {
            Ok(answer) => {
                shared.meter.answered(call);
                Some(answer)
            }
            Err(error) => {
                shared.meter.failed(call, &error);
                None
            }
        }
    }

    /// Tells the books what came, and writes the call that deletes it. What is not of this run is not
    /// ours to delete.
    fn judge(&mut self, queue: u32, found: &[Message<'_>]) -> Option<(Action, Vec<u8>)> {
        self.keys.clear();
        let now = self.shared.clock.now();
        let is_batch = found.len() > 1;
        let url = &self.shared.queues[queue as usize].url_json;
        let handles: usize = found
            .iter()
            .map(|message| message.receipt_handle.len())
            .sum();
        let capacity = url.len() + handles + (found.len() + 1) * ENTRY_BYTES;
        let mut entries = Entries::new(url, is_batch, capacity);
        let mut check = self.shared.check();
        for message in found {
            let stamp = match self.shared.bodies.read(message.body.as_bytes()) {
                Ok(stamp) => stamp,
                Err(fault) => {
                    check.stranger(queue, fault);
                    continue;
                }
            };
            if check.received(self.number, queue, &stamp, now) {
                self.shared.meter.arrived(stamp.sent_at, now);
            }
            if check.knows(queue, &stamp) {
                self.keys.push((stamp.stream, stamp.sequence));
                entries
                    .entry()
                    .text("ReceiptHandle", &message.receipt_handle);
            }
        }
        check.end_receive(self.number);
        drop(check);
        if self.keys.is_empty() {
            return None;
        }
        let action = if is_batch {
            Action::DeleteMessageBatch
        } else {
            Action::DeleteMessage
        };
        Some((action, entries.finish()))
    }

    /// Makes the call that deletes the messages of `keys`; how many it did.
    async fn delete(&mut self, action: Action, body: Vec<u8>) -> usize {
        let begun = self.shared.clock.now();
        let answer = self.client.call(action, body.into()).await;
        let ended = self.shared.clock.now();
        let mut call = Call {
            deed: Deed::Delete,
            begun,
            ended,
            messages: 0,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // What is not deleted comes again.
                self.shared.meter.failed(call, &error);
                sleep(PAUSE).await;
                return 0;
            }
        };
        let count = self.keys.len();
        let outcomes = if action == Action::DeleteMessage {
            vec![EntryOutcome::Done; count]
        } else {
            let unanswered = || vec![EntryOutcome::Unanswered; count];
            batch_outcomes(&answer, count).unwrap_or_else(unanswered)
        };
        for code in outcomes.iter().filter_map(EntryOutcome::error) {
            self.shared.meter.error(Deed::Delete, ended, code);
        }
        let mut check = self.shared.check();
        for (key, outcome) in self.keys.iter().zip(&outcomes) {
            if *outcome == EntryOutcome::Done {
                check.deleted(*key, ended);
                call.messages += 1;
            }
        }
        drop(check);
        self.shared.meter.answered(call);
        call.messages
    }
}
