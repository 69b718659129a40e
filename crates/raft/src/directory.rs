//! The groups of this node by id.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use crate::group::GroupCore;

/// The groups that are open here. Clones share them.
#[derive(Clone, Default)]
pub struct Directory(Arc<RwLock<BTreeMap<u64, Arc<GroupCore>>>>);

/// A request names a replica that is not on this node.
#[derive(Debug, thiserror::Error)]
pub enum NoSuchReplica {
    #[error("no replica of group {0:x} here")]
    Group(u64),
    #[error("the replica of group {group:x} here is {here:x}, not {meant:x}")]
    Replica { group: u64, here: u64, meant: u64 },
}

impl Directory {
    pub fn insert(&self, group: Arc<GroupCore>) {
        self.0
            .write()
            .expect("no panic happens under this lock")
            .insert(group.id, group);
    }

    pub fn remove(&self, group: u64) -> Option<Arc<GroupCore>> {
        self.0
            .write()
            .expect("no panic happens under this lock")
            .remove(&group)
    }

    pub fn all(&self) -> Vec<Arc<GroupCore>> {
        self.0
            .read()
            .expect("no panic happens under this lock")
            .values()
            .cloned()
            .collect()
    }

    /// The replica of a group, whichever it is.
    pub fn group(&self, group: u64) -> Option<Arc<GroupCore>> {
        let groups = self.0.read().expect("no panic happens under this lock");
        groups.get(&group).cloned()
    }

    pub fn get(&self, group: u64, replica: u64) -> Result<Arc<GroupCore>, NoSuchReplica> {
        let groups = self.0.read().expect("no panic happens under this lock");
        let core = groups.get(&group).ok_or(NoSuchReplica::Group(group))?;
        if core.replica != replica {
            return Err(NoSuchReplica::Replica {
                group,
                here: core.replica,
                meant: replica,
            });
        }
        Ok(Arc::clone(core))
    }
}
