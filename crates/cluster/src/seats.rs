//! Where the groups of the cluster are led, as this node knows it.
//!
//! Of a group with a replica here, the replica tells. Of the others, their leaders tell, to every node
//! that follows them (see `watch`). Either way a router looks here, and nowhere else.

use std::sync::{Arc, RwLock};

use hikyaku_raft::{Group, GroupClock, Leadership, Machine};
use tokio::sync::watch;

use crate::clock::PartitionClock;
use crate::ports::Clock;
use crate::watch::News;

/// Who leads a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// The term in which it does.
    pub term: u64,
    /// The leader's node, when one is known.
    pub node: Option<u64>,
}

/// What is known of one group, and the way to its replica here, if there is one.
pub struct Seat<H> {
    group: u64,
    lead: watch::Sender<Lead>,
    clock: Arc<PartitionClock>,
    replica: RwLock<Option<H>>,
}

impl<H: Clone> Seat<H> {
    /// Of a group of which nothing is known.
    pub fn new(group: u64, clock: Arc<dyn Clock>) -> Self {
        Self {
            group,
            lead: watch::Sender::default(),
            clock: Arc::new(PartitionClock::new(clock)),
            replica: RwLock::default(),
        }
    }

    /// The group's id.
    pub fn group(&self) -> u64 {
        self.group
    }

    /// Who leads.
    pub fn lead(&self) -> Lead {
        *self.lead.borrow()
    }

    /// Follows who leads.
    pub fn watch(&self) -> watch::Receiver<Lead> {
        self.lead.subscribe()
    }

    /// T as this node believes it; `None` when it has heard none since its start.
    pub fn now_ms(&self) -> Option<u64> {
        self.clock.now_ms()
    }

    /// The group's clock on this node.
    pub fn clock(&self) -> &Arc<PartitionClock> {
        &self.clock
    }

    /// The replica here.
    pub fn replica(&self) -> Option<H> {
        self.read().clone()
    }

    /// Whether there is a replica here.
    pub fn is_hosted(&self) -> bool {
        self.read().is_some()
    }

    /// Puts a replica here, or takes it away.
    pub fn host(&self, replica: Option<H>) {
        *self.replica.write().expect("no panic under this lock") = replica;
    }

    /// Learns from the replica here who leads, until the replica is gone, and tells those who follow
    /// this node.
    pub async fn follow<M: Machine>(self: Arc<Self>, group: Group<M>, news: News) {
        let mut leadership = group.watch_leadership();
        loop {
            let Leadership {
                term, leader_node, ..
            } = *leadership.borrow_and_update();
            let lead = Lead {
                term,
                node: leader_node,
            };
            self.learn(|now| std::mem::replace(now, lead) != lead);
            news.tell();
            if leadership.changed().await.is_err() {
                return;
            }
        }
    }

    /// A node says that it leads the group in `term`, and what T is. A replica here knows better, unless
    /// it has not heard of the term: it may be on its way in or out.
    pub fn announced(&self, node: u64, term: u64, now_ms: u64) {
        let known = self.lead();
        let hosted = self.is_hosted();
        if known.term > term || hosted && known.term == term {
            return;
        }
        if now_ms > 0 && !hosted {
            self.clock.heard_leader_time(now_ms);
        }
        let lead = Lead {
            term,
            node: Some(node),
        };
        self.learn(|now| now.term <= term && std::mem::replace(now, lead) != lead);
    }

    /// A node does not say any more that it leads the group.
    pub fn no_longer_announced(&self, node: u64) {
        if !self.is_hosted() {
            self.learn(|now| now.node.take_if(|leader| *leader == node).is_some());
        }
    }

    fn learn(&self, change: impl FnOnce(&mut Lead) -> bool) {
        self.lead.send_if_modified(change);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Option<H>> {
        self.replica.read().expect("no panic under this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::SystemClock;

    fn seat() -> Seat<()> {
        Seat::new(1, Arc::new(SystemClock::new()))
    }

    #[tokio::test]
    async fn an_older_leader_is_not_believed() {
        let seat = seat();
        seat.announced(7, 3, 50_000);
        seat.announced(8, 2, 90_000);
        assert_eq!(seat.lead().node, Some(7));
        assert!(seat.now_ms().is_some_and(|now| now < 90_000));
        seat.announced(8, 4, 0);
        assert_eq!(
            seat.lead(),
            Lead {
                term: 4,
                node: Some(8)
            }
        );
    }

    #[tokio::test]
    async fn a_leader_that_falls_silent_leaves_the_seat_empty() {
        let seat = seat();
        seat.announced(7, 3, 50_000);
        seat.no_longer_announced(8);
        assert_eq!(seat.lead().node, Some(7));
        seat.no_longer_announced(7);
        assert_eq!(
            seat.lead(),
            Lead {
                term: 3,
                node: None
            }
        );
    }

    #[tokio::test]
    async fn a_replica_here_knows_better() {
        let seat = seat();
        seat.announced(6, 3, 50_000);
        seat.host(Some(()));
        seat.announced(7, 3, 50_000);
        assert_eq!(seat.lead().node, Some(6));
        seat.announced(7, 4, 50_000);
        assert_eq!(seat.lead().node, Some(7), "it has not heard of this term");
    }
}
