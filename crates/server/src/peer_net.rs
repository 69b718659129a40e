//! The network between nodes: plain within one machine, mutual TLS wherever it is configured.

use crate::config::Config;
use crate::tcp::Tcp;
use crate::tls::{PeerCredentials, TlsError};
use hikyaku_raft::{Net, SecureNet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The network, and whoever looks after the credentials on it.
pub(crate) struct PeerNet {
    net: Arc<dyn Net>,
    stop: watch::Sender<bool>,
    following: JoinSet<()>,
}

impl PeerNet {
    /// Prepares it; files of credentials have to be good now.
    pub(crate) fn open(config: &Config) -> Result<Self, TlsError> {
        let stop = watch::Sender::new(false);
        let mut following = JoinSet::new();
        let mut net: Arc<dyn Net> = Arc::new(Tcp);
        let tls = &config.cluster.tls;
        if let (Some(files), Some(name)) = (tls.files(), &tls.name) {
            let names = [Some(name.clone()), config.cluster.certificate_name()];
            let names = names.into_iter().flatten().collect();
            let credentials = PeerCredentials::open(files, names)?;
            net = Arc::new(SecureNet::new(net, name, credentials.subscribe())?);
            let every = Duration::from_millis(config.tls.reload_ms);
            following.spawn(credentials.follow(every, stop.subscribe()));
        }
        Ok(Self {
            net,
            stop,
            following,
        })
    }

    /// The network.
    pub(crate) fn net(&self) -> Arc<dyn Net> {
        Arc::clone(&self.net)
    }

    /// Looks after nothing any more.
    pub(crate) async fn close(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.following.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "nobody looked after the credentials among nodes");
            }
        }
    }
}
