//! Requests that were signed and then changed: none may be believed.

use hikyaku_sqs::sigv4::EXPIRES_LIMIT_S;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::request::{Request, at};
use crate::signer::requests;

/// Where a request is changed.
#[derive(Clone, Copy, Debug)]
enum Place {
    Method,
    Path,
    Query,
    /// The value of a header that is signed, or that holds the signature.
    Header,
    Body,
}

/// How a text is changed.
#[derive(Clone, Copy, Debug)]
enum Change {
    Replace(u8),
    Insert(u8),
    Delete,
    /// Puts a byte of the same text there, as a blind swap would.
    Copy(Index),
}

/// How a request is changed.
#[derive(Clone, Debug)]
enum Mutation {
    Byte(Place, Change),
    /// A whole signed header is taken away.
    Remove,
    /// A signed header is given once more, with the same value.
    Repeat,
    /// A header that decides something is added.
    Add(&'static str, &'static str),
    /// A header's value goes to another.
    Swap(Index),
    /// The clock is elsewhere.
    Late(bool),
}

fn mutations() -> impl Strategy<Value = Mutation> {
    use Place::{Body, Header, Method, Path, Query};
    let place = prop_oneof![
        Just(Method),
        Just(Path),
        Just(Query),
        Just(Header),
        Just(Body)
    ];
    let printable = b' '..=b'~';
    let change = prop_oneof![
        printable.clone().prop_map(Change::Replace),
        printable.prop_map(Change::Insert),
        Just(Change::Delete),
        any::<Index>().prop_map(Change::Copy),
    ];
    let added = prop_oneof![
        Just(("X-Amz-Target", "AmazonSQS.PurgeQueue")),
        Just(("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")),
        Just(("X-Amz-Security-Token", "token")),
        Just(("X-Amz-Meta", "")),
        Just(("Host", "other.example")),
        Just(("Date", "Mon, 30 Nov 2026 19:00:00 GMT")),
        Just(("Authorization", "AWS4-HMAC-SHA256 Credential=a/b/c/d/e")),
        Just(("Content-Type", "application/x-www-form-urlencoded")),
    ];
    prop_oneof![
        12 => (place, change).prop_map(|(place, change)| Mutation::Byte(place, change)),
        1 => Just(Mutation::Remove),
        1 => Just(Mutation::Repeat),
        1 => added.prop_map(|(name, value)| Mutation::Add(name, value)),
        1 => any::<Index>().prop_map(Mutation::Swap),
        1 => any::<bool>().prop_map(Mutation::Late),
    ]
}

fn bend(bytes: &mut Vec<u8>, change: Change, index: Index) {
    if let Change::Insert(byte) = change {
        bytes.insert(index.index(bytes.len() + 1), byte);
        return;
    }
    if bytes.is_empty() {
        return;
    }
    let position = index.index(bytes.len());
    match change {
        Change::Replace(byte) => bytes[position] = byte,
        Change::Insert(_) => unreachable!("inserted above"),
        Change::Delete => drop(bytes.remove(position)),
        Change::Copy(from) => bytes[position] = bytes[from.index(bytes.len())],
    }
}

fn bend_text(text: &mut String, change: Change, index: Index) {
    let mut bytes = std::mem::take(text).into_bytes();
    bend(&mut bytes, change, index);
    // A byte taken out of a character: no text comes over the wire so.
    *text = String::from_utf8_lossy(&bytes).into_owned();
}

/// The places of headers that are signed, or that hold the signature.
fn signed_headers(request: &Request) -> Vec<usize> {
    let counts = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.starts_with("x-amz-") || ["host", "content-type", "authorization"].contains(&&*name)
    };
    let headers = request.headers.iter().enumerate();
    headers
        .filter(|(_, (name, _))| counts(name))
        .map(|(position, _)| position)
        .collect()
}

fn mutate(request: &mut Request, mutation: &Mutation, index: Index) {
    let signed = signed_headers(request);
    let header = signed[index.index(signed.len())];
    match mutation {
        Mutation::Byte(Place::Method, change) => bend_text(&mut request.method, *change, index),
        Mutation::Byte(Place::Path, change) => bend_text(&mut request.path, *change, index),
        Mutation::Byte(Place::Query, change) => {
            bend_text(request.query.get_or_insert_default(), *change, index);
        }
        Mutation::Byte(Place::Header, change) => {
            bend(&mut request.headers[header].1, *change, index);
        }
        Mutation::Byte(Place::Body, change) => bend(&mut request.body, *change, index),
        Mutation::Remove => drop(request.headers.remove(header)),
        Mutation::Repeat => request.headers.push(request.headers[header].clone()),
        Mutation::Add(name, value) => request.add(name, value),
        Mutation::Swap(other) => {
            let other = signed[other.index(signed.len())];
            request.headers[header].1 = request.headers[other].1.clone();
        }
        Mutation::Late(_) => (),
    }
}

/// What is the same to HTTP and to SigV4: a header's value but for runs of spaces, and around commas
/// of `Authorization`. A request that differs from another only so is the same request.
fn essence(request: &Request) -> Request {
    let mut essence = request.clone();
    for (name, value) in &mut essence.headers {
        let text = String::from_utf8_lossy(value);
        let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let text = words.join(" ");
        let spaced = name.eq_ignore_ascii_case("authorization");
        *value = if spaced {
            text.replace(", ", ",").replace(" ,", ",")
        } else {
            text
        }
        .into_bytes();
    }
    essence.headers.sort();
    essence
}

/// As many changed requests as `PROPTEST_CASES` says, and not fewer than two thousand.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = default.cases.max(2_000);
    ProptestConfig {
        cases,
        max_global_rejects: 2 * cases,
        ..default
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_changed_request_is_believed(
        unsigned in requests(),
        mutation in mutations(),
        index in any::<Index>(),
    ) {
        let signed = unsigned.sign();
        let mut changed = signed.clone();
        mutate(&mut changed, &mutation, index);
        let mut now_ms = unsigned.now_ms();
        if let Mutation::Late(early) = mutation {
            let life_s = u64::from(unsigned.presigned_s.unwrap_or(900));
            prop_assume!(!early || now_ms > 900_000);
            now_ms = if early { now_ms - 900_001 } else { now_ms + life_s * 1000 + 1 };
        } else {
            prop_assume!(essence(&changed) != essence(&signed));
        }
        let outcome = changed.judge(&at(now_ms), &unsigned.key());
        prop_assert!(outcome.is_err(), "{:?} made of {:?}", changed, signed);
    }
}

#[test]
fn the_longest_life_is_a_week() {
    assert_eq!(EXPIRES_LIMIT_S, 7 * 24 * 60 * 60);
}
