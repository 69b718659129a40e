//! The handshake of an encrypted connection, before any HTTP.
//!
//! Which certificate is shown, and when it changes, is the [`ServerConfig`]'s to know. HTTP/2 is not
//! served, encrypted or not: a client that insists on it is refused here.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Why a connection did not become an encrypted one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("the client took longer than {} ms", .0.as_millis())]
    TooSlow(Duration),
    #[error(transparent)]
    Failed(#[from] io::Error),
}

/// Shakes hands with a client, for at most `timeout`.
pub(crate) async fn accept<Io>(
    config: &Arc<ServerConfig>,
    io: Io,
    timeout: Duration,
) -> Result<TlsStream<Io>, HandshakeError>
where
    Io: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = TlsAcceptor::from(Arc::clone(config)).accept(io);
    match tokio::time::timeout(timeout, handshake).await {
        Ok(stream) => Ok(stream?),
        Err(_) => Err(HandshakeError::TooSlow(timeout)),
    }
}
