//! Which replicas each Raft group has, on which nodes, and the one move that a group may be in.
//!
//! A move adds a replica, removes one, or both. It is replicated before anything of it happens, and
//! each step is confirmed when it has happened, so that whoever drives it next goes on where the last
//! one fell:
//!
//! - It starts: the new replica is *joining*, the old one is *leaving*. The old one votes on.
//! - The new replica was opened empty, has caught up and votes: it is *promoted*. Only from then on
//!   may the old one be taken out of the voters.
//! - The old one votes no more: it is *removed*, and its node drops what it holds. That waits while
//!   most of the others are not alive: without it they would be no majority.
//! - A move that cannot go on is given up: a joining replica is *abandoned*, to be dropped without ever
//!   having voted, and what was leaving stays.
//!
//! A replica may be **damaged** at any time: its node has lost what the replica promised, or cannot
//! read it. It counts for nothing any longer, is taken out of the group without waiting for a
//! successor, and the group then gets another one like any group with too few.
//!
//! Who gives up a move looks first what the group itself has made of it, and confirms that instead if
//! it went on.
//!
//! A replica id is one placement of a group on a node, drawn at random and never used twice. The
//! replicas of the founding bear the ids of their nodes.
//!
//! Invariants: a group has at most one joining and one leaving replica, or else one abandoned, damaged
//! ones aside; never two replicas on one node, and always one that votes; the version rises with every change.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use hikyaku_queue::PartitionId;
use std::collections::BTreeMap;
use std::fmt;

/// Replicas per group when nobody wishes otherwise.
pub const DEFAULT_REPLICATION: u8 = 3;

/// The most replicas per group: each is on the way of every entry.
pub const MAX_REPLICATION: u8 = 7;

/// A Raft group of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// The one that replicates the metadata.
    Metadata,
    /// A partition.
    Partition(PartitionId),
}

/// One placement of a group on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaId(pub u64);

/// A replica's node and its part in the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The node that it is on.
    pub node: u64,
    /// Its part.
    pub role: Role,
}

/// A replica's part in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It votes.
    Voter,
    /// It is opened empty, learns, and is to vote.
    Joining,
    /// It votes, is to vote no more, and then to be dropped.
    Leaving,
    /// It was joining, and is to be dropped.
    Abandoned,
    /// What it promised is lost: it neither votes nor leads, though the group may count on it yet,
    /// and is to be dropped.
    Damaged,
}

/// The replicas of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replicas {
    /// The replicas by id.
    pub members: BTreeMap<ReplicaId, Member>,
    /// Rises by one with each change, from 1.
    pub version: u64,
    /// The metadata revision of the last change.
    pub revision: u64,
}

/// Why a step of a move was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoveStepError {
    /// The cluster has no such group, or is not founded.
    #[error("there is no group {0}")]
    NoSuchGroup(GroupKey),
    /// The step belongs to replicas of before.
    #[error("the replicas are of version {0} by now")]
    Stale(u64),
    /// What is to be promoted is not joining.
    #[error("replica {0} is not joining")]
    NotJoining(ReplicaId),
    /// What is to be removed is neither leaving, abandoned nor damaged.
    #[error("replica {0} is not leaving")]
    NotLeaving(ReplicaId),
    /// A replica votes until the one in its place does.
    #[error("replica {0} is to be promoted first")]
    SuccessorFirst(ReplicaId),
    /// There is no move, or it was given up already.
    #[error("there is no move to give up")]
    NothingToAbandon,
}

impl Replicas {
    /// The replica on that node.
    pub fn on(&self, node: u64) -> Option<(ReplicaId, Member)> {
        self.of(|member| member.node == node)
    }

    /// The replica that is joining.
    pub fn joining(&self) -> Option<(ReplicaId, Member)> {
        self.of(|member| member.role == Role::Joining)
    }

    /// The replica that is leaving.
    pub fn leaving(&self) -> Option<(ReplicaId, Member)> {
        self.of(|member| member.role == Role::Leaving)
    }

    /// The replica that was joining.
    pub fn abandoned(&self) -> Option<(ReplicaId, Member)> {
        self.of(|member| member.role == Role::Abandoned)
    }

    /// A replica that is damaged.
    pub fn damaged(&self) -> Option<(ReplicaId, Member)> {
        self.of(|member| member.role == Role::Damaged)
    }

    /// Whether so many of those that vote are damaged that the others are no majority: what the group
    /// holds cannot be saved by making replicas anew.
    pub fn is_lost(&self) -> bool {
        let (mut whole, mut all) = (0, 0);
        for voter in self.voters() {
            all += 1;
            whole += usize::from(voter.role != Role::Damaged);
        }
        whole * 2 <= all
    }

    /// Whether a move is under way.
    pub fn is_moving(&self) -> bool {
        self.of(|member| member.role != Role::Voter).is_some()
    }

    /// Those that the group counts as voters, as far as is confirmed; damaged ones do not vote.
    pub fn voters(&self) -> impl Iterator<Item = &Member> {
        let members = self.members.values();
        members.filter(|it| matches!(it.role, Role::Voter | Role::Leaving | Role::Damaged))
    }

    fn of(&self, wanted: impl Fn(&Member) -> bool) -> Option<(ReplicaId, Member)> {
        let found = self.members.iter().find(|(_, member)| wanted(member));
        found.map(|(replica, member)| (*replica, *member))
    }

    /// Those that stay when the move is done.
    pub fn staying(&self) -> impl Iterator<Item = &Member> {
        let members = self.members.values();
        members.filter(|it| matches!(it.role, Role::Voter | Role::Joining))
    }

    fn at(&self, version: u64) -> Result<(), MoveStepError> {
        if self.version == version {
            Ok(())
        } else {
            Err(MoveStepError::Stale(self.version))
        }
    }

    /// The members once `replica` votes; none when it does already.
    pub(crate) fn promoted(
        &self,
        replica: ReplicaId,
        version: u64,
    ) -> Result<Option<BTreeMap<ReplicaId, Member>>, MoveStepError> {
        let role = self.members.get(&replica).map(|member| member.role);
        if role == Some(Role::Voter) {
            return Ok(None);
        }
        self.at(version)?;
        if role != Some(Role::Joining) {
            return Err(MoveStepError::NotJoining(replica));
        }
        Ok(Some(self.with(replica, Role::Voter)))
    }

    /// The members without `replica`; none when it is gone already.
    pub(crate) fn removed(
        &self,
        replica: ReplicaId,
        version: u64,
    ) -> Result<Option<BTreeMap<ReplicaId, Member>>, MoveStepError> {
        let Some(member) = self.members.get(&replica) else {
            return Ok(None);
        };
        self.at(version)?;
        let goes = matches!(member.role, Role::Leaving | Role::Abandoned | Role::Damaged);
        if !goes {
            return Err(MoveStepError::NotLeaving(replica));
        }
        if let Some((successor, _)) = self.joining()
            && member.role != Role::Damaged
        {
            return Err(MoveStepError::SuccessorFirst(successor));
        }
        let mut members = self.members.clone();
        members.remove(&replica);
        Ok(Some(members))
    }

    /// The members once the move is given up.
    pub(crate) fn given_up(
        &self,
        version: u64,
    ) -> Result<BTreeMap<ReplicaId, Member>, MoveStepError> {
        self.at(version)?;
        if self.joining().or(self.leaving()).is_none() {
            return Err(MoveStepError::NothingToAbandon);
        }
        let mut members = self.members.clone();
        for member in members.values_mut() {
            member.role = match member.role {
                Role::Joining => Role::Abandoned,
                Role::Leaving => Role::Voter,
                role => role,
            };
        }
        Ok(members)
    }

    /// The members once `replica` is known to be damaged; none when that changes nothing. A move of
    /// which it was the newcomer is given up.
    pub(crate) fn with_damaged(&self, replica: ReplicaId) -> Option<BTreeMap<ReplicaId, Member>> {
        let role = self.members.get(&replica)?.role;
        if matches!(role, Role::Damaged | Role::Abandoned) {
            return None;
        }
        let mut members = self.with(replica, Role::Damaged);
        if role == Role::Joining {
            let mut leaving = members.values_mut().filter(|it| it.role == Role::Leaving);
            if let Some(leaving) = leaving.next() {
                leaving.role = Role::Voter;
            }
        }
        Some(members)
    }

    fn with(&self, replica: ReplicaId, role: Role) -> BTreeMap<ReplicaId, Member> {
        let mut members = self.members.clone();
        members.entry(replica).and_modify(|it| it.role = role);
        members
    }
}

/// Looking.
impl Metadata {
    /// The replicas of a group; none before the cluster is founded.
    pub fn replicas(&self, group: GroupKey) -> Option<&Replicas> {
        self.groups.get(&group)
    }

    /// Every group with its replicas, the metadata's first; none before the cluster is founded.
    pub fn groups(&self) -> &BTreeMap<GroupKey, Replicas> {
        &self.groups
    }

    /// How many replicas a node has, those included that join and leave.
    pub fn replicas_on(&self, node: u64) -> usize {
        let groups = self.groups.values();
        groups
            .filter(|replicas| replicas.on(node).is_some())
            .count()
    }
}

impl Metadata {
    /// Takes one step of a group's move and answers the version that follows.
    pub(crate) fn step(
        &mut self,
        group: GroupKey,
        step: impl FnOnce(&Replicas) -> Result<Option<BTreeMap<ReplicaId, Member>>, MoveStepError>,
    ) -> Result<u64, MoveStepError> {
        let replicas = self.groups.get(&group);
        let replicas = replicas.ok_or(MoveStepError::NoSuchGroup(group))?;
        match step(replicas)? {
            Some(members) => Ok(self.put_members(group, members)),
            None => Ok(replicas.version),
        }
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata => formatter.write_str("metadata"),
            Self::Partition(partition) => write!(formatter, "partition {}", partition.0),
        }
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl GroupKey {
    /// Every group of a cluster with so many partitions.
    pub(crate) fn all(partitions: u32) -> impl Iterator<Item = Self> {
        let partitions = (0..partitions).map(|number| Self::Partition(PartitionId(number)));
        std::iter::once(Self::Metadata).chain(partitions)
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::Metadata => writer.u8(1),
            Self::Partition(partition) => {
                writer.u8(2);
                writer.partition(partition);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Metadata),
            2 => Ok(Self::Partition(reader.partition()?)),
            kind => Err(unknown("group", kind)),
        }
    }
}

impl Replicas {
    const VERSION: u8 = 1;

    /// Writes the replicas in their versioned form, for catalogue copies.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::versioned(Self::VERSION);
        self.write(&mut writer);
        writer.finish()
    }

    /// Reads what [`Replicas::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::versioned(bytes, Self::VERSION)?;
        let replicas = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(replicas)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.count(self.members.len());
        for (replica, member) in &self.members {
            writer.u64(replica.0);
            writer.u64(member.node);
            member.role.write(writer);
        }
        writer.u64(self.version);
        writer.u64(self.revision);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut members = BTreeMap::new();
        for _ in 0..reader.count()? {
            let replica = ReplicaId(reader.u64()?);
            let node = reader.u64()?;
            let role = Role::read(reader)?;
            if members.insert(replica, Member { node, role }).is_some() {
                return Err(DecodeError::Repeated("replica"));
            }
        }
        Ok(Self {
            members,
            version: reader.u64()?,
            revision: reader.u64()?,
        })
    }
}

impl Role {
    fn write(self, writer: &mut Writer) {
        writer.u8(match self {
            Self::Voter => 1,
            Self::Joining => 2,
            Self::Leaving => 3,
            Self::Abandoned => 4,
            Self::Damaged => 5,
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Voter),
            2 => Ok(Self::Joining),
            3 => Ok(Self::Leaving),
            4 => Ok(Self::Abandoned),
            5 => Ok(Self::Damaged),
            role => Err(unknown("role of a replica", role)),
        }
    }
}

impl MoveStepError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NoSuchGroup(group) => {
                writer.u8(1);
                group.write(writer);
            }
            Self::Stale(version) => {
                writer.u8(2);
                writer.u64(version);
            }
            Self::NotJoining(replica) => {
                writer.u8(3);
                writer.u64(replica.0);
            }
            Self::NotLeaving(replica) => {
                writer.u8(4);
                writer.u64(replica.0);
            }
            Self::SuccessorFirst(replica) => {
                writer.u8(5);
                writer.u64(replica.0);
            }
            Self::NothingToAbandon => writer.u8(6),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchGroup(GroupKey::read(reader)?)),
            2 => Ok(Self::Stale(reader.u64()?)),
            3 => Ok(Self::NotJoining(ReplicaId(reader.u64()?))),
            4 => Ok(Self::NotLeaving(ReplicaId(reader.u64()?))),
            5 => Ok(Self::SuccessorFirst(ReplicaId(reader.u64()?))),
            6 => Ok(Self::NothingToAbandon),
            kind => Err(unknown("error of a move", kind)),
        }
    }
}
