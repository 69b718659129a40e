//! Who is asking: the one place where a request is turned into a tenant, before anything else is
//! made of it.
//!
//! A signature is judged in two steps. [`Access::admit`] sees the request's head: form, date, scope and
//! key, so that nobody's body is read who has no key. [`Admitted::prove`] sees the body too, and only
//! it gives the tenant away.

use std::collections::HashMap;
use std::sync::Arc;

use hikyaku_cluster::Clock;
use hikyaku_metadata::TenantId;
use hikyaku_sqs::error::SqsError;
use hikyaku_sqs::policy::{IdentityPolicy, Principal};
use hikyaku_sqs::sigv4::key::AccessKey;
use hikyaku_sqs::sigv4::refusal::Refusal;
use hikyaku_sqs::sigv4::{BoundClaim, Claim, Policy, RequestHead, SQS, STS};
use http::request::Parts;

use crate::tenant::Tenant;

/// Who may ask.
pub struct Access(Kind);

enum Kind {
    /// Everyone is the same tenant.
    Anyone(Tenant),
    Keys(Keys),
}

struct Keys {
    /// By the ids of their keys.
    holders: HashMap<String, Holder>,
    region: Option<String>,
    clock: Arc<dyn Clock>,
}

/// A key and whose it is.
struct Holder {
    key: AccessKey,
    tenant: Tenant,
}

/// The service that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// The queues.
    Sqs,
    /// Who is asking.
    Sts,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::Sqs => SQS,
            Self::Sts => STS,
        }
    }
}

impl Access {
    /// Anyone may ask, with any credentials or none, and is the default tenant. For development: who
    /// reaches the port owns the queues.
    #[must_use]
    pub fn anyone() -> Self {
        Self(Kind::Anyone(Tenant::new(TenantId::DEFAULT)))
    }

    /// Whoever signs with one of these keys may ask. With a region, only signatures for it are good.
    #[must_use]
    pub fn of_keys(
        keys: impl IntoIterator<Item = (TenantId, AccessKey)>,
        region: Option<String>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut holders = HashMap::new();
        for (tenant, key) in keys {
            let id = key.id().to_owned();
            let tenant = Tenant::new(tenant);
            let before = holders.insert(id, Holder { key, tenant });
            assert!(before.is_none(), "an access key id names one key");
        }
        Self(Kind::Keys(Keys {
            holders,
            region,
            clock,
        }))
    }

    /// Makes the holder of a key a user, who may do what this policy allows, instead of the account's
    /// root. Nothing if there is no such key, or no user can have this name.
    #[must_use]
    pub fn with_user(mut self, key: &str, name: &str, policy: IdentityPolicy) -> Option<Self> {
        let Kind::Keys(keys) = &mut self.0 else {
            return None;
        };
        let tenant = &mut keys.holders.get_mut(key)?.tenant;
        tenant.principal = Principal::user(tenant.account.clone(), name)?;
        tenant.policy = Some(policy);
        Some(self)
    }

    /// Judges the head of a request.
    pub(crate) fn admit(&self, request: &Parts) -> Result<Admitted<'_>, SqsError> {
        match &self.0 {
            Kind::Anyone(tenant) => Ok(Admitted {
                tenant,
                claim: None,
            }),
            Kind::Keys(keys) => keys.admit(request).map_err(|refusal| refused(&refusal)),
        }
    }
}

impl Keys {
    fn admit(&self, request: &Parts) -> Result<Admitted<'_>, Refusal> {
        let headers = request.headers.iter();
        let headers: Vec<(&str, &[u8])> = headers
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let head = RequestHead {
            method: request.method.as_str(),
            path: request.uri.path(),
            query: request.uri.query(),
            headers: &headers,
        };
        let policy = Policy {
            now_ms: self.clock.wall_ms(),
            region: self.region.as_deref(),
            services: &[SQS, STS],
        };
        let claim = Claim::read(&head, &policy)?;
        let holder = self.holders.get(claim.access_key_id());
        let holder = holder.ok_or(Refusal::UnknownAccessKey)?;
        Ok(Admitted {
            tenant: &holder.tenant,
            claim: Some(claim.bind(&holder.key)?),
        })
    }
}

/// A request whose head is in order.
pub(crate) struct Admitted<'a> {
    tenant: &'a Tenant,
    /// What is left to prove; nothing where anyone may ask.
    claim: Option<BoundClaim<'a>>,
}

impl<'a> Admitted<'a> {
    /// Judges the request whole: the tenant it is for, or why it is for none.
    pub(crate) fn prove(self, body: &[u8]) -> Result<Caller<'a>, SqsError> {
        if let Some(claim) = &self.claim {
            claim.verify(body).map_err(|refusal| refused(&refusal))?;
        }
        Ok(Caller(self))
    }
}

/// Whoever made a request, beyond doubt.
pub(crate) struct Caller<'a>(Admitted<'a>);

impl<'a> Caller<'a> {
    /// Whose requests it counts among.
    pub(crate) fn tenant_id(&self) -> TenantId {
        self.0.tenant.id
    }

    /// The tenant, if the request was signed for this service.
    pub(crate) fn tenant_at(&self, service: Service) -> Result<&'a Tenant, SqsError> {
        match &self.0.claim {
            Some(claim) if claim.service() != service.name() => {
                Err(refused(&Refusal::ScopeService))
            }
            Some(_) | None => Ok(self.0.tenant),
        }
    }
}

/// What the client is told of it. The refusal names parts of a request, and shows none that are
/// secret.
fn refused(refusal: &Refusal) -> SqsError {
    tracing::debug!(%refusal, "not authenticated");
    refusal.to_error()
}
