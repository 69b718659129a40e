//! The cluster itself: its identity, its partitions, the keys that seal receipt handles, its nodes.

use crate::codec::{DecodeError, Reader, Writer};
use std::fmt;

/// What founding a cluster decided.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterRecord {
    /// Drawn by the founder; tells one cluster from another for ever.
    pub cluster_id: u128,
    /// How many partitions there are, numbered from zero.
    pub partitions: u32,
    /// Keys that open receipt handles, by key id; the last one seals. At most two: the second
    /// while a rotation is under way.
    pub handle_keys: Vec<(u32, [u8; 64])>,
    /// The nodes that founded the cluster.
    pub nodes: Vec<NodeRecord>,
}

/// One node and how the others reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The id minted into the node's volume.
    pub node: u64,
    /// `host:port` of its peer listener.
    pub address: String,
}

/// What an operator may change on the running cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSettings {
    /// How long the name of a deleted queue stays taken, in ms; 0 frees it at once. SQS says 60 s.
    pub name_reuse_delay_ms: u64,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            name_reuse_delay_ms: 60_000,
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
            .field("handle_key_ids", &key_ids)
            .field("nodes", &self.nodes)
            .finish()
    }
}

impl ClusterRecord {
    const VERSION: u8 = 1;

    /// Writes the record in its versioned form, for catalogue copies.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::versioned(Self::VERSION);
        self.write(&mut writer);
        writer.finish()
    }

    /// Reads what [`ClusterRecord::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::versioned(bytes, Self::VERSION)?;
        let record = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(record)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u128(self.cluster_id);
        writer.u32(self.partitions);
        writer.count(self.handle_keys.len());
        for (id, key) in &self.handle_keys {
            writer.u32(*id);
            writer.raw(key);
        }
        writer.count(self.nodes.len());
        for node in &self.nodes {
            writer.u64(node.node);
            writer.text(&node.address);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let cluster_id = reader.u128()?;
        let partitions = reader.u32()?;
        if partitions > PARTITIONS_MAX {
            return Err(DecodeError::Unknown {
                what: "number of partitions",
                value: partitions.into(),
            });
        }
        let handle_keys = reader.list(|reader| Ok((reader.u32()?, reader.array()?)))?;
        let nodes = reader.list(|reader| {
            Ok(NodeRecord {
                node: reader.u64()?,
                address: reader.text()?,
            })
        })?;
        Ok(Self {
            cluster_id,
            partitions,
            handle_keys,
            nodes,
        })
    }
}

/// More partitions than any cluster has. A home is chosen by looking at each, so that a number which
/// is only damage would keep every replica busy for minutes.
const PARTITIONS_MAX: u32 = 1 << 16;

impl ClusterSettings {
    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u64(self.name_reuse_delay_ms);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name_reuse_delay_ms: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ClusterRecord, NodeRecord};

    #[test]
    fn a_number_of_partitions_that_no_cluster_has_is_damage() {
        for (partitions, read) in [(1 << 16, true), ((1 << 16) + 1, false), (u32::MAX, false)] {
            let record = ClusterRecord {
                cluster_id: 1,
                partitions,
                handle_keys: Vec::new(),
                nodes: Vec::new(),
            };
            let again = ClusterRecord::decode(&record.encode());
            assert_eq!(again.is_ok(), read, "{partitions}");
        }
    }

    #[test]
    fn debug_output_keeps_the_keys_secret() {
        let record = ClusterRecord {
            cluster_id: 1,
            partitions: 4,
            handle_keys: vec![(9, [171; 64])],
            nodes: vec![NodeRecord {
                node: 1,
                address: "a:1".to_owned(),
            }],
        };
        let text = format!("{record:?}");
        assert!(
            text.contains("handle_key_ids: [9]") && !text.contains("171"),
            "{text}"
        );
    }
}
