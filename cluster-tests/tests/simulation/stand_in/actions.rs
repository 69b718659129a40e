//! The actions that the workload uses.

use std::time::Duration;

use hikyaku_queue::{
    ChangeVisibilityError, DeleteError, MessageId, Operation, ReceiptHandle, Reply, SendMessage,
    VisibilityChange,
};
use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::change_message_visibility::ChangeMessageVisibility;
use hikyaku_sqs::actions::create_queue::CreateQueueResponse;
use hikyaku_sqs::actions::delete_message_batch::{DeleteMessageBatch, DeleteMessageBatchResponse};
use hikyaku_sqs::actions::receive_message::{Delivery, ReceiveMessage, ReceiveMessageResponse};
use hikyaku_sqs::actions::send_message_batch::{
    SendMessageBatch, SendMessageBatchResponse, SendMessageBatchSuccess,
};
use hikyaku_sqs::batch::BatchSuccess;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::QueueFacts;
use hikyaku_sqs::message::stored::{MessageId as SqsMessageId, StoredMessage};
use hikyaku_sqs::reply;
use hikyaku_sqs::request::{Envelope, Request};
use tokio::time::{Instant, sleep};

use super::{Kind, Life, QUEUE, lock};

/// How often a long poll looks again.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

impl Life {
    pub(super) async fn act(&self, target: &str, body: &[u8]) -> reply::Reply {
        let answer = match Action::from_target(target) {
            Some(action) => self.dispatch(action, body).await,
            None => Err(SqsError::invalid_action(target)),
        };
        match answer {
            Ok(body) => reply::Reply::json("request", body),
            Err(error) => reply::Reply::json_error("request", &error),
        }
    }

    async fn dispatch(&self, action: Action, body: &[u8]) -> Result<Vec<u8>, SqsError> {
        match Request::from_json(action, body, Envelope::default())? {
            // The one queue is there from the start.
            Request::CreateQueue(request) => {
                let queue_url = format!("http://stand-in/000000000000/{}", request.name.as_str());
                Ok(CreateQueueResponse { queue_url }.to_json())
            }
            Request::SendMessageBatch(request) => self.send(&request).await,
            Request::ReceiveMessage(request) => self.receive(&request).await,
            Request::DeleteMessageBatch(request) => self.delete(&request).await,
            Request::ChangeMessageVisibility(request) => self.change(&request).await,
            Request::GetQueueAttributes(_) => Ok(self.counts()),
            _ => Err(SqsError::invalid_action(action.name())),
        }
    }

    fn facts(&self) -> QueueFacts {
        QueueFacts {
            maximum_message_size: 1_048_576,
            fifo: self.stand_in.kind != Kind::Standard,
            content_based_deduplication: false,
        }
    }

    async fn send(&self, request: &SendMessageBatch<'_>) -> Result<Vec<u8>, SqsError> {
        let entries = request.check(self.facts())?;
        let mut messages = Vec::new();
        let mut bodies = Vec::new();
        let mut digests = Vec::new();
        for entry in &entries {
            let message = entry.checked.as_ref().map_err(Clone::clone)?;
            let id = self.next_message_id(messages.len());
            let body = message.to_stored(SqsMessageId(id.0), "sender").encode();
            messages.push(SendMessage {
                id,
                body_bytes: body.len() as u32,
                delay_ms: None,
                message_group: message
                    .message_group
                    .as_ref()
                    .map(|g| g.as_str().to_owned()),
                deduplication_id: message
                    .deduplication_id
                    .as_ref()
                    .map(|d| d.as_str().to_owned()),
            });
            bodies.push(body);
            digests.push(message.digests());
        }
        let (reply, length) = self.propose(Operation::Send { messages }, bodies);
        self.sync(length).await;
        let Reply::Sent(sent) = reply else {
            return Err(SqsError::internal());
        };
        let mut answer = SendMessageBatchResponse::default();
        for ((entry, sent), digests) in entries.iter().zip(sent).zip(digests) {
            let success = sent.map_err(|_| SqsError::internal()).map(|sent| {
                let id = SqsMessageId(sent.id.0);
                SendMessageBatchSuccess::new(entry.id, id, digests, sent.sequence)
            });
            answer.push(entry.id, success);
        }
        Ok(answer.to_json())
    }

    /// Unique over all lives: made of the next request's number.
    fn next_message_id(&self, place: usize) -> MessageId {
        let number = lock(&self.machine).requests + 1;
        MessageId((number << 8 | place as u128).to_be_bytes())
    }

    async fn receive(&self, request: &ReceiveMessage<'_>) -> Result<Vec<u8>, SqsError> {
        let checked = request.check(self.facts())?;
        let wait = checked.wait_time.map_or(0, |wait| wait.seconds());
        let until = Instant::now() + Duration::from_secs(wait.into());
        while !self.has_candidate() {
            if Instant::now() >= until {
                return Ok(ReceiveMessageResponse {
                    messages: Vec::new(),
                }
                .to_json());
            }
            sleep(LOOK_INTERVAL).await;
        }
        let timeout = checked
            .visibility_timeout
            .map(|t| u64::from(t.seconds()) * 1_000);
        let operation = Operation::Receive {
            max: checked.max_number_of_messages.get(),
            visibility_timeout_ms: timeout,
            attempt_id: None,
        };
        let (reply, length) = self.propose(operation, Vec::new());
        self.sync(length).await;
        let Reply::Received(deliveries) = reply else {
            return Err(SqsError::internal());
        };
        let bodies: Vec<Vec<u8>> = {
            let machine = lock(&self.machine);
            deliveries
                .iter()
                .map(|d| machine.bodies[&d.name].clone())
                .collect()
        };
        let messages = deliveries.iter().zip(&bodies).map(|(delivery, body)| {
            checked.present(Delivery {
                receipt_handle: self.sealer.seal(&delivery.receipt),
                stored: StoredMessage::decode(body).expect("we wrote it"),
                sent_ms: 0,
                receive_count: delivery.receive_count,
                first_received_ms: delivery.first_received_at,
                sequence_number: delivery.sequence,
                dead_letter_source: None,
            })
        });
        Ok(ReceiveMessageResponse {
            messages: messages.collect(),
        }
        .to_json())
    }

    fn has_candidate(&self) -> bool {
        let machine = lock(&self.machine);
        machine.partition.has_candidate(QUEUE, machine.now_ms())
    }

    fn open(&self, handle: &str) -> Result<ReceiptHandle, SqsError> {
        self.sealer
            .open(handle)
            .map_err(|_| SqsError::receipt_handle_is_invalid(handle))
    }

    async fn delete(&self, request: &DeleteMessageBatch<'_>) -> Result<Vec<u8>, SqsError> {
        let entries = request.check()?;
        let mut texts = Vec::new();
        for entry in &entries {
            texts.push(*entry.checked.as_ref().map_err(Clone::clone)?);
        }
        let handles = texts
            .iter()
            .map(|text| self.open(text))
            .collect::<Result<Vec<_>, _>>()?;
        let (reply, length) = self.propose(Operation::Delete { handles }, Vec::new());
        self.sync(length).await;
        let Reply::Deleted(deleted) = reply else {
            return Err(SqsError::internal());
        };
        let mut answer = DeleteMessageBatchResponse::default();
        for ((entry, deleted), text) in entries.iter().zip(deleted).zip(texts) {
            let outcome = deleted.map_err(|error| match error {
                DeleteError::ForeignHandle => SqsError::receipt_handle_is_invalid(text),
                DeleteError::HandleExpired => SqsError::receipt_handle_has_expired(text),
            });
            answer.push(entry.id, outcome.map(|()| BatchSuccess { id: entry.id }));
        }
        Ok(answer.to_json())
    }

    async fn change(&self, request: &ChangeMessageVisibility<'_>) -> Result<Vec<u8>, SqsError> {
        let change = request.check()?;
        let text = change.receipt_handle;
        let timeout_ms = u64::from(change.timeout.seconds()) * 1_000;
        let changes = vec![VisibilityChange {
            handle: self.open(text)?,
            timeout_ms,
        }];
        let (reply, length) = self.propose(Operation::ChangeVisibility { changes }, Vec::new());
        self.sync(length).await;
        let Reply::VisibilityChanged(changed) = reply else {
            return Err(SqsError::internal());
        };
        changed
            .into_iter()
            .collect::<Result<Vec<()>, _>>()
            .map_err(|error| match error {
                ChangeVisibilityError::ForeignHandle => SqsError::receipt_handle_is_invalid(text),
                ChangeVisibilityError::HandleExpired => SqsError::receipt_handle_has_expired(text),
                ChangeVisibilityError::NotAvailable => SqsError::message_does_not_exist(text),
                ChangeVisibilityError::TotalTimeoutTooLong => {
                    SqsError::total_visibility_timeout_beyond_limit(change.timeout.seconds())
                }
            })?;
        Ok(Vec::new())
    }

    fn counts(&self) -> Vec<u8> {
        let machine = lock(&self.machine);
        let counts = machine.partition.counts(QUEUE, machine.now_ms());
        let counts = counts.expect("the queue was made at the start");
        let attributes = serde_json::json!({ "Attributes": {
            "ApproximateNumberOfMessages": counts.visible.to_string(),
            "ApproximateNumberOfMessagesNotVisible": counts.in_flight.to_string(),
            "ApproximateNumberOfMessagesDelayed": counts.delayed.to_string(),
        }});
        attributes.to_string().into_bytes()
    }
}
