//! The rules of founding, without clock, network or disk.

use super::FoundingSettings;

/// A cluster as it was founded. Never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founded {
    /// Drawn by the founder.
    pub cluster_id: u128,
    /// How many partitions it has.
    pub partitions: u32,
    /// The founding nodes and their addresses, the founder first.
    pub founders: Vec<(u64, String)>,
}

/// How far a node is. It only moves down this list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The volume is new.
    Empty,
    /// It will be founded by this node and by no other.
    Promised {
        /// The founder's id.
        founder: u64,
    },
    /// It belongs to a cluster.
    Member {
        /// Which.
        cluster: Founded,
        /// Whether the replicas of the founding were opened here, and the groups were given their first
        /// members. True for a node that joined later.
        groups_founded: bool,
    },
}

/// What a peer said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub node: u64,
    pub stage: Stage,
}

/// Why a node is not founded yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Waiting {
    /// A peer does not answer.
    #[error("{address} does not answer")]
    Silent {
        /// Which.
        address: String,
    },
    /// All founding peers must come first.
    #[error("{founder} has to found the cluster")]
    ForFounder {
        /// The founder's address.
        founder: String,
    },
    /// A peer has promised itself to a node that is not among those that answer.
    #[error(
        "{address} has promised to be founded by node {founder:x}, which is not the one at {by}; if \
         that node's volume is lost, found the cluster by hand"
    )]
    PromisedToAnother {
        /// The peer.
        address: String,
        /// Whom it promised.
        founder: u64,
        /// The founder's address.
        by: String,
    },
    /// A cluster was founded already, and the one that this volume promised itself to is another.
    #[error("{address} belongs to cluster {cluster:032x}, which this volume is not part of")]
    FoundedWithout {
        /// The peer.
        address: String,
        /// Its cluster.
        cluster: u128,
    },
    /// Two addresses of the list lead to one node.
    #[error("{one} and {other} are the same node, {node:x}")]
    OneNodeTwice {
        /// An address.
        one: String,
        /// The other address.
        other: String,
        /// The node.
        node: u64,
    },
    /// A peer would not promise.
    #[error("{address} does not promise: {reason}")]
    Refused {
        /// The peer.
        address: String,
        /// What it said.
        reason: String,
    },
    /// This node's address is not in its list of peers.
    #[error("{address} is not among the founding peers, and there is no cluster to join")]
    NotListed {
        /// The address.
        address: String,
    },
}

/// Why a promise is not given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The lists differ: their founders could be different nodes.
    #[error("the founding peers are {own:?} here, not {asked:?}")]
    OtherPeers {
        /// This node's list.
        own: Vec<String>,
        /// The list of the node that asked.
        asked: Vec<String>,
    },
    /// A promise is given once.
    #[error("promised to node {0:x} already")]
    Promised(u64),
    /// This node belongs to a cluster.
    #[error("part of cluster {0:032x} already")]
    Member(u128),
}

/// This node belongs to a cluster, and founds no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node belongs to cluster {0:032x}")]
pub struct AlreadyFounded(pub u128);

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This node belongs to a cluster.
    Done(Founded),
    /// Store this, then look again.
    Enter(Stage),
    /// Ask all others for their promises.
    AskPromises,
    /// Look again later.
    Wait(Vec<Waiting>),
}

/// A node on its way into a cluster.
#[derive(Debug)]
pub struct Applicant {
    node: u64,
    address: String,
    /// Sorted, without repetition.
    peers: Vec<String>,
    partitions: u32,
    stage: Stage,
}

impl Applicant {
    pub fn new(settings: FoundingSettings, stage: Stage) -> Self {
        let mut peers = settings.peers;
        if peers.is_empty() {
            peers.push(settings.address.clone());
        }
        peers.sort();
        peers.dedup();
        Self {
            node: settings.node,
            address: settings.address,
            peers,
            partitions: settings.partitions,
            stage,
        }
    }

    pub fn node(&self) -> u64 {
        self.node
    }

    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    pub fn peers(&self) -> &[String] {
        &self.peers
    }

    /// The addresses of the other founding peers.
    pub fn others(&self) -> Vec<String> {
        let others = self.peers.iter().filter(|peer| **peer != self.address);
        others.cloned().collect()
    }

    fn founder(&self) -> &str {
        self.peers.first().expect("a node is its own peer")
    }

    /// What to do, given what each other peer says of itself.
    pub fn next(&self, heard: &[(String, Option<Heard>)]) -> Step {
        if let Stage::Member { cluster, .. } = &self.stage {
            return Step::Done(cluster.clone());
        }
        for (address, peer) in answered(heard) {
            let Stage::Member { cluster, .. } = &peer.stage else {
                continue;
            };
            if cluster.founders.iter().any(|(node, _)| *node == self.node) {
                return Step::Enter(Stage::Member {
                    cluster: cluster.clone(),
                    groups_founded: false,
                });
            }
            // Nobody waits for a new volume: it joins what is there. So does one whose founder founded
            // without it, by hand: that node founds no other cluster, ever.
            let founder = peer.node;
            if self.stage == Stage::Empty || self.stage == (Stage::Promised { founder }) {
                return Step::Enter(Stage::Member {
                    cluster: cluster.clone(),
                    groups_founded: true,
                });
            }
            return Step::Wait(vec![Waiting::FoundedWithout {
                address: address.to_owned(),
                cluster: cluster.cluster_id,
            }]);
        }
        let hindrances = self.hindrances(heard);
        if !hindrances.is_empty() {
            return Step::Wait(hindrances);
        }
        if self.address != self.founder() {
            return Step::Wait(vec![Waiting::ForFounder {
                founder: self.founder().to_owned(),
            }]);
        }
        match self.stage {
            Stage::Empty => Step::Enter(Stage::Promised { founder: self.node }),
            Stage::Promised { .. } | Stage::Member { .. } => Step::AskPromises,
        }
    }

    fn hindrances(&self, heard: &[(String, Option<Heard>)]) -> Vec<Waiting> {
        let address = self.address.clone();
        if !self.peers.contains(&address) {
            return vec![Waiting::NotListed { address }];
        }
        let own = Heard {
            node: self.node,
            stage: self.stage.clone(),
        };
        let silent = heard.iter().filter(|(_, peer)| peer.is_none());
        let mut hindrances: Vec<Waiting> = silent
            .map(|(address, _)| Waiting::Silent {
                address: address.clone(),
            })
            .collect();
        let mut seen: Vec<(&str, &Heard)> = vec![(&self.address, &own)];
        seen.extend(answered(heard));
        let by = self.founder();
        let founder = seen.iter().find(|(address, _)| *address == by);
        let founder = founder.map(|(_, peer)| peer.node);
        for (number, (address, peer)) in seen.iter().enumerate() {
            if let Some((one, _)) = seen[..number].iter().find(|(_, one)| one.node == peer.node) {
                hindrances.push(Waiting::OneNodeTwice {
                    one: (*one).to_owned(),
                    other: (*address).to_owned(),
                    node: peer.node,
                });
            }
            if let Stage::Promised { founder: promised } = &peer.stage
                && founder.is_some_and(|founder| founder != *promised)
            {
                hindrances.push(Waiting::PromisedToAnother {
                    address: (*address).to_owned(),
                    founder: *promised,
                    by: by.to_owned(),
                });
            }
        }
        hindrances
    }

    /// Whether to promise. `Some` must be on disk, and entered, before the promise is given.
    pub fn promise(&self, founder: u64, peers: &[String]) -> Result<Option<Stage>, Refusal> {
        if peers != self.peers {
            return Err(Refusal::OtherPeers {
                own: self.peers.clone(),
                asked: peers.to_vec(),
            });
        }
        match &self.stage {
            Stage::Empty => Ok(Some(Stage::Promised { founder })),
            Stage::Promised { founder: promised } if *promised == founder => Ok(None),
            Stage::Promised { founder: promised } => Err(Refusal::Promised(*promised)),
            Stage::Member { cluster, .. } => Err(Refusal::Member(cluster.cluster_id)),
        }
    }

    /// A cluster of this node alone. It counts when it is on disk.
    pub fn found_alone(&self, cluster_id: u128) -> Result<(Stage, Founded), AlreadyFounded> {
        if let Stage::Member { cluster, .. } = &self.stage {
            return Err(AlreadyFounded(cluster.cluster_id));
        }
        let cluster = Founded {
            cluster_id,
            partitions: self.partitions,
            founders: vec![(self.node, self.address.clone())],
        };
        let stage = Stage::Member {
            cluster: cluster.clone(),
            groups_founded: false,
        };
        Ok((stage, cluster))
    }

    /// The cluster, now that every other peer has promised. It counts when it is on disk.
    pub fn found(&self, cluster_id: u128, promises: Vec<(u64, String)>) -> Result<Stage, Waiting> {
        assert_eq!(
            self.stage,
            Stage::Promised { founder: self.node },
            "a founder promises itself first"
        );
        assert_eq!(promises.len(), self.others().len(), "everybody promised");
        let mut founders = vec![(self.node, self.address.clone())];
        for (node, address) in promises {
            if let Some((_, one)) = founders.iter().find(|(known, _)| *known == node) {
                return Err(Waiting::OneNodeTwice {
                    one: one.clone(),
                    other: address,
                    node,
                });
            }
            founders.push((node, address));
        }
        Ok(Stage::Member {
            cluster: Founded {
                cluster_id,
                partitions: self.partitions,
                founders,
            },
            groups_founded: false,
        })
    }

    /// Whether this stage may follow: a member stays in its cluster.
    pub fn may_enter(&self, stage: &Stage) -> bool {
        match (&self.stage, stage) {
            (Stage::Member { cluster, .. }, Stage::Member { cluster: next, .. }) => next == cluster,
            (Stage::Member { .. }, Stage::Empty | Stage::Promised { .. }) => false,
            (Stage::Empty | Stage::Promised { .. }, _) => true,
        }
    }

    /// Goes on to a stage that is on disk.
    pub fn enter(&mut self, stage: Stage) {
        assert!(self.may_enter(&stage), "a member never leaves its cluster");
        self.stage = stage;
    }

    pub fn founds_groups(&self) -> bool {
        match &self.stage {
            Stage::Member {
                cluster,
                groups_founded,
            } => {
                let is_founder = cluster.founders.iter().any(|(node, _)| *node == self.node);
                !groups_founded && is_founder
            }
            Stage::Empty | Stage::Promised { .. } => false,
        }
    }

    pub fn groups_founded(&self) -> Option<Stage> {
        match &self.stage {
            Stage::Member {
                cluster,
                groups_founded: false,
            } => Some(Stage::Member {
                cluster: cluster.clone(),
                groups_founded: true,
            }),
            Stage::Member { .. } | Stage::Empty | Stage::Promised { .. } => None,
        }
    }
}

fn answered(heard: &[(String, Option<Heard>)]) -> impl Iterator<Item = (&str, &Heard)> {
    heard
        .iter()
        .filter_map(|(address, peer)| Some((address.as_str(), peer.as_ref()?)))
}

#[cfg(test)]
mod tests;
