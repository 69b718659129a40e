//! The 40 published cases, in the header and in the query: 78 signed requests.
//!
//! All are good signatures by AWS's rules. Ours are stricter where two requests share a signature, so
//! each case says what becomes of it; nothing else may.

use std::fs;
use std::path::PathBuf;

use hikyaku_sqs::sigv4::Policy;
use hikyaku_sqs::sigv4::key::AccessKey;
use hikyaku_sqs::sigv4::refusal::Refusal;
use zeroize::Zeroizing;

use crate::request::Request;

/// 30 August 2015, 12:36:00, the date of nearly all cases.
const DATE_MS: u64 = 1_440_938_160_000;

/// 11 May 2021, 15:40:45, the date of the other one.
const LATER_DATE_MS: u64 = 1_620_747_645_000;

#[derive(Clone, Copy, Debug)]
enum Form {
    Header,
    Query,
}

/// What becomes of a case.
fn expected(case: &str, form: Form) -> Result<(), Refusal> {
    match (case, form) {
        // One header given twice may be read as its first or as its last value.
        ("get-header-key-duplicate" | "get-header-value-order", _) => {
            Err(Refusal::DuplicateHeader("my-header1".to_owned()))
        }
        // Many paths, one signature.
        (case, _) if case.starts_with("get-relative-") || case.starts_with("get-slash") => {
            Err(Refusal::PathForm)
        }
        // The session token was added after signing.
        ("post-sts-header-after", Form::Header) => {
            Err(Refusal::UnsignedHeader("x-amz-security-token".to_owned()))
        }
        ("post-sts-header-after", Form::Query) => Err(Refusal::Signature),
        (_, _) => Ok(()),
    }
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/sigv4")
}

/// Reads a request from a file; names and values of headers are separated by a colon alone.
fn parse(text: &str) -> Request {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    // A folded header, which no HTTP server lets through any more.
    let head = head.replace("\n ", " ");
    let mut lines = head.lines();
    let line = lines.next().unwrap();
    let (method, target) = line.split_once(' ').unwrap();
    let target = target.strip_suffix(" HTTP/1.1").unwrap_or(target);
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(encode(query))),
        None => (target, None),
    };
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_owned(), value.trim_matches(' ').into())
    };
    Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query,
        headers: lines.map(header).collect(),
        body: body.trim_end_matches('\n').into(),
    }
}

/// Encodes what no HTTP client sends plainly.
fn encode(query: &str) -> String {
    let mut encoded = String::new();
    for byte in query.bytes() {
        if byte.is_ascii() {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The key of a case.
fn key(case: &str) -> AccessKey {
    let (id, secret) = match case {
        "double-encode-path" => ("ANOTREAL", "notrealrnrELgWzOk3IfjzDKtFBhDby"),
        _ => ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
    };
    let key = AccessKey::new(id, Zeroizing::new(secret.to_owned())).unwrap();
    let Ok(context) = fs::read_to_string(directory().join(case).join("context.json")) else {
        return key;
    };
    let context: serde_json::Value = serde_json::from_str(&context).unwrap();
    match context["credentials"]["token"].as_str() {
        Some(token) => key.of_session(Zeroizing::new(token.to_owned())),
        None => key,
    }
}

fn judge(case: &str, request: &Request) -> Result<(), Refusal> {
    let policy = Policy {
        now_ms: if case == "double-url-encode" {
            LATER_DATE_MS
        } else {
            DATE_MS
        },
        region: None,
        services: &["service", "lambda"],
    };
    request.judge(&policy, &key(case))
}

#[test]
fn every_published_case_is_decided_as_expected() {
    let (mut cases, mut checks, mut accepted) = (0, 0, 0);
    for entry in fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        cases += 1;
        let case = path.file_name().unwrap().to_str().unwrap();
        for (form, file) in [
            (Form::Header, "header-signed-request.txt"),
            (Form::Query, "query-signed-request.txt"),
        ] {
            let Ok(text) = fs::read_to_string(path.join(file)) else {
                continue;
            };
            let outcome = judge(case, &parse(&text));
            assert_eq!(outcome, expected(case, form), "{case}, {form:?}");
            checks += 1;
            accepted += usize::from(outcome.is_ok());
        }
    }
    assert_eq!((cases, checks), (40, 78));
    assert_eq!(accepted, 48);
}
