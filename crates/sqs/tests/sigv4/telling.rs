//! What a refusal tells the client, and what nothing ever tells anyone.

use hikyaku_sqs::error::ErrorCode;
use hikyaku_sqs::sigv4::refusal::{Refusal, Scheme};
use hikyaku_sqs::sigv4::{Claim, RequestHead};

use crate::request::at;
use crate::signer::{ID, SECRET, TOKEN, Unsigned, usual};

#[test]
fn clients_are_told_in_awss_words() {
    let told = |refusal: Refusal| {
        let error = refusal.to_error();
        (
            error.code,
            error.code.shape().status,
            error.message.into_owned(),
        )
    };
    let (code, status, text) = told(Refusal::Signature);
    assert_eq!((code, status), (ErrorCode::SignatureDoesNotMatch, 403));
    assert!(
        text.starts_with("The request signature we calculated does not match"),
        "{text}"
    );
    let (code, status, text) = told(Refusal::UnknownAccessKey);
    assert_eq!((code, status), (ErrorCode::InvalidClientTokenId, 403));
    assert_eq!(
        text,
        "The security token included in the request is invalid."
    );
    let (code, status, _) = told(Refusal::NoCredentials);
    assert_eq!((code, status), (ErrorCode::MissingAuthenticationToken, 403));
    let (code, status, _) = told(Refusal::Missing("Signature"));
    assert_eq!((code, status), (ErrorCode::IncompleteSignature, 400));
    let late = usual()
        .sign()
        .judge(&at(usual().now_ms() + 901_000), &usual().key());
    let (code, status, text) = told(late.unwrap_err());
    assert_eq!((code, status), (ErrorCode::RequestExpired, 400));
    assert_eq!(
        text,
        "Signature expired: 20261130T201500Z is now earlier than 20261130T201501Z."
    );
    let (code, status, _) = told(Refusal::Scheme(Scheme::V4a));
    assert_eq!((code, status), (ErrorCode::InvalidSecurity, 403));
}

#[test]
fn secrets_are_in_no_debug_output() {
    let unsigned = Unsigned {
        token: Some(TOKEN.to_owned()),
        ..usual()
    };
    let request = unsigned.sign();
    let headers: Vec<(&str, &[u8])> = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_slice()))
        .collect();
    let head = RequestHead {
        method: "POST",
        path: "/",
        query: None,
        headers: &headers,
    };
    let claim = Claim::read(&head, &at(unsigned.now_ms())).unwrap();
    let key = unsigned.key();
    let mut shown = format!("{claim:?} {key:?} {key:#?}");
    let bound = claim.bind(&key).unwrap();
    shown.push_str(&format!("{bound:?} {:?}", bound.verify(b"another body")));
    let signature = String::from_utf8(
        headers
            .iter()
            .find(|h| h.0 == "authorization")
            .unwrap()
            .1
            .to_vec(),
    );
    let signature = signature
        .unwrap()
        .rsplit_once("Signature=")
        .unwrap()
        .1
        .to_owned();
    for planted in [SECRET, TOKEN, &signature] {
        assert!(!shown.contains(planted), "{shown}");
    }
    assert!(shown.contains(ID));
}
