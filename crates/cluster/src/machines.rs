//! The two state machines as the Raft groups drive them.

use hikyaku_metadata::Metadata;
use hikyaku_queue::{Partition, PartitionId};
use hikyaku_raft::{LiveRun, Machine, MachineError};

/// Id of the metadata's Raft group; partition `p` is group `p + 1`.
pub const METADATA_GROUP: u64 = 0;

/// The Raft group of a partition.
pub fn group_of(partition: PartitionId) -> u64 {
    u64::from(partition.0) + 1
}

/// A partition's machine in its group.
pub struct PartitionMachine(pub Partition);

impl Machine for PartitionMachine {
    type Reply = Vec<hikyaku_queue::Outcome>;

    fn apply(&mut self, index: u64, head: &[u8]) -> Result<Self::Reply, MachineError> {
        self.0.apply_entry(index, head).map_err(unreadable)
    }

    fn live_runs(&self) -> Vec<LiveRun> {
        let runs = self.0.live_runs().into_iter();
        runs.map(|run| LiveRun {
            first_index: run.first_index,
            entries: run.entries,
            ordinal: run.ordinal,
            count: run.count,
        })
        .collect()
    }

    fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), MachineError> {
        self.0 = Partition::decode(state).map_err(unreadable)?;
        Ok(())
    }
}

/// The metadata's machine in its group. It has no bodies: everything is state.
pub struct MetadataMachine(pub Metadata);

impl Machine for MetadataMachine {
    type Reply = Vec<hikyaku_metadata::Outcome>;

    fn apply(&mut self, index: u64, head: &[u8]) -> Result<Self::Reply, MachineError> {
        self.0.apply_entry(index, head).map_err(unreadable)
    }

    fn live_runs(&self) -> Vec<LiveRun> {
        Vec::new()
    }

    fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), MachineError> {
        self.0 = Metadata::decode(state).map_err(unreadable)?;
        Ok(())
    }
}

fn unreadable(error: impl std::fmt::Display) -> MachineError {
    MachineError(error.to_string())
}
