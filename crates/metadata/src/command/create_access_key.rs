//! CreateAccessKey: a key that requests for a tenant may be signed with.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::sealing::SealedSecret;
use crate::tenant::TenantId;
use crate::tenants::{
    ACCESS_KEY_ID_BYTES_MAX, ACCESS_KEYS_MAX, ACCESS_KEYS_PER_TENANT_MAX, AccessKeyRecord,
    AccessKeyState, DEFAULT_TENANT_NAME, DESCRIPTION_BYTES_MAX, SEALED_BYTES_MAX, TenantRecord,
};

/// Adds an access key, active, whose id and secret its asker drew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateAccessKey {
    /// The owner; a suspended one may be given keys.
    pub tenant: TenantId,
    /// The id.
    pub key: String,
    /// The secret.
    pub sealed: SealedSecret,
    /// What it is for.
    pub description: String,
}

/// Why there is no such key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateAccessKeyError {
    /// The cluster has no such tenant, or knows it from configuration alone.
    #[error("there is no tenant {0}")]
    NoSuchTenant(TenantId),
    /// A deleted tenant has no keys.
    #[error("tenant {0} is deleted")]
    Deleted(TenantId),
    /// The id is another key's.
    #[error("another access key has this id")]
    IdTaken,
    /// The tenant has many.
    #[error("a tenant has {ACCESS_KEYS_PER_TENANT_MAX} access keys at the most; delete one first")]
    TooMany,
    /// The cluster has many.
    #[error("the cluster has {ACCESS_KEYS_MAX} access keys, and takes no more")]
    TooManyInAll,
    /// The id, the secret or the description is empty or too long.
    #[error("an access key's description has {DESCRIPTION_BYTES_MAX} bytes at the most")]
    TooLong,
}

impl CreateAccessKey {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<(), CreateAccessKeyError> {
        let fits = (1..=ACCESS_KEY_ID_BYTES_MAX).contains(&self.key.len())
            && self.sealed.bytes.len() <= SEALED_BYTES_MAX
            && self.description.len() <= DESCRIPTION_BYTES_MAX;
        if !fits {
            return Err(CreateAccessKeyError::TooLong);
        }
        let mut record = self.owner(metadata)?;
        if metadata.owner_of_key(&self.key).is_some() {
            return Err(CreateAccessKeyError::IdTaken);
        }
        if record.keys.len() >= ACCESS_KEYS_PER_TENANT_MAX {
            return Err(CreateAccessKeyError::TooMany);
        }
        if metadata.tenants.key_count() >= ACCESS_KEYS_MAX {
            return Err(CreateAccessKeyError::TooManyInAll);
        }
        let key = AccessKeyRecord {
            sealed: self.sealed,
            state: AccessKeyState::Active,
            description: self.description,
            created_at_ms: metadata.now(),
        };
        record.keys.insert(self.key, key);
        metadata.put_tenant(record);
        Ok(())
    }

    /// The owner's record, which the default tenant gets now.
    fn owner(&self, metadata: &Metadata) -> Result<TenantRecord, CreateAccessKeyError> {
        match metadata.tenant(self.tenant) {
            Some(record) if record.state.is_gone() => {
                Err(CreateAccessKeyError::Deleted(self.tenant))
            }
            Some(record) => Ok(record.clone()),
            None if self.tenant == TenantId::DEFAULT => {
                let name = DEFAULT_TENANT_NAME.to_owned();
                Ok(TenantRecord::new(self.tenant, name, metadata.now()))
            }
            None => Err(CreateAccessKeyError::NoSuchTenant(self.tenant)),
        }
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.tenant.number());
        writer.text(&self.key);
        self.sealed.write(writer);
        writer.text(&self.description);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            tenant: reader.tenant()?,
            key: reader.text()?,
            sealed: SealedSecret::read(reader)?,
            description: reader.text()?,
        })
    }
}

impl CreateAccessKeyError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::NoSuchTenant(tenant) => {
                writer.u8(1);
                writer.u64(tenant.number());
            }
            Self::Deleted(tenant) => {
                writer.u8(2);
                writer.u64(tenant.number());
            }
            Self::IdTaken => writer.u8(3),
            Self::TooMany => writer.u8(4),
            Self::TooManyInAll => writer.u8(5),
            Self::TooLong => writer.u8(6),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchTenant(reader.tenant()?)),
            2 => Ok(Self::Deleted(reader.tenant()?)),
            3 => Ok(Self::IdTaken),
            4 => Ok(Self::TooMany),
            5 => Ok(Self::TooManyInAll),
            6 => Ok(Self::TooLong),
            kind => Err(unknown("error of creating an access key", kind)),
        }
    }
}
