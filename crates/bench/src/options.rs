//! The flags, as they are given: [`crate::plan`] says which of them make sense.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use zeroize::Zeroizing;

/// What `hikyaku bench` is told.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the service is: http://HOST:PORT or https://HOST.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9324")]
    pub(crate) endpoint: String,
    /// Trust the certificates of this PEM file instead of the system's.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The region that requests are signed for.
    #[arg(long, env = "AWS_REGION", default_value = "us-east-1")]
    pub(crate) region: String,
    /// The access key; without one, requests are signed with a key named `any`.
    #[arg(long, value_name = "ID", env = "AWS_ACCESS_KEY_ID")]
    pub(crate) access_key_id: Option<String>,
    /// Its secret. Other users of the machine can see flags: prefer the environment.
    #[arg(
        long,
        value_name = "SECRET",
        env = "AWS_SECRET_ACCESS_KEY",
        hide_env_values = true
    )]
    pub(crate) secret_access_key: Option<Secret>,
    /// The token of temporary credentials.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "AWS_SESSION_TOKEN",
        hide_env_values = true
    )]
    pub(crate) session_token: Option<Secret>,

    /// What is measured.
    #[arg(long, value_enum, default_value_t = Phase::Lives)]
    pub(crate) phase: Phase,
    /// Queues to create and use.
    #[arg(long, default_value_t = 1)]
    pub(crate) queues: u32,
    /// Use FIFO queues.
    #[arg(long)]
    pub(crate) fifo: bool,
    /// Message groups of each FIFO queue [default: 100].
    #[arg(long)]
    pub(crate) groups: Option<u32>,
    /// Create FIFO queues with deduplication and throughput per message group.
    #[arg(long)]
    pub(crate) high_throughput: bool,
    /// Messages a call, 1 to 10; 1 uses the actions without a batch.
    #[arg(long, default_value_t = 10)]
    pub(crate) batch: u32,
    /// Bytes of each message's body.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) body_bytes: u32,
    /// Connections that send.
    #[arg(long, default_value_t = 8)]
    pub(crate) producers: u32,
    /// Connections that receive and delete.
    #[arg(long, default_value_t = 16)]
    pub(crate) consumers: u32,
    /// How long is measured.
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u64,
    /// How long the load runs before that, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub(crate) warm_up: u64,
    /// Send so many messages a second, at instants fixed beforehand, instead of as many as go.
    #[arg(long, value_name = "MESSAGES")]
    pub(crate) rate: Option<f64>,
    /// Send so many messages before the measured phase, all queues together.
    #[arg(long, value_name = "MESSAGES", default_value_t = 0)]
    pub(crate) preload: u64,
    /// Keep the preloaded backlog as deep as it is: send as many as are deleted.
    #[arg(long)]
    pub(crate) keep_depth: bool,
    /// The queues' visibility timeout, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) visibility_timeout: u64,
    /// How long an answer may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(crate) timeout: u64,
    /// Do not delete the queues at the end.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// Sends alone; what was sent is received afterwards, for the check.
    Sends,
    /// Receives and deletes of a preloaded backlog, until the time or the backlog is over.
    Receives,
    /// Sends, receives and deletes at the same time.
    Lives,
}

impl Phase {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Sends => "sends",
            Self::Receives => "receives",
            Self::Lives => "lives",
        }
    }

    pub(crate) fn produces(self) -> bool {
        self != Self::Receives
    }

    pub(crate) fn consumes(self) -> bool {
        self != Self::Sends
    }
}

/// A text that is shown to nobody and wiped when dropped.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) Zeroizing<String>);

impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(Zeroizing::new(text.to_owned())))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
