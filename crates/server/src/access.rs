//! Who may ask this node: secrets are read from where they are kept, once, at the start.

use crate::config::{Config, ConfiguredUser, Secret, check_secret};
use hikyaku_cluster::Clock;
use hikyaku_gateway::Access;
use hikyaku_metadata::SealingKeys;
use hikyaku_sqs::policy::{IdentityPolicy, PolicyFault};
use hikyaku_sqs::sigv4::key::{AccessKey, InvalidAccessKeyId};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Why an access key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file of its secret cannot be read.
    #[error("cannot read the secret of an access key from {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file of its secret holds something else.
    #[error("cannot use {} as the secret of an access key: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Its id is none.
    #[error(transparent)]
    Id(#[from] InvalidAccessKeyId),
    /// The file of a user's policy cannot be read.
    #[error("cannot read the policy of a user from {}: {source}", path.display())]
    ReadPolicy {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file of a user's policy holds something else.
    #[error("cannot use {} as the policy of a user: {fault}", path.display())]
    Policy {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: PolicyFault,
    },
    /// A user's name is none.
    #[error("a user cannot be called {0:?}: 1 to 64 letters, digits and +=,.@_-")]
    UserName(String),
}

/// Reads the secrets and says who may ask.
pub(crate) fn of(
    config: &Config,
    sealing: Option<SealingKeys>,
    clock: Arc<dyn Clock>,
) -> Result<Access, AccessError> {
    let auth = &config.auth;
    if auth.accept_any_credentials {
        if !config.listen.ip().is_loopback() {
            tracing::warn!(listen = %config.listen, "whoever reaches the port may do everything");
        }
        return Ok(Access::anyone());
    }
    let mut keys = Vec::new();
    for key in &auth.keys {
        let secret = match &key.secret {
            Secret::Given(secret) => secret.clone(),
            Secret::File(path) => read(path)?,
        };
        keys.push((key.tenant, AccessKey::new(&key.access_key_id, secret)?));
    }
    let region = auth.strict_region.then(|| config.region.clone());
    let mut access = Access::of_keys(keys, region, clock);
    if let Some(sealing) = sealing {
        access = access.with_sealing_keys(sealing);
    }
    with_users(access, &auth.users)
}

fn with_users(mut access: Access, users: &[ConfiguredUser]) -> Result<Access, AccessError> {
    for user in users {
        let path = user.policy_file.clone();
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|source| AccessError::ReadPolicy {
            path: path.clone(),
            source,
        })?;
        let policy = IdentityPolicy::parse(&text);
        let policy = policy.map_err(|fault| AccessError::Policy { path, fault })?;
        // The configuration was checked: every user has a key.
        let with_user = access.with_user(&user.access_key_id, &user.name, policy);
        access = with_user.ok_or_else(|| AccessError::UserName(user.name.clone()))?;
    }
    Ok(access)
}

fn read(path: &Path) -> Result<Zeroizing<String>, AccessError> {
    let text = std::fs::read_to_string(path).map_err(|source| AccessError::Read {
        path: path.to_owned(),
        source,
    })?;
    let text = Zeroizing::new(text);
    let secret = Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned());
    check_secret(&secret).map_err(|reason| AccessError::Unusable {
        path: path.to_owned(),
        reason,
    })?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::{AccessError, read, with_users};
    use crate::config::ConfiguredUser;
    use hikyaku_cluster::SystemClock;
    use hikyaku_gateway::Access;
    use hikyaku_metadata::TenantId;
    use hikyaku_sqs::sigv4::key::AccessKey;
    use std::sync::Arc;
    use zeroize::Zeroizing;

    const SECRET: &str = "cGxhbnRlZC1zZWNyZXQtb2YtdGhlLXRlc3Rz";

    #[test]
    fn a_user_has_the_policy_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let policy_file = directory.path().join("policy.json");
        let user = |name: &str| ConfiguredUser {
            access_key_id: "AKIAONE".to_owned(),
            name: name.to_owned(),
            policy_file: policy_file.clone(),
        };
        let access = |user: ConfiguredUser| {
            let secret = Zeroizing::new(SECRET.to_owned());
            let key = (
                TenantId::DEFAULT,
                AccessKey::new("AKIAONE", secret).unwrap(),
            );
            let access = Access::of_keys([key], None, Arc::new(SystemClock::new()));
            with_users(access, &[user]).err()
        };
        assert!(matches!(
            access(user("ann")),
            Some(AccessError::ReadPolicy { .. })
        ));
        let open = r#"{"Statement":{"Effect":"Allow","Action":"sqs:*","Resource":"*"}}"#;
        std::fs::write(&policy_file, open).unwrap();
        assert!(access(user("ann")).is_none());
        assert!(matches!(
            access(user("a b")),
            Some(AccessError::UserName(_))
        ));
        std::fs::write(&policy_file, open.replace("Allow", "Permit")).unwrap();
        let told = access(user("ann")).unwrap().to_string();
        assert!(told.ends_with("Effect cannot be Permit"), "{told}");
    }

    #[test]
    fn a_secret_is_the_text_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        for end in ["", "\n", "\r\n"] {
            std::fs::write(&path, format!("{SECRET}{end}")).unwrap();
            assert_eq!(*read(&path).unwrap(), SECRET);
        }
        for text in [
            "",
            "short",
            &format!("{SECRET} {SECRET}"),
            &format!("{SECRET}\n\n{SECRET}"),
        ] {
            std::fs::write(&path, text).unwrap();
            let refusal = read(&path).unwrap_err();
            assert!(matches!(refusal, AccessError::Unusable { .. }));
            assert!(!format!("{refusal} {refusal:?}").contains(SECRET));
        }
        let absent = read(&directory.path().join("absent"));
        assert!(matches!(absent, Err(AccessError::Read { .. })));
    }
}
