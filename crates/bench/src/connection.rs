//! Calls over one HTTP/1.1 connection that is kept alive and opened again when it broke.
//!
//! A call is one attempt: only a request that certainly never left is given to a new connection. The
//! connection has no task of its own; it is driven by the call that waits for it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderValue, Request, header, response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::time::timeout;

use crate::endpoint::{Endpoint, Stream};
use crate::signer::{Credentials, Signer};
use crate::wire::{Action, CONTENT_TYPE};

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{status} {code}: {message}")]
    Refused {
        status: u16,
        /// The error's name as SDKs show it: the query code where there is one.
        code: String,
        message: String,
    },
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("the connection broke: {0}")]
    Broken(hyper::Error),
    #[error("no answer within {0:?}")]
    TooSlow(Duration),
    #[error("answer not understood: {0}")]
    NotUnderstood(String),
}

impl CallError {
    /// Whether the operation certainly had no effect: the service says that the client is wrong, or
    /// was never asked.
    pub(crate) fn had_no_effect(&self) -> bool {
        match self {
            Self::Refused { status, .. } => (400..500).contains(status),
            Self::Connect(_) => true,
            Self::Broken(_) | Self::TooSlow(_) | Self::NotUnderstood(_) => false,
        }
    }

    /// The error's name in the report.
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::Connect(_) => "(cannot connect)",
            Self::Broken(_) => "(connection broke)",
            Self::TooSlow(_) => "(no answer in time)",
            Self::NotUnderstood(_) => "(answer not understood)",
        }
    }
}

/// Makes one call after the other.
pub(crate) struct Client {
    endpoint: Arc<Endpoint>,
    host: HeaderValue,
    session_token: Option<HeaderValue>,
    signer: Signer,
    patience: Duration,
    open: Option<Open>,
}

type Driver = http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>;

struct Open {
    requests: http1::SendRequest<Full<Bytes>>,
    /// `None` when it has ended.
    connection: Option<Driver>,
}

/// How an exchange failed.
enum Failure {
    /// The request is back: the service never saw it.
    NotSent(Box<Request<Full<Bytes>>>),
    Broken(hyper::Error),
}

impl Client {
    /// Connects with the first call. `patience` is for each call.
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        credentials: Arc<Credentials>,
        patience: Duration,
    ) -> Self {
        let host = HeaderValue::from_str(endpoint.authority()).expect("a URI's host is ASCII");
        let session_token = credentials.session_token.as_ref().map(|token| {
            let mut token = HeaderValue::from_str(token).expect("the plan checked the token");
            token.set_sensitive(true);
            token
        });
        let signer = Signer::new(credentials, endpoint.authority().to_owned());
        Self {
            endpoint,
            host,
            session_token,
            signer,
            patience,
            open: None,
        }
    }

    /// Makes one call and gives back the answer's body.
    pub(crate) async fn call(&mut self, action: Action, body: Bytes) -> Result<Bytes, CallError> {
        let request = self.request(action, body);
        match timeout(self.patience, self.exchange(request)).await {
            Ok(Ok((head, body))) if head.status.is_success() => Ok(body),
            Ok(Ok((head, body))) => Err(refused(&head, &body)),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                // Its answer may still come: not to the next call.
                self.open = None;
                Err(CallError::TooSlow(self.patience))
            }
        }
    }

    fn request(&mut self, action: Action, body: Bytes) -> Request<Full<Bytes>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let second = now.expect("the clock is past 1970").as_secs();
        let signed = self.signer.sign(action, &body, second);
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = http::Method::POST;
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.host.clone());
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        headers.insert("x-amz-target", HeaderValue::from_static(action.target()));
        headers.insert("x-amz-date", signed.date);
        headers.insert(header::AUTHORIZATION, signed.authorization);
        if let Some(token) = &self.session_token {
            headers.insert("x-amz-security-token", token.clone());
        }
        request
    }

    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(response::Parts, Bytes), CallError> {
        let mut request = request;
        if let Some(open) = &mut self.open {
            match open.exchange(request).await {
                Ok(answer) => return Ok(self.answered(answer)),
                // Closed by the other side while it was idle.
                Err(Failure::NotSent(back)) => request = *back,
                Err(Failure::Broken(error)) => return Err(self.broke(error)),
            }
        }
        self.open = Some(Self::connect(&self.endpoint).await?);
        let open = self.open.as_mut().expect("it was just opened");
        match open.exchange(request).await {
            Ok(answer) => Ok(self.answered(answer)),
            Err(Failure::NotSent(_)) => {
                self.open = None;
                let closed = io::Error::from(io::ErrorKind::ConnectionReset);
                Err(CallError::Connect(closed))
            }
            Err(Failure::Broken(error)) => Err(self.broke(error)),
        }
    }

    fn answered(&mut self, answer: (response::Parts, Bytes)) -> (response::Parts, Bytes) {
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.connection.is_none())
        {
            self.open = None;
        }
        answer
    }

    fn broke(&mut self, error: hyper::Error) -> CallError {
        self.open = None;
        CallError::Broken(error)
    }

    async fn connect(endpoint: &Endpoint) -> Result<Open, CallError> {
        let stream = endpoint.connect().await.map_err(CallError::Connect)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (requests, connection) = handshake.map_err(CallError::Broken)?;
        Ok(Open {
            requests,
            connection: Some(connection),
        })
    }
}

impl Open {
    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(response::Parts, Bytes), Failure> {
        let Self {
            requests,
            connection,
        } = self;
        let answer = async move {
            if requests.ready().await.is_err() {
                return Err(Failure::NotSent(Box::new(request)));
            }
            let sent = requests.try_send_request(request).await;
            let (head, body) = match sent {
                Ok(answer) => answer.into_parts(),
                Err(mut error) => {
                    return Err(match error.take_message() {
                        Some(request) => Failure::NotSent(Box::new(request)),
                        None => Failure::Broken(error.into_error()),
                    });
                }
            };
            let body = body.collect().await.map_err(Failure::Broken)?;
            Ok((head, body.to_bytes()))
        };
        tokio::pin!(answer);
        let driver = connection.as_mut();
        let driver = driver.expect("a connection that has ended is not used again");
        // The connection first: it notices that the other side closed before a request is given to it.
        tokio::select! {
            biased;
            _ = driver => {
                // All that it ever said is with the answer; what it did not send goes back.
                *connection = None;
                answer.await
            }
            answer = &mut answer => answer,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    __type: String,
    #[serde(alias = "Message")]
    message: String,
}

fn refused(head: &response::Parts, body: &[u8]) -> CallError {
    let body: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
    let header = head.headers.get("x-amzn-query-error");
    let query_code = header.and_then(|v| v.to_str().ok()?.split(';').next());
    let code = query_code.unwrap_or_else(|| body.__type.rsplit('#').next().unwrap_or_default());
    let code = if code.is_empty() {
        format!("(status {})", head.status.as_u16())
    } else {
        code.to_owned()
    };
    CallError::Refused {
        status: head.status.as_u16(),
        code,
        message: body.message,
    }
}

#[cfg(test)]
mod tests;
