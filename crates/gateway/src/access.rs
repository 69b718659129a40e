//! Who is asking: the one place where a request is turned into a tenant, before anything else is
//! made of it.
//!
//! A signature is judged in two steps. [`Access::admit`] sees the request's head: form, date, scope and
//! key, so that nobody's body is read who has no key. [`Admitted::prove`] sees the body too, and only
//! it gives the tenant away.
//!
//! A key is of this node's configuration or of the metadata. A tenant that is suspended there may ask
//! for nothing with either.

use std::collections::HashMap;
use std::sync::Arc;

use hikyaku_cluster::{Clock, Node};
use hikyaku_metadata::{AccessKeyState, SealingKeys, TenantId, TenantState};
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
    Anyone(Arc<Tenant>),
    Keys(Box<Keys>),
}

struct Keys {
    /// Those of this node's configuration, by the ids of their keys. They come before the metadata's: who
    /// writes a node's configuration could do anything there.
    holders: HashMap<String, Holder>,
    /// What opens the secrets of the metadata's keys; without, none of those is good here.
    sealing: Option<SealingKeys>,
    region: Option<String>,
    clock: Arc<dyn Clock>,
}

/// A key and whose it is.
#[derive(Clone)]
struct Holder {
    key: Arc<AccessKey>,
    tenant: Arc<Tenant>,
}

/// Why a key is not good.
enum NoHolder {
    /// As the client is told.
    Refused(Refusal),
    /// Whether it is good, this node cannot tell; another may.
    Unknown,
}

impl From<Refusal> for NoHolder {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
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
        Self(Kind::Anyone(Arc::new(Tenant::new(TenantId::DEFAULT))))
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
            let holder = Holder {
                key: Arc::new(key),
                tenant: Arc::new(Tenant::new(tenant)),
            };
            let before = holders.insert(id, holder);
            assert!(before.is_none(), "an access key id names one key");
        }
        Self(Kind::Keys(Box::new(Keys {
            holders,
            sealing: None,
            region,
            clock,
        })))
    }

    /// Makes the holder of a key a user, who may do what this policy allows, instead of the account's
    /// root. Nothing if there is no such key, or no user can have this name.
    #[must_use]
    pub fn with_user(mut self, key: &str, name: &str, policy: IdentityPolicy) -> Option<Self> {
        let Kind::Keys(keys) = &mut self.0 else {
            return None;
        };
        let tenant = &mut keys.holders.get_mut(key)?.tenant;
        let mut user = Tenant::clone(tenant);
        user.principal = Principal::user(user.account.clone(), name)?;
        user.policy = Some(policy);
        *tenant = Arc::new(user);
        Some(self)
    }

    /// Whoever signs with an access key of the metadata may ask too, whose secret these keys open. Nothing
    /// changes where anyone may ask.
    #[must_use]
    pub fn with_sealing_keys(mut self, sealing: SealingKeys) -> Self {
        if let Kind::Keys(keys) = &mut self.0 {
            keys.sealing = Some(sealing);
        }
        self
    }

    /// Judges the head of a request, by what the node knows once there is one.
    pub(crate) fn admit(&self, request: &Parts, node: Option<&Node>) -> Result<Admitted, SqsError> {
        match &self.0 {
            Kind::Anyone(tenant) => Ok(Admitted {
                tenant: Arc::clone(tenant),
                claim: None,
            }),
            Kind::Keys(keys) => keys.admit(request, node).map_err(|none| match none {
                NoHolder::Refused(refusal) => refused(&refusal),
                NoHolder::Unknown => SqsError::service_unavailable(),
            }),
        }
    }
}

impl Keys {
    fn admit(&self, request: &Parts, node: Option<&Node>) -> Result<Admitted, NoHolder> {
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
        let holder = self.holder(claim.access_key_id(), node)?;
        Ok(Admitted {
            tenant: holder.tenant,
            claim: Some(claim.bind(holder.key)?),
        })
    }

    fn holder(&self, id: &str, node: Option<&Node>) -> Result<Holder, NoHolder> {
        match self.holders.get(id) {
            Some(holder) => {
                let tenant = node.and_then(|node| node.catalogue().tenant(holder.tenant.id));
                match tenant.is_none_or(|it| it.state == TenantState::Active) {
                    true => Ok(holder.clone()),
                    false => Err(Refusal::InactiveAccessKey.into()),
                }
            }
            None => self.metadata_holder(id, node),
        }
    }

    /// The holder of a key of the metadata, as this node has heard of it.
    fn metadata_holder(&self, id: &str, node: Option<&Node>) -> Result<Holder, NoHolder> {
        let owner = node.and_then(|node| node.catalogue().owner_of_key(id));
        let Some(sealing) = &self.sealing else {
            if owner.is_some() {
                tracing::debug!(key = id, "no sealing key here: a client cannot be believed");
                return Err(NoHolder::Unknown);
            }
            return Err(Refusal::UnknownAccessKey.into());
        };
        if !node.is_some_and(Node::knows_access_keys) {
            return Err(NoHolder::Unknown);
        }
        let owner = owner.ok_or(Refusal::UnknownAccessKey)?;
        let key = owner.keys.get(id).ok_or(Refusal::UnknownAccessKey)?;
        if owner.state != TenantState::Active || key.state != AccessKeyState::Active {
            return Err(Refusal::InactiveAccessKey.into());
        }
        let secret = sealing.open(owner.tenant, id, &key.sealed);
        let secret = secret.map_err(|error| {
            tracing::warn!(key = id, %error, "the secret of an access key stays sealed");
            NoHolder::Unknown
        })?;
        let key = AccessKey::new(id, secret).map_err(|_| Refusal::UnknownAccessKey)?;
        Ok(Holder {
            key: Arc::new(key),
            tenant: Arc::new(Tenant::new(owner.tenant)),
        })
    }
}

/// A request whose head is in order.
pub(crate) struct Admitted {
    tenant: Arc<Tenant>,
    /// What is left to prove; nothing where anyone may ask.
    claim: Option<BoundClaim<Arc<AccessKey>>>,
}

impl Admitted {
    /// Judges the request whole: the tenant it is for, or why it is for none.
    pub(crate) fn prove(self, body: &[u8]) -> Result<Caller, SqsError> {
        if let Some(claim) = &self.claim {
            claim.verify(body).map_err(|refusal| refused(&refusal))?;
        }
        Ok(Caller(self))
    }
}

/// Whoever made a request, beyond doubt.
pub(crate) struct Caller(Admitted);

impl Caller {
    /// Whose requests it counts among.
    pub(crate) fn tenant_id(&self) -> TenantId {
        self.0.tenant.id
    }

    /// The tenant, if the request was signed for this service.
    pub(crate) fn tenant_at(&self, service: Service) -> Result<&Tenant, SqsError> {
        match &self.0.claim {
            Some(claim) if claim.service() != service.name() => {
                Err(refused(&Refusal::ScopeService))
            }
            Some(_) | None => Ok(&self.0.tenant),
        }
    }
}

/// What the client is told of it. The refusal names parts of a request, and shows none that are
/// secret.
fn refused(refusal: &Refusal) -> SqsError {
    tracing::debug!(%refusal, "not authenticated");
    refusal.to_error()
}
