//! The daemon: configuration, telemetry, wiring, and an orderly start and stop.
//!
//! [`Loaded::load`] makes one configuration out of defaults, a file, the environment and flags;
//! [`serve`] runs a node with it until the process is told to end; [`run`](run::run) is the node
//! itself, wired from the crates below, which a simulation may call without a process.

mod access;
mod admin;
pub mod config;
mod copy;
mod descriptors;
mod ending;
mod front;
mod identity;
mod membership;
mod peer_net;
pub mod run;
mod sealing;
mod serve;
mod small_file;
mod storage_metrics;
mod tcp;
mod telemetry;
mod tls;

pub use access::AccessError;
pub use admin::TokenError;
pub use config::{Config, Loaded};
pub use sealing::SealingError;
pub use serve::{ServeError, serve};
pub use tls::{PairFiles, PeerFiles, TlsError};
