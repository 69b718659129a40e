//! What nodes say to each other and how it gets there.
//!
//! A node has three kinds of streams to a peer, each on a connection of its own so that no kind waits
//! for another's bytes: *control* (votes, heartbeats of all groups gathered, transfers of leadership),
//! *append* (entries, pipelined, a bounded number of bytes under way), and one for each *snapshot*.
//! Requests that are not Raft's go over a fourth connection ([`calls`]).
//!
//! Before they are a cluster, nodes know each other by address only ([`founding`]). From then on,
//! whatever is sent to a peer starts with a head that says who speaks to whom ([`identity`]). Every
//! request has a deadline, and a stream whose far end gives no sign of life is given up ([`lane`]).

pub mod answers;
pub mod calls;
pub mod clocks;
pub mod founding;
pub mod identity;
pub mod lane;
pub mod net;
pub mod peers;
pub mod service;
pub mod sessions;
pub mod stats;
#[cfg(test)]
mod tests;
pub mod tls;

/// Largest message accepted from a peer: one entry (1 MiB of commands, or one command of ten large
/// messages) and what surrounds it.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Requests are gathered into one message up to so many bytes of entries.
pub const FRAME_BYTES: usize = 1 << 20;
