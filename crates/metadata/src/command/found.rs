//! Found: gives the empty metadata its cluster, once.

use crate::cluster::{ClusterRecord, WITHOUT_PLACEMENT};
use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::founding::{Placement, everywhere, misplaced};
use crate::machine::Metadata;
use crate::replicas::{GroupKey, MAX_REPLICATION};
use std::collections::BTreeSet;

/// Founds the cluster. Asked again with the same cluster id it succeeds and changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The cluster.
    pub cluster: ClusterRecord,
    /// The nodes of each group, as its founders opened it: the replicas bear the ids of their nodes.
    pub placement: Placement,
}

/// Why a cluster was not founded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FoundError {
    /// Another cluster was founded here before.
    #[error("cluster {cluster_id:032x} was founded here already")]
    AlreadyFounded {
        /// The id of that cluster.
        cluster_id: u128,
    },
    /// A cluster without partitions could hold no queue.
    #[error("a cluster needs at least one partition")]
    NoPartitions,
    /// A cluster without nodes could hold nothing.
    #[error("a cluster needs at least one node")]
    NoNodes,
    /// Receipt handles need a key, and two at most.
    #[error("a cluster needs one or two handle keys, not {0}")]
    HandleKeys(u32),
    /// A group has a few replicas.
    #[error("a group has 1 to {MAX_REPLICATION} replicas, not {0}")]
    Replication(u8),
    /// A node is one.
    #[error("node {0} is named twice")]
    NodeTwice(u64),
    /// A group is not on distinct active storage nodes of the cluster, or not one of its groups.
    #[error("{0} is not placed on distinct storage nodes")]
    Misplaced(GroupKey),
}

impl Found {
    /// Founds the cluster with every group on every node.
    pub fn everywhere(cluster: ClusterRecord) -> Self {
        let placement = everywhere(&cluster);
        Self { cluster, placement }
    }

    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), FoundError> {
        let Self { cluster, placement } = self;
        if let Some(founded) = metadata.cluster() {
            let cluster_id = founded.cluster_id;
            let same = cluster_id == cluster.cluster_id;
            return if same {
                Ok(())
            } else {
                Err(FoundError::AlreadyFounded { cluster_id })
            };
        }
        check(&cluster)?;
        if let Some(group) = misplaced(&cluster, &placement) {
            return Err(FoundError::Misplaced(group));
        }
        metadata.begin(cluster, &placement);
        Ok(())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        self.cluster.write(writer);
        writer.count(self.placement.len());
        for (group, nodes) in &self.placement {
            group.write(writer);
            writer.count(nodes.len());
            for node in nodes {
                writer.u64(*node);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let cluster = ClusterRecord::read(reader, ClusterRecord::VERSION)?;
        let mut placement = Placement::new();
        for _ in 0..reader.count()? {
            let group = GroupKey::read(reader)?;
            if placement.insert(group, reader.list(Reader::u64)?).is_some() {
                return Err(DecodeError::Repeated("group"));
            }
        }
        Ok(Self { cluster, placement })
    }

    /// Reads the command of before there were placements: every group is on every node.
    pub(crate) fn read_1(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let cluster = ClusterRecord::read(reader, WITHOUT_PLACEMENT)?;
        Ok(Self::everywhere(cluster))
    }
}

fn check(cluster: &ClusterRecord) -> Result<(), FoundError> {
    if cluster.partitions == 0 {
        return Err(FoundError::NoPartitions);
    }
    if cluster.nodes.is_empty() {
        return Err(FoundError::NoNodes);
    }
    if !(1..=2).contains(&cluster.handle_keys.len()) {
        let count = u32::try_from(cluster.handle_keys.len()).unwrap_or(u32::MAX);
        return Err(FoundError::HandleKeys(count));
    }
    if !(1..=MAX_REPLICATION).contains(&cluster.replication) {
        return Err(FoundError::Replication(cluster.replication));
    }
    let mut nodes = BTreeSet::new();
    let twice = cluster.nodes.iter().find(|it| !nodes.insert(it.node));
    twice.map_or(Ok(()), |record| Err(FoundError::NodeTwice(record.node)))
}

impl FoundError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::AlreadyFounded { cluster_id } => {
                writer.u8(1);
                writer.u128(cluster_id);
            }
            Self::NoPartitions => writer.u8(2),
            Self::NoNodes => writer.u8(3),
            Self::HandleKeys(count) => {
                writer.u8(4);
                writer.u32(count);
            }
            Self::Replication(replication) => {
                writer.u8(5);
                writer.u8(replication);
            }
            Self::NodeTwice(node) => {
                writer.u8(6);
                writer.u64(node);
            }
            Self::Misplaced(group) => {
                writer.u8(7);
                group.write(writer);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::AlreadyFounded {
                cluster_id: reader.u128()?,
            }),
            2 => Ok(Self::NoPartitions),
            3 => Ok(Self::NoNodes),
            4 => Ok(Self::HandleKeys(reader.u32()?)),
            5 => Ok(Self::Replication(reader.u8()?)),
            6 => Ok(Self::NodeTwice(reader.u64()?)),
            7 => Ok(Self::Misplaced(GroupKey::read(reader)?)),
            kind => Err(unknown("founding error", kind)),
        }
    }
}
