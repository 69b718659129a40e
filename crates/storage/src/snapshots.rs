//! Keeping checkpoints: writing, loading, holding, and removing what nothing holds.

use crate::checkpoint::{self, WriteError};
use crate::damage::{Grade, Place};
use crate::engine::{Engine, dead_error, dropped_error, lock};
use crate::error::CheckpointError;
use crate::recovery::KEPT_CHECKPOINTS;
use crate::types::{Checkpoint, GroupId, LogId};
use std::io;

impl Engine {
    /// Writes a checkpoint durably and counts it as kept. An installed one replaces all others,
    /// because the log between them and it does not exist.
    pub(crate) fn write_checkpoint(
        &self,
        group: GroupId,
        life: u64,
        checkpoint: &Checkpoint,
        installed: bool,
    ) -> Result<(), CheckpointError> {
        let _one_at_a_time = lock(&self.checkpointing);
        if self.is_dead() {
            return Err(dead_error().into());
        }
        let newest = {
            let state = self.state();
            if state.life(group) != life {
                return Err(dropped_error().into());
            }
            let known = state.groups.get(&group);
            known.and_then(|group| group.kept.last().copied())
        };
        if newest.is_some_and(|newest| newest.index > checkpoint.id.index) {
            let text = format!("checkpoint {} is older than the newest kept", checkpoint.id);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
        }
        match checkpoint::write(self.disk(), group, checkpoint) {
            Ok(()) => {}
            Err(WriteError::Refused(error)) => return Err(error.into()),
            Err(WriteError::Broken(error)) => {
                self.die("cannot sync a checkpoint", &error);
                return Err(error.into());
            }
        }
        self.counters.checkpoints.add(1);
        self.keep(group, life, checkpoint.id, installed)?;
        self.damage.checkpointed(group);
        self.reclaim_signal.raise();
        Ok(())
    }

    fn keep(&self, id: GroupId, life: u64, checkpoint: LogId, installed: bool) -> io::Result<()> {
        let mut state = self.state();
        if state.life(id) != life {
            // Whoever drops the replica removes the file when the lock is free.
            return Err(dropped_error());
        }
        let group = state.groups.entry(id).or_default();
        group.kept.retain(|kept| *kept != checkpoint);
        group.kept.push(checkpoint);
        let keep = if installed { 1 } else { KEPT_CHECKPOINTS };
        let surplus = group.kept.len().saturating_sub(keep);
        let mut dropped: Vec<LogId> = group.kept.drain(..surplus).collect();
        // One that is whole is there now.
        dropped.append(&mut group.damaged);
        let held = group.held();
        let unheld = dropped.into_iter().filter(|old| !held.contains(old));
        state.obsolete.extend(unheld.map(|old| (id, old)));
        Ok(())
    }

    /// Reads the newest kept checkpoint that is whole. A damaged one is no longer counted as kept.
    pub(crate) fn load_checkpoint(
        &self,
        group: GroupId,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        loop {
            let (newest, purged) = {
                let state = self.state();
                let Some(known) = state.groups.get(&group) else {
                    return Ok(None);
                };
                (known.kept.last().copied(), known.markers.purged)
            };
            let Some(newest) = newest else {
                let Some(purged) = purged else {
                    return Ok(None);
                };
                let what = format!("the log is purged up to {purged} and no checkpoint is whole");
                let place = Place::Checkpoint(group, purged);
                self.damage.lost(group, Grade::Checkpoint, place, &what);
                return Err(CheckpointError::Damaged { group, what });
            };
            match checkpoint::read(self.disk(), group, newest)? {
                Some(checkpoint) => return Ok(Some(checkpoint)),
                None => self.drop_damaged(group, newest),
            }
        }
    }

    /// A kept checkpoint is damaged: it is kept no longer. Its file stays until there is a new one.
    pub(crate) fn drop_damaged(&self, group: GroupId, id: LogId) {
        let mut state = self.state();
        let Some(known) = state.groups.get_mut(&group) else {
            return;
        };
        let before = known.kept.len();
        known.kept.retain(|kept| *kept != id);
        if known.kept.len() == before {
            return;
        }
        known.damaged.push(id);
        let lost = known.kept.is_empty() && known.markers.purged.is_some();
        drop(state);
        self.damage.checkpoint(group, id);
        if lost {
            // What is in memory of the machine is whole: a new checkpoint may still save the replica.
            tracing::error!(%group, "no checkpoint is whole until a new one is written");
        }
    }

    /// Holds a group's newest checkpoint. Every `pin` is undone by one `unpin`.
    pub(crate) fn pin(&self, group: GroupId, life: u64) -> Option<LogId> {
        let mut state = self.state();
        if state.life(group) != life {
            return None;
        }
        let group = state.groups.get_mut(&group)?;
        let newest = *group.kept.last()?;
        group.pins.entry(newest.index).or_insert((newest, 0)).1 += 1;
        Some(newest)
    }

    pub(crate) fn unpin(&self, id: GroupId, life: u64, checkpoint: LogId) {
        let mut state = self.state();
        if state.life(id) != life {
            return;
        }
        let Some(group) = state.groups.get_mut(&id) else {
            return;
        };
        if let Some((_, count)) = group.pins.get_mut(&checkpoint.index) {
            *count -= 1;
            if *count == 0 {
                group.pins.remove(&checkpoint.index);
            }
        }
        if !group.held().contains(&checkpoint) {
            state.obsolete.push((id, checkpoint));
        }
        drop(state);
        self.reclaim_signal.raise();
    }

    /// Removes checkpoint files that nothing holds.
    pub(crate) fn remove_obsolete(&self) -> io::Result<()> {
        // A replica that comes after a dropped one may write a checkpoint of the same name.
        let _one_at_a_time = lock(&self.checkpointing);
        let mut state = self.state();
        let mut obsolete = std::mem::take(&mut state.obsolete);
        obsolete.retain(|(group, id)| {
            let known = state.groups.get(group);
            !known.is_some_and(|known| known.held().contains(id))
        });
        drop(state);
        for (group, id) in obsolete {
            match self.disk().remove(&checkpoint::path(group, id)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
