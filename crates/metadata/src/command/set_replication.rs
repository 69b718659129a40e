//! SetReplication: how many replicas each group is to have.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::replicas::MAX_REPLICATION;

/// Sets how many replicas each group is to have; they are moved there one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetReplication {
    /// The number, 1 to 7. More than there are storage nodes waits for more nodes.
    pub replication: u8,
}

/// Why the number stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetReplicationError {
    /// There is no cluster.
    #[error("the cluster is not founded")]
    NotFounded,
    /// A group has a few replicas.
    #[error("a group has 1 to {MAX_REPLICATION} replicas, not {0}")]
    OutOfRange(u8),
}

impl SetReplication {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), SetReplicationError> {
        let cluster = metadata.cluster().ok_or(SetReplicationError::NotFounded)?;
        if !(1..=MAX_REPLICATION).contains(&self.replication) {
            return Err(SetReplicationError::OutOfRange(self.replication));
        }
        if cluster.replication != self.replication {
            let mut cluster = cluster.clone();
            cluster.replication = self.replication;
            metadata.put_cluster(cluster);
        }
        Ok(())
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u8(self.replication);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            replication: reader.u8()?,
        })
    }
}

impl SetReplicationError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NotFounded => writer.u8(1),
            Self::OutOfRange(replication) => {
                writer.u8(2);
                writer.u8(replication);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NotFounded),
            2 => Ok(Self::OutOfRange(reader.u8()?)),
            kind => Err(unknown("error of setting the replication", kind)),
        }
    }
}
