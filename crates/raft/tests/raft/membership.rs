//! Members come and go while entries do; what may go wrong in the middle, goes wrong here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use hikyaku_raft::{Group, Machine, MembersError, ProposeError};
use hikyaku_storage::SimDisk;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{Member, Setup, Sum, add, leader_of, until};
use crate::wires::Weather;

/// Five nodes, of which the first three are voters of one group.
struct Five {
    setup: Setup,
    disks: Vec<Arc<SimDisk>>,
    members: Vec<Member>,
}

impl Five {
    async fn new() -> Self {
        let setup = Setup {
            nodes: 5,
            ..Setup::default()
        };
        let disks: Vec<_> = (1..=5).map(|seed| Arc::new(SimDisk::new(seed))).collect();
        let mut members = setup.found(&disks[..3]).await;
        for id in 4..=5 {
            members.push(setup.start(id, &disks[id as usize - 1]).await);
        }
        leader_of(&members, 0).await;
        Self {
            setup,
            disks,
            members,
        }
    }

    /// The node that leads, and its group.
    async fn leader(&self) -> (u64, Group<Sum>) {
        let place = leader_of(&self.members, 0).await;
        (place as u64 + 1, self.members[place].groups[0].clone())
    }

    fn group(&self, node: u64) -> &Group<Sum> {
        &self.members[node as usize - 1].groups[0]
    }

    fn term(&self, node: u64) -> u64 {
        self.group(node).leadership().term
    }

    /// All links of a node.
    fn weather(&self, node: u64, weather: Weather) {
        for other in (1..=5).filter(|other| *other != node) {
            self.setup.wires.between(node, other, weather);
        }
    }

    /// Waits until these nodes have applied the same, and gives the sum.
    async fn same(&self, nodes: &[u64]) -> u64 {
        let state = |node: &u64| self.group(*node).with_machine(Machine::encode);
        until("all have the same state", || {
            nodes.iter().all(|node| state(node) == state(&nodes[0]))
        })
        .await;
        self.group(nodes[0]).with_machine(|sum| sum.total)
    }
}

/// Replicas have the numbers of their nodes.
fn on_nodes(nodes: &[u64]) -> BTreeMap<u64, u64> {
    nodes.iter().map(|node| (*node, *node)).collect()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn voters(group: &Group<Sum>) -> Vec<u64> {
    group.members().voters.keys().copied().collect()
}

/// Somebody who adds ones all the time, wherever the leader is.
struct Load {
    stop: Arc<AtomicBool>,
    added: Arc<AtomicU64>,
    unknown: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Load {
    fn start(five: &Five) -> Self {
        let groups: Vec<Group<Sum>> = five.members.iter().map(|m| m.groups[0].clone()).collect();
        let (stop, added) = (
            Arc::new(AtomicBool::new(false)),
            Arc::<AtomicU64>::default(),
        );
        let unknown = Arc::<AtomicU64>::default();
        let (stopped, counted, lost) = (stop.clone(), added.clone(), unknown.clone());
        let task = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                if let Some(leader) = groups.iter().find(|group| group.leadership().serving) {
                    for outcome in join_all((0..5).map(|_| add(leader, 1))).await {
                        match outcome {
                            Ok(_) => counted.fetch_add(1, Ordering::Relaxed),
                            Err(ProposeError::Unknown { .. }) => {
                                lost.fetch_add(1, Ordering::Relaxed)
                            }
                            Err(ProposeError::NotLeader { .. }) => 0,
                        };
                    }
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        Self {
            stop,
            added,
            unknown,
            task,
        }
    }

    /// What was added for certain, and what may have been.
    async fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = tokio::time::timeout(Duration::from_secs(30), self.task).await;
        ended.expect("every entry is answered").expect("no panic");
        let added = self.added.load(Ordering::Relaxed);
        (added, self.unknown.load(Ordering::Relaxed))
    }
}

#[tokio::test(start_paused = true)]
async fn voters_are_added_and_removed_under_load_and_nothing_is_lost() {
    let five = Five::new().await;
    let load = Load::start(&five);
    let (node, group) = five.leader().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let all = [1, 2, 3, 4, 5];
    group
        .set_voters(on_nodes(&all), soon())
        .await
        .expect("five");
    assert_eq!(voters(&group), all);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let three = [node.min(4), node.max(4), 5];
    group
        .set_voters(on_nodes(&three), soon())
        .await
        .expect("three");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (added, unknown) = load.end().await;
    assert!(added > 500, "{added} entries are no load");
    assert_eq!(unknown, 0, "the leader stayed");
    assert_eq!(five.same(&three).await, added);
    let members = group.members();
    assert_eq!(members.voters.keys().copied().collect::<Vec<_>>(), three);
    assert!(members.learners.is_empty() && !members.changing);
    assert!(
        members.voters.values().all(|seen| seen.is_caught_up()),
        "{members:?}"
    );
    assert!(
        members
            .voters
            .iter()
            .all(|(replica, seen)| seen.node == *replica)
    );
    // Asked again, there is nothing to do.
    let index = group.watch_applied().borrow().index;
    group
        .set_voters(on_nodes(&three), soon())
        .await
        .expect("as it is");
    assert_eq!(group.watch_applied().borrow().index, index);
}

#[tokio::test(start_paused = true)]
async fn a_removed_leader_answers_what_it_owes_and_hands_over() {
    let five = Five::new().await;
    let load = Load::start(&five);
    let (old, group) = five.leader().await;
    let term = five.term(old);
    let rest: Vec<u64> = (1..=4).filter(|node| *node != old).collect();
    group
        .set_voters(on_nodes(&rest), soon())
        .await
        .expect("without the leader");
    until("another leads", || {
        rest.iter()
            .any(|node| five.group(*node).leadership().serving)
    })
    .await;
    // It is not told: it gives up by itself.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!group.leadership().serving);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (added, unknown) = load.end().await;
    let total = five.same(&rest).await;
    assert!(
        (added..=added + unknown).contains(&total),
        "{total}: {added} and {unknown}"
    );
    let (new, leader) = five.leader().await;
    assert!(rest.contains(&new));
    assert_eq!(five.term(new), term + 1, "one election, and no more");
    let missing = group.set_voters(on_nodes(&rest), soon()).await;
    assert!(
        matches!(missing, Err(MembersError::NotLeader { .. })),
        "{missing:?}"
    );
    leader
        .set_voters(on_nodes(&rest), soon())
        .await
        .expect("as it is");
    let missed = add(&group, 1).await;
    assert!(
        matches!(missed, Err(ProposeError::NotLeader { .. })),
        "{missed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_finishes_a_change_that_was_left_between_two_sets() {
    let mut five = Five::new().await;
    let (old, group) = five.leader().await;
    for _ in 0..20 {
        add(&group, 1).await.expect("applied");
    }
    let others: Vec<u64> = (1..=3).filter(|node| *node != old).collect();
    let goal = on_nodes(&[others[0], 4, 5]);
    five.weather(old, Weather::Slow(Duration::from_millis(50)));
    let asked = {
        let (group, goal) = (group.clone(), goal.clone());
        tokio::spawn(async move { group.set_voters(goal, soon()).await })
    };
    until("the voters change", || voters(&group).len() == 5).await;
    // On its way to all, and the answers on their way back.
    tokio::time::sleep(Duration::from_millis(70)).await;
    five.weather(old, Weather::Swallows);
    asked.abort();
    drop(group);
    let next = others[0];
    until("another leads", || {
        (1..=5).any(|node| node != old && five.group(node).leadership().serving)
    })
    .await;
    let new = (1..=5).find(|node| *node != old && five.group(*node).leadership().serving);
    let new = new.expect("one serves");
    let leader = five.group(new).clone();
    let left = leader.members();
    assert!(left.changing && left.voters.len() == 5, "{left:?}");
    leader
        .set_voters(goal.clone(), soon())
        .await
        .expect("finished");
    let finished = five.group(next).members();
    assert_eq!(
        finished.voters.keys().copied().collect::<Vec<_>>(),
        [next, 4, 5]
    );
    // The one that had begun it comes back, and has no part in the group any longer.
    let gone = five.members.remove(old as usize - 1);
    five.setup.wires.unplug(old);
    gone.node.stop().await;
    drop(gone);
    five.weather(old, Weather::Fair);
    let back = five.setup.start(old, &five.disks[old as usize - 1]).await;
    five.members.insert(old as usize - 1, back);
    let (leads, leader) = five.leader().await;
    let term = five.term(leads);
    add(&leader, 1).await.expect("applied");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(five.same(&[next, 4, 5]).await, 21);
    assert_eq!(five.term(leads), term);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_abandoned_by_asking_for_the_voters_before() {
    let five = Five::new().await;
    let (node, group) = five.leader().await;
    for _ in 0..100 {
        add(&group, 1).await.expect("applied");
    }
    five.weather(4, Weather::Swallows);
    let deadline = Instant::now() + Duration::from_secs(5);
    let lags = group.set_voters(on_nodes(&[1, 2, 3, 4]), deadline).await;
    assert!(
        matches!(
            lags,
            Err(MembersError::Lagging {
                replica: 4,
                behind: 101..
            })
        ),
        "{lags:?}"
    );
    assert!(Instant::now() >= deadline);
    let members = group.members();
    assert_eq!(voters(&group), [1, 2, 3]);
    assert!(!members.learners[&4].is_caught_up());
    group
        .set_voters(on_nodes(&[1, 2, 3]), soon())
        .await
        .expect("as before");
    assert!(group.members().learners.is_empty());
    // It may come yet.
    five.weather(4, Weather::Fair);
    group
        .set_voters(on_nodes(&[1, 2, 3, 4]), soon())
        .await
        .expect("four");
    assert_eq!(five.same(&[node, 4]).await, 100);
}

/// Its few entries are not what makes a newcomer fit to vote.
#[tokio::test(start_paused = true)]
async fn a_newcomer_that_is_not_there_does_not_become_a_voter_of_a_small_group() {
    let five = Five::new().await;
    let (_, group) = five.leader().await;
    five.weather(4, Weather::Swallows);
    let deadline = Instant::now() + Duration::from_secs(5);
    let lags = group.set_voters(on_nodes(&[1, 2, 4]), deadline).await;
    assert!(
        matches!(lags, Err(MembersError::Lagging { replica: 4, .. })),
        "{lags:?}"
    );
    assert_eq!(voters(&group), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn what_a_group_cannot_have_is_refused_and_changes_nothing() {
    let five = Five::new().await;
    let (_, group) = five.leader().await;
    let index = group.watch_applied().borrow().index;
    for goal in [
        BTreeMap::new(),
        on_nodes(&[4, 5]),
        BTreeMap::from([(1, 9), (2, 2)]),
    ] {
        let refused = group.set_voters(goal, soon()).await;
        assert!(
            matches!(refused, Err(MembersError::Refused(_))),
            "{refused:?}"
        );
    }
    assert_eq!(group.watch_applied().borrow().index, index);
    let follower = (1..=3).find(|node| !five.group(*node).leadership().serving);
    let follower = five.group(follower.expect("two follow"));
    let refused = follower.set_voters(on_nodes(&[1, 2]), soon()).await;
    assert!(matches!(
        refused,
        Err(MembersError::NotLeader {
            leader_node: Some(_)
        })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_nobody_added_waits() {
    let five = Five::new().await;
    let (leads, _) = five.leader().await;
    let term = five.term(leads);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let newcomer = five.group(5);
    assert_eq!(newcomer.leadership(), hikyaku_raft::Leadership::default());
    assert_eq!(newcomer.members(), hikyaku_raft::Members::default());
    assert_eq!(five.term(leads), term);
}

#[tokio::test(start_paused = true)]
async fn a_removed_follower_that_was_not_told_disturbs_nobody() {
    let five = Five::new().await;
    let (leads, group) = five.leader().await;
    let removed = (1..=3).find(|node| *node != leads).expect("two follow");
    five.weather(removed, Weather::Swallows);
    let rest: Vec<u64> = (1..=4).filter(|node| *node != removed).collect();
    group
        .set_voters(on_nodes(&rest), soon())
        .await
        .expect("without it");
    let term = five.term(leads);
    five.weather(removed, Weather::Fair);
    for _ in 0..30 {
        add(&group, 1).await.expect("applied");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(five.term(leads), term);
    assert!(group.leadership().serving);
    assert_eq!(five.term(removed), term, "it asks before it campaigns");
    assert_eq!(five.group(removed).with_machine(|sum| sum.total), 0);
}

#[tokio::test(start_paused = true)]
async fn leadership_goes_to_the_best_heir() {
    let five = Five::new().await;
    let (leads, group) = five.leader().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let followers: Vec<u64> = (1..=3).filter(|node| *node != leads).collect();
    assert_eq!(
        five.group(followers[0]).best_heir(|_| ()),
        None,
        "it does not lead"
    );
    assert!(
        group
            .best_heir(|_| ())
            .is_some_and(|heir| followers.contains(&heir))
    );
    five.weather(followers[0], Weather::Swallows);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        group.best_heir(|_| ()),
        Some(followers[1]),
        "the other one is not heard from"
    );
    group.transfer_leader(followers[1]).await.expect("asked");
    until("the heir leads", || {
        five.group(followers[1]).leadership().serving
    })
    .await;
}
