//! The types openraft is instantiated with. Nothing of them leaves this crate.

use std::any::Any;
use std::fmt;

use bytes::Bytes;

/// What an entry carries: the head that the machine reads, and the bodies that it never touches.
#[derive(Clone, PartialEq, Eq)]
pub struct EntryData {
    pub head: Bytes,
    pub bodies: Vec<Bytes>,
}

impl fmt::Debug for EntryData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for EntryData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} B head, {} bodies",
            self.head.len(),
            self.bodies.len()
        )
    }
}

/// A machine's answer to one entry; `None` for entries that are openraft's own.
///
/// All groups share one instantiation of openraft, so the machine's own type is put in a box here and
/// taken out again in [`crate::Group::submit`], which knows it.
pub struct AnyReply(pub Option<Box<dyn Any + Send + Sync>>);

impl fmt::Debug for AnyReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "a machine's reply"
        } else {
            "no reply"
        })
    }
}

/// Where a replica lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    pub node: u64,
}

openraft::declare_raft_types!(
    pub TypeConfig:
        D = EntryData,
        R = AnyReply,
        NodeId = u64,
        Node = Placement,
        Term = u64,
        LeaderId = openraft::impls::leader_id_std::LeaderId<Self::Term, Self::NodeId>,
        AsyncRuntime = openraft::TokioRuntime,
);

pub type LeaderId = openraft::type_config::alias::LeaderIdOf<TypeConfig>;
pub type CommittedLeaderId = openraft::type_config::alias::CommittedLeaderIdOf<TypeConfig>;
pub type LogId = openraft::type_config::alias::LogIdOf<TypeConfig>;
pub type Vote = openraft::type_config::alias::VoteOf<TypeConfig>;
pub type Entry = openraft::type_config::alias::EntryOf<TypeConfig>;
pub type Membership = openraft::Membership<u64, Placement>;
pub type StoredMembership = openraft::type_config::alias::StoredMembershipOf<TypeConfig>;
pub type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<TypeConfig>;
pub type Raft = openraft::Raft<TypeConfig, crate::state_machine::StateMachine>;
