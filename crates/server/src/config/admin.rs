//! Where an operator comes in, as it is configured.
//!
//! Without a token whoever reaches the port may do everything, so it must not leave the machine: who is
//! on the machine already could stop the process or read its volume. With one it may, but only
//! encrypted, since a token is worth as much to whoever overhears it.

use super::{Config, Counterpart, Disagreement, holds};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where an operator comes in; without an address nowhere.
#[derive(Clone, Debug, Default)]
pub struct AdminConfig {
    /// Where operators connect.
    pub listen: Option<SocketAddr>,
    /// What they have to present, in a file; without one nothing, on loopback alone.
    pub token_file: Option<PathBuf>,
}

impl Config {
    pub(super) fn check_admin(&self) -> Result<(), Disagreement> {
        use Counterpart::Key;
        let Some(listen) = self.admin.listen else {
            return Ok(());
        };
        let key = "admin.listen";
        let rule = "must differ from";
        let elsewhere = listen != self.listen || listen.port() == 0;
        holds(elsewhere, key, rule, Key("listen"))?;
        let elsewhere = Some(listen) != self.cluster.peer_listen || listen.port() == 0;
        holds(elsewhere, key, rule, Key("cluster.peer_listen"))?;
        let rule = "must be a loopback address without";
        let private = listen.ip().is_loopback();
        let token = self.admin.token_file.is_some();
        holds(private || token, key, rule, Key("admin.token_file"))?;
        let encrypted = self.tls.files().is_some();
        holds(private || encrypted, key, rule, Key("tls.cert_file"))
    }
}
