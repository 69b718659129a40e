//! Housekeep: drops what has outlived its time, a bounded amount per entry.

use crate::machine::Metadata;
use crate::reply::Reply;

/// Items of each kind dropped by one housekeeping command, so that no entry takes long to apply.
pub const HOUSEKEEP_LIMIT: usize = 10_000;

/// Queues of deleted tenants dropped by one housekeeping command: each of them touches several indexes and
/// is delivered to its partitions.
pub const QUEUES_DROPPED_LIMIT: usize = 1_000;

pub(crate) fn apply(metadata: &mut Metadata) -> Reply {
    metadata.drop_outlived(HOUSEKEEP_LIMIT);
    metadata.drop_queues_of_deleted(QUEUES_DROPPED_LIMIT);
    Reply::Housekept
}
