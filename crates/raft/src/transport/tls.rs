//! Mutual TLS between nodes: who cannot prove that it belongs to the cluster is not listened to.
//!
//! A [`SecureNet`] stands before another [`Net`] and hands out connections on which both ends have
//! shown a certificate of the cluster's authority that carries the cluster's name, and the end that
//! was dialled one that carries the name it was dialled by. That a node speaks only for the node ids
//! whose certificate name is its own is checked with the head of each request ([`Peers::pin`]).
//!
//! TLS 1.3 alone, and nothing is resumed: a node that was shut out is out at its next connection.
//!
//! [`Peers::pin`]: super::peers::Peers::pin

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, DnsName, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::net::{BoxedStream, Net};

/// What is spoken inside, as TLS names it.
const HTTP_2: &[u8] = b"h2";

/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(2);

/// Handshakes that peers may be in at one time; further ones wait to be accepted.
const HANDSHAKES: usize = 64;

/// The certificate that the far end of a connection has proved to hold the key of.
#[derive(Clone, Debug)]
pub struct PeerCertificate(CertificateDer<'static>);

impl PeerCertificate {
    /// Whether it names `name` (a DNS name or an IP address) among its subjects.
    pub fn is_for(&self, name: &str) -> bool {
        let Ok(name) = ServerName::try_from(name) else {
            return false;
        };
        ParsedCertificate::try_from(&self.0)
            .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
    }
}

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// Nobody can be verified, or the provider does not do what is needed.
    #[error("cannot prepare mutual TLS: {0}")]
    Unusable(String),
    /// The cluster's name is none that a certificate can carry.
    #[error("the cluster name {0:?} is not a DNS name")]
    ClusterName(String),
}

/// This node's certificate and key, and the authorities whose certificates it believes.
#[derive(Clone)]
pub struct Credentials {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    shown: Option<PeerCertificate>,
}

impl Credentials {
    /// Prepares both ends.
    ///
    /// # Errors
    /// When `authorities` is empty.
    pub fn new(
        authorities: RootCertStore,
        own: Arc<CertifiedKey>,
    ) -> Result<Self, CredentialsError> {
        let unusable =
            |error: &dyn std::error::Error| CredentialsError::Unusable(error.to_string());
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let versions = &[&rustls::version::TLS13];
        let authorities = Arc::new(authorities);
        let shown = own.cert.first().cloned().map(PeerCertificate);
        let own = Arc::new(SingleCertAndKey::from(own));

        let believed = Arc::clone(&authorities);
        let verifier = WebPkiClientVerifier::builder_with_provider(believed, Arc::clone(&provider));
        let verifier = verifier.build().map_err(|error| unusable(&error))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let server = server.with_protocol_versions(versions);
        let server = server.map_err(|error| unusable(&error))?;
        let server = server.with_client_cert_verifier(verifier);
        let mut server = server.with_cert_resolver(Arc::clone(&own) as _);
        server.alpn_protocols = vec![HTTP_2.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;

        let client = ClientConfig::builder_with_provider(provider);
        let client = client.with_protocol_versions(versions);
        let client = client.map_err(|error| unusable(&error))?;
        let client = client.with_root_certificates(authorities);
        let mut client = client.with_client_cert_resolver(own);
        client.alpn_protocols = vec![HTTP_2.to_vec()];
        client.resumption = Resumption::disabled();
        Ok(Self {
            server: Arc::new(server),
            client: Arc::new(client),
            shown,
        })
    }

    /// Whether the certificate that is shown names `name` (a DNS name or an IP address).
    pub fn are_for(&self, name: &str) -> bool {
        self.shown
            .as_ref()
            .is_some_and(|certificate| certificate.is_for(name))
    }
}

/// A network on which every connection is encrypted and both ends are of one cluster.
pub struct SecureNet {
    inner: Arc<dyn Net>,
    gate: Gate,
}

/// What both ends of a connection pass through.
#[derive(Clone)]
struct Gate {
    cluster_name: Arc<str>,
    credentials: watch::Receiver<Credentials>,
}

impl SecureNet {
    /// Secures `inner`. Each new connection uses the newest credentials; those that stand go on.
    ///
    /// # Errors
    /// When no certificate can carry `cluster_name`.
    pub fn new(
        inner: Arc<dyn Net>,
        cluster_name: &str,
        credentials: watch::Receiver<Credentials>,
    ) -> Result<Self, CredentialsError> {
        DnsName::try_from(cluster_name)
            .map_err(|_| CredentialsError::ClusterName(cluster_name.to_owned()))?;
        let gate = Gate {
            cluster_name: cluster_name.into(),
            credentials,
        };
        Ok(Self { inner, gate })
    }
}

impl Gate {
    async fn connect(self, stream: BoxedStream, host: &str) -> io::Result<BoxedStream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let client = Arc::clone(&self.credentials.borrow().client);
        let stream = limited(TlsConnector::from(client).connect(name, stream)).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let certificate = self.check(shown)?;
        Ok(BoxedStream::proven(stream, certificate))
    }

    async fn accept(self, stream: BoxedStream) -> io::Result<BoxedStream> {
        let server = Arc::clone(&self.credentials.borrow().server);
        let stream = limited(TlsAcceptor::from(server).accept(stream)).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let certificate = self.check(shown)?;
        Ok(BoxedStream::proven(stream, certificate))
    }

    /// The far end's certificate is one of the authority's; here it must be one of the cluster's.
    fn check(&self, shown: Option<&[CertificateDer<'_>]>) -> io::Result<PeerCertificate> {
        let refused = |what: String| io::Error::new(io::ErrorKind::PermissionDenied, what);
        let first = shown.and_then(|chain| chain.first());
        let first = first.ok_or_else(|| refused("no certificate was shown".to_owned()))?;
        let certificate = PeerCertificate(first.clone().into_owned());
        if certificate.is_for(&self.cluster_name) {
            Ok(certificate)
        } else {
            let name = &self.cluster_name;
            Err(refused(format!(
                "the certificate is not for cluster {name}"
            )))
        }
    }
}

async fn limited<T>(handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(HANDSHAKE_LIMIT, handshake)
        .await
        .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
}

/// The part of `host:port` that the certificate of the node there names; `None` without a port.
pub fn certificate_name(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':')?;
    let unbracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    Some(unbracketed.unwrap_or(host))
}

impl Net for SecureNet {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>> {
        let gate = self.gate.clone();
        let connecting = self.inner.connect(address.clone());
        Box::pin(async move {
            let host = certificate_name(&address).ok_or_else(|| {
                let text = format!("{address:?} has no port");
                io::Error::new(io::ErrorKind::InvalidInput, text)
            })?;
            gate.connect(connecting.await?, host).await
        })
    }

    fn listen(
        &self,
        address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>> {
        let gate = self.gate.clone();
        let listening = self.inner.listen(address);
        Box::pin(async move {
            let proven = listening.await?.map(move |stream| {
                let gate = gate.clone();
                async move {
                    let proven = gate.accept(stream?).await;
                    // Who cannot prove itself is a stranger, not a failure of the port.
                    Ok(proven
                        .inspect_err(
                            |error| tracing::warn!(%error, "a peer's connection was refused"),
                        )
                        .ok())
                }
            });
            let proven = proven.buffer_unordered(HANDSHAKES);
            let proven = proven.filter_map(|result| async move { result.transpose() });
            Ok(proven.boxed())
        })
    }
}
