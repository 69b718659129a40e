//! The built `hikyaku` as a process of its own: started, killed, started again on the same data.
//!
//! The binary is the one beside the running test (`target/debug/hikyaku`), brought up to date once
//! by cargo, or the one `HIKYAKU_BIN` names. Each start takes a free port of loopback; ask for the
//! address after it. Whatever happens to a test, its server ends with it.

mod nodes;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs, io};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::client::Connection;

/// A start replays the log: a debug build with a long one on a busy machine needs a while.
const START_DEADLINE: Duration = Duration::from_secs(60);

/// An orderly end hands over what it has and syncs.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// Between two looks at a process that starts or stops.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Another process may take a free port before our server binds it.
const START_ATTEMPTS: u32 = 3;

/// How much of a server's log a failure shows.
const SHOWN_LOG_LINES: usize = 40;

/// How long a client waits for one answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server process and its data directory.
#[derive(Debug)]
pub struct Server {
    folder: TempDir,
    data_dir: PathBuf,
    arguments: Vec<String>,
    running: Option<Running>,
    starts: u32,
}

#[derive(Debug)]
struct Running {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server on empty data and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be built, ends early or is not ready in time.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(&[]).await
    }

    /// As [`Server::start`], with more arguments.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_with(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut server = Self::alone(arguments)?;
        server.restart().await?;
        Ok(server)
    }

    /// A server of its own with these arguments, for the starts to come.
    ///
    /// # Errors
    /// When there is no room for its data.
    pub fn alone(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut server = Self::new(vec!["dev".to_owned()])?;
        server.argue(arguments);
        Ok(server)
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// When it does not in time.
    pub async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        let mut running = self.running.take().context("the server does not run")?;
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            if let Some(status) = running.child.try_wait()? {
                return Ok(status);
            }
            let tail = self.log_tail();
            ensure!(Instant::now() < deadline, "does not end\n{tail}");
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Adds arguments for the starts to come.
    pub fn argue(&mut self, arguments: &[&str]) {
        self.arguments
            .extend(arguments.iter().map(|it| (*it).to_owned()));
    }

    fn new(arguments: Vec<String>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        Ok(Self {
            data_dir: folder.path().join("data"),
            folder,
            arguments,
            running: None,
            starts: 0,
        })
    }

    /// Where it listens.
    ///
    /// # Panics
    /// When it does not run.
    pub fn address(&self) -> SocketAddr {
        self.running.as_ref().expect("the server runs").address
    }

    /// Where it listens for operators.
    ///
    /// # Panics
    /// When it does not run.
    pub fn admin(&self) -> SocketAddr {
        self.running.as_ref().expect("the server runs").admin
    }

    /// The process's id.
    ///
    /// # Panics
    /// When it does not run.
    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("the server runs").child.id()
    }

    /// The data directory. Touch it only while the server is down.
    pub fn data_dir(&self) -> PathBuf {
        self.data_dir.clone()
    }

    /// Everything it wrote: its data, unless that is elsewhere, and its logs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Has its data elsewhere, from its first start on.
    pub fn place(&mut self, data_dir: PathBuf) {
        self.data_dir = data_dir;
    }

    /// Ends it as a power switch would end a program: `kill -9`.
    ///
    /// # Errors
    /// When it does not run any more.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        let mut running = self.running.take().context("the server does not run")?;
        if let Some(status) = running.child.try_wait()? {
            bail!(
                "the server had ended by itself: {status}\n{}",
                self.log_tail()
            );
        }
        running.child.kill()?;
        running.child.wait()?;
        Ok(())
    }

    /// Stops it where it is, as a hypervisor would, or lets it go on.
    ///
    /// # Errors
    /// When it does not run any more.
    pub fn pause(&self, paused: bool) -> anyhow::Result<()> {
        let running = self.running.as_ref().context("the server does not run")?;
        let signal = if paused { Signal::STOP } else { Signal::CONT };
        Ok(kill_process(Pid::from_child(&running.child), signal)?)
    }

    /// What its page of figures says of one, by the partition it is of.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn by_partition(&self, name: &str) -> anyhow::Result<BTreeMap<u32, u64>> {
        let (_, page) = self.connect().await?.get("/metrics").await?;
        let start = format!("{name}{{partition=\"");
        let rows = page.lines().filter_map(|row| row.strip_prefix(&start));
        let figures = rows.map(|row| {
            let (partition, value) = row.split_once("\"} ").context("a partition's figure")?;
            Ok((partition.parse()?, value.parse()?))
        });
        figures.collect()
    }

    /// Asks it to end in order and waits for that.
    ///
    /// # Errors
    /// When it does not end in time.
    pub async fn terminate(&mut self) -> anyhow::Result<ExitStatus> {
        let mut running = self.running.take().context("the server does not run")?;
        kill_process(Pid::from_child(&running.child), Signal::TERM)?;
        let deadline = Instant::now() + STOP_DEADLINE;
        loop {
            if let Some(status) = running.child.try_wait()? {
                return Ok(status);
            }
            ensure!(
                Instant::now() < deadline,
                "did not end on SIGTERM\n{}",
                self.log_tail()
            );
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Starts it on the data it has and waits until it is ready.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        ensure!(self.running.is_none(), "the server runs already");
        let mut attempt = 1;
        loop {
            match self.try_start().await {
                Ok(running) => {
                    self.running = Some(running);
                    return Ok(());
                }
                Err(_) if attempt < START_ATTEMPTS && self.log_tail().contains("in use") => {
                    attempt += 1;
                }
                Err(error) => return Err(error.context(self.log_tail())),
            }
        }
    }

    async fn try_start(&mut self) -> anyhow::Result<Running> {
        let mut running = self.spawn()?;
        let deadline = Instant::now() + START_DEADLINE;
        while !is_ready(running.address).await {
            if let Some(status) = running.child.try_wait()? {
                bail!("the server ended while it started: {status}");
            }
            ensure!(
                Instant::now() < deadline,
                "not ready within {START_DEADLINE:?}"
            );
            sleep(LOOK_INTERVAL).await;
        }
        Ok(running)
    }

    /// Starts it on the data it has and waits for nothing.
    ///
    /// # Errors
    /// When it cannot be built or run.
    pub fn launch(&mut self) -> anyhow::Result<()> {
        ensure!(self.running.is_none(), "the server runs already");
        self.running = Some(self.spawn()?);
        Ok(())
    }

    /// Waits until it is ready, after [`Server::launch`].
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        while !self.is_ready().await {
            ensure!(Instant::now() < deadline, "not ready\n{}", self.log_tail());
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Whether it says that it is ready.
    pub async fn is_ready(&self) -> bool {
        is_ready(self.address()).await
    }

    /// Waits until the log of its last start has this in it.
    ///
    /// # Errors
    /// When it has not in time.
    pub async fn logged(&self, text: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        while !self.log_tail().contains(text) {
            let tail = self.log_tail();
            ensure!(Instant::now() < deadline, "no {text:?} in the log\n{tail}");
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    fn spawn(&mut self) -> anyhow::Result<Running> {
        self.starts += 1;
        let [address, admin] = free_addresses()?;
        let log = File::create(self.log_path())?;
        let child = Command::new(binary()?)
            .args(&self.arguments)
            .args(["--listen", &address.to_string()])
            .args(["--admin-listen", &admin.to_string(), "--data-dir"])
            .arg(self.data_dir())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Running {
            child,
            address,
            admin,
        })
    }

    /// Opens a connection to it.
    ///
    /// # Errors
    /// When it does not listen.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        connect(self.address()).await
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join(format!("log.{}", self.starts))
    }

    /// The last lines of the last start's log.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LOG_LINES)..].join("\n")
    }
}

/// Opens a connection to a server.
///
/// # Errors
/// When nothing listens there.
pub async fn connect(address: SocketAddr) -> anyhow::Result<Connection> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Connection::open(stream, &address.to_string(), PATIENCE).await?)
}

async fn is_ready(address: SocketAddr) -> bool {
    let Ok(mut connection) = connect(address).await else {
        return false;
    };
    connection
        .get("/readyz")
        .await
        .is_ok_and(|(status, _)| status == 200)
}

/// Two, held together so that they differ.
fn free_addresses() -> io::Result<[SocketAddr; 2]> {
    let hold = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let held = [hold()?, hold()?];
    Ok([held[0].local_addr()?, held[1].local_addr()?])
}

/// The server's binary, built once per test process.
///
/// # Errors
/// When cargo fails.
pub fn binary() -> anyhow::Result<&'static Path> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BINARY.get_or_init(|| find_binary().map_err(|error| format!("{error:#}")));
    found.as_deref().map_err(|error| anyhow::anyhow!("{error}"))
}

fn find_binary() -> anyhow::Result<PathBuf> {
    if let Some(named) = env::var_os("HIKYAKU_BIN") {
        return Ok(named.into());
    }
    // Tests are in `<target>/<profile>/deps`, tools in `<target>/<profile>`.
    let program = env::current_exe()?;
    let beside = program.parent().context("a program is in a folder")?;
    let profile = if beside.ends_with("deps") {
        beside.parent()
    } else {
        Some(beside)
    };
    let profile = profile.context("deps is in a folder")?;
    let target = profile
        .parent()
        .context("a profile's folder is in the target folder")?;

    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "--quiet",
        "--offline",
        "--package",
        "hikyaku",
        "--bin",
        "hikyaku",
    ]);
    cargo.arg("--target-dir").arg(target);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the root is above")?;
    let status = cargo
        .current_dir(root)
        .status()
        .context("cargo cannot be run")?;
    ensure!(status.success(), "cargo could not build hikyaku: {status}");
    Ok(profile.join("hikyaku"))
}
