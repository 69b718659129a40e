//! The front of one node: accepts connections, routes their requests, counts and logs the answers.

use std::borrow::Cow;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use bytes::Bytes;
use hikyaku_cluster::{Node, SystemEntropy};
use hikyaku_sqs::action::Action;
use hikyaku_sqs::error::{ErrorCode, SqsError};
use hikyaku_sqs::policy::Principal;
use hikyaku_sqs::query::Form;
use hikyaku_sqs::reply::{self, Dialect, JSON_CONTENT_TYPE, Reply};
use hikyaku_sqs::request::{Envelope, Request};
use hikyaku_sqs::sts;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use http::request::Parts;
use http_body_util::Full;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::access::{Access, Caller, Service};
use crate::actions;
use crate::authorisation::{Origin, authorise};
use crate::call::Call;
use crate::config::GatewayConfig;
use crate::connection::{self, BodyError, Ended, RequestBody, Response};
use crate::connections::{Admitted, Connections};
use crate::ids::draw_uuid;
use crate::listener::Listener;
use crate::metrics::{Metrics, MetricsSource, RefusedConnection};
use crate::policies::Policies;
use crate::rates::{Rates, TooMany};
use crate::route::Route;
use crate::tls;
use crate::unproved::Unproved;

/// How long to rest after a connection could not be accepted, so that a lack of file descriptors
/// does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a TLS handshake takes: buffers for the messages of both sides, and the state between them.
const HANDSHAKE_BYTES: usize = 8 << 10;

/// The host in queue URLs for a client that does not say which host it asked.
const NO_HOST: &str = "localhost";

/// A request being answered.
type Answering<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// The SQS front of one node.
pub struct Gateway {
    /// Comes when the node is part of a cluster.
    node: OnceLock<Arc<Node>>,
    /// What is waited for until then.
    waits: watch::Receiver<String>,
    config: GatewayConfig,
    access: Access,
    metrics: Metrics,
    sources: RwLock<Vec<MetricsSource>>,
    /// The policies of queues, as they were read.
    policies: Policies,
    /// How much each tenant asks.
    rates: Rates,
    /// How connections are encrypted; without, they are not.
    tls: Option<Arc<ServerConfig>>,
    connections: Arc<Connections>,
    /// Room for what arrives before anything is proved.
    unproved: Unproved,
    /// Room for bodies of requests under way, in permits of [`BODY_UNIT`] bytes.
    bodies: Semaphore,
}

/// Bytes that one permit for bodies stands for.
const BODY_UNIT: usize = 1 << 10;

impl Gateway {
    /// The front of this node, for those who have access.
    pub fn new(node: Arc<Node>, config: GatewayConfig, access: Access) -> Self {
        let (_, waits) = watch::channel(String::new());
        let gateway = Self::waiting(waits, config, access);
        gateway.introduce(node);
        gateway
    }

    /// A front without a node yet: it says what it waits for, and asks clients to come again.
    pub fn waiting(waits: watch::Receiver<String>, config: GatewayConfig, access: Access) -> Self {
        Self {
            connections: Arc::new(Connections::new(&config.limits)),
            unproved: Unproved::new(config.limits.unproved_bytes),
            rates: Rates::new(config.limits.tenant_requests_per_second),
            bodies: Semaphore::new(config.limits.bodies_bytes / BODY_UNIT),
            metrics: Metrics::showing(&config.shown_queues),
            node: OnceLock::new(),
            waits,
            config,
            access,
            sources: RwLock::default(),
            policies: Policies::default(),
            tls: None,
        }
    }

    /// From now on this node answers. Only the first one does.
    pub fn introduce(&self, node: Arc<Node>) {
        let first = self.node.set(node).is_ok();
        assert!(first, "a front is of one node");
    }

    /// Adds metrics of another part of the server to the page.
    pub fn add_metrics(&self, source: MetricsSource) {
        let mut sources = self.sources.write().expect("no panic under this lock");
        sources.push(source);
    }

    /// Encrypts every connection; what is not TLS is closed.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<ServerConfig>) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Open connections of clients.
    pub fn connections(&self) -> usize {
        self.connections.count()
    }

    /// Long polls that were answered early, since the server stops.
    pub fn ended_polls(&self) -> u64 {
        self.metrics.ended_polls()
    }

    /// Serves connections until `stop` becomes true; returns when requests under way are answered,
    /// or have outlasted the drain timeout.
    pub async fn serve(
        self: Arc<Self>,
        mut listener: impl Listener,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                // An error means that nobody can ask to stop any more, and is taken as being asked.
                _ = stop.wait_for(|stop| *stop) => break,
                Some(ended) = connections.join_next() => {
                    report(ended);
                    continue;
                }
            };
            let admitted =
                accepted.map(|(io, address)| (io, address, self.connections.admit(address)));
            match admitted {
                Ok((io, address, Ok(admitted))) => {
                    let gateway = Arc::clone(&self);
                    connections.spawn(gateway.serve_connection(
                        io,
                        address,
                        admitted,
                        stop.clone(),
                    ));
                }
                Ok((_, _, Err(too_many))) => {
                    self.metrics.count_refused_connection(too_many.into());
                    tracing::debug!(?too_many, "connection refused");
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    }

    /// Serves one connection until its client or a fault ends it, or `stop` becomes true and its
    /// requests under way are answered.
    async fn serve_connection<Io>(
        self: Arc<Self>,
        io: Io,
        address: IpAddr,
        _admitted: Admitted,
        stop: watch::Receiver<bool>,
    ) where
        Io: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let Some(tls) = &self.tls else {
            return self.serve_stream(io, address, stop).await;
        };
        let mut share = self.unproved.share();
        if share.count(HANDSHAKE_BYTES).is_err() {
            return self.count_crowded();
        }
        let mut stopping = stop.clone();
        let handshake = tls::accept(tls, io, self.config.limits.handshake_timeout);
        let shaken = tokio::select! {
            shaken = handshake => shaken,
            // An error means that nobody can ask to stop any more, and is taken as being asked.
            _ = stopping.wait_for(|stop| *stop) => return,
        };
        drop(share);
        match shaken {
            // Boxed, so that connections without TLS do not hold room for it.
            Ok(stream) => Box::pin(self.serve_stream(stream, address, stop)).await,
            Err(error) => {
                self.metrics.count_failed_handshake();
                tracing::debug!(%error, "no TLS handshake");
            }
        }
    }

    async fn serve_stream<Io>(&self, io: Io, source: IpAddr, stop: watch::Receiver<bool>)
    where
        Io: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handler = |parts: Parts, body: RequestBody| {
            let stop = stop.clone();
            let gateway = self;
            let origin = Origin {
                source,
                encrypted: self.tls.is_some(),
            };
            // Boxed, so that an unused connection does not hold room for the largest action.
            let answer: Answering<'_> =
                Box::pin(async move { gateway.answer(&parts, body, origin, stop).await });
            answer
        };
        let limits = &self.config.limits;
        let served = connection::serve(io, handler, limits, &self.unproved, stop.clone());
        match served.await {
            Ended::Crowded => self.count_crowded(),
            Ended::Usually => {}
        }
    }

    fn count_crowded(&self) {
        self.metrics
            .count_refused_connection(RefusedConnection::Unproved);
        tracing::debug!("connection given up: too much is unproved");
    }

    async fn answer(
        &self,
        request: &Parts,
        body: RequestBody,
        origin: Origin,
        stop: watch::Receiver<bool>,
    ) -> Response {
        match Route::of(request) {
            Route::Live => text(200, "alive\n"),
            Route::Ready => self.readiness(*stop.borrow()),
            Route::Metrics => self.page(),
            Route::Json(action) => {
                let asked = (Dialect::Json, Some(action));
                self.act(asked, request, body, origin, stop).await
            }
            Route::Query(dialect) => {
                let asked = (dialect, None);
                self.act(asked, request, body.of_form(), origin, stop).await
            }
            Route::UnknownTarget(target) => {
                let begun = Instant::now();
                let error = match self.believe(request, body).await {
                    Ok(_) => unknown_target(&target),
                    Err(error) => error,
                };
                self.finish(Dialect::Json, None, begun, Err(error))
            }
            Route::Unknown => {
                self.metrics.count(None, Some(ErrorCode::UnknownOperation));
                let request_id = self.request_id();
                response_of(Reply::unknown_operation(&request_id))
            }
        }
    }

    /// Whether to send clients here, and why not.
    fn readiness(&self, stopping: bool) -> Response {
        match self.node.get() {
            _ if stopping => text(503, "not ready: stopping\n"),
            None => text(503, format!("not ready: {}\n", *self.waits.borrow())),
            Some(node) if node.is_ready() => text(200, "ready\n"),
            Some(_) => text(503, "not ready: no leader of the metadata is known\n"),
        }
    }

    fn page(&self) -> Response {
        let Some(node) = self.node.get() else {
            return text(503, "no metrics before the node is part of a cluster\n");
        };
        let connections = self.connections.count();
        let sources = self.sources.read().expect("no panic under this lock");
        text(200, self.metrics.page(node, connections, &sources))
    }

    /// Answers a request for an action, which a form names itself.
    async fn act(
        &self,
        (dialect, mut action): (Dialect, Option<Action>),
        request: &Parts,
        body: RequestBody,
        origin: Origin,
        stop: watch::Receiver<bool>,
    ) -> Response {
        let begun = Instant::now();
        let asked = (dialect, &mut action);
        let outcome = self.run(asked, request, body, origin, stop).await;
        self.finish(dialect, action, begun, outcome)
    }

    /// Finds out who makes a request; reads the body of one whose head is in order, if there is room
    /// for it.
    async fn believe(&self, request: &Parts, body: RequestBody) -> Result<Believed<'_>, SqsError> {
        let node = self.node.get().map(|node| &**node);
        let admitted = self.access.admit(request, node)?;
        let units = u32::try_from(body.most_bytes() / BODY_UNIT + 1).unwrap_or(u32::MAX);
        let room = self.bodies.try_acquire_many(units);
        let room = room.map_err(|_| SqsError::throttled())?;
        let phase = body.phase();
        let body = body.read().await.map_err(unread)?;
        let caller = admitted.prove(&body)?;
        phase.proved();
        // Only now, so that nobody uses up what is another's.
        let counted = self.rates.count(caller.tenant_id(), Instant::now());
        counted.map_err(|TooMany| SqsError::throttled())?;
        Ok(Believed {
            caller,
            body,
            _room: room,
        })
    }

    async fn run(
        &self,
        (dialect, action): (Dialect, &mut Option<Action>),
        request: &Parts,
        body: RequestBody,
        origin: Origin,
        stop: watch::Receiver<bool>,
    ) -> Result<Done, SqsError> {
        let Believed {
            caller,
            body,
            _room,
        } = self.believe(request, body).await?;
        let node = self.node.get().ok_or_else(SqsError::service_unavailable)?;
        let envelope = Envelope {
            path: request.uri.path(),
            trace_header: text_header(&request.headers, "x-amzn-trace-id"),
        };
        let form;
        let (tenant, action, parsed) = match *action {
            Some(action) => {
                let tenant = caller.tenant_at(Service::Sqs)?;
                let parsed = Request::from_json(action, &body, envelope)?;
                (tenant, action, parsed)
            }
            None => {
                form = Form::parse(request.uri.query().unwrap_or_default(), &body)?;
                if form.names_action(sts::GET_CALLER_IDENTITY) {
                    let tenant = caller.tenant_at(Service::Sts)?;
                    return Ok(Done::Caller(tenant.principal.clone()));
                }
                let tenant = caller.tenant_at(Service::Sqs)?;
                let named = form.action(envelope.path)?;
                *action = Some(named);
                (tenant, named, Request::from_query(named, &form, envelope)?)
            }
        };
        let mut call = Call {
            node,
            action,
            dialect,
            tenant,
            granted: None,
            origin,
            user_agent: text_header(&request.headers, USER_AGENT.as_str()),
            policies: &self.policies,
            limits: &self.config.limits,
            base_url: &self.base_url(request),
            region: &self.config.region,
            metrics: &self.metrics,
            stop,
        };
        call.granted = authorise(&parsed, &call).await?;
        actions::run(parsed, &call).await.map(Done::Action)
    }

    /// Counts and logs an outcome and makes it an answer.
    fn finish(
        &self,
        dialect: Dialect,
        action: Option<Action>,
        begun: Instant,
        outcome: Result<Done, SqsError>,
    ) -> Response {
        let request_id = self.request_id();
        let refusal = outcome.as_ref().err().map(|error| error.code);
        let took = begun.elapsed();
        self.metrics.count(action, refusal);
        if let Some(action) = action {
            self.metrics.time(action, took);
        }
        tracing::debug!(
            action = action.map_or("unknown", Action::name),
            code = refusal.map_or("OK", |code| code.shape().name),
            request_id,
            ms = took.as_millis(),
            "request"
        );
        match outcome {
            Ok(Done::Caller(caller)) => response_of(sts::caller_identity(&request_id, &caller)),
            Ok(Done::Action(answer)) if dialect == Dialect::Json => success(&request_id, answer),
            Ok(Done::Action(answer)) => {
                let action = action.expect("an action that succeeded is known");
                response_of(Reply::success(dialect, &request_id, action, answer))
            }
            Err(error) => response_of(Reply::error(dialect, &request_id, &error)),
        }
    }

    fn request_id(&self) -> String {
        let entropy = self.node.get().map(|node| node.entropy());
        reply::request_id(draw_uuid(entropy.unwrap_or(&SystemEntropy)))
    }

    fn base_url(&self, request: &Parts) -> Cow<'_, str> {
        if let Some(url) = &self.config.public_url {
            return Cow::Borrowed(url);
        }
        let host = text_header(&request.headers, HOST.as_str());
        let host = host.or_else(|| request.uri.authority().map(|authority| authority.as_str()));
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Cow::Owned(format!("{scheme}://{}", host.unwrap_or(NO_HOST)))
    }
}

/// A request whose sender is known, with its body and the room that the body takes.
struct Believed<'a> {
    caller: Caller,
    body: Bytes,
    _room: SemaphorePermit<'a>,
}

/// What a request came to that was not refused.
enum Done {
    /// What an action answers.
    Action(Vec<u8>),
    /// Whose request it was, which was the question.
    Caller(Principal),
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task died");
    }
}

fn unknown_target(target: &str) -> SqsError {
    let message = format!("The target {target} is none of this service.");
    SqsError::new(ErrorCode::UnknownOperation, message)
}

fn unread(error: BodyError) -> SqsError {
    match error {
        BodyError::TooLong { limit_bytes } => {
            let message = format!("The request is longer than {limit_bytes} bytes.");
            SqsError::new(ErrorCode::RequestTooLarge, message)
        }
        BodyError::Crowded => SqsError::throttled(),
        // Nobody reads this answer.
        BodyError::Broken => SqsError::new(ErrorCode::Serialization, "the request ended early"),
    }
}

fn text_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn success(request_id: &str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    let headers = response.headers_mut();
    headers.insert("x-amzn-requestid", header_value(request_id));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_CONTENT_TYPE));
    response
}

fn response_of(reply: Reply) -> Response {
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() =
        http::StatusCode::from_u16(reply.status).expect("statuses are those of a table");
    for (name, value) in reply.headers {
        let name = http::HeaderName::from_bytes(name.as_bytes());
        let name = name.expect("header names are constants");
        response.headers_mut().insert(name, header_value(&value));
    }
    response
}

fn text(status: u16, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = http::StatusCode::from_u16(status).expect("statuses are constants");
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("ids and codes are visible ASCII")
}
