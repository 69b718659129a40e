//! Who asks, and whom a statement is about.
//!
//! An access key without a policy of its own is its account's root, `arn:aws:iam::<account>:root`; one
//! with a policy is a user of the account, `arn:aws:iam::<account>:user/<name>`.
//!
//! A statement that names an account, by its digits or by its root, is about the account's root and, by
//! way of it, about all its users: a Deny reaches them, and an Allow reaches those whom a policy of
//! their own allows it too. One that names a user, or everyone, is about them directly.

use std::fmt;

use super::fault::PolicyFault;
use crate::queue_name::AccountId;

/// The longest name of a user, in characters (IAM's own limit).
const MAX_USER_NAME: usize = 64;

/// Whoever makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    account: AccountId,
    user: Option<String>,
}

impl Principal {
    /// The root of an account.
    #[must_use]
    pub const fn root(account: AccountId) -> Self {
        Self {
            account,
            user: None,
        }
    }

    /// A user of an account; nothing if no user can have this name.
    #[must_use]
    pub fn user(account: AccountId, name: &str) -> Option<Self> {
        let user = is_user_name(name).then(|| name.to_owned());
        Some(Self {
            account,
            user: Some(user?),
        })
    }

    /// The account.
    #[must_use]
    pub const fn account(&self) -> &AccountId {
        &self.account
    }

    /// The name of the user; none for the root.
    #[must_use]
    pub fn user_name(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

/// The ARN.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let account = &self.account;
        match &self.user {
            None => write!(f, "arn:aws:iam::{account}:root"),
            Some(user) => write!(f, "arn:aws:iam::{account}:user/{user}"),
        }
    }
}

fn is_user_name(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphanumeric() || b"+=,.@_-".contains(&b);
    (1..=MAX_USER_NAME).contains(&name.len()) && name.bytes().all(letter)
}

/// How a statement is about somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Not at all.
    None,
    /// Through their account.
    Account,
    /// By name, or as everyone.
    Direct,
}

/// One of those whom a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Everyone,
    Account(AccountId),
    /// By ARN.
    Identity(String),
    /// A service or an identity of another provider: nobody who can ask here is one.
    Elsewhere,
}

/// Those whom a statement names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedPrincipals(Vec<Named>);

impl NamedPrincipals {
    /// Adds one of a kind: what stands under `AWS`, `Service` and so on.
    pub(super) fn add(&mut self, kind: &str, name: &str) -> Result<(), PolicyFault> {
        let named = match kind {
            "AWS" => parse(name).ok_or_else(|| PolicyFault::value("Principal", name))?,
            "Service" | "Federated" | "CanonicalUser" => Named::Elsewhere,
            _ => return Err(PolicyFault::value("Principal", kind)),
        };
        self.0.push(named);
        Ok(())
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// How they reach somebody; the most direct way counts.
    pub(super) fn reach(&self, principal: &Principal) -> Reach {
        let reach = |named: &Named| match named {
            Named::Everyone => Reach::Direct,
            Named::Account(account) if *account != principal.account => Reach::None,
            Named::Account(_) if principal.user.is_some() => Reach::Account,
            Named::Account(_) => Reach::Direct,
            Named::Identity(arn) if *arn == principal.to_string() => Reach::Direct,
            Named::Identity(_) | Named::Elsewhere => Reach::None,
        };
        self.0.iter().map(reach).max().unwrap_or(Reach::None)
    }
}

/// `*`, twelve digits, the ARN of an account's root, or that of a user or role.
fn parse(name: &str) -> Option<Named> {
    if name == "*" {
        return Some(Named::Everyone);
    }
    if let Some(account) = AccountId::try_new(name) {
        return Some(Named::Account(account));
    }
    let rest = name.strip_prefix("arn:aws:")?;
    let (service, rest) = rest.split_once("::")?;
    let (account, identity) = rest.split_once(':')?;
    let account = AccountId::try_new(account)?;
    let kind = identity.split_once('/').map(|(kind, _)| kind);
    match (service, kind) {
        ("iam", None) if identity == "root" => Some(Named::Account(account)),
        // A wildcard in an ARN would look as if it worked; AWS refuses it as well.
        _ if identity.contains(['*', '?']) || identity.ends_with('/') => None,
        ("iam", Some("user" | "role")) | ("sts", Some("assumed-role" | "federated-user")) => {
            Some(Named::Identity(name.to_owned()))
        }
        _ => None,
    }
}
