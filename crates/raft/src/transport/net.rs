//! The way to other nodes: the [`Net`] port.
//!
//! It has two implementations outside this crate's logic: tokio's TCP for a server, turmoil's for a
//! simulation. Everything above a byte stream (HTTP/2, gRPC, deadlines) is the same code.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use super::tls::PeerCertificate;

/// Opens and accepts byte streams between nodes.
pub trait Net: Send + Sync + 'static {
    /// Connects to `address` (`host:port`).
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>>;

    /// Accepts connections on `address` until the stream is dropped.
    fn listen(
        &self,
        address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>>;
}

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection to or from a peer.
pub struct BoxedStream {
    bytes: Box<dyn ByteStream>,
    certificate: Option<PeerCertificate>,
}

impl BoxedStream {
    /// Wraps any byte stream; who is at its far end is not proved.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self {
            bytes: Box::new(stream),
            certificate: None,
        }
    }

    /// Wraps a stream whose far end has proved to hold the key of a certificate.
    pub(crate) fn proven(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        certificate: PeerCertificate,
    ) -> Self {
        Self {
            bytes: Box::new(stream),
            certificate: Some(certificate),
        }
    }

    /// What the far end has proved.
    pub(crate) fn certificate(&self) -> Option<&PeerCertificate> {
        self.certificate.as_ref()
    }
}

impl AsyncRead for BoxedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(cx, buf)
    }
}

impl AsyncWrite for BoxedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.bytes.is_write_vectored()
    }
}

/// What is known of the far end of a connection, for each request that comes over it.
#[derive(Clone)]
pub struct FarEnd {
    pub certificate: Option<PeerCertificate>,
}

impl Connected for BoxedStream {
    type ConnectInfo = FarEnd;

    fn connect_info(&self) -> FarEnd {
        let certificate = self.certificate.clone();
        FarEnd { certificate }
    }
}
