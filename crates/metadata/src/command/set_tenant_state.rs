//! SetTenantState: suspends a tenant, takes it back, or deletes it for ever.

use crate::codec::{DecodeError, Reader, Writer, unknown};
use crate::machine::Metadata;
use crate::tenant::TenantId;
use crate::tenants::TenantState;

/// Sets the state of a tenant. One that is to be deleted loses its access keys at once; while it has
/// queues it is *deleting*, which the answer tells, and housekeeping drops them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetTenantState {
    /// The tenant.
    pub tenant: TenantId,
    /// The state wanted; `Deleting` and `Deleted` want the same.
    pub state: TenantState,
}

/// Why the state stayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetTenantStateError {
    /// The cluster has no such tenant, or knows it from configuration alone.
    #[error("there is no tenant {0}")]
    NoSuchTenant(TenantId),
    /// Nothing brings a deleted tenant back.
    #[error("tenant {0} is deleted")]
    Deleted(TenantId),
    /// What needs no tenants needs this one.
    #[error("the default tenant can be neither suspended nor deleted")]
    DefaultStays,
}

impl SetTenantState {
    pub(crate) fn apply(self, metadata: &mut Metadata) -> Result<TenantState, SetTenantStateError> {
        if self.tenant == TenantId::DEFAULT {
            return match self.state {
                TenantState::Active => Ok(TenantState::Active),
                _ => Err(SetTenantStateError::DefaultStays),
            };
        }
        let known = metadata.tenant(self.tenant);
        let known = known.ok_or(SetTenantStateError::NoSuchTenant(self.tenant))?;
        match (known.state.is_gone(), self.state.is_gone()) {
            (true, true) => return Ok(known.state),
            (true, false) => return Err(SetTenantStateError::Deleted(self.tenant)),
            (false, _) if known.state == self.state => return Ok(known.state),
            (false, _) => {}
        }
        let mut record = known.clone();
        record.state = self.state;
        if self.state.is_gone() {
            record.keys.clear();
            record.state = match metadata.names.contains_key(&self.tenant) {
                true => TenantState::Deleting,
                false => TenantState::Deleted,
            };
        }
        let state = record.state;
        metadata.put_tenant(record);
        Ok(state)
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.tenant.number());
        self.state.write(writer);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            tenant: reader.tenant()?,
            state: TenantState::read(reader)?,
        })
    }
}

impl SetTenantStateError {
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
            Self::DefaultStays => writer.u8(3),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::NoSuchTenant(reader.tenant()?)),
            2 => Ok(Self::Deleted(reader.tenant()?)),
            3 => Ok(Self::DefaultStays),
            kind => Err(unknown("error of setting a tenant's state", kind)),
        }
    }
}
