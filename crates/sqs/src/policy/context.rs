//! What is known of a request, as the keys of conditions ask for it.
//!
//! Only keys that have a value here, or are known never to have one, may be named in a policy: a
//! condition on anything else would be one that nobody checks.

use std::net::IpAddr;

use super::principal::Principal;

/// The longest `User-Agent` that conditions look at, in bytes: SDKs send up to 300. What a pattern costs
/// grows with the text, and this one the client chooses. A longer one is as good as none.
const MAX_USER_AGENT_BYTES: usize = 512;

/// What is known of a request besides who asks for what.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Where it came from, if that is an address.
    pub source: Option<IpAddr>,
    /// Whether it came encrypted.
    pub encrypted: bool,
    /// When it came, in milliseconds since the epoch.
    pub now_ms: u64,
    /// What the client says it is.
    pub user_agent: Option<&'a str>,
}

/// A key of conditions; case means nothing in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    CurrentTime,
    EpochTime,
    PrincipalAccount,
    PrincipalArn,
    SecureTransport,
    SourceAccount,
    SourceArn,
    SourceIp,
    UserAgent,
    UserName,
}

/// What kind of value a key has, and so which operators go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Arn,
    Flag,
    Moment,
    Address,
}

/// The value that a key has for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Text(String),
    Flag(bool),
    /// Milliseconds since the epoch.
    Moment(i64),
    Address(IpAddr),
}

impl Key {
    pub(super) const ALL: [Self; 10] = [
        Self::CurrentTime,
        Self::EpochTime,
        Self::PrincipalAccount,
        Self::PrincipalArn,
        Self::SecureTransport,
        Self::SourceAccount,
        Self::SourceArn,
        Self::SourceIp,
        Self::UserAgent,
        Self::UserName,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::CurrentTime => "aws:CurrentTime",
            Self::EpochTime => "aws:EpochTime",
            Self::PrincipalAccount => "aws:PrincipalAccount",
            Self::PrincipalArn => "aws:PrincipalArn",
            Self::SecureTransport => "aws:SecureTransport",
            Self::SourceAccount => "aws:SourceAccount",
            Self::SourceArn => "aws:SourceArn",
            Self::SourceIp => "aws:SourceIp",
            Self::UserAgent => "aws:UserAgent",
            Self::UserName => "aws:username",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|key| key.name().eq_ignore_ascii_case(name))
    }

    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::CurrentTime | Self::EpochTime => Kind::Moment,
            Self::PrincipalArn | Self::SourceArn => Kind::Arn,
            Self::PrincipalAccount | Self::SourceAccount | Self::UserAgent | Self::UserName => {
                Kind::Text
            }
            Self::SecureTransport => Kind::Flag,
            Self::SourceIp => Kind::Address,
        }
    }

    pub(super) fn of(self, principal: &Principal, around: &Surroundings<'_>) -> Option<Found> {
        match self {
            Self::CurrentTime | Self::EpochTime => {
                // In whole seconds, as policies write them.
                let now_ms = around.now_ms / 1_000 * 1_000;
                Some(Found::Moment(i64::try_from(now_ms).unwrap_or(i64::MAX)))
            }
            Self::PrincipalAccount => Some(Found::Text(principal.account().to_string())),
            Self::PrincipalArn => Some(Found::Text(principal.to_string())),
            Self::SecureTransport => Some(Found::Flag(around.encrypted)),
            // Of requests that a service makes for somebody, and no service asks here.
            Self::SourceAccount | Self::SourceArn => None,
            Self::SourceIp => around
                .source
                .map(|source| Found::Address(source.to_canonical())),
            Self::UserAgent => around
                .user_agent
                .filter(|agent| agent.len() <= MAX_USER_AGENT_BYTES)
                .map(|agent| Found::Text(agent.to_owned())),
            Self::UserName => principal
                .user_name()
                .map(|name| Found::Text(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Key, MAX_USER_AGENT_BYTES, Surroundings};
    use crate::policy::Principal;
    use crate::queue_name::AccountId;

    #[test]
    fn a_long_user_agent_is_not_looked_at() {
        let root = Principal::root(AccountId::try_new("111111111111").unwrap());
        let agent_of = |bytes: usize| {
            let agent = "a".repeat(bytes);
            let around = Surroundings {
                source: None,
                encrypted: true,
                now_ms: 0,
                user_agent: Some(&agent),
            };
            Key::UserAgent.of(&root, &around)
        };
        let longest = Found::Text("a".repeat(MAX_USER_AGENT_BYTES));
        assert_eq!(agent_of(MAX_USER_AGENT_BYTES), Some(longest));
        assert_eq!(agent_of(MAX_USER_AGENT_BYTES + 1), None);
    }
}
