//! The operations on a slice, one file each.
//!
//! Each takes a settled slice, changes it and returns the reply. What is common to all (lateness,
//! retries, descriptors) was decided before, in the partition.

mod change_visibility;
mod delete;
mod receive;
mod return_unread;
mod send;

use crate::command::Operation;
use crate::handle::ReceiptHandle;
use crate::ids::{PackedName, PartitionId, QueueId, RequestId};
use crate::parting::Parting;
use crate::partition::Applied;
use crate::reply::Reply;
use crate::requests::Requests;
use crate::slice::Slice;

pub(crate) use receive::repeated_receive;

/// Where and when a command is applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    pub partition: PartitionId,
    /// The partition's epoch of sequence numbers.
    pub epoch: u8,
    pub queue: QueueId,
    pub request: RequestId,
    pub applied: Applied,
    /// Ordinal of the command's first message.
    pub first_ordinal: u32,
}

impl Site {
    /// The name a handle stands for, if this slice gave the handle out.
    fn name(&self, handle: &ReceiptHandle) -> Option<PackedName> {
        let ours = handle.partition == self.partition && handle.queue == self.queue;
        if ours {
            PackedName::from_name(handle.name)
        } else {
            None
        }
    }
}

/// Applies one operation; `None` for those that are not a slice's. The requests are there for the
/// one that takes an answer back, the parting for the one that finds dead letters.
pub(crate) fn apply(
    slice: &mut Slice,
    requests: &mut Requests,
    parting: &mut Parting,
    site: &Site,
    operation: &Operation,
) -> Option<Reply> {
    Some(match operation {
        Operation::Send { messages } => send::apply(slice, site, messages),
        Operation::Receive {
            max,
            visibility_timeout_ms,
            attempt_id,
        } => receive::apply(
            slice,
            parting,
            site,
            *max,
            *visibility_timeout_ms,
            attempt_id.as_deref(),
        ),
        Operation::Delete { handles } => delete::apply(slice, site, handles),
        Operation::ChangeVisibility { changes } => change_visibility::apply(slice, site, changes),
        Operation::ReturnUnread {
            receive,
            deliveries,
        } => return_unread::apply(slice, requests, site, *receive, deliveries),
        Operation::AskEmpty => Reply::Emptiness {
            empty: slice.is_empty(),
        },
        Operation::PutDescriptor(_) | Operation::Housekeep | Operation::MoveBack { .. } => {
            return None;
        }
    })
}
