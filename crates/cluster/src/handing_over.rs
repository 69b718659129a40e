//! Leadership on its way to others, before a node leaves.
//!
//! Who takes over is a voter that has caught up, of several the one whose node was reached anew last.
//! When nodes are restarted one after another, that one has had its turn, so that leadership does not
//! flee from node to node. Where none is fit yet, or the one asked does not manage, it is looked at
//! again until the time is over. Whatever is left then elects a leader when this node has fallen silent,
//! a second or two later.

use std::time::Duration;

use futures_util::future::OptionFuture;
use hikyaku_metadata::GroupKey;
use hikyaku_raft::{Group, Machine, Peers};
use tokio::time::{Instant, timeout_at};

use crate::node::Node;

/// How long an heir may take before it is asked again, or another is.
const HEIR_LIMIT: Duration = Duration::from_millis(500);

/// How long a group without a fit heir is left alone.
const PAUSE: Duration = Duration::from_millis(50);

/// What became of the groups that a node led.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Groups that others lead now, or are about to.
    pub handed_over: usize,
    /// Groups that nobody else votes in: they wait for this node.
    pub alone: usize,
    /// Groups that nobody took over in time.
    pub left: Vec<GroupKey>,
}

/// What became of one group.
enum Fate {
    NotLed,
    HandedOver,
    Alone,
    Left,
}

impl Node {
    /// Asks others to lead the groups that this node leads, until nothing is left or `limit` is over.
    /// Afterwards it may be asked to lead again; who leaves does so at once.
    pub async fn hand_over(&self, limit: Duration) -> HandedOver {
        let deadline = Instant::now() + limit;
        let peers = &self.watch().peers;
        let metadata = self.control().seat().replica();
        let metadata = metadata.map(|group| async move {
            let fate = hand_over(&group, peers, deadline).await;
            (GroupKey::Metadata, fate)
        });
        let partitions = self.partitions();
        let partitions = partitions.iter().map(|partition| async move {
            let fate = hand_over(partition.group(), peers, deadline).await;
            (GroupKey::Partition(partition.partition()), fate)
        });
        let (metadata, partitions) = tokio::join!(
            OptionFuture::from(metadata),
            futures_util::future::join_all(partitions)
        );
        let mut handed = HandedOver::default();
        for (group, fate) in metadata.into_iter().chain(partitions) {
            match fate {
                Fate::NotLed => {}
                Fate::HandedOver => handed.handed_over += 1,
                Fate::Alone => handed.alone += 1,
                Fate::Left => handed.left.push(group),
            }
        }
        handed.left.sort();
        handed
    }
}

async fn hand_over<M: Machine>(group: &Group<M>, peers: &Peers, deadline: Instant) -> Fate {
    let mut leadership = group.watch_leadership();
    if !leadership.borrow().serving {
        return Fate::NotLed;
    }
    if group.voters().len() <= 1 {
        return Fate::Alone;
    }
    loop {
        let attempt = (Instant::now() + HEIR_LIMIT).min(deadline);
        match group.best_heir(|node| peers.reached(node)) {
            // What is refused here is no longer led, which the next look shows.
            Some(heir) => drop(group.transfer_leader(heir).await),
            None => tokio::time::sleep_until(attempt.min(Instant::now() + PAUSE)).await,
        }
        let gone = leadership.wait_for(|now| !now.serving);
        match timeout_at(attempt, gone).await {
            // An error means that the group is closed, and its leadership gone with it.
            Ok(_) => return Fate::HandedOver,
            Err(_) if Instant::now() >= deadline => return Fate::Left,
            Err(_) => {}
        }
    }
}
