//! The cluster itself: its identity, its partitions, the keys that seal receipt handles, its nodes.

use crate::codec::{DecodeError, Reader, Writer};
use crate::node::NodeRecord;
use crate::replicas::DEFAULT_REPLICATION;
use std::fmt;

/// What founding a cluster decided, and the nodes that it has had since.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterRecord {
    /// Drawn by the founder; tells one cluster from another for ever.
    pub cluster_id: u128,
    /// How many partitions there are, numbered from zero.
    pub partitions: u32,
    /// How many replicas each group is to have, where there are nodes for as many; 1 to 7.
    pub replication: u8,
    /// Keys that open receipt handles, by key id; the last one seals. At most two: the second
    /// while a rotation is under way.
    pub handle_keys: Vec<(u32, [u8; 64])>,
    /// The nodes, decommissioned ones included, in the order in which they came.
    pub nodes: Vec<NodeRecord>,
}

/// What an operator may change on the running cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSettings {
    /// How long the name of a deleted queue stays taken, and how long after a purge the next one is
    /// refused, in ms; 0 allows both at once. SQS says 60 s (SQS-CONTRACT section 5).
    pub cooldown_ms: u64,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            cooldown_ms: 60_000,
        }
    }
}

impl fmt::Debug for ClusterRecord {
    /// Shows the ids of the keys and never the keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key_ids: Vec<u32> = self.handle_keys.iter().map(|(id, _)| *id).collect();
        formatter
            .debug_struct("ClusterRecord")
            .field("cluster_id", &format_args!("{:032x}", self.cluster_id))
            .field("partitions", &self.partitions)
            .field("replication", &self.replication)
            .field("handle_key_ids", &key_ids)
            .field("nodes", &self.nodes)
            .finish()
    }
}

impl ClusterRecord {
    pub(crate) const VERSION: u8 = 2;

    /// A node by id, decommissioned or not.
    pub fn node(&self, node: u64) -> Option<&NodeRecord> {
        self.nodes.iter().find(|record| record.node == node)
    }

    /// Writes the record in its versioned form, for catalogue copies.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::versioned(Self::VERSION);
        self.write(&mut writer);
        writer.finish()
    }

    /// Reads what [`ClusterRecord::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (mut reader, version) = Reader::up_to(bytes, Self::VERSION)?;
        let record = Self::read(&mut reader, version)?;
        reader.finish()?;
        Ok(record)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u128(self.cluster_id);
        writer.u32(self.partitions);
        writer.u8(self.replication);
        writer.count(self.handle_keys.len());
        for (id, key) in &self.handle_keys {
            writer.u32(*id);
            writer.raw(key);
        }
        writer.count(self.nodes.len());
        for node in &self.nodes {
            node.write(writer);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, version: u8) -> Result<Self, DecodeError> {
        let cluster_id = reader.u128()?;
        let partitions = reader.u32()?;
        if partitions > PARTITIONS_MAX {
            return Err(DecodeError::Unknown {
                what: "number of partitions",
                value: partitions.into(),
            });
        }
        let replication = match version {
            WITHOUT_PLACEMENT => DEFAULT_REPLICATION,
            _ => reader.u8()?,
        };
        let handle_keys = reader.list(|reader| Ok((reader.u32()?, reader.array()?)))?;
        let nodes: Vec<NodeRecord> = reader.list(|reader| match version {
            WITHOUT_PLACEMENT => NodeRecord::read_1(reader),
            _ => NodeRecord::read(reader),
        })?;
        let replicas = u64::from(partitions) * nodes.len() as u64;
        if version == WITHOUT_PLACEMENT && replicas > REPLICAS_MAX {
            return Err(DecodeError::Impossible("all groups fit on all nodes"));
        }
        Ok(Self {
            cluster_id,
            partitions,
            replication,
            handle_keys,
            nodes,
        })
    }
}

/// Version 1 of a cluster's record knew no replication: every group was on every node.
pub(crate) const WITHOUT_PLACEMENT: u8 = 1;

/// More replicas than any cluster had whose groups were all on all nodes. They follow from two numbers,
/// so that damage of a few bytes would ask for gigabytes.
const REPLICAS_MAX: u64 = 1 << 16;

/// More partitions than any cluster has. A home is chosen by looking at each, so that a number which
/// is only damage would keep every replica busy for minutes.
const PARTITIONS_MAX: u32 = 1 << 16;

impl ClusterSettings {
    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u64(self.cooldown_ms);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            cooldown_ms: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ClusterRecord, NodeRecord, WITHOUT_PLACEMENT, Writer};
    use crate::replicas::DEFAULT_REPLICATION;

    #[test]
    fn a_number_of_partitions_that_no_cluster_has_is_damage() {
        for (partitions, read) in [(1 << 16, true), ((1 << 16) + 1, false), (u32::MAX, false)] {
            let record = ClusterRecord {
                cluster_id: 1,
                partitions,
                replication: DEFAULT_REPLICATION,
                handle_keys: Vec::new(),
                nodes: Vec::new(),
            };
            let again = ClusterRecord::decode(&record.encode());
            assert_eq!(again.is_ok(), read, "{partitions}");
        }
    }

    #[test]
    fn more_replicas_than_any_cluster_had_are_damage() {
        let without_placement = |partitions: u32, nodes: u64| {
            let mut writer = Writer::versioned(WITHOUT_PLACEMENT);
            writer.u128(1);
            writer.u32(partitions);
            writer.count(0);
            writer.count(nodes as usize);
            for node in 0..nodes {
                writer.u64(node);
                writer.text("a:1");
            }
            writer.finish()
        };
        for (partitions, nodes, read) in [(256, 256, true), (257, 256, false), (1 << 16, 2, false)]
        {
            let record = ClusterRecord::decode(&without_placement(partitions, nodes));
            assert_eq!(
                record.is_ok(),
                read,
                "{partitions} partitions, {nodes} nodes"
            );
        }
    }

    #[test]
    fn debug_output_keeps_the_keys_secret() {
        let record = ClusterRecord {
            cluster_id: 1,
            partitions: 4,
            replication: DEFAULT_REPLICATION,
            handle_keys: vec![(9, [171; 64])],
            nodes: vec![NodeRecord::storage(1, "a:1")],
        };
        let text = format!("{record:?}");
        assert!(
            text.contains("handle_key_ids: [9]") && !text.contains("171"),
            "{text}"
        );
    }
}
