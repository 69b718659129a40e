//! Where the service is, and how its bytes get there: TCP, or TLS over it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Why an endpoint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not a URL of a service.
    #[error("{0:?} is not http://HOST:PORT or https://HOST:PORT, without a path")]
    Url(String),
    /// The file of `--ca` is of no use.
    #[error("{0}: no certificates: {1}")]
    Ca(String, String),
    /// Nothing to check certificates against.
    #[error("the system has no trusted certificates ({0}); name a file of them with --ca")]
    NoRoots(String),
}

/// A service's address.
#[derive(Clone)]
pub(crate) struct Endpoint {
    host: String,
    port: u16,
    /// As in the `Host` header: the port is left out where it is the scheme's own.
    authority: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// A connection's bytes.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Endpoint {
    /// Reads a URL. `ca` is a file of certificates to trust instead of the system's.
    pub(crate) fn parse(url: &str, ca: Option<&Path>) -> Result<Self, EndpointError> {
        let invalid = || EndpointError::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(invalid()),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(invalid)?;
        let own_port = if is_tls { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(own_port);
        let with_port = format!("{host}:{port}");
        // Neither a user nor a port that is none, which the URI's parts do not tell.
        let given = uri.authority().map_or("", |authority| authority.as_str());
        let is_plain = given == host || given == with_port;
        if !is_plain || uri.path() != "/" || uri.query().is_some() {
            return Err(invalid());
        }
        let authority = if port == own_port {
            host.to_owned()
        } else {
            with_port
        };
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let tls = if is_tls {
            let name = ServerName::try_from(host.clone()).map_err(|_| invalid())?;
            Some((connector(ca)?, name))
        } else {
            None
        };
        Ok(Self {
            host,
            port,
            authority,
            tls,
        })
    }

    /// The `Host` header.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((connector, name)) => Ok(Box::new(connector.connect(name.clone(), stream).await?)),
        }
    }
}

fn connector(ca: Option<&Path>) -> Result<TlsConnector, EndpointError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = ca {
        let shown = file.display().to_string();
        let refused = |error: String| EndpointError::Ca(shown.clone(), error);
        let certificates =
            CertificateDer::pem_file_iter(file).map_err(|e| refused(e.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|e| refused(e.to_string()))?;
            roots.add(certificate).map_err(|e| refused(e.to_string()))?;
        }
        if roots.is_empty() {
            return Err(refused("none in the file".to_owned()));
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(EndpointError::NoRoots(format!("{:?}", found.errors)));
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has what TLS 1.2 and 1.3 need")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_header_leaves_out_the_scheme_s_own_port() {
        for (url, authority) in [
            ("http://127.0.0.1:9324", "127.0.0.1:9324"),
            ("http://localhost", "localhost"),
            ("http://localhost:80/", "localhost"),
            ("http://localhost:443", "localhost:443"),
            ("http://[::1]:9324", "[::1]:9324"),
        ] {
            assert_eq!(Endpoint::parse(url, None).unwrap().authority(), authority);
        }
        let endpoint = Endpoint::parse("http://[::1]:9324", None).unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("::1", 9324));
    }

    #[test]
    fn refuses_what_is_not_an_endpoint() {
        for url in [
            "",
            "localhost:9324",
            "127.0.0.1:9324",
            "ftp://localhost",
            "http://",
            "http://localhost/queue",
            "http://localhost/?x=1",
            "http://user:password@localhost",
            "http://localhost:99999",
        ] {
            let refused = Endpoint::parse(url, None).err();
            assert_eq!(refused, Some(EndpointError::Url(url.to_owned())));
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let none = Path::new("/dev/null");
        let refused = Endpoint::parse("https://localhost", Some(none)).err();
        assert!(
            matches!(refused, Some(EndpointError::Ca(..))),
            "{refused:?}"
        );
    }
}
