//! Found: gives the empty metadata its cluster, once.

use crate::cluster::ClusterRecord;
use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;

/// Founds the cluster. Asked again with the same cluster id it succeeds and changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found(pub ClusterRecord);

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
}

impl Found {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), FoundError> {
        let Self(record) = self;
        if let Some(cluster) = metadata.cluster() {
            let cluster_id = cluster.cluster_id;
            let same = cluster_id == record.cluster_id;
            return if same {
                Ok(())
            } else {
                Err(FoundError::AlreadyFounded { cluster_id })
            };
        }
        if record.partitions == 0 {
            return Err(FoundError::NoPartitions);
        }
        if record.nodes.is_empty() {
            return Err(FoundError::NoNodes);
        }
        if !(1..=2).contains(&record.handle_keys.len()) {
            let count = u32::try_from(record.handle_keys.len()).unwrap_or(u32::MAX);
            return Err(FoundError::HandleKeys(count));
        }
        metadata.put_cluster(record);
        Ok(())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        self.0.write(writer);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(ClusterRecord::read(reader)?))
    }
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
            kind => Err(unknown("founding error", kind)),
        }
    }
}
