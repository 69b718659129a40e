//! One connection of a client: HTTP/1.1 over any stream, within limits, until it ends or is told to.
//!
//! What a request means is the handler's to know. A request that is not HTTP never reaches it; nor
//! does one with more or longer headers than allowed, which hyper answers 431.

use std::future::Future;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::config::GatewayLimits;
use crate::stall::{Phase, Stalling};
use crate::unproved::Unproved;

/// A whole answer.
pub(crate) type Response = http::Response<Full<Bytes>>;

/// How much hyper may hold of one connection's bytes, beyond headers: a batch of usual size in one
/// read.
const BUFFER_BYTES: usize = 64 << 10;

/// The body of a request, not read yet.
pub(crate) struct RequestBody {
    incoming: Incoming,
    limit_bytes: usize,
    phase: Phase,
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is longer than {limit_bytes} bytes")]
    TooLong { limit_bytes: usize },
    #[error("there is no memory for what nobody has proved")]
    Crowded,
    #[error("the connection ended inside the body")]
    Broken,
}

impl RequestBody {
    /// The body as a form, where a byte of a message may take three.
    pub(crate) fn of_form(self) -> Self {
        Self {
            limit_bytes: self.limit_bytes.saturating_mul(3),
            ..self
        }
    }

    /// How large the body may turn out to be, in bytes: as announced, or else the limit.
    pub(crate) fn most_bytes(&self) -> usize {
        let announced = self.incoming.size_hint().exact();
        announced
            .and_then(|bytes| usize::try_from(bytes).ok())
            .map_or(self.limit_bytes, |bytes| bytes.min(self.limit_bytes))
    }

    /// How far the request is.
    pub(crate) fn phase(&self) -> Phase {
        self.phase.clone()
    }

    /// Why the body did not come to its end.
    fn broken(&self) -> BodyError {
        match self.phase.crowded() {
            true => BodyError::Crowded,
            false => BodyError::Broken,
        }
    }

    /// Reads the body; without copying if it came in one piece.
    pub(crate) async fn read(mut self) -> Result<Bytes, BodyError> {
        let limit_bytes = self.limit_bytes;
        let too_long = BodyError::TooLong { limit_bytes };
        let announced = usize::try_from(self.incoming.size_hint().lower());
        let announced = announced.map_err(|_| too_long)?;
        if announced > limit_bytes {
            return Err(too_long);
        }
        let mut whole = Bytes::new();
        let mut gathered = BytesMut::new();
        while let Some(frame) = self.incoming.frame().await {
            let Ok(data) = frame.map_err(|_| self.broken())?.into_data() else {
                continue; // Trailers mean nothing here.
            };
            if whole.len() + gathered.len() + data.len() > limit_bytes {
                return Err(too_long);
            }
            if whole.is_empty() && gathered.is_empty() {
                whole = data;
                continue;
            }
            if gathered.is_empty() {
                gathered.reserve(announced.max(whole.len() + data.len()));
                gathered.extend_from_slice(&std::mem::take(&mut whole));
            }
            gathered.extend_from_slice(&data);
        }
        self.phase.serving();
        Ok(if gathered.is_empty() {
            whole
        } else {
            gathered.freeze()
        })
    }
}

/// How a connection ended, as far as it matters to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As connections do.
    Usually,
    /// There was no memory for what it sent unproved.
    Crowded,
}

/// Serves a connection until the client or a fault ends it, or `stop` becomes true: then requests
/// under way are finished, for at most the drain timeout.
pub(crate) async fn serve<Io, H, F>(
    io: Io,
    handler: H,
    limits: &GatewayLimits,
    unproved: &Unproved,
    mut stop: watch::Receiver<bool>,
) -> Ended
where
    Io: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Fn(Parts, RequestBody) -> F,
    F: Future<Output = Response> + Send,
{
    let phase = Phase::new(unproved);
    let ended = || match phase.crowded() {
        true => Ended::Crowded,
        false => Ended::Usually,
    };
    let mut io = Stalling::new(io, phase.clone(), limits);
    let spoke = tokio::select! {
        spoke = io.speaks() => spoke,
        // An error means that nobody can ask to stop any more, and is taken as being asked.
        _ = stop.wait_for(|stop| *stop) => return Ended::Usually,
    };
    if !spoke {
        return ended();
    }
    let io = TokioIo::new(io);
    let limit_bytes = limits.request_bytes;
    let service = service_fn(|request: http::Request<Incoming>| {
        phase.head_read();
        let (parts, incoming) = request.into_parts();
        let body = RequestBody {
            incoming,
            limit_bytes,
            phase: phase.clone(),
        };
        let answer = handler(parts, body);
        let phase = phase.clone();
        async move {
            let response = answer.await;
            phase.answered();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder
        // The stream is timed by `Stalling`, which knows an idle connection from a slow request.
        .header_read_timeout(None)
        .max_headers(limits.header_fields)
        .max_header_size(limits.header_bytes)
        .max_buf_size(BUFFER_BYTES.max(limits.header_bytes));
    let mut connection = pin!(builder.serve_connection(io, service));
    let outcome = tokio::select! {
        outcome = connection.as_mut() => Some(outcome),
        // An error means that nobody can ask to stop any more, and is taken as being asked.
        _ = stop.wait_for(|stop| *stop) => None,
    };
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(limits.drain_timeout, connection).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    tracing::warn!("a request outlasted the orderly stop");
                    return Ended::Usually;
                }
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "connection ended");
    }
    ended()
}
