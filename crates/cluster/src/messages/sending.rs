//! Sends: where each message goes, and what became of it.
//!
//! On a FIFO queue the message group decides, for ever. On a standard queue a whole request goes to
//! one partition, drawn anew for each request; it is kept on every attempt, and only an answer that
//! proves that nothing happened lets the request go to another.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use hikyaku_metadata::{QueueRecord, message_group_partition};
use hikyaku_queue::{Operation, PartitionId, Reply, SendError, SendMessage, Sent};

use super::{Outgoing, SendFailure, unexpected};
use crate::node::Node;
use crate::router::{CallError, Request};

/// Changes of the spread that one request follows; more at once are somebody's mistake.
const MOVES_MAX: usize = 3;

/// What one partition answered to its messages.
type Answers = Vec<Result<Sent, SendError>>;

/// The messages of a request for one partition, in their order, with their places in the request.
#[derive(Default)]
struct Part {
    places: Vec<usize>,
    messages: Vec<SendMessage>,
    bodies: Vec<Bytes>,
}

impl Node {
    /// Sends messages to a queue: one result each. Those for one partition are one command, and stay
    /// in their order; the partitions are asked at once.
    pub async fn send(
        &self,
        queue: &QueueRecord,
        messages: Vec<Outgoing>,
    ) -> Vec<Result<Sent, SendFailure>> {
        let count = messages.len();
        if !queue.is_fifo() {
            let (_, request) = self.send_request(queue, whole(messages));
            return match self.send_anywhere(queue, request).await {
                Ok(answers) => answers.into_iter().map(|it| Ok(it?)).collect(),
                Err(error) => vec![Err(SendFailure::Call(error)); count],
            };
        }
        let parts = by_message_group(queue, messages);
        let sends = parts
            .into_iter()
            .map(|(partition, part)| self.send_by_group(queue, partition, part));
        let mut placed: Vec<(usize, Result<Sent, SendFailure>)> = Vec::with_capacity(count);
        for (places, answers) in join_all(sends).await {
            match answers {
                Ok(answers) => {
                    let answers = answers.into_iter().map(|it| it.map_err(SendFailure::from));
                    placed.extend(places.into_iter().zip(answers));
                }
                Err(error) => {
                    let failed = |place| (place, Err(SendFailure::Call(error)));
                    placed.extend(places.into_iter().map(failed));
                }
            }
        }
        placed.sort_unstable_by_key(|(place, _)| *place);
        placed.into_iter().map(|(_, result)| result).collect()
    }

    async fn send_by_group(
        &self,
        queue: &QueueRecord,
        partition: PartitionId,
        part: Part,
    ) -> (Vec<usize>, Result<Answers, CallError>) {
        let (places, mut request) = self.send_request(queue, part);
        request.partition = partition;
        let answers = match self.send_to(&request).await {
            Ok(Some(answers)) => Ok(answers),
            Ok(None) => {
                tracing::error!(queue = ?request.queue, partition = partition.0, "a partition of a FIFO queue takes no sends");
                Err(CallError::Unavailable { no_effect: true })
            }
            Err(error) => Err(error),
        };
        (places, answers)
    }

    async fn send_anywhere(
        &self,
        queue: &QueueRecord,
        mut request: Request,
    ) -> Result<Answers, CallError> {
        let mut newer: Option<Arc<QueueRecord>> = None;
        for _ in 0..MOVES_MAX {
            let record = newer.as_deref().unwrap_or(queue);
            request.descriptor_version = record.descriptor.version;
            let (first, second) = self.router().choose(&record.descriptor.spread);
            request.partition = first;
            let mut sent = self.send_to(&request).await;
            // Both say that nothing happened.
            if let (Err(CallError::Overloaded | CallError::DiskFull), Some(second)) =
                (&sent, second)
            {
                request.partition = second;
                sent = self.send_to(&request).await;
            }
            match sent? {
                Some(answers) => return Ok(answers),
                None => newer = Some(self.newer(record).await?),
            }
        }
        Err(CallError::Unavailable { no_effect: true })
    }

    /// `None`: the partition is not in the queue's spread any more, and nothing happened.
    async fn send_to(&self, request: &Request) -> Result<Option<Answers>, CallError> {
        match self.router().call(request).await?.reply {
            Reply::Sent(answers) => Ok(Some(answers)),
            Reply::TakesNoSends => Ok(None),
            reply => Err(unexpected(&reply)),
        }
    }

    /// The queue's record as of now.
    async fn newer(&self, known: &QueueRecord) -> Result<Arc<QueueRecord>, CallError> {
        let asked = self.control().barrier().await;
        asked.map_err(|_| CallError::Unavailable { no_effect: true })?;
        let newer = self.catalogue().get(known.descriptor.id);
        newer.ok_or(CallError::QueueGone)
    }

    fn send_request(&self, queue: &QueueRecord, part: Part) -> (Vec<usize>, Request) {
        let operation = Operation::Send {
            messages: part.messages,
        };
        let mut request = self.request(queue, queue.descriptor.spread[0], operation);
        request.bodies = part.bodies;
        (part.places, request)
    }
}

fn whole(messages: Vec<Outgoing>) -> Part {
    let mut part = Part::default();
    for (place, message) in messages.into_iter().enumerate() {
        part.push(place, message);
    }
    part
}

/// A message without a group goes anywhere: it is refused there.
fn by_message_group(queue: &QueueRecord, messages: Vec<Outgoing>) -> BTreeMap<PartitionId, Part> {
    let descriptor = &queue.descriptor;
    let mut parts: BTreeMap<PartitionId, Part> = BTreeMap::new();
    for (place, message) in messages.into_iter().enumerate() {
        let group = message.message_group.as_deref().unwrap_or_default();
        let partition = message_group_partition(descriptor.id, &descriptor.spread, group);
        parts.entry(partition).or_default().push(place, message);
    }
    parts
}

impl Part {
    fn push(&mut self, place: usize, message: Outgoing) {
        self.places.push(place);
        self.messages.push(SendMessage {
            id: message.id,
            body_bytes: u32::try_from(message.body.len()).expect("a message is at most a few MiB"),
            delay_ms: message.delay_ms,
            message_group: message.message_group,
            deduplication_id: message.deduplication_id,
        });
        self.bodies.push(message.body);
    }
}
