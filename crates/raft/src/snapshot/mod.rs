//! A checkpoint on its way to another replica: manifest, live bodies as cold records, state.
//!
//! The receiver makes the bodies durable first; nothing of the snapshot is in force before openraft
//! has accepted it (DESIGN section 6, install order). A transfer that was interrupted goes on where it
//! stopped: the sender holds the checkpoint and the bodies of it until it gives up, the receiver keeps
//! what it has for a while.

mod receive;
mod send;

pub use receive::{Incoming, receive};
pub use send::Sender;

use hikyaku_proto::node as wire;
use hikyaku_storage::{LeaderId, LogId};

use crate::codec;
use crate::types::{SnapshotMeta, Vote};

/// What names a snapshot, and who sends it to whom.
pub fn manifest(
    group: u64,
    target: u64,
    vote: &Vote,
    meta: &SnapshotMeta,
) -> wire::SnapshotManifest {
    wire::SnapshotManifest {
        group,
        target,
        vote: Some(codec::vote_to_wire(vote)),
        last: meta.last_log_id.as_ref().map(codec::log_id_to_wire),
        membership: Some(codec::stored_membership_to_wire(&meta.last_membership)),
    }
}

fn log_id(id: wire::LogId) -> LogId {
    LogId {
        leader: LeaderId {
            term: id.term,
            node: 0,
        },
        index: id.index,
    }
}
