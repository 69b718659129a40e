//! Signs requests by AWS Signature Version 4, written down from its description for the fuzzer alone.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

pub const ID: &str = "AKIAIOSFODNN7EXAMPLE";
pub const SECRET: &str = "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";
pub const TOKEN: &str = "FwoGZXIvYXdzEJr//////////wEaDHRva2Vu+token/of=the=tests";

/// When all of them are verified: five minutes after they were signed.
pub const NOW_MS: u64 = 1_796_068_800_000 + 300_000;

const DATE: &str = "20261130T200000Z";
const DAY: &str = "20261130";

const JSON: &str = "application/x-amz-json-1.0";
const FORM: &str = "application/x-www-form-urlencoded";

/// A request that is to be signed.
#[derive(Clone)]
struct Unsigned {
    method: &'static str,
    path: &'static str,
    /// Names and values, decoded.
    query: Vec<(&'static str, String)>,
    /// Headers that are signed, names in lower case.
    headers: Vec<(&'static str, String)>,
    /// Headers that are not.
    unsigned: Vec<(&'static str, &'static str)>,
    body: &'static str,
    service: &'static str,
    token: bool,
}

fn post() -> Unsigned {
    Unsigned {
        method: "POST",
        path: "/",
        query: Vec::new(),
        headers: vec![
            ("host", "queues.example:9324".to_owned()),
            ("content-type", JSON.to_owned()),
            ("x-amz-target", "AmazonSQS.SendMessage".to_owned()),
        ],
        unsigned: vec![
            ("user-agent", "aws-sdk-rust/1"),
            ("accept-encoding", "identity"),
        ],
        body: r#"{"QueueUrl":"http://queues.example:9324/000000000000/orders","MessageBody":"m"}"#,
        service: "sqs",
        token: false,
    }
}

fn get() -> Unsigned {
    let text = |text: &str| text.to_owned();
    Unsigned {
        method: "GET",
        path: "/000000000000/orders",
        query: vec![
            ("Action", text("SendMessage")),
            ("MessageBody", text("h\u{e9}llo a/b+c=d")),
            ("Empty", String::new()),
        ],
        headers: vec![("host", text("queues.example:9324"))],
        body: "",
        ..post()
    }
}

/// Requests whose signature is in a header.
pub fn in_headers() -> Vec<Vec<u8>> {
    let form = Unsigned {
        headers: vec![
            ("host", "queues.example:9324".to_owned()),
            (
                "x-amz-content-sha256",
                hex(&Sha256::digest(b"Action=GetCallerIdentity")),
            ),
        ],
        unsigned: vec![("content-type", FORM)],
        body: "Action=GetCallerIdentity",
        service: "sts",
        ..post()
    };
    let spaced = Unsigned {
        headers: vec![
            ("host", "queues.example:9324".to_owned()),
            ("x-amz-meta", "a b  c   d".to_owned()),
        ],
        ..get()
    };
    let with_token = |unsigned: Unsigned| Unsigned {
        token: true,
        ..unsigned
    };
    let empty = Unsigned { body: "", ..post() };
    [
        post(),
        with_token(post()),
        form,
        get(),
        with_token(spaced),
        empty,
    ]
    .map(Unsigned::sign_in_header)
    .to_vec()
}

/// Requests whose signature is in the query.
pub fn in_queries() -> Vec<Vec<u8>> {
    let posted = Unsigned {
        query: Vec::new(),
        ..post()
    };
    let with_token = Unsigned {
        token: true,
        ..get()
    };
    let bare = Unsigned {
        path: "/",
        query: Vec::new(),
        unsigned: Vec::new(),
        ..get()
    };
    [
        (get(), 604_800),
        (with_token, 301),
        (posted, 900),
        (bare, 1_000),
    ]
    .map(|(unsigned, seconds)| unsigned.presign(seconds))
    .to_vec()
}

impl Unsigned {
    fn scope(&self) -> String {
        format!("{DAY}/eu-north-1/{}/aws4_request", self.service)
    }

    fn sign_in_header(mut self) -> Vec<u8> {
        self.headers.push(("x-amz-date", DATE.to_owned()));
        if self.token {
            self.headers
                .push(("x-amz-security-token", TOKEN.to_owned()));
        }
        self.headers.sort();
        let (signed, signature) = (self.signed_headers(), self.signature());
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={ID}/{}, SignedHeaders={signed}, Signature={signature}",
            self.scope()
        );
        self.headers.push(("authorization", authorization));
        self.write()
    }

    fn presign(mut self, seconds: u32) -> Vec<u8> {
        self.headers.sort();
        let scope = self.scope();
        self.query.extend([
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256".to_owned()),
            ("X-Amz-Credential", format!("{ID}/{scope}")),
            ("X-Amz-Date", DATE.to_owned()),
            ("X-Amz-Expires", seconds.to_string()),
            ("X-Amz-SignedHeaders", self.signed_headers()),
        ]);
        if self.token {
            self.query.push(("X-Amz-Security-Token", TOKEN.to_owned()));
        }
        let signature = self.signature();
        self.query.push(("X-Amz-Signature", signature));
        self.write()
    }

    fn signed_headers(&self) -> String {
        let names = self.headers.iter().map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(";")
    }

    fn encoded_query(&self) -> Vec<String> {
        let pairs = self.query.iter();
        pairs
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
            .collect()
    }

    fn signature(&self) -> String {
        let mut query = self.encoded_query();
        query.sort();
        let header = |(name, value): &(&str, String)| {
            let words: Vec<&str> = value.split(' ').filter(|word| !word.is_empty()).collect();
            format!("{name}:{}\n", words.join(" "))
        };
        let canonical = format!(
            "{}\n{}\n{}\n{}\n{}\n{}",
            self.method,
            self.path,
            query.join("&"),
            self.headers.iter().map(header).collect::<String>(),
            self.signed_headers(),
            hex(&Sha256::digest(self.body)),
        );
        let scope = self.scope();
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{DATE}\n{scope}\n{}",
            hex(&Sha256::digest(canonical))
        );
        let mut key = format!("AWS4{SECRET}").into_bytes();
        for part in scope.split('/') {
            key = mac(&key, part);
        }
        hex(&mac(&key, &to_sign))
    }

    fn write(&self) -> Vec<u8> {
        let query = self.encoded_query().join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        let mut text = format!("{} {}{mark}{query}\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        for (name, value) in &self.unsigned {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{text}\r\n{}", self.body).into_bytes()
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
