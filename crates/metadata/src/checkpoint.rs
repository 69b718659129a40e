//! The whole state as bytes, for checkpoints and snapshots.
//!
//! Only what cannot be derived is written: indexes by name and by revision are made on reading.

use crate::cluster::{ClusterRecord, ClusterSettings, WITHOUT_PLACEMENT};
use crate::codec::{DecodeError, Reader, Writer};
use crate::founding::{everywhere, place};
use crate::machine::{DeletedQueue, Metadata, Removal};
use crate::record::{QueueRecord, WITH_MOVE_TASKS, version_of};
use crate::replicas::{GroupKey, Replicas};
use crate::requests::Requests;
use crate::tenants::Tenants;

/// Of a metadata without move tasks.
const CHECKPOINT_VERSION: u8 = 5;

/// Checkpoints up to this version name no replicas: every group is on every node.
const WITHOUT_REPLICAS: u8 = 2;

/// Checkpoints up to this version know no tenants but those of queues.
const WITHOUT_TENANTS: u8 = 4;

impl Metadata {
    /// Writes the state in its versioned form; equal states give equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let version = version_of(self.queues.values(), CHECKPOINT_VERSION);
        let mut writer = Writer::versioned(version);
        writer.u64(self.now);
        writer.u64(self.applied);
        writer.u64(self.revision);
        writer.u64(self.next_queue);
        self.write_cluster(&mut writer);
        self.settings.write(&mut writer);
        self.tenants.write(&mut writer);
        writer.count(self.queues.len());
        for record in self.queues.values() {
            record.write(&mut writer, version);
        }
        self.write_removed(&mut writer);
        self.write_pending(&mut writer);
        self.requests.write(&mut writer);
        writer.finish()
    }

    /// Reads what [`Metadata::encode`] wrote, and checks it as [`Metadata::validate`] does.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (mut reader, version) = Reader::up_to(bytes, WITH_MOVE_TASKS)?;
        let mut metadata = Self::new();
        metadata.now = reader.u64()?;
        metadata.applied = reader.u64()?;
        metadata.revision = reader.u64()?;
        metadata.next_queue = reader.u64()?;
        metadata.read_cluster(&mut reader, version)?;
        metadata.settings = ClusterSettings::read(&mut reader)?;
        if version > WITHOUT_TENANTS {
            metadata.tenants = Tenants::read(&mut reader)?;
        }
        for _ in 0..reader.count()? {
            metadata.restore(QueueRecord::read(&mut reader, version)?)?;
        }
        metadata.read_removed(&mut reader)?;
        metadata.read_pending(&mut reader)?;
        metadata.requests = Requests::read(&mut reader)?;
        reader.finish()?;
        metadata.check().map_err(DecodeError::Impossible)?;
        Ok(metadata)
    }

    fn write_cluster(&self, writer: &mut Writer) {
        writer.flag(self.cluster.is_some());
        if let Some(cluster) = &self.cluster {
            cluster.write(writer);
        }
        writer.u64(self.cluster_revision);
        writer.count(self.groups.len());
        for (group, replicas) in &self.groups {
            group.write(writer);
            replicas.write(writer);
        }
    }

    fn read_cluster(&mut self, reader: &mut Reader<'_>, version: u8) -> Result<(), DecodeError> {
        let old = version <= WITHOUT_REPLICAS;
        if reader.flag()? {
            let version = if old {
                WITHOUT_PLACEMENT
            } else {
                ClusterRecord::VERSION
            };
            self.cluster = Some(ClusterRecord::read(reader, version)?);
        }
        self.cluster_revision = reader.u64()?;
        if old {
            if let Some(cluster) = &self.cluster {
                self.groups = place(&everywhere(cluster), self.cluster_revision);
            }
            return Ok(());
        }
        for _ in 0..reader.count()? {
            let group = GroupKey::read(reader)?;
            if self.groups.insert(group, Replicas::read(reader)?).is_some() {
                return Err(DecodeError::Repeated("group"));
            }
        }
        Ok(())
    }

    fn restore(&mut self, record: QueueRecord) -> Result<(), DecodeError> {
        let queue = record.descriptor.id;
        let names = self.names.entry(record.tenant).or_default();
        if names.insert(record.name.clone(), queue).is_some() {
            return Err(DecodeError::Repeated("queue name"));
        }
        if self.revisions.insert(record.revision, queue).is_some() {
            return Err(DecodeError::Repeated("revision"));
        }
        if !record.descriptor.draining.is_empty() {
            self.draining.insert(queue);
        }
        if record.active_move().is_some() {
            self.moving.insert(queue);
        }
        self.file_source(&record);
        if self.queues.insert(queue, record).is_some() {
            return Err(DecodeError::Repeated("queue id"));
        }
        Ok(())
    }

    fn write_removed(&self, writer: &mut Writer) {
        writer.u64(self.forgotten_revision);
        writer.count(self.removals.len());
        for (revision, removal) in &self.removals {
            writer.u64(*revision);
            writer.queue(removal.queue);
            writer.u64(removal.tenant.number());
            writer.text(&removal.name);
            writer.u64(removal.at_ms);
        }
        writer.count(self.deleted.len());
        for deleted in self.deleted.values() {
            writer.descriptor(&deleted.descriptor);
            writer.u64(deleted.revision);
        }
    }

    fn read_removed(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.forgotten_revision = reader.u64()?;
        for _ in 0..reader.count()? {
            let revision = reader.u64()?;
            let queue = reader.queue()?;
            let tenant = reader.tenant()?;
            let name = reader.text()?;
            let at_ms = reader.u64()?;
            if self.queue_by_name(tenant, &name).is_none() {
                self.freed_names.insert((tenant, name.clone()), revision);
            }
            self.removals.insert(
                revision,
                Removal {
                    queue,
                    tenant,
                    name,
                    at_ms,
                },
            );
        }
        for _ in 0..reader.count()? {
            let descriptor = reader.descriptor()?;
            let revision = reader.u64()?;
            self.deleted.insert(
                descriptor.id,
                DeletedQueue {
                    descriptor,
                    revision,
                },
            );
        }
        Ok(())
    }

    fn write_pending(&self, writer: &mut Writer) {
        writer.count(self.pending.len());
        for (queue, partitions) in &self.pending {
            writer.queue(*queue);
            writer.count(partitions.len());
            for (partition, confirmed) in partitions {
                writer.partition(*partition);
                writer.u64(*confirmed);
            }
        }
    }

    fn read_pending(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        for _ in 0..reader.count()? {
            let queue = reader.queue()?;
            let partitions = self.pending.entry(queue).or_default();
            for _ in 0..reader.count()? {
                partitions.insert(reader.partition()?, reader.u64()?);
            }
        }
        Ok(())
    }
}
