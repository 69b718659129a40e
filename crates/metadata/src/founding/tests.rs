use super::founding_placement;
use crate::replicas::GroupKey;
use hikyaku_queue::PartitionId;
use proptest::collection::btree_map;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use std::collections::{BTreeMap, BTreeSet};

fn nodes(zones: &[&str]) -> BTreeMap<u64, String> {
    (1..)
        .zip(zones.iter().map(|zone| (*zone).to_owned()))
        .collect()
}

/// Founders need not ask each other, so a change of these is a change between releases.
#[test]
fn founders_of_one_release_agree() {
    let placement = founding_placement(&nodes(&["", "", "", "", ""]), 4, 3);
    let placed: Vec<&[u64]> = placement.values().map(|nodes| &nodes[..]).collect();
    assert_eq!(
        placed,
        [[2, 3, 5], [1, 4, 5], [2, 3, 4], [1, 3, 4], [1, 2, 5]]
    );
}

#[test]
fn few_nodes_have_everything() {
    let placement = founding_placement(&nodes(&["east", "east", ""]), 32, 3);
    assert_eq!(placement.len(), 33);
    assert!(placement.values().all(|nodes| *nodes == [1, 2, 3]));
}

#[test]
fn a_zone_never_has_a_majority_that_it_need_not_have() {
    let zones = ["a", "a", "a", "b", "b", "c"];
    let placement = founding_placement(&nodes(&zones), 32, 3);
    for (group, nodes) in placement {
        let of: BTreeSet<&str> = nodes.iter().map(|it| zones[*it as usize - 1]).collect();
        assert_eq!(of.len(), 3, "{group} is on {nodes:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_group_is_somewhere_and_no_node_has_more_than_its_zone_allows(
        nodes in btree_map(any::<u64>(), select(vec!["", "a", "b", "c"]), 1..12),
        partitions in 1_u32..80,
        replication in 1_u8..8,
    ) {
        let nodes: BTreeMap<u64, String> =
            nodes.into_iter().map(|(node, zone)| (node, zone.to_owned())).collect();
        let placement = founding_placement(&nodes, partitions, replication);
        prop_assert_eq!(placement.len(), partitions as usize + 1);
        let last = GroupKey::Partition(PartitionId(partitions - 1));
        prop_assert!(placement.contains_key(&last));

        let mut load: BTreeMap<u64, usize> = nodes.keys().map(|node| (*node, 0)).collect();
        for placed in placement.values() {
            prop_assert_eq!(placed.len(), nodes.len().min(replication.into()));
            prop_assert!(placed.is_sorted_by(|left, right| left < right));
            for node in placed {
                *load.get_mut(node).unwrap() += 1;
            }
        }
        for (node, zone) in &nodes {
            let alike = nodes.iter().filter(|(other, theirs)| other == &node || *theirs == zone);
            let loads: Vec<usize> = alike.map(|(other, _)| load[other]).collect();
            let uneven = loads.iter().max().unwrap() - loads.iter().min().unwrap();
            prop_assert!(uneven <= 1, "{load:?} in {nodes:?}");
        }
    }
}
