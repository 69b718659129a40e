//! Requests signed by AWS's own signer, in all the ways in which its clients sign.

use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use hikyaku_sqs::sigv4::key::AccessKey;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use zeroize::Zeroizing;

use crate::request::{Request, at};

pub const ID: &str = "AKIAIOSFODNN7EXAMPLE";
pub const SECRET: &str = "c2lnbmVkIHdpdGggYSBrZXkgb2YgdGhlIHRlc3Rz";
pub const TOKEN: &str = "FwoGZXIvYXdzEJr//////////wEaDHRva2Vu+token/of=the=tests";

/// What is to be signed, and how.
#[derive(Clone, Debug)]
pub struct Unsigned {
    pub method: String,
    pub path: String,
    /// Decoded names and values.
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub presigned_s: Option<u32>,
    pub token: Option<String>,
    pub region: String,
    pub service: &'static str,
    pub hash_header: bool,
    /// When, in seconds since the epoch.
    pub time_s: u64,
}

/// A usual request of an SDK.
pub fn usual() -> Unsigned {
    let headers = [
        ("Host", "queues.example:9324"),
        ("Content-Type", "application/x-amz-json-1.0"),
        ("X-Amz-Target", "AmazonSQS.SendMessage"),
        ("X-Amzn-Query-Mode", "true"),
        ("User-Agent", "aws-sdk-rust/1"),
    ];
    let body =
        br#"{"QueueUrl":"http://queues.example:9324/000000000000/orders","MessageBody":"m"}"#;
    Unsigned {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        query: Vec::new(),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        body: body.to_vec(),
        presigned_s: None,
        token: None,
        region: "eu-north-1".to_owned(),
        service: "sqs",
        hash_header: false,
        time_s: 1_796_068_800,
    }
}

impl Unsigned {
    pub fn now_ms(&self) -> u64 {
        self.time_s * 1000
    }

    pub fn key(&self) -> AccessKey {
        let key = AccessKey::new(ID, Zeroizing::new(SECRET.to_owned())).unwrap();
        match &self.token {
            Some(token) => key.of_session(Zeroizing::new(token.clone())),
            None => key,
        }
    }

    fn settings(&self) -> SigningSettings {
        let mut settings = SigningSettings::default();
        if self.hash_header && self.presigned_s.is_none() {
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        }
        if let Some(seconds) = self.presigned_s {
            settings.signature_location = SignatureLocation::QueryParams;
            settings.expires_in = Some(Duration::from_secs(seconds.into()));
        }
        settings
    }

    pub fn sign(&self) -> Request {
        let query = self.query.iter();
        let pairs = query.map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        let uri = format!("http://queues.example:9324{}{mark}{query}", self.path);
        let mut request = http::Request::builder()
            .method(self.method.as_str())
            .uri(uri);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut request = request.body(()).unwrap();
        let credentials = Credentials::new(ID, SECRET, self.token.clone(), None, "tests");
        let identity = credentials.into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(UNIX_EPOCH + Duration::from_secs(self.time_s))
            .settings(self.settings())
            .build()
            .unwrap();
        let headers = self.headers.iter();
        let signable = SignableRequest::new(
            &self.method,
            request.uri().to_string(),
            headers.map(|(name, value)| (name.as_str(), value.as_str())),
            SignableBody::Bytes(&self.body),
        );
        let (instructions, _) = sign(signable.unwrap(), &parameters.into())
            .unwrap()
            .into_parts();
        instructions.apply_to_request_http1x(&mut request);
        Request {
            method: self.method.clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().map(str::to_owned),
            headers: request
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
                .collect(),
            body: self.body.clone(),
        }
    }
}

/// Percent-encoding as SigV4 has it.
fn encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// All kinds of requests.
pub fn requests() -> impl Strategy<Value = Unsigned> {
    let segment = "[A-Za-z0-9_~-]{1,12}|%E1%88%B4|a%20b|@x:y";
    let path = vec(segment, 0..4).prop_map(|segments| format!("/{}", segments.join("/")));
    let query = btree_map("[A-Za-z][A-Za-z0-9.]{0,8}|ሴ| +x", "[ -~]{0,10}|ሴ\\+", 0..4);
    let header = ("x-(amz|app)-[a-z]{3,8}", "[!-~]{1,8}( {1,2}[!-~]{1,8})?");
    let headers = btree_map(header.0, header.1, 0..4);
    let form = (
        select(vec!["GET", "POST", "PUT"]),
        option::of(prop_oneof![Just(1), Just(604_800), 1..604_800_u32]),
        option::of(Just(TOKEN)),
        select(vec!["us-east-1", "eu-north-1", "ns", "local"]),
        select(vec!["sqs", "sts"]),
        any::<bool>(),
        0..4_000_000_000_u64,
    );
    let body = vec(any::<u8>(), 0..64);
    (path, query, headers, form, body).prop_map(|(path, query, headers, form, body)| {
        let (method, presigned_s, token, region, service, hash_header, time_s) = form;
        let mut unsigned = usual();
        unsigned.headers.extend(headers);
        Unsigned {
            method: method.to_owned(),
            path,
            query: query.into_iter().collect(),
            body,
            presigned_s,
            token: token.map(str::to_owned),
            region: region.to_owned(),
            service,
            hash_header,
            time_s,
            ..unsigned
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_the_aws_signer_signs_is_believed(unsigned in requests()) {
        let request = unsigned.sign();
        let outcome = request.judge(&at(unsigned.now_ms()), &unsigned.key());
        prop_assert_eq!(outcome, Ok(()), "{:?}", request);
    }
}
