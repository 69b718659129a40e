//! Finding and reading a signature: in the `Authorization` header, or in the query.
//!
//! `Authorization: AWS4-HMAC-SHA256 Credential=<key>/<day>/<region>/<service>/aws4_request,
//! SignedHeaders=a;b, Signature=<hex>`, with `X-Amz-Date` and `X-Amz-Security-Token` as headers; or
//! presigned, all of it as `X-Amz-*` in the query, with `X-Amz-Expires`.

use zeroize::Zeroizing;

use super::head::RequestHead;
use super::key::is_access_key_id;
use super::query::Query;
use super::refusal::{Refusal, Scheme};
use super::{EXPIRES_LIMIT_S, Policy, SKEW_LIMIT_MS, Scope};
use crate::arn::is_region;
use crate::hex;
use crate::timestamp::Timestamp;

/// The only algorithm that is accepted.
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What every scope ends with.
const TERMINATOR: &str = "aws4_request";

/// The parameter that a presigned query cannot sign.
pub(super) const SIGNATURE_PARAMETER: &str = "X-Amz-Signature";

/// Parameters that make a query one with authentication.
const V4_PARAMETERS: [&str; 7] = [
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Security-Token",
    SIGNATURE_PARAMETER,
    "X-Amz-SignedHeaders",
];

/// Parameters of signature version 2.
const V2_PARAMETERS: [&str; 4] = [
    "AWSAccessKeyId",
    "Signature",
    "SignatureMethod",
    "SignatureVersion",
];

/// A signature as it was presented, its parts well-formed.
pub(super) struct Presented {
    pub(super) access_key_id: String,
    pub(super) scope: Scope,
    pub(super) timestamp: Timestamp,
    /// Names in lower case, separated by semicolons.
    pub(super) signed_headers: String,
    pub(super) signature: [u8; 32],
    pub(super) session_token: Option<Zeroizing<String>>,
    /// How long a presigned request lives, in seconds.
    expires_s: Option<u32>,
}

impl Presented {
    pub(super) fn read(head: &RequestHead<'_>, query: &Query<'_>) -> Result<Self, Refusal> {
        let authorization = head.only_text("authorization")?;
        let v4 = V4_PARAMETERS.iter().any(|name| query.resembles(name));
        let v2 = V2_PARAMETERS.iter().any(|name| query.resembles(name));
        match (authorization, v4, v2) {
            (Some(text), false, false) => Self::from_header(text, head),
            (None, true, false) => Self::from_query(head, query),
            (None, false, true) => Err(Refusal::Scheme(Scheme::V2)),
            (None, false, false) => Err(Refusal::NoCredentials),
            (Some(_), true, _) | (Some(_), _, true) | (None, true, true) => Err(Refusal::TwoForms),
        }
    }

    fn from_header(text: &str, head: &RequestHead<'_>) -> Result<Self, Refusal> {
        let (algorithm, parameters) = text.split_once(' ').unwrap_or((text, ""));
        check_scheme(algorithm)?;
        let mut parts = Parts::default();
        for parameter in parameters.split(',') {
            let parameter = parameter.trim_matches(' ');
            let (name, value) = parameter
                .split_once('=')
                .ok_or(Refusal::Malformed("Authorization"))?;
            let place = match name {
                "Credential" => &mut parts.credential,
                "SignedHeaders" => &mut parts.signed_headers,
                "Signature" => &mut parts.signature,
                _ => return Err(Refusal::Malformed("Authorization")),
            };
            if place.replace(value.to_owned()).is_some() {
                return Err(Refusal::Malformed("Authorization"));
            }
        }
        parts.date = head.only_text("x-amz-date")?.map(str::to_owned);
        let token = head.only_text("x-amz-security-token")?;
        parts.session_token = token.map(|token| Zeroizing::new(token.to_owned()));
        parts.assemble(None)
    }

    fn from_query(head: &RequestHead<'_>, query: &Query<'_>) -> Result<Self, Refusal> {
        if head.has("x-amz-date") || head.has("x-amz-security-token") {
            return Err(Refusal::TwoForms);
        }
        let algorithm = query.value("X-Amz-Algorithm")?;
        check_scheme(&algorithm.ok_or(Refusal::Missing("X-Amz-Algorithm"))?)?;
        let expires = query.value("X-Amz-Expires")?;
        let expires = expires.ok_or(Refusal::Missing("X-Amz-Expires"))?;
        let parts = Parts {
            credential: query.value("X-Amz-Credential")?,
            signed_headers: query.value("X-Amz-SignedHeaders")?,
            signature: query.value(SIGNATURE_PARAMETER)?,
            date: query.value("X-Amz-Date")?,
            session_token: query.value("X-Amz-Security-Token")?.map(Zeroizing::new),
        };
        parts.assemble(Some(parse_expires(&expires)?))
    }

    /// Checks the date against the clock.
    pub(super) fn check_time(&self, now_ms: u64) -> Result<(), Refusal> {
        let signed_ms = self.timestamp.ms();
        let now = i128::from(now_ms);
        let skew = i128::from(SKEW_LIMIT_MS);
        let life = self
            .expires_s
            .map_or(skew, |seconds| i128::from(seconds) * 1000);
        if signed_ms > now + skew {
            return Err(Refusal::NotYetCurrent {
                signed: self.timestamp.to_string(),
                now: Timestamp::from_ms(now_ms).to_string(),
            });
        }
        if now > signed_ms + life {
            let life_s = self.expires_s.map_or(SKEW_LIMIT_MS / 1000, u64::from);
            let end = self
                .timestamp
                .plus(i64::try_from(life_s).unwrap_or(i64::MAX));
            return Err(Refusal::Expired {
                end: end.to_string(),
                now: Timestamp::from_ms(now_ms).to_string(),
            });
        }
        Ok(())
    }

    /// Checks that the scope is that of the date, a region and a service that are served.
    pub(super) fn check_scope(&self, policy: &Policy<'_>) -> Result<(), Refusal> {
        let Scope {
            day,
            region,
            service,
        } = &self.scope;
        let timestamp = self.timestamp.to_string();
        if timestamp.get(..8) != Some(day) {
            let day = day.clone();
            return Err(Refusal::ScopeDay { day, timestamp });
        }
        if !is_region(region) || policy.region.is_some_and(|only| only != region) {
            return Err(Refusal::ScopeRegion);
        }
        if !policy.services.contains(&service.as_str()) {
            return Err(Refusal::ScopeService);
        }
        Ok(())
    }
}

/// The parts of a signature, as texts.
#[derive(Default)]
struct Parts {
    credential: Option<String>,
    signed_headers: Option<String>,
    signature: Option<String>,
    date: Option<String>,
    session_token: Option<Zeroizing<String>>,
}

impl Parts {
    fn assemble(self, expires_s: Option<u32>) -> Result<Presented, Refusal> {
        let credential = self.credential.ok_or(Refusal::Missing("Credential"))?;
        let signed_headers = self
            .signed_headers
            .ok_or(Refusal::Missing("SignedHeaders"))?;
        let signature = self.signature.ok_or(Refusal::Missing("Signature"))?;
        let date = self.date.ok_or(Refusal::Missing("X-Amz-Date"))?;
        let (access_key_id, scope) = parse_credential(&credential)?;
        Ok(Presented {
            access_key_id,
            scope,
            timestamp: Timestamp::parse(&date).ok_or(Refusal::Malformed("X-Amz-Date"))?,
            signed_headers,
            signature: hex::parse_32(&signature).ok_or(Refusal::Malformed("Signature"))?,
            session_token: self.session_token,
            expires_s,
        })
    }
}

fn parse_credential(text: &str) -> Result<(String, Scope), Refusal> {
    let parts: Vec<&str> = text.split('/').collect();
    let [id, day, region, service, terminator] = parts[..] else {
        return Err(Refusal::Malformed("Credential"));
    };
    let is_day = day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit());
    if !is_access_key_id(id) || !is_day {
        return Err(Refusal::Malformed("Credential"));
    }
    if terminator != TERMINATOR {
        return Err(Refusal::ScopeTerminator);
    }
    let scope = Scope {
        day: day.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
    };
    Ok((id.to_owned(), scope))
}

fn parse_expires(text: &str) -> Result<u32, Refusal> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let seconds = text.parse().ok().filter(|_| plain);
    let valid = seconds.filter(|seconds| (1..=EXPIRES_LIMIT_S).contains(seconds));
    valid.ok_or(Refusal::Expires)
}

fn check_scheme(algorithm: &str) -> Result<(), Refusal> {
    let scheme = Scheme::of(algorithm);
    match scheme {
        Scheme::V4 => Ok(()),
        Scheme::V2 | Scheme::V4a | Scheme::Unknown => Err(Refusal::Scheme(scheme)),
    }
}

impl Scheme {
    fn of(algorithm: &str) -> Self {
        match algorithm {
            ALGORITHM => Self::V4,
            "AWS4-ECDSA-P256-SHA256" => Self::V4a,
            "AWS" | "AWS3" | "AWS3-HTTPS" => Self::V2,
            _ => Self::Unknown,
        }
    }
}
