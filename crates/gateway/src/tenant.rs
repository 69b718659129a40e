//! Who is asking: the one place where a request is turned into a tenant.
//!
//! Signatures are not checked yet: any credentials, or none, are the default tenant's.

use hikyaku_metadata::TenantId;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::queue_name::AccountId;
use http::request::Parts;

/// The owner of queues on whose behalf a request is made.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    /// As the metadata knows it.
    pub(crate) id: TenantId,
    /// As URLs and ARNs carry it, and as a message's `SenderId`.
    pub(crate) account: AccountId,
}

impl Tenant {
    /// The tenant of a cluster whose owner never asked for tenants.
    pub(crate) fn default_tenant() -> Self {
        let id = TenantId::DEFAULT;
        let account = AccountId::try_new(&id.to_string());
        Self {
            id,
            account: account.expect("a tenant is written as twelve digits"),
        }
    }
}

/// Decides who is asking, before the body is read.
pub(crate) struct Authenticator {
    default: Tenant,
}

impl Authenticator {
    pub(crate) fn new() -> Self {
        Self {
            default: Tenant::default_tenant(),
        }
    }

    /// The tenant that this request is for, or why it is for none.
    pub(crate) fn authenticate(&self, _request: &Parts) -> Result<&Tenant, SqsError> {
        Ok(&self.default)
    }
}
