//! The replicas of this node and the tasks that go with them.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use hikyaku_metadata::Metadata;
use hikyaku_queue::{Partition, PartitionId};
use hikyaku_raft::{Group, GroupSpec, RaftNode};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::catalogue::Catalogue;
use crate::control::BarrierDescriptors;
use crate::driver::{Driver, Founding};
use crate::growth::{BUSY_QUEUES_WAITING, Growth};
use crate::machines::{METADATA_GROUP, MetadataMachine, PartitionMachine};
use crate::memory::MemoryBudget;
use crate::node::{NodeParts, NodeSettings, StartError};
use crate::partition::{Busy, Host, HostParts};
use crate::router::PartitionSeat;
use crate::watch::Watch;

/// What it takes to open the replicas of a node.
pub struct Hosting<'a> {
    /// What this node is.
    pub settings: &'a NodeSettings,
    /// What it is made of.
    pub parts: &'a NodeParts,
    /// Its replicas.
    pub raft: &'a Arc<RaftNode>,
    /// What it knows of the cluster.
    pub watch: &'a Arc<Watch>,
    /// Memory of all its machines.
    pub memory: &'a MemoryBudget,
    /// Becomes true when it stops.
    pub stop: &'a watch::Sender<bool>,
}

impl Hosting<'_> {
    /// Opens the metadata and all partitions. Founds them if that falls to this node and nothing is
    /// there yet.
    pub async fn open(&self, tasks: &mut JoinSet<()>) -> Result<(), StartError> {
        let metadata = self.open_metadata(tasks).await?;
        let (busy, busy_queues) = mpsc::channel(BUSY_QUEUES_WAITING);
        let mut groups = Vec::new();
        for (number, seat) in (0..).zip(self.watch.router.seats()) {
            let partition = PartitionId(number);
            groups.push(self.open_partition(partition, seat, &busy, tasks).await?);
        }
        if self.settings.grow_spreads {
            let growth = Growth {
                control: Arc::clone(&self.watch.control),
                catalogue: Arc::clone(&self.watch.catalogue),
                router: Arc::clone(&self.watch.router),
            };
            tasks.spawn(growth.run(busy_queues, self.stop.subscribe()));
        }
        found_groups(self.settings, &metadata, &groups).await
    }

    async fn open_metadata(
        &self,
        tasks: &mut JoinSet<()>,
    ) -> Result<Group<MetadataMachine>, StartError> {
        let control = &self.watch.control;
        let seat = control.seat();
        let spec = GroupSpec {
            group: METADATA_GROUP,
            replica: self.settings.node,
            clock: Arc::clone(seat.clock()) as _,
        };
        let opened = self
            .raft
            .open_group(spec, || MetadataMachine(Metadata::new()));
        let group = opened.await?;
        check_partitions(self.settings, &group, &self.watch.catalogue)?;
        seat.host(group.clone());
        let stop = || self.stop.subscribe();
        let follow = Arc::clone(seat).follow(group.clone(), self.watch.news.clone());
        tasks.spawn(until(stop(), follow));
        let (catalogue, followed) = (Arc::clone(&self.watch.catalogue), group.clone());
        tasks.spawn(until(stop(), async move {
            catalogue.follow(followed).await;
        }));
        tasks.spawn(learn_cluster(Arc::clone(self.raft), group.clone(), stop()));
        let founding = Founding {
            cluster_id: self.settings.cluster_id,
            partitions: self.settings.partitions,
            nodes: self.settings.founders.clone(),
        };
        let driver = Driver::new(
            group.clone(),
            Arc::clone(control),
            Arc::clone(&self.watch.router),
            Arc::clone(&self.parts.entropy),
            founding,
        );
        tasks.spawn(driver.run(stop()));
        Ok(group)
    }

    async fn open_partition(
        &self,
        partition: PartitionId,
        seat: &Arc<PartitionSeat>,
        busy: &mpsc::Sender<Busy>,
        tasks: &mut JoinSet<()>,
    ) -> Result<Group<PartitionMachine>, StartError> {
        let spec = GroupSpec {
            group: seat.group(),
            replica: self.settings.node,
            clock: Arc::clone(seat.clock()) as _,
        };
        let opened = self
            .raft
            .open_group(spec, move || PartitionMachine(Partition::new(partition)));
        let group = opened.await?;
        let parts = HostParts {
            node: self.settings.node,
            partition,
            group: group.clone(),
            raft: Arc::clone(self.raft),
            clock: Arc::clone(seat.clock()),
            entropy: Arc::clone(&self.parts.entropy),
            descriptors: Arc::new(BarrierDescriptors(Arc::clone(&self.watch.control))),
            limits: self.settings.limits,
            memory: self.memory.share(),
            busy: busy.clone(),
        };
        let (handle, serve) = Host::start(parts, self.stop.subscribe());
        tasks.spawn(serve);
        seat.host(handle);
        let follow = Arc::clone(seat).follow(group.clone(), self.watch.news.clone());
        tasks.spawn(until(self.stop.subscribe(), follow));
        Ok(group)
    }
}

/// Runs `work` until it ends or `stop` is true.
pub async fn until(mut stop: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Tells the transport which cluster this is, once the metadata say so.
async fn learn_cluster(
    raft: Arc<RaftNode>,
    metadata: Group<MetadataMachine>,
    mut stop: watch::Receiver<bool>,
) {
    let mut applied = metadata.watch_applied();
    let known = async {
        loop {
            applied.borrow_and_update();
            let cluster = metadata.with_machine(|machine| Some(machine.0.cluster()?.cluster_id));
            if cluster.is_some() || applied.changed().await.is_err() {
                return cluster;
            }
        }
    };
    let cluster = tokio::select! {
        cluster = known => cluster,
        _ = stop.wait_for(|stop| *stop) => None,
    };
    if let Some(cluster) = cluster
        && let Err(error) = raft.identity().belongs_to(cluster)
    {
        tracing::error!(%error, "the metadata are another cluster's");
    }
}

/// A node that opened fewer partitions than there are would never serve the queues on the others.
fn check_partitions(
    settings: &NodeSettings,
    metadata: &Group<MetadataMachine>,
    catalogue: &Catalogue,
) -> Result<(), StartError> {
    let checkpointed =
        metadata.with_machine(|machine| machine.0.cluster().map(|cluster| cluster.partitions));
    let copied = catalogue.cluster().map(|cluster| cluster.partitions);
    let configured = settings.partitions;
    match checkpointed.or(copied) {
        Some(founded) if founded != configured => Err(StartError::Partitions {
            founded,
            configured,
        }),
        Some(_) | None => Ok(()),
    }
}

/// One founder founds; the others hear of it from the first leader.
async fn found_groups(
    settings: &NodeSettings,
    metadata: &Group<MetadataMachine>,
    partitions: &[Group<PartitionMachine>],
) -> Result<(), StartError> {
    if !settings.founds_groups {
        return Ok(());
    }
    let voters: BTreeMap<u64, u64> = settings
        .founders
        .iter()
        .map(|(node, _)| (*node, *node))
        .collect();
    let failed = |group| move |source| StartError::Found { group, source };
    metadata
        .found(voters.clone())
        .await
        .map_err(failed(METADATA_GROUP))?;
    for group in partitions {
        group
            .found(voters.clone())
            .await
            .map_err(failed(group.id()))?;
    }
    Ok(())
}
