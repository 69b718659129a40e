//! A small SQS client: AWS JSON 1.0 over one HTTP/1.1 connection.
//!
//! It runs over any byte stream, a TCP connection of the machine or of the simulation, and never
//! retries: one call is one HTTP attempt, so that its outcome can be written into a history. It
//! knows the wire, not the rules: what the server refuses it tries anyway.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use crate::history::Mentions;
use wire::{
    batch_results, entry_id, incoming, json_value, lacks, list, number, refused, send_entry,
    sequence, text,
};

mod wire;

#[cfg(test)]
mod tests;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("{status} {code}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error's name as SDKs show it: the query code where there is one.
        code: String,
        /// The error's text.
        message: String,
    },
    /// The connection broke, or what came was not HTTP.
    #[error("connection: {0}")]
    Connection(#[from] hyper::Error),
    /// No answer within the client's patience.
    #[error("no answer within {0:?}")]
    TooSlow(Duration),
    /// An answer that the SQS model does not allow.
    #[error("answer not understood: {0}")]
    NotUnderstood(String),
}

impl CallError {
    /// Whether the operation certainly had no effect: the server says that the client is wrong.
    pub fn had_no_effect(&self) -> bool {
        matches!(
            self,
            CallError::Refused {
                status: 400..500,
                ..
            }
        )
    }

    /// The error's name, when the server gave one.
    pub fn code(&self) -> Option<&str> {
        match self {
            CallError::Refused { code, .. } => Some(code),
            CallError::Connection(_) | CallError::TooSlow(_) | CallError::NotUnderstood(_) => None,
        }
    }
}

/// One message to send; what is `None` is left out of the request.
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    /// The body.
    pub body: String,
    /// FIFO's message group.
    pub message_group: Option<String>,
    /// FIFO's deduplication id.
    pub deduplication_id: Option<String>,
    /// Seconds.
    pub delay_seconds: Option<u32>,
}

/// What the server said of one message sent.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// The queue's name for the message.
    pub message_id: String,
    /// FIFO's sequence number.
    pub sequence: Option<u128>,
}

/// One message received.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The queue's name for the message.
    pub message_id: String,
    /// To delete it or to change its visibility.
    pub receipt_handle: String,
    /// The body.
    pub body: String,
    /// `ApproximateReceiveCount`.
    pub receive_count: u32,
    /// `SentTimestamp`, milliseconds.
    pub sent_ms: Option<u64>,
    /// FIFO's message group.
    pub message_group: Option<String>,
    /// FIFO's sequence number.
    pub sequence: Option<u128>,
}

/// What a receive asks for; what is `None` is the queue's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// At most this many messages.
    pub max: u32,
    /// Seconds.
    pub visibility_timeout: Option<u32>,
    /// Seconds.
    pub wait: Option<u32>,
}

/// A queue's three counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Ready to be received.
    pub visible: u64,
    /// Received and not deleted.
    pub in_flight: u64,
    /// Sent and not yet visible.
    pub delayed: u64,
}

impl Counts {
    /// The counts among a queue's attributes.
    ///
    /// # Errors
    /// [`CallError::NotUnderstood`] when they are not there.
    pub fn among(attributes: &Map<String, Value>) -> Result<Self, CallError> {
        let attributes = Value::Object(attributes.clone());
        Ok(Self {
            visible: number(&attributes, "ApproximateNumberOfMessages")?,
            in_flight: number(&attributes, "ApproximateNumberOfMessagesNotVisible")?,
            delayed: number(&attributes, "ApproximateNumberOfMessagesDelayed")?,
        })
    }

    /// All messages that exist.
    pub fn total(&self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}

/// The outcome of one entry of a batch: `Err` is the entry's error code.
pub type EntryResult<T> = Result<T, EntryError>;

/// What the server said of a batch entry that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{code} (sender's fault: {sender_fault})")]
pub struct EntryError {
    /// The error's name.
    pub code: String,
    /// Whether the client is wrong; otherwise the entry may have had its effect.
    pub sender_fault: bool,
    /// How often the answer named the entry; anything but once as failed is a fault of the server,
    /// and the error has no code then.
    pub mentions: Mentions,
}

/// An open connection to a server.
#[derive(Debug)]
pub struct Connection {
    requests: http1::SendRequest<Full<Bytes>>,
    driver: JoinHandle<Result<(), hyper::Error>>,
    host: String,
    patience: Duration,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Speaks HTTP over `stream`. Calls that last longer than `patience` are given up.
    ///
    /// # Errors
    /// When the stream is closed already.
    pub async fn open<S>(stream: S, host: &str, patience: Duration) -> Result<Self, CallError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        Ok(Self {
            requests,
            driver,
            host: host.to_owned(),
            patience,
        })
    }

    /// Whether another call can be made over this connection.
    pub fn is_usable(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Makes one call and gives back the answer's body, `null` if it was empty.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(&mut self, action: &str, body: &Value) -> Result<Value, CallError> {
        let answer = self.post(action, Bytes::from(body.to_string())).await?;
        json_value(&answer)
    }

    /// Makes one call whose body is written already and gives back the answer's bytes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn post(&mut self, action: &str, body: Bytes) -> Result<Bytes, CallError> {
        let request = Request::post("/")
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/x-amz-json-1.0")
            .header("x-amz-target", format!("AmazonSQS.{action}"))
            .body(Full::from(body))
            .map_err(|e| CallError::NotUnderstood(e.to_string()))?;
        let (head, body) = self.exchange(request).await?;
        if head.status.is_success() {
            Ok(body)
        } else {
            Err(refused(&head, &json_value(&body).unwrap_or_default()))
        }
    }

    /// Gets a page such as `/readyz`: its status and text.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn get(&mut self, path: &str) -> Result<(u16, String), CallError> {
        let request = Request::get(path)
            .header(header::HOST, &self.host)
            .body(Full::default())
            .map_err(|e| CallError::NotUnderstood(e.to_string()))?;
        let (head, body) = self.exchange(request).await?;
        Ok((
            head.status.as_u16(),
            String::from_utf8_lossy(&body).into_owned(),
        ))
    }

    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(http::response::Parts, Bytes), CallError> {
        let exchange = async {
            self.requests.ready().await?;
            let (head, body) = self.requests.send_request(request).await?.into_parts();
            Ok((head, body.collect().await?.to_bytes()))
        };
        let answer = tokio::time::timeout(self.patience, exchange).await;
        answer.map_err(|_| CallError::TooSlow(self.patience))?
    }

    /// Creates a queue, or finds it, and gives its URL.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn create_queue(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
    ) -> Result<String, CallError> {
        let attributes: Map<String, Value> = attributes
            .iter()
            .map(|(k, v)| ((*k).to_owned(), json!(v)))
            .collect();
        let body = json!({ "QueueName": name, "Attributes": attributes });
        text(&self.call("CreateQueue", &body).await?, "QueueUrl")
    }

    /// Sends up to ten messages; the results are in the order of the messages.
    ///
    /// # Errors
    /// See [`CallError`]; then no single entry has an answer.
    pub async fn send(
        &mut self,
        queue_url: &str,
        messages: &[Outgoing],
    ) -> Result<Vec<EntryResult<Accepted>>, CallError> {
        let entries: Vec<Value> = messages.iter().enumerate().map(send_entry).collect();
        let body = json!({ "QueueUrl": queue_url, "Entries": entries });
        let answer = self.call("SendMessageBatch", &body).await?;
        batch_results(&answer, messages.len(), |entry| {
            Ok(Accepted {
                message_id: text(entry, "MessageId")?,
                sequence: sequence(entry)?,
            })
        })
    }

    /// Receives messages, with their system attributes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn receive(
        &mut self,
        queue_url: &str,
        wanted: Wanted,
    ) -> Result<Vec<Incoming>, CallError> {
        let mut body = json!({
            "QueueUrl": queue_url,
            "MaxNumberOfMessages": wanted.max,
            "MessageSystemAttributeNames": ["All"],
        });
        if let Some(seconds) = wanted.visibility_timeout {
            body["VisibilityTimeout"] = json!(seconds);
        }
        if let Some(seconds) = wanted.wait {
            body["WaitTimeSeconds"] = json!(seconds);
        }
        let answer = self.call("ReceiveMessage", &body).await?;
        list(&answer, "Messages").iter().map(incoming).collect()
    }

    /// Deletes up to ten messages; the results are in the order of the handles.
    ///
    /// # Errors
    /// See [`CallError`]; then no single entry has an answer.
    pub async fn delete(
        &mut self,
        queue_url: &str,
        receipt_handles: &[String],
    ) -> Result<Vec<EntryResult<()>>, CallError> {
        let entry = |(id, handle)| json!({ "Id": entry_id(id), "ReceiptHandle": handle });
        let entries: Vec<Value> = receipt_handles.iter().enumerate().map(entry).collect();
        let body = json!({ "QueueUrl": queue_url, "Entries": entries });
        let answer = self.call("DeleteMessageBatch", &body).await?;
        batch_results(&answer, receipt_handles.len(), |_| Ok(()))
    }

    /// Changes the visibility timeout of one message.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn change_visibility(
        &mut self,
        queue_url: &str,
        receipt_handle: &str,
        seconds: u32,
    ) -> Result<(), CallError> {
        let body = json!({
            "QueueUrl": queue_url,
            "ReceiptHandle": receipt_handle,
            "VisibilityTimeout": seconds,
        });
        self.call("ChangeMessageVisibility", &body)
            .await
            .map(|_| ())
    }

    /// Sets some of the queue's attributes.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn set_attributes(
        &mut self,
        queue_url: &str,
        attributes: &[(&str, String)],
    ) -> Result<(), CallError> {
        let attributes: Map<String, Value> = attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let body = json!({ "QueueUrl": queue_url, "Attributes": attributes });
        self.call("SetQueueAttributes", &body).await.map(|_| ())
    }

    /// Reads the queue's attributes, all of them.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn attributes(&mut self, queue_url: &str) -> Result<Map<String, Value>, CallError> {
        let body = json!({ "QueueUrl": queue_url, "AttributeNames": ["All"] });
        let answer = self.call("GetQueueAttributes", &body).await?;
        let attributes = answer.get("Attributes").and_then(Value::as_object);
        attributes
            .cloned()
            .ok_or_else(|| lacks(&answer, "Attributes"))
    }

    /// Reads the queue's counts.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn counts(&mut self, queue_url: &str) -> Result<Counts, CallError> {
        Counts::among(&self.attributes(queue_url).await?)
    }
}
