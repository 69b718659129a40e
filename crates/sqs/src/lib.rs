//! The SQS protocol: bytes in, bytes out.
//!
//! A request travels through this crate in three steps, in the order in which AWS reports faults:
//!
//! 1. **Shape.** [`request::Request`] is read from the JSON body of one [`action::Action`], or from
//!    the [`query::Form`] of the other dialect. What is refused here can be refused without knowing
//!    the queue: unreadable JSON, a missing `QueueUrl`.
//! 2. **Queue.** The caller finds the queue that [`queue_url::QueueRef`] names. A queue that is
//!    missing is reported before any bad value, so nothing else has been looked at yet.
//! 3. **Values.** `check` on the request, given the facts of that queue, turns text into domain
//!    types that cannot be wrong, each refusal worded as AWS words it.
//!
//! The answer is a struct beside its request (one file per action under [`actions`]), written as a
//! [`reply::Dialect`] has it; [`reply::Reply`] adds status and headers; [`error::SqsError`] is every
//! refusal.
//! [`message::stored::StoredMessage`] is the one thing persisted: what is kept of a message's body.
//!
//! [`sigv4`] tells who signed a request, before any of this.
//!
//! Never here: a clock, randomness, a socket, a lock, the state of a queue.

pub mod action;
pub mod actions;
pub mod arn;
pub mod batch;
pub mod error;
mod hex;
pub mod message;
pub mod move_task;
pub mod policy;
pub mod quantities;
pub mod query;
pub mod queue_attributes;
pub mod queue_name;
pub mod queue_url;
pub mod reply;
pub mod request;
pub mod sigv4;
pub mod sts;
pub mod tags;
mod timestamp;
mod wire;
