//! Every key of the configuration: its name, what it means, how it is read and shown.
//!
//! `raft.heartbeat_ms` in a file is `heartbeat_ms` under `[raft]`, `HIKYAKU_RAFT_HEARTBEAT_MS` in
//! the environment and `--raft-heartbeat-ms` as a flag. A key whose name ends in `_bytes` takes
//! `64MiB` and the like.

use super::Config;
use super::value::{Value, bytes_as_number, public_url, shown};

/// One key of the configuration.
pub struct Key {
    /// Its name, with its section before a dot.
    pub name: &'static str,
    /// What it means, with its unit, in one sentence.
    pub help: &'static str,
    set: fn(&mut Config, &str) -> Result<(), String>,
    show: fn(&Config) -> String,
}

macro_rules! key {
    ($name:literal, $($field:ident).+, $help:literal) => {
        Key {
            name: $name,
            help: $help,
            set: |config, text| {
                config.$($field).+ = Value::parse(text)?;
                Ok(())
            },
            show: |config| Value::show(&config.$($field).+),
        }
    };
}

/// All keys, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    key!("listen", listen, "Where clients connect, ADDRESS:PORT"),
    Key {
        name: "public_url",
        help: "What queue URLs begin with, http[s]://HOST[:PORT]; empty: the host that was asked",
        set: |config, text| {
            config.public_url = public_url(text)?;
            Ok(())
        },
        show: |config| shown(config.public_url.as_ref()),
    },
    key!("region", region, "The region in ARNs of queues"),
    key!(
        "data_dir",
        data_dir,
        "The directory of everything the node keeps"
    ),
    key!(
        "roles",
        roles,
        "storage,router: keeps replicas and takes requests; router: takes requests alone"
    ),
    key!(
        "cluster.partitions",
        cluster.partitions,
        "Partitions a new cluster is founded with"
    ),
    key!(
        "cluster.grow_queues",
        cluster.grow_queues,
        "Whether standard queues get more partitions when their load asks for it"
    ),
    key!(
        "cluster.cooldown_ms",
        cluster.cooldown_ms,
        "How long a deleted queue's name stays taken and a purge rules out the next, in ms, on all \
         nodes; the last one to start wins; empty: as the cluster has it, 60000 at first"
    ),
    key!(
        "cluster.peer_listen",
        cluster.peer_listen,
        "Where other nodes connect, ADDRESS:PORT"
    ),
    key!(
        "cluster.advertise",
        cluster.advertise,
        "Where other nodes reach this one, HOST:PORT; empty: cluster.peer_listen"
    ),
    key!(
        "cluster.replication",
        cluster.replication,
        "Replicas of each group that a new cluster is founded with, where it has as many nodes"
    ),
    key!(
        "cluster.replace_after_ms",
        cluster.replace_after_ms,
        "After how long a silence a node's replicas are made anew on others, in ms"
    ),
    key!(
        "cluster.zone",
        cluster.zone,
        "What this node would fail together with, such as a rack or a zone; empty: unknown"
    ),
    key!(
        "cluster.peers",
        cluster.peers,
        "The nodes that found the cluster, this one too if it has storage, HOST:PORT,...; empty: this node alone"
    ),
    key!(
        "cluster.tls.name",
        cluster.tls.name,
        "The cluster's name, which certificates of all nodes carry beside their own; empty: no TLS among nodes, all on loopback"
    ),
    key!(
        "cluster.tls.cert_file",
        cluster.tls.cert_file,
        "This node's certificate for other nodes and its chain, in PEM"
    ),
    key!(
        "cluster.tls.key_file",
        cluster.tls.key_file,
        "The private key of that certificate, in PEM"
    ),
    key!(
        "cluster.tls.ca_file",
        cluster.tls.ca_file,
        "The authorities whose certificates other nodes may show, in PEM"
    ),
    key!(
        "auth.accept_any_credentials",
        auth.accept_any_credentials,
        "true: whoever reaches the port may do everything; signatures are not looked at"
    ),
    key!(
        "auth.keys",
        auth.keys,
        "Access keys, TENANT:ACCESS_KEY_ID:SECRET,...; a secret may be in a file, @FILE"
    ),
    key!(
        "auth.users",
        auth.users,
        "Keys that are users with an IAM policy, ACCESS_KEY_ID:NAME:POLICY_FILE,...; the others may do everything with their tenant's queues"
    ),
    key!(
        "auth.sealing_key_file",
        auth.sealing_key_file,
        "The file of the key that seals access keys of `hikyaku key`, the same on every node: 128 hexadecimal digits, and on a second line the key before it during a rotation; empty: no such access keys"
    ),
    key!(
        "auth.strict_region",
        auth.strict_region,
        "true: only signatures for this region are good"
    ),
    key!(
        "admin.listen",
        admin.listen,
        "Where operators connect, ADDRESS:PORT; empty: nowhere; beyond loopback it needs a token and TLS"
    ),
    key!(
        "admin.token_file",
        admin.token_file,
        "The file of what operators have to present; empty: nothing, on loopback alone"
    ),
    key!(
        "tls.cert_file",
        tls.cert_file,
        "The certificate of the client port and its chain, in PEM; empty: no TLS"
    ),
    key!(
        "tls.key_file",
        tls.key_file,
        "The private key of the certificate, in PEM"
    ),
    key!(
        "tls.reload_ms",
        tls.reload_ms,
        "How often the files of certificates are looked at, those of cluster.tls too, in ms; new ones need no restart"
    ),
    key!(
        "tls.handshake_timeout_ms",
        tls.handshake_timeout_ms,
        "How long a client may take for the TLS handshake, in ms"
    ),
    key!(
        "limits.memory_bytes",
        limits.memory_bytes,
        "Memory for the state of queues, in bytes"
    ),
    key!(
        "limits.connections",
        limits.connections,
        "Client connections at one time"
    ),
    key!(
        "limits.connections_per_address",
        limits.connections_per_address,
        "Client connections at one time from one address, or one /64 network of IPv6"
    ),
    key!(
        "limits.request_bytes",
        limits.request_bytes,
        "The largest request body, in bytes"
    ),
    key!(
        "limits.bodies_bytes",
        limits.bodies_bytes,
        "The bodies of all requests under way, in bytes"
    ),
    key!(
        "limits.unproved_bytes",
        limits.unproved_bytes,
        "Requests whose signature is not proved yet, together, in bytes"
    ),
    key!(
        "limits.tenant_requests_per_second",
        limits.tenant_requests_per_second,
        "Requests of one tenant in a second at this node; more are throttled; empty: no limit"
    ),
    key!(
        "limits.tenant_queues",
        limits.tenant_queues,
        "Queues of one tenant; empty: no limit"
    ),
    key!(
        "limits.header_bytes",
        limits.header_bytes,
        "The largest request header, in bytes"
    ),
    key!(
        "limits.header_fields",
        limits.header_fields,
        "The most headers in a request"
    ),
    key!(
        "limits.header_timeout_ms",
        limits.header_timeout_ms,
        "How long a client may take to send the head of a request, in ms"
    ),
    key!(
        "limits.body_stall_timeout_ms",
        limits.body_stall_timeout_ms,
        "How long a client may send nothing in the middle of a body, in ms"
    ),
    key!(
        "limits.read_timeout_ms",
        limits.read_timeout_ms,
        "How long a client may take to send a request, in ms"
    ),
    key!(
        "limits.request_budget_ms",
        limits.request_budget_ms,
        "How long a request is retried inside, in ms"
    ),
    key!(
        "limits.stop_timeout_ms",
        limits.stop_timeout_ms,
        "How long an orderly stop may take for requests under way and leaderships, in ms"
    ),
    key!(
        "raft.heartbeat_ms",
        raft.heartbeat_ms,
        "How often a leader is heard, in ms"
    ),
    key!(
        "raft.election_min_ms",
        raft.election_min_ms,
        "The least random part of an election timeout, in ms"
    ),
    key!(
        "raft.election_max_ms",
        raft.election_max_ms,
        "The most random part of an election timeout, in ms"
    ),
    key!(
        "raft.checkpoint_every_entries",
        raft.checkpoint_every_entries,
        "Entries applied between two checkpoints of a group"
    ),
    key!(
        "storage.segment_bytes",
        storage.segment_bytes,
        "One segment of the log, in bytes"
    ),
    key!(
        "storage.purge_budget_bytes",
        storage.purge_budget_bytes,
        "Log kept for followers that were away, in bytes"
    ),
    key!(
        "storage.cache_bytes",
        storage.cache_bytes,
        "Recent entries kept in memory, in bytes"
    ),
    key!(
        "storage.footer_cache_bytes",
        storage.footer_cache_bytes,
        "Places of older bodies kept in memory, in bytes"
    ),
    key!(
        "storage.read_ahead_bytes",
        storage.read_ahead_bytes,
        "Older entries read before a receive asks for them, in bytes"
    ),
    key!(
        "storage.compaction_bytes_per_second",
        storage.compaction_bytes_per_second,
        "The most that compaction copies, in bytes a second"
    ),
    key!(
        "storage.scrub_bytes_per_second",
        storage.scrub_bytes_per_second,
        "The most that is read to find damage, in bytes a second; 0: nothing is"
    ),
    key!(
        "storage.scrub_pause_ms",
        storage.scrub_pause_ms,
        "Between the end of such a reading and the start of the next, in ms"
    ),
    key!(
        "storage.min_free_bytes",
        storage.min_free_bytes,
        "Sends are refused when the disk has less free, in bytes"
    ),
    key!("log.format", log.format, "json or text"),
    key!(
        "log.level",
        log.level,
        "off, error, warn, info, debug or trace; by module: info,MODULE=debug"
    ),
    key!(
        "metrics.queues",
        metrics.queues,
        "Queues that /metrics counts by themselves, TENANT/NAME,...; at most 100; all others are one, _other"
    ),
];

impl Key {
    /// Whether its text holds secrets, and is not to be shown as it came.
    pub(crate) fn is_secret(&self) -> bool {
        self.name == "auth.keys"
    }

    /// Finds a key by its name.
    pub(crate) fn named(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The name of its flag, without the dashes before it.
    pub fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }

    /// The name of its environment variable.
    pub fn variable(&self) -> String {
        format!("HIKYAKU_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// Shows the value that a configuration has.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }

    pub(crate) fn set(&self, config: &mut Config, text: &str) -> Result<(), String> {
        if self.name.ends_with("bytes") || self.name.ends_with("bytes_per_second") {
            return (self.set)(config, &bytes_as_number(text)?);
        }
        (self.set)(config, text)
    }

    /// Finds the key that was probably meant.
    pub(crate) fn resembling(name: &str) -> Option<&'static Key> {
        let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
        let similarity = |key: &Key| {
            let whole = strsim::jaro_winkler(name, key.name);
            whole.max(strsim::jaro_winkler(name, last(key.name)))
        };
        // Of several that are as similar, the first in the table.
        let best = KEYS
            .iter()
            .rev()
            .max_by(|one, other| similarity(one).total_cmp(&similarity(other)))?;
        (similarity(best) > RESEMBLES).then_some(best)
    }
}

/// Below this similarity (0 to 1) a suggestion would rather confuse.
const RESEMBLES: f64 = 0.85;
