//! The whole cluster as one node sees it, for an operator.
//!
//! What the metadata say is read behind a barrier where a leader answers in time, and as it was heard
//! last where none does: an operator whose cluster has no leader needs the answer most. Who lives and
//! who leads is asked of the nodes themselves, at once, since a node that follows the metadata alone
//! does not hear of either.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use hikyaku_metadata::{ClusterRecord, GroupKey, NodeRecord, NodeState, Replicas};
use hikyaku_proto::node as wire;

use crate::catalogue::Catalogue;
use crate::control::ControlPlane;
use crate::machines::group_with_number;
use crate::node::Node;

/// How long the metadata leader and each node are waited for. Longer than an election, shorter than an
/// operator's patience.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// Nodes that are asked at once.
const ASKED_AT_ONCE: usize = 64;

/// The cluster at one moment.
pub struct Survey {
    /// Whether everything that was committed before is in here.
    pub current: bool,
    /// The cluster and its nodes.
    pub cluster: ClusterRecord,
    /// Every group with its replicas, the metadata's first.
    pub groups: BTreeMap<GroupKey, Replicas>,
    /// What the nodes that answered lead, with the terms in which they do.
    pub led: BTreeMap<u64, BTreeMap<GroupKey, u64>>,
}

impl Survey {
    /// Whether a node answered.
    pub fn answers(&self, node: u64) -> bool {
        self.led.contains_key(&node)
    }

    /// Who leads a group, and in which term, as the one says that says it of the highest term.
    pub fn leader(&self, group: GroupKey) -> Option<(u64, u64)> {
        let led = self.led.iter();
        let claims = led.filter_map(|(node, led)| Some((*led.get(&group)?, *node)));
        claims.max().map(|(term, node)| (node, term))
    }

    /// How many groups a node leads.
    pub fn leads(&self, node: u64) -> usize {
        let groups = self.groups.keys();
        groups
            .filter(|group| self.leader(**group).is_some_and(|(it, _)| it == node))
            .count()
    }

    /// How many replicas are on a node, those included that join and leave.
    pub fn replicas_on(&self, node: u64) -> usize {
        let groups = self.groups.values();
        groups
            .filter(|replicas| replicas.on(node).is_some())
            .count()
    }
}

impl Node {
    /// Looks at the whole cluster; `None` when this node knows of none yet. Takes a few seconds at the
    /// most, whoever does not answer.
    pub async fn survey(&self) -> Option<Survey> {
        let current = is_current(self.control()).await;
        let (cluster, groups) = known(self.catalogue())?;
        let asked = cluster.nodes.iter().filter(|record| is_asked(record));
        let asked: Vec<u64> = asked.map(|record| record.node).collect();
        let led = futures_util::stream::iter(asked)
            .map(|node| async move { Some((node, self.ask_led(node).await?)) })
            .buffer_unordered(ASKED_AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await;
        Some(Survey {
            current,
            cluster,
            groups,
            led,
        })
    }

    async fn ask_led(&self, node: u64) -> Option<BTreeMap<GroupKey, u64>> {
        // Of who never asked, everything is news: the answer is not held back.
        let request = wire::WatchRequest::default();
        let answer = if node == self.id() {
            self.watch().tell(request).await
        } else {
            let peers = &self.watch().peers;
            peers.watch(node, request, ANSWER_LIMIT).await.ok()?
        };
        let led = answer.led.iter();
        Some(
            led.map(|led| (group_with_number(led.group), led.term))
                .collect(),
        )
    }
}

async fn is_current(control: &ControlPlane) -> bool {
    let barrier = tokio::time::timeout(ANSWER_LIMIT, control.barrier()).await;
    matches!(barrier, Ok(Ok(())))
}

fn known(catalogue: &Catalogue) -> Option<(ClusterRecord, BTreeMap<GroupKey, Replicas>)> {
    let cluster = catalogue.cluster()?;
    Some((cluster, catalogue.groups()))
}

/// A decommissioned node is not expected to live.
fn is_asked(record: &NodeRecord) -> bool {
    record.state != NodeState::Decommissioned
}
