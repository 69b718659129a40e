//! Why a request is not believed, and what its client is told.
//!
//! Clients are told what helps an honest one: which part is amiss. They are never told what was
//! expected in its place, nor what was signed, which AWS does and which holds session tokens.

use super::payload::PayloadMode;
use crate::error::{ErrorCode, SqsError};

/// How a signature was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Version 4 with a shared secret: the one that is accepted.
    V4,
    /// Version 4 with a key pair.
    V4a,
    /// Version 2, and what was before it.
    V2,
    /// Something else: Basic, Bearer.
    Unknown,
}

/// Why a request is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no signature at all.
    #[error("the request carries no credentials")]
    NoCredentials,
    /// The same thing is said in two places.
    #[error("the request carries authentication in more than one form")]
    TwoForms,
    /// The signature is of a kind that is not accepted.
    #[error("a signature of the scheme {0:?} is not accepted")]
    Scheme(Scheme),
    /// The body is not under the signature in the way that is accepted.
    #[error("a payload of the mode {0:?} is not accepted")]
    Payload(PayloadMode),
    /// A part of the signature is missing.
    #[error("the signature lacks {0}")]
    Missing(&'static str),
    /// A part of the signature cannot be read.
    #[error("the signature has a malformed {0}")]
    Malformed(&'static str),
    /// A header that counts is there twice.
    #[error("the header {0} is there more than once")]
    DuplicateHeader(String),
    /// A header that must be signed is not.
    #[error("the header {0} is not signed")]
    UnsignedHeader(String),
    /// A header that was signed is not there.
    #[error("the signed header {0} is absent")]
    AbsentHeader(String),
    /// The query is not in the one form that can be signed.
    #[error("the query is not in its canonical form")]
    QueryForm,
    /// The path is not in the one form that can be signed.
    #[error("the path is not in its normal form")]
    PathForm,
    /// The lifetime of a presigned request is no number from 1 to 604,800.
    #[error("X-Amz-Expires is not from 1 to 604800 seconds")]
    Expires,
    /// The signature's time is over.
    #[error("the signature was good until {end}, and it is {now}")]
    Expired {
        /// Its last moment.
        end: String,
        /// Our clock.
        now: String,
    },
    /// The signature's time has not come.
    #[error("the signature is of {signed}, and it is {now}")]
    NotYetCurrent {
        /// Its date.
        signed: String,
        /// Our clock.
        now: String,
    },
    /// The scope is of another day than the signature.
    #[error("the scope is of {day}, the signature of {timestamp}")]
    ScopeDay {
        /// The scope's day.
        day: String,
        /// The signature's date.
        timestamp: String,
    },
    /// The scope's region is none, or not the one that must be signed for.
    #[error("the scope is of a region that is not served")]
    ScopeRegion,
    /// The scope is of another service.
    #[error("the scope is of a service that is not served")]
    ScopeService,
    /// The scope does not end as all do.
    #[error("the scope does not end with aws4_request")]
    ScopeTerminator,
    /// Nobody has this key.
    #[error("the access key is unknown")]
    UnknownAccessKey,
    /// The key is disabled, or its account is suspended or deleted.
    #[error("the access key is not active, or its account is not")]
    InactiveAccessKey,
    /// The session token is not the key's, or there should be one, or none.
    #[error("the session token is not that of the access key")]
    SessionToken,
    /// The body is not the one whose hash is declared.
    #[error("the body is not the one that the request declares")]
    BodyHash,
    /// The signature is not that of the key for this request.
    #[error("the signature is not that of the request")]
    Signature,
}

const MISMATCH: &str = "The request signature we calculated does not match the signature you \
                        provided. Check your AWS Secret Access Key and signing method. Consult the \
                        service documentation for details.";
const UNKNOWN_TOKEN: &str = "The security token included in the request is invalid.";

impl Refusal {
    /// What the client is told.
    #[must_use]
    pub fn to_error(&self) -> SqsError {
        use ErrorCode::{
            IncompleteSignature, InvalidClientTokenId, InvalidSecurity, MissingAuthenticationToken,
            RequestExpired, SignatureDoesNotMatch,
        };
        match self {
            Self::NoCredentials => {
                let text = "Request is missing Authentication Token";
                SqsError::new(MissingAuthenticationToken, text)
            }
            Self::Scheme(_) | Self::Payload(_) => {
                let text = format!(
                    "All requests to this service must be signed with AWS Signature Version 4: {self}."
                );
                SqsError::new(InvalidSecurity, text)
            }
            Self::Missing(part) => {
                let text = format!("Authorization requires '{part}' parameter.");
                SqsError::new(IncompleteSignature, text)
            }
            Self::TwoForms
            | Self::Malformed(_)
            | Self::DuplicateHeader(_)
            | Self::QueryForm
            | Self::PathForm
            | Self::Expires => {
                let text =
                    format!("The request signature does not conform to AWS standards: {self}.");
                SqsError::new(IncompleteSignature, text)
            }
            Self::UnsignedHeader(name) => {
                let text = format!("'{name}' must be a 'SignedHeader' in the AWS Authorization.");
                SqsError::new(SignatureDoesNotMatch, text)
            }
            Self::Expired { end, now } => {
                let text = format!("Signature expired: {end} is now earlier than {now}.");
                SqsError::new(RequestExpired, text)
            }
            Self::NotYetCurrent { signed, now } => {
                let text = format!(
                    "Signature not yet current: {signed} is still later than {now} + 15 min."
                );
                SqsError::new(RequestExpired, text)
            }
            Self::ScopeDay { day, timestamp } => {
                let text = format!(
                    "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date \
                     from HTTP: '{day}' != '{}', from '{timestamp}'.",
                    timestamp.get(..8).unwrap_or_default()
                );
                SqsError::new(SignatureDoesNotMatch, text)
            }
            Self::ScopeRegion => {
                let text = "Credential should be scoped to a valid region.";
                SqsError::new(SignatureDoesNotMatch, text)
            }
            Self::ScopeService => {
                let text = "Credential should be scoped to correct service.";
                SqsError::new(SignatureDoesNotMatch, text)
            }
            Self::ScopeTerminator => {
                let text = "Credential should be scoped with a valid terminator: 'aws4_request'.";
                SqsError::new(SignatureDoesNotMatch, text)
            }
            // AWS tells nobody without a good signature which keys there are or were.
            Self::UnknownAccessKey | Self::InactiveAccessKey | Self::SessionToken => {
                SqsError::new(InvalidClientTokenId, UNKNOWN_TOKEN)
            }
            Self::AbsentHeader(_) | Self::BodyHash | Self::Signature => {
                SqsError::new(SignatureDoesNotMatch, MISMATCH)
            }
        }
    }
}
