//! What the metadata leader does beside answering: found the cluster, drive descriptors to their
//! partitions, let go of partitions that queues have left, keep house.
//!
//! Everything here may be repeated without harm, so a new leader just starts over from the
//! replicated state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use hikyaku_metadata::{
    ClusterRecord, Command, DescriptorDelivered, Envelope, Found, NodeRecord, PartitionEmptied,
    Placement,
};
use hikyaku_queue::{Descriptor, Operation, PartitionId, QueueId, Reply, RequestId};
use hikyaku_raft::{Group, Leadership};
use tokio::sync::watch;

use crate::control::ControlPlane;
use crate::machines::MetadataMachine;
use crate::ports::Entropy;
use crate::router::{CallError, Request, Router};

/// How often deliveries and housekeeping are looked at when nothing calls for it.
const INTERVAL: Duration = Duration::from_secs(1);

/// Deliveries under way at once.
const DELIVERIES_AT_ONCE: usize = 16;

/// Deliveries taken from the pending set at once, for each partition.
const DELIVERIES_PER_PARTITION: usize = 16;

/// How long one delivery may hold up the next round: a partition without a leader must not keep
/// other partitions from hearing of their changes.
const DELIVERY_LIMIT: Duration = Duration::from_secs(1);

/// How long the driver's own commands may stay on their way, in T.
const BUDGET_MS: u64 = 20_000;

/// The number of the first key that seals receipt handles.
const FIRST_HANDLE_KEY: u32 = 1;

/// What founding needs to know.
pub struct Founding {
    /// What the founder called the cluster.
    pub cluster_id: u128,
    /// How many partitions the cluster gets, for ever.
    pub partitions: u32,
    /// How many replicas each group is to have.
    pub replication: u8,
    /// Where they are.
    pub placement: Placement,
    /// The founding nodes.
    pub nodes: Vec<NodeRecord>,
}

/// The metadata leader's duties. Runs on every node, acts only where the leader is.
pub struct Driver {
    group: Group<MetadataMachine>,
    control: Arc<ControlPlane>,
    router: Arc<Router>,
    entropy: Arc<dyn Entropy>,
    founding: Founding,
}

impl Driver {
    /// Prepares the duties.
    pub fn new(
        group: Group<MetadataMachine>,
        control: Arc<ControlPlane>,
        router: Arc<Router>,
        entropy: Arc<dyn Entropy>,
        founding: Founding,
    ) -> Self {
        Self {
            group,
            control,
            router,
            entropy,
            founding,
        }
    }

    /// Runs until `stop` is true.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut leadership = self.group.watch_leadership();
        let mut applied = self.group.watch_applied();
        let mut serving = None;
        loop {
            let now: Leadership = *leadership.borrow_and_update();
            // A new term of one's own counts as a loss and a gain: another leader was in between.
            if serving.is_some_and(|term| !now.serving || term != now.term) {
                serving = None;
                self.control.set_serving(false);
                tracing::info!(term = now.term, "no longer leads the metadata");
            }
            if now.serving && serving.is_none() {
                self.control.hear_voters().await;
                if leadership.has_changed().unwrap_or(false) {
                    continue;
                }
                serving = Some(now.term);
                self.control.set_serving(true);
                tracing::info!(term = now.term, "became leader of the metadata");
            }
            applied.borrow_and_update();
            let work = async {
                if serving.is_some() {
                    self.found().await;
                    self.deliver().await;
                    self.let_go().await;
                    self.keep_house().await;
                }
            };
            // Work left half done is found again in the replicated state.
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = work => {}
                changed = leadership.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    leadership.mark_changed();
                    continue;
                }
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                changed = leadership.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    leadership.mark_changed();
                }
                changed = applied.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    async fn found(&self) {
        if self
            .group
            .with_machine(|machine| machine.0.cluster().is_some())
        {
            return;
        }
        let mut secret = [0; 64];
        self.entropy.fill(&mut secret);
        let record = ClusterRecord {
            cluster_id: self.founding.cluster_id,
            partitions: self.founding.partitions,
            replication: self.founding.replication,
            handle_keys: vec![(FIRST_HANDLE_KEY, secret)],
            nodes: self.founding.nodes.clone(),
        };
        let cluster = record.cluster_id;
        let found = Found {
            cluster: record,
            placement: self.founding.placement.clone(),
        };
        if self.execute(Command::Found(found)).await {
            tracing::info!(cluster = format_args!("{cluster:032x}"), "cluster founded");
        }
    }

    async fn deliver(&self) {
        let pending = self.group.with_machine(|machine| {
            let mut taken: BTreeMap<PartitionId, usize> = BTreeMap::new();
            let mut pending = Vec::new();
            for (descriptor, partition) in machine.0.pending_deliveries() {
                let taken = taken.entry(partition).or_default();
                if *taken < DELIVERIES_PER_PARTITION {
                    *taken += 1;
                    pending.push((descriptor.clone(), partition));
                }
            }
            pending
        });
        futures_util::stream::iter(pending)
            .map(|(descriptor, partition)| self.deliver_one(descriptor, partition))
            .buffer_unordered(DELIVERIES_AT_ONCE)
            .collect::<()>()
            .await;
    }

    async fn deliver_one(&self, descriptor: Descriptor, partition: PartitionId) {
        let (queue, version) = (descriptor.id, descriptor.version);
        let request = Request {
            partition,
            queue,
            descriptor_version: version,
            operation: Operation::PutDescriptor(descriptor),
            bodies: Vec::new(),
            wait: Duration::ZERO,
        };
        let called = tokio::time::timeout(DELIVERY_LIMIT, self.router.call(&request)).await;
        match called.unwrap_or(Err(CallError::Unavailable { no_effect: false })) {
            // A slice that is gone needs no descriptor any more.
            Ok(_) | Err(CallError::QueueGone) => {
                let delivered = DescriptorDelivered {
                    queue,
                    version,
                    partition,
                };
                self.execute(Command::DescriptorDelivered(delivered)).await;
            }
            Err(error) => {
                tracing::warn!(?queue, version, partition = partition.0, %error, "descriptor not delivered yet");
            }
        }
    }

    /// Lets go of draining partitions that are empty.
    async fn let_go(&self) {
        let draining = self.group.with_machine(|machine| {
            let draining = machine.0.draining();
            let named = draining.map(|(descriptor, at)| (descriptor.id, descriptor.version, at));
            named.collect::<Vec<_>>()
        });
        futures_util::stream::iter(draining)
            .map(|(queue, version, partition)| self.let_go_if_empty(queue, version, partition))
            .buffer_unordered(DELIVERIES_AT_ONCE)
            .collect::<()>()
            .await;
    }

    async fn let_go_if_empty(&self, queue: QueueId, version: u64, partition: PartitionId) {
        // Cheap, but perhaps from a leader that is none any more: only the log knows.
        let counts = self.router.glance(partition, queue).await;
        if counts.is_none_or(|it| it.visible + it.in_flight + it.delayed > 0) {
            return;
        }
        let request = Request {
            partition,
            queue,
            descriptor_version: version,
            operation: Operation::AskEmpty,
            bodies: Vec::new(),
            wait: Duration::ZERO,
        };
        let asked = tokio::time::timeout(DELIVERY_LIMIT, self.router.call(&request)).await;
        let empty = Reply::Emptiness { empty: true };
        if asked.is_ok_and(|answer| answer.is_ok_and(|routed| routed.reply == empty)) {
            let emptied = PartitionEmptied {
                queue,
                version,
                partition,
            };
            self.execute(Command::PartitionEmptied(emptied)).await;
        }
    }

    async fn keep_house(&self) {
        let Some(now_ms) = self.control.now_ms() else {
            return;
        };
        if self
            .group
            .with_machine(|machine| machine.0.housekeeping_due(now_ms))
        {
            self.execute(Command::Housekeep).await;
        }
    }

    /// Whether the command was applied here. If not, another leader does the duty.
    async fn execute(&self, command: Command) -> bool {
        let Some(now_ms) = self.control.now_ms() else {
            return false;
        };
        let envelope = Envelope {
            request_id: RequestId(self.entropy.draw_u128()),
            not_after: now_ms + BUDGET_MS,
            command,
        };
        self.control.execute_here(&envelope).await.is_ok()
    }
}
