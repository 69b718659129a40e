//! The crate as the gateway uses it: bytes in, bytes out.

#![expect(clippy::unwrap_used, reason = "a refused unwrap is how a test fails")]

mod names;
mod policy;
mod query;
mod queues;
mod receiving;
mod robustness;
mod sending;

use hikyaku_sqs::action::Action;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::message::QueueFacts;
use hikyaku_sqs::request::{Envelope, Request};

/// A standard queue with the default limits.
const STANDARD: QueueFacts = QueueFacts {
    maximum_message_size: 1_048_576,
    fifo: false,
    content_based_deduplication: false,
};

/// A FIFO queue that wants explicit deduplication ids.
const FIFO: QueueFacts = QueueFacts {
    fifo: true,
    ..STANDARD
};

/// A FIFO queue that derives deduplication ids.
const CONTENT_BASED: QueueFacts = QueueFacts {
    content_based_deduplication: true,
    ..FIFO
};

/// The request that these members make, about the queue `orders` unless they say otherwise.
fn read(action: Action, members: &str) -> Result<String, SqsError> {
    with_request(action, members, |request| Ok(format!("{request:?}")))
}

/// What `act` makes of the request of these members; the queue's URL is added to them.
fn with_request<T>(
    action: Action,
    members: &str,
    act: impl FnOnce(&Request<'_>) -> Result<T, SqsError>,
) -> Result<T, SqsError> {
    let members = members.trim().trim_start_matches('{');
    let comma = if members.starts_with('}') { "" } else { "," };
    let body = format!("{{\"QueueUrl\":\"http://h/000000000000/orders\"{comma}{members}");
    let request = Request::from_json(action, body.as_bytes(), Envelope::default())?;
    act(&request)
}
