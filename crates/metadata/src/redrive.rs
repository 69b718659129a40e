//! Redrive policies: which queue sends its dead letters where.
//!
//! A policy names its dead-letter queue; partitions need that queue's id. So the descriptor of a
//! source follows what has the name: nothing while no queue does, and another queue when the name is
//! given anew, as on AWS, where a policy is by ARN.
//!
//! Dead letters do not travel between partitions. So a dead-letter queue is wherever a source of it is:
//! as a guest, which takes no sends, where it is not by itself. It does not leave when the source goes.

use crate::machine::Metadata;
use crate::record::{QueueRecord, RedriveTarget};
use crate::tenant::TenantId;
use hikyaku_queue::{PartitionId, QueueId, Redrive};

impl Metadata {
    /// Brings a record's descriptor up to what its policy names now.
    pub(crate) fn resolve(&self, record: &mut QueueRecord) {
        let target = record.settings.redrive_target.as_ref();
        let found = target.and_then(|target| {
            let named = self.queue_by_name(record.tenant, &target.queue)?;
            (named.is_fifo() == record.is_fifo()).then(|| Redrive {
                target: named.descriptor.id,
                max_receive_count: target.max_receive_count,
                source: record.name.clone(),
            })
        });
        record.descriptor.redrive = found;
    }

    /// Makes a dead-letter queue a guest in the partitions of its sources.
    pub(crate) fn embrace(&self, record: &mut QueueRecord) {
        let fifo = record.is_fifo();
        let key = (record.tenant, record.name.clone());
        let sources = self.sources.get(&key).into_iter().flatten();
        let sources = sources.filter_map(|queue| self.queues.get(queue));
        let descriptor = &mut record.descriptor;
        for partition in sources
            .filter(|source| source.is_fifo() == fifo)
            .flat_map(|source| source.descriptor.visited())
        {
            if !descriptor.takes_moves(partition) {
                descriptor.guests.push(partition);
            }
        }
        // In each partition it is one thing.
        let guests = std::mem::take(&mut descriptor.guests);
        let is_guest = |it: &PartitionId| !descriptor.spread.contains(it);
        descriptor.guests = guests.into_iter().filter(is_guest).collect();
        let guests = &descriptor.guests;
        descriptor.draining.retain(|it| !guests.contains(it));
    }

    /// Lets a source's dead-letter queue follow it. Ends with chains and circles of policies too: a
    /// queue that is where its sources are does not change.
    pub(crate) fn spread_target(&mut self, source: QueueId) {
        let source = self.queues.get(&source);
        let target = source.and_then(|it| it.descriptor.redrive.as_ref());
        let target = target.and_then(|redrive| self.queues.get(&redrive.target).cloned());
        // `change` embraces.
        target.map(|target| self.change(target));
    }

    /// Brings up those whose policy names `name`, which has another meaning now.
    pub(crate) fn resolve_sources(&mut self, tenant: TenantId, name: String) {
        let sources = self.sources.get(&(tenant, name));
        let sources: Vec<QueueId> = sources.into_iter().flatten().copied().collect();
        for queue in sources {
            let record = self.queues.get(&queue).cloned();
            // `change` resolves.
            record.map(|record| self.change(record));
        }
    }

    pub(crate) fn file_source(&mut self, record: &QueueRecord) {
        if let Some(target) = &record.settings.redrive_target {
            let key = (record.tenant, target.queue.clone());
            let sources = self.sources.entry(key).or_default();
            sources.insert(record.descriptor.id);
        }
    }

    pub(crate) fn unfile_source(
        &mut self,
        queue: QueueId,
        tenant: TenantId,
        target: Option<RedriveTarget>,
    ) {
        let Some(target) = target else { return };
        let key = (tenant, target.queue);
        if let Some(sources) = self.sources.get_mut(&key) {
            sources.remove(&queue);
            if sources.is_empty() {
                self.sources.remove(&key);
            }
        }
    }
}
