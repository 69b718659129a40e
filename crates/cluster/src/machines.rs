//! The two state machines as the Raft groups drive them.

use hikyaku_metadata::{GroupKey, Metadata};
use hikyaku_queue::{Partition, PartitionId};
use hikyaku_raft::{LiveRun, Machine, MachineError};

/// Id of the metadata's Raft group; partition `p` is group `p + 1`.
pub const METADATA_GROUP: u64 = 0;

/// The number of a group in Raft and on the wire.
pub fn group_number(group: GroupKey) -> u64 {
    match group {
        GroupKey::Metadata => METADATA_GROUP,
        GroupKey::Partition(partition) => group_of(partition),
    }
}

/// The group with that number.
pub fn group_with_number(number: u64) -> GroupKey {
    match number.checked_sub(1).map(u32::try_from) {
        None => GroupKey::Metadata,
        // There are far fewer partitions than that.
        Some(partition) => GroupKey::Partition(PartitionId(partition.unwrap_or(u32::MAX))),
    }
}

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
