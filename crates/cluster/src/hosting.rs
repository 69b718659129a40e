//! The replicas of this node: opened and dropped as the metadata say.
//!
//! A node opens what its volume has, whatever it knows of the cluster. What the metadata place here
//! beside that is opened empty and learns from its leader; what they place here no more is dropped,
//! though only behind a read barrier: a copy that is older than a replica must not cost it.
//!
//! A replica whose records are damaged, or gone, is closed and reported. It never votes again: it stays
//! closed until the metadata place it here no more, is dropped then, and the group gets another one,
//! under another id, most likely on this node again. Where most of a group's replicas are damaged,
//! nothing is dropped and nobody guesses.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hikyaku_metadata::{
    Command, GroupKey, Metadata, NodeRecord, Placement, ReplicaDamaged, ReplicaId, Reply, Role,
    founding_placement,
};
use hikyaku_queue::{Partition, PartitionId};
use hikyaku_raft::{Group, GroupSpec, Machine, OtherCluster, ProposeError, RaftNode};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;

use crate::control::BarrierDescriptors;
use crate::driver::{Driver, Founding};
use crate::machines::{
    METADATA_GROUP, MetadataMachine, PartitionMachine, group_number, group_with_number,
};
use crate::memory::MemoryBudget;
use crate::node::{NodeSettings, StartError};
use crate::partition::{Busy, Host, HostParts};
use crate::placing::Placer;
use crate::ports::Entropy;
use crate::redriving::Redriver;
use crate::watch::Watch;

/// How long a replica that could not be opened or dropped is left alone.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What it takes to open the replicas of a node.
pub struct Hosting {
    /// What this node is.
    pub settings: NodeSettings,
    /// Its replicas.
    pub raft: Arc<RaftNode>,
    /// Where identities come from.
    pub entropy: Arc<dyn Entropy>,
    /// What it knows of the cluster.
    pub watch: Arc<Watch>,
    /// Memory of all its machines.
    pub memory: MemoryBudget,
    /// Where partitions report queues that are too much for them.
    pub busy: mpsc::Sender<Busy>,
    /// What is open.
    pub open: Mutex<BTreeMap<GroupKey, Open>>,
}

/// An open replica and the tasks that go with it.
pub struct Open {
    replica: u64,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Open {
    /// Nothing runs for a replica that is damaged.
    fn is_closed(&self) -> bool {
        self.tasks.is_empty()
    }

    fn new(replica: u64) -> Self {
        Self {
            replica,
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        }
    }

    /// Runs `work` until the replica is closed.
    fn run(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(until(self.stop.subscribe(), work));
    }

    async fn close(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a task of a replica died before the replica was closed");
            }
        }
    }
}

impl Hosting {
    /// Opens what the volume has and, when the groups are yet to be founded, what the founding places
    /// here; then gives groups their first members where that falls to this node.
    pub async fn start(&self) -> Result<(), StartError> {
        let placement = self.founding_placement();
        let here = |(group, nodes): (&GroupKey, &Vec<u64>)| {
            nodes.contains(&self.settings.node).then_some(*group)
        };
        let mut replicas: BTreeMap<GroupKey, u64> = BTreeMap::new();
        if self.settings.founds_groups {
            let placed = placement.iter().filter_map(here);
            replicas.extend(placed.map(|group| (group, self.settings.node)));
        }
        for (number, owner) in self.raft.replicas() {
            // Volumes of before have replicas of the founding, which bear their node's id.
            let replica = owner.unwrap_or(self.settings.node);
            replicas.insert(group_with_number(number), replica);
        }
        if self.settings.founds_groups && self.raft.lost_its_records().unwrap_or(true) {
            return Err(StartError::LostAtFounding);
        }
        for (group, replica) in replicas {
            self.open_or_keep(group, replica).await?;
        }
        if self.settings.founds_groups {
            self.found_groups(&placement).await?;
        }
        Ok(())
    }

    fn founding_placement(&self) -> Placement {
        let founders = self.settings.founders.iter();
        let zones = founders.map(|(node, _)| (*node, String::new())).collect();
        founding_placement(&zones, self.settings.partitions, self.settings.replication)
    }

    /// The first node of each group founds it; the others hear of it from the first leader.
    async fn found_groups(&self, placement: &Placement) -> Result<(), StartError> {
        for (group, nodes) in placement {
            if nodes.first() != Some(&self.settings.node) {
                continue;
            }
            let voters = nodes.iter().map(|node| (*node, *node)).collect();
            let founded = match group {
                GroupKey::Metadata => {
                    let replica = self.watch.control.seat().replica();
                    found(replica.as_ref(), voters).await
                }
                GroupKey::Partition(partition) => {
                    let handle = self.watch.router.partition(*partition);
                    found(handle.as_ref().map(|handle| handle.group()), voters).await
                }
            };
            let number = group_number(*group);
            founded.map_err(|source| StartError::Found {
                group: number,
                source,
            })?;
        }
        Ok(())
    }

    /// Follows the metadata until `stop` is true.
    pub async fn run(self: Arc<Self>, stop: watch::Receiver<bool>) {
        let mut placed = self.watch.catalogue.watch_placed();
        let mut damages = self.raft.watch_damages();
        let follow = async {
            loop {
                placed.borrow_and_update();
                damages.borrow_and_update();
                let settled = self.give_up_damaged().await & self.settle().await;
                let news = async {
                    // The senders are the catalogue's and the log's, which are held here.
                    tokio::select! {
                        _ = placed.changed() => {}
                        _ = damages.changed() => {}
                    }
                };
                match settled {
                    true => news.await,
                    false => drop(tokio::time::timeout(RETRY_PAUSE, news).await),
                }
            }
        };
        until(stop, follow).await;
    }

    /// Opens and drops what must be; `false` when not everything could be done.
    async fn settle(&self) -> bool {
        let node = self.settings.node;
        let wanted = || self.watch.catalogue.replicas_on(node);
        let held = self.held().await;
        let strange = |held: &BTreeMap<GroupKey, u64>| {
            let wanted = wanted();
            let is_wanted =
                |group, replica| wanted.get(group).is_some_and(|(it, _)| it.0 == replica);
            let strange = held
                .iter()
                .filter(|(group, replica)| !is_wanted(group, **replica));
            strange.map(|(group, _)| *group).collect::<Vec<_>>()
        };
        if self.watch.catalogue.cluster().is_none() {
            return true;
        }
        let mut done = true;
        if !strange(&held).is_empty() {
            // The copy may be older than a replica that was opened in its name.
            if self.watch.control.barrier().await.is_err() {
                return false;
            }
            for group in strange(&held) {
                done &= self.drop_replica(group, held[&group]).await;
            }
        }
        if !self.report_lost().await {
            return false;
        }
        let held = self.held().await;
        for (group, (replica, role)) in wanted() {
            if held.contains_key(&group) {
                continue;
            }
            match role {
                Role::Joining => {}
                Role::Abandoned | Role::Damaged => continue,
                Role::Voter | Role::Leaving => {
                    // It has voted, and would not know what for.
                    let what = "its records are not here";
                    done &= self.report(group, replica, what).await;
                    continue;
                }
            }
            tracing::info!(%group, %replica, "opening a replica");
            if let Err(error) = self.open(group, replica.0).await {
                tracing::error!(%group, %error, "a replica cannot be opened");
                done = false;
            }
        }
        done
    }

    /// Closes and reports the replicas that are damaged; `false` when not all could be reported.
    async fn give_up_damaged(&self) -> bool {
        let mut told = true;
        for (number, story) in self.raft.damaged() {
            let group = group_with_number(number);
            let open = self.open.lock().await;
            let known = open.get(&group).map(|it| (it.replica, it.is_closed()));
            drop(open);
            let Some((replica, closed)) = known else {
                continue;
            };
            if !closed {
                self.close(group).await;
                self.raft.close_group(number).await;
                let kept = Open::new(replica);
                self.open.lock().await.insert(group, kept);
            }
            told &= self.report(group, ReplicaId(replica), &story).await;
        }
        told
    }

    /// Reports all that was placed here before the records of this node were set aside; nothing may be
    /// opened before that, not even what is only joining: it may have voted by then.
    async fn report_lost(&self) -> bool {
        match self.raft.lost_its_records() {
            Ok(false) => return true,
            Ok(true) => {}
            Err(error) => {
                tracing::error!(%error, "cannot look whether records were lost");
                return false;
            }
        }
        if self.watch.control.barrier().await.is_err() {
            tracing::warn!("the records of this node are lost; nobody is there to hear it yet");
            return false;
        }
        let held = self.held().await;
        let placed = self.watch.catalogue.replicas_on(self.settings.node);
        for (group, (replica, _)) in placed {
            let what = "the records of this node were damaged and set aside";
            if !held.contains_key(&group) && !self.report(group, replica, what).await {
                return false;
            }
        }
        let told = self.raft.loss_is_told();
        if let Err(error) = &told {
            tracing::error!(%error, "cannot note that the loss was reported");
        }
        told.is_ok()
    }

    /// Tells the cluster that a replica is damaged, unless it knows.
    async fn report(&self, group: GroupKey, replica: ReplicaId, what: &str) -> bool {
        let here = self.watch.catalogue.replicas_on(self.settings.node);
        let known = here.get(&group).filter(|(it, _)| *it == replica);
        if known.is_none_or(|(_, role)| *role == Role::Damaged) {
            return true;
        }
        let damaged = Command::ReplicaDamaged(ReplicaDamaged { group, replica });
        let told = match self.watch.control.execute(damaged).await {
            Ok(executed) => matches!(executed.reply, Reply::MoveStepped(Ok(_))),
            Err(_) => false,
        };
        if !told {
            tracing::warn!(%group, %replica, what, "a damaged replica is closed; nobody is there to replace it yet");
            return false;
        }
        tracing::error!(%group, %replica, what, "a damaged replica is closed and will be replaced");
        let lost = self.watch.catalogue.replicas(group);
        if lost.is_some_and(|replicas| replicas.is_lost()) {
            tracing::error!(%group, "most replicas are damaged: the group stands still, and nothing of it is deleted");
        }
        true
    }

    /// Opens a replica of this volume. One that is damaged stays closed, unless nobody else could have
    /// what it had.
    async fn open_or_keep(&self, group: GroupKey, replica: u64) -> Result<(), StartError> {
        let opened = self.open(group, replica).await;
        let damaged = self.raft.damaged().contains_key(&group_number(group));
        match opened {
            Err(error) if damaged && !self.watch.peers.nodes().is_empty() => {
                tracing::error!(%group, %error, "a damaged replica stays closed");
                let kept = Open::new(replica);
                self.open.lock().await.insert(group, kept);
                Ok(())
            }
            opened => opened,
        }
    }

    async fn held(&self) -> BTreeMap<GroupKey, u64> {
        let open = self.open.lock().await;
        open.iter()
            .map(|(group, it)| (*group, it.replica))
            .collect()
    }

    async fn drop_replica(&self, group: GroupKey, replica: u64) -> bool {
        tracing::info!(%group, "dropping a replica that is placed here no more");
        self.close(group).await;
        let dropped = self.raft.drop_group(group_number(group), replica).await;
        if let Err(error) = &dropped {
            tracing::error!(%group, %error, "a replica cannot be dropped");
        }
        dropped.is_ok()
    }

    async fn close(&self, group: GroupKey) {
        match group {
            GroupKey::Metadata => self.watch.control.seat().host(None),
            GroupKey::Partition(partition) => {
                if let Some(seat) = self.watch.router.seat(partition) {
                    seat.host(None);
                }
            }
        }
        let open = self.open.lock().await.remove(&group);
        if let Some(open) = open {
            open.close().await;
        }
    }

    /// Ends the tasks of all replicas, which stay on the volume.
    pub async fn close_all(&self) {
        for group in self.held().await.into_keys() {
            self.close(group).await;
        }
    }

    async fn open(&self, group: GroupKey, replica: u64) -> Result<(), StartError> {
        let mut open = Open::new(replica);
        match group {
            GroupKey::Metadata => self.open_metadata(&mut open).await?,
            GroupKey::Partition(partition) => self.open_partition(partition, &mut open).await?,
        }
        self.open.lock().await.insert(group, open);
        Ok(())
    }

    async fn open_metadata(&self, open: &mut Open) -> Result<(), StartError> {
        let control = &self.watch.control;
        let seat = control.seat();
        let spec = GroupSpec {
            group: METADATA_GROUP,
            replica: open.replica,
            clock: Arc::clone(seat.clock()) as _,
        };
        let opened = self
            .raft
            .open_group(spec, || MetadataMachine(Metadata::new()));
        let group = opened.await?;
        check_cluster(&self.settings, &group)?;
        seat.host(Some(group.clone()));
        open.run(Arc::clone(seat).follow(group.clone(), self.watch.news.clone()));
        let (catalogue, followed) = (Arc::clone(&self.watch.catalogue), group.clone());
        open.run(async move { catalogue.follow(followed).await });
        let nodes = self.settings.founders.iter();
        let founding = Founding {
            cluster_id: self.settings.cluster_id,
            partitions: self.settings.partitions,
            replication: self.settings.replication,
            placement: self.founding_placement(),
            nodes: nodes
                .map(|(node, address)| NodeRecord::storage(*node, address.clone()))
                .collect(),
        };
        let redriver = Redriver {
            group: group.clone(),
            control: Arc::clone(control),
            router: Arc::clone(&self.watch.router),
            entropy: Arc::clone(&self.entropy),
        };
        open.tasks.spawn(redriver.run(open.stop.subscribe()));
        let driver = Driver::new(
            group,
            Arc::clone(control),
            Arc::clone(&self.watch.router),
            Arc::clone(&self.entropy),
            founding,
        );
        open.tasks.spawn(driver.run(open.stop.subscribe()));
        let placer = Placer {
            watch: Arc::clone(&self.watch),
            entropy: Arc::clone(&self.entropy),
            limits: self.settings.placement,
        };
        open.run(placer.run());
        Ok(())
    }

    async fn open_partition(
        &self,
        partition: PartitionId,
        open: &mut Open,
    ) -> Result<(), StartError> {
        let seat = self.watch.router.seat(partition);
        let seat = seat.ok_or(StartError::NoSuchPartition(partition.0))?;
        let spec = GroupSpec {
            group: seat.group(),
            replica: open.replica,
            clock: Arc::clone(seat.clock()) as _,
        };
        let opened = self
            .raft
            .open_group(spec, move || PartitionMachine(Partition::new(partition)));
        let group = opened.await?;
        let parts = HostParts {
            partition,
            group: group.clone(),
            raft: Arc::clone(&self.raft),
            clock: Arc::clone(seat.clock()),
            entropy: Arc::clone(&self.entropy),
            descriptors: Arc::new(BarrierDescriptors(Arc::clone(&self.watch.control))),
            limits: self.settings.limits,
            memory: self.memory.share(),
            busy: self.busy.clone(),
        };
        let (handle, serve) = Host::start(parts, open.stop.subscribe());
        open.tasks.spawn(serve);
        seat.host(Some(handle));
        open.run(Arc::clone(seat).follow(group, self.watch.news.clone()));
        Ok(())
    }
}

async fn found<M: Machine>(
    replica: Option<&Group<M>>,
    voters: BTreeMap<u64, u64>,
) -> Result<(), ProposeError> {
    match replica {
        Some(group) => group.found(voters).await,
        None => Err(ProposeError::NotLeader { leader_node: None }),
    }
}

/// Runs `work` until it ends or `stop` is true.
pub async fn until(mut stop: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// The metadata on the volume must be those of the cluster that the volume belongs to.
fn check_cluster(
    settings: &NodeSettings,
    metadata: &Group<MetadataMachine>,
) -> Result<(), StartError> {
    let Some(cluster) = metadata.with_machine(|machine| machine.0.cluster().cloned()) else {
        return Ok(());
    };
    if cluster.cluster_id != settings.cluster_id {
        return Err(StartError::OtherCluster(OtherCluster {
            own: settings.cluster_id,
            other: cluster.cluster_id,
        }));
    }
    // A node that knew another number of partitions would never serve the queues on the others.
    if cluster.partitions != settings.partitions {
        return Err(StartError::Partitions {
            founded: cluster.partitions,
            configured: settings.partitions,
        });
    }
    Ok(())
}
