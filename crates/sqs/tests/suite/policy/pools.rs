//! Texts that policies are made of, each with its meaning beside it, in code of its own.

use hikyaku_sqs::action::Action;
use hikyaku_sqs::policy::Principal;
use hikyaku_sqs::queue_name::AccountId;

pub const OWNER: &str = "111111111111";
pub const OTHER: &str = "222222222222";
pub const QUEUE: &str = "arn:aws:sqs:eu-north-1:111111111111:orders";

pub fn account(digits: &str) -> AccountId {
    AccountId::try_new(digits).unwrap()
}

/// Somebody who asks: an account, and a user of it or its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who(pub &'static str, pub Option<&'static str>);

pub const CALLERS: [Who; 5] = [
    Who(OWNER, None),
    Who(OWNER, Some("ann")),
    Who(OTHER, None),
    Who(OTHER, Some("ann")),
    Who(OTHER, Some("bob")),
];

impl Who {
    pub fn principal(self) -> Principal {
        match self.1 {
            None => Principal::root(account(self.0)),
            Some(name) => Principal::user(account(self.0), name).unwrap(),
        }
    }
}

/// How somebody is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meant {
    No,
    ByAccount,
    Yes,
}

/// A principal as it is written, its kind, and whom it means.
pub type Named = (&'static str, &'static str, fn(Who) -> Meant);

pub fn root_or_members(of: &str, who: Who) -> Meant {
    match (who.0 == of, who.1) {
        (false, _) => Meant::No,
        (true, None) => Meant::Yes,
        (true, Some(_)) => Meant::ByAccount,
    }
}

pub fn exactly(one: Who, who: Who) -> Meant {
    if one == who { Meant::Yes } else { Meant::No }
}

pub const PRINCIPALS: [Named; 8] = [
    ("AWS", "*", |_| Meant::Yes),
    ("AWS", OWNER, |who| root_or_members(OWNER, who)),
    ("AWS", "arn:aws:iam::111111111111:root", |who| {
        root_or_members(OWNER, who)
    }),
    ("AWS", "arn:aws:iam::111111111111:user/ann", |who| {
        exactly(CALLERS[1], who)
    }),
    ("AWS", "arn:aws:iam::222222222222:root", |who| {
        root_or_members(OTHER, who)
    }),
    ("AWS", "arn:aws:iam::222222222222:user/bob", |who| {
        exactly(CALLERS[4], who)
    }),
    ("AWS", "arn:aws:iam::222222222222:role/bob", |_| Meant::No),
    ("Service", "sns.amazonaws.com", |_| Meant::No),
];

/// An action as it is written, and which it means.
pub type Acting = (&'static str, fn(Action) -> bool);

pub const ACTIONS: [Acting; 7] = [
    ("*", |_| true),
    ("sqs:*", |_| true),
    ("SQS:SendMessage", |it| {
        matches!(it, Action::SendMessage | Action::SendMessageBatch)
    }),
    ("sqs:sendmessage", |it| {
        matches!(it, Action::SendMessage | Action::SendMessageBatch)
    }),
    ("sqs:Receive*", |it| it == Action::ReceiveMessage),
    ("sqs:*Attributes", |it| {
        matches!(it, Action::GetQueueAttributes | Action::SetQueueAttributes)
    }),
    ("sqs:?etQueueUrl", |it| it == Action::GetQueueUrl),
];

/// An ARN as it is written, and which it means.
pub type Resource = (&'static str, fn(&str) -> bool);

pub const RESOURCES: [Resource; 6] = [
    ("*", |_| true),
    (QUEUE, |it| it == QUEUE),
    ("arn:aws:sqs:*:111111111111:*", |_| true),
    ("arn:aws:sqs:eu-north-1:111111111111:ord??s", |it| {
        it == QUEUE
    }),
    ("arn:aws:sqs:*:letters", |it| it.ends_with("letters")),
    ("arn:aws:sqs:eu-north-1:222222222222:*", |_| false),
];

pub const QUEUES: [&str; 2] = [QUEUE, "arn:aws:sqs:eu-north-1:111111111111:letters"];

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    pub source: Option<&'static str>,
    pub encrypted: bool,
    pub now_s: u64,
    pub agent: Option<&'static str>,
}

/// 2026-01-01T00:00:00Z.
pub const NEW_YEAR: u64 = 1_767_225_600;

/// Three-valued: a key that the request does not have fits nothing.
pub type Fits = fn(Who, &Around) -> Option<bool>;

/// An operator that affirms, the one that denies, a key, a value, and whether the value fits.
pub type Written = (
    &'static str,
    Option<&'static str>,
    &'static str,
    &'static str,
    Fits,
);

#[rustfmt::skip] // a table: one line each
pub const CONDITIONS: [Written; 27] = [
    ("StringEquals", Some("StringNotEquals"), "aws:username", "ann", |who, _| who.1.map(|it| it == "ann")),
    ("StringEqualsIgnoreCase", Some("StringNotEqualsIgnoreCase"), "AWS:UserName", "BOB", |who, _| who.1.map(|it| it == "bob")),
    ("StringLike", Some("StringNotLike"), "aws:UserAgent", "Boto3/*", |_, it| it.agent.map(|it| it.starts_with("Boto3/"))),
    ("StringEquals", Some("StringNotEquals"), "aws:PrincipalAccount", OTHER, |who, _| Some(who.0 == OTHER)),
    ("StringEquals", Some("StringNotEquals"), "aws:SecureTransport", "true", |_, it| Some(it.encrypted)),
    ("Bool", None, "aws:SecureTransport", "true", |_, it| Some(it.encrypted)),
    ("Bool", None, "aws:SecureTransport", "False", |_, it| Some(!it.encrypted)),
    ("ArnEquals", Some("ArnNotEquals"), "aws:PrincipalArn", "arn:aws:iam::222222222222:root", |who, _| Some(who == CALLERS[2])),
    ("ArnLike", Some("ArnNotLike"), "aws:PrincipalArn", "arn:aws:iam::*:user/*", |who, _| Some(who.1.is_some())),
    ("ArnLike", Some("ArnNotLike"), "aws:PrincipalArn", "arn:aws:iam:*:ann", |_, _| Some(false)),
    ("StringLike", Some("StringNotLike"), "aws:PrincipalArn", "arn:aws:iam:*ann", |who, _| Some(who.1 == Some("ann"))),
    ("ArnLike", Some("ArnNotLike"), "aws:SourceArn", "*", |_, _| None),
    ("StringEquals", Some("StringNotEquals"), "aws:SourceAccount", OWNER, |_, _| None),
    ("IpAddress", Some("NotIpAddress"), "aws:SourceIp", "10.1.2.3", |_, it| it.source.map(|it| it == "10.1.2.3" || it == "::ffff:10.1.2.3")),
    ("IpAddress", Some("NotIpAddress"), "aws:SourceIp", "10.0.0.0/9", |_, it| it.source.map(|it| it.ends_with("10.1.2.3"))),
    ("IpAddress", Some("NotIpAddress"), "aws:SourceIp", "0.0.0.0/0", |_, it| it.source.map(|it| it.contains('.'))),
    ("IpAddress", Some("NotIpAddress"), "aws:SourceIp", "2001:db8::/32", |_, it| it.source.map(|it| it == "2001:db8::9")),
    ("DateLessThan", None, "aws:CurrentTime", "2026-01-01T00:00:00Z", |_, it| Some(it.now_s < NEW_YEAR)),
    ("DateLessThanEquals", None, "aws:CurrentTime", "2026-01-01", |_, it| Some(it.now_s <= NEW_YEAR)),
    ("DateGreaterThan", None, "aws:EpochTime", "1767225600", |_, it| Some(it.now_s > NEW_YEAR)),
    ("DateGreaterThanEquals", None, "aws:CurrentTime", "2026-01-01T00:00:00Z", |_, it| Some(it.now_s >= NEW_YEAR)),
    ("DateEquals", Some("DateNotEquals"), "aws:CurrentTime", "1767225600", |_, it| Some(it.now_s == NEW_YEAR)),
    ("NumericLessThan", None, "aws:EpochTime", "1767225600", |_, it| Some(it.now_s < NEW_YEAR)),
    ("NumericLessThanEquals", None, "aws:EpochTime", "1767225600", |_, it| Some(it.now_s <= NEW_YEAR)),
    ("NumericGreaterThan", None, "aws:EpochTime", "1767225600", |_, it| Some(it.now_s > NEW_YEAR)),
    ("NumericGreaterThanEquals", None, "aws:EpochTime", "1767225600", |_, it| Some(it.now_s >= NEW_YEAR)),
    ("NumericEquals", Some("NumericNotEquals"), "aws:EpochTime", "1767225600", |_, it| Some(it.now_s == NEW_YEAR)),
];
