//! The certificate that this node shows, and the files it follows without a restart.
//!
//! The files are read when the node starts, and then looked at again and again, by content: a
//! mounted secret changes through symbolic links whose times mean nothing. New connections are
//! greeted with the newest pair that was good; those that are open go on as they began. A pair that
//! is no good, half-written say, changes nothing but a warning and a metric.
//!
//! Everything is signed by `ring`, named explicitly: a process in which another provider is linked
//! too has no default. Keys are in no message, not even as part of a line that could not be read.

mod peers;

pub(crate) use peers::PeerCredentials;
pub use peers::PeerFiles;

use crate::run::blocking;
use hikyaku_raft::CredentialsError;
use rustls::InconsistentKeys;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt::{self, Write as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use zeroize::Zeroizing;

/// What is spoken inside, as TLS names it: by clients, and by operators.
const HTTP_1_1: &[u8] = b"http/1.1";
const HTTP_2: &[u8] = b"h2";

/// The files of a certificate with its chain, and of its private key; both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFiles {
    /// The certificate, then those that vouch for it.
    pub cert: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
}

/// Why a certificate cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not PEM, or ends too early.
    #[error("{} is not whole PEM", .0.display())]
    NotPem(PathBuf),
    /// A file is PEM, of something else.
    #[error("{} holds no {what}", path.display())]
    Absent {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// The key is of a kind that nobody here signs with, or the certificate is none.
    #[error("cannot use the key of {} for the certificate of {}: {reason}", files.key.display(), files.cert.display())]
    Unusable {
        /// The two.
        files: PairFiles,
        /// Why; without anything of the key.
        reason: String,
    },
    /// The key is another certificate's.
    #[error("the key of {} does not match the certificate of {}", .0.key.display(), .0.cert.display())]
    Mismatch(PairFiles),
    /// A certificate is another node's, or another cluster's.
    #[error("the certificate of {} is not for {name}", path.display())]
    NotFor {
        /// The file.
        path: PathBuf,
        /// The name that it lacks.
        name: String,
    },
    /// What is to vouch for others cannot.
    #[error("cannot believe the certificates of {}: {reason}", path.display())]
    NoAuthority {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Nodes cannot prove themselves to each other with what there is.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The machine gives no random numbers.
    #[error("cannot prepare TLS: {0}")]
    Provider(rustls::Error),
}

/// The pair that new connections are greeted with.
struct Shown {
    pair: RwLock<Arc<CertifiedKey>>,
    /// Whether the files hold something else, which is no good.
    refused: AtomicBool,
    renewals: AtomicU64,
}

/// What files held when they were last looked at.
#[derive(PartialEq, Eq)]
struct Texts {
    cert: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

/// A pair that follows its files.
pub(crate) struct Certificate {
    files: PairFiles,
    /// What was judged last; nothing after files could not be read.
    judged: Option<Texts>,
    shown: Arc<Shown>,
}

/// Numbers about a [`Certificate`].
#[derive(Clone)]
pub(crate) struct CertificateMetrics(Arc<Shown>);

impl Certificate {
    /// Reads the files; they have to be good now.
    pub(crate) fn open(files: PairFiles) -> Result<Self, TlsError> {
        let texts = Texts::read(&files)?;
        let shown = Shown {
            pair: RwLock::new(Arc::new(texts.pair(&files)?)),
            refused: AtomicBool::new(false),
            renewals: AtomicU64::new(0),
        };
        Ok(Self {
            files,
            judged: Some(texts),
            shown: Arc::new(shown),
        })
    }

    /// How a port speaks that shows this certificate: TLS 1.2 or 1.3, HTTP/1.1 inside.
    pub(crate) fn client_port(&self) -> Result<ServerConfig, TlsError> {
        self.port(HTTP_1_1)
    }

    /// How an operator's port speaks that shows this certificate: HTTP/2 inside.
    pub(crate) fn admin_port(&self) -> Result<ServerConfig, TlsError> {
        self.port(HTTP_2)
    }

    fn port(&self, inside: &[u8]) -> Result<ServerConfig, TlsError> {
        let builder = ServerConfig::builder_with_provider(Arc::new(provider()));
        let builder = builder.with_protocol_versions(rustls::ALL_VERSIONS);
        let builder = builder.map_err(TlsError::Provider)?;
        let shown: Arc<dyn ResolvesServerCert> = Arc::clone(&self.shown) as _;
        let mut config = builder.with_no_client_auth().with_cert_resolver(shown);
        config.alpn_protocols = vec![inside.to_vec()];
        // Clients that come back are remembered by themselves, so that there is nothing to fill.
        config.ticketer = ring::Ticketer::new().map_err(TlsError::Provider)?;
        Ok(config)
    }

    /// Numbers about it, for the page of metrics.
    pub(crate) fn metrics(&self) -> CertificateMetrics {
        CertificateMetrics(Arc::clone(&self.shown))
    }

    /// Looks at the files again every now and then until `stop` becomes true.
    pub(crate) async fn follow(self, every: Duration, stop: watch::Receiver<bool>) {
        follow(self, Self::look, every, stop).await;
    }

    /// Looks at the files once, and shows what they hold if it is new and good.
    fn look(&mut self) {
        let texts = match Texts::read(&self.files) {
            Ok(texts) => texts,
            Err(error) => {
                // Said once: until they can be read again, nothing else can be new.
                if self.judged.take().is_some() || !self.shown.refused.load(Ordering::Relaxed) {
                    self.refuse(&error);
                }
                return;
            }
        };
        if self.judged.as_ref() == Some(&texts) {
            return;
        }
        match texts.pair(&self.files) {
            Ok(pair) => self.show(pair),
            Err(error) => self.refuse(&error),
        }
        self.judged = Some(texts);
    }

    fn show(&self, pair: CertifiedKey) {
        let before = self.shown.replace(pair);
        self.shown.refused.store(false, Ordering::Relaxed);
        if before.cert == self.shown.pair().cert {
            return; // What was there before came back, or only white space changed.
        }
        self.shown.renewals.fetch_add(1, Ordering::Relaxed);
        tracing::info!(cert_file = %self.files.cert.display(), "certificate renewed");
    }

    fn refuse(&self, error: &TlsError) {
        self.shown.refused.store(true, Ordering::Relaxed);
        tracing::warn!(%error, "certificate not renewed; the one before stays");
    }
}

/// Looks at files again every now and then until `stop` becomes true.
async fn follow<T: Send + 'static>(
    mut files: T,
    look: fn(&mut T),
    every: Duration,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // A tick that is lost comes again.
            _ = ticks.tick() => {}
            // An error means that nobody can ask to stop any more, and is taken as being asked.
            _ = stop.wait_for(|stop| *stop) => return,
        }
        files = blocking(move || {
            look(&mut files);
            files
        })
        .await;
    }
}

impl Texts {
    fn read(files: &PairFiles) -> Result<Self, TlsError> {
        Ok(Self {
            cert: read(&files.cert)?,
            key: Zeroizing::new(read(&files.key)?),
        })
    }

    /// Makes a pair of them, if they are one.
    fn pair(&self, files: &PairFiles) -> Result<CertifiedKey, TlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.cert).collect();
        let chain = chain.map_err(|error| not_pem(&error, &files.cert, "certificate"))?;
        if chain.is_empty() {
            return Err(not_pem(
                &pem::Error::NoItemsFound,
                &files.cert,
                "certificate",
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|error| not_pem(&error, &files.key, "private key"))?;
        CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                TlsError::Mismatch(files.clone())
            }
            other => TlsError::Unusable {
                files: files.clone(),
                reason: other.to_string(),
            },
        })
    }
}

impl Shown {
    // What is behind the lock is whole at any time, whoever panicked.
    fn pair(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.pair.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, pair: CertifiedKey) -> Arc<CertifiedKey> {
        let mut place = self.pair.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, Arc::new(pair))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.pair())
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl CertificateMetrics {
    /// Writes them, in Prometheus's text format.
    pub(crate) fn write(&self, page: &mut String) {
        let refused = u8::from(self.0.refused.load(Ordering::Relaxed));
        let renewals = self.0.renewals.load(Ordering::Relaxed);
        let text = format_args!(
            "# HELP hikyaku_tls_certificate_refused Whether the files of the certificate hold one that is not in use.\n\
             # TYPE hikyaku_tls_certificate_refused gauge\n\
             hikyaku_tls_certificate_refused {refused}\n\
             # HELP hikyaku_tls_certificate_renewals_total Certificates taken from changed files.\n\
             # TYPE hikyaku_tls_certificate_renewals_total counter\n\
             hikyaku_tls_certificate_renewals_total {renewals}\n"
        );
        page.write_fmt(text)
            .expect("a String takes every character");
    }
}

fn provider() -> CryptoProvider {
    ring::default_provider()
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Says what is wrong, and nothing of what is there: it may be half a key.
fn not_pem(error: &pem::Error, path: &Path, what: &'static str) -> TlsError {
    let path = path.to_owned();
    match error {
        pem::Error::NoItemsFound => TlsError::Absent { path, what },
        _ => TlsError::NotPem(path),
    }
}

#[cfg(test)]
mod tests;
