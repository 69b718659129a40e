//! On whose behalf a request is made, and as whom.

use hikyaku_metadata::TenantId;
use hikyaku_sqs::policy::{IdentityPolicy, Principal};
use hikyaku_sqs::queue_name::AccountId;

/// The owner of queues on whose behalf a request is made.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    /// As the metadata knows it.
    pub(crate) id: TenantId,
    /// As URLs and ARNs carry it, and as a message's `SenderId`.
    pub(crate) account: AccountId,
    /// Who of the tenant's it is: its root, or a user.
    pub(crate) principal: Principal,
    /// What the user may do; a root has no policy of its own.
    pub(crate) policy: Option<IdentityPolicy>,
}

impl Tenant {
    /// The tenant of this id, by its root.
    pub(crate) fn new(id: TenantId) -> Self {
        let account = AccountId::try_new(&id.to_string());
        let account = account.expect("a tenant is written as twelve digits");
        Self {
            id,
            principal: Principal::root(account.clone()),
            account,
            policy: None,
        }
    }
}
