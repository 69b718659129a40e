//! Change visibility: sets how long, from now, a received message stays invisible.
//!
//! On a standard queue any handle of the message re-times it, as AWS does, even after it became
//! visible. On a FIFO queue only the latest handle, and only while it holds.

use super::Site;
use crate::command::VisibilityChange;
use crate::reply::{ChangeVisibilityError, Reply};
use crate::slice::{Messages, Slice};

/// How long a message may stay invisible since it was received, in all: AWS's 12 hours.
const TOTAL_TIMEOUT_MS: u64 = 12 * 60 * 60 * 1_000;

pub(super) fn apply(slice: &mut Slice, site: &Site, changes: &[VisibilityChange]) -> Reply {
    let results = changes
        .iter()
        .map(|change| change_visibility(slice, site, change));
    Reply::VisibilityChanged(results.collect())
}

fn change_visibility(
    slice: &mut Slice,
    site: &Site,
    change: &VisibilityChange,
) -> Result<(), ChangeVisibilityError> {
    let now = site.applied.now;
    let handle = &change.handle;
    let name = site
        .name(handle)
        .ok_or(ChangeVisibilityError::ForeignHandle)?;
    let held = slice
        .held()
        .get(name)
        .ok_or(ChangeVisibilityError::NotAvailable)?;
    if let Messages::Fifo(_) = slice.messages
        && !held.is_held_by(handle, now)
    {
        return Err(ChangeVisibilityError::HandleExpired);
    }
    let visible_at = now.saturating_add(change.timeout_ms);
    let latest = handle.received_at.saturating_add(TOTAL_TIMEOUT_MS);
    if change.timeout_ms > 0 && visible_at > latest {
        return Err(ChangeVisibilityError::TotalTimeoutTooLong);
    }
    let held = held.visible_from(visible_at);
    match &mut slice.messages {
        Messages::Standard(standard) => standard.replace(name, held, now),
        Messages::Fifo(fifo) => fifo.replace(name, held, now),
    }
    Ok(())
}
