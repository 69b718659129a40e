//! Layers, origins and refusals of the configuration.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests; clippy sees only the functions marked so"
)]

use hikyaku_server::config::{ConfigError, KEYS, Loaded, LogFormat, Origin, Preset};
use std::path::PathBuf;

type Texts<'a> = &'a [(&'a str, &'a str)];

/// Loads from a file of this text, these variables and these flags.
fn load(file: &str, environment: Texts, flags: Texts) -> Result<Loaded, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hikyaku.toml");
    std::fs::write(&path, file).unwrap();
    Loaded::load(None, Some(&path), owned(environment), owned(flags))
}

fn owned(texts: Texts) -> Vec<(String, String)> {
    texts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn refusal(file: &str, environment: Texts, flags: Texts) -> String {
    load(file, environment, flags).unwrap_err().to_string()
}

fn origin(loaded: &Loaded, name: &str) -> Origin {
    let line = loaded.lines().find(|(key, _, _)| key.name == name);
    line.unwrap().2.clone()
}

#[test]
fn nothing_given_is_a_node_alone_on_loopback() {
    let loaded = Loaded::load(None, None, [], []).unwrap();
    let config = &loaded.config;
    assert_eq!(config.listen.to_string(), "127.0.0.1:9324");
    assert_eq!(
        (config.cluster.partitions, config.cluster.peers.len()),
        (32, 0)
    );
    assert_eq!(config.region, "us-east-1");
    assert!(
        loaded
            .lines()
            .all(|(_, _, origin)| *origin == Origin::Default)
    );
}

#[test]
fn flags_win_over_the_environment_which_wins_over_the_file() {
    let file = "[raft]\nheartbeat_ms = 100\nelection_min_ms = 700\nelection_max_ms = 900";
    let environment = [
        ("HIKYAKU_RAFT_HEARTBEAT_MS", "150"),
        ("HIKYAKU_RAFT_ELECTION_MIN_MS", "800"),
    ];
    let loaded = load(file, &environment, &[("raft.heartbeat_ms", "160")]).unwrap();
    let raft = &loaded.config.raft;
    assert_eq!(
        (
            raft.heartbeat_ms,
            raft.election_min_ms,
            raft.election_max_ms
        ),
        (160, 800, 900)
    );

    assert_eq!(
        origin(&loaded, "raft.heartbeat_ms"),
        Origin::Flag("raft-heartbeat-ms".to_owned())
    );
    let variable = "HIKYAKU_RAFT_ELECTION_MIN_MS".to_owned();
    assert_eq!(
        origin(&loaded, "raft.election_min_ms"),
        Origin::Environment(variable)
    );
    assert!(matches!(
        origin(&loaded, "raft.election_max_ms"),
        Origin::File(_)
    ));
    assert_eq!(origin(&loaded, "listen"), Origin::Default);
}

#[test]
fn a_preset_loses_to_everything() {
    let preset = || Preset {
        name: "hikyaku dev",
        values: vec![
            ("cluster.partitions", "4".to_owned()),
            ("region", "eu-north-1".to_owned()),
        ],
    };
    let environment = owned(&[("HIKYAKU_REGION", "eu-west-1")]);
    let loaded = Loaded::load(Some(preset()), None, environment, []).unwrap();
    assert_eq!(loaded.config.cluster.partitions, 4);
    assert_eq!(
        origin(&loaded, "cluster.partitions").to_string(),
        "set by hikyaku dev"
    );
    assert_eq!(loaded.config.region, "eu-west-1");
}

#[test]
fn every_shown_value_reads_back() {
    let file = r#"
        listen = "0.0.0.0:1"
        public_url = "https://sqs.example.org/"
        data_dir = "/data"
        [cluster]
        peer_listen = "[::1]:2"
        advertise = "[::1]:2"
        peers = ["One:2", "[::1]:2"]
        [cluster.tls]
        name = "orders.hikyaku"
        cert_file = "/tls/node.crt"
        key_file = "/tls/node.key"
        ca_file = "/tls/ca.crt"
        [storage]
        purge_budget_bytes = "2GiB"
        [log]
        format = "json"
        level = "warn,hikyaku_raft=debug"
    "#;
    let loaded = load(file, &[], &[]).unwrap();
    let config = &loaded.config;
    assert_eq!(
        config.public_url.as_deref(),
        Some("https://sqs.example.org")
    );
    assert_eq!(config.storage.purge_budget_bytes, 2 << 30);
    assert_eq!(config.log.format, LogFormat::Json);
    let peers = config.cluster.peers.iter().map(|peer| &*peer.0);
    assert_eq!(peers.collect::<Vec<_>>(), ["one:2", "[::1]:2"]);

    let shown: Vec<_> = loaded
        .lines()
        .map(|(key, value, _)| (key.name.to_owned(), value))
        .collect();
    let again = Loaded::load(None, None, [], shown).unwrap();
    assert_eq!(format!("{:?}", again.config), format!("{config:?}"));
}

#[test]
fn an_unknown_key_is_refused_with_the_one_that_was_meant() {
    let cases = [
        (
            "lisen = \"127.0.0.1:1\"",
            "unknown key lisen",
            "did you mean listen?",
        ),
        (
            "[raft]\nhartbeat_ms = 1",
            "unknown key raft.hartbeat_ms",
            "raft.heartbeat_ms?",
        ),
        (
            "heartbeat_ms = 1",
            "unknown key heartbeat_ms",
            "did you mean raft.heartbeat_ms?",
        ),
        (
            "[raft.heartbeat_ms]\nx = 1",
            "unknown key raft.heartbeat_ms.x",
            "",
        ),
    ];
    for (file, named, meant) in cases {
        let text = refusal(file, &[], &[]);
        assert!(text.contains(named) && text.contains(meant), "{text}");
        assert!(text.contains("hikyaku.toml"), "{text} says where");
    }
    let text = refusal("", &[], &[("nothing.like.it", "1")]);
    assert_eq!(text, "unknown key nothing.like.it (from --nothing-like-it)");
}

#[test]
fn a_strange_variable_is_a_warning() {
    let strange = [
        ("HIKYAKU_SERVICE_HOST", "10.0.0.1"),
        ("HIKYAKU_RAFT_HARTBEAT_MS", "1"),
        ("PATH", "/bin"),
    ];
    let loaded = load("", &strange, &[]).unwrap();
    assert_eq!(loaded.warnings.len(), 2);
    assert!(loaded.warnings[1].contains("did you mean HIKYAKU_RAFT_HEARTBEAT_MS?"));
}

#[test]
fn values_that_cannot_be_read_say_what_was_expected() {
    let cases = [
        ("listen", "localhost", "expected ADDRESS:PORT"),
        ("cluster.partitions", "-1", "expected a whole number"),
        ("cluster.peers", "1=one:1", "expected HOST:PORT"),
        ("log.format", "xml", "expected json or text"),
        ("log.level", "inof", "is none of off, error"),
        ("storage.cache_bytes", "64MB", "expected a whole number"),
        ("storage.cache_bytes", "99999999TiB", "too many bytes"),
        ("public_url", "sqs.example.org", "expected http[s]://HOST"),
        ("public_url", "http://a/b", "without a path"),
        ("region", "", "expected a text"),
    ];
    for (key, value, expected) in cases {
        let text = refusal("", &[], &[(key, value)]);
        let named = format!("{key} = {value:?} (from --");
        assert!(
            text.starts_with(&named) && text.contains(expected),
            "{text}"
        );
    }
    let text = refusal(
        "[cluster]\npeers = [{ node = 1, address = \"one:1\" }]",
        &[],
        &[],
    );
    assert!(text.contains("expected a list of \"HOST:PORT\""), "{text}");
    let text = refusal("region = 1.5", &[], &[]);
    assert!(text.contains("expected a text or a whole number"), "{text}");
}

#[test]
fn a_disagreement_names_both_values_and_where_they_are_from() {
    let variable = [("HIKYAKU_RAFT_HEARTBEAT_MS", "400")];
    assert_eq!(
        refusal("", &variable, &[]),
        "raft.election_min_ms = 600 (default) must be more than twice \
         raft.heartbeat_ms = 400 (from HIKYAKU_RAFT_HEARTBEAT_MS)"
    );
}

#[test]
fn what_cannot_work_is_refused() {
    let cases: [(Texts, &str); 36] = [
        (
            &[("cluster.cooldown_ms", "600001")],
            "must be at most 600000",
        ),
        (
            &[("region", "eu.north")],
            "must be letters, digits, hyphens",
        ),
        (
            &[("admin.listen", "127.0.0.1:9324")],
            "must differ from listen",
        ),
        (
            &[
                ("admin.listen", "127.0.0.1:9325"),
                ("cluster.peer_listen", "127.0.0.1:9325"),
            ],
            "must differ from cluster.peer_listen",
        ),
        (
            &[("admin.listen", "0.0.0.0:9326")],
            "must be a loopback address without admin.token_file",
        ),
        (
            &[
                ("admin.listen", "0.0.0.0:9326"),
                ("admin.token_file", "/etc/hikyaku/token"),
            ],
            "must be a loopback address without tls.cert_file",
        ),
        (&[("cluster.partitions", "0")], "must be at least 1"),
        (&[("cluster.partitions", "257")], "must be at most 256"),
        (
            &[("cluster.peer_listen", "127.0.0.1:9324")],
            "must differ from listen",
        ),
        (&[("cluster.peers", "a:1,A:1")], "must name each node once"),
        (
            &[("cluster.peer_listen", "0.0.0.0:1")],
            "must be a loopback address without cluster.tls.cert_file",
        ),
        (
            &[("roles", "router"), ("cluster.peers", "one:1")],
            "must be loopback addresses without cluster.tls.cert_file",
        ),
        (
            &[("cluster.tls.name", "orders.hikyaku")],
            "means nothing without cluster.tls.cert_file",
        ),
        (&[("cluster.replication", "0")], "must be at least 1"),
        (&[("cluster.replication", "8")], "must be at most 7"),
        (
            &[("cluster.replace_after_ms", "9999")],
            "must be at least 10000",
        ),
        (
            &[("roles", "router")],
            "must name nodes with storage, for a node that has none",
        ),
        (
            &[("cluster.peers", "a:1,b:1"), ("cluster.advertise", "a:1")],
            "can only connect if",
        ),
        (
            &[
                ("cluster.peers", "a:1,b:1"),
                ("cluster.advertise", "a:1"),
                ("cluster.peer_listen", "0.0.0.0:1"),
            ],
            "must be a loopback address",
        ),
        (
            &[("limits.request_bytes", "1023KiB")],
            "must hold a message of 1048576",
        ),
        (
            &[("limits.memory_bytes", "1MiB")],
            "must be more than limits.request_bytes",
        ),
        (
            &[("limits.request_budget_ms", "60001")],
            "must be at most 60000",
        ),
        (
            &[("limits.request_budget_ms", "2000")],
            "must outlast an election",
        ),
        (
            &[("limits.bodies_bytes", "1MiB")],
            "must hold a form, which is three times limits.request_bytes",
        ),
        (&[("limits.unproved_bytes", "1MiB")], "must hold a form"),
        (
            &[("limits.connections_per_address", "0")],
            "must be at least 1",
        ),
        (&[("limits.header_timeout_ms", "0")], "must be at least 1"),
        (
            &[("tls.cert_file", "/tls.crt")],
            "means nothing without tls.key_file",
        ),
        (
            &[("tls.key_file", "/tls.key")],
            "means nothing without tls.cert_file",
        ),
        (&[("tls.reload_ms", "99")], "must be at least 100"),
        (&[("tls.reload_ms", "3600001")], "must be at most 3600000"),
        (
            &[("tls.handshake_timeout_ms", "60001")],
            "must be at most 60000",
        ),
        (
            &[("raft.election_max_ms", "600")],
            "must be more than raft.election_min_ms",
        ),
        (
            &[("storage.segment_bytes", "4095")],
            "must be a multiple of 4096",
        ),
        (
            &[("storage.segment_bytes", "4096")],
            "must be at least four times",
        ),
        (
            &[("storage.purge_budget_bytes", "1MiB")],
            "must be at least storage.segment_bytes",
        ),
    ];
    for (flags, rule) in cases {
        let text = refusal("", &[], flags);
        assert!(text.contains(rule), "{flags:?} gave {text}");
    }
}

#[test]
fn what_the_crates_below_refuse_is_refused_here_first() {
    let loaded = Loaded::load(None, None, [], []).unwrap();
    loaded.config.storage.validate().unwrap();
}

#[test]
fn a_file_that_is_not_there_or_not_toml_is_named() {
    let path = PathBuf::from("/nonexistent/hikyaku.toml");
    let error = Loaded::load(None, Some(&path), [], []).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/hikyaku.toml"));
    let text = refusal("listen = ", &[], &[]);
    assert!(
        text.contains("hikyaku.toml is not TOML") && text.contains("line 1"),
        "{text}"
    );
}

#[test]
fn keys_have_names_of_their_own_in_every_form() {
    for (position, key) in KEYS.iter().enumerate() {
        for other in &KEYS[..position] {
            assert_ne!(key.flag(), other.flag());
            assert_ne!(key.variable(), other.variable());
        }
        assert!(
            !key.help.is_empty() && !key.help.ends_with('.'),
            "{}",
            key.name
        );
    }
}
