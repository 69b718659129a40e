//! What an operator is shown, as it is sent.

use hikyaku_cluster::Survey;
use hikyaku_metadata::{
    AccessKeyRecord, AccessKeyState, GroupKey, NodeRecord, NodeState, Replicas, Role, TenantId,
    TenantRecord, TenantState,
};
use hikyaku_proto::admin as wire;

/// The survey that a node made.
pub fn survey(answered_by: u64, survey: &Survey) -> wire::Survey {
    let nodes = survey.cluster.nodes.iter();
    let groups = survey.groups.iter();
    wire::Survey {
        answered_by,
        cluster_id: survey.cluster.cluster_id.to_be_bytes().to_vec().into(),
        replication: survey.cluster.replication.into(),
        current: survey.current,
        nodes: nodes.map(|record| node(survey, record)).collect(),
        groups: groups
            .map(|(key, replicas)| group(survey, *key, replicas))
            .collect(),
    }
}

fn node(survey: &Survey, record: &NodeRecord) -> wire::Node {
    wire::Node {
        node: record.node,
        address: record.address.clone(),
        zone: record.zone.clone(),
        certificate_name: record.certificate_name.clone().unwrap_or_default(),
        storage: record.storage,
        state: state(record.state).into(),
        answers: survey.answers(record.node),
        replicas: count(survey.replicas_on(record.node)),
        leads: count(survey.leads(record.node)),
    }
}

fn group(survey: &Survey, key: GroupKey, replicas: &Replicas) -> wire::Group {
    let leader = survey.leader(key);
    let members = replicas.members.iter();
    wire::Group {
        partition: match key {
            GroupKey::Metadata => None,
            GroupKey::Partition(partition) => Some(partition.0),
        },
        leader: leader.map(|(node, _)| node),
        term: leader.map_or(0, |(_, term)| term),
        replicas: members
            .map(|(replica, member)| wire::Replica {
                replica: replica.0,
                node: member.node,
                role: role(member.role).into(),
            })
            .collect(),
    }
}

/// A cluster has some thousands of anything at the most.
pub fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A node's state, to be sent.
pub fn state(state: NodeState) -> wire::NodeState {
    match state {
        NodeState::Active => wire::NodeState::Active,
        NodeState::Cordoned => wire::NodeState::Cordoned,
        NodeState::Draining => wire::NodeState::Draining,
        NodeState::Decommissioning => wire::NodeState::Decommissioning,
        NodeState::Decommissioned => wire::NodeState::Decommissioned,
    }
}

/// A node's state, as it came; `None` when this version knows none such.
pub fn state_of(state: i32) -> Option<NodeState> {
    match wire::NodeState::try_from(state).ok()? {
        wire::NodeState::Unspecified => None,
        wire::NodeState::Active => Some(NodeState::Active),
        wire::NodeState::Cordoned => Some(NodeState::Cordoned),
        wire::NodeState::Draining => Some(NodeState::Draining),
        wire::NodeState::Decommissioning => Some(NodeState::Decommissioning),
        wire::NodeState::Decommissioned => Some(NodeState::Decommissioned),
    }
}

/// A tenant with so many queues.
pub fn tenant(record: &TenantRecord, queues: usize) -> wire::Tenant {
    wire::Tenant {
        tenant: record.tenant.to_string(),
        name: record.name.clone(),
        state: tenant_state(record.state).into(),
        created_at_ms: record.created_at_ms,
        queues: count(queues),
        keys: count(record.keys.len()),
    }
}

/// An access key, without its secret.
pub fn access_key(tenant: TenantId, key: &str, record: &AccessKeyRecord) -> wire::AccessKey {
    wire::AccessKey {
        key: key.to_owned(),
        tenant: tenant.to_string(),
        active: record.state == AccessKeyState::Active,
        description: record.description.clone(),
        created_at_ms: record.created_at_ms,
        sealed_by: record.sealed.key,
    }
}

fn tenant_state(state: TenantState) -> wire::TenantState {
    match state {
        TenantState::Active => wire::TenantState::Active,
        TenantState::Suspended => wire::TenantState::Suspended,
        TenantState::Deleting => wire::TenantState::Deleting,
        TenantState::Deleted => wire::TenantState::Deleted,
    }
}

/// A tenant's state, as it came; `None` when this version knows none such.
pub fn tenant_state_of(state: i32) -> Option<TenantState> {
    match wire::TenantState::try_from(state).ok()? {
        wire::TenantState::Unspecified => None,
        wire::TenantState::Active => Some(TenantState::Active),
        wire::TenantState::Suspended => Some(TenantState::Suspended),
        wire::TenantState::Deleting => Some(TenantState::Deleting),
        wire::TenantState::Deleted => Some(TenantState::Deleted),
    }
}

fn role(role: Role) -> wire::Role {
    match role {
        Role::Voter => wire::Role::Voter,
        Role::Joining => wire::Role::Joining,
        Role::Leaving => wire::Role::Leaving,
        Role::Abandoned => wire::Role::Abandoned,
        Role::Damaged => wire::Role::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_as_they_were_sent() {
        for sent in [
            NodeState::Active,
            NodeState::Cordoned,
            NodeState::Draining,
            NodeState::Decommissioning,
            NodeState::Decommissioned,
        ] {
            assert_eq!(state_of(state(sent).into()), Some(sent));
        }
        assert_eq!(state_of(0), None);
        assert_eq!(state_of(99), None);
    }
}
