//! AbandonMove: a move cannot go on.

use crate::codec::{DecodeError, Reader, Writer};
use crate::machine::Metadata;
use crate::replicas::{GroupKey, MoveStepError};

/// Gives up the move of a group: what was joining is abandoned, what was leaving stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbandonMove {
    /// The group.
    pub group: GroupKey,
    /// The version of its replicas under which that was seen.
    pub version: u64,
}

impl AbandonMove {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<u64, MoveStepError> {
        metadata.step(self.group, |replicas| {
            replicas.given_up(self.version).map(Some)
        })
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        self.group.write(writer);
        writer.u64(self.version);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            group: GroupKey::read(reader)?,
            version: reader.u64()?,
        })
    }
}
