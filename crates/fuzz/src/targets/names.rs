//! Texts that name queues: names, URLs, ARNs, account ids, and the policies that hold ARNs.

use hikyaku_sqs::arn::QueueArn;
use hikyaku_sqs::queue_attributes::QueueAttributes;
use hikyaku_sqs::queue_attributes::changes::AttributeChanges;
use hikyaku_sqs::queue_attributes::redrive::{RedriveAllowPolicy, RedrivePolicy};
use hikyaku_sqs::queue_name::{AccountId, QueueName};
use hikyaku_sqs::queue_url::{QueueRef, QueueUrl};

use super::{Seen, Target};
use crate::memory::Bound;

pub const NAMES: Target = Target {
    name: "names",
    seeds: || SEEDS.map(|seed| seed.as_bytes().to_vec()).to_vec(),
    words: &[
        "/",
        "//",
        ":",
        "://",
        "http://",
        "arn:aws:sqs:",
        "000000000000",
        ".fifo",
        "orders",
        "\"",
        "deadLetterTargetArn",
        "maxReceiveCount",
        "redrivePermission",
        "sourceQueueArns",
        "byQueue",
        "allowAll",
        "denyAll",
        "{",
        "}",
        "[",
        "]",
        "\\u0000",
        "\u{e9}",
        "?",
        "#",
        "@",
    ],
    memory: Bound {
        fixed: 16 << 10,
        per_byte: 128,
    },
    judge: || Box::new(judge),
};

const SEEDS: [&str; 12] = [
    "orders",
    "orders.fifo",
    "000000000000",
    "http://localhost:9324/000000000000/orders",
    "https://sqs.eu-north-1.amazonaws.com/123456789012/orders.fifo/",
    "000000000000/orders",
    "arn:aws:sqs:eu-north-1:123456789012:orders.fifo",
    r#"{"deadLetterTargetArn":"arn:aws:sqs:local:000000000000:dead","maxReceiveCount":3}"#,
    r#"{"maxReceiveCount":"1000", "deadLetterTargetArn":"arn:aws:sqs:local:000000000000:dead","x":[{}]}"#,
    r#"{"redrivePermission":"allowAll"}"#,
    r#"{"redrivePermission":"denyAll","sourceQueueArns":[]}"#,
    r#"{"redrivePermission":"byQueue","sourceQueueArns":["arn:aws:sqs:local:000000000000:a"]}"#,
];

/// The text as everything that it could be; whether it is any of it.
fn judge(input: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(input) else {
        return Seen::refused("not UTF-8");
    };
    let read = [
        is_name(text),
        is_account(text),
        is_url(text),
        is_arn(text),
        is_redrive_policy(text),
        is_redrive_allow_policy(text),
        is_attributes(text),
    ];
    if read.contains(&true) {
        return Seen::accepted(read);
    }
    let refusal = RedrivePolicy::parse(text).expect_err("it is none");
    let other = RedriveAllowPolicy::parse(text).expect_err("it is none");
    Seen::refused(&format!("{:?} {}", other.code, refusal.message))
}

fn is_name(text: &str) -> bool {
    let name = QueueName::try_new(text);
    assert_eq!(name.is_some(), QueueName::parse(text).is_ok());
    if let Some(name) = &name {
        assert_eq!(name.as_str(), text);
        assert!((1..=80).contains(&text.len()) && text.is_ascii());
    }
    name.is_some()
}

fn is_account(text: &str) -> bool {
    let account = AccountId::try_new(text);
    if let Some(account) = &account {
        assert_eq!(account.as_str(), text);
    }
    account.is_some()
}

fn is_url(text: &str) -> bool {
    let Ok(queue) = QueueRef::parse(text) else {
        return false;
    };
    let base = "http://localhost:9324";
    match &queue.account {
        None => assert_eq!(queue.name.as_str(), text, "a bare name"),
        Some(account) => {
            let name = &queue.name;
            let url = QueueUrl {
                base,
                account,
                name,
            }
            .to_string();
            assert_eq!(QueueRef::parse(&url), Ok(queue.clone()), "a URL given out");
        }
    }
    true
}

fn is_arn(text: &str) -> bool {
    let arn = QueueArn::try_parse(text);
    if let Some(arn) = &arn {
        assert_eq!(arn.to_string(), text);
    }
    arn.is_some()
}

fn is_redrive_policy(text: &str) -> bool {
    let Ok(policy) = RedrivePolicy::parse(text) else {
        return false;
    };
    assert!((1..=1_000).contains(&policy.max_receive_count()));
    let again = RedrivePolicy::parse(policy.as_str());
    assert_eq!(again, Ok(policy), "a policy that was stored");
    true
}

fn is_redrive_allow_policy(text: &str) -> bool {
    let Ok(policy) = RedriveAllowPolicy::parse(text) else {
        return false;
    };
    let again = RedriveAllowPolicy::parse(policy.as_str());
    assert_eq!(again, Ok(policy), "a policy that was stored");
    true
}

/// Whether it is the value of an attribute of a queue that is JSON.
fn is_attributes(text: &str) -> bool {
    let name = QueueName::try_new("orders").expect("a plain name");
    let of = |attribute: &str| {
        let changes = AttributeChanges::parse([(attribute, text)]).ok()?;
        QueueAttributes::create(&name, &changes).ok()
    };
    let read = ["Policy", "RedrivePolicy", "RedriveAllowPolicy"].map(of);
    for attributes in read.iter().flatten() {
        let pairs = attributes.to_pairs();
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let again = QueueAttributes::from_pairs(&name, pairs);
        assert_eq!(
            again.as_ref(),
            Ok(attributes),
            "attributes that were stored"
        );
    }
    read.iter().any(Option::is_some)
}
