//! SetNodeState: what an operator wants of a node.
//!
//! A node that is to lose its replicas must leave enough others behind: for each of its groups the
//! nodes that keep a replica, and those that could take one, are counted. What is refused here is
//! refused before anything moved.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::node::{NodeRecord, NodeState};
use crate::replicas::{GroupKey, Replicas};

/// Sets the state of a node. To be decommissioned it must have no replica; one that has some is
/// *decommissioning* until they are moved away, which the answer tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetNodeState {
    /// The node.
    pub node: u64,
    /// The state wanted; `Decommissioning` and `Decommissioned` want the same.
    pub state: NodeState,
}

/// Why the state stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetNodeStateError {
    /// The cluster has no such node, or is not founded.
    #[error("there is no node {0:016x}")]
    NoSuchNode(u64),
    /// Nothing brings a decommissioned node back.
    #[error("node {0:016x} was decommissioned")]
    Decommissioned(u64),
    /// A group's replicas would find too few nodes.
    #[error("without this node {places} storage nodes are left for {group}, which needs {needed}")]
    TooFewNodes {
        /// The first such group.
        group: GroupKey,
        /// Nodes that keep a replica of it or could take one.
        places: u32,
        /// Replicas that it is to keep.
        needed: u32,
    },
}

impl SetNodeState {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<NodeState, SetNodeStateError> {
        let known = metadata.node(self.node);
        let known = known.ok_or(SetNodeStateError::NoSuchNode(self.node))?;
        let has_replicas = metadata.replicas_on(self.node) > 0;
        let state = match self.state {
            NodeState::Decommissioning | NodeState::Decommissioned if has_replicas => {
                NodeState::Decommissioning
            }
            NodeState::Decommissioning => NodeState::Decommissioned,
            state => state,
        };
        if known.state == state {
            return Ok(state);
        }
        if known.state == NodeState::Decommissioned {
            return Err(SetNodeStateError::Decommissioned(self.node));
        }
        let mut record = known.clone();
        record.state = state;
        if known.keeps_replicas() && !record.keeps_replicas() {
            check_places(metadata, self.node)?;
        }
        metadata.put_node(record);
        Ok(state)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.node);
        self.state.write(writer);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            node: reader.u64()?,
            state: NodeState::read(reader)?,
        })
    }
}

/// Checks that every group of the node finds enough others.
fn check_places(metadata: &Metadata, node: u64) -> Result<(), SetNodeStateError> {
    let cluster = metadata
        .cluster()
        .expect("a known node is of a founded cluster");
    let place = |replicas: &Replicas, record: &NodeRecord| {
        let stays = record.keeps_replicas() && replicas.on(record.node).is_some();
        record.node != node && (stays || record.takes_replicas())
    };
    for (group, replicas) in metadata.groups() {
        if replicas.on(node).is_none() {
            continue;
        }
        let needed = replicas.staying().count().min(cluster.replication.into());
        let nodes = cluster.nodes.iter();
        let places = nodes.filter(|record| place(replicas, record)).count();
        if places < needed {
            return Err(SetNodeStateError::TooFewNodes {
                group: *group,
                places: places as u32,
                needed: needed as u32,
            });
        }
    }
    Ok(())
}

impl SetNodeStateError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NoSuchNode(node) => {
                writer.u8(1);
                writer.u64(node);
            }
            Self::Decommissioned(node) => {
                writer.u8(2);
                writer.u64(node);
            }
            Self::TooFewNodes {
                group,
                places,
                needed,
            } => {
                writer.u8(3);
                group.write(writer);
                writer.u32(places);
                writer.u32(needed);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchNode(reader.u64()?)),
            2 => Ok(Self::Decommissioned(reader.u64()?)),
            3 => Ok(Self::TooFewNodes {
                group: GroupKey::read(reader)?,
                places: reader.u32()?,
                needed: reader.u32()?,
            }),
            kind => Err(unknown("error of setting a node's state", kind)),
        }
    }
}
