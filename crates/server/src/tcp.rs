//! Connections between nodes over the machine's own TCP.

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use hikyaku_raft::{BoxedStream, Net};
use std::io;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// The rest after a failed accept: out of file descriptors, say, which must not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// tokio's TCP.
pub struct Tcp;

impl Net for Tcp {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(BoxedStream::new(stream))
        })
    }

    fn listen(
        &self,
        address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>> {
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            let incoming = stream::unfold(listener, |listener| async move {
                Some((Ok(accept(&listener).await), listener))
            });
            Ok(incoming.boxed())
        })
    }
}

async fn accept(listener: &TcpListener) -> BoxedStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "a peer's connection keeps Nagle's delay");
                }
                return BoxedStream::new(stream);
            }
            Err(error) => {
                tracing::warn!(%error, "a peer's connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
