//! Writes bodies that are damaged here anew, as other replicas have them.
//!
//! They become a cold segment, as survivors of compaction do: readers look at newer segments first,
//! so from then on they find the good copy. The segment with the damage is written anew by compaction
//! and freed.

use crate::damage::BodyName;
use crate::engine::Engine;
use crate::error::CheckpointError;
use crate::install::Install;
use crate::types::GroupId;
use bytes::Bytes;
use std::sync::Arc;

pub(crate) fn mend(
    engine: &Arc<Engine>,
    group: GroupId,
    life: u64,
    mut bodies: Vec<(BodyName, Bytes)>,
) -> Result<(), CheckpointError> {
    bodies.sort_by_key(|((entry, ordinal), _)| (entry.index, entry.leader, *ordinal));
    bodies.retain(|(name, body)| engine.is_body(group, *name, body));
    if bodies.is_empty() {
        return Ok(());
    }
    let names: Vec<BodyName> = bodies.iter().map(|(name, _)| *name).collect();
    let mut install = Install::new(engine.clone(), group, life);
    for ((entry, ordinal), body) in bodies {
        install.add(entry, ordinal, body)?;
    }
    install.finish_bodies()?;
    engine.damage.settled(group, &names, true);
    tracing::info!(%group, bodies = names.len(), "damaged message bodies mended");
    engine.reclaim_signal.raise();
    Ok(())
}

impl Engine {
    /// Whether these are the bytes of a body: its lines here have their length and checksum. Where no
    /// line is left, whoever sent them has checked them against his.
    fn is_body(&self, group: GroupId, (id, ordinal): BodyName, body: &[u8]) -> bool {
        let lines = self.copies(group, id).unwrap_or_default();
        let known = lines.iter().find_map(|copy| copy.at.body(ordinal));
        let right = known.is_none_or(|(_, line)| {
            line.length as usize == body.len() && line.crc == crc32c::crc32c(body)
        });
        if !right {
            tracing::error!(%group, %id, ordinal, "another replica has another body of this name");
        }
        right
    }
}
