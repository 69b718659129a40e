//! Installing a snapshot that another replica sends.
//!
//! In this order, so that a crash at any point leaves a group that is as before or as after:
//! bodies durable as cold segments, the conflicting log truncated, the checkpoint durable, the log
//! purged up to it. Recovery does the last step if the crash came before it.

use crate::cold::ColdWriter;
use crate::disk::is_full;
use crate::engine::{Change, Engine, dropped_error};
use crate::error::CheckpointError;
use crate::record::Tag;
use crate::types::{Checkpoint, GroupId, LogId};
use bytes::Bytes;
use std::io;
use std::sync::Arc;

/// A snapshot being installed. Dropping it unfinished leaves the group as it was.
pub struct Install {
    engine: Arc<Engine>,
    group: GroupId,
    life: u64,
    cold: Option<ColdWriter>,
    /// Bodies of one entry, written together.
    entry: Option<(LogId, Vec<(u32, Bytes)>)>,
}

impl Install {
    pub(crate) fn new(engine: Arc<Engine>, group: GroupId, life: u64) -> Install {
        let mut state = engine.state();
        // What is installed for a replica that was dropped is refused when it is added.
        if state.life(group) == life {
            state.groups.entry(group).or_default().installs += 1;
        }
        drop(state);
        Install {
            engine,
            group,
            life,
            cold: None,
            entry: None,
        }
    }

    /// Adds a live body. Bodies come in order of their names. Blocks.
    pub fn add(&mut self, entry: LogId, ordinal: u32, body: Bytes) -> Result<(), CheckpointError> {
        match &mut self.entry {
            Some((id, bodies)) if *id == entry && room_for(bodies, &body, &self.engine) => {
                bodies.push((ordinal, body));
            }
            _ => {
                self.write_entry()?;
                self.entry = Some((entry, vec![(ordinal, body)]));
            }
        }
        Ok(())
    }

    fn write_entry(&mut self) -> Result<(), CheckpointError> {
        let Some((id, bodies)) = self.entry.take() else {
            return Ok(());
        };
        let cost: u64 = bodies
            .iter()
            .map(|(_, body)| body.len() as u64 + 16)
            .sum::<u64>()
            + 64;
        if self.cold.as_ref().is_some_and(|cold| !cold.fits(cost)) {
            self.finish_segment()?;
        }
        let cold = match &mut self.cold {
            Some(cold) => cold,
            None => {
                let full = || io::Error::new(io::ErrorKind::StorageFull, "no segment for bodies");
                let tag = self.mint()?;
                let started = ColdWriter::start(&self.engine.files, tag, Vec::new())?;
                self.cold.insert(started.ok_or_else(full)?)
            }
        };
        let written = cold.push_bodies(self.group, id, &bodies);
        self.engine
            .counters
            .bytes_compacted
            .add(self.check(written)?);
        Ok(())
    }

    /// A tag that tells the bodies of this replica from those of one that comes after it.
    fn mint(&self) -> io::Result<Tag> {
        let state = self.engine.state();
        if state.life(self.group) == self.life {
            Ok(self.engine.files.mint())
        } else {
            Err(dropped_error())
        }
    }

    fn finish_segment(&mut self) -> Result<(), CheckpointError> {
        let Some(cold) = self.cold.take() else {
            return Ok(());
        };
        let finished = cold.finish(&self.engine.files);
        let segment = self.check(finished)?;
        self.engine.state().seal(segment);
        Ok(())
    }

    /// A failed write or sync is fatal, unless the disk is only full.
    fn check<T>(&self, outcome: io::Result<T>) -> Result<T, CheckpointError> {
        outcome.map_err(|error| {
            if !is_full(&error) {
                self.engine.die("cannot write installed bodies", &error);
            }
            error.into()
        })
    }

    /// Makes the bodies durable beside what the group has, whose state stays. Blocks.
    pub(crate) fn finish_bodies(mut self) -> Result<(), CheckpointError> {
        self.write_entry()?;
        self.finish_segment()
    }

    /// Makes the snapshot the group's state. Blocks.
    pub fn finish(mut self, checkpoint: Checkpoint) -> Result<(), CheckpointError> {
        self.write_entry()?;
        self.finish_segment()?;
        let last_kept = {
            let state = self.engine.state();
            let markers = state
                .groups
                .get(&self.group)
                .map(|group| group.markers.clone());
            let markers = markers.unwrap_or_default();
            let agrees = markers.leader_of(checkpoint.id.index) == Some(checkpoint.id.leader);
            if agrees { markers.last } else { markers.purged }
        };
        let (engine, group, life) = (&self.engine, self.group, self.life);
        engine.submit_and_wait(group, life, Change::Truncate(last_kept))?;
        engine.write_checkpoint(group, life, &checkpoint, true)?;
        engine.submit_and_wait(group, life, Change::Purge(checkpoint.id))?;
        Ok(())
    }
}

fn room_for(bodies: &[(u32, Bytes)], body: &Bytes, engine: &Engine) -> bool {
    let bytes: usize = bodies.iter().map(|(_, body)| body.len()).sum();
    ((bytes + body.len()) as u64) < engine.config.max_entry_bytes
}

impl Drop for Install {
    fn drop(&mut self) {
        if let Some(cold) = self.cold.take() {
            cold.abandon(&self.engine.files);
        }
        let mut state = self.engine.state();
        let current = state.life(self.group) == self.life;
        let group = state.groups.get_mut(&self.group).filter(|_| current);
        if let Some(group) = group {
            group.installs = group.installs.saturating_sub(1);
        }
        drop(state);
        self.engine.reclaim_signal.raise();
    }
}
