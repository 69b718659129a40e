//! The machine from outside: stories, a naive model, replays, pinned encodings and memory.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests; clippy sees only the functions marked so"
)]

mod dead_letters;
mod encodings;
mod fair;
mod fifo;
mod memory;
mod model;
mod moves;
mod partition;
mod property;
mod script;
mod standard;
mod support;
mod unread;
