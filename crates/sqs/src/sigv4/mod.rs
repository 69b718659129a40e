//! Who signed a request: AWS Signature Version 4, verified.
//!
//! A signature is checked in the order in which its parts become known, so that little is read for
//! whoever has no business here:
//!
//! 1. [`Claim::read`] takes the request's head alone: the form of the signature, its date against the
//!    clock that the caller passes in, its scope, and that everything which decides what the request
//!    means is signed.
//! 2. [`Claim::bind`] joins it with the access key that the caller found for it.
//! 3. [`BoundClaim::verify`] hashes the body, computes the signature and compares in constant time.
//!
//! One form is accepted, with the key in the `Authorization` header or in the query (presigned). The
//! rest is refused by name: other versions, streamed, unsigned and trailing payloads, and whatever two
//! readers may read differently (headers given twice, a query or path that is not in the one form that
//! is signed). So a request that is accepted is the one that was signed, byte for byte, but for
//! headers that are neither signed nor of any meaning here.
//!
//! Never here: a clock, a list of keys, tenants, policies.

mod canonical;
mod head;
pub mod key;
mod payload;
mod presented;
mod query;
pub mod refusal;
mod rules;

use std::fmt;
use std::ops::Deref;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::timestamp::Timestamp;
pub use head::RequestHead;
use key::AccessKey;
use payload::DeclaredHash;
use presented::Presented;
use refusal::Refusal;

/// The service of a signature for the queue API.
pub const SQS: &str = "sqs";

/// The service of a signature that asks who the caller is.
pub const STS: &str = "sts";

/// How far a signature's date may be from our clock, in ms: AWS's 15 minutes.
pub const SKEW_LIMIT_MS: u64 = 900_000;

/// The longest life of a presigned request, in seconds: AWS's seven days.
pub const EXPIRES_LIMIT_S: u32 = 604_800;

/// What a signature is held against, besides its key.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// The wall clock, milliseconds since the epoch.
    pub now_ms: u64,
    /// The region that must be signed for; any, if there is none.
    pub region: Option<&'a str>,
    /// The services that may be signed for.
    pub services: &'a [&'a str],
}

/// What a signature is for: day, region and service.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scope {
    /// Eight digits.
    day: String,
    region: String,
    service: String,
}

/// A well-formed and timely signature whose key is not known yet.
pub struct Claim {
    access_key_id: String,
    scope: Scope,
    timestamp: Timestamp,
    session_token: Option<Zeroizing<String>>,
    declared_hash: DeclaredHash,
    /// The canonical request up to the hash of the body.
    canonical_head: Vec<u8>,
    signature: [u8; 32],
}

impl Claim {
    /// Reads what a request's head claims and checks all of it that needs neither key nor body.
    pub fn read(head: &RequestHead<'_>, policy: &Policy<'_>) -> Result<Self, Refusal> {
        let query = query::Query::read(head.query)?;
        let presented = Presented::read(head, &query)?;
        presented.check_time(policy.now_ms)?;
        presented.check_scope(policy)?;
        let signed = rules::signed_headers(head, &presented.signed_headers)?;
        rules::check_path(head.path)?;
        let declared_hash = payload::declared(head, &query)?;
        let canonical_head = canonical::head(head, &query, &signed, &presented.signed_headers);
        Ok(Self {
            access_key_id: presented.access_key_id,
            scope: presented.scope,
            timestamp: presented.timestamp,
            session_token: presented.session_token,
            declared_hash,
            canonical_head,
            signature: presented.signature,
        })
    }

    /// The id of the key that is said to have signed.
    #[must_use]
    pub fn access_key_id(&self) -> &str {
        &self.access_key_id
    }

    /// The service that was signed for: one of the policy's.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.scope.service
    }

    /// Joins the claim with its key, which must be of the same session.
    pub fn bind<K: Deref<Target = AccessKey>>(self, key: K) -> Result<BoundClaim<K>, Refusal> {
        assert_eq!(
            key.id(),
            self.access_key_id,
            "a claim is bound to its own key"
        );
        if !key.is_of_session(self.session_token.as_deref().map(String::as_str)) {
            return Err(Refusal::SessionToken);
        }
        Ok(BoundClaim { claim: self, key })
    }
}

/// The token, the signature and what was signed are nobody's to read.
impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("access_key_id", &self.access_key_id)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// A claim whose key is known, and whose body is not.
#[derive(Debug)]
pub struct BoundClaim<K> {
    claim: Claim,
    key: K,
}

impl<K: Deref<Target = AccessKey>> BoundClaim<K> {
    /// The service that was signed for: one of the policy's.
    #[must_use]
    pub fn service(&self) -> &str {
        self.claim.service()
    }

    /// Checks that the key signed this request with this body.
    pub fn verify(&self, body: &[u8]) -> Result<(), Refusal> {
        let claim = &self.claim;
        let body_hash: [u8; 32] = Sha256::digest(body).into();
        if !claim.declared_hash.allows(&body_hash) {
            return Err(Refusal::BodyHash);
        }
        let mut canonical = Sha256::new();
        canonical.update(&claim.canonical_head);
        canonical.update(crate::hex::digits(&body_hash));
        let to_sign = canonical::string_to_sign(&claim.timestamp, &claim.scope, canonical);
        self.key.check(&claim.scope, &to_sign, &claim.signature)
    }
}
