//! The node's pulse: the heartbeats of all groups it leads, at one moment, so that those for one peer
//! travel in one message; and once a second a look at the wall clocks.
//!
//! A node whose wall clock is far from the voters' median does not campaign: T is steered by wall
//! clocks, and a leader must not be the one that is wrong.

use std::time::Duration;

use futures_util::FutureExt;
use openraft::ServerState;
use openraft::async_runtime::WatchReceiver;
use tokio::time::{Instant, MissedTickBehavior};

use crate::directory::Directory;
use crate::transport::sessions::Sessions;
use crate::types::Raft;

/// A node whose clock is further from the median does not campaign, milliseconds.
const SKEW_TO_CAMPAIGN_MAX_MS: u64 = 5_000;

/// From this skew on the operator is told, milliseconds.
const SKEW_ALARM_MS: u64 = 500;

/// How often the clocks are looked at.
const CLOCKS_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until it is aborted.
pub async fn run(directory: Directory, sessions: Sessions, heartbeat: Duration) {
    let mut beats = tokio::time::interval(heartbeat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut verdict = Verdict::default();
    let mut look_at = Instant::now();
    loop {
        beats.tick().await;
        beat(&directory);
        if Instant::now() >= look_at {
            look_at = Instant::now() + CLOCKS_INTERVAL;
            sessions.keep_open();
            let before = verdict.far_off;
            verdict.revise(sessions.clocks().skew_ms());
            for core in directory.all() {
                let raft = core.raft();
                // Who leads alone has nobody to hear of and nobody to wait for.
                raft.runtime_config().tick(!leads_alone(&raft));
                // Groups campaign unless they are told; those opened since were not told yet.
                if before || verdict.far_off {
                    raft.runtime_config().elect(!verdict.far_off);
                }
            }
        }
    }
}

fn beat(directory: &Directory) {
    for core in directory.all() {
        let raft = core.raft();
        let leads = raft.server_metrics().borrow_watched().state == ServerState::Leader;
        if leads && !leads_alone(&raft) {
            // A core whose queue is full is skipped: it is busy, and the others must not wait for it.
            drop(raft.trigger().heartbeat().now_or_never());
        }
    }
}

/// Whether the replica leads and is the only member.
fn leads_alone(raft: &Raft) -> bool {
    let metrics = raft.server_metrics();
    let seen = metrics.borrow_watched();
    let alone = seen.membership_config.nodes().nth(1).is_none();
    seen.state == ServerState::Leader && alone
}

/// What was last thought of this node's wall clock.
#[derive(Default)]
struct Verdict {
    alarmed: bool,
    far_off: bool,
}

impl Verdict {
    /// Takes in the newest skew, if there is one, and tells the operator what changes.
    fn revise(&mut self, skew_ms: Option<i64>) {
        // Without enough clocks to compare, the last verdict stands.
        let Some(skew_ms) = skew_ms else { return };
        let alarmed = skew_ms.unsigned_abs() > SKEW_ALARM_MS;
        let far_off = skew_ms.unsigned_abs() > SKEW_TO_CAMPAIGN_MAX_MS;
        if far_off != self.far_off {
            if far_off {
                tracing::error!(skew_ms, "wall clock far off: this node does not campaign");
            } else {
                tracing::info!(skew_ms, "this node may campaign again");
            }
        } else if alarmed != self.alarmed {
            if alarmed {
                tracing::warn!(skew_ms, "wall clock off the voters' median");
            } else {
                tracing::info!(skew_ms, "wall clock agrees with the voters' again");
            }
        }
        (self.alarmed, self.far_off) = (alarmed, far_off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(skews: &[Option<i64>]) -> (bool, bool) {
        let mut verdict = Verdict::default();
        for skew in skews {
            verdict.revise(*skew);
        }
        (verdict.alarmed, verdict.far_off)
    }

    #[test]
    fn bounds_are_what_the_design_says() {
        assert_eq!(after(&[Some(500)]), (false, false));
        assert_eq!(after(&[Some(-501)]), (true, false));
        assert_eq!(after(&[Some(5_000)]), (true, false));
        assert_eq!(after(&[Some(-5_001)]), (true, true));
    }

    #[test]
    fn a_verdict_stands_until_clocks_say_otherwise() {
        assert_eq!(after(&[Some(9_000), None]), (true, true));
        assert_eq!(after(&[Some(9_000), None, Some(3)]), (false, false));
    }
}
