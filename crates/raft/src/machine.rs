//! What a group needs from the state machine it replicates, and from the clock beside it.

use hikyaku_storage::LiveRun;

/// A deterministic state machine: the same entries in the same order give the same state everywhere.
///
/// It is synchronous and sees neither clock nor disk. Calls never overlap.
pub trait Machine: Send + 'static {
    /// The answer to one entry.
    type Reply: Send + Sync + 'static;

    /// Applies the entry at `index`. An error means the entry cannot be understood: the group stops
    /// rather than guess, since replicas that skip different entries diverge.
    fn apply(&mut self, index: u64, head: &[u8]) -> Result<Self::Reply, MachineError>;

    /// Every message body still needed, in order of name.
    fn live_runs(&self) -> Vec<LiveRun>;

    /// The whole state without bodies, in the machine's own versioned encoding.
    fn encode(&self) -> Vec<u8>;

    /// Replaces the state by an encoded one.
    fn restore(&mut self, state: &[u8]) -> Result<(), MachineError>;
}

/// An entry or checkpoint that the machine cannot read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(pub String);

/// The partition's clock, as far as replication carries it (DESIGN section 5, "One clock").
///
/// Called on every append request, so it must be cheap and must not block.
pub trait GroupClock: Send + Sync + 'static {
    /// The leader's T now, milliseconds; sent along with every append request. 0 when this replica
    /// does not lead or does not know T yet.
    fn leader_time_ms(&self) -> u64;

    /// A leader's T was just heard.
    fn heard_leader_time(&self, time_ms: u64);

    /// What this replica believes T to be, for the leader to hear. 0 when it has heard none since
    /// its start.
    fn believed_time_ms(&self) -> u64;

    /// A follower answered: its wall clock, and what it believes T to be (0: nothing).
    fn heard_follower(&self, node: u64, wall_clock_ms: u64, believed_time_ms: u64);
}
