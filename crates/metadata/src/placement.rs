//! Where a new queue lives: rendezvous hashing of its id over the partitions.
//!
//! Every replica must choose alike, in every release: the hash is written out here, its values are
//! pinned by a test, and it must never change. Each partition scores
//! `mix(mix(queue + 1) xor mix(partition + 2^32))`; the highest score wins. `mix` is the finalizer
//! of SplitMix64 (Steele, Lea and Flood, 2014).

use hikyaku_queue::{PartitionId, QueueId};

/// Chooses the home of a queue among `partitions` partitions, numbered from zero.
///
/// # Panics
/// When there is no partition; a founded cluster has at least one.
pub fn home_partition(queue: QueueId, partitions: u32) -> PartitionId {
    let home = (0..partitions).max_by_key(|&partition| score(queue, partition));
    PartitionId(home.expect("a founded cluster has at least one partition"))
}

fn score(queue: QueueId, partition: u32) -> (u64, u32) {
    let queue = mix(queue.0.wrapping_add(1));
    let partition_seed = mix(u64::from(partition) + (1 << 32));
    (mix(queue ^ partition_seed), partition)
}

fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::{home_partition, mix};
    use hikyaku_queue::{PartitionId, QueueId};

    #[test]
    fn mix_is_splitmix64() {
        // The first output of the published generator for seeds 0 and 1234567.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn homes_never_change() {
        let homes: Vec<u32> = (1..=16)
            .map(|id| home_partition(QueueId(id), 32).0)
            .collect();
        assert_eq!(
            homes,
            [12, 26, 23, 25, 30, 18, 14, 28, 31, 17, 13, 6, 18, 15, 10, 8]
        );
        assert_eq!(home_partition(QueueId(u64::MAX), 1), PartitionId(0));
    }

    #[test]
    fn homes_are_even() {
        let mut queues = [0_u32; 32];
        for id in 0..32_000 {
            queues[home_partition(QueueId(id), 32).0 as usize] += 1;
        }
        assert!(
            queues.iter().all(|count| (850..1150).contains(count)),
            "{queues:?}"
        );
    }

    #[test]
    fn more_partitions_move_few_queues() {
        let moved = (0..1000)
            .filter(|&id| home_partition(QueueId(id), 8) != home_partition(QueueId(id), 9))
            .count();
        assert!(
            moved < 180,
            "{moved} of 1000 queues moved to make room for a ninth partition"
        );
    }
}
