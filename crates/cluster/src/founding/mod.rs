//! Founding: how nodes with new volumes become a cluster, once.
//!
//! The list of founding peers is given, the same to all of them. A cluster is founded when *all* of
//! them are empty and each has promised, on disk, to be founded by the same node: the one whose
//! address comes first. A promise is given once. So two clusters never form out of overlapping lists,
//! and a volume that is lost later never lets one form again: whoever still holds a promise or a
//! cluster says so. Anything less waits, and says for whom. A node with a new volume that meets a
//! cluster joins it.
//!
//! The rules are in `rules`, without clock or network; here they meet both. A node that promised and
//! then missed the founding hears of it when it looks at the founder again.

mod rules;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hikyaku_proto::founding as wire;
use hikyaku_raft::{FoundingCalls, FoundingPeers};

pub use rules::{AlreadyFounded, Founded, Stage};
use rules::{Applicant, Heard, Step, Waiting};

use crate::ports::Entropy;

/// How often a node looks at the others while it waits.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// How long one look at a peer, or one promise, may take: a name that does not resolve yet, a disk
/// that syncs slowly.
const CALL_LIMIT: Duration = Duration::from_secs(2);

/// A standing wait is logged at least so often.
const REMINDER: Duration = Duration::from_secs(30);

/// Asks these nodes for their cluster until one belongs to one, and says for whom it waits, to `tell`
/// too.
pub async fn find_cluster(
    peers: &FoundingPeers,
    addresses: &[String],
    tell: impl Fn(String),
) -> Founded {
    let mut silent = REMINDER;
    tell(format!(
        "waiting for one of {} to belong to a cluster",
        addresses.join(", ")
    ));
    loop {
        let looks = addresses.iter().map(|address| look_at(peers, address));
        for heard in futures_util::future::join_all(looks)
            .await
            .into_iter()
            .flatten()
        {
            if let Stage::Member { cluster, .. } = heard.stage {
                return cluster;
            }
        }
        if silent >= REMINDER {
            tracing::info!(?addresses, "waiting for a node that belongs to a cluster");
            silent = Duration::ZERO;
        }
        silent += LOOK_INTERVAL;
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

async fn look_at(peers: &FoundingPeers, address: &str) -> Option<Heard> {
    let standing = peers.look(address, CALL_LIMIT).await;
    heard_from_wire(standing.ok()?)
}

/// Where the node keeps how far it is.
pub trait FoundingVolume: Send + Sync + 'static {
    /// What was stored last; [`Stage::Empty`] on a new volume.
    fn load(&self) -> io::Result<Stage>;

    /// Stores durably, whole or not at all.
    fn store(&self, stage: &Stage) -> io::Result<()>;
}

/// What a node is told about its founding.
#[derive(Clone, Debug)]
pub struct FoundingSettings {
    /// This node's id, minted into its volume.
    pub node: u64,
    /// This node's address, as the list of peers has it.
    pub address: String,
    /// The founding peers, this node included; empty for a node that is a cluster alone.
    pub peers: Vec<String>,
    /// How many partitions the cluster gets if this node founds it.
    pub partitions: u32,
}

/// This node's way into a cluster.
pub struct Founding {
    applicant: Mutex<Applicant>,
    volume: Arc<dyn FoundingVolume>,
    entropy: Arc<dyn Entropy>,
}

impl Founding {
    /// Reads how far this node is.
    pub fn open(
        settings: FoundingSettings,
        volume: Arc<dyn FoundingVolume>,
        entropy: Arc<dyn Entropy>,
    ) -> io::Result<Self> {
        let stage = volume.load()?;
        Ok(Self {
            applicant: Mutex::new(Applicant::new(settings, stage)),
            volume,
            entropy,
        })
    }

    /// Returns when this node belongs to a cluster. Until then the log says for whom it waits, and
    /// `tell` hears of it when that changes.
    ///
    /// # Errors
    /// When the volume cannot be written.
    pub async fn settle(
        &self,
        peers: &FoundingPeers,
        tell: impl Fn(String),
    ) -> io::Result<Founded> {
        let mut said: Vec<Waiting> = Vec::new();
        let mut silent = Duration::ZERO;
        loop {
            let heard = self.look(peers).await;
            let step = self.with(|applicant| applicant.next(&heard));
            let reasons = match step {
                Step::Done(cluster) => return Ok(cluster),
                Step::Enter(stage) => {
                    self.store(stage)?;
                    continue;
                }
                Step::AskPromises => match self.ask_promises(peers).await? {
                    Ok(cluster) => return Ok(cluster),
                    Err(reasons) => reasons,
                },
                Step::Wait(reasons) => reasons,
            };
            silent += LOOK_INTERVAL;
            if reasons != said {
                let texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                tell(format!("waiting to be founded: {}", texts.join("; ")));
            }
            if reasons != said || silent >= REMINDER {
                for reason in &reasons {
                    tracing::info!(%reason, "waiting to be founded");
                }
                said = reasons;
                silent = Duration::ZERO;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Founds a cluster of this node alone, because an operator says that the others are not to be waited
    /// for. New volumes join it; whoever promised itself to another node stays out until its volume is
    /// emptied.
    ///
    /// # Errors
    /// When the volume cannot be written.
    pub fn found_alone(&self) -> io::Result<Result<Founded, AlreadyFounded>> {
        let mut applicant = self.applicant.lock().expect("no panic under this lock");
        let (stage, cluster) = match applicant.found_alone(self.entropy.draw_u128()) {
            Ok(founded) => founded,
            Err(already) => return Ok(Err(already)),
        };
        self.volume.store(&stage)?;
        applicant.enter(stage);
        Ok(Ok(cluster))
    }

    /// Whether the replicas of the founding are yet to be opened here, and their groups to be given
    /// their first members. Only once: a replica that lost its records must never begin anew.
    pub fn founds_groups(&self) -> bool {
        self.with(|applicant| applicant.founds_groups())
    }

    /// Notes that the groups have their first members.
    pub fn groups_founded(&self) -> io::Result<()> {
        match self.with(|applicant| applicant.groups_founded()) {
            Some(stage) => self.store(stage).map(drop),
            None => Ok(()),
        }
    }

    async fn look(&self, peers: &FoundingPeers) -> Vec<(String, Option<Heard>)> {
        let looks = self.with(|applicant| applicant.others()).into_iter();
        let looks = looks.map(|address| async {
            let heard = look_at(peers, &address).await;
            (address, heard)
        });
        futures_util::future::join_all(looks).await
    }

    /// Asks every peer for its promise; with all of them the cluster is founded.
    async fn ask_promises(
        &self,
        peers: &FoundingPeers,
    ) -> io::Result<Result<Founded, Vec<Waiting>>> {
        let (request, others) = self.with(|applicant| {
            let request = wire::PromiseRequest {
                founder: applicant.node(),
                peers: applicant.peers().to_vec(),
            };
            (request, applicant.others())
        });
        let asked = others.into_iter().map(|address| {
            let request = request.clone();
            async {
                let answer = peers.promise(&address, request, CALL_LIMIT).await;
                promised(address, answer.ok())
            }
        });
        let answers = futures_util::future::join_all(asked).await;
        let promises: Result<Vec<(u64, String)>, Waiting> = answers.into_iter().collect();
        let cluster_id = self.entropy.draw_u128();
        let founded = promises.and_then(|promises| {
            self.with(|applicant| match applicant.stage() {
                // By hand, meanwhile.
                stage @ Stage::Member { .. } => Ok(stage.clone()),
                Stage::Empty | Stage::Promised { .. } => applicant.found(cluster_id, promises),
            })
        });
        match founded {
            Ok(stage) => {
                let Stage::Member { cluster, .. } = self.store(stage)? else {
                    unreachable!("founding makes a member");
                };
                let id = format_args!("{:032x}", cluster.cluster_id);
                tracing::info!(
                    cluster = id,
                    nodes = cluster.founders.len(),
                    "cluster founded"
                );
                Ok(Ok(cluster))
            }
            Err(reason) => Ok(Err(vec![reason])),
        }
    }

    /// A stage counts only once it is on disk. What was founded by hand meanwhile stays; gives the stage
    /// that holds.
    fn store(&self, stage: Stage) -> io::Result<Stage> {
        let mut applicant = self.applicant.lock().expect("no panic under this lock");
        if applicant.may_enter(&stage) {
            self.volume.store(&stage)?;
            applicant.enter(stage);
        }
        Ok(applicant.stage().clone())
    }

    fn with<R>(&self, look: impl FnOnce(&Applicant) -> R) -> R {
        look(&self.applicant.lock().expect("no panic under this lock"))
    }

    fn promise(&self, request: &wire::PromiseRequest) -> Result<u64, String> {
        let mut applicant = self.applicant.lock().expect("no panic under this lock");
        let granted = applicant.promise(request.founder, &request.peers);
        if let Some(stage) = granted.map_err(|refusal| refusal.to_string())? {
            self.volume
                .store(&stage)
                .map_err(|error| error.to_string())?;
            applicant.enter(stage);
        }
        Ok(applicant.node())
    }
}

/// What peers that look for a cluster are told. A promise syncs a small file before it is answered.
impl FoundingCalls for Founding {
    fn look(&self) -> BoxFuture<'_, wire::Standing> {
        let standing = self.with(|applicant| wire::Standing {
            node: applicant.node(),
            stage: Some(stage_to_wire(applicant.stage())),
        });
        Box::pin(std::future::ready(standing))
    }

    fn promise(&self, request: wire::PromiseRequest) -> BoxFuture<'_, wire::PromiseResponse> {
        use wire::promise_response::Result as Answer;
        let result = match Founding::promise(self, &request) {
            Ok(node) => Answer::Node(node),
            Err(reason) => {
                let founder = format_args!("{:x}", request.founder);
                tracing::warn!(founder, reason, "promise refused");
                Answer::Refused(wire::Refused { reason })
            }
        };
        let result = Some(result);
        Box::pin(std::future::ready(wire::PromiseResponse { result }))
    }
}

fn promised(
    address: String,
    answer: Option<wire::PromiseResponse>,
) -> Result<(u64, String), Waiting> {
    use wire::promise_response::Result as Answer;
    match answer.and_then(|answer| answer.result) {
        Some(Answer::Node(node)) => Ok((node, address)),
        Some(Answer::Refused(wire::Refused { reason })) => {
            Err(Waiting::Refused { address, reason })
        }
        None => Err(Waiting::Silent { address }),
    }
}

fn stage_to_wire(stage: &Stage) -> wire::standing::Stage {
    use wire::standing::Stage as Wire;
    match stage {
        Stage::Empty => Wire::Empty(wire::Empty {}),
        Stage::Promised { founder } => Wire::Promised(wire::Promised { founder: *founder }),
        Stage::Member { cluster, .. } => Wire::Member(wire::Cluster {
            id: cluster.cluster_id.to_be_bytes().to_vec().into(),
            partitions: cluster.partitions,
            founders: cluster
                .founders
                .iter()
                .map(|(node, address)| wire::Founder {
                    node: *node,
                    address: address.clone(),
                })
                .collect(),
        }),
    }
}

/// `None` when it says nothing that this version understands.
fn heard_from_wire(standing: wire::Standing) -> Option<Heard> {
    use wire::standing::Stage as Wire;
    let stage = match standing.stage? {
        Wire::Empty(_) => Stage::Empty,
        Wire::Promised(promised) => Stage::Promised {
            founder: promised.founder,
        },
        Wire::Member(cluster) => Stage::Member {
            cluster: Founded {
                cluster_id: u128::from_be_bytes(cluster.id.as_ref().try_into().ok()?),
                partitions: cluster.partitions,
                founders: cluster
                    .founders
                    .into_iter()
                    .map(|founder| (founder.node, founder.address))
                    .collect(),
            },
            groups_founded: true,
        },
    };
    Some(Heard {
        node: standing.node,
        stage,
    })
}
