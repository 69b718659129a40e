//! The front over a node of its own, a simulated disk and streams in memory: what a client sees.

#![expect(clippy::unwrap_used, reason = "a refused unwrap is how a test fails")]

mod access;
mod contract;
mod harness;
mod limits;
mod message_metrics;
mod messages;
mod permissions;
mod query;
mod queues;
mod quotas;
mod robustness;
mod serving;
mod signers;
mod strangers;
mod tenants;
mod terraform;
mod tls;
