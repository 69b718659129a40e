//! ReplicaRemoved: a leaving or abandoned replica is out of its group.

use crate::codec::{DecodeError, Reader, Writer};
use crate::machine::Metadata;
use crate::replicas::{GroupKey, MoveStepError, ReplicaId};

/// Confirms that a leaving or abandoned replica is out of its group, after which its node drops what it holds. Told
/// again, it changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaRemoved {
    /// The group.
    pub group: GroupKey,
    /// The replica.
    pub replica: ReplicaId,
    /// The version of the group's replicas under which it happened.
    pub version: u64,
}

impl ReplicaRemoved {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<u64, MoveStepError> {
        metadata.step(self.group, |replicas| {
            replicas.removed(self.replica, self.version)
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        self.group.write(writer);
        writer.u64(self.replica.0);
        writer.u64(self.version);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            group: GroupKey::read(reader)?,
            replica: ReplicaId(reader.u64()?),
            version: reader.u64()?,
        })
    }
}
