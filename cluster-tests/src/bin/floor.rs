//! A server that reads, checks and answers SQS requests like the product, and keeps no promise.
//!
//! Messages wait in memory and are forgotten as soon as they are received. What it costs is the floor:
//! HTTP, JSON, MD5 and the loopback. What the product costs above it is the queue.

#![expect(
    clippy::print_stdout,
    reason = "the address it listens on is its output"
)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use clap::Parser;
use hikyaku_sqs::action::Action;
use hikyaku_sqs::actions::create_queue::CreateQueueResponse;
use hikyaku_sqs::actions::delete_message_batch::DeleteMessageBatchResponse;
use hikyaku_sqs::actions::receive_message::{Delivery, ReceiveMessage, ReceiveMessageResponse};
use hikyaku_sqs::actions::send_message::SendMessageResponse;
use hikyaku_sqs::actions::send_message_batch::{
    SendMessageBatch, SendMessageBatchResponse, SendMessageBatchSuccess,
};
use hikyaku_sqs::batch::BatchSuccess;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::stored::{MessageId, StoredMessage};
use hikyaku_sqs::message::{CheckedMessage, QueueFacts};
use hikyaku_sqs::reply::Reply;
use hikyaku_sqs::request::{Envelope, Request};
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// More waiting messages than this are dropped, oldest first: memory has a bound.
const MAX_WAITING: usize = 1_000_000;

/// As long as a real receipt handle, so that answers are as long as the product's.
const RECEIPT_HANDLE_BYTES: usize = 120;

/// Answers SQS requests from memory; for comparison only.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to listen; it prints the address it got.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// FIFO rules for what is sent.
    #[arg(long)]
    fifo: bool,
}

#[derive(Debug)]
struct Floor {
    facts: QueueFacts,
    waiting: Mutex<VecDeque<Vec<u8>>>,
    next: AtomicU64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let listener = TcpListener::bind(arguments.listen).await?;
    println!("{}", listener.local_addr()?);
    let facts = QueueFacts {
        maximum_message_size: 1_048_576,
        fifo: arguments.fifo,
        content_based_deduplication: false,
    };
    let floor = Arc::new(Floor {
        facts,
        waiting: Mutex::default(),
        next: AtomicU64::default(),
    });
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let floor = Arc::clone(&floor);
        let service = service_fn(move |request| {
            let floor = Arc::clone(&floor);
            async move { Ok::<_, Infallible>(floor.serve(request).await) }
        });
        // Each connection ends with its client, all of them with the process.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

impl Floor {
    async fn serve(&self, request: http::Request<Incoming>) -> Response<Full<Bytes>> {
        let target = request
            .headers()
            .get("x-amz-target")
            .and_then(|v| v.to_str().ok());
        let action = target.and_then(Action::from_target);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let request_id = MessageId(u128::from(number).to_be_bytes()).to_string();
        let reply = match (action, request.into_body().collect().await) {
            (Some(action), Ok(body)) => match self.answer(action, &body.to_bytes()) {
                Ok(body) => Reply::json(&request_id, body),
                Err(error) => Reply::json_error(&request_id, &error),
            },
            _ => Reply::unknown_operation(&request_id),
        };
        let mut response = Response::builder().status(reply.status);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        response
            .body(Full::from(reply.body))
            .expect("our own headers are valid")
    }

    fn answer(&self, action: Action, body: &[u8]) -> Result<Vec<u8>, SqsError> {
        match Request::from_json(action, body, Envelope::default())? {
            Request::CreateQueue(_) => {
                let queue_url = "http://floor/000000000000/floor".to_owned();
                Ok(CreateQueueResponse { queue_url }.to_json())
            }
            Request::SendMessage(request) => {
                let message = request.check(self.facts)?;
                let id = self.keep(&message);
                Ok(SendMessageResponse::new(id, message.digests(), None).to_json())
            }
            Request::SendMessageBatch(request) => self.send_batch(&request),
            Request::ReceiveMessage(request) => self.receive(&request),
            Request::DeleteMessage(request) => request.check().map(|_| Vec::new()),
            Request::DeleteMessageBatch(request) => {
                let mut answer = DeleteMessageBatchResponse::default();
                for entry in request.check()? {
                    answer.push(
                        entry.id,
                        entry.checked.map(|_| BatchSuccess { id: entry.id }),
                    );
                }
                Ok(answer.to_json())
            }
            _ => Err(SqsError::invalid_action(action.name())),
        }
    }

    fn keep(&self, message: &CheckedMessage<'_>) -> MessageId {
        let id = MessageId(u128::from(self.next.fetch_add(1, Ordering::Relaxed)).to_be_bytes());
        let stored = message.to_stored(id, "floor").encode();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == MAX_WAITING {
            waiting.pop_front();
        }
        waiting.push_back(stored);
        id
    }

    fn send_batch(&self, request: &SendMessageBatch<'_>) -> Result<Vec<u8>, SqsError> {
        let mut answer = SendMessageBatchResponse::default();
        for entry in request.check(self.facts)? {
            let sent = entry.checked.map(|message| {
                let id = self.keep(&message);
                SendMessageBatchSuccess::new(entry.id, id, message.digests(), None)
            });
            answer.push(entry.id, sent);
        }
        Ok(answer.to_json())
    }

    fn receive(&self, request: &ReceiveMessage<'_>) -> Result<Vec<u8>, SqsError> {
        let checked = request.check(self.facts)?;
        let max = usize::from(checked.max_number_of_messages.get());
        let taken: Vec<Vec<u8>> = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let count = max.min(waiting.len());
            waiting.drain(..count).collect()
        };
        let messages = taken.iter().map(|bytes| {
            let stored = StoredMessage::decode(bytes).expect("it was encoded here");
            checked.present(Delivery {
                stored,
                receipt_handle: "A".repeat(RECEIPT_HANDLE_BYTES),
                sent_ms: 0,
                receive_count: 1,
                first_received_ms: 0,
                sequence_number: None,
                dead_letter_source: None,
            })
        });
        Ok(ReceiveMessageResponse {
            messages: messages.collect(),
        }
        .to_json())
    }
}
