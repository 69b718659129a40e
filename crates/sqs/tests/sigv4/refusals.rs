//! Every rule by itself: a good request, and one thing amiss.

use hikyaku_sqs::sigv4::Policy;
use hikyaku_sqs::sigv4::key::AccessKey;
use hikyaku_sqs::sigv4::refusal::{Refusal, Scheme};
use zeroize::Zeroizing;

use crate::request::{Request, at};
use crate::signer::{ID, SECRET, TOKEN, Unsigned, usual};

fn presigned() -> Unsigned {
    let host = ("Host".to_owned(), "queues.example:9324".to_owned());
    let action = ("Action".to_owned(), "ListQueues".to_owned());
    Unsigned {
        method: "GET".to_owned(),
        query: vec![action],
        headers: vec![host],
        body: Vec::new(),
        presigned_s: Some(60),
        ..usual()
    }
}

/// What becomes of the request when it arrives in time.
fn judge(request: &Request) -> Result<(), Refusal> {
    request.judge(&at(usual().now_ms()), &usual().key())
}

/// What becomes of a usual request after this was done to it.
fn bent(bend: impl FnOnce(&mut Request)) -> Result<(), Refusal> {
    let mut request = usual().sign();
    bend(&mut request);
    judge(&request)
}

/// The same for a presigned one.
fn bent_presigned(bend: impl FnOnce(&mut Request)) -> Result<(), Refusal> {
    let mut request = presigned().sign();
    bend(&mut request);
    judge(&request)
}

fn unsigned(name: &str) -> Result<(), Refusal> {
    Err(Refusal::UnsignedHeader(name.to_owned()))
}

#[test]
fn good_requests_are_believed() {
    assert_eq!(bent(|_| ()), Ok(()));
    assert_eq!(bent_presigned(|_| ()), Ok(()));
}

#[test]
fn a_signature_lives_fifteen_minutes_either_way() {
    let request = usual().sign();
    let after_s = |seconds: i64| {
        let now_ms = usual().now_ms().saturating_add_signed(seconds * 1000);
        request.judge(&at(now_ms), &usual().key())
    };
    for seconds in [-900, -899, 0, 899, 900] {
        assert_eq!(after_s(seconds), Ok(()), "{seconds}");
    }
    assert!(matches!(after_s(901), Err(Refusal::Expired { .. })));
    assert!(matches!(after_s(-901), Err(Refusal::NotYetCurrent { .. })));
}

#[test]
fn a_presigned_request_lives_as_long_as_it_says() {
    for life_s in [1, 604_800] {
        let unsigned = Unsigned {
            presigned_s: Some(life_s),
            ..presigned()
        };
        let request = unsigned.sign();
        let end_ms = unsigned.now_ms() + u64::from(life_s) * 1000;
        assert_eq!(request.judge(&at(end_ms), &unsigned.key()), Ok(()));
        let late = request.judge(&at(end_ms + 1), &unsigned.key());
        assert!(matches!(late, Err(Refusal::Expired { .. })));
        let early = request.judge(&at(unsigned.now_ms() - 901_000), &unsigned.key());
        assert!(matches!(early, Err(Refusal::NotYetCurrent { .. })));
    }
    for life in [
        "0",
        "604801",
        "-1",
        "+60",
        "060",
        "",
        "1e3",
        "99999999999999999999",
    ] {
        let outcome = bent_presigned(|request| {
            let query = request.query.take().unwrap();
            let life = life.replace('+', "%2B");
            request.query = Some(query.replace("Expires=60", &format!("Expires={life}")));
        });
        assert_eq!(outcome, Err(Refusal::Expires), "{life}");
    }
}

#[test]
fn what_decides_must_be_signed() {
    assert_eq!(
        bent(|request| request.add("Date", "today")),
        unsigned("date")
    );
    assert_eq!(
        bent(|request| request.add("X-Amz-Anything", "")),
        unsigned("x-amz-anything")
    );
    let names = "content-type;host;x-amz-date;x-amz-target";
    let other = bent(|request| request.reword(";x-amzn-query-mode", ""));
    assert_eq!(
        other,
        Err(Refusal::Signature),
        "only names with x-amz- count"
    );
    for name in names.split(';') {
        let outcome = bent(|request| {
            let list = String::from_utf8(request.header("authorization").clone()).unwrap();
            let start = list.find("SignedHeaders=").unwrap();
            let end = start + list[start..].find(',').unwrap();
            let kept: Vec<&str> = list[start + "SignedHeaders=".len()..end]
                .split(';')
                .filter(|other| *other != name)
                .collect();
            let shorter = format!("SignedHeaders={}", kept.join(";"));
            request.reword(&list[start..end], &shorter);
        });
        // JSON's content type is implied by the target, so its absence is found later.
        let expected = if name == "content-type" {
            Err(Refusal::Signature)
        } else {
            unsigned(name)
        };
        assert_eq!(outcome, expected, "{name}");
    }
}

#[test]
fn an_unsigned_content_type_may_only_be_the_implied_one() {
    let of = |target: bool, value: &str| {
        let mut unsigned = usual();
        unsigned.headers.retain(|(name, _)| name != "Content-Type");
        unsigned
            .headers
            .retain(|(name, _)| target || name != "X-Amz-Target");
        let mut request = unsigned.sign();
        request.add("Content-Type", value);
        judge(&request)
    };
    let (json, form) = (
        "application/x-amz-json-1.0",
        "application/x-www-form-urlencoded",
    );
    assert_eq!(of(true, json), Ok(()));
    assert_eq!(of(false, form), Ok(()));
    assert_eq!(of(false, &format!("{form}; charset=utf-8")), Ok(()));
    assert_eq!(of(true, form), unsigned("content-type"));
    assert_eq!(of(false, json), unsigned("content-type"));
    assert_eq!(
        of(true, "application/x-amz-json-1.1"),
        unsigned("content-type")
    );
}

#[test]
fn nothing_is_said_twice() {
    let twice = |name: &str| Err(Refusal::DuplicateHeader(name.to_owned()));
    for name in [
        "host",
        "content-type",
        "x-amz-target",
        "x-amz-date",
        "authorization",
    ] {
        let outcome = bent(|request| {
            let value = String::from_utf8(request.header(name).clone()).unwrap();
            request.add(name, &value);
        });
        assert_eq!(outcome, twice(name), "{name}");
    }
    let query = presigned().sign().query;
    assert_eq!(
        bent(|request| request.query = query),
        Err(Refusal::TwoForms)
    );
    for query in [
        "X-Amz-Signature=0",
        "x-amz-date=0",
        "AWSAccessKeyId=a",
        "Signature=a",
    ] {
        let outcome = bent(|request| request.query = Some(query.to_owned()));
        assert_eq!(outcome, Err(Refusal::TwoForms), "{query}");
    }
    for name in ["X-Amz-Date", "X-Amz-Security-Token"] {
        let outcome = bent_presigned(|request| request.add(name, "20260101T000000Z"));
        assert_eq!(outcome, Err(Refusal::TwoForms), "{name}");
    }
}

#[test]
fn a_query_has_one_writing() {
    for (from, to) in [
        ("Action=ListQueues", "Action=ListQueues&Action=PurgeQueue"),
        ("Action=ListQueues", "Action=List+Queues"),
        ("Action=ListQueues", "Action=%4CistQueues"),
        ("Action=ListQueues", "Action=ListQueues&=x"),
        ("Action=ListQueues", "Action=ListQueues&x"),
        ("Action=ListQueues", "&Action=ListQueues"),
        ("%2F", "%2f"),
        ("%2F", "/"),
    ] {
        let outcome = bent_presigned(|request| {
            let query = request.query.take().unwrap();
            request.query = Some(query.replacen(from, to, 1));
        });
        assert_eq!(outcome, Err(Refusal::QueryForm), "{to}");
    }
    let encoded_twice = bent_presigned(|request| {
        let query = request.query.take().unwrap();
        request.query = Some(query.replace("%2F", "%252F"));
    });
    assert_eq!(encoded_twice, Err(Refusal::Malformed("Credential")));
}

#[test]
fn other_schemes_are_refused_by_name() {
    let with = |text: &str| bent(|request| *request.header("authorization") = text.into());
    let scheme = |scheme| Err(Refusal::Scheme(scheme));
    assert_eq!(with("AWS AKID:c2ln"), scheme(Scheme::V2));
    assert_eq!(with("AWS3-HTTPS AWSAccessKeyId=a"), scheme(Scheme::V2));
    assert_eq!(
        with("AWS4-ECDSA-P256-SHA256 Credential=a"),
        scheme(Scheme::V4a)
    );
    assert_eq!(with("Basic YTpi"), scheme(Scheme::Unknown));
    assert_eq!(with("Bearer x"), scheme(Scheme::Unknown));
    assert_eq!(
        with("aws4-hmac-sha256 Credential=a"),
        scheme(Scheme::Unknown)
    );
    assert_eq!(with(""), scheme(Scheme::Unknown));
    let v2 = bent(|request| {
        request.remove("authorization");
        request.query = Some("AWSAccessKeyId=a&SignatureVersion=2&Signature=b".to_owned());
    });
    assert_eq!(v2, scheme(Scheme::V2));
    let v4a = bent_presigned(|request| {
        let query = request.query.take().unwrap();
        request.query = Some(query.replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"));
    });
    assert_eq!(v4a, scheme(Scheme::V4a));
    assert_eq!(
        bent(|request| request.remove("authorization")),
        Err(Refusal::NoCredentials)
    );
}

#[test]
fn a_body_is_signed_whole_or_not_taken() {
    let declared = |value: &str| {
        let mut unsigned = usual();
        unsigned
            .headers
            .push(("X-Amz-Content-Sha256".to_owned(), value.to_owned()));
        judge(&unsigned.sign())
    };
    for mode in [
        "UNSIGNED-PAYLOAD",
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
        "anything",
        "",
    ] {
        assert!(matches!(declared(mode), Err(Refusal::Payload(_))), "{mode}");
    }
    assert_eq!(declared(&"0".repeat(64)), Err(Refusal::BodyHash));
    let mut unsigned = usual();
    unsigned.headers.push((
        "X-Amz-Trailer".to_owned(),
        "x-amz-checksum-crc32".to_owned(),
    ));
    assert!(matches!(judge(&unsigned.sign()), Err(Refusal::Payload(_))));
    let mut unsigned = presigned();
    unsigned.query.push((
        "X-Amz-Content-Sha256".to_owned(),
        "UNSIGNED-PAYLOAD".to_owned(),
    ));
    assert!(matches!(judge(&unsigned.sign()), Err(Refusal::Payload(_))));
}

#[test]
fn the_scope_is_exact() {
    let policy = Policy {
        region: Some("eu-north-1"),
        services: &["sqs"],
        ..at(usual().now_ms())
    };
    let of = |region: &str, service| {
        let unsigned = Unsigned {
            region: region.to_owned(),
            service,
            ..usual()
        };
        unsigned.sign().judge(&policy, &unsigned.key())
    };
    assert_eq!(of("eu-north-1", "sqs"), Ok(()));
    assert_eq!(of("ns", "sqs"), Err(Refusal::ScopeRegion));
    assert_eq!(of("eu-north-1", "sts"), Err(Refusal::ScopeService));
    assert_eq!(of("eu-north-1", "s3"), Err(Refusal::ScopeService));
    let reworded = |from: &'static str, to: &'static str| bent(|request| request.reword(from, to));
    assert_eq!(
        reworded("aws4_request", "aws4_requesT"),
        Err(Refusal::ScopeTerminator)
    );
    assert_eq!(reworded("/eu-north-1/", "//"), Err(Refusal::ScopeRegion));
    assert_eq!(
        reworded("/eu-north-1/", "/"),
        Err(Refusal::Malformed("Credential"))
    );
    let no_day = reworded("AKIAIOSFODNN7EXAMPLE/2026", "AKIAIOSFODNN7EXAMPLE/26");
    assert_eq!(no_day, Err(Refusal::Malformed("Credential")));
    let day = bent(|request| {
        let date = String::from_utf8(request.header("x-amz-date").clone()).unwrap();
        request.reword(&format!("/{}/", &date[..8]), "/20150830/");
    });
    assert!(matches!(day, Err(Refusal::ScopeDay { .. })));
}

#[test]
fn the_parts_of_a_signature_are_all_there_and_well_formed() {
    let reworded = |from: &'static str, to: &'static str| bent(|request| request.reword(from, to));
    let malformed = |part| Err(Refusal::Malformed(part));
    assert_eq!(
        reworded("Credential=", "Credentials="),
        malformed("Authorization")
    );
    assert_eq!(
        reworded(" Signature=", " Signature=0, Signature="),
        malformed("Authorization")
    );
    assert_eq!(
        reworded("Signature=", "Signature=A"),
        malformed("Signature")
    );
    assert_eq!(
        reworded("content-type;host", "host;content-type"),
        malformed("SignedHeaders")
    );
    assert_eq!(
        reworded("content-type;host", "content-type;host;host"),
        malformed("SignedHeaders")
    );
    assert_eq!(
        reworded("content-type;host", "Content-Type;host"),
        malformed("SignedHeaders")
    );
    assert_eq!(
        reworded("SignedHeaders=", "SignedHeaders=;"),
        malformed("SignedHeaders")
    );
    let absent = Err(Refusal::AbsentHeader("a".to_owned()));
    assert_eq!(reworded("SignedHeaders=", "SignedHeaders=a;"), absent);
    let undated = bent(|request| request.remove("x-amz-date"));
    assert_eq!(undated, Err(Refusal::Missing("X-Amz-Date")));
    for part in ["Credential", "SignedHeaders", "Signature"] {
        let outcome = bent(|request| {
            let text = String::from_utf8(request.header("authorization").clone()).unwrap();
            let (scheme, parts) = text.split_once(' ').unwrap();
            let kept = parts
                .split(", ")
                .filter(|other| !other.starts_with(&format!("{part}=")));
            let kept = kept.collect::<Vec<_>>().join(", ");
            *request.header("authorization") = format!("{scheme} {kept}").into();
        });
        assert_eq!(outcome, Err(Refusal::Missing(part)));
    }
}

#[test]
fn a_session_token_belongs_to_its_key() {
    let with_token = Unsigned {
        token: Some(TOKEN.to_owned()),
        ..usual()
    };
    let other = usual()
        .key()
        .of_session(Zeroizing::new("another".to_owned()));
    let policy = at(usual().now_ms());
    for signed in [
        with_token.sign(),
        Unsigned {
            presigned_s: Some(9),
            ..with_token.clone()
        }
        .sign(),
    ] {
        assert_eq!(signed.judge(&policy, &with_token.key()), Ok(()));
        assert_eq!(
            signed.judge(&policy, &usual().key()),
            Err(Refusal::SessionToken)
        );
        assert_eq!(signed.judge(&policy, &other), Err(Refusal::SessionToken));
    }
    let without = usual().sign();
    assert_eq!(
        without.judge(&policy, &with_token.key()),
        Err(Refusal::SessionToken)
    );
}

#[test]
fn another_secret_signs_otherwise() {
    let other = AccessKey::new(ID, Zeroizing::new(format!("{SECRET}x"))).unwrap();
    let outcome = usual().sign().judge(&at(usual().now_ms()), &other);
    assert_eq!(outcome, Err(Refusal::Signature));
    for id in ["", "AKID/X", "AKID EXAMPLE", "ключ"] {
        assert!(
            AccessKey::new(id, Zeroizing::new(SECRET.to_owned())).is_err(),
            "{id}"
        );
    }
}
