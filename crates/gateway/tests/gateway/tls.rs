//! Encrypted connections: what is served inside, and what never gets that far.

use std::sync::Arc;
use std::time::Duration;

use hikyaku_gateway::{GatewayConfig, GatewayLimits};
use hikyaku_storage::LogConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::harness::{Client, Front, Setup};

const NAME: &str = "queues.example";

/// A front that speaks TLS, and the certificate that it shows.
async fn encrypted(config: GatewayConfig) -> (Front, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let tls = tls.with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_no_client_auth();
    let tls = tls.with_single_cert(vec![certificate.clone()], key);
    let setup = Setup {
        config,
        log: LogConfig::default(),
        tls: Some(Arc::new(tls.unwrap())),
        ..Setup::default()
    };
    (Front::start_as(setup).await, certificate)
}

async fn client_of(front: &Front, trusted: CertificateDer<'static>) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let tls = tls.with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(NAME).unwrap();
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, front.connect());
    Client::over(stream.await.unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn queues_are_at_https() {
    let (front, certificate) = encrypted(GatewayConfig::default()).await;
    let mut client = client_of(&front, certificate).await;
    let url = client.create("orders", json!({})).await;
    assert_eq!(url, "https://queues.example:9324/000000000000/orders");
    let body = "x".repeat(100_000);
    let members = json!({ "QueueUrl": url, "MessageBody": body });
    client.act("SendMessage", members).await;
    let received = client.receive(&url).await;
    assert_eq!(received[0]["Body"], body);
}

#[tokio::test(start_paused = true)]
async fn a_public_url_says_itself_how_it_is_reached() {
    let config = GatewayConfig {
        public_url: Some("http://inside".to_owned()),
        ..GatewayConfig::default()
    };
    let (front, certificate) = encrypted(config).await;
    let mut client = client_of(&front, certificate).await;
    let url = client.create("orders", json!({})).await;
    assert_eq!(url, "http://inside/000000000000/orders");
}

#[tokio::test(start_paused = true)]
async fn plaintext_is_closed_unanswered_and_counted() {
    let (front, certificate) = encrypted(GatewayConfig::default()).await;
    let mut plain = front.connect();
    plain
        .write_all(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).await.unwrap();
    assert!(!answer.windows(4).any(|bytes| bytes == b"HTTP"));
    let page = client_of(&front, certificate).await.get("/metrics").await;
    let line = "hikyaku_tls_handshakes_failed_total 1";
    assert!(page.body.lines().any(|found| found == line), "{page:?}");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_end_is_given_up() {
    let limits = GatewayLimits {
        handshake_timeout: Duration::from_secs(4),
        ..GatewayLimits::default()
    };
    let config = GatewayConfig {
        limits,
        ..GatewayConfig::default()
    };
    let (front, _) = encrypted(config).await;
    for begun in [&b""[..], b"\x16\x03\x01"] {
        let mut slow = front.connect();
        slow.write_all(begun).await.unwrap();
        let since = tokio::time::Instant::now();
        assert_eq!(slow.read(&mut [0]).await.unwrap(), 0, "closed");
        assert_eq!(since.elapsed().as_secs(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_handshakes() {
    let (front, _) = encrypted(GatewayConfig::default()).await;
    let mut slow = front.connect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let since = tokio::time::Instant::now();
    front.stop.send_replace(true);
    assert_eq!(slow.read(&mut [0]).await.unwrap(), 0, "closed");
    assert!(since.elapsed() < Duration::from_secs(1));
}
