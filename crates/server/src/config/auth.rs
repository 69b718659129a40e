//! Who may ask for anything, as it is configured.
//!
//! A key is written `TENANT:ACCESS_KEY_ID:SECRET`, or with `@FILE` in the secret's place; in a file,
//! as a table of `[[auth.keys]]`. A secret is never shown again: not with the configuration, not in an
//! error about it.

use super::users::ConfiguredUser;
use super::value::Value;
use hikyaku_metadata::TenantId;
use hikyaku_sqs::sigv4::key::AccessKey;
use std::fmt;
use std::path::PathBuf;
use toml::Value as Toml;
use zeroize::Zeroizing;

/// Who may ask for anything.
#[derive(Clone, Debug, Default)]
pub struct AuthConfig {
    /// Signatures are not looked at, and everyone is the default tenant.
    pub accept_any_credentials: bool,
    /// Only signatures for the configured region are good.
    pub strict_region: bool,
    /// What seals the secrets of the access keys that operators create, in a file; without it this node
    /// creates none and believes none of them.
    pub sealing_key_file: Option<PathBuf>,
    /// The keys that requests may be signed with.
    pub keys: Vec<ConfiguredKey>,
    /// Which of the keys are users with a policy; the others are their accounts' roots.
    pub users: Vec<ConfiguredUser>,
}

/// An access key, and whose it is.
#[derive(Clone, Debug)]
pub struct ConfiguredKey {
    /// The account that the key opens.
    pub tenant: TenantId,
    /// The id that requests name it by.
    pub access_key_id: String,
    /// The secret, or where it is.
    pub secret: Secret,
}

/// A secret, or where it is.
#[derive(Clone)]
pub enum Secret {
    /// This text.
    Given(Zeroizing<String>),
    /// What this file holds, but for the line break at its end.
    File(PathBuf),
}

/// The shortest secret, in bytes: what 256 random bits need at the least. AWS's have 40.
pub const SECRET_MIN_BYTES: usize = 32;

/// What is shown in the place of a secret.
pub(crate) const HIDDEN: &str = "(hidden)";

const EXPECTED: &str =
    "expected TENANT:ACCESS_KEY_ID:SECRET or TENANT:ACCESS_KEY_ID:@FILE, without commas in it";

const EXPECTED_TABLE: &str = "expected { tenant = \"12 DIGITS\", access_key_id = \"ID\", \
                              secret = \"SECRET\" or secret_file = \"PATH\" }";

impl Secret {
    fn show(&self) -> String {
        match self {
            Self::Given(_) => HIDDEN.to_owned(),
            Self::File(path) => format!("@{}", path.display()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.show())
    }
}

/// Checks that a secret is one that nobody guesses, as far as its form tells.
pub(crate) fn check_secret(secret: &str) -> Result<(), String> {
    if secret.len() < SECRET_MIN_BYTES {
        return Err(format!(
            "a secret needs at least {SECRET_MIN_BYTES} bytes, and random ones"
        ));
    }
    if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a secret has visible ASCII characters only".to_owned());
    }
    Ok(())
}

impl Value for ConfiguredKey {
    fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let (Some(tenant), Some(id), Some(secret)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(EXPECTED.to_owned());
        };
        let tenant = TenantId::parse(tenant).map_err(|error| error.to_string())?;
        let access_key_id = id.to_owned();
        if let Some(path) = secret.strip_prefix('@') {
            let path = PathBuf::parse(path)?;
            // Now rather than when the file is read: the id is wrong whatever is in there.
            AccessKey::new(id, Zeroizing::default()).map_err(|error| error.to_string())?;
            return Ok(Self {
                tenant,
                access_key_id,
                secret: Secret::File(path),
            });
        }
        check_secret(secret)?;
        let secret = Zeroizing::new(secret.to_owned());
        AccessKey::new(id, secret.clone()).map_err(|error| error.to_string())?;
        Ok(Self {
            tenant,
            access_key_id,
            secret: Secret::Given(secret),
        })
    }

    fn show(&self) -> String {
        let Self {
            tenant,
            access_key_id,
            secret,
        } = self;
        format!("{tenant}:{access_key_id}:{}", secret.show())
    }
}

impl Value for Vec<ConfiguredKey> {
    fn parse(text: &str) -> Result<Self, String> {
        let keys = text.split(',').map(str::trim).filter(|key| !key.is_empty());
        keys.map(ConfiguredKey::parse).collect()
    }

    fn show(&self) -> String {
        let keys: Vec<String> = self.iter().map(ConfiguredKey::show).collect();
        keys.join(",")
    }
}

/// Turns tables of keys into the one text that all layers have.
pub(super) fn key_list(keys: &[Toml]) -> Result<String, String> {
    let texts: Option<Vec<String>> = keys.iter().map(key_text).collect();
    texts
        .map(|texts| texts.join(","))
        .ok_or_else(|| EXPECTED_TABLE.to_owned())
}

fn key_text(key: &Toml) -> Option<String> {
    let fields = key.as_table()?;
    let text = |name: &str| fields.get(name).and_then(Toml::as_str);
    let secret = match (text("secret"), text("secret_file")) {
        (Some(secret), None) if !secret.starts_with('@') => secret.to_owned(),
        (None, Some(path)) => format!("@{path}"),
        (Some(_), _) | (None, None) => return None,
    };
    let text = format!("{}:{}:{secret}", text("tenant")?, text("access_key_id")?);
    (fields.len() == 3 && !text.contains(',')).then_some(text)
}
