//! Tenants and access keys, as an operator and the front use them.

use std::sync::Arc;
use std::time::Duration;

use hikyaku_metadata::{
    ChangeAccessKey, ChangeAccessKeyError, Command, CreateAccessKey, CreateAccessKeyError,
    CreateTenant, CreateTenantError, Reply, SetTenantState, SetTenantStateError, TenantRecord,
    TenantState,
};

use crate::control::ControlUnavailable;
use crate::node::Node;
use crate::queues::{ControlError, unexpected};

/// For how long a node that hears nothing of the metadata goes on believing the access keys in them:
/// longer than an election, and as long as a key that is revoked may live on at a node that is cut off.
const BELIEVED_FOR: Duration = Duration::from_secs(15);

impl Node {
    /// Whether this node knows which access keys are good.
    pub fn knows_access_keys(&self) -> bool {
        let heard = self.control().heard();
        heard.is_some_and(|age| age <= BELIEVED_FOR)
    }

    /// Every tenant that has a record as of now, with the number of its queues.
    pub async fn read_tenants(
        &self,
    ) -> Result<Vec<(Arc<TenantRecord>, usize)>, ControlUnavailable> {
        self.control().barrier().await?;
        Ok(self.catalogue().tenants())
    }

    /// Creates a tenant; says whether it was there before.
    pub async fn create_tenant(
        &self,
        create: CreateTenant,
    ) -> Result<bool, ControlError<CreateTenantError>> {
        let executed = self.control().execute(Command::CreateTenant(create));
        match executed.await?.reply {
            Reply::TenantCreated(result) => result.map_err(ControlError::Refused),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Sets a tenant's state; gives the one that it has now.
    pub async fn set_tenant_state(
        &self,
        set: SetTenantState,
    ) -> Result<TenantState, ControlError<SetTenantStateError>> {
        let executed = self.control().execute(Command::SetTenantState(set));
        match executed.await?.reply {
            Reply::TenantStateSet(result) => result.map_err(ControlError::Refused),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Adds an access key.
    pub async fn create_access_key(
        &self,
        create: CreateAccessKey,
    ) -> Result<(), ControlError<CreateAccessKeyError>> {
        let executed = self.control().execute(Command::CreateAccessKey(create));
        match executed.await?.reply {
            Reply::AccessKeyCreated(result) => result.map_err(ControlError::Refused),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Enables, disables or deletes an access key.
    pub async fn change_access_key(
        &self,
        change: ChangeAccessKey,
    ) -> Result<(), ControlError<ChangeAccessKeyError>> {
        let executed = self.control().execute(Command::ChangeAccessKey(change));
        match executed.await?.reply {
            Reply::AccessKeyChanged(result) => result.map_err(ControlError::Refused),
            reply => Err(unexpected(&reply)),
        }
    }
}
