//! Where a queue lives: rendezvous hashing of its id over the partitions, and of its message groups
//! over its spread.
//!
//! Every replica and every router must choose alike, in every release: the hashes are written out
//! here, their values are pinned by tests, and they must never change. Each partition scores
//! `mix(mix(key + 1) xor mix(partition + 2^32))` and the highest score wins; a spread of several
//! partitions is the highest scores in their order, so a wider one begins with the narrower. `mix` is
//! the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
//!
//! A message group falls into one of [`MESSAGE_GROUP_SLOTS`] slots by `mix(FNV-1a(group))`; a slot's
//! key is the queue's and its own number mixed, so that groups of the same name do not meet on one
//! partition in every queue. Where a slot lies depends on the set of partitions, not on their order.

use hikyaku_queue::{DeduplicationScope, Descriptor, PartitionId, QueueId, QueueKind};

/// Partitions that a standard queue may use at most: a receive may have to ask each of them.
pub const SPREAD_MAX: u32 = 32;

/// Partitions of a new FIFO queue with the deduplication scope `messageGroup`, where the cluster has
/// as many. The set is fixed at creation, so it is chosen wide: 16 partitions take what AWS's high
/// throughput mode takes. Not wider, because every waiting receive costs a place at each of them.
pub const FIFO_SPREAD: u32 = 16;

/// Slots into which message groups fall: the unit in which groups can ever move.
pub const MESSAGE_GROUP_SLOTS: u16 = 1_024;

/// Chooses the `width` partitions of a queue among `partitions`, numbered from zero; the first is its
/// home. There are fewer when the cluster has fewer.
///
/// # Panics
/// When there is no partition; a founded cluster has at least one.
pub fn spread(queue: QueueId, partitions: u32, width: u32) -> Vec<PartitionId> {
    spread_from(None, queue, partitions, width)
}

/// The same with a given home: the others are the best of those that remain.
pub(crate) fn spread_from(
    home: Option<PartitionId>,
    queue: QueueId,
    partitions: u32,
    width: u32,
) -> Vec<PartitionId> {
    assert!(
        partitions > 0,
        "a founded cluster has at least one partition"
    );
    let key = mix(queue.0.wrapping_add(1));
    let mut ranked: Vec<u32> = (0..partitions).collect();
    ranked.sort_unstable_by_key(|&partition| {
        let is_home = home == Some(PartitionId(partition));
        std::cmp::Reverse((is_home, score(key, partition)))
    });
    ranked.truncate(width.max(1) as usize);
    ranked.into_iter().map(PartitionId).collect()
}

/// Chooses the home of a queue among `partitions` partitions, numbered from zero.
///
/// # Panics
/// When there is no partition; a founded cluster has at least one.
pub fn home_partition(queue: QueueId, partitions: u32) -> PartitionId {
    spread(queue, partitions, 1)[0]
}

/// How many partitions a queue of this kind begins on, where the cluster has as many. `asked` is what
/// the owner of a standard queue wishes, zero for no wish.
pub(crate) fn first_width(kind: QueueKind, asked: u32) -> u32 {
    match kind {
        QueueKind::Standard => asked.clamp(1, SPREAD_MAX),
        QueueKind::Fifo {
            dedup_scope: DeduplicationScope::Queue,
        } => 1,
        QueueKind::Fifo {
            dedup_scope: DeduplicationScope::MessageGroup,
        } => FIFO_SPREAD,
    }
}

/// Gives a queue the spread of this width, from its home. What leaves the spread drains, and what comes back does
/// not any more.
pub(crate) fn respread(descriptor: &mut Descriptor, partitions: u32, width: u32) {
    let home = descriptor.spread.first().copied();
    let spread = spread_from(home, descriptor.id, partitions, width);
    let left = descriptor.visited().filter(|it| !spread.contains(it));
    descriptor.draining = left.collect();
    descriptor.spread = spread;
}

/// The slot of a message group.
pub fn message_group_slot(message_group: &str) -> u16 {
    let fnv = message_group
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    (mix(fnv) % u64::from(MESSAGE_GROUP_SLOTS)) as u16
}

/// The partition that has a message group of a queue spread over `spread`.
///
/// # Panics
/// When the spread is empty; a queue has at least one partition.
pub fn message_group_partition(
    queue: QueueId,
    spread: &[PartitionId],
    message_group: &str,
) -> PartitionId {
    let slot = u64::from(message_group_slot(message_group));
    let key = mix(mix(queue.0.wrapping_add(1)) ^ mix(slot + (1 << 33)));
    let best = spread.iter().max_by_key(|it| score(key, it.0));
    *best.expect("a queue has at least one partition")
}

fn score(key: u64, partition: u32) -> (u64, u32) {
    let partition_seed = mix(u64::from(partition) + (1 << 32));
    (mix(key ^ partition_seed), partition)
}

pub(crate) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests;
