//! The nodes of a cluster, as every copy of the metadata knows them.
//!
//! A node's id is minted into its volume and never used again; its record stays for ever, so that a
//! decommissioned node is known as such whenever it comes back.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use std::fmt;

/// Nodes that a cluster may ever have had. Each is looked at whenever replicas are placed, and a
/// record is never dropped.
pub const NODES_MAX: usize = 4_096;

/// The longest address, zone or certificate name, in bytes: a DNS name with a port has 261 at most.
pub const NODE_TEXT_BYTES_MAX: usize = 512;

/// One node, how the others reach it and what may be placed on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The id minted into the node's volume.
    pub node: u64,
    /// `host:port` of its peer listener.
    pub address: String,
    /// Where it would fail together with others; empty when nobody knows.
    pub zone: String,
    /// The name in the certificate by which it proves itself; none pins no certificate.
    pub certificate_name: Option<String>,
    /// Whether it hosts replicas; one that does not only routes.
    pub storage: bool,
    /// What its operator wants of it.
    pub state: NodeState,
}

/// What an operator wants of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// It keeps replicas and takes more.
    Active,
    /// It keeps its replicas, takes no more, and leads nothing that another can lead.
    Cordoned,
    /// Its replicas are moved away; then it waits for its operator.
    Draining,
    /// Its replicas are moved away; then it is decommissioned.
    Decommissioning,
    /// It is gone, and is refused for ever.
    Decommissioned,
}

impl NodeRecord {
    /// An active storage node in no known zone, with no certificate pinned.
    pub fn storage(node: u64, address: impl Into<String>) -> Self {
        Self {
            node,
            address: address.into(),
            zone: String::new(),
            certificate_name: None,
            storage: true,
            state: NodeState::Active,
        }
    }

    /// Whether replicas may be placed on it.
    pub fn takes_replicas(&self) -> bool {
        self.storage && self.state == NodeState::Active
    }

    /// Whether the replicas on it may stay.
    pub fn keeps_replicas(&self) -> bool {
        self.storage && matches!(self.state, NodeState::Active | NodeState::Cordoned)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.node);
        writer.text(&self.address);
        writer.text(&self.zone);
        writer.optional_text(self.certificate_name.as_deref());
        writer.flag(self.storage);
        self.state.write(writer);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            node: reader.u64()?,
            address: reader.text()?,
            zone: reader.text()?,
            certificate_name: reader.optional_text()?,
            storage: reader.flag()?,
            state: NodeState::read(reader)?,
        })
    }

    /// Reads a node of a cluster record of version 1, which had an id and an address.
    pub(crate) fn read_1(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let node = reader.u64()?;
        Ok(Self::storage(node, reader.text()?))
    }
}

impl NodeState {
    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u8(match self {
            Self::Active => 1,
            Self::Cordoned => 2,
            Self::Draining => 3,
            Self::Decommissioning => 4,
            Self::Decommissioned => 5,
        });
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Active),
            2 => Ok(Self::Cordoned),
            3 => Ok(Self::Draining),
            4 => Ok(Self::Decommissioning),
            5 => Ok(Self::Decommissioned),
            state => Err(unknown("node state", state)),
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Active => "active",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
            Self::Decommissioning => "decommissioning",
            Self::Decommissioned => "decommissioned",
        })
    }
}

impl Metadata {
    /// A node by id, decommissioned or not.
    pub fn node(&self, node: u64) -> Option<&NodeRecord> {
        self.cluster()?.node(node)
    }

    /// Takes in a node, or replaces what is known of it.
    pub(crate) fn put_node(&mut self, record: NodeRecord) {
        let mut cluster = self
            .cluster()
            .expect("nodes are of founded clusters")
            .clone();
        match cluster.nodes.iter_mut().find(|it| it.node == record.node) {
            Some(known) => *known = record,
            None => cluster.nodes.push(record),
        }
        self.put_cluster(cluster);
    }
}
