//! The operator's port of this process: open from the start, so that a node that waits can be asked
//! why, and closed last, so that an end can be reported.

use crate::config::Config;
use crate::run::RunError;
use hikyaku_admin::{AdminPort, Desk, InvalidToken, Standing, StopOrder, Token};
use hikyaku_cluster::{Founding, Node};
use hikyaku_metadata::SealingKeys;
use rustls::ServerConfig;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use zeroize::Zeroizing;

/// Why the operator's token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Its file cannot be read.
    #[error("cannot read the operator's token from {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its file holds something else.
    #[error("cannot use {} as the operator's token: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: InvalidToken,
    },
}

/// Whoever answers operators, if anybody does.
pub(crate) struct Operators {
    standing: watch::Sender<Standing>,
    orders: mpsc::Receiver<StopOrder>,
    stop: oneshot::Sender<()>,
    serving: JoinSet<()>,
}

impl Operators {
    /// Opens the port, if there is to be one.
    pub(crate) async fn open(
        config: &Config,
        tls: Option<Arc<ServerConfig>>,
        sealing: Option<SealingKeys>,
        waits: watch::Receiver<String>,
    ) -> Result<Self, RunError> {
        let standing = watch::Sender::new(Standing::Starting);
        let (order, orders) = mpsc::channel(1);
        let (stop, stopped) = oneshot::channel();
        let mut serving = JoinSet::new();
        if let Some(address) = config.admin.listen {
            let token = config.admin.token_file.as_deref().map(read).transpose()?;
            if token.is_none() {
                tracing::info!(%address, "whoever is on this machine may operate the cluster");
            }
            let port = AdminPort::open(address, token, tls);
            let port = port
                .await
                .map_err(|source| RunError::ListenForOperators { address, source })?;
            let desk = Desk::new(standing.subscribe(), waits, order).with_sealing_keys(sealing);
            let stop = async {
                // An error means that nobody can ask to stop any more, and is taken as being asked.
                stopped.await.ok();
            };
            serving.spawn(hikyaku_admin::serve(port, desk, stop));
        }
        Ok(Self {
            standing,
            orders,
            stop,
            serving,
        })
    }

    /// From now on this node answers.
    pub(crate) fn introduce(&self, node: &Arc<Node>) {
        self.standing
            .send_replace(Standing::Member(Arc::clone(node)));
    }

    /// From now on the cluster may be founded by hand.
    pub(crate) fn wait(&self, founding: &Arc<Founding>) {
        self.standing
            .send_replace(Standing::Waiting(Arc::clone(founding)));
    }

    /// What operators want of this process; nothing, ever, without a port.
    pub(crate) fn orders(&mut self) -> &mut mpsc::Receiver<StopOrder> {
        &mut self.orders
    }

    /// Answers what is under way, and nothing more.
    pub(crate) async fn close(mut self) {
        // Without a port there is no receiver.
        self.stop.send(()).ok();
        while let Some(ended) = self.serving.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "the operator's port died before the stop");
            }
        }
    }
}

fn read(path: &Path) -> Result<Token, TokenError> {
    let text = std::fs::read_to_string(path).map_err(|source| TokenError::Read {
        path: path.to_owned(),
        source,
    })?;
    let text = Zeroizing::new(text);
    let token = Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned());
    Token::new(token).map_err(|source| TokenError::Unusable {
        path: path.to_owned(),
        source,
    })
}
