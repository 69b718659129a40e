//! On whose behalf a request is made.

use hikyaku_metadata::TenantId;
use hikyaku_sqs::queue_name::AccountId;

/// The owner of queues on whose behalf a request is made.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    /// As the metadata knows it.
    pub(crate) id: TenantId,
    /// As URLs and ARNs carry it, and as a message's `SenderId`.
    pub(crate) account: AccountId,
}

impl Tenant {
    /// The tenant of this id.
    pub(crate) fn new(id: TenantId) -> Self {
        let account = AccountId::try_new(&id.to_string());
        Self {
            id,
            account: account.expect("a tenant is written as twelve digits"),
        }
    }
}
