//! CreateTenant: a new owner of queues and access keys.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::tenant::TenantId;
use crate::tenants::{TENANT_NAME_BYTES_MAX, TENANTS_MAX, TenantRecord};

/// Creates a tenant under an id that its asker chose or drew. Queues that a tenant of this id has by
/// configuration are its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTenant {
    /// The id.
    pub tenant: TenantId,
    /// What it is called: a letter, then letters, digits and hyphens, none of them capital.
    pub name: String,
}

/// Why there is no such tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateTenantError {
    /// The id is, or was, another tenant's.
    #[error("the id is another tenant's, or was one's that is deleted; ids are not given twice")]
    IdTaken,
    /// The name is another tenant's.
    #[error("tenant {0} has this name")]
    NameTaken(TenantId),
    /// The name is none.
    #[error(
        "a tenant's name has 1 to {TENANT_NAME_BYTES_MAX} lower-case letters, digits and hyphens, and \
         begins with a letter"
    )]
    InvalidName,
    /// There were too many tenants.
    #[error("the cluster has had {TENANTS_MAX} tenants, and takes no more")]
    TooMany,
}

impl CreateTenant {
    /// Answers whether the tenant was there before.
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<bool, CreateTenantError> {
        if !is_name(&self.name) {
            return Err(CreateTenantError::InvalidName);
        }
        match metadata.tenants.named(&self.name) {
            Some(owner) if owner == self.tenant => return Ok(true),
            Some(owner) => return Err(CreateTenantError::NameTaken(owner)),
            None => {}
        }
        if self.tenant == TenantId::DEFAULT || metadata.tenant(self.tenant).is_some() {
            return Err(CreateTenantError::IdTaken);
        }
        if metadata.tenants.count() >= TENANTS_MAX {
            return Err(CreateTenantError::TooMany);
        }
        let record = TenantRecord::new(self.tenant, self.name, metadata.now());
        metadata.put_tenant(record);
        Ok(false)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.tenant.number());
        writer.text(&self.name);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            tenant: reader.tenant()?,
            name: reader.text()?,
        })
    }
}

/// Never twelve digits, so that an operator may name a tenant by either.
fn is_name(name: &str) -> bool {
    let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=TENANT_NAME_BYTES_MAX).contains(&name.len())
        && name.as_bytes()[0].is_ascii_lowercase()
        && name.bytes().all(of_name)
}

impl CreateTenantError {
    pub(crate) fn write(self, writer: &mut Writer) {
        match self {
            Self::IdTaken => writer.u8(1),
            Self::NameTaken(tenant) => {
                writer.u8(2);
                writer.u64(tenant.number());
            }
            Self::InvalidName => writer.u8(3),
            Self::TooMany => writer.u8(4),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::IdTaken),
            2 => Ok(Self::NameTaken(reader.tenant()?)),
            3 => Ok(Self::InvalidName),
            4 => Ok(Self::TooMany),
            kind => Err(unknown("error of creating a tenant", kind)),
        }
    }
}
