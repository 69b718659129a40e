//! A node in this process, asked by real clients over TCP.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests; clippy sees only the functions marked so"
)]

mod harness;
mod secrets;
mod tls;
