//! Access policies: read, decided by, and changed by a permission.
//!
//! What is a policy of a queue stays one when a statement is added, and is what it was when that is
//! taken out again.

use std::net::{IpAddr, Ipv4Addr};

use hikyaku_sqs::action::Action;
use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::policy::permission::{Label, Permission};
use hikyaku_sqs::policy::{Asked, Decision, IdentityPolicy, Principal, QueuePolicy, Surroundings};
use hikyaku_sqs::queue_name::AccountId;

use super::{Seen, Target};
use crate::memory::Bound;

/// A policy has 8 KiB at the most, of which small patterns are made.
const MEMORY: Bound = Bound {
    fixed: 1 << 20,
    per_byte: 64,
};

const ARN: &str = "arn:aws:sqs:local:000000000000:orders";

pub const POLICIES: Target = Target {
    name: "policies",
    seeds,
    words: &[
        "\"Statement\"",
        "\"Effect\":\"Deny\"",
        "\"NotAction\"",
        "\"Condition\":{\"StringLike\":{\"aws:UserAgent\":\"*\"}}",
        "\"IpAddress\":{\"aws:SourceIp\":\"10.0.0.0/8\"}",
        "\"Null\"",
        "ForAllValues:",
        "IfExists",
        "arn:aws:iam::000000000000:root",
        "*",
        "?",
    ],
    memory: MEMORY,
    judge: || {
        Box::new(|input| match std::str::from_utf8(input) {
            Ok(text) => judged(text),
            Err(_) => Seen::refused("no text"),
        })
    },
};

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"Version":"2012-10-17","Id":"i","Statement":[]}"#,
        r#"{"Statement":{"Sid":"s","Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}}"#,
        r#"{"Statement":[{"Effect":"Deny","NotPrincipal":{"AWS":["111111111111"]},"NotAction":"sqs:SendMessage","NotResource":"arn:aws:sqs:*","Condition":{"IpAddress":{"aws:SourceIp":["10.0.0.0/8","::1"]},"Bool":{"aws:SecureTransport":false},"DateLessThan":{"aws:CurrentTime":"2026-01-01T00:00:00Z"}}}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":["sqs:Send*","SQS:?etQueueUrl"],"Resource":"arn:aws:sqs:*:*:ord??s","Condition":{"ForAnyValue:StringLikeIfExists":{"aws:UserAgent":"a*b*c"},"Null":{"aws:username":"true"}}}]}"#,
    ];
    texts
        .into_iter()
        .map(|text| text.as_bytes().to_vec())
        .collect()
}

fn judged(text: &str) -> Seen {
    let account = AccountId::try_new("000000000000").expect("twelve digits");
    match (QueuePolicy::parse(text), IdentityPolicy::parse(text)) {
        (Ok(policy), key) => {
            changed(text, &policy);
            // Without statements it is a policy of either kind.
            let by_key = key.map(|key| decided(&user(&account), None, Some(&key)));
            let by_queue = decided(&Principal::root(account), Some(&policy), None);
            Seen::accepted((by_queue, by_key.ok()))
        }
        (Err(_), Ok(key)) => Seen::accepted(decided(&user(&account), None, Some(&key))),
        (Err(fault), Err(_)) => Seen::refused(&fault.to_string()),
    }
}

fn user(account: &AccountId) -> Principal {
    Principal::user(account.clone(), "ann").expect("a name of a user")
}

/// The actions that are allowed, as bits.
fn decided(
    principal: &Principal,
    queue: Option<&QueuePolicy>,
    key: Option<&IdentityPolicy>,
) -> u32 {
    let around = Surroundings {
        source: Some(IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3))),
        encrypted: false,
        now_ms: 1_767_225_600_000,
        user_agent: Some("abc"),
    };
    let allowed = |action: Action| {
        let asked = Asked {
            principal,
            action,
            owner: principal.account(),
            resource: ARN,
            around: &around,
        };
        asked.decide(queue, key) == Decision::Allowed
    };
    let bits = Action::ALL
        .into_iter()
        .map(|action| u32::from(allowed(action)));
    bits.fold(0, |all, bit| all << 1 | bit)
}

fn changed(text: &str, policy: &QueuePolicy) {
    let label = Label::parse("fuzz").expect("a label");
    let permission = Permission::parse("fuzz", ["111111111111"], ["SendMessage"]);
    let permission = permission.expect("a permission");
    let arn = QueueArn::try_parse(ARN).expect("an ARN of a queue");
    // It may be full, or have the label.
    let Ok(added) = permission.add_to(Some(text), &arn) else {
        return;
    };
    let with = QueuePolicy::parse(&added).expect("a policy with a permission is one");
    assert_ne!(&with, policy, "a permission is a statement");
    let left = label.remove_from(Some(&added)).expect("the label is there");
    let left = left.unwrap_or_else(|| r#"{"Statement":[]}"#.to_owned());
    assert_eq!(QueuePolicy::parse(&left).as_ref(), Ok(policy));
}
