//! A connection that sends.
//!
//! Its streams are its own: it waits for a send's outcome before it begins the next, so that the order
//! of each stream is known.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use crate::check::{MessageKey, SendOutcome};
use crate::connection::{CallError, Client};
use crate::meter::{Call, Deed};
use crate::pace::{Pace, Stop, Turn};
use crate::plan::Share;
use crate::shared::Shared;
use crate::stamp::{Stamp, put_hex};
use crate::wire::{Action, Entries, EntryOutcome, batch_outcomes};

/// After an error, for the service to get better.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Bytes of an entry besides its body, about.
const ENTRY_BYTES: usize = 128;

/// One producer.
pub(crate) struct Producer {
    shared: Arc<Shared>,
    client: Client,
    shares: Vec<Share>,
    /// The share to send to next, and in each share the stream.
    next_share: usize,
    next_streams: Vec<usize>,
    /// The messages of the call.
    keys: Vec<MessageKey>,
}

impl Producer {
    pub(crate) fn new(shared: Arc<Shared>, shares: Vec<Share>) -> Self {
        Self {
            client: shared.client(),
            shared,
            next_share: 0,
            next_streams: vec![0; shares.len()],
            shares,
            keys: Vec::new(),
        }
    }

    /// Sends up to `batch` messages a call until the stage is over, and comes back for the next stage.
    pub(crate) async fn run(mut self, pace: Pace, batch: usize, mut stop: Stop) -> Self {
        while let Some(turn) = pace.turn(batch, &mut stop).await {
            let sent = self.send(turn).await;
            pace.done(sent, turn.messages - sent);
            if sent < turn.messages && pace.has_time() {
                sleep(PAUSE).await;
            }
        }
        self
    }

    /// Makes one call; how many of the messages the service has, or may have.
    async fn send(&mut self, turn: Turn) -> usize {
        let begun = turn.due.unwrap_or_else(|| self.shared.clock.now());
        let (action, body) = self.write(turn.messages, begun);
        let answer = self.client.call(action, body).await;
        let ended = self.shared.clock.now();
        let outcomes = self.outcomes(action, answer.as_deref(), ended);
        let count = |wanted| {
            outcomes
                .iter()
                .filter(|outcome| **outcome == wanted)
                .count()
        };
        let call = Call {
            deed: Deed::Send,
            begun,
            ended,
            messages: count(SendOutcome::Acknowledged),
        };
        match &answer {
            Ok(_) => self.shared.meter.answered(call),
            Err(error) => self.shared.meter.failed(call, error),
        }
        let mut check = self.shared.check();
        for (key, outcome) in self.keys.iter().zip(&outcomes) {
            check.end_send(*key, *outcome);
        }
        outcomes.len() - count(SendOutcome::Refused)
    }

    /// Begins messages in the next streams of the next share, and writes the call that sends them.
    fn write(&mut self, messages: usize, begun: u64) -> (Action, Bytes) {
        let share = &self.shares[self.next_share];
        let next_stream = &mut self.next_streams[self.next_share];
        self.next_share = (self.next_share + 1) % self.shares.len();

        self.keys.clear();
        let mut check = self.shared.check();
        for _ in 0..messages {
            let stream = share.streams[*next_stream];
            *next_stream = (*next_stream + 1) % share.streams.len();
            self.keys.push((stream, check.begin_send(stream)));
        }
        drop(check);

        let is_batch = messages > 1;
        let body_bytes = self.shared.options.body_bytes as usize;
        let url = &self.shared.queues[share.queue as usize].url_json;
        let capacity = url.len() + messages * (body_bytes + ENTRY_BYTES) + ENTRY_BYTES;
        let mut entries = Entries::new(url, is_batch, capacity);
        for (stream, sequence) in self.keys.iter().copied() {
            let stamp = Stamp {
                stream,
                sequence,
                sent_at: begun,
            };
            let bodies = &self.shared.bodies;
            let entry = entries.entry();
            entry.plain("MessageBody", |out| bodies.write(&stamp, out));
            if self.shared.groups > 0 {
                let group = stream % self.shared.groups;
                entry.plain("MessageGroupId", |out| put_hex(out, group.into(), 8));
                entry.plain("MessageDeduplicationId", |out| {
                    put_hex(out, stream.into(), 8);
                    put_hex(out, sequence, 12);
                });
            }
        }
        let action = if is_batch {
            Action::SendMessageBatch
        } else {
            Action::SendMessage
        };
        (action, entries.finish().into())
    }

    /// What became of each message; errors of entries are counted.
    fn outcomes(
        &self,
        action: Action,
        answer: Result<&[u8], &CallError>,
        ended: u64,
    ) -> Vec<SendOutcome> {
        let count = self.keys.len();
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.had_no_effect() => return vec![SendOutcome::Refused; count],
            Err(_) => return vec![SendOutcome::Unknown; count],
        };
        if action == Action::SendMessage {
            return vec![SendOutcome::Acknowledged; count];
        }
        let unanswered = || vec![EntryOutcome::Unanswered; count];
        let entries = batch_outcomes(answer, count).unwrap_or_else(unanswered);
        let outcome = |entry: &EntryOutcome| match entry {
            EntryOutcome::Done => SendOutcome::Acknowledged,
            EntryOutcome::Unanswered => SendOutcome::Unknown,
            EntryOutcome::Failed { sender_fault, .. } if *sender_fault => SendOutcome::Refused,
            EntryOutcome::Failed { .. } => SendOutcome::Unknown,
        };
        for code in entries.iter().filter_map(EntryOutcome::error) {
            self.shared.meter.error(Deed::Send, ended, code);
        }
        entries.iter().map(outcome).collect()
    }
}
