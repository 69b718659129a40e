//! A node with its front, and clients that speak HTTP over a pipe.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hikyaku_cluster::{
    Clock, HostLimits, MemoryCopy, Node, NodeParts, NodeSettings, SystemClock, SystemEntropy,
    ToldClock,
};
use hikyaku_gateway::{Access, Gateway, GatewayConfig, Listener, MetricsSource};
use hikyaku_metadata::PlacementLimits;
use hikyaku_raft::{BoxedStream, Identity, Net, Peers, RaftConfig, RaftNode};
use hikyaku_storage::{Log, LogConfig, SimDisk, Work};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

const PIPE_BYTES: usize = 64 << 10;

/// The network of a node that is alone.
struct NoNetwork;

impl Net for NoNetwork {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<BoxedStream>> {
        let error = io::Error::new(io::ErrorKind::HostUnreachable, address);
        Box::pin(std::future::ready(Err(error)))
    }

    fn listen(
        &self,
        address: String,
    ) -> BoxFuture<'static, io::Result<BoxStream<'static, io::Result<BoxedStream>>>> {
        let error = io::Error::new(io::ErrorKind::AddrNotAvailable, address);
        Box::pin(std::future::ready(Err(error)))
    }
}

/// What a test may want otherwise.
pub struct Setup {
    pub log: LogConfig,
    pub memory_bytes: usize,
    pub cooldown_ms: Option<u64>,
    pub config: GatewayConfig,
    pub access: Access,
    pub tls: Option<Arc<ServerConfig>>,
    pub metrics: Option<MetricsSource>,
    pub clock: Arc<dyn Clock>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            log: LogConfig::small(),
            memory_bytes: 1 << 30,
            cooldown_ms: None,
            config: GatewayConfig::default(),
            access: Access::anyone(),
            tls: None,
            metrics: None,
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// A node with its front.
pub struct Front {
    pub node: Arc<Node>,
    pub stop: watch::Sender<bool>,
    pub serving: JoinHandle<()>,
    connect: mpsc::UnboundedSender<(DuplexStream, IpAddr)>,
}

/// Connections that a test makes.
struct Made(mpsc::UnboundedReceiver<(DuplexStream, IpAddr)>);

impl Listener for Made {
    type Io = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, IpAddr)> {
        match self.0.recv().await {
            Some(connection) => Ok(connection),
            None => std::future::pending().await,
        }
    }
}

impl Front {
    pub async fn start() -> Self {
        Self::start_as(Setup::default()).await
    }

    pub async fn start_with(config: GatewayConfig) -> Self {
        let setup = Setup {
            config,
            ..Setup::default()
        };
        Self::start_as(setup).await
    }

    pub async fn start_as(setup: Setup) -> Self {
        let disk = Arc::new(SimDisk::new(1));
        let log = Log::open(disk, setup.log, Work::Task).unwrap();
        let peers = Peers::new(Arc::new(NoNetwork), Identity::new(7), []);
        let told = Arc::new(ToldClock(Arc::clone(&setup.clock)));
        let raft = RaftNode::new(RaftConfig::default(), log, peers, told, Work::Task).unwrap();
        let settings = NodeSettings {
            node: 7,
            cluster_id: 9,
            founders: vec![(7, String::new())],
            founds_groups: true,
            announces: None,
            replication: 3,
            placement: PlacementLimits::default(),
            partitions: 2,
            limits: HostLimits::default(),
            memory_bytes: setup.memory_bytes,
            request_budget: Duration::from_secs(20),
            grow_spreads: true,
            cooldown_ms: setup.cooldown_ms,
        };
        let parts = NodeParts {
            peers: raft.peers().clone(),
            replicas: Some(Arc::new(raft)),
            clock: setup.clock,
            entropy: Arc::new(SystemEntropy),
            catalogue: Arc::new(MemoryCopy::default()),
        };
        let node = Node::start(settings, parts).await.unwrap();
        while !node.is_ready() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let shown = Arc::clone(&node);
        let mut gateway = Gateway::new(Arc::clone(&node), setup.config, setup.access);
        if let Some(tls) = setup.tls {
            gateway = gateway.with_tls(tls);
        }
        if let Some(metrics) = setup.metrics {
            gateway.add_metrics(metrics);
        }
        let stop = watch::Sender::new(false);
        let (connect, made) = mpsc::unbounded_channel();
        let serving = Arc::new(gateway).serve(Made(made), stop.subscribe());
        Self {
            node: shown,
            serving: tokio::spawn(serving),
            stop,
            connect,
        }
    }

    /// A raw connection to the front.
    pub fn connect(&self) -> DuplexStream {
        self.connect_from([127, 0, 0, 1])
    }

    /// A raw connection from an address.
    pub fn connect_from(&self, address: impl Into<IpAddr>) -> DuplexStream {
        let (client, server) = tokio::io::duplex(PIPE_BYTES);
        // After the stop nobody listens, and what was made is closed.
        self.connect.send((server, address.into())).ok();
        client
    }

    /// Whether new connections are accepted.
    pub fn accepts(&self) -> bool {
        !self.connect.is_closed()
    }

    pub async fn client(&self) -> Client {
        Client::over(self.connect()).await
    }

    /// A client and the URL of a new standard queue `orders`.
    pub async fn client_with_queue(&self) -> (Client, String) {
        let mut client = self.client().await;
        let url = client.create("orders", json!({})).await;
        (client, url)
    }
}

/// A connection of a client.
pub struct Client(SendRequest<Full<Bytes>>);

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: String,
}

impl Client {
    pub async fn over(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, connection) = handshake(TokioIo::new(io)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    pub async fn send(
        &mut self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Answer {
        self.0.ready().await.unwrap();
        let request = request.body(Full::new(body.into())).unwrap();
        let (parts, body) = self.0.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(body.into()).unwrap(),
        }
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send(http::Request::get(path), "").await
    }

    /// Asks for an action.
    pub async fn ask(&mut self, action: &str, members: Value) -> Answer {
        let request = http::Request::post("/")
            .header("Host", "queues.example:9324")
            .header("Content-Type", "application/x-amz-json-1.0")
            .header("X-Amz-Target", format!("AmazonSQS.{action}"));
        self.send(request, members.to_string()).await
    }

    /// Asks for an action that succeeds; its output, or null.
    pub async fn act(&mut self, action: &str, members: Value) -> Value {
        let answer = self.ask(action, members).await;
        assert_eq!(answer.status, 200, "{action}: {answer:?}");
        if answer.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Asks for an action that fails: status, query code, message.
    pub async fn refused(&mut self, action: &str, members: Value) -> (u16, String, String) {
        let answer = self.ask(action, members).await;
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        let code = answer.headers["x-amzn-query-error"].to_str().unwrap();
        let code = code.split(';').next().unwrap().to_owned();
        (
            answer.status,
            code,
            body["message"].as_str().unwrap().to_owned(),
        )
    }

    pub async fn create(&mut self, name: &str, attributes: Value) -> String {
        let members = json!({ "QueueName": name, "Attributes": attributes });
        let output = self.act("CreateQueue", members).await;
        output["QueueUrl"].as_str().unwrap().to_owned()
    }

    /// Receives up to ten messages without waiting.
    pub async fn receive(&mut self, url: &str) -> Vec<Value> {
        let members = json!({
            "QueueUrl": url,
            "MaxNumberOfMessages": 10,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        });
        let mut output = self.act("ReceiveMessage", members).await;
        match output["Messages"].take() {
            Value::Array(messages) => messages,
            none => {
                assert!(none.is_null());
                Vec::new()
            }
        }
    }
}

/// The bodies of messages.
pub fn bodies(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message["Body"].as_str().unwrap())
        .collect()
}
