//! Timing and sizes of the Raft groups of one node.

use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};

/// Settings shared by all groups of a node. Times in milliseconds.
#[derive(Clone, Debug)]
pub struct RaftConfig {
    /// How often a leader lets its followers hear from it.
    pub heartbeat_ms: u64,
    /// Lower bound of the random part of an election timeout.
    pub election_min_ms: u64,
    /// Upper bound of the random part; also the silence after which a follower counts it.
    pub election_max_ms: u64,
    /// Deadline of one request to another node, other than a snapshot.
    pub rpc_timeout_ms: u64,
    /// Deadline of one whole snapshot transfer.
    pub snapshot_timeout_ms: u64,
    /// Most bytes of bodies that this node sends in snapshots, per second.
    pub snapshot_bytes_per_second: u64,
    /// Most bytes of entries in one append request (one entry always fits).
    pub append_bytes: usize,
    /// How often checkpoints and purges are considered.
    pub maintenance_interval_ms: u64,
    /// A group that applied this many entries since its newest checkpoint gets another one, so that
    /// a restart replays little.
    pub checkpoint_every_entries: u64,
}

impl Default for RaftConfig {
    fn default() -> Self {
        Self {
            heartbeat_ms: 200,
            election_min_ms: 600,
            election_max_ms: 1_000,
            rpc_timeout_ms: 1_000,
            snapshot_timeout_ms: 600_000,
            snapshot_bytes_per_second: 64 << 20,
            append_bytes: 1 << 20,
            maintenance_interval_ms: 500,
            checkpoint_every_entries: 200_000,
        }
    }
}

/// Two settings that contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum RaftConfigError {
    /// A follower would campaign between two heartbeats.
    #[error(
        "election_min_ms {election_min_ms} must be more than twice heartbeat_ms {heartbeat_ms}"
    )]
    ElectionWithinHeartbeats {
        /// The lower bound given.
        election_min_ms: u64,
        /// The heartbeat interval given.
        heartbeat_ms: u64,
    },
    /// The bounds are the wrong way round.
    #[error("election_max_ms {max} must be more than election_min_ms {min}")]
    EmptyElectionRange {
        /// The lower bound given.
        min: u64,
        /// The upper bound given.
        max: u64,
    },
    /// openraft refused what was derived from the settings.
    #[error("raft settings refused: {0}")]
    Refused(String),
}

impl RaftConfig {
    pub(crate) fn rpc_timeout(&self) -> Duration {
        Duration::from_millis(self.rpc_timeout_ms)
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }

    /// More than two heartbeats.
    pub(crate) fn silence_max(&self) -> Duration {
        Duration::from_millis(self.election_min_ms)
    }

    pub(crate) fn snapshot_timeout(&self) -> Duration {
        Duration::from_millis(self.snapshot_timeout_ms)
    }

    pub(crate) fn maintenance_interval(&self) -> Duration {
        Duration::from_millis(self.maintenance_interval_ms)
    }

    pub(crate) fn openraft(&self) -> Result<Arc<Config>, RaftConfigError> {
        if self.election_min_ms <= 2 * self.heartbeat_ms {
            return Err(RaftConfigError::ElectionWithinHeartbeats {
                election_min_ms: self.election_min_ms,
                heartbeat_ms: self.heartbeat_ms,
            });
        }
        if self.election_max_ms <= self.election_min_ms {
            return Err(RaftConfigError::EmptyElectionRange {
                min: self.election_min_ms,
                max: self.election_max_ms,
            });
        }
        let config = Config {
            cluster_name: "hikyaku".to_owned(),
            heartbeat_interval: self.heartbeat_ms,
            // Heartbeats of all groups are sent at one moment (pulse.rs), so that they travel together.
            enable_heartbeat: false,
            // What was answered lately needs no heartbeat.
            heartbeat_min_interval: Some(self.heartbeat_ms / 2),
            election_timeout_min: self.election_min_ms,
            election_timeout_max: self.election_max_ms,
            enable_pre_vote: Some(true),
            install_snapshot_timeout: self.snapshot_timeout_ms,
            // Checkpoints and purges are ours (maintenance.rs): openraft's own purge may overtake a
            // queued apply (openraft#2116).
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: u64::MAX,
            // A restarted leader must win an election before it serves: its machine is a checkpoint
            // plus a log whose committed end is only a hint.
            enable_leader_restore: Some(false),
            ..Config::default()
        };
        config
            .validate()
            .map(Arc::new)
            .map_err(|error| RaftConfigError::Refused(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_elections_within_heartbeats() {
        let config = RaftConfig {
            heartbeat_ms: 400,
            ..RaftConfig::default()
        };
        assert!(matches!(
            config.openraft(),
            Err(RaftConfigError::ElectionWithinHeartbeats { .. })
        ));
    }

    #[test]
    fn defaults_are_accepted() {
        assert!(RaftConfig::default().openraft().is_ok());
    }
}
