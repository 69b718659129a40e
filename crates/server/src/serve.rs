//! A node as a process: a runtime, a log, and signals that end it.
//!
//! The first SIGTERM or SIGINT stops the node in order. A second one ends the process at once, which
//! is safe: what was acknowledged is on disk.

use crate::config::{ConfigError, Limits, Loaded};
use crate::descriptors;
use crate::run::{RunError, run};
use crate::telemetry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};

/// Why a process did not run to its orderly end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration is good to look at, but not to serve with.
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    /// The runtime or its signals could not be had.
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    /// Something logs already.
    #[error("cannot start logging: {0}")]
    Telemetry(#[from] tracing_subscriber::util::TryInitError),
    /// The node failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The exit code after a second signal: 128 and the number of SIGINT, as shells have it.
const IMPATIENT_EXIT: i32 = 130;

/// Runs a node with this configuration until the process is told to end.
pub fn serve(mut loaded: Loaded) -> Result<(), ServeError> {
    loaded.check_servable()?;
    telemetry::start(&loaded.config.log)?;
    for warning in &loaded.warnings {
        warn!(warning, "configuration");
    }
    limit_connections(&mut loaded.config.limits);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(async {
        let terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
        let (stop, stopped) = oneshot::channel();
        let signals = tokio::spawn(watch(terminate, interrupt, stop));
        let shutdown = async {
            // The watcher ends only after it has sent, so there is nothing to do about an error.
            let _ = stopped.await;
        };
        let result = run(loaded.config, shutdown).await;
        signals.abort();
        Ok(result?)
    })
}

/// Keeps connections from taking the open files that the log needs.
fn limit_connections(limits: &mut Limits) {
    let open_files = descriptors::raise();
    let connections = descriptors::connections(limits.connections, open_files);
    if connections < limits.connections {
        let wanted = limits.connections;
        warn!(
            wanted,
            connections, open_files, "too few open files for limits.connections"
        );
        limits.connections = connections;
    }
}

async fn watch(mut terminate: Signal, mut interrupt: Signal, stop: oneshot::Sender<()>) {
    let name = either(&mut terminate, &mut interrupt).await;
    info!(signal = name, "stopping");
    // The node may have ended by itself meanwhile; then there is nothing left to stop.
    let _ = stop.send(());
    let name = either(&mut terminate, &mut interrupt).await;
    warn!(signal = name, "ending at once");
    std::process::exit(IMPATIENT_EXIT);
}

/// Waits for one of the two signals; the other stays pending in its own stream.
async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
