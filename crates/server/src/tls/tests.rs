//! Files change; connections see it, or do not.

use super::{Certificate, PairFiles, TlsError};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

const NAME: &str = "queues.example";

/// A certificate and its key, in PEM.
struct Made {
    der: CertificateDer<'static>,
    cert: String,
    key: String,
}

fn made() -> Made {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    Made {
        der: made.cert.der().clone(),
        cert: made.cert.pem(),
        key: made.signing_key.serialize_pem(),
    }
}

fn files_in(directory: &Path) -> PairFiles {
    PairFiles {
        cert: directory.join("tls.crt"),
        key: directory.join("tls.key"),
    }
}

fn write(files: &PairFiles, cert: &str, key: &str) {
    fs::write(&files.cert, cert).unwrap();
    fs::write(&files.key, key).unwrap();
}

/// A certificate that is shown, and the directory of its files.
fn shown(pair: &Made) -> (TempDir, Certificate) {
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    write(&files, &pair.cert, &pair.key);
    (directory, Certificate::open(files).unwrap())
}

type Pipes = (
    client::TlsStream<DuplexStream>,
    server::TlsStream<DuplexStream>,
);

/// Shakes hands as a client that trusts these and speaks these, in an order.
async fn shake_hands(
    certificate: &Certificate,
    trusted: &[&Made],
    inside: &[&[u8]],
) -> std::io::Result<Pipes> {
    let mut roots = RootCertStore::empty();
    for made in trusted {
        roots.add(made.der.clone()).unwrap();
    }
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let client = client.with_safe_default_protocol_versions().unwrap();
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    client.alpn_protocols = inside.iter().map(|name| name.to_vec()).collect();
    let server = TlsAcceptor::from(Arc::new(certificate.client_port().unwrap()));
    let (near, far) = tokio::io::duplex(64 << 10);
    let name = ServerName::try_from(NAME).unwrap();
    let connecting = TlsConnector::from(Arc::new(client)).connect(name, near);
    let (near, far) = tokio::join!(connecting, server.accept(far));
    Ok((near?, far?))
}

fn shown_to(client: &client::TlsStream<DuplexStream>) -> &CertificateDer<'static> {
    &client.get_ref().1.peer_certificates().unwrap()[0]
}

fn page(certificate: &Certificate) -> String {
    let mut page = String::new();
    certificate.metrics().write(&mut page);
    page
}

#[tokio::test]
async fn a_new_pair_greets_new_connections_and_leaves_open_ones_alone() {
    let (old, new) = (made(), made());
    let (directory, mut certificate) = shown(&old);
    let (mut client, mut server) = shake_hands(&certificate, &[&old], &[]).await.unwrap();
    assert_eq!(shown_to(&client), &old.der);

    write(&files_in(directory.path()), &new.cert, &new.key);
    certificate.look();
    let (late, _) = shake_hands(&certificate, &[&old, &new], &[]).await.unwrap();
    assert_eq!(shown_to(&late), &new.der);
    client.write_all(b"still here").await.unwrap();
    client.flush().await.unwrap();
    let mut heard = [0; 10];
    server.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"still here");
    let page = page(&certificate);
    assert!(
        page.contains("\nhikyaku_tls_certificate_renewals_total 1\n"),
        "{page}"
    );
}

#[tokio::test]
async fn what_is_broken_is_kept_out_until_it_is_whole() {
    let (old, new) = (made(), made());
    let (directory, mut certificate) = shown(&old);
    let files = files_in(directory.path());
    let half = &new.key[..new.key.len() / 2];
    for (cert, key) in [
        (&*new.cert, &*old.key),
        (&new.cert, half),
        (&new.cert, ""),
        ("", &new.key),
        (&new.key, &new.key),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &new.key,
        ),
    ] {
        write(&files, cert, key);
        certificate.look();
        let (client, _) = shake_hands(&certificate, &[&old, &new], &[]).await.unwrap();
        assert_eq!(shown_to(&client), &old.der, "{cert}");
        let page = page(&certificate);
        assert!(page.contains("\nhikyaku_tls_certificate_refused 1\n"));
    }
    fs::remove_file(&files.key).unwrap();
    certificate.look();
    let (client, _) = shake_hands(&certificate, &[&old, &new], &[]).await.unwrap();
    assert_eq!(shown_to(&client), &old.der, "without a key file");

    write(&files, &new.cert, &new.key);
    certificate.look();
    let (client, _) = shake_hands(&certificate, &[&old, &new], &[]).await.unwrap();
    assert_eq!(shown_to(&client), &new.der);
    assert!(page(&certificate).contains("\nhikyaku_tls_certificate_refused 0\n"));
}

#[tokio::test]
async fn going_back_to_the_pair_in_use_ends_the_complaint() {
    let pair = made();
    let (directory, mut certificate) = shown(&pair);
    let files = files_in(directory.path());
    for away in ["", "nonsense"] {
        write(&files, away, &pair.key);
        certificate.look();
        assert!(page(&certificate).contains("\nhikyaku_tls_certificate_refused 1\n"));
        write(&files, &pair.cert, &pair.key);
        certificate.look();
        let page = page(&certificate);
        assert!(
            page.contains("\nhikyaku_tls_certificate_refused 0\n"),
            "{page}"
        );
        assert!(page.contains("\nhikyaku_tls_certificate_renewals_total 0\n"));
    }
}

#[tokio::test]
async fn http_2_is_not_spoken() {
    let pair = made();
    let (_directory, certificate) = shown(&pair);
    let both: &[&[u8]] = &[b"h2", b"http/1.1"];
    let (client, _) = shake_hands(&certificate, &[&pair], both).await.unwrap();
    assert_eq!(client.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let refused = shake_hands(&certificate, &[&pair], &[b"h2"]).await;
    assert!(refused.is_err());
}

#[test]
fn errors_name_the_file_and_show_nothing_of_a_key() {
    let (pair, other) = (made(), made());
    let directory = tempfile::tempdir().unwrap();
    let files = files_in(directory.path());
    let refusal = |cert: Option<&str>, key: Option<&str>| -> TlsError {
        for (path, text) in [(&files.cert, cert), (&files.key, key)] {
            match text {
                Some(text) => fs::write(path, text).unwrap(),
                None => drop(fs::remove_file(path)),
            }
        }
        Certificate::open(files.clone()).err().unwrap()
    };
    let secret = pair.key.lines().nth(1).unwrap();
    let torn = pair.key.replace("-----END", "----END");
    let misspelt = pair.key.replacen("-----\n", "", 1);
    let cases = [
        (None, Some(&*pair.key), "cannot read", "tls.crt"),
        (Some(&*pair.cert), None, "cannot read", "tls.key"),
        (
            Some(&pair.cert),
            Some(&*other.key),
            "does not match",
            "tls.key",
        ),
        (Some(&pair.cert), Some(&torn), "is not whole PEM", "tls.key"),
        (
            Some(&pair.cert),
            Some(&misspelt),
            "is not whole PEM",
            "tls.key",
        ),
        (
            Some(&pair.cert),
            Some(&pair.cert),
            "holds no private key",
            "tls.key",
        ),
        (
            Some(&pair.key),
            Some(&pair.key),
            "holds no certificate",
            "tls.crt",
        ),
    ];
    for (cert, key, expected, file) in cases {
        let refusal = refusal(cert, key);
        let told = format!("{refusal} {refusal:?}");
        assert!(refusal.to_string().contains(expected), "{told}");
        assert!(refusal.to_string().contains(file), "{told}");
        assert!(!told.contains(secret), "{told}");
    }
}
