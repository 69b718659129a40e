//! Checkpoints and purges, decided per node rather than per group.
//!
//! A group is checkpointed when it has applied much since its newest checkpoint, or when the shared
//! log asks for it because the group pins old segments. It is purged up to its *oldest* kept
//! checkpoint, which is always applied: a purge that overtakes an apply kills openraft's core
//! (openraft#2116).

use std::time::Duration;

use hikyaku_storage::Log;
use openraft::async_runtime::WatchReceiver;

use crate::config::RaftConfig;
use crate::directory::Directory;
use crate::group::GroupCore;

/// How long one checkpoint may take before the next group gets its turn.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(60);

/// How long an answer to the wish for a checkpoint may take.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Runs until it is aborted.
pub async fn run(directory: Directory, log: Log, settings: RaftConfig) {
    loop {
        tokio::time::sleep(settings.maintenance_interval()).await;
        let wanted = log.wanted_checkpoints().borrow().clone();
        for core in directory.all() {
            let pins_segments = wanted.iter().any(|group| group.0 == core.id);
            if pins_segments || entries_behind(&core) >= settings.checkpoint_every_entries {
                checkpoint(&core).await;
            }
            if pins_segments {
                purge(&core).await;
            }
            core.incoming.tidy();
        }
    }
}

/// Entries applied since the newest checkpoint.
fn entries_behind(core: &GroupCore) -> u64 {
    let applied = core.machine.applied().borrow().index;
    let covered = core.log.checkpoint_ids().last().map_or(0, |id| id.index);
    applied.saturating_sub(covered)
}

/// Writes a checkpoint of what is applied now, unless the newest one covers it.
pub async fn checkpoint(core: &GroupCore) {
    let raft = core.raft();
    let applied = core.machine.applied().borrow().index;
    let mut metrics = raft.metrics();
    let covered = || {
        core.log
            .checkpoint_ids()
            .last()
            .is_some_and(|id| id.index >= applied)
    };
    let built = async {
        // Through openraft, which must know the snapshot to send it and to purge up to it. It ignores
        // the wish while it builds another one, so ask again.
        while !covered() && raft.trigger().snapshot().await.is_ok() {
            let seen = async { while !covered() && metrics.changed().await.is_ok() {} };
            // Either way the loop looks again.
            tokio::time::timeout(ASK_AGAIN, seen).await.ok();
        }
    };
    if applied > 0 && tokio::time::timeout(CHECKPOINT_LIMIT, built).await.is_err() {
        tracing::warn!(group = core.id, applied, "checkpoint takes unusually long");
    }
}

/// Lets the log drop entries that every kept checkpoint covers.
async fn purge(core: &GroupCore) {
    let Some(oldest) = core.log.checkpoint_ids().first().copied() else {
        return;
    };
    let purged = core.log.state().last_purged.map_or(0, |id| id.index);
    if oldest.index > purged {
        // A core that stopped is the watchdog's business.
        core.raft().trigger().purge_log(oldest.index).await.ok();
    }
}
