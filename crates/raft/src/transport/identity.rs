//! Who speaks to whom: the head of every request between nodes.
//!
//! The head names protocol, cluster, sender and receiver, and is checked before anything else of a
//! request is read. A node at a stale address is thereby never taken for the one that lived there, and
//! two clusters never mix.
//!
//! A node learns its cluster when it is founded or joins. Until then its head names none, and it is
//! let in: what it may do is decided by the node and replica ids, which are minted and never reused.

use std::sync::{Arc, OnceLock};

use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};

/// The version of the messages between nodes. A peer with another one is refused.
const PROTOCOL: u64 = 1;

const PROTOCOL_KEY: &str = "hikyaku-protocol";
const CLUSTER_KEY: &str = "hikyaku-cluster";
const SENDER_KEY: &str = "hikyaku-sender";
const RECEIVER_KEY: &str = "hikyaku-receiver";

/// This node's id, and its cluster's once that is known. Cheap to clone; clones learn together.
#[derive(Clone, Debug)]
pub struct Identity {
    node: u64,
    cluster: Arc<OnceLock<u128>>,
}

/// The node belongs to another cluster already.
#[derive(Debug, thiserror::Error)]
#[error("this node belongs to cluster {own:032x}, not to {other:032x}")]
pub struct OtherCluster {
    /// The cluster it belongs to.
    pub own: u128,
    /// The cluster it was to belong to.
    pub other: u128,
}

impl Identity {
    /// A node that belongs to no cluster yet.
    pub fn new(node: u64) -> Self {
        Self {
            node,
            cluster: Arc::default(),
        }
    }

    /// This node's id.
    pub fn node(&self) -> u64 {
        self.node
    }

    /// The cluster it belongs to; `None` before it is founded or joined.
    pub fn cluster(&self) -> Option<u128> {
        self.cluster.get().copied()
    }

    /// Notes the cluster. From now on peers of another one are refused. May be repeated.
    ///
    /// # Errors
    /// When it belongs to another one already, which nothing changes.
    pub fn belongs_to(&self, cluster: u128) -> Result<(), OtherCluster> {
        let own = *self.cluster.get_or_init(|| cluster);
        if own == cluster {
            Ok(())
        } else {
            Err(OtherCluster {
                own,
                other: cluster,
            })
        }
    }

    /// Writes the head of a request to `receiver`.
    pub(crate) fn introduce(&self, receiver: u64, head: &mut MetadataMap) {
        head.insert(PROTOCOL_KEY, MetadataValue::from(PROTOCOL));
        if let Some(cluster) = self.cluster() {
            head.insert(CLUSTER_KEY, hexadecimal(&format!("{cluster:032x}")));
        }
        head.insert(SENDER_KEY, hexadecimal(&format!("{:016x}", self.node)));
        head.insert(RECEIVER_KEY, hexadecimal(&format!("{receiver:016x}")));
    }

    /// Reads the head of a request that arrived; gives the sender's id.
    pub(crate) fn check(&self, head: &MetadataMap) -> Result<u64, HeadError> {
        let protocol = text(head, PROTOCOL_KEY)?.ok_or(HeadError::Missing(PROTOCOL_KEY))?;
        if protocol != PROTOCOL.to_string() {
            return Err(HeadError::Protocol(protocol.to_owned()));
        }
        let theirs = text(head, CLUSTER_KEY)?.map(|text| {
            u128::from_str_radix(text, 16).map_err(|_| HeadError::Malformed(CLUSTER_KEY))
        });
        if let (Some(own), Some(theirs)) = (self.cluster(), theirs.transpose()?)
            && own != theirs
        {
            return Err(HeadError::Cluster { own, theirs });
        }
        let receiver = node(head, RECEIVER_KEY)?;
        if receiver != self.node {
            return Err(HeadError::Receiver {
                own: self.node,
                meant: receiver,
            });
        }
        node(head, SENDER_KEY)
    }
}

/// Why a request is refused by its head.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("the request's head lacks {0}")]
    Missing(&'static str),
    #[error("the request's {0} cannot be read")]
    Malformed(&'static str),
    #[error("this node speaks protocol {PROTOCOL}, not {0:?}")]
    Protocol(String),
    #[error("this node belongs to cluster {own:032x}, not to {theirs:032x}")]
    Cluster { own: u128, theirs: u128 },
    #[error("this is node {own:x}, not node {meant:x}")]
    Receiver { own: u64, meant: u64 },
}

impl From<HeadError> for Status {
    fn from(error: HeadError) -> Self {
        Status::failed_precondition(error.to_string())
    }
}

fn hexadecimal(text: &str) -> MetadataValue<tonic::metadata::Ascii> {
    text.parse().expect("hexadecimal digits are ASCII")
}

fn text<'a>(head: &'a MetadataMap, key: &'static str) -> Result<Option<&'a str>, HeadError> {
    head.get(key)
        .map(|value| value.to_str().map_err(|_| HeadError::Malformed(key)))
        .transpose()
}

fn node(head: &MetadataMap, key: &'static str) -> Result<u64, HeadError> {
    let text = text(head, key)?.ok_or(HeadError::Missing(key))?;
    u64::from_str_radix(text, 16).map_err(|_| HeadError::Malformed(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(from: &Identity, to: u64) -> MetadataMap {
        let mut head = MetadataMap::new();
        from.introduce(to, &mut head);
        head
    }

    fn of_cluster(node: u64, cluster: u128) -> Identity {
        let identity = Identity::new(node);
        identity.belongs_to(cluster).expect("the first");
        identity
    }

    #[test]
    fn nodes_of_one_cluster_know_each_other() {
        let (one, two) = (of_cluster(1, 7), of_cluster(2, 7));
        assert_eq!(two.check(&head(&one, 2)), Ok(1));
    }

    #[test]
    fn a_node_without_a_cluster_may_speak_and_be_spoken_to() {
        let (founded, fresh) = (of_cluster(1, 7), Identity::new(2));
        assert_eq!(fresh.check(&head(&founded, 2)), Ok(1));
        assert_eq!(founded.check(&head(&fresh, 1)), Ok(2));
    }

    #[test]
    fn another_cluster_is_refused() {
        let (own, other) = (of_cluster(1, 7), of_cluster(2, 8));
        assert_eq!(
            own.check(&head(&other, 1)),
            Err(HeadError::Cluster { own: 7, theirs: 8 })
        );
    }

    #[test]
    fn a_request_for_another_node_is_refused() {
        let (one, two) = (of_cluster(1, 7), of_cluster(2, 7));
        assert_eq!(
            two.check(&head(&one, 3)),
            Err(HeadError::Receiver { own: 2, meant: 3 })
        );
    }

    #[test]
    fn heads_that_nobody_writes_are_refused() {
        let own = of_cluster(1, 7);
        let mut other = head(&of_cluster(2, 7), 1);
        other.insert(PROTOCOL_KEY, MetadataValue::from(9));
        assert_eq!(own.check(&other), Err(HeadError::Protocol("9".to_owned())));
        let mut other = head(&of_cluster(2, 7), 1);
        other.insert(CLUSTER_KEY, MetadataValue::from_static("seven"));
        assert_eq!(own.check(&other), Err(HeadError::Malformed(CLUSTER_KEY)));
        let mut other = head(&of_cluster(2, 7), 1);
        other.remove(SENDER_KEY);
        assert_eq!(own.check(&other), Err(HeadError::Missing(SENDER_KEY)));
        assert_eq!(
            own.check(&MetadataMap::new()),
            Err(HeadError::Missing(PROTOCOL_KEY))
        );
    }

    /// What the first version sends; it must be understood for ever.
    #[test]
    fn writes_the_head_of_the_first_version() {
        let head = head(&of_cluster(0x1f, 0xabc), 0x2e).into_headers();
        let fields = [
            ("hikyaku-protocol", "1"),
            ("hikyaku-cluster", "00000000000000000000000000000abc"),
            ("hikyaku-sender", "000000000000001f"),
            ("hikyaku-receiver", "000000000000002e"),
        ];
        assert_eq!(head.len(), fields.len());
        for (name, value) in fields {
            assert_eq!(head[name], value);
        }
    }

    #[test]
    fn a_cluster_is_never_changed() {
        let identity = of_cluster(1, 7);
        identity.belongs_to(7).expect("the same");
        let refused = identity.belongs_to(8).expect_err("another");
        assert_eq!((refused.own, refused.other), (7, 8));
        assert_eq!(identity.cluster(), Some(7));
    }
}
