//! A checkpoint held for a snapshot that is being sent.

use crate::checkpoint;
use crate::engine::Engine;
use crate::error::{CheckpointError, ReadError};
use crate::live::LiveSet;
use crate::markers::leader_at;
use crate::types::{Checkpoint, GroupId, LogId};
use bytes::Bytes;
use std::sync::Arc;

/// Holds a checkpoint, the bodies that it names and the log after it, until it is dropped.
///
/// While it is held, `GroupLog::checkpoint_ids` lists the checkpoint, so that the log after it is
/// not purged either.
pub struct SnapshotPin {
    engine: Arc<Engine>,
    group: GroupId,
    life: u64,
    checkpoint: Checkpoint,
    live: LiveSet,
}

impl SnapshotPin {
    pub(crate) fn new(
        engine: Arc<Engine>,
        group: GroupId,
        life: u64,
    ) -> Result<SnapshotPin, CheckpointError> {
        loop {
            let id = engine
                .pin(group, life)
                .ok_or(CheckpointError::None(group))?;
            let error = match checkpoint::read(engine.disk(), group, id) {
                Ok(Some(checkpoint)) => {
                    let live = LiveSet::new(&checkpoint.live);
                    return Ok(SnapshotPin {
                        engine,
                        group,
                        life,
                        checkpoint,
                        live,
                    });
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            if error.is_none() {
                // The older one is as good, with the log after it.
                engine.drop_damaged(group, id);
            }
            engine.unpin(group, life, id);
            if let Some(error) = error {
                return Err(error.into());
            }
        }
    }

    /// The checkpoint that is held.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The live bodies in order, from a name on: a transfer that broke off goes on where it was.
    pub fn bodies(
        &self,
        from_index: u64,
        from_ordinal: u32,
    ) -> impl Iterator<Item = Result<(LogId, u32, Bytes), ReadError>> + '_ {
        self.live
            .names_from(from_index, from_ordinal)
            .map(|(index, ordinal)| {
                let leader = leader_at(&self.checkpoint.leaders, index).unwrap_or_default();
                let id = LogId { leader, index };
                Ok((id, ordinal, self.engine.read_body(self.group, id, ordinal)?))
            })
    }
}

impl Drop for SnapshotPin {
    fn drop(&mut self) {
        self.engine.unpin(self.group, self.life, self.checkpoint.id);
    }
}
