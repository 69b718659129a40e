//! A load generator for any SQS endpoint: this service, AWS, an emulator.
//!
//! A run goes through stages: create queues, preload, warm up, measure, drain, delete the queues.
//! Each connection is one task that makes one call after the other; nothing is retried, so that
//! every call's outcome is known to the checker. All that is received is checked: each body names
//! the run, its stream and its place there (`stamp`), and `check` tells loss, strangers, wrong order
//! and what came back. A run that saw any of it ends with an error.
//!
//! One clock, this process's, stamps and measures everything. With a rate, sends are due at instants
//! fixed beforehand and their latency counts from there, however late a connection was free: an
//! endpoint that stalls cannot hide it by being asked less (no coordinated omission).
//!
//! Memory is bounded by what is unsettled, not by what was sent: one byte a message from the oldest
//! of its stream that is not yet deleted; see [`check`](crate#memory).
//!
//! # Memory
//!
//! `check` keeps 1 byte for each message sent since the oldest unsettled one of its stream, about
//! 60 bytes a stream, 32 bytes a message in flight on FIFO queues, and 24 bytes a message deleted
//! while a receive is out. The four histograms together have under a mebibyte.
//!
//! Never here: credentials in any output, retries, anything of the server.

mod check;
mod connection;
mod consumer;
mod endpoint;
mod meter;
mod options;
mod pace;
mod plan;
mod producer;
mod report;
mod run;
mod shared;
mod signer;
mod stamp;
mod wire;

pub use options::Options;
pub use plan::PlanError;
pub use run::{BenchError, run};
