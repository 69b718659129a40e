//! What things are called on a screen, and which node somebody means.

use anyhow::{bail, ensure};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::{NodeState, Role};

/// A node's id.
pub fn id(node: u64) -> String {
    format!("{node:016x}")
}

/// A cluster's id.
pub fn cluster_id(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A node's state.
pub fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::Unspecified => "unknown",
        NodeState::Active => "active",
        NodeState::Cordoned => "cordoned",
        NodeState::Draining => "draining",
        NodeState::Decommissioning => "decommissioning",
        NodeState::Decommissioned => "decommissioned",
    }
}

/// A replica's part.
pub fn role(role: Role) -> &'static str {
    match role {
        Role::Unspecified => "unknown",
        Role::Voter => "voter",
        Role::Joining => "joining",
        Role::Leaving => "leaving",
        Role::Abandoned => "abandoned",
        Role::Damaged => "damaged",
    }
}

/// A group.
pub fn group(group: &wire::Group) -> String {
    match group.partition {
        None => "metadata".to_owned(),
        Some(partition) => format!("partition {partition}"),
    }
}

/// The node that is meant: by its id, the beginning of it, or its address. Of two nodes that have had
/// an address, the one that is not decommissioned.
pub fn find<'a>(nodes: &'a [wire::Node], meant: &str) -> anyhow::Result<&'a wire::Node> {
    let by_address = meant.contains(':');
    let is_meant = |node: &&wire::Node| match by_address {
        true => node.address == meant.to_ascii_lowercase(),
        false => !meant.is_empty() && id(node.node).starts_with(&meant.to_ascii_lowercase()),
    };
    let mut found: Vec<&wire::Node> = nodes.iter().filter(is_meant).collect();
    if by_address && found.len() > 1 {
        found.retain(|node| node.state() != NodeState::Decommissioned);
    }
    ensure!(
        !found.is_empty(),
        "no node of the cluster is {meant:?}; `hikyaku node list --all` shows them"
    );
    match *found {
        [node] => Ok(node),
        _ => {
            let ids: Vec<String> = found.iter().map(|node| id(node.node)).collect();
            bail!("{meant:?} may be any of {}", ids.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(node: u64, address: &str, state: NodeState) -> wire::Node {
        wire::Node {
            node,
            address: address.to_owned(),
            state: state.into(),
            ..wire::Node::default()
        }
    }

    #[test]
    fn a_node_is_meant_by_its_id_its_beginning_or_its_address() {
        let nodes = [
            node(0xa100_0000_0000_0000, "one:1", NodeState::Decommissioned),
            node(0xa200_0000_0000_0000, "one:1", NodeState::Active),
            node(0xb000_0000_0000_0000, "two:1", NodeState::Active),
        ];
        for (meant, index) in [
            ("a100000000000000", 0),
            ("A1", 0),
            ("b", 2),
            ("Two:1", 2),
            ("one:1", 1),
        ] {
            assert_eq!(find(&nodes, meant).expect(meant).node, nodes[index].node);
        }
        for (meant, said) in [("a", "may be any of a1"), ("", "no node"), ("c", "no node")] {
            let error = find(&nodes, meant).expect_err(meant).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
