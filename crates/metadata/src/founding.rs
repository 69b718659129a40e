//! Which nodes have which groups when a cluster begins.
//!
//! The founder decides and its command says so, so that a later release may decide otherwise.

use crate::cluster::ClusterRecord;
use crate::machine::Metadata;
use crate::placement::mix;
use crate::replicas::{GroupKey, Member, ReplicaId, Replicas, Role};
use std::collections::{BTreeMap, BTreeSet};

/// The nodes of each group, in the order of their ids.
pub type Placement = BTreeMap<GroupKey, Vec<u64>>;

/// Spreads the groups of a new cluster over its storage nodes, given with their zones (empty when
/// unknown: the node is then a zone of its own).
///
/// Each group has `replication` replicas, or one on every node when there are fewer nodes. First its
/// replicas are in as many zones as can be, then nodes have equally many, then chance decides: the
/// same for every founder of one release.
pub fn founding_placement(
    nodes: &BTreeMap<u64, String>,
    partitions: u32,
    replication: u8,
) -> Placement {
    let mut placed: BTreeMap<u64, usize> = nodes.keys().map(|node| (*node, 0)).collect();
    let mut choose = |group| {
        let mut chosen = BTreeSet::new();
        while chosen.len() < nodes.len().min(replication.into()) {
            let left = nodes.keys().filter(|node| !chosen.contains(*node));
            let best = left.min_by_key(|node| {
                let zone = &nodes[*node];
                let same = |it: &&u64| !zone.is_empty() && nodes[*it] == *zone;
                (
                    chosen.iter().filter(same).count(),
                    placed[*node],
                    chance(group, **node),
                )
            });
            let best = *best.expect("a node is left");
            chosen.insert(best);
            *placed.entry(best).or_default() += 1;
        }
        chosen.into_iter().collect()
    };
    GroupKey::all(partitions)
        .map(|group| (group, choose(group)))
        .collect()
}

/// Every group on every node: how clusters were founded before there was a choice.
pub(crate) fn everywhere(cluster: &ClusterRecord) -> Placement {
    let nodes: BTreeSet<u64> = cluster.nodes.iter().map(|record| record.node).collect();
    let nodes: Vec<u64> = nodes.into_iter().collect();
    GroupKey::all(cluster.partitions)
        .map(|group| (group, nodes.clone()))
        .collect()
}

fn chance(group: GroupKey, node: u64) -> u64 {
    let number = match group {
        GroupKey::Metadata => 0,
        GroupKey::Partition(partition) => u64::from(partition.0) + 1,
    };
    mix(mix(number) ^ mix(node.wrapping_add(1)))
}

/// The replicas that a placement means: all vote, and bear the ids of their nodes.
pub(crate) fn place(placement: &Placement, revision: u64) -> BTreeMap<GroupKey, Replicas> {
    let voter = |node: &u64| {
        let role = Role::Voter;
        (ReplicaId(*node), Member { node: *node, role })
    };
    let placed = placement.iter().map(|(group, nodes)| {
        let members = nodes.iter().map(voter).collect();
        let version = 1;
        (
            *group,
            Replicas {
                members,
                version,
                revision,
            },
        )
    });
    placed.collect()
}

/// Whether the placement gives each group of the cluster, and no other, distinct storage nodes of it;
/// tells the first group for which that is not so.
pub(crate) fn misplaced(cluster: &ClusterRecord, placement: &Placement) -> Option<GroupKey> {
    let placed = |group: &GroupKey| {
        let nodes = placement.get(group).map_or(&[][..], Vec::as_slice);
        let distinct: BTreeSet<&u64> = nodes.iter().collect();
        let takes = |node: &u64| cluster.node(*node).is_some_and(|it| it.takes_replicas());
        !nodes.is_empty() && distinct.len() == nodes.len() && nodes.iter().all(takes)
    };
    let expected: BTreeSet<GroupKey> = GroupKey::all(cluster.partitions).collect();
    let unexpected = placement
        .keys()
        .find(|group| !expected.contains(group))
        .copied();
    unexpected.or_else(|| expected.iter().find(|group| !placed(group)).copied())
}

impl Metadata {
    /// Gives the metadata its cluster and every group its first replicas.
    pub(crate) fn begin(&mut self, cluster: ClusterRecord, placement: &Placement) {
        self.put_cluster(cluster);
        self.groups = place(placement, self.cluster_revision);
    }

    /// Replaces the replicas of a group and answers their version.
    pub(crate) fn put_members(
        &mut self,
        group: GroupKey,
        members: BTreeMap<ReplicaId, Member>,
    ) -> u64 {
        let revision = self.next_revision();
        let replicas = self
            .groups
            .get_mut(&group)
            .expect("a move is of a group that exists");
        replicas.members = members;
        replicas.version += 1;
        replicas.revision = revision;
        replicas.version
    }
}

#[cfg(test)]
mod tests;
