//! The node: storage, Raft groups, partitions, router and gateway, wired and stopped in order.

use crate::config::Config;
use std::future::Future;

/// Why a node could not start, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The parts are not connected yet.
    #[error("the node's parts are not wired yet")]
    NotWired,
}

/// Runs a node until `shutdown` completes, then stops it in order.
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), RunError> {
    drop((config, shutdown));
    Err(RunError::NotWired)
}
