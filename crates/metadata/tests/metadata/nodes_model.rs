//! Nodes and replicas, slow and plain: each replica is one line of a list, and every rule is looked
//! up in it.

use hikyaku_metadata::{
    ClusterRecord, Command, GroupKey, JoinNode, JoinNodeError, Joined, Metadata, MoveStepError,
    NodeRecord, NodeState, ReplicaId, Reply, Role, SetNodeState, SetNodeStateError,
    SetReplicationError, StartMove, StartMoveError,
};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct Nodes {
    pub replication: u8,
    pub nodes: Vec<NodeRecord>,
    pub replicas: Vec<Replica>,
    pub versions: BTreeMap<GroupKey, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    pub group: GroupKey,
    pub id: u64,
    pub node: u64,
    pub role: Role,
}

impl Nodes {
    pub fn found(&mut self, cluster: &ClusterRecord, placement: &BTreeMap<GroupKey, Vec<u64>>) {
        self.replication = cluster.replication;
        self.nodes = cluster.nodes.clone();
        for (group, nodes) in placement {
            self.versions.insert(*group, 1);
            self.replicas.extend(nodes.iter().map(|node| Replica {
                group: *group,
                id: *node,
                node: *node,
                role: Role::Voter,
            }));
        }
    }

    /// Answers the commands that are about nodes and replicas.
    pub fn command(&mut self, command: &Command) -> Option<Reply> {
        Some(match command {
            Command::JoinNode(join) => Reply::NodeJoined(self.join(join)),
            Command::SetNodeState(set) => Reply::NodeStateSet(self.set_state(*set)),
            Command::SetReplication(set) => Reply::ReplicationSet(match set.replication {
                _ if self.nodes.is_empty() => Err(SetReplicationError::NotFounded),
                number @ (0 | 8..) => Err(SetReplicationError::OutOfRange(number)),
                number => {
                    self.replication = number;
                    Ok(())
                }
            }),
            Command::StartMove(start) => Reply::MoveStarted(self.start(*start)),
            Command::ReplicaPromoted(promoted) => {
                let (group, id) = (promoted.group, promoted.replica.0);
                let known = self.versions.contains_key(&group);
                let done = known && self.role(group, id) == Some(Role::Voter);
                Reply::MoveStepped(self.step(group, promoted.version, done, |nodes| {
                    if nodes.role(group, id) != Some(Role::Joining) {
                        return Err(MoveStepError::NotJoining(ReplicaId(id)));
                    }
                    nodes.set_role(group, id, Role::Voter);
                    Ok(())
                }))
            }
            Command::ReplicaRemoved(removed) => {
                let (group, id) = (removed.group, removed.replica.0);
                let done = self.role(group, id).is_none();
                Reply::MoveStepped(self.step(group, removed.version, done, |nodes| {
                    let role = nodes.role(group, id);
                    if role != Some(Role::Leaving) && role != Some(Role::Abandoned) {
                        return Err(MoveStepError::NotLeaving(ReplicaId(id)));
                    }
                    if let Some(successor) = nodes.with_role(group, Role::Joining) {
                        return Err(MoveStepError::SuccessorFirst(ReplicaId(successor)));
                    }
                    nodes.replicas.retain(|it| (it.group, it.id) != (group, id));
                    Ok(())
                }))
            }
            Command::AbandonMove(abandon) => {
                let group = abandon.group;
                Reply::MoveStepped(self.step(group, abandon.version, false, |nodes| {
                    let joining = nodes.with_role(group, Role::Joining);
                    let leaving = nodes.with_role(group, Role::Leaving);
                    if (joining, leaving) == (None, None) {
                        return Err(MoveStepError::NothingToAbandon);
                    }
                    if let Some(joining) = joining {
                        nodes.set_role(group, joining, Role::Abandoned);
                    }
                    if let Some(leaving) = leaving {
                        nodes.set_role(group, leaving, Role::Voter);
                    }
                    Ok(())
                }))
            }
            _ => return None,
        })
    }

    fn join(&mut self, join: &JoinNode) -> Result<Joined, JoinNodeError> {
        if self.nodes.is_empty() {
            return Err(JoinNodeError::NotFounded);
        }
        let hosted = self.replicas.iter().filter(|it| it.node == join.node);
        let replicas = hosted.count() as u32;
        let node = join.node;
        let mut record = NodeRecord {
            node,
            address: join.address.clone(),
            zone: join.zone.clone(),
            certificate_name: join.certificate_name.clone(),
            storage: join.storage,
            state: NodeState::Active,
        };
        let Some(known) = self.nodes.iter_mut().find(|it| it.node == node) else {
            self.nodes.push(record);
            return Ok(Joined::New);
        };
        record.state = known.state;
        match known.certificate_name {
            _ if known.state == NodeState::Decommissioned => {
                Err(JoinNodeError::Decommissioned(node))
            }
            Some(_) if known.certificate_name != record.certificate_name => {
                Err(JoinNodeError::OtherCertificate(node))
            }
            _ if !join.storage && replicas > 0 => {
                Err(JoinNodeError::HasReplicas { node, replicas })
            }
            _ if *known == record => Ok(Joined::Known),
            _ => {
                *known = record;
                Ok(Joined::Changed)
            }
        }
    }

    fn set_state(&mut self, set: SetNodeState) -> Result<NodeState, SetNodeStateError> {
        let node = set.node;
        let before = self.node(node).ok_or(SetNodeStateError::NoSuchNode(node))?;
        let (before, storage) = (before.state, before.storage);
        let empty = !self.replicas.iter().any(|it| it.node == node);
        let wanted = match set.state {
            NodeState::Decommissioning | NodeState::Decommissioned if empty => {
                NodeState::Decommissioned
            }
            NodeState::Decommissioning | NodeState::Decommissioned => NodeState::Decommissioning,
            other => other,
        };
        if before == NodeState::Decommissioned && wanted != before {
            return Err(SetNodeStateError::Decommissioned(node));
        }
        let may_stay = [NodeState::Active, NodeState::Cordoned];
        if storage && may_stay.contains(&before) && !may_stay.contains(&wanted) {
            for group in self.versions.keys() {
                self.leaves_enough(*group, node)?;
            }
        }
        let record = self.nodes.iter_mut().find(|it| it.node == node);
        record.unwrap().state = wanted;
        Ok(wanted)
    }

    fn leaves_enough(&self, group: GroupKey, node: u64) -> Result<(), SetNodeStateError> {
        let on = |node| {
            self.replicas
                .iter()
                .any(|it| (it.group, it.node) == (group, node))
        };
        if !on(node) {
            return Ok(());
        }
        let in_group = self.replicas.iter().filter(|it| it.group == group);
        let kept = in_group.filter(|it| it.role == Role::Voter || it.role == Role::Joining);
        let kept = kept.count();
        let needed = kept.min(self.replication.into()) as u32;
        let mut places = 0;
        for other in self.nodes.iter().filter(|it| it.node != node && it.storage) {
            let place = match other.state {
                NodeState::Active => true,
                NodeState::Cordoned => on(other.node),
                _ => false,
            };
            places += u32::from(place);
        }
        if places < needed {
            return Err(SetNodeStateError::TooFewNodes {
                group,
                places,
                needed,
            });
        }
        Ok(())
    }

    fn start(&mut self, start: StartMove) -> Result<u64, StartMoveError> {
        let group = start.group;
        let version = self.versions.get(&group).copied();
        let version = version.ok_or(StartMoveError::NoSuchGroup(group))?;
        if start.version != version {
            return Err(StartMoveError::Stale(version));
        }
        let moving = [Role::Joining, Role::Leaving, Role::Abandoned];
        if moving
            .iter()
            .any(|role| self.with_role(group, *role).is_some())
        {
            return Err(StartMoveError::Moving);
        }
        if (start.add, start.remove) == (None, None) {
            return Err(StartMoveError::Nothing);
        }
        if let Some(replica) = start.remove {
            if self.role(group, replica.0).is_none() {
                return Err(StartMoveError::NoSuchReplica(replica));
            }
            let in_group = self.replicas.iter().filter(|it| it.group == group);
            if start.add.is_none() && in_group.count() == 1 {
                return Err(StartMoveError::LastVoter(replica));
            }
        }
        if let Some((replica, node)) = start.add {
            self.may_open(group, replica, node)?;
            self.replicas.push(Replica {
                group,
                id: replica.0,
                node,
                role: Role::Joining,
            });
        }
        if let Some(replica) = start.remove {
            self.set_role(group, replica.0, Role::Leaving);
        }
        self.versions.insert(group, version + 1);
        Ok(version + 1)
    }

    fn may_open(&self, group: GroupKey, id: ReplicaId, node: u64) -> Result<(), StartMoveError> {
        if self.role(group, id.0).is_some() || self.node(id.0).is_some() {
            return Err(StartMoveError::ReplicaKnown(id));
        }
        match self.node(node) {
            None => Err(StartMoveError::NoSuchNode(node)),
            Some(NodeRecord { storage: false, .. }) => Err(StartMoveError::NoStorage(node)),
            Some(NodeRecord { state, .. }) if *state != NodeState::Active => {
                let state = *state;
                Err(StartMoveError::NodeNotActive { node, state })
            }
            Some(_) => {
                let mut replicas = self.replicas.iter();
                let taken = replicas.any(|it| (it.group, it.node) == (group, node));
                let has = Err(StartMoveError::NodeHasReplica(node));
                if taken { has } else { Ok(()) }
            }
        }
    }

    fn step(
        &mut self,
        group: GroupKey,
        version: u64,
        done: bool,
        step: impl FnOnce(&mut Self) -> Result<(), MoveStepError>,
    ) -> Result<u64, MoveStepError> {
        let current = self.versions.get(&group).copied();
        let current = current.ok_or(MoveStepError::NoSuchGroup(group))?;
        if done {
            return Ok(current);
        }
        if version != current {
            return Err(MoveStepError::Stale(current));
        }
        step(self)?;
        self.versions.insert(group, current + 1);
        Ok(current + 1)
    }

    pub fn with_role(&self, group: GroupKey, role: Role) -> Option<u64> {
        let mut replicas = self.replicas.iter();
        let found = replicas.find(|it| (it.group, it.role) == (group, role));
        found.map(|it| it.id)
    }

    fn role(&self, group: GroupKey, id: u64) -> Option<Role> {
        let mut replicas = self.replicas.iter();
        let found = replicas.find(|it| (it.group, it.id) == (group, id));
        found.map(|it| it.role)
    }

    fn set_role(&mut self, group: GroupKey, id: u64, role: Role) {
        let mut replicas = self.replicas.iter_mut();
        let found = replicas.find(|it| (it.group, it.id) == (group, id));
        found.unwrap().role = role;
    }

    pub fn node(&self, node: u64) -> Option<&NodeRecord> {
        self.nodes.iter().find(|it| it.node == node)
    }

    /// Asserts that the metadata says the same.
    pub fn compare(&self, metadata: &Metadata) {
        let cluster = metadata.cluster().expect("the cluster is founded");
        assert_eq!(cluster.replication, self.replication);
        assert_eq!(cluster.nodes, self.nodes);
        let mut said = Vec::new();
        for (group, replicas) in metadata.groups() {
            assert_eq!(self.versions.get(group), Some(&replicas.version), "{group}");
            said.extend(replicas.members.iter().map(|(id, member)| Replica {
                group: *group,
                id: id.0,
                node: member.node,
                role: member.role,
            }));
        }
        let mut expected = self.replicas.clone();
        expected.sort_by_key(|it| (it.group, it.id));
        assert_eq!(said, expected);
        for record in &self.nodes {
            let on = self.replicas.iter().filter(|it| it.node == record.node);
            assert_eq!(metadata.replicas_on(record.node), on.count());
        }
    }
}
