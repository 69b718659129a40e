//! What is secret is in no log, no metric, no answer and no file of the node.

use crate::harness::{Client, Node, Pair};
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};

const KEY_ID: &str = "AKIAPLANTED";
const SECRET: &str = "cGxhbnRlZC1pbi10aGUtY29uZmlndXJhdGlvbg";
const FILE_KEY_ID: &str = "AKIAFILED";
const FILE_SECRET: &str = "cGxhbnRlZC1pbi1hLWZpbGUtb2YtaXRzLW93bg";
const GUESSED_SECRET: &str = "Z3Vlc3NlZC1ieS1zb21lYm9keS1lbHNlLWhlcmU";
const TOKEN: &str = "dG9rZW4tb2YtYS1zZXNzaW9uLXRoYXQtbmV2ZXItd2Fz";

/// What a sealing key is made of.
const SEALING_BYTES: &[u8; 16] = b"planted-sealing-";

/// Everything that was logged.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logged {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A signed request, and its signature.
fn signed(
    id: &str,
    secret: &str,
    token: Option<&str>,
    body: &str,
) -> (http::Request<String>, String) {
    let mut request = http::Request::post("/")
        .header("Host", "localhost")
        .header("Content-Type", "application/x-amz-json-1.0")
        .header("X-Amz-Target", "AmazonSQS.CreateQueue")
        .body(body.to_owned())
        .unwrap();
    let token = token.map(str::to_owned);
    let identity = Credentials::new(id, secret, token, None, "tests").into();
    let parameters = SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("sqs")
        .time(SystemTime::now())
        .settings(SigningSettings::default())
        .build()
        .unwrap();
    let headers = request.headers().iter();
    let signable = SignableRequest::new(
        "POST",
        "https://localhost/",
        headers.map(|(name, value)| (name.as_str(), value.to_str().unwrap())),
        SignableBody::Bytes(body.as_bytes()),
    );
    let signed = sign(signable.unwrap(), &parameters.into()).unwrap();
    let (instructions, signature) = signed.into_parts();
    instructions.apply_to_request_http1x(&mut request);
    (request, signature)
}

fn files_in(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_in(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// What a file holds, without the zeros that were laid out before they are needed.
fn content(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(used.map_or(0, |last| last + 1));
    bytes
}

fn holds(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|bytes| bytes == needle)
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_secrets_are_found_nowhere() {
    let logged = Logged::default();
    let lines = tracing_subscriber::fmt::layer().with_writer(logged.clone());
    let wanted = Targets::new()
        .with_default(LevelFilter::TRACE)
        .with_target("openraft", LevelFilter::INFO);
    let subscriber = Registry::default().with(lines.with_filter(wanted));
    tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");

    let (pair, next) = (Pair::new(), Pair::new());
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("secret");
    fs::write(&file, FILE_SECRET).unwrap();
    let keys = format!(
        "000000000000:{KEY_ID}:{SECRET},123456789012:{FILE_KEY_ID}:@{}",
        file.display()
    );
    let sealing_file = kept.path().join("sealing");
    let digits: String = SEALING_BYTES
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    fs::write(&sealing_file, digits.repeat(4)).unwrap();
    let sealing = sealing_file.display().to_string();
    let more = [("auth.keys", &*keys), ("auth.sealing_key_file", &*sealing)];
    let node = Node::start(&pair, &more).await;
    let mut client = node.client(&[&pair]).await;
    let mut told = String::new();
    let mut secrets: Vec<Vec<u8>> = vec![digits.into(), SEALING_BYTES.into()];
    for (id, secret, token, expected) in [
        (KEY_ID, SECRET, None, 200),
        (FILE_KEY_ID, FILE_SECRET, None, 200),
        (KEY_ID, GUESSED_SECRET, None, 403),
        (FILE_KEY_ID, FILE_SECRET, Some(TOKEN), 403),
        ("AKIAUNKNOWN", SECRET, None, 403),
    ] {
        let (request, signature) = signed(id, secret, token, r#"{"QueueName":"orders"}"#);
        let (status, answer) = client.ask(request).await;
        assert_eq!(status, expected, "{answer}");
        told.push_str(&answer);
        secrets.extend([secret.into(), signature.into()]);
        secrets.extend(token.map(Into::into));
    }
    renew(&node, &pair, &next).await;
    told.push_str(&client.get("/metrics").await.1);
    for pair in [&pair, &next] {
        secrets.push(pair.key_der.clone());
        secrets.push(pair.key.lines().nth(1).unwrap().into());
    }
    let data = node.data_dir();
    let stopped = node.stop().await;
    let mut files = Vec::new();
    files_in(&data, &mut files);
    let files: Vec<Vec<u8>> = files.iter().map(|path| content(path)).collect();
    assert!(
        files.iter().any(|bytes| holds(bytes, b"orders")),
        "the queue is on disk"
    );
    drop(stopped);
    let logged = logged.0.lock().unwrap();
    for event in [
        &b"not authenticated"[..],
        b"certificate not renewed",
        b"certificate renewed",
    ] {
        assert!(holds(&logged, event), "{}", String::from_utf8_lossy(event));
    }
    for secret in secrets {
        let shown = String::from_utf8_lossy(&secret);
        assert!(
            !holds(told.as_bytes(), &secret),
            "{shown} is in an answer or metric"
        );
        assert!(!holds(&logged, &secret), "{shown} is in the log");
        assert!(
            !files.iter().any(|bytes| holds(bytes, &secret)),
            "{shown} is in a file"
        );
    }
}

/// Has the node meet half a key, and then a whole one.
async fn renew(node: &Node, before: &Pair, next: &Pair) {
    let files = node.files();
    fs::write(&files.key, &next.key[..next.key.len() / 2]).unwrap();
    until(node, &[before], "hikyaku_tls_certificate_refused 1").await;
    files.write(next);
    until(
        node,
        &[before, next],
        "hikyaku_tls_certificate_renewals_total 1",
    )
    .await;
}

async fn until(node: &Node, trusted: &[&Pair], line: &str) {
    let seen = async {
        loop {
            let mut client = Client::connect(node.address, trusted).await.unwrap();
            let page = client.get("/metrics").await.1;
            if page.lines().any(|found| found == line) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, seen).await.unwrap();
}
