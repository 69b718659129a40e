//! What a node is told: one value per key, each with a unit, a default and a known origin.
//!
//! Sections belong to the crates they configure. Keys, their texts and where they may come from
//! are in `keys`; reading and layering them is in `load`; here are the types, the defaults and the
//! rules between values.

mod admin;
mod auth;
mod cluster;
mod keys;
mod load;
mod metrics;
mod users;
mod value;

pub use admin::AdminConfig;
pub(crate) use auth::check_secret;
pub use auth::{AuthConfig, ConfiguredKey, SECRET_MIN_BYTES, Secret};
pub use cluster::{ClusterConfig, PeerTlsConfig, Roles};
pub use keys::{KEYS, Key};
pub use load::{ConfigError, Loaded, Origin, Preset};
pub use metrics::MetricsConfig;
pub use users::ConfiguredUser;
pub use value::{LogFilter, LogFormat, PeerAddress};

use crate::tls::PairFiles;
use hikyaku_raft::RaftConfig;
use hikyaku_sqs::arn::is_region;
use hikyaku_storage::LogConfig;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The configuration of one node, whole.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Scheme, host and port that queue URLs begin with; without it they begin with the host that
    /// the client asked for.
    pub public_url: Option<String>,
    /// The region in the ARNs of queues.
    pub region: String,
    /// Where everything the node keeps is.
    pub data_dir: PathBuf,
    /// What the node does.
    pub roles: Roles,
    /// This node's place in the cluster.
    pub cluster: ClusterConfig,
    /// Who may ask for anything.
    pub auth: AuthConfig,
    /// Where an operator comes in.
    pub admin: AdminConfig,
    /// Whether clients speak TLS.
    pub tls: TlsConfig,
    /// What a client may take of this node.
    pub limits: Limits,
    /// Timing of the Raft groups.
    pub raft: RaftConfig,
    /// The shared log.
    pub storage: LogConfig,
    /// What is logged, and how.
    pub log: LogOutput,
    /// What is counted by itself.
    pub metrics: MetricsConfig,
}

/// Whether clients speak TLS: with a certificate and its key they all do, without them none does.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// The certificate and those that vouch for it, in PEM.
    pub cert_file: Option<PathBuf>,
    /// The certificate's private key, in PEM.
    pub key_file: Option<PathBuf>,
    /// How often the files are looked at, in ms; a new pair is shown to new connections.
    pub reload_ms: u64,
    /// How long a client may take to shake hands, in ms.
    pub handshake_timeout_ms: u64,
}

/// What a client may take of this node.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Memory for the state of queues, in bytes; sends are refused before it is used up.
    pub memory_bytes: usize,
    /// Client connections at one time.
    pub connections: usize,
    /// Client connections at one time from one address, or one /64 network of IPv6.
    pub connections_per_address: usize,
    /// The body of one request, in bytes. SQS messages have 1 MiB; what is around them needs more.
    pub request_bytes: usize,
    /// The bodies of all requests under way, in bytes; what exceeds it is throttled.
    pub bodies_bytes: usize,
    /// Requests that nobody has proved yet, in bytes; what exceeds it is given up.
    pub unproved_bytes: usize,
    /// Requests of one tenant in a second; more are throttled. None: no such limit.
    pub tenant_requests_per_second: Option<u32>,
    /// Queues of one tenant; one more is refused. None: no such limit.
    pub tenant_queues: Option<u32>,
    /// The headers of one request, in bytes.
    pub header_bytes: usize,
    /// The headers of one request.
    pub header_fields: usize,
    /// How long a client may take to send the head of a request, in ms.
    pub header_timeout_ms: u64,
    /// How long a client may send nothing in the middle of a body, in ms.
    pub body_stall_timeout_ms: u64,
    /// How long a client may take to send a request, in ms.
    pub read_timeout_ms: u64,
    /// How long a request may be retried inside before the client hears of it, in ms.
    pub request_budget_ms: u64,
    /// How long an orderly stop may take for requests under way and leaderships, in ms; what is left
    /// then is cut off.
    pub stop_timeout_ms: u64,
}

/// What is logged, and how.
#[derive(Clone, Debug)]
pub struct LogOutput {
    /// Lines for machines or for people.
    pub format: LogFormat,
    /// The least severe level that is logged, for all and by module.
    pub level: LogFilter,
}

/// The largest message, which a request must have room for.
const MESSAGE_BYTES: usize = 1 << 20;

/// A retry's answer is kept for as long as the request may be retried, and no longer than this.
const REQUEST_BUDGET_MAX_MS: u64 = 60_000;

/// Looking at two small files more often would cost more than it tells.
const RELOAD_MIN_MS: u64 = 100;

/// A certificate that is renewed shortly before its end has to be shown before it.
const RELOAD_MAX_MS: u64 = 3_600_000;

/// A client that shakes hands takes memory and no part in any limit but that of connections.
const HANDSHAKE_TIMEOUT_MAX_MS: u64 = 60_000;

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9324)),
            public_url: None,
            region: "us-east-1".to_owned(),
            data_dir: PathBuf::from("/var/lib/hikyaku"),
            roles: Roles { storage: true },
            cluster: ClusterConfig::default(),
            auth: AuthConfig::default(),
            admin: AdminConfig::default(),
            tls: TlsConfig::default(),
            limits: Limits::default(),
            raft: RaftConfig::default(),
            storage: LogConfig::default(),
            log: LogOutput::default(),
            metrics: MetricsConfig::default(),
        }
    }
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            cert_file: None,
            key_file: None,
            reload_ms: 10_000,
            handshake_timeout_ms: 10_000,
        }
    }
}

impl TlsConfig {
    /// The two files, if there are.
    #[must_use]
    pub fn files(&self) -> Option<PairFiles> {
        Some(PairFiles {
            cert: self.cert_file.clone()?,
            key: self.key_file.clone()?,
        })
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            connections: 20_000,
            connections_per_address: 10_000,
            request_bytes: MESSAGE_BYTES + (256 << 10),
            bodies_bytes: 256 << 20,
            unproved_bytes: 64 << 20,
            tenant_requests_per_second: None,
            tenant_queues: None,
            header_bytes: 16 << 10,
            header_fields: 100,
            header_timeout_ms: 10_000,
            body_stall_timeout_ms: 10_000,
            read_timeout_ms: 30_000,
            request_budget_ms: 20_000,
            // Kubernetes grants 30 s before it kills.
            stop_timeout_ms: 25_000,
        }
    }
}

impl Default for LogOutput {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: LogFilter::INFO,
        }
    }
}

/// A rule between values that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disagreement {
    /// The key whose value breaks the rule.
    pub key: &'static str,
    /// The rule, to be read between the two values.
    pub rule: &'static str,
    /// What it is broken with: another key, or a fixed limit.
    pub with: Counterpart,
}

/// What a value was compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counterpart {
    /// The value of another key.
    Key(&'static str),
    /// A fixed limit.
    Limit(u64),
    /// Nothing more to say.
    Nothing,
}

impl Config {
    /// How clients reach the port: `https` with a certificate, `http` without.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        match self.tls.files() {
            Some(_) => "https",
            None => "http",
        }
    }

    /// Checks the rules between values and finds the first that does not hold.
    pub(crate) fn check(&self) -> Result<(), Disagreement> {
        let rule =
            "must be letters, digits, hyphens and underscores, as ARNs and signatures have it";
        holds(
            is_region(&self.region),
            "region",
            rule,
            Counterpart::Nothing,
        )?;
        self.check_cluster()?;
        self.check_auth()?;
        self.check_tls()?;
        self.check_admin()?;
        self.check_limits()?;
        self.check_raft()?;
        self.check_storage()
    }

    fn check_auth(&self) -> Result<(), Disagreement> {
        use Counterpart::{Key, Nothing};
        let auth = &self.auth;
        let keys = "auth.keys";
        let ids: BTreeSet<&str> = auth.keys.iter().map(|key| &*key.access_key_id).collect();
        let rule = "must name each access key once";
        holds(ids.len() == auth.keys.len(), keys, rule, Nothing)?;
        let any = "auth.accept_any_credentials";
        let rule = "means nothing beside";
        let one = auth.keys.is_empty() || !auth.accept_any_credentials;
        holds(one, keys, rule, Key(any))?;
        let users: BTreeSet<&str> = auth.users.iter().map(|it| &*it.access_key_id).collect();
        let rule = "must name each access key once";
        holds(users.len() == auth.users.len(), "auth.users", rule, Nothing)?;
        let rule = "must name access keys of";
        holds(users.is_subset(&ids), "auth.users", rule, Key(keys))
    }

    /// Checks that somebody may ask: an open node has to be asked for.
    pub(crate) fn check_somebody_may_ask(&self) -> Result<(), Disagreement> {
        let auth = &self.auth;
        let somebody =
            auth.accept_any_credentials || !auth.keys.is_empty() || auth.sealing_key_file.is_some();
        let rule = "must name an access key, unless operators create some, with auth.sealing_key_file, or \
                    everyone may ask for everything by";
        let any = Counterpart::Key("auth.accept_any_credentials");
        holds(somebody, "auth.keys", rule, any)
    }

    fn check_tls(&self) -> Result<(), Disagreement> {
        use Counterpart::{Key, Limit};
        let tls = &self.tls;
        let (cert, key) = ("tls.cert_file", "tls.key_file");
        let rule = "means nothing without";
        let whole = tls.cert_file.is_none() || tls.key_file.is_some();
        holds(whole, cert, rule, Key(key))?;
        let whole = tls.key_file.is_none() || tls.cert_file.is_some();
        holds(whole, key, rule, Key(cert))?;
        let often = tls.reload_ms >= RELOAD_MIN_MS;
        let least = Limit(RELOAD_MIN_MS);
        holds(often, "tls.reload_ms", "must be at least", least)?;
        let rule = "must be at most";
        let seldom = tls.reload_ms <= RELOAD_MAX_MS;
        holds(seldom, "tls.reload_ms", rule, Limit(RELOAD_MAX_MS))?;
        let timeout = "tls.handshake_timeout_ms";
        let some = tls.handshake_timeout_ms > 0;
        holds(some, timeout, "must be at least", Limit(1))?;
        let bounded = tls.handshake_timeout_ms <= HANDSHAKE_TIMEOUT_MAX_MS;
        holds(bounded, timeout, rule, Limit(HANDSHAKE_TIMEOUT_MAX_MS))
    }

    fn check_limits(&self) -> Result<(), Disagreement> {
        use Counterpart::{Key, Limit};
        let limits = &self.limits;
        let room = limits.request_bytes >= MESSAGE_BYTES;
        let message = Limit(MESSAGE_BYTES as u64);
        holds(
            room,
            "limits.request_bytes",
            "must hold a message of",
            message,
        )?;
        let memory = limits.memory_bytes > limits.request_bytes;
        holds(
            memory,
            "limits.memory_bytes",
            "must be more than",
            Key("limits.request_bytes"),
        )?;
        let positive = [
            (limits.connections > 0, "limits.connections"),
            (
                limits.connections_per_address > 0,
                "limits.connections_per_address",
            ),
            (
                limits.tenant_requests_per_second != Some(0),
                "limits.tenant_requests_per_second",
            ),
            (limits.tenant_queues != Some(0), "limits.tenant_queues"),
            (limits.header_fields > 0, "limits.header_fields"),
            (limits.header_timeout_ms > 0, "limits.header_timeout_ms"),
            (
                limits.body_stall_timeout_ms > 0,
                "limits.body_stall_timeout_ms",
            ),
            (limits.read_timeout_ms > 0, "limits.read_timeout_ms"),
            (limits.stop_timeout_ms > 0, "limits.stop_timeout_ms"),
        ];
        for (held, key) in positive {
            holds(held, key, "must be at least", Limit(1))?;
        }
        // A form is three times as long as what it says, at the most.
        let form = 3 * limits.request_bytes;
        let rule = "must hold a form, which is three times";
        for (bytes, key) in [
            (limits.bodies_bytes, "limits.bodies_bytes"),
            (limits.unproved_bytes, "limits.unproved_bytes"),
        ] {
            holds(bytes >= form, key, rule, Key("limits.request_bytes"))?;
        }
        let some = limits.header_bytes >= 8 << 10;
        holds(
            some,
            "limits.header_bytes",
            "must be at least",
            Limit(8 << 10),
        )?;

        let budget = limits.request_budget_ms;
        let key = "limits.request_budget_ms";
        let most = Limit(REQUEST_BUDGET_MAX_MS);
        holds(
            budget <= REQUEST_BUDGET_MAX_MS,
            key,
            "must be at most",
            most,
        )?;
        let rule = "must outlast an election, which takes up to twice";
        holds(
            budget > 2 * self.raft.election_max_ms,
            key,
            rule,
            Key("raft.election_max_ms"),
        )
    }

    fn check_raft(&self) -> Result<(), Disagreement> {
        use Counterpart::{Key, Limit};
        let raft = &self.raft;
        holds(
            raft.heartbeat_ms > 0,
            "raft.heartbeat_ms",
            "must be at least",
            Limit(1),
        )?;
        let calm = raft.election_min_ms > 2 * raft.heartbeat_ms;
        let rule = "must be more than twice";
        holds(calm, "raft.election_min_ms", rule, Key("raft.heartbeat_ms"))?;
        let range = raft.election_max_ms > raft.election_min_ms;
        holds(
            range,
            "raft.election_max_ms",
            "must be more than",
            Key("raft.election_min_ms"),
        )?;
        let some = raft.checkpoint_every_entries > 0;
        holds(
            some,
            "raft.checkpoint_every_entries",
            "must be at least",
            Limit(1),
        )
    }

    fn check_storage(&self) -> Result<(), Disagreement> {
        use Counterpart::{Key, Limit};
        let storage = &self.storage;
        let segment = "storage.segment_bytes";
        let whole = storage.segment_bytes.is_multiple_of(4096);
        holds(whole, segment, "must be a multiple of", Limit(4096))?;
        holds(
            storage.segment_bytes <= 1 << 30,
            segment,
            "must be at most",
            Limit(1 << 30),
        )?;
        let quarter = storage.segment_bytes / 4;
        let most = storage.max_entry_bytes.max(storage.max_round_bytes);
        holds(
            quarter >= most,
            segment,
            "must be at least four times",
            Limit(most),
        )?;
        let budget = storage.purge_budget_bytes >= storage.segment_bytes;
        holds(
            budget,
            "storage.purge_budget_bytes",
            "must be at least",
            Key(segment),
        )?;
        let rate = storage.compaction_bytes_per_second > 0;
        holds(
            rate,
            "storage.compaction_bytes_per_second",
            "must be at least",
            Limit(1),
        )
    }
}

fn holds(
    held: bool,
    key: &'static str,
    rule: &'static str,
    with: Counterpart,
) -> Result<(), Disagreement> {
    if held {
        Ok(())
    } else {
        Err(Disagreement { key, rule, with })
    }
}
