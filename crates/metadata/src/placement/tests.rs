use super::{
    FIFO_SPREAD, MESSAGE_GROUP_SLOTS, home_partition, message_group_partition, message_group_slot,
    mix, respread, spread,
};
use hikyaku_queue::{Descriptor, PartitionId, QueueId, QueueKind, QueueState};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeSet;

const QUEUE: QueueId = QueueId(7);

fn numbers(partitions: &[PartitionId]) -> Vec<u32> {
    partitions.iter().map(|partition| partition.0).collect()
}

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
fn spreads_never_change() {
    assert_eq!(
        numbers(&spread(QUEUE, 32, 8)),
        [14, 16, 25, 31, 26, 9, 19, 4]
    );
    assert_eq!(numbers(&spread(QUEUE, 4, FIFO_SPREAD)), [3, 0, 2, 1]);
}

#[test]
fn slots_of_message_groups_never_change() {
    let groups = ["", "a", "b", "group-1", "飛脚", &"x".repeat(128)];
    let slots = groups.map(message_group_slot);
    assert_eq!(slots, [816, 295, 612, 460, 477, 896]);
}

#[test]
fn partitions_of_message_groups_never_change() {
    let spread = spread(QUEUE, 32, FIFO_SPREAD);
    let groups: Vec<String> = (0..16).map(|number| format!("group-{number}")).collect();
    let of = |queue, group: &str| message_group_partition(queue, &spread, group).0;
    let found: Vec<u32> = groups.iter().map(|group| of(QUEUE, group)).collect();
    assert_eq!(
        found,
        [31, 4, 30, 3, 4, 12, 0, 25, 4, 19, 30, 3, 18, 30, 25, 26]
    );
    let other: Vec<u32> = groups.iter().map(|group| of(QueueId(8), group)).collect();
    assert_ne!(found, other, "equal names do not meet in every queue");
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
fn message_groups_are_even() {
    let spread = spread(QUEUE, 32, FIFO_SPREAD);
    let mut groups = [0_u32; 32];
    for number in 0..32_000 {
        let partition = message_group_partition(QUEUE, &spread, &format!("customer-{number}"));
        groups[partition.0 as usize] += 1;
    }
    // 64 slots a partition make shares uneven by about an eighth.
    for partition in &spread {
        let share = groups[partition.0 as usize];
        assert!((1_200..2_900).contains(&share), "{groups:?}");
    }
    assert_eq!(groups.iter().sum::<u32>(), 32_000);
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

fn descriptor(queue: QueueId, partitions: u32) -> Descriptor {
    Descriptor {
        id: queue,
        version: 1,
        state: QueueState::Active,
        kind: QueueKind::Standard,
        visibility_timeout_ms: 30_000,
        delay_ms: 0,
        retention_ms: 60_000,
        purge_epoch: 0,
        in_flight_limit: 1,
        spread: spread(queue, partitions, 1),
        draining: Vec::new(),
        guests: Vec::new(),
        redrive: None,
        move_order: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_wider_spread_begins_with_the_narrower(
        id in any::<u64>(), partitions in 1_u32..300, width in 1_u32..40,
    ) {
        let queue = QueueId(id);
        let (narrow, wide) = (spread(queue, partitions, width), spread(queue, partitions, width + 1));
        prop_assert!(wide.starts_with(&narrow));
        prop_assert_eq!(narrow[0], home_partition(queue, partitions));
        prop_assert_eq!(narrow.len(), partitions.min(width) as usize);
        let distinct: BTreeSet<PartitionId> = wide.iter().copied().collect();
        prop_assert_eq!(distinct.len(), wide.len());
        prop_assert!(wide.iter().all(|it| it.0 < partitions));
    }

    /// What keeps order and deduplication: a message group has one partition, of the spread, whoever
    /// asks and in whatever order the spread is written.
    #[test]
    fn a_message_group_has_one_partition(
        id in any::<u64>(), partitions in 1_u32..300, width in 1_u32..40, group in ".{0,128}",
    ) {
        let queue = QueueId(id);
        let mut spread = spread(queue, partitions, width);
        let partition = message_group_partition(queue, &spread, &group);
        prop_assert!(spread.contains(&partition));
        spread.reverse();
        prop_assert_eq!(message_group_partition(queue, &spread, &group), partition);
        prop_assert!(message_group_slot(&group) < MESSAGE_GROUP_SLOTS);
    }

    /// Through any widths, no partition that may hold messages is forgotten.
    #[test]
    fn what_leaves_a_spread_drains(
        id in 0_u64..1_000, partitions in 1_u32..40, widths in vec(0_u32..40, 1..8),
    ) {
        let mut queue = descriptor(QueueId(id), partitions);
        let mut used = BTreeSet::new();
        for width in widths {
            used.extend(queue.spread.iter().copied());
            respread(&mut queue, partitions, width);
            let visited: Vec<PartitionId> = queue.visited().collect();
            let distinct: BTreeSet<PartitionId> = visited.iter().copied().collect();
            prop_assert_eq!(distinct.len(), visited.len());
            prop_assert!(used.is_subset(&distinct));
            prop_assert!(!queue.spread.is_empty());
        }
    }
}
