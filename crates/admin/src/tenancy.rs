//! Tenants and access keys, as an operator asks for them.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::display::Base64Display;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hikyaku_cluster::{ControlError, ControlUnavailable, Entropy, Node};
use hikyaku_metadata::{
    AccessKeyRecord, AccessKeyState, ChangeAccessKey, ChangeAccessKeyError, CreateAccessKey,
    CreateAccessKeyError, CreateTenant, CreateTenantError, DEFAULT_TENANT_NAME, SealingKeys,
    SetTenantState, SetTenantStateError, TenantId, TenantRecord, TenantState,
};
use hikyaku_proto::admin as wire;
use hikyaku_proto::admin::AccessKeyChange;
use tonic::Status;
use zeroize::Zeroizing;

use crate::view;

/// Bytes of a secret that are drawn: 240 random bits in 40 characters, as many as AWS's have.
const SECRET_BYTES: usize = 30;

/// What ids of access keys begin with, and how many characters follow.
const KEY_PREFIX: &str = "HIKY";
const KEY_DRAWN: usize = 16;

/// The letters of ids: 32, so that each stands for five random bits.
const KEY_LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Ids of tenants are drawn from here on, as long as AWS's accounts.
const FIRST_DRAWN: u64 = 100_000_000_000;
const DRAWN_LIMIT: u64 = 1_000_000_000_000;

/// A tenant as it is known, or the default one that has no record yet.
fn shown(node: &Node, tenant: TenantId) -> Option<wire::Tenant> {
    let queues = node.catalogue().list(tenant, "", None, usize::MAX).len();
    match node.catalogue().tenant(tenant) {
        Some(record) => Some(view::tenant(&record, queues)),
        None if tenant == TenantId::DEFAULT => Some(wire::Tenant {
            tenant: tenant.to_string(),
            name: DEFAULT_TENANT_NAME.to_owned(),
            state: wire::TenantState::Active.into(),
            created_at_ms: 0,
            queues: view::count(queues),
            keys: 0,
        }),
        None => None,
    }
}

fn shown_now(node: &Node, tenant: TenantId) -> Result<wire::Tenant, Status> {
    // The copy shows what was just done.
    shown(node, tenant).ok_or_else(|| Status::internal("the tenant is not shown yet"))
}

/// Creates a tenant, or finds the one of that name.
pub async fn create_tenant(
    node: &Node,
    request: wire::CreateTenantRequest,
) -> Result<wire::CreateTenantResponse, Status> {
    let given = match request.tenant.is_empty() {
        true => None,
        false => Some(id(&request.tenant)?),
    };
    let create = CreateTenant {
        tenant: given.unwrap_or_else(|| draw_tenant(node.entropy())),
        name: request.name,
    };
    let (mut tenant, name) = (create.tenant, create.name.clone());
    let existed = match node.create_tenant(create).await {
        Ok(existed) => existed,
        Err(ControlError::Refused(CreateTenantError::NameTaken(owner))) if given.is_none() => {
            tenant = owner;
            true
        }
        Err(ControlError::Refused(refused)) => return Err(tenant_refused(&refused)),
        Err(ControlError::Unavailable(error)) => return Err(unavailable(error)),
    };
    if !existed {
        tracing::info!(%tenant, name, "an operator created a tenant");
    }
    Ok(wire::CreateTenantResponse {
        tenant: Some(shown_now(node, tenant)?),
        existed,
    })
}

/// Every tenant, the default one first.
pub async fn list_tenants(node: &Node) -> Result<wire::ListTenantsResponse, Status> {
    let tenants = node.read_tenants().await.map_err(unavailable)?;
    let default = shown(node, TenantId::DEFAULT);
    let others = tenants
        .iter()
        .filter(|(record, _)| record.tenant != TenantId::DEFAULT)
        .map(|(record, queues)| view::tenant(record, *queues));
    Ok(wire::ListTenantsResponse {
        tenants: default.into_iter().chain(others).collect(),
    })
}

/// Suspends, resumes or deletes a tenant.
pub async fn set_tenant_state(
    node: &Node,
    request: wire::SetTenantStateRequest,
) -> Result<wire::SetTenantStateResponse, Status> {
    let state = view::tenant_state_of(request.state);
    let state = state.ok_or_else(|| Status::invalid_argument("there is no such state"))?;
    let tenant = find(node, &request.tenant).await?;
    let set = node.set_tenant_state(SetTenantState { tenant, state });
    let now = match set.await {
        Ok(now) => now,
        Err(ControlError::Refused(refused)) => return Err(state_refused(&refused)),
        Err(ControlError::Unavailable(error)) => return Err(unavailable(error)),
    };
    tracing::info!(%tenant, wanted = %state, %now, "an operator set a tenant's state");
    Ok(wire::SetTenantStateResponse {
        tenant: Some(shown_now(node, tenant)?),
    })
}

/// Draws an access key, and tells its secret for the only time.
pub async fn create_access_key(
    node: &Node,
    sealing: Option<&SealingKeys>,
    request: wire::CreateAccessKeyRequest,
) -> Result<wire::CreateAccessKeyResponse, Status> {
    let sealing = sealing.ok_or_else(|| {
        Status::failed_precondition(
            "this node has no key to seal secrets with: set auth.sealing_key_file, to the same file on \
             every node, and start them again; `openssl rand -hex 64` makes one",
        )
    })?;
    let tenant = find(node, &request.tenant).await?;
    let key = draw_key(node.entropy());
    let secret = draw_secret(node.entropy());
    let create = CreateAccessKey {
        tenant,
        key: key.clone(),
        sealed: sealing.seal(tenant, &key, &secret),
        description: request.description,
    };
    match node.create_access_key(create).await {
        Ok(()) => {}
        Err(ControlError::Refused(refused)) => return Err(key_refused(&refused)),
        Err(ControlError::Unavailable(error)) => return Err(unavailable(error)),
    }
    tracing::info!(%tenant, key, "an operator created an access key");
    let owner = node.catalogue().owner_of_key(&key);
    let record = owner.as_ref().and_then(|owner| owner.keys.get(&key));
    // Somebody may have deleted it at once.
    let record = record.ok_or_else(|| Status::aborted("the access key is gone already"))?;
    Ok(wire::CreateAccessKeyResponse {
        key: Some(view::access_key(tenant, &key, record)),
        secret: String::clone(&secret),
    })
}

/// The access keys of a tenant, or of all.
pub async fn list_access_keys(
    node: &Node,
    request: wire::ListAccessKeysRequest,
) -> Result<wire::ListAccessKeysResponse, Status> {
    let only = match request.tenant.is_empty() {
        true => None,
        false => Some(find(node, &request.tenant).await?),
    };
    let tenants = node.read_tenants().await.map_err(unavailable)?;
    let of = |record: &Arc<TenantRecord>| {
        let keys = record.keys.iter();
        let shown =
            |(key, held): (&String, &AccessKeyRecord)| view::access_key(record.tenant, key, held);
        keys.map(shown).collect::<Vec<_>>()
    };
    let wanted = tenants
        .iter()
        .filter(|(record, _)| only.is_none_or(|only| record.tenant == only));
    Ok(wire::ListAccessKeysResponse {
        keys: wanted.flat_map(|(record, _)| of(record)).collect(),
    })
}

/// Enables, disables or deletes an access key.
pub async fn change_access_key(
    node: &Node,
    request: wire::ChangeAccessKeyRequest,
) -> Result<wire::ChangeAccessKeyResponse, Status> {
    let change = request.change();
    let state = match change {
        AccessKeyChange::Unspecified => {
            return Err(Status::invalid_argument("there is no such change"));
        }
        AccessKeyChange::Enable => Some(AccessKeyState::Active),
        AccessKeyChange::Disable => Some(AccessKeyState::Disabled),
        AccessKeyChange::Delete => None,
    };
    let key = request.key;
    let changed = ChangeAccessKey {
        key: key.clone(),
        state,
    };
    match node.change_access_key(changed).await {
        Ok(()) => {}
        Err(ControlError::Refused(refused @ ChangeAccessKeyError::NoSuchKey)) => {
            return Err(Status::not_found(refused.to_string()));
        }
        Err(ControlError::Unavailable(error)) => return Err(unavailable(error)),
    }
    tracing::info!(key, ?change, "an operator changed an access key");
    Ok(wire::ChangeAccessKeyResponse {})
}

/// The tenant that is meant, by its id or its name, as of now. One without a record is meant by its id.
async fn find(node: &Node, meant: &str) -> Result<TenantId, Status> {
    if let Ok(tenant) = TenantId::parse(meant) {
        return Ok(tenant);
    }
    if meant == DEFAULT_TENANT_NAME {
        return Ok(TenantId::DEFAULT);
    }
    let tenants = node.read_tenants().await.map_err(unavailable)?;
    let mut living = tenants
        .iter()
        .filter(|(record, _)| record.state != TenantState::Deleted);
    let found = living.find(|(record, _)| record.name == meant);
    let none = || Status::not_found(format!("there is no tenant {meant:?}"));
    found.map(|(record, _)| record.tenant).ok_or_else(none)
}

fn id(text: &str) -> Result<TenantId, Status> {
    TenantId::parse(text).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn draw_tenant(entropy: &dyn Entropy) -> TenantId {
    let drawn = entropy.draw_nonzero_u64() % (DRAWN_LIMIT - FIRST_DRAWN);
    let text = (FIRST_DRAWN + drawn).to_string();
    TenantId::parse(&text).expect("twelve digits were drawn")
}

fn draw_key(entropy: &dyn Entropy) -> String {
    let mut drawn = [0; KEY_DRAWN];
    entropy.fill(&mut drawn);
    let letters = drawn.iter().map(|byte| KEY_LETTERS[usize::from(byte % 32)]);
    let mut key = KEY_PREFIX.to_owned();
    key.extend(letters.map(char::from));
    key
}

fn draw_secret(entropy: &dyn Entropy) -> Zeroizing<String> {
    let mut drawn = Zeroizing::new([0; SECRET_BYTES]);
    entropy.fill(&mut *drawn);
    let mut secret = Zeroizing::new(String::with_capacity(SECRET_BYTES / 3 * 4));
    let text = Base64Display::new(&*drawn, &URL_SAFE_NO_PAD);
    write!(secret, "{text}").expect("a text takes what is written");
    secret
}

fn unavailable(error: ControlUnavailable) -> Status {
    Status::unavailable(error.to_string())
}

fn tenant_refused(error: &CreateTenantError) -> Status {
    let text = error.to_string();
    match error {
        CreateTenantError::InvalidName => Status::invalid_argument(text),
        CreateTenantError::IdTaken
        | CreateTenantError::NameTaken(_)
        | CreateTenantError::TooMany => Status::failed_precondition(text),
    }
}

fn state_refused(error: &SetTenantStateError) -> Status {
    let text = error.to_string();
    match error {
        SetTenantStateError::NoSuchTenant(_) => Status::not_found(text),
        SetTenantStateError::Deleted(_) | SetTenantStateError::DefaultStays => {
            Status::failed_precondition(text)
        }
    }
}

fn key_refused(error: &CreateAccessKeyError) -> Status {
    let text = error.to_string();
    match error {
        CreateAccessKeyError::NoSuchTenant(_) => Status::not_found(text),
        CreateAccessKeyError::TooLong => Status::invalid_argument(text),
        CreateAccessKeyError::Deleted(_)
        | CreateAccessKeyError::IdTaken
        | CreateAccessKeyError::TooMany
        | CreateAccessKeyError::TooManyInAll => Status::failed_precondition(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{draw_key, draw_secret, draw_tenant};
    use hikyaku_cluster::SystemEntropy;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_drawn_has_the_form_of_aws_and_is_drawn_once() {
        let mut drawn = BTreeSet::new();
        for _ in 0..100 {
            let tenant = draw_tenant(&SystemEntropy).to_string();
            assert!(!tenant.starts_with('0'), "{tenant}");
            let key = draw_key(&SystemEntropy);
            assert_eq!(key.len(), 20);
            assert!(
                key.bytes().all(|byte| byte.is_ascii_alphanumeric()),
                "{key}"
            );
            let secret = draw_secret(&SystemEntropy);
            assert_eq!(secret.len(), 40);
            assert!(drawn.insert(tenant) && drawn.insert(key) && drawn.insert(secret.to_string()));
        }
    }
}
