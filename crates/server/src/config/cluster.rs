//! What a node does, and its place in the cluster, as they are configured.

use super::{Config, Counterpart, Disagreement, PeerAddress, holds};
use crate::tls::{PairFiles, PeerFiles};
use hikyaku_metadata::{DEFAULT_REPLICATION, MAX_REPLICATION, PlacementLimits, REMOVAL_MEMORY_MS};
use hikyaku_raft::certificate_name;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A node is taken for dead after so long at the earliest, in ms: the metadata leader hears of each
/// once a second, and a busy machine is not a dead one.
const REPLACE_AFTER_MIN_MS: u64 = 10_000;

/// Partitions a cluster may have; more has not been tested.
const PARTITIONS_MAX: u32 = 256;

/// What a node does. Every node takes requests and forwards them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// It keeps replicas, on a volume of its own.
    pub storage: bool,
}

/// This node's place in the cluster. Without peers it is a cluster of its own.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Partitions that a new cluster is founded with; ignored once there is one.
    pub partitions: u32,
    /// Whether standard queues get more partitions when their load asks for it. `false`: a queue has
    /// those of its creation, or as many as its owner says.
    pub grow_queues: bool,
    /// How long the name of a deleted queue stays taken, and how long after a purge the next one is
    /// refused, in ms; 0 allows both at once, as test suites like it. It is the cluster's: proposed at
    /// start by the node that says something else, so that the last one to start wins. Without, the
    /// cluster keeps what it has, which is SQS's 60 s until somebody says otherwise.
    pub cooldown_ms: Option<u64>,
    /// Where other nodes connect.
    pub peer_listen: Option<SocketAddr>,
    /// Where other nodes reach this one; without it, at `peer_listen`.
    pub advertise: Option<PeerAddress>,
    /// Replicas of each group that a new cluster is founded with, where it has nodes for as many.
    pub replication: u8,
    /// After how long a silence the replicas of a node are made anew on others, in ms.
    pub replace_after_ms: u64,
    /// Where this node would fail together with others, such as a rack or a zone; `None`: nobody knows.
    pub zone: Option<String>,
    /// The nodes that found the cluster, the same list on all of them; a node with a new volume asks
    /// them for a cluster to join.
    pub peers: Vec<PeerAddress>,
    /// How nodes prove themselves to each other; without, they are all on one machine.
    pub tls: PeerTlsConfig,
}

/// How nodes prove themselves to each other: all of it or nothing.
#[derive(Clone, Debug, Default)]
pub struct PeerTlsConfig {
    /// The cluster's name, a DNS name that every node's certificate carries beside the node's own.
    pub name: Option<String>,
    /// The certificate of this node and those that vouch for it, in PEM.
    pub cert_file: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    pub key_file: Option<PathBuf>,
    /// The authorities whose certificates are believed, in PEM.
    pub ca_file: Option<PathBuf>,
}

impl PeerTlsConfig {
    /// The files, if there are.
    #[must_use]
    pub fn files(&self) -> Option<PeerFiles> {
        let cert = self.cert_file.clone()?;
        let key = self.key_file.clone()?;
        let pair = PairFiles { cert, key };
        let ca = self.ca_file.clone()?;
        Some(PeerFiles { pair, ca })
    }
}

impl ClusterConfig {
    /// This node's address, as the list of peers has it; `None` when nobody can reach it.
    #[must_use]
    pub fn address(&self) -> Option<PeerAddress> {
        let listen = || {
            self.peer_listen
                .map(|listen| PeerAddress(listen.to_string()))
        };
        self.advertise.clone().or_else(listen)
    }

    /// The name in this node's certificate by which others know it: where they reach it. `None` when
    /// nobody can, and where nodes show no certificates.
    #[must_use]
    pub fn certificate_name(&self) -> Option<String> {
        self.tls.files()?;
        let address = self.address()?;
        certificate_name(&address.0).map(str::to_owned)
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            partitions: 32,
            grow_queues: true,
            cooldown_ms: None,
            peer_listen: None,
            advertise: None,
            replication: DEFAULT_REPLICATION,
            replace_after_ms: PlacementLimits::default().replace_after_ms,
            zone: None,
            peers: Vec::new(),
            tls: PeerTlsConfig::default(),
        }
    }
}

impl Config {
    pub(super) fn check_cluster(&self) -> Result<(), Disagreement> {
        use Counterpart::{Key, Limit, Nothing};
        let cluster = &self.cluster;
        let partitions = "cluster.partitions";
        let peers = "cluster.peers";
        holds(
            cluster.partitions > 0,
            partitions,
            "must be at least",
            Limit(1),
        )?;
        let few = cluster.partitions <= PARTITIONS_MAX;
        holds(
            few,
            partitions,
            "must be at most",
            Limit(PARTITIONS_MAX.into()),
        )?;

        let remembered = cluster.cooldown_ms.is_none_or(|ms| ms <= REMOVAL_MEMORY_MS);
        let most = Limit(REMOVAL_MEMORY_MS);
        holds(remembered, "cluster.cooldown_ms", "must be at most", most)?;

        self.check_peer_tls()?;
        if !self.roles.storage {
            let rule = "must name nodes with storage, for a node that has none";
            holds(!cluster.peers.is_empty(), peers, rule, Nothing)?;
            return self.check_encryption();
        }
        self.check_placement()?;
        let elsewhere = cluster.peer_listen != Some(self.listen) || self.listen.port() == 0;
        holds(
            elsewhere,
            "cluster.peer_listen",
            "must differ from",
            Key("listen"),
        )?;
        let addresses: BTreeSet<&PeerAddress> = cluster.peers.iter().collect();
        let rule = "must name each node once";
        holds(addresses.len() == cluster.peers.len(), peers, rule, Nothing)?;
        let reachable = cluster.peers.len() < 2 || cluster.peer_listen.is_some();
        holds(
            reachable,
            peers,
            "can only connect if there is",
            Key("cluster.peer_listen"),
        )?;
        self.check_encryption()
    }

    fn check_peer_tls(&self) -> Result<(), Disagreement> {
        let tls = &self.cluster.tls;
        let parts = [
            (tls.name.is_some(), "cluster.tls.name"),
            (tls.cert_file.is_some(), "cluster.tls.cert_file"),
            (tls.key_file.is_some(), "cluster.tls.key_file"),
            (tls.ca_file.is_some(), "cluster.tls.ca_file"),
        ];
        let given = parts.iter().find(|(given, _)| *given);
        let absent = parts.iter().find(|(given, _)| !given);
        match (given, absent) {
            (Some((_, key)), Some((_, without))) => {
                let rule = "means nothing without";
                holds(false, key, rule, Counterpart::Key(without))
            }
            _ => Ok(()),
        }
    }

    /// What nodes say to each other in the clear must not leave the machine.
    fn check_encryption(&self) -> Result<(), Disagreement> {
        let cluster = &self.cluster;
        if cluster.tls.files().is_some() {
            return Ok(());
        }
        let tls = || Counterpart::Key("cluster.tls.cert_file");
        let rule = "must be a loopback address without";
        let listen = cluster.peer_listen;
        let private = listen.is_none_or(|listen| listen.ip().is_loopback());
        holds(private, "cluster.peer_listen", rule, tls())?;
        let advertise = cluster.advertise.as_ref();
        let private = advertise.is_none_or(PeerAddress::is_loopback);
        holds(private, "cluster.advertise", rule, tls())?;
        let private = cluster.peers.iter().all(PeerAddress::is_loopback);
        let rule = "must be loopback addresses without";
        holds(private, "cluster.peers", rule, tls())
    }

    fn check_placement(&self) -> Result<(), Disagreement> {
        use Counterpart::Limit;
        let cluster = &self.cluster;
        let replication = "cluster.replication";
        let one = cluster.replication > 0;
        holds(one, replication, "must be at least", Limit(1))?;
        let few = cluster.replication <= MAX_REPLICATION;
        holds(
            few,
            replication,
            "must be at most",
            Limit(MAX_REPLICATION.into()),
        )?;
        let patient = cluster.replace_after_ms >= REPLACE_AFTER_MIN_MS;
        let least = Limit(REPLACE_AFTER_MIN_MS);
        holds(
            patient,
            "cluster.replace_after_ms",
            "must be at least",
            least,
        )
    }
}
