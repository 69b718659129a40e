//! Whatever is sent in the place of a signature, it is refused, and nothing else happens.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::request::{Request, at};
use crate::signer::usual;

/// Pieces that signatures are made of, and pieces that they are not made of.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        select(vec![
            "AWS4-HMAC-SHA256",
            "AWS",
            " ",
            ",",
            "=",
            "/",
            ";",
            "&",
            "%",
            "%2F",
            "Credential=",
            "SignedHeaders=",
            "Signature=",
            "AKIAIOSFODNN7EXAMPLE",
            "20261130",
            "20261130T201500Z",
            "eu-north-1",
            "sqs",
            "aws4_request",
            "host",
            "x-amz-date",
            "X-Amz-Algorithm=",
            "X-Amz-Credential=",
            "X-Amz-Date=",
            "X-Amz-Expires=",
            "X-Amz-SignedHeaders=",
            "X-Amz-Signature=",
            "X-Amz-Security-Token=",
            "60",
        ])
        .prop_map(str::to_owned),
        "[0-9a-f]{64}",
        ".{0,3}",
    ];
    vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

fn headers() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let name = select(vec![
        "Authorization",
        "authorization",
        "Host",
        "X-Amz-Date",
        "X-Amz-Security-Token",
        "X-Amz-Content-Sha256",
        "Content-Type",
        "X-Amz-Target",
        "Date",
        "X",
    ]);
    let value = prop_oneof![
        4 => pieces().prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..24),
    ];
    vec((name.prop_map(str::to_owned), value), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nothing_made_up_is_believed(
        method in "[A-Z]{0,5}",
        path in ".{0,12}",
        query in option::of(pieces()),
        headers in headers(),
        now_ms in any::<u64>(),
    ) {
        let request = Request { method, path, query, headers, body: Vec::new() };
        prop_assert!(request.judge(&at(now_ms), &usual().key()).is_err());
        prop_assert!(request.judge(&at(usual().now_ms()), &usual().key()).is_err());
    }
}
