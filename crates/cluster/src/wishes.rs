//! What this node's configuration says of the whole cluster.
//!
//! It is proposed once, at the start of the node, when the cluster has it otherwise. So of several nodes
//! that are configured differently the last one to start wins, for all of them, and one that says
//! nothing leaves the cluster as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hikyaku_metadata::{ChangeSettings, ClusterSettings, Command, Reply};

use crate::control::{ControlPlane, ControlUnavailable};

/// How long to wait before a leader is looked for again.
const PAUSE: Duration = Duration::from_millis(200);

/// A value for the whole cluster, and whether it has been proposed.
pub struct Wish {
    cooldown_ms: Option<u64>,
    settled: AtomicBool,
}

impl Wish {
    /// What is wanted; nothing, if there is no value.
    pub fn new(cooldown_ms: Option<u64>) -> Self {
        Self {
            cooldown_ms,
            settled: AtomicBool::new(cooldown_ms.is_none()),
        }
    }

    /// Whether nothing more is wanted: the cluster has been told.
    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Tells the cluster, as soon as it can be told.
    pub async fn settle(&self, control: Arc<ControlPlane>) {
        let Some(cooldown_ms) = self.cooldown_ms else {
            return;
        };
        while propose(&control, cooldown_ms).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
        self.settled.store(true, Ordering::Release);
    }
}

async fn propose(control: &ControlPlane, cooldown_ms: u64) -> Result<(), ControlUnavailable> {
    control.barrier().await?;
    // A router has no copy to look at, and asks in any case.
    let before = control.with_metadata(|metadata| metadata.settings().cooldown_ms);
    if before == Some(cooldown_ms) {
        return Ok(());
    }
    let settings = ClusterSettings { cooldown_ms };
    let command = Command::ChangeSettings(ChangeSettings(settings));
    match control.execute(command).await?.reply {
        Reply::SettingsChanged(Ok(())) => {
            tracing::info!(before, cooldown_ms, "set the cooldown of the whole cluster");
        }
        refused => tracing::error!(?refused, cooldown_ms, "the cooldown was refused"),
    }
    Ok(())
}
