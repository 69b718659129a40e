//! ReplicaDamaged: a node has lost what a replica promised, or cannot read it.

use crate::codec::{DecodeError, Reader, Writer};
use crate::machine::Metadata;
use crate::replicas::{GroupKey, MoveStepError, ReplicaId};

/// Reports a replica that must neither vote nor lead any more. It is taken out of its group, which gets
/// another one in its place. Told again, or of a replica that is gone, it changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaDamaged {
    /// The group.
    pub group: GroupKey,
    /// The replica.
    pub replica: ReplicaId,
}

impl ReplicaDamaged {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<u64, MoveStepError> {
        metadata.step(self.group, |replicas| {
            Ok(replicas.with_damaged(self.replica))
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        self.group.write(writer);
        writer.u64(self.replica.0);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            group: GroupKey::read(reader)?,
            replica: ReplicaId(reader.u64()?),
        })
    }
}
