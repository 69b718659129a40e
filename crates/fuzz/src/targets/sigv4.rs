//! Requests with signatures, in their headers and in their queries.
//!
//! An input is a request as it goes over the wire. The property: whatever is believed is one of the
//! requests that were signed, in every part that is signed, and nothing unsigned in it has a meaning.

use std::collections::BTreeSet;

use hikyaku_sqs::sigv4::key::AccessKey;
use hikyaku_sqs::sigv4::refusal::Refusal;
use hikyaku_sqs::sigv4::{Claim, Policy, RequestHead, SQS, STS};
use zeroize::Zeroizing;

use super::signer::{ID, NOW_MS, SECRET, TOKEN};
use super::{Seen, Target, signer};
use crate::memory::Bound;

pub const HEADER: Target = Target {
    name: "sigv4_header",
    seeds: signer::in_headers,
    words: WORDS,
    memory: MEMORY,
    judge: || Box::new(judge_of(&signer::in_headers())),
};

pub const PRESIGNED: Target = Target {
    name: "sigv4_presigned",
    seeds: signer::in_queries,
    words: WORDS,
    memory: MEMORY,
    judge: || Box::new(judge_of(&signer::in_queries())),
};

/// The parts of a request taken apart here are in the number, some words for each line of four bytes.
const MEMORY: Bound = Bound {
    fixed: 16 << 10,
    per_byte: 64,
};

#[rustfmt::skip] // a table
const WORDS: &[&str] = &[
    "\r\n", ": ", " ", "  ", ",", "=", ";", "&", "?", "/", "//", "/..", "/.", "%2F", "%2f", "%20", "+",
    "%41", "%", "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "AWS ", "Credential=", "SignedHeaders=",
    "Signature=", "aws4_request", "20261130T200000Z", "20261201", "eu-north-1", "sqs", "sts", "s3",
    "host", "x-amz-date", "x-amz-target", "content-type", "date", "host;", ";x-amz-date",
    "Authorization: ", "Host: queues.example:9324\r\n", "X-Amz-Date: ", "X-Amz-Target: AmazonSQS.PurgeQueue\r\n",
    "X-Amz-Security-Token: ", "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD\r\n", "X-Amz-Trailer: a\r\n",
    "Date: Mon, 30 Nov 2026 20:00:00 GMT\r\n", "Content-Type: application/x-www-form-urlencoded\r\n",
    "Content-Type: application/x-amz-json-1.0\r\n", "X-Amz-Meta: \r\n", "User-Agent: x\r\n",
    "X-Amz-Algorithm=", "X-Amz-Credential=", "X-Amz-Date=", "X-Amz-Expires=604800", "X-Amz-SignedHeaders=host",
    "X-Amz-Signature=", "X-Amz-Security-Token=", "x-amz-expires=", "Action=PurgeQueue", "AWSAccessKeyId=",
    "POST ", "GET ", "post", "\u{e9}", "\u{0}", "\t",
];

/// A request that was read from an input.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    headers: Vec<(&'a str, &'a [u8])>,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Takes an input apart as a lenient HTTP server would.
    fn parse(input: &'a [u8]) -> Option<Self> {
        let end = input.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, body) = (&input[..end], &input[end + 4..]);
        let mut lines = split(head, b"\r\n").into_iter();
        let line = std::str::from_utf8(lines.next()?).ok()?;
        let (method, target) = line.split_once(' ')?;
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let header = |line: &'a [u8]| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = std::str::from_utf8(&line[..colon]).ok()?;
            Some((name, line[colon + 1..].trim_ascii()))
        };
        Some(Self {
            method,
            path,
            query,
            headers: lines.map(header).collect::<Option<_>>()?,
            body,
        })
    }

    fn judge(&self, keys: &[AccessKey]) -> Result<(), Refusal> {
        let head = RequestHead {
            method: self.method,
            path: self.path,
            query: self.query,
            headers: &self.headers,
        };
        let policy = Policy {
            now_ms: NOW_MS,
            region: Some("eu-north-1"),
            services: &[SQS, STS],
        };
        let claim = Claim::read(&head, &policy)?;
        let with_token = self.header("x-amz-security-token").is_some()
            || self
                .query
                .is_some_and(|query| query.contains("X-Amz-Security-Token"));
        let key = &keys[usize::from(with_token)];
        if claim.access_key_id() != key.id() {
            return Err(Refusal::UnknownAccessKey);
        }
        claim.bind(key)?.verify(self.body)
    }

    fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value)
    }

    /// What is the same in two requests that are one request.
    fn essence(&self) -> Essence {
        let authorization = self.header("authorization").unwrap_or_default();
        let authorization = String::from_utf8_lossy(authorization);
        let (scheme, parameters) = authorization.split_once(' ').unwrap_or_default();
        let mut parts: Vec<&str> = parameters
            .split(',')
            .map(|part| part.trim_matches(' '))
            .collect();
        parts.push(scheme);
        let pairs = self.query.unwrap_or_default().split('&');
        let signed = parts
            .iter()
            .find_map(|part| part.strip_prefix("SignedHeaders="));
        let in_query = || {
            pairs
                .clone()
                .find_map(|pair| pair.strip_prefix("X-Amz-SignedHeaders="))
        };
        let signed = signed
            .or_else(in_query)
            .unwrap_or_default()
            .replace("%3B", ";");
        let signed: BTreeSet<&str> = signed.split(';').collect();
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), *value));
        let (covered, free): (Vec<_>, Vec<_>) =
            headers.partition(|(name, _)| signed.contains(name.as_str()));
        for (name, value) in free {
            self.assert_meaningless(&name, value);
        }
        Essence {
            method: self.method.to_owned(),
            path: self.path.to_owned(),
            query: pairs.map(str::to_owned).collect(),
            headers: covered
                .into_iter()
                .map(|(name, value)| (name, words(value)))
                .collect(),
            authorization: parts.into_iter().map(str::to_owned).collect(),
            body: self.body.to_vec(),
        }
    }

    /// # Panics
    /// If a header that is not signed says something about what is asked.
    fn assert_meaningless(&self, name: &str, value: &[u8]) {
        let json = self.header("x-amz-target").is_some();
        let implied = match name {
            "authorization" => true,
            "content-type" if json => value == b"application/x-amz-json-1.0",
            "content-type" => value.starts_with(b"application/x-www-form-urlencoded"),
            "host" | "date" => false,
            _ => !name.starts_with("x-amz-"),
        };
        assert!(implied, "{name} is not signed and was believed");
    }
}

/// A request but for what HTTP and SigV4 leave free: the order of headers and parameters, runs of
/// spaces, the case of headers' names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Essence {
    method: String,
    path: String,
    query: BTreeSet<String>,
    headers: BTreeSet<(String, Vec<u8>)>,
    authorization: BTreeSet<String>,
    body: Vec<u8>,
}

fn split<'a>(mut bytes: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    while let Some(at) = bytes
        .windows(separator.len())
        .position(|some| some == separator)
    {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + separator.len()..];
    }
    parts.push(bytes);
    parts
}

/// A value with one space for every run of them.
fn words(value: &[u8]) -> Vec<u8> {
    let words = value
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

fn judge_of(signed: &[Vec<u8>]) -> impl FnMut(&[u8]) -> Seen + use<> {
    let long_term = AccessKey::new(ID, Zeroizing::new(SECRET.to_owned())).expect("a valid id");
    let of_session = long_term
        .clone()
        .of_session(Zeroizing::new(TOKEN.to_owned()));
    let keys = [long_term, of_session];
    let essence = |input: &Vec<u8>| Request::parse(input).map(|request| request.essence());
    let signed: BTreeSet<Essence> = signed.iter().filter_map(essence).collect();
    move |input| {
        let Some(request) = Request::parse(input) else {
            return Seen::refused("no request");
        };
        match request.judge(&keys) {
            Ok(()) => {
                let essence = request.essence();
                assert!(signed.contains(&essence), "nobody signed {essence:?}");
                Seen::accepted(request.headers.len())
            }
            Err(refusal) => {
                let error = refusal.to_error();
                Seen::refused(&format!("{refusal} {:?}", error.code))
            }
        }
    }
}
