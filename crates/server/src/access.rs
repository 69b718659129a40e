//! Who may ask this node: secrets are read from where they are kept, once, at the start.

use crate::config::{Config, Secret, check_secret};
use hikyaku_cluster::Clock;
use hikyaku_gateway::Access;
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
}

/// Reads the secrets and says who may ask.
pub(crate) fn of(config: &Config, clock: Arc<dyn Clock>) -> Result<Access, AccessError> {
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
    Ok(Access::of_keys(keys, region, clock))
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
    use super::{AccessError, read};

    const SECRET: &str = "cGxhbnRlZC1zZWNyZXQtb2YtdGhlLXRlc3Rz";

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
