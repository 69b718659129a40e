//! A certificate is renewed while the node serves.

use crate::harness::{Client, Node, Pair};
use hikyaku_server::run::{RunError, run};
use hikyaku_server::{Loaded, TlsError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_needs_no_restart_and_ends_no_connection() {
    let (old, new) = (Pair::new(), Pair::new());
    let open = [("auth.accept_any_credentials", "true")];
    let node = Node::start(&old, &open).await;
    let mut held = node.client(&[&old]).await;
    assert_eq!(held.shown, old.der);

    node.files().write(&new);
    let renewed = async {
        loop {
            let client = Client::connect(node.address, &[&old, &new]).await.unwrap();
            if client.shown == new.der {
                return client;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let mut late = timeout(Duration::from_secs(60), renewed).await.unwrap();
    assert_eq!(held.get("/livez").await.0, 200);
    assert!(Client::connect(node.address, &[&old]).await.is_err());
    let page = late.get("/metrics").await.1;
    for line in [
        "hikyaku_tls_certificate_refused 0",
        "hikyaku_tls_certificate_renewals_total 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{page}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plaintext_gets_no_answer() {
    let pair = Pair::new();
    let open = [("auth.accept_any_credentials", "true")];
    let node = Node::start(&pair, &open).await;
    node.client(&[&pair]).await;
    let mut plain = TcpStream::connect(node.address).await.unwrap();
    plain
        .write_all(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    // Closed with bytes unread, a connection may also end by a reset.
    plain.read_to_end(&mut answer).await.ok();
    assert!(!answer.windows(4).any(|bytes| bytes == b"HTTP"));
    node.stop().await;
}

#[tokio::test]
async fn a_start_without_a_good_pair_says_which_file() {
    let directory = tempfile::tempdir().unwrap();
    let cert = directory.path().join("absent.crt").display().to_string();
    let key = directory.path().join("absent.key").display().to_string();
    let flags = [
        ("auth.accept_any_credentials", "true"),
        ("tls.cert_file", &*cert),
        ("tls.key_file", &key),
    ];
    let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = Loaded::load(None, None, [], flags).unwrap().config;
    let error = run(config, std::future::pending()).await.unwrap_err();
    assert!(matches!(error, RunError::Tls(TlsError::Read { .. })));
    assert!(error.to_string().contains(&cert), "{error}");
}
