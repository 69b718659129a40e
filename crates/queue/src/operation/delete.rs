//! Delete: removes received messages for good.
//!
//! On a standard queue any handle of the message will do. On a FIFO queue only the latest, and only
//! while it holds: otherwise the message, and with it the order, may be another consumer's by now.

use super::Site;
use crate::handle::ReceiptHandle;
use crate::reply::{DeleteError, Reply};
use crate::slice::{Messages, Slice};

pub(super) fn apply(slice: &mut Slice, site: &Site, handles: &[ReceiptHandle]) -> Reply {
    Reply::Deleted(
        handles
            .iter()
            .map(|handle| delete(slice, site, handle))
            .collect(),
    )
}

fn delete(slice: &mut Slice, site: &Site, handle: &ReceiptHandle) -> Result<(), DeleteError> {
    let name = site.name(handle).ok_or(DeleteError::ForeignHandle)?;
    // Deleting what is gone succeeds: a client that lost the answer asks again.
    let Some(held) = slice.held().get(name) else {
        return Ok(());
    };
    match &mut slice.messages {
        Messages::Standard(standard) => standard.remove(name, site.applied.now),
        Messages::Fifo(fifo) => {
            if !held.is_held_by(handle, site.applied.now) {
                return Err(DeleteError::HandleExpired);
            }
            fifo.delete(name, site.applied.now);
        }
    }
    Ok(())
}
