//! JoinNode: a node makes itself known.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::node::{NODE_TEXT_BYTES_MAX, NODES_MAX, NodeRecord, NodeState};

/// Tells the cluster of a node, or where a known one is now. A new node is active; a known one keeps
/// its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinNode {
    /// The id minted into the node's volume.
    pub node: u64,
    /// `host:port` of its peer listener.
    pub address: String,
    /// Where it would fail together with others; empty when nobody knows.
    pub zone: String,
    /// The name in its certificate; once told, it is the only one that the node may come with.
    pub certificate_name: Option<String>,
    /// Whether it hosts replicas.
    pub storage: bool,
}

/// What the cluster knew of a node that joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// Nothing.
    New,
    /// The node, with another address, zone, certificate or part.
    Changed,
    /// The node as it came.
    Known,
}

/// Why a node was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinNodeError {
    /// There is no cluster to join.
    #[error("the cluster is not founded")]
    NotFounded,
    /// The node was decommissioned; its volume must not come back.
    #[error("node {0:016x} was decommissioned")]
    Decommissioned(u64),
    /// The node's id is pinned to the name of another certificate.
    #[error("node {0:016x} came with another certificate name than before")]
    OtherCertificate(u64),
    /// A node that hosts replicas cannot stop hosting any.
    #[error("node {node:016x} has {replicas} replicas and wants to host none")]
    HasReplicas {
        /// The node.
        node: u64,
        /// How many replicas are on it.
        replicas: u32,
    },
    /// There have been as many nodes as a cluster may ever have.
    #[error("the cluster has had {NODES_MAX} nodes, and takes no more")]
    TooManyNodes,
    /// The address, the zone or the certificate name is too long.
    #[error("a text of {0} bytes is longer than {NODE_TEXT_BYTES_MAX}")]
    TextTooLong(u32),
}

impl JoinNode {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<Joined, JoinNodeError> {
        let cluster = metadata.cluster().ok_or(JoinNodeError::NotFounded)?;
        let known = cluster.node(self.node);
        let state = known.map_or(NodeState::Active, |record| record.state);
        if state == NodeState::Decommissioned {
            return Err(JoinNodeError::Decommissioned(self.node));
        }
        self.check_texts()?;
        let pinned = known.and_then(|record| record.certificate_name.as_ref());
        if pinned.is_some() && pinned != self.certificate_name.as_ref() {
            return Err(JoinNodeError::OtherCertificate(self.node));
        }
        if known.is_none() && cluster.nodes.len() >= NODES_MAX {
            return Err(JoinNodeError::TooManyNodes);
        }
        let replicas = metadata.replicas_on(self.node) as u32;
        if !self.storage && replicas > 0 {
            let node = self.node;
            return Err(JoinNodeError::HasReplicas { node, replicas });
        }
        let record = NodeRecord {
            node: self.node,
            address: self.address,
            zone: self.zone,
            certificate_name: self.certificate_name,
            storage: self.storage,
            state,
        };
        let joined = match known {
            None => Joined::New,
            Some(known) if *known == record => return Ok(Joined::Known),
            Some(_) => Joined::Changed,
        };
        metadata.put_node(record);
        Ok(joined)
    }

    fn check_texts(&self) -> Result<(), JoinNodeError> {
        let certificate_name = self.certificate_name.as_deref().unwrap_or_default();
        let texts = [&*self.address, &*self.zone, certificate_name];
        match texts.into_iter().find(|it| it.len() > NODE_TEXT_BYTES_MAX) {
            None => Ok(()),
            Some(text) => {
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                Err(JoinNodeError::TextTooLong(length))
            }
        }
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.node);
        writer.text(&self.address);
        writer.text(&self.zone);
        writer.optional_text(self.certificate_name.as_deref());
        writer.flag(self.storage);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            node: reader.u64()?,
            address: reader.text()?,
            zone: reader.text()?,
            certificate_name: reader.optional_text()?,
            storage: reader.flag()?,
        })
    }
}

impl Joined {
    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u8(match self {
            Self::New => 1,
            Self::Changed => 2,
            Self::Known => 3,
        });
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::New),
            2 => Ok(Self::Changed),
            3 => Ok(Self::Known),
            kind => Err(unknown("way to join", kind)),
        }
    }
}

impl JoinNodeError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NotFounded => writer.u8(1),
            Self::Decommissioned(node) => {
                writer.u8(2);
                writer.u64(node);
            }
            Self::OtherCertificate(node) => {
                writer.u8(3);
                writer.u64(node);
            }
            Self::HasReplicas { node, replicas } => {
                writer.u8(4);
                writer.u64(node);
                writer.u32(replicas);
            }
            Self::TooManyNodes => writer.u8(5),
            Self::TextTooLong(length) => {
                writer.u8(6);
                writer.u32(length);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NotFounded),
            2 => Ok(Self::Decommissioned(reader.u64()?)),
            3 => Ok(Self::OtherCertificate(reader.u64()?)),
            4 => Ok(Self::HasReplicas {
                node: reader.u64()?,
                replicas: reader.u32()?,
            }),
            5 => Ok(Self::TooManyNodes),
            6 => Ok(Self::TextTooLong(reader.u32()?)),
            kind => Err(unknown("error of joining", kind)),
        }
    }
}
