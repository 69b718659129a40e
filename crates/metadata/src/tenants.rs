//! Tenants and their access keys, as every copy of the metadata knows them.
//!
//! A tenant's keys are part of its record: whoever follows the metadata hears of both at once. A record
//! stays for ever, without its keys and without its name once the tenant is deleted, so that an id is
//! never given twice. A tenant that only a node's configuration names has none and needs none; so the
//! default tenant, until it is given a key.
//!
//! Invariants: a name is of one tenant that is not deleted; an access key is of one tenant; a tenant that
//! is being deleted has no key, and one that is deleted no queue either.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::sealing::SealedSecret;
use crate::tenant::TenantId;
use crate::validate::holds;
use hikyaku_queue::QueueId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

/// Tenants that a cluster may ever have had, deleted ones included: a record is never dropped.
pub const TENANTS_MAX: usize = 10_000;

/// Access keys of one tenant: enough for one per service and their rotation, and little enough to be
/// sent whole whenever one of them changes.
pub const ACCESS_KEYS_PER_TENANT_MAX: usize = 32;

/// Access keys of all tenants: some 20 MB in every copy at the most.
pub const ACCESS_KEYS_MAX: usize = 50_000;

/// The longest name of a tenant, in bytes: a label of DNS.
pub const TENANT_NAME_BYTES_MAX: usize = 63;

/// The longest description of an access key, in bytes: a line.
pub const DESCRIPTION_BYTES_MAX: usize = 256;

/// The longest id of an access key, in bytes, as IAM has it.
pub const ACCESS_KEY_ID_BYTES_MAX: usize = 128;

/// The longest secret of an access key as it is sealed, in bytes: three times what ours have.
pub const SEALED_BYTES_MAX: usize = 144;

/// What the default tenant is called.
pub const DEFAULT_TENANT_NAME: &str = "default";

/// One tenant with its access keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRecord {
    /// Its id.
    pub tenant: TenantId,
    /// What its operator calls it.
    pub name: String,
    /// What its operator wants of it.
    pub state: TenantState,
    /// When it was created, in ms of the metadata group's time.
    pub created_at_ms: u64,
    /// Its access keys by id.
    pub keys: BTreeMap<String, AccessKeyRecord>,
    /// The metadata revision of the last change of this record.
    pub revision: u64,
}

/// What an operator wants of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantState {
    /// It may do everything.
    Active,
    /// It may do nothing; its queues and keys stay.
    Suspended,
    /// It may do nothing for ever; its keys are gone and its queues are being dropped.
    Deleting,
    /// Nothing of it is left but its id.
    Deleted,
}

/// One access key of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessKeyRecord {
    /// Its secret, for those who have the key that sealed it.
    pub sealed: SealedSecret,
    /// Whether requests may be signed with it.
    pub state: AccessKeyState,
    /// What its operator says it is for.
    pub description: String,
    /// When it was created, in ms of the metadata group's time.
    pub created_at_ms: u64,
}

/// Whether requests may be signed with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKeyState {
    /// They may.
    Active,
    /// They may not, until it is enabled again.
    Disabled,
}

/// All tenants that have a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tenants {
    records: BTreeMap<TenantId, TenantRecord>,
    /// Tenants that are not deleted, by name.
    names: BTreeMap<String, TenantId>,
    /// Owners of access keys.
    owners: BTreeMap<String, TenantId>,
    /// Tenants by the revision of their record.
    revisions: BTreeMap<u64, TenantId>,
    deleting: BTreeSet<TenantId>,
}

impl TenantState {
    /// Whether the tenant may be asked for nothing any more.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Deleting | Self::Deleted)
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u8(match self {
            Self::Active => 1,
            Self::Suspended => 2,
            Self::Deleting => 3,
            Self::Deleted => 4,
        });
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Active),
            2 => Ok(Self::Suspended),
            3 => Ok(Self::Deleting),
            4 => Ok(Self::Deleted),
            state => Err(unknown("state of a tenant", state)),
        }
    }
}

impl fmt::Display for TenantState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
        })
    }
}

impl AccessKeyState {
    fn write(self, writer: &mut Writer) {
        writer.u8(match self {
            Self::Active => 1,
            Self::Disabled => 2,
        });
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Active),
            2 => Ok(Self::Disabled),
            state => Err(unknown("state of an access key", state)),
        }
    }
}

impl AccessKeyRecord {
    fn write(&self, writer: &mut Writer) {
        self.sealed.write(writer);
        self.state.write(writer);
        writer.text(&self.description);
        writer.u64(self.created_at_ms);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            sealed: SealedSecret::read(reader)?,
            state: AccessKeyState::read(reader)?,
            description: reader.text()?,
            created_at_ms: reader.u64()?,
        })
    }
}

impl TenantRecord {
    const VERSION: u8 = 1;

    /// A new tenant without keys.
    pub(crate) fn new(tenant: TenantId, name: String, created_at_ms: u64) -> Self {
        Self {
            tenant,
            name,
            state: TenantState::Active,
            created_at_ms,
            keys: BTreeMap::new(),
            revision: 0,
        }
    }

    /// Writes the record in its versioned form, for catalogue copies.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::versioned(Self::VERSION);
        self.write(&mut writer);
        writer.finish()
    }

    /// Reads what [`TenantRecord::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::versioned(bytes, Self::VERSION)?;
        let record = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(record)
    }

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.tenant.number());
        writer.text(&self.name);
        self.state.write(writer);
        writer.u64(self.created_at_ms);
        writer.count(self.keys.len());
        for (id, key) in &self.keys {
            writer.text(id);
            key.write(writer);
        }
        writer.u64(self.revision);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tenant = reader.tenant()?;
        let name = reader.text()?;
        let state = TenantState::read(reader)?;
        let created_at_ms = reader.u64()?;
        let mut keys = BTreeMap::new();
        for _ in 0..reader.count()? {
            let id = reader.text()?;
            if keys.insert(id, AccessKeyRecord::read(reader)?).is_some() {
                return Err(DecodeError::Repeated("access key"));
            }
        }
        Ok(Self {
            tenant,
            name,
            state,
            created_at_ms,
            keys,
            revision: reader.u64()?,
        })
    }
}

impl Tenants {
    pub(crate) fn get(&self, tenant: TenantId) -> Option<&TenantRecord> {
        self.records.get(&tenant)
    }

    pub(crate) fn count(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn key_count(&self) -> usize {
        self.owners.len()
    }

    /// Who has a name that is not free.
    pub(crate) fn named(&self, name: &str) -> Option<TenantId> {
        let default = (name == DEFAULT_TENANT_NAME).then_some(TenantId::DEFAULT);
        default.or_else(|| self.names.get(name).copied())
    }

    pub(crate) fn owner(&self, key: &str) -> Option<&TenantRecord> {
        self.records.get(self.owners.get(key)?)
    }

    pub(crate) fn changed_after(&self, revision: u64) -> impl Iterator<Item = &TenantRecord> {
        let after = (Bound::Excluded(revision), Bound::Unbounded);
        let changed = self.revisions.range(after);
        changed.filter_map(|(_, tenant)| self.records.get(tenant))
    }

    pub(crate) fn is_deleting(&self) -> bool {
        !self.deleting.is_empty()
    }

    /// Takes in a record, or replaces the one of the same tenant.
    fn put(&mut self, record: TenantRecord) {
        let tenant = record.tenant;
        if let Some(before) = self.records.remove(&tenant) {
            if before.state != TenantState::Deleted {
                self.names.remove(&before.name);
            }
            self.revisions.remove(&before.revision);
            for key in before.keys.keys() {
                self.owners.remove(key);
            }
        }
        if record.state != TenantState::Deleted {
            self.names.insert(record.name.clone(), tenant);
        }
        match record.state {
            TenantState::Deleting => self.deleting.insert(tenant),
            _ => self.deleting.remove(&tenant),
        };
        self.revisions.insert(record.revision, tenant);
        let keys = record.keys.keys();
        self.owners.extend(keys.map(|key| (key.clone(), tenant)));
        self.records.insert(tenant, record);
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.count(self.records.len());
        for record in self.records.values() {
            record.write(writer);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut tenants = Self::default();
        for _ in 0..reader.count()? {
            let record = TenantRecord::read(reader)?;
            if tenants.records.contains_key(&record.tenant) {
                return Err(DecodeError::Repeated("tenant"));
            }
            let named = tenants.names.contains_key(&record.name);
            if named && record.state != TenantState::Deleted {
                return Err(DecodeError::Repeated("name of a tenant"));
            }
            if tenants.revisions.contains_key(&record.revision) {
                return Err(DecodeError::Repeated("revision"));
            }
            if record.keys.keys().any(|it| tenants.owners.contains_key(it)) {
                return Err(DecodeError::Repeated("access key"));
            }
            tenants.put(record);
        }
        Ok(tenants)
    }
}

impl Metadata {
    /// A tenant that has a record.
    pub fn tenant(&self, tenant: TenantId) -> Option<&TenantRecord> {
        self.tenants.get(tenant)
    }

    /// Every tenant that has a record, by id.
    pub fn tenants(&self) -> impl Iterator<Item = &TenantRecord> {
        self.tenants.records.values()
    }

    /// Whose an access key is.
    pub fn owner_of_key(&self, key: &str) -> Option<&TenantRecord> {
        self.tenants.owner(key)
    }

    /// Whether a tenant may have new queues: one that is known only to configuration may.
    pub(crate) fn takes_queues(&self, tenant: TenantId) -> bool {
        let record = self.tenants.get(tenant);
        record.is_none_or(|record| record.state == TenantState::Active)
    }

    pub(crate) fn put_tenant(&mut self, mut record: TenantRecord) {
        record.revision = self.next_revision();
        self.tenants.put(record);
    }

    /// Drops at most `limit` queues of a tenant that is being deleted; after the last one it is.
    pub(crate) fn drop_queues_of_deleted(&mut self, limit: usize) {
        let Some(tenant) = self.tenants.deleting.first().copied() else {
            return;
        };
        let queues = self.names.get(&tenant).into_iter();
        let queues = queues.flat_map(BTreeMap::values).copied();
        let queues: Vec<QueueId> = queues.take(limit).collect();
        for queue in queues {
            self.remove(queue);
        }
        if !self.names.contains_key(&tenant) {
            let mut record = self.tenants.records[&tenant].clone();
            record.state = TenantState::Deleted;
            self.put_tenant(record);
        }
    }

    pub(crate) fn check_tenants(&self) -> Result<(), &'static str> {
        let Tenants {
            records,
            names,
            owners,
            revisions,
            deleting,
        } = &self.tenants;
        for record in records.values() {
            let gone = record.state.is_gone();
            holds(
                !gone || record.keys.is_empty(),
                "a tenant that goes has no access key",
            )?;
            let empty = !self.names.contains_key(&record.tenant);
            let deleted = record.state == TenantState::Deleted;
            holds(!deleted || empty, "a deleted tenant has no queue")?;
            let named = names.get(&record.name) == Some(&record.tenant);
            holds(deleted || named, "a tenant is found by its name")?;
            let is_default = record.tenant == TenantId::DEFAULT;
            holds(
                is_default == (record.name == DEFAULT_TENANT_NAME),
                "the default tenant has its name",
            )?;
            holds(
                !is_default || record.state == TenantState::Active,
                "the default tenant stays",
            )?;
            holds(
                record.revision <= self.revision,
                "no tenant is newer than the revision",
            )?;
            holds(
                deleting.contains(&record.tenant) == (record.state == TenantState::Deleting),
                "tenants that are being deleted are found",
            )?;
        }
        let keys: usize = records.values().map(|record| record.keys.len()).sum();
        holds(owners.len() == keys, "an access key is of one tenant")?;
        holds(
            revisions.len() == records.len(),
            "revisions are of one tenant",
        )
    }
}
