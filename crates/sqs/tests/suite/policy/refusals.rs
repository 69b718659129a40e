//! Policies that are refused when they are set, because a part of them is not known here.

use hikyaku_sqs::error::ErrorCode;
use hikyaku_sqs::policy::{IdentityPolicy, QueuePolicy};
use serde_json::{Value, json};

fn statement() -> Value {
    json!({
        "Sid": "s",
        "Effect": "Allow",
        "Principal": "*",
        "Action": "sqs:SendMessage",
        "Resource": "arn:aws:sqs:eu-north-1:111111111111:orders",
    })
}

/// A statement with an element instead of its own, or without it if that is null.
fn with(element: &str, value: Value) -> String {
    let mut statement = statement();
    let elements = statement.as_object_mut().unwrap();
    match value {
        Value::Null => elements.remove(element),
        value => elements.insert(element.to_owned(), value),
    };
    json!({ "Version": "2012-10-17", "Statement": [statement] }).to_string()
}

fn refused(text: &str) -> String {
    match QueuePolicy::parse(text) {
        Ok(policy) => panic!("{text} was read as {policy:?}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn what_aws_takes_is_taken() {
    let one = json!({ "Statement": statement() }).to_string();
    for text in [
        r#"{"Statement":[]}"#,
        &one,
        &with("Sid", Value::Null),
        &with("Principal", json!({ "AWS": "111111111111" })),
        &with(
            "Principal",
            json!({ "AWS": ["arn:aws:iam::111111111111:user/a/b"], "Service": "s3.amazonaws.com" }),
        ),
        &with(
            "Principal",
            json!({ "AWS": "arn:aws:sts::111111111111:assumed-role/r/s" }),
        ),
        &with(
            "Condition",
            json!({ "Bool": { "aws:SecureTransport": false } }),
        ),
        &with(
            "Condition",
            json!({ "ForAnyValue:StringLikeIfExists": { "AWS:useragent": ["a*"] } }),
        ),
        &with("Condition", json!({ "Null": { "aws:SourceArn": "true" } })),
        &with(
            "Condition",
            json!({ "NumericLessThan": { "aws:EpochTime": 1_767_225_600 } }),
        ),
        &with("Resource", json!(["*", "arn:aws:sqs:*"])),
    ] {
        if let Err(fault) = QueuePolicy::parse(text) {
            panic!("{fault}: {text}");
        }
    }
}

#[test]
fn every_part_that_is_not_known_refuses_the_whole() {
    let condition = |operator: &str, key: &str, value: &str| {
        with("Condition", json!({ operator: { key: value } }))
    };
    for (text, reason) in [
        ("no JSON".to_owned(), "cannot be read"),
        ("[]".to_owned(), "cannot be read"),
        ("{}".to_owned(), "missing field `Statement`"),
        (
            r#"{"Statement":[],"Foo":1}"#.to_owned(),
            "unknown field `Foo`",
        ),
        (
            r#"{"Statement":[],"Statement":[]}"#.to_owned(),
            "Statement stands twice",
        ),
        (
            r#"{"Statement":[],"Version":"2020-01-01"}"#.to_owned(),
            "no version 2020-01-01",
        ),
        (
            format!(
                r#"{{"Statement":[],"Id":{}1{}}}"#,
                "[".repeat(9),
                "]".repeat(9)
            ),
            "nests deeper",
        ),
        (with("Foo", json!("bar")), "unknown field `Foo`"),
        (with("effect", json!("Allow")), "unknown field `effect`"),
        (with("Effect", json!("allow")), "Effect cannot be allow"),
        (with("Effect", Value::Null), "missing field `Effect`"),
        (
            with("Principal", Value::Null),
            "either Principal or NotPrincipal",
        ),
        (with("Principal", json!("somebody")), "Principal cannot be"),
        (with("Principal", json!({})), "Principal cannot be"),
        (
            with("Principal", json!({ "AWS": [] })),
            "Principal cannot be",
        ),
        (
            with("Principal", json!({ "AWS": 111_111_111_111_u64 })),
            "Principal cannot be",
        ),
        (
            with("Principal", json!({ "AWS": "11111111111" })),
            "Principal cannot be",
        ),
        (
            with(
                "Principal",
                json!({ "AWS": "arn:aws:iam::111111111111:user/*" }),
            ),
            "Principal cannot be",
        ),
        (
            with(
                "Principal",
                json!({ "AWS": "arn:aws:iam::111111111111:group/g" }),
            ),
            "Principal cannot be",
        ),
        (
            with("Principal", json!({ "Aws": "*" })),
            "Principal cannot be Aws",
        ),
        (
            with("NotPrincipal", json!("*")),
            "either Principal or NotPrincipal",
        ),
        (with("Action", Value::Null), "either Action or NotAction"),
        (with("Action", json!([])), "Action cannot be"),
        (with("Action", json!("sqs:Foo")), "Action cannot be sqs:Foo"),
        (
            with("Action", json!("sqs:SendMessageBatch")),
            "Action cannot be",
        ),
        (with("Action", json!("sns:Publish")), "Action cannot be"),
        (with("NotAction", json!("*")), "either Action or NotAction"),
        (
            with("Resource", Value::Null),
            "either Resource or NotResource",
        ),
        (
            with("Resource", json!("orders")),
            "Resource cannot be orders",
        ),
        (
            with("Resource", json!("arn:aws:sqs:*:*:${aws:username}")),
            "Resource cannot be",
        ),
        (with("Condition", json!({})), "Condition cannot be"),
        (
            with("Condition", json!({ "Bool": {} })),
            "Condition cannot be",
        ),
        (
            with(
                "Condition",
                json!({ "Bool": { "aws:SecureTransport": null } }),
            ),
            "Condition cannot be",
        ),
        (
            condition("StringMatches", "aws:username", "a"),
            "no condition operator StringMatches",
        ),
        (
            condition("ForAllValues:ForAnyValue:StringLike", "aws:username", "a"),
            "no condition operator",
        ),
        (
            condition("NullIfExists", "aws:username", "true"),
            "no condition operator",
        ),
        (
            condition("StringEquals", "aws:PrincipalOrgID", "o"),
            "aws:PrincipalOrgID is not known",
        ),
        (
            condition("StringLike", "aws:username", "${aws:userid}"),
            "Condition cannot be",
        ),
        (
            condition("Null", "aws:username", "maybe"),
            "Null cannot be maybe",
        ),
        (
            condition("Bool", "aws:SecureTransport", "yes"),
            "Condition cannot be yes",
        ),
        (
            condition("Bool", "aws:username", "true"),
            "does not go with aws:username",
        ),
        (
            condition("IpAddress", "aws:SourceIp", "10.0.0.0/33"),
            "Condition cannot be",
        ),
        (
            condition("IpAddress", "aws:SourceIp", "10.0.0/8"),
            "Condition cannot be",
        ),
        (
            condition("IpAddress", "aws:UserAgent", "10.0.0.0/8"),
            "does not go with",
        ),
        (
            condition("StringEquals", "aws:SourceIp", "10.0.0.1"),
            "does not go with",
        ),
        (
            condition("DateLessThan", "aws:CurrentTime", "tomorrow"),
            "Condition cannot be",
        ),
        (
            condition("DateLessThan", "aws:CurrentTime", "2026-02-30"),
            "Condition cannot be",
        ),
        (
            condition("DateLessThan", "aws:CurrentTime", "2026-01-01T00:00:00"),
            "Condition cannot be",
        ),
        (
            condition("NumericEquals", "aws:username", "1"),
            "does not go with",
        ),
        (
            condition("ArnEquals", "aws:username", "arn:*"),
            "does not go with",
        ),
    ] {
        let found = refused(&text);
        assert!(found.contains(reason), "{found}: {text}");
    }
}

#[test]
fn everyone_but_some_cannot_be_let_in() {
    let open = r#"{"Statement":{"Effect":"Allow","NotPrincipal":{"AWS":"111111111111"},
                   "Action":"sqs:*","Resource":"*"}}"#;
    assert_eq!(refused(open), "NotPrincipal goes with Deny only");
    QueuePolicy::parse(&open.replace("Allow", "Deny")).unwrap();
}

#[test]
fn a_policy_of_a_key_names_nobody() {
    IdentityPolicy::parse(&with("Principal", Value::Null)).unwrap();
    for element in ["Principal", "NotPrincipal"] {
        let text = with("Principal", Value::Null)
            .replace("\"Sid\":\"s\"", &format!("\"{element}\":\"*\""));
        let fault = IdentityPolicy::parse(&text).unwrap_err();
        assert_eq!(
            fault.to_string(),
            format!("{element} has no place in this policy")
        );
    }
}

#[test]
fn a_policy_has_its_limits() {
    let numbered = |number: usize| {
        let mut statement = statement();
        statement["Sid"] = json!(format!("s{number}"));
        statement
    };
    let many = |count: usize| {
        let statements: Vec<Value> = (0..count).map(numbered).collect();
        json!({ "Statement": statements }).to_string()
    };
    let names = |name: &str, count: usize| json!(vec![name; count]);
    let accounts = |count| with("Principal", json!({ "AWS": names("111111111111", count) }));
    let conditions = |count: usize| {
        let operators = [
            "StringEquals",
            "StringNotEquals",
            "StringLike",
            "StringNotLike",
            "StringEqualsIfExists",
            "StringNotEqualsIfExists",
            "StringLikeIfExists",
            "StringNotLikeIfExists",
            "StringEqualsIgnoreCase",
            "StringNotEqualsIgnoreCase",
            "Null",
        ];
        let pair = |operator: &&str| ((*operator).to_owned(), json!({ "aws:username": "true" }));
        with(
            "Condition",
            Value::Object(operators[..count].iter().map(pair).collect()),
        )
    };
    let filled = |bytes: usize| {
        let frame = r#"{"Statement":[],"Id":""}"#;
        frame.replace(
            ":\"\"",
            &format!(":\"{}\"", "x".repeat(bytes - frame.len())),
        )
    };
    for (fits, over, what) in [
        (
            many(20),
            many(21),
            "21 Statements were found, maximum allowed is 20",
        ),
        (
            with("Action", names("sqs:SendMessage", 7)),
            with("Action", names("*", 8)),
            "8 Actions",
        ),
        (accounts(50), accounts(51), "51 Principals"),
        (conditions(10), conditions(11), "11 Conditions"),
        (filled(8_192), filled(8_193), "8193 Bytes"),
    ] {
        QueuePolicy::parse(&fits).unwrap();
        let fault = QueuePolicy::parse(&over).unwrap_err();
        assert!(fault.to_string().starts_with(what), "{fault}");
        assert_eq!(fault.to_error().code, ErrorCode::OverLimit);
    }
    let twice = json!({ "Statement": [statement(), statement()] }).to_string();
    assert_eq!(refused(&twice), "there are two statements with the Sid s");
}
