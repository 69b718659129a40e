//! What a copy of the catalogue lacks.
//!
//! A node keeps a copy and knows its revision; after a restart it asks for the difference alone.

use crate::cluster::ClusterRecord;
use crate::machine::Metadata;
use crate::record::QueueRecord;
use crate::replicas::{GroupKey, Replicas};
use crate::tenants::TenantRecord;
use hikyaku_queue::QueueId;
use std::ops::Bound;

/// The answer to a copy at some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes<'a> {
    /// This brings the copy up to date.
    Since(Difference<'a>),
    /// The copy was away for so long that removals are forgotten: it must start from revision 0.
    FullResync,
    /// The copy is ahead of this replica, which has entries to apply first.
    Ahead,
}

/// Records changed, and queues removed, after some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The revision of a copy that has taken the difference.
    pub revision: u64,
    /// The cluster with its nodes, when it changed.
    pub cluster: Option<&'a ClusterRecord>,
    /// Groups whose replicas changed. A group never goes.
    pub replicas: Vec<(GroupKey, &'a Replicas)>,
    /// Tenants changed, with their access keys, in the order of their revisions. A record never goes.
    pub tenants: Vec<&'a TenantRecord>,
    /// Records changed, in the order of their revisions.
    pub changed: Vec<&'a QueueRecord>,
    /// Queues removed, which the copy may never have known.
    pub removed: Vec<QueueId>,
}

impl Metadata {
    /// Tells what changed after `revision`; 0 is the revision of an empty copy.
    pub fn changes_since(&self, revision: u64) -> Changes<'_> {
        if revision > self.revision {
            return Changes::Ahead;
        }
        let empty = revision == 0;
        if !empty && revision < self.forgotten_revision {
            return Changes::FullResync;
        }
        let after = (Bound::Excluded(revision), Bound::Unbounded);
        let moved = self.groups.iter();
        let moved = moved.filter(|(_, replicas)| replicas.revision > revision);
        let changed = self.revisions.range(after);
        let removed = self.removals.range(after).filter(|_| !empty);
        Changes::Since(Difference {
            revision: self.revision,
            cluster: self.cluster().filter(|_| self.cluster_revision > revision),
            replicas: moved.map(|(group, replicas)| (*group, replicas)).collect(),
            tenants: self.tenants.changed_after(revision).collect(),
            changed: changed
                .filter_map(|(_, queue)| self.queue(*queue))
                .collect(),
            removed: removed.map(|(_, removal)| removal.queue).collect(),
        })
    }
}
