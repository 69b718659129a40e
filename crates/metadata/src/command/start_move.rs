//! StartMove: a group is to get a replica, to lose one, or both.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::node::NodeState;
use crate::replicas::{GroupKey, Member, ReplicaId, Replicas, Role};

/// Starts a move of a group whose replicas are of `version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartMove {
    /// The group.
    pub group: GroupKey,
    /// The version of its replicas for which the move was planned.
    pub version: u64,
    /// The replica to open, drawn at random, and its node.
    pub add: Option<(ReplicaId, u64)>,
    /// The replica that is to go.
    pub remove: Option<ReplicaId>,
}

/// Why the move did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartMoveError {
    /// The cluster has no such group, or is not founded.
    #[error("there is no group {0}")]
    NoSuchGroup(GroupKey),
    /// The move was planned for replicas of before.
    #[error("the replicas are of version {0} by now")]
    Stale(u64),
    /// A group makes one move at a time.
    #[error("the group is moving already")]
    Moving,
    /// Nothing is to be added and nothing removed.
    #[error("the move changes nothing")]
    Nothing,
    /// A replica id is used once.
    #[error("replica id {0} was used before")]
    ReplicaKnown(ReplicaId),
    /// The cluster has no such node.
    #[error("there is no node {0}")]
    NoSuchNode(u64),
    /// The node hosts no replicas.
    #[error("node {0} hosts no replicas")]
    NoStorage(u64),
    /// The node takes no new replicas.
    #[error("node {node} is {state}")]
    NodeNotActive {
        /// The node.
        node: u64,
        /// Its state.
        state: NodeState,
    },
    /// A node has one replica of a group at most.
    #[error("node {0} has a replica of the group")]
    NodeHasReplica(u64),
    /// What is to go is not there.
    #[error("the group has no replica {0}")]
    NoSuchReplica(ReplicaId),
    /// Without a voter a group is lost.
    #[error("replica {0} is the last that votes")]
    LastVoter(ReplicaId),
}

impl StartMove {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<u64, StartMoveError> {
        let replicas = metadata.replicas(self.group);
        let replicas = replicas.ok_or(StartMoveError::NoSuchGroup(self.group))?;
        if replicas.version != self.version {
            return Err(StartMoveError::Stale(replicas.version));
        }
        if replicas.is_moving() {
            return Err(StartMoveError::Moving);
        }
        if self.add.is_none() && self.remove.is_none() {
            return Err(StartMoveError::Nothing);
        }
        let mut members = replicas.members.clone();
        if let Some(replica) = self.remove {
            self.check_remove(replicas, replica)?;
            members
                .entry(replica)
                .and_modify(|it| it.role = Role::Leaving);
        }
        if let Some((replica, node)) = self.add {
            check_add(metadata, replicas, replica, node)?;
            let role = Role::Joining;
            members.insert(replica, Member { node, role });
        }
        Ok(metadata.put_members(self.group, members))
    }

    fn check_remove(&self, replicas: &Replicas, replica: ReplicaId) -> Result<(), StartMoveError> {
        if !replicas.members.contains_key(&replica) {
            return Err(StartMoveError::NoSuchReplica(replica));
        }
        if self.add.is_none() && replicas.members.len() == 1 {
            return Err(StartMoveError::LastVoter(replica));
        }
        Ok(())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        self.group.write(writer);
        writer.u64(self.version);
        writer.flag(self.add.is_some());
        if let Some((replica, node)) = self.add {
            writer.u64(replica.0);
            writer.u64(node);
        }
        writer.optional_u64(self.remove.map(|replica| replica.0));
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let group = GroupKey::read(reader)?;
        let version = reader.u64()?;
        let add = match reader.flag()? {
            true => Some((ReplicaId(reader.u64()?), reader.u64()?)),
            false => None,
        };
        Ok(Self {
            group,
            version,
            add,
            remove: reader.optional_u64()?.map(ReplicaId),
        })
    }
}

fn check_add(
    metadata: &Metadata,
    replicas: &Replicas,
    replica: ReplicaId,
    node: u64,
) -> Result<(), StartMoveError> {
    // A founding replica bears the id of its node, and is not to come back under it.
    let known = replicas.members.contains_key(&replica) || metadata.node(replica.0).is_some();
    if known {
        return Err(StartMoveError::ReplicaKnown(replica));
    }
    let record = metadata
        .node(node)
        .ok_or(StartMoveError::NoSuchNode(node))?;
    if !record.storage {
        return Err(StartMoveError::NoStorage(node));
    }
    let state = record.state;
    if state != NodeState::Active {
        return Err(StartMoveError::NodeNotActive { node, state });
    }
    if replicas.on(node).is_some() {
        return Err(StartMoveError::NodeHasReplica(node));
    }
    Ok(())
}

impl StartMoveError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NoSuchGroup(group) => {
                writer.u8(1);
                group.write(writer);
            }
            Self::Stale(version) => {
                writer.u8(2);
                writer.u64(version);
            }
            Self::Moving => writer.u8(3),
            Self::Nothing => writer.u8(4),
            Self::ReplicaKnown(replica) => {
                writer.u8(5);
                writer.u64(replica.0);
            }
            Self::NoSuchNode(node) => {
                writer.u8(6);
                writer.u64(node);
            }
            Self::NoStorage(node) => {
                writer.u8(7);
                writer.u64(node);
            }
            Self::NodeNotActive { node, state } => {
                writer.u8(8);
                writer.u64(node);
                state.write(writer);
            }
            Self::NodeHasReplica(node) => {
                writer.u8(9);
                writer.u64(node);
            }
            Self::NoSuchReplica(replica) => {
                writer.u8(10);
                writer.u64(replica.0);
            }
            Self::LastVoter(replica) => {
                writer.u8(11);
                writer.u64(replica.0);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::NoSuchGroup(GroupKey::read(reader)?),
            2 => Self::Stale(reader.u64()?),
            3 => Self::Moving,
            4 => Self::Nothing,
            5 => Self::ReplicaKnown(ReplicaId(reader.u64()?)),
            6 => Self::NoSuchNode(reader.u64()?),
            7 => Self::NoStorage(reader.u64()?),
            8 => Self::NodeNotActive {
                node: reader.u64()?,
                state: NodeState::read(reader)?,
            },
            9 => Self::NodeHasReplica(reader.u64()?),
            10 => Self::NoSuchReplica(ReplicaId(reader.u64()?)),
            11 => Self::LastVoter(ReplicaId(reader.u64()?)),
            kind => return Err(unknown("error of starting a move", kind)),
        })
    }
}
