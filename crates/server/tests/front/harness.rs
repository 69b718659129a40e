//! A node with a certificate, and clients that trust it.

use bytes::Bytes;
use hikyaku_server::Loaded;
use hikyaku_server::run::{RunError, run};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rcgen::generate_simple_self_signed;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;

const NAME: &str = "localhost";

/// Starts on a busy machine take a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// A certificate and its key.
pub struct Pair {
    pub der: CertificateDer<'static>,
    cert: String,
    pub key: String,
    pub key_der: Vec<u8>,
}

impl Pair {
    pub fn new() -> Self {
        let made = generate_simple_self_signed([NAME.to_owned()]).unwrap();
        Self {
            der: made.cert.der().clone(),
            cert: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
            key_der: made.signing_key.serialize_der(),
        }
    }
}

/// A node, its files and the way to stop it.
pub struct Node {
    pub address: SocketAddr,
    directory: TempDir,
    stop: oneshot::Sender<()>,
    /// A thread with a runtime of its own, as the process has.
    running: JoinHandle<Result<(), RunError>>,
}

impl Node {
    /// Starts a node that shows a pair, with more of its configuration.
    pub async fn start(pair: &Pair, more: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = TlsFiles::in_directory(&directory);
        files.write(pair);
        let address = free_address().await;
        let data = directory.path().join("data").display().to_string();
        let [cert, key] = [&files.cert, &files.key].map(|path| path.display().to_string());
        let listen = address.to_string();
        let usual = [
            ("listen", &*listen),
            ("data_dir", &data),
            ("cluster.partitions", "1"),
            ("tls.cert_file", &cert),
            ("tls.key_file", &key),
            ("tls.reload_ms", "100"),
        ];
        let flags = usual.iter().chain(more);
        let flags = flags.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let config = Loaded::load(None, None, [], flags).unwrap().config;
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            stopped.await.ok();
        };
        Self {
            address,
            directory,
            stop,
            running: thread::spawn(move || Runtime::new().unwrap().block_on(run(config, shutdown))),
        }
    }

    pub fn files(&self) -> TlsFiles {
        TlsFiles::in_directory(&self.directory)
    }

    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A connection to the node once it is ready.
    pub async fn client(&self, trusted: &[&Pair]) -> Client {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "the node is not ready");
            if let Ok(mut client) = Client::connect(self.address, trusted).await
                && client.get("/readyz").await.0 == 200
            {
                return client;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops the node in order; what it kept stays until the directory is dropped.
    pub async fn stop(self) -> TempDir {
        self.stop.send(()).unwrap();
        let running = tokio::task::spawn_blocking(|| self.running.join());
        running.await.unwrap().unwrap().unwrap();
        self.directory
    }
}

/// Where a node looks for its pair.
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl TlsFiles {
    fn in_directory(directory: &TempDir) -> Self {
        Self {
            cert: directory.path().join("tls.crt"),
            key: directory.path().join("tls.key"),
        }
    }

    pub fn write(&self, pair: &Pair) {
        fs::write(&self.key, &pair.key).unwrap();
        fs::write(&self.cert, &pair.cert).unwrap();
    }
}

/// An encrypted connection to a node.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    /// The certificate that it was greeted with.
    pub shown: CertificateDer<'static>,
}

impl Client {
    /// Connects; fails if the node shows nothing that is trusted.
    pub async fn connect(address: SocketAddr, trusted: &[&Pair]) -> std::io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for pair in trusted {
            roots.add(pair.der.clone()).unwrap();
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let tls = tls.with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(NAME).unwrap();
        let stream = TcpStream::connect(address).await?;
        let stream = TlsConnector::from(Arc::new(tls))
            .connect(name, stream)
            .await?;
        let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Ok(Self {
            sender,
            shown: shown.into_owned(),
        })
    }

    /// Asks; status and body of the answer.
    pub async fn ask(&mut self, request: http::Request<String>) -> (u16, String) {
        self.sender.ready().await.unwrap();
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let (head, body) = self
            .sender
            .send_request(request)
            .await
            .unwrap()
            .into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (
            head.status.as_u16(),
            String::from_utf8(body.into()).unwrap(),
        )
    }

    pub async fn get(&mut self, path: &str) -> (u16, String) {
        let request = http::Request::get(path).header("Host", NAME);
        self.ask(request.body(String::new()).unwrap()).await
    }
}

/// A port that was free a moment ago.
async fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    listener.local_addr().unwrap()
}
