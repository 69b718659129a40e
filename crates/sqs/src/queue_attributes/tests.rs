use proptest::prelude::*;

use super::changes::AttributeChanges;
use super::description::{AttributeSelection, MessageCounts, QueueDescription};
use super::names::QueueAttributeName;
use super::redrive::RedrivePolicy;
use super::{DeduplicationScope, FifoThroughputLimit, QueueAttributes};
use crate::arn::QueueArn;
use crate::error::{ErrorCode, SqsError};
use crate::queue_name::QueueName;

const ARN: &str = "arn:aws:sqs:eu-north-1:000000000000:dead";

fn changes(pairs: &[(&str, &str)]) -> Result<AttributeChanges, SqsError> {
    AttributeChanges::parse(pairs.iter().copied())
}

fn create(name: &str, pairs: &[(&str, &str)]) -> Result<QueueAttributes, SqsError> {
    QueueAttributes::create(&QueueName::parse(name)?, &changes(pairs)?)
}

fn set(queue: &QueueAttributes, pairs: &[(&str, &str)]) -> Result<QueueAttributes, SqsError> {
    queue.with(&changes(pairs)?)
}

fn standard() -> QueueAttributes {
    create("orders", &[]).unwrap()
}

fn fifo() -> QueueAttributes {
    create("orders.fifo", &[("FifoQueue", "true")]).unwrap()
}

fn all(queue: &QueueAttributes) -> Vec<(&'static str, String)> {
    let arn = QueueArn::try_parse("arn:aws:sqs:eu-north-1:000000000000:orders").unwrap();
    let counts = MessageCounts {
        visible: 3,
        not_visible: 2,
        delayed: 1,
    };
    let description = QueueDescription {
        attributes: queue,
        arn: &arn,
        created_seconds: 1_700_000_000,
        last_modified_seconds: 1_700_000_060,
        counts,
    };
    let selected = AttributeSelection::parse(["All"]).unwrap().of(&description);
    selected
        .into_iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect()
}

#[test]
fn a_standard_queue_tells_twelve_attributes() {
    let mut told = all(&standard());
    told.sort();
    let expected = [
        ("ApproximateNumberOfMessages", "3"),
        ("ApproximateNumberOfMessagesDelayed", "1"),
        ("ApproximateNumberOfMessagesNotVisible", "2"),
        ("CreatedTimestamp", "1700000000"),
        ("DelaySeconds", "0"),
        ("LastModifiedTimestamp", "1700000060"),
        ("MaximumMessageSize", "1048576"),
        ("MessageRetentionPeriod", "345600"),
        ("QueueArn", "arn:aws:sqs:eu-north-1:000000000000:orders"),
        ("ReceiveMessageWaitTimeSeconds", "0"),
        ("SqsManagedSseEnabled", "true"),
        ("VisibilityTimeout", "30"),
    ];
    assert_eq!(told, expected.map(|(name, value)| (name, value.to_owned())));
}

#[test]
fn a_fifo_queue_tells_four_more() {
    let told = all(&fifo());
    assert_eq!(told.len(), 16);
    for (name, value) in [
        ("FifoQueue", "true"),
        ("ContentBasedDeduplication", "false"),
        ("DeduplicationScope", "queue"),
        ("FifoThroughputLimit", "perQueue"),
    ] {
        assert!(told.contains(&(name, value.to_owned())), "{name}");
    }
}

#[test]
fn names_asked_for_that_are_unknown_are_refused() {
    let error = AttributeSelection::parse(["QueueArn", "Foobar"]).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidAttributeName);
    assert_eq!(error.message, "Unknown Attribute Foobar.");
}

#[test]
fn only_counts_need_to_be_counted() {
    let wants = |names: &[&str]| {
        AttributeSelection::parse(names.iter().copied())
            .unwrap()
            .wants_counts()
    };
    assert!(wants(&["All"]) && wants(&["QueueArn", "ApproximateNumberOfMessages"]));
    assert!(!wants(&[]) && !wants(&["QueueArn", "VisibilityTimeout"]));
}

#[test]
fn values_out_of_range_are_refused() {
    for (name, lowest, highest) in [
        ("VisibilityTimeout", 0_i64, 43_200_i64),
        ("DelaySeconds", 0, 900),
        ("MaximumMessageSize", 1_024, 1_048_576),
        ("MessageRetentionPeriod", 60, 1_209_600),
        ("ReceiveMessageWaitTimeSeconds", 0, 20),
        ("KmsDataKeyReusePeriodSeconds", 60, 86_400),
    ] {
        for inside in [lowest, highest] {
            assert!(
                create("orders", &[(name, &inside.to_string())]).is_ok(),
                "{name}={inside}"
            );
        }
        let outside = [lowest - 1, highest + 1].map(|number| number.to_string());
        for outside in [
            outside[0].as_str(),
            &outside[1],
            "",
            "x",
            "1.5",
            "99999999999",
        ] {
            let error = create("orders", &[(name, outside)]).unwrap_err();
            assert_eq!(
                error.code,
                ErrorCode::InvalidAttributeValue,
                "{name}={outside}"
            );
            assert_eq!(
                error.message,
                format!("Invalid value for the parameter {name}.")
            );
        }
    }
}

#[test]
fn read_only_and_unknown_attributes_cannot_be_written() {
    for name in [
        "QueueArn",
        "CreatedTimestamp",
        "ApproximateNumberOfMessages",
        "All",
        "Foobar",
    ] {
        let error = create("orders", &[(name, "1")]).unwrap_err();
        assert_eq!(error, SqsError::unknown_attribute(name));
    }
}

#[test]
fn suffix_and_fifo_attribute_must_agree() {
    let refused = |name, pairs: &[(&str, &str)]| create(name, pairs).unwrap_err();
    let without_attribute = refused("orders.fifo", &[]);
    assert_eq!(without_attribute.code, ErrorCode::InvalidParameterValue);
    let without_suffix = refused("orders", &[("FifoQueue", "true")]);
    assert_eq!(without_suffix.code, ErrorCode::InvalidParameterValue);
    assert!(
        without_suffix
            .message
            .contains("must end with .fifo suffix")
    );
    for name in ["orders", "orders.fifo"] {
        let error = refused(name, &[("FifoQueue", "false")]);
        assert_eq!(error, SqsError::unknown_attribute("FifoQueue"));
    }
}

#[test]
fn a_standard_queue_knows_no_fifo_attribute() {
    let refused = |name, value| set(&standard(), &[(name, value)]).unwrap_err();
    assert_eq!(
        refused("ContentBasedDeduplication", "false"),
        SqsError::unknown_attribute("ContentBasedDeduplication")
    );
    assert_eq!(
        refused("FifoQueue", "true"),
        SqsError::unknown_attribute("FifoQueue")
    );
    let scope = refused("DeduplicationScope", "queue");
    assert_eq!(scope.code, ErrorCode::InvalidAttributeName);
    assert_eq!(
        scope.message,
        "You can specify the DeduplicationScope only when FifoQueue is set to true."
    );
    assert_eq!(
        refused("FifoThroughputLimit", "perQueue").code,
        ErrorCode::InvalidAttributeName
    );
}

#[test]
fn the_type_of_a_queue_cannot_change() {
    assert_eq!(set(&fifo(), &[("FifoQueue", "true")]).unwrap(), fifo());
    let error = set(&fifo(), &[("FifoQueue", "false")]).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidAttributeValue);
    assert_eq!(
        error.message,
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
    );
}

#[test]
fn throughput_per_message_group_needs_that_scope() {
    let limit = ("FifoThroughputLimit", "perMessageGroupId");
    assert!(set(&fifo(), &[limit]).is_err());
    let fast = set(&fifo(), &[limit, ("DeduplicationScope", "messageGroup")]).unwrap();
    let attributes = fast.fifo.unwrap();
    assert_eq!(
        attributes.deduplication_scope,
        DeduplicationScope::MessageGroup
    );
    assert_eq!(
        attributes.throughput_limit,
        FifoThroughputLimit::PerMessageGroupId
    );
    assert!(set(&fast, &[("DeduplicationScope", "queue")]).is_err());
}

#[test]
fn booleans_read_back_in_lower_case() {
    let queue = set(&fifo(), &[("ContentBasedDeduplication", "True")]).unwrap();
    let value = queue.value(QueueAttributeName::ContentBasedDeduplication);
    assert_eq!(value.as_deref(), Some("true"));
    assert!(set(&fifo(), &[("ContentBasedDeduplication", "yes")]).is_err());
}

#[test]
fn a_kms_key_turns_sqs_encryption_off_for_good() {
    let with_key = set(&standard(), &[("KmsMasterKeyId", "alias/none")]).unwrap();
    assert!(!with_key.encryption.sqs_managed_sse_enabled);
    let without_key = set(&with_key, &[("KmsMasterKeyId", "")]).unwrap();
    assert_eq!(without_key.encryption.kms_master_key_id, None);
    assert!(!without_key.encryption.sqs_managed_sse_enabled);
    assert!(set(&without_key, &[("SqsManagedSseEnabled", "true")]).is_ok());
}

#[test]
fn two_kinds_of_encryption_exclude_each_other() {
    let both = [("SqsManagedSseEnabled", "true"), ("KmsMasterKeyId", "k")];
    let error = set(&standard(), &both).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidAttributeName);
    assert!(
        error
            .message
            .starts_with("You can use one type of server-side encryption (SSE) at one time.")
    );
}

#[test]
fn the_default_reuse_period_is_not_told() {
    let told =
        |queue: &QueueAttributes| queue.value(QueueAttributeName::KmsDataKeyReusePeriodSeconds);
    let longer = set(&standard(), &[("KmsDataKeyReusePeriodSeconds", "600")]).unwrap();
    assert_eq!(told(&longer).as_deref(), Some("600"));
    let default = set(&longer, &[("KmsDataKeyReusePeriodSeconds", "300")]).unwrap();
    assert_eq!(told(&default), None);
}

#[test]
fn an_empty_text_removes_policies() {
    let redrive = format!(r#"{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":3}}"#);
    let pairs = [
        ("Policy", r#"{"Version":"2012-10-17","Statement":[]}"#),
        ("RedrivePolicy", &redrive),
        ("RedriveAllowPolicy", r#"{"redrivePermission":"denyAll"}"#),
    ];
    let queue = set(&standard(), &pairs).unwrap();
    for (name, text) in pairs {
        let name = QueueAttributeName::from_name(name).unwrap();
        assert_eq!(queue.value(name).as_deref(), Some(text));
        let removed = set(&queue, &[(name.as_str(), "")]).unwrap();
        assert_eq!(removed.value(name), None);
    }
}

#[test]
fn a_redrive_policy_takes_the_count_as_number_or_text() {
    for count in ["1000", "\"1000\""] {
        let text = format!(r#"{{"maxReceiveCount":{count},"deadLetterTargetArn":"{ARN}"}}"#);
        let queue = create("orders", &[("RedrivePolicy", &text)]).unwrap();
        let policy = queue.redrive_policy.unwrap();
        assert_eq!(policy.max_receive_count(), 1_000);
        assert_eq!(policy.target().to_string(), ARN);
        assert!(policy.as_str().contains(r#""maxReceiveCount":1000"#));
    }
}

/// The text is written anew when the count was a text, with the ARN inside.
#[test]
fn a_redrive_policy_reads_back_whatever_its_target_says() {
    for region in [
        r"eu\u000anorth",
        r"eu\u0022north",
        r"eu\u005cnorth",
        "\u{e9}u-north",
    ] {
        let arn = format!("arn:aws:sqs:{region}:123456789012:dead");
        let text = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"3"}}"#);
        let error = RedrivePolicy::parse(&text).unwrap_err();
        let reason = "Reason: Invalid value for deadLetterTargetArn.";
        assert!(error.message.ends_with(reason), "{error}");
    }
    let text = format!(r#"{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":"3"}}"#);
    let policy = RedrivePolicy::parse(&text).unwrap();
    assert_eq!(RedrivePolicy::parse(policy.as_str()).as_ref(), Ok(&policy));
}

#[test]
fn bad_redrive_policies_are_refused_with_their_reason() {
    for (text, reason) in [
        (
            "nonsense".to_owned(),
            "Redrive policy is not a valid JSON map.",
        ),
        (
            format!(r#"{{"deadLetterTargetArn":"{ARN}"}}"#),
            "Redrive policy does not contain mandatory attribute: maxReceiveCount.",
        ),
        (
            r#"{"maxReceiveCount":1}"#.to_owned(),
            "Redrive policy does not contain mandatory attribute: deadLetterTargetArn.",
        ),
        (
            r#"{"deadLetterTargetArn":"dead","maxReceiveCount":1}"#.to_owned(),
            "Invalid value for deadLetterTargetArn.",
        ),
        (
            format!(r#"{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":0}}"#),
            "Invalid value for maxReceiveCount: 0, valid values are from 1 to 1000 both inclusive.",
        ),
        (
            format!(r#"{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":"many"}}"#),
            "Invalid value for maxReceiveCount: many, valid values are from 1 to 1000 both inclusive.",
        ),
    ] {
        let error = create("orders", &[("RedrivePolicy", &text)]).unwrap_err();
        assert_eq!(
            error,
            SqsError::invalid_parameter("RedrivePolicy", &text, reason)
        );
    }
}

#[test]
fn an_allow_policy_says_who_may() {
    let text = format!(r#"{{"redrivePermission":"byQueue","sourceQueueArns":["{ARN}"]}}"#);
    let queue = create("orders", &[("RedriveAllowPolicy", &text)]).unwrap();
    let policy = queue.redrive_allow_policy.unwrap();
    assert!(policy.allows(&QueueArn::try_parse(ARN).unwrap()));
    let other = QueueArn::try_parse("arn:aws:sqs:eu-north-1:000000000000:other").unwrap();
    assert!(!policy.allows(&other));
    for bad in [
        r#"{"redrivePermission":"byQueue"}"#,
        r#"{"redrivePermission":"byQueue","sourceQueueArns":[]}"#,
        r#"{"redrivePermission":"allowAll","sourceQueueArns":["x"]}"#,
        r#"{"redrivePermission":"perhaps"}"#,
        "[]",
    ] {
        assert!(
            create("orders", &[("RedriveAllowPolicy", bad)]).is_err(),
            "{bad}"
        );
    }
}

fn difference(held: &QueueAttributes, pairs: &[(&str, &str)]) -> Option<QueueAttributeName> {
    held.first_difference(&create("orders", pairs).unwrap(), &changes(pairs).unwrap())
}

#[test]
fn creating_again_compares_only_what_was_asked() {
    let queue = create("orders", &[("DelaySeconds", "5")]).unwrap();
    let difference = |pairs: &[(&str, &str)]| difference(&queue, pairs);
    assert_eq!(difference(&[]), None);
    assert_eq!(difference(&[("DelaySeconds", "5")]), None);
    assert_eq!(
        difference(&[("DelaySeconds", "6")]),
        Some(QueueAttributeName::DelaySeconds)
    );
    assert_eq!(
        difference(&[("DelaySeconds", "5"), ("VisibilityTimeout", "1")]),
        Some(QueueAttributeName::VisibilityTimeout)
    );
}

#[test]
fn creating_again_compares_policies_by_meaning() {
    let queue = create(
        "orders",
        &[
            ("Policy", r#"{"Id":"1","Statement":[]}"#),
            (
                "RedrivePolicy",
                &format!(r#"{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":3}}"#),
            ),
        ],
    )
    .unwrap();
    let same = [
        ("Policy", r#"{ "Statement": [], "Id": "1" }"#),
        (
            "RedrivePolicy",
            &format!(r#"{{"maxReceiveCount":"3","deadLetterTargetArn":"{ARN}"}}"#),
        ),
    ];
    assert_eq!(difference(&queue, &same), None);
    let other = [("Policy", r#"{"Statement":[]}"#)];
    assert_eq!(difference(&queue, &other), Some(QueueAttributeName::Policy));
}

fn any_pairs() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    (
        0_u32..=43_200,
        0_u32..=900,
        1_024_u32..=1_048_576,
        any::<[bool; 5]>(),
    )
        .prop_map(
            |(visibility, delay, size, [policy, redrive, key, content_based, scope])| {
                let mut pairs = vec![
                    ("VisibilityTimeout", visibility.to_string()),
                    ("DelaySeconds", delay.to_string()),
                    ("MaximumMessageSize", size.to_string()),
                    ("FifoQueue", "true".to_owned()),
                    ("ContentBasedDeduplication", content_based.to_string()),
                ];
                if policy {
                    pairs.push((
                        "Policy",
                        r#"{"Version": "2012-10-17", "Statement": []}"#.to_owned(),
                    ));
                }
                if redrive {
                    let text =
                        format!(r#"{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":"9"}}"#);
                    pairs.push(("RedrivePolicy", text));
                }
                if key {
                    pairs.push(("KmsMasterKeyId", "alias/k".to_owned()));
                }
                if scope {
                    pairs.push(("DeduplicationScope", "messageGroup".to_owned()));
                    pairs.push(("FifoThroughputLimit", "perMessageGroupId".to_owned()));
                }
                pairs
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn stored_pairs_read_back(pairs in any_pairs()) {
        let name = QueueName::parse("orders.fifo").unwrap();
        let asked = AttributeChanges::parse(pairs.iter().map(|(n, v)| (*n, v.as_str()))).unwrap();
        let queue = QueueAttributes::create(&name, &asked).unwrap();
        let stored = queue.to_pairs();
        let stored = stored.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        prop_assert_eq!(QueueAttributes::from_pairs(&name, stored).unwrap(), queue.clone());
    }
}

#[test]
fn a_standard_queue_can_be_spread_and_left_alone_again() {
    assert_eq!(standard().value(QueueAttributeName::Spread), None);
    let spread = set(&standard(), &[("Hikyaku.Spread", "8")]).unwrap();
    let value = spread.value(QueueAttributeName::Spread);
    assert_eq!(value.as_deref(), Some("8"));
    let alone = set(&spread, &[("Hikyaku.Spread", "")]).unwrap();
    assert_eq!(alone, standard());
    for wrong in ["0", "33", "-1", "all"] {
        let refused = changes(&[("Hikyaku.Spread", wrong)]).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidAttributeValue, "{wrong}");
    }
}

#[test]
fn a_fifo_queue_cannot_be_spread_by_its_owner() {
    let refused = create(
        "orders.fifo",
        &[("FifoQueue", "true"), ("Hikyaku.Spread", "2")],
    );
    assert_eq!(refused.unwrap_err().code, ErrorCode::InvalidAttributeName);
}
