//! What this node proves itself with to other nodes, and whom it believes: three files that are
//! followed without a restart.
//!
//! Each new connection between nodes uses the newest credentials that were good. An authority is
//! replaced in three steps, each of which every node takes before the next: believe both, show a
//! certificate of the new one, believe it alone.

use super::{CertificateDer, PairFiles, Texts, TlsError, not_pem, read};
use hikyaku_raft::Credentials;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Where a node's credentials are; all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFiles {
    /// The certificate that it shows, and its key.
    pub pair: PairFiles,
    /// The authorities whose certificates it believes.
    pub ca: PathBuf,
}

/// Credentials that follow their files.
pub(crate) struct PeerCredentials {
    files: PeerFiles,
    /// What the certificate has to name: the cluster, and the node where others reach it.
    names: Vec<String>,
    /// What was judged last; nothing after files could not be read.
    judged: Option<PeerTexts>,
    newest: watch::Sender<Credentials>,
}

#[derive(PartialEq, Eq)]
struct PeerTexts {
    pair: Texts,
    ca: Vec<u8>,
}

impl PeerCredentials {
    /// Reads the files; they have to be good now, and the certificate for all of these names.
    pub(crate) fn open(files: PeerFiles, names: Vec<String>) -> Result<Self, TlsError> {
        let texts = PeerTexts::read(&files)?;
        let newest = watch::Sender::new(texts.credentials(&files, &names)?);
        Ok(Self {
            files,
            names,
            judged: Some(texts),
            newest,
        })
    }

    /// The newest credentials, now and later.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Credentials> {
        self.newest.subscribe()
    }

    /// Looks at the files again every now and then until `stop` becomes true.
    pub(crate) async fn follow(self, every: Duration, stop: watch::Receiver<bool>) {
        super::follow(self, Self::look, every, stop).await;
    }

    /// Looks at the files once, and takes what they hold if it is new and good.
    fn look(&mut self) {
        let texts = match PeerTexts::read(&self.files) {
            Ok(texts) => texts,
            Err(error) => {
                // Said once: until they can be read again, nothing else can be new.
                if self.judged.take().is_some() {
                    refuse(&error);
                }
                return;
            }
        };
        if self.judged.as_ref() == Some(&texts) {
            return;
        }
        match texts.credentials(&self.files, &self.names) {
            Ok(credentials) => {
                self.newest.send_replace(credentials);
                let cert_file = self.files.pair.cert.display();
                tracing::info!(%cert_file, "credentials among nodes renewed");
            }
            Err(error) => refuse(&error),
        }
        self.judged = Some(texts);
    }
}

fn refuse(error: &TlsError) {
    tracing::warn!(%error, "credentials among nodes not renewed; those before stay");
}

impl PeerTexts {
    fn read(files: &PeerFiles) -> Result<Self, TlsError> {
        Ok(Self {
            pair: Texts::read(&files.pair)?,
            ca: read(&files.ca)?,
        })
    }

    fn credentials(&self, files: &PeerFiles, names: &[String]) -> Result<Credentials, TlsError> {
        let own = Arc::new(self.pair.pair(&files.pair)?);
        let credentials = Credentials::new(self.authorities(files)?, own)?;
        match names.iter().find(|name| !credentials.are_for(name)) {
            None => Ok(credentials),
            Some(name) => Err(TlsError::NotFor {
                path: files.pair.cert.clone(),
                name: name.clone(),
            }),
        }
    }

    fn authorities(&self, files: &PeerFiles) -> Result<RootCertStore, TlsError> {
        let absent = |error: &pem::Error| not_pem(error, &files.ca, "certificate");
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.ca).collect();
        let found = found.map_err(|error| absent(&error))?;
        if found.is_empty() {
            return Err(absent(&pem::Error::NoItemsFound));
        }
        let mut authorities = RootCertStore::empty();
        for certificate in found {
            let added = authorities.add(certificate);
            added.map_err(|error| TlsError::NoAuthority {
                path: files.ca.clone(),
                reason: error.to_string(),
            })?;
        }
        Ok(authorities)
    }
}
