//! Access keys: a public id and a secret that leaves this file only as signatures.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::Scope;
use super::refusal::Refusal;

type HmacSha256 = Hmac<Sha256>;

/// The longest id, in characters, as IAM has it.
const ID_MAX: usize = 128;

/// The key of one client: shown by its id alone, wiped from memory when dropped.
#[derive(Clone)]
pub struct AccessKey {
    id: String,
    secret: Zeroizing<String>,
    session_token: Option<Zeroizing<String>>,
}

/// An access key id that no client could send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an access key id has 1 to 128 letters, digits and underscores, unlike {0:?}")]
pub struct InvalidAccessKeyId(pub String);

impl AccessKey {
    /// A long-term key.
    pub fn new(id: &str, secret: Zeroizing<String>) -> Result<Self, InvalidAccessKeyId> {
        if !is_access_key_id(id) {
            return Err(InvalidAccessKeyId(id.to_owned()));
        }
        Ok(Self {
            id: id.to_owned(),
            secret,
            session_token: None,
        })
    }

    /// The key of a session: every request has to carry this token.
    #[must_use]
    pub fn of_session(mut self, token: Zeroizing<String>) -> Self {
        self.session_token = Some(token);
        self
    }

    /// The id that requests name the key by.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether a request with this token, or with none, may be signed with this key.
    pub(super) fn is_of_session(&self, token: Option<&str>) -> bool {
        match (&self.session_token, token) {
            (Some(own), Some(token)) => same_secret(own.as_bytes(), token.as_bytes()),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Checks a signature, in a time that does not tell where it differs.
    pub(super) fn check(
        &self,
        scope: &Scope,
        string_to_sign: &[u8],
        signature: &[u8; 32],
    ) -> Result<(), Refusal> {
        let initial = Zeroizing::new([b"AWS4", self.secret.as_bytes()].concat());
        let mut key = Zeroizing::new(mac(&initial, scope.day.as_bytes()));
        for part in [&scope.region, &scope.service, "aws4_request"] {
            key = Zeroizing::new(mac(&*key, part.as_bytes()));
        }
        let mac = keyed(&*key).chain_update(string_to_sign);
        mac.verify_slice(signature).map_err(|_| Refusal::Signature)
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AccessKey").field(&self.id).finish()
    }
}

/// Whether a text can be the id of a key.
pub(super) fn is_access_key_id(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=ID_MAX).contains(&text.len()) && text.bytes().all(word)
}

fn keyed(key: &[u8]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes keys of every length")
}

fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    keyed(key).chain_update(text).finalize().into_bytes().into()
}

/// Compares two secrets in a time that does not tell where they differ: by their MACs, which
/// somebody who does not know ours cannot steer.
fn same_secret(ours: &[u8], theirs: &[u8]) -> bool {
    let expected = mac(ours, ours);
    let given = keyed(ours).chain_update(theirs);
    given.verify_slice(&expected).is_ok()
}
