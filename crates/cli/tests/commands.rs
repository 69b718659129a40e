//! The binary from outside: what it answers, and how it ends.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests; clippy sees only the functions marked so"
)]

use std::process::{Command, Output};

fn hikyaku(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hikyaku"));
    command.args(arguments).env_clear().output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn shows_every_value_with_its_origin() {
    let output = hikyaku(&["server", "--region", "eu-west-1", "--print-config"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("region = \"eu-west-1\" # from --region\n"),
        "{text}"
    );
    assert!(
        text.contains("listen = \"127.0.0.1:9324\" # default\n"),
        "{text}"
    );
}

#[test]
fn what_it_shows_is_a_file_it_takes() {
    let shown = hikyaku(&["server", "--cluster-partitions", "7", "--print-config"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hikyaku.toml");
    std::fs::write(&path, &shown.stdout).unwrap();
    let path = path.to_str().unwrap();
    let output = hikyaku(&["server", "--config", path, "--print-config"]);
    let text = stdout(&output);
    let line = format!("cluster.partitions = \"7\" # from {path}\n");
    assert!(text.contains(&line), "{text}{}", stderr(&output));
}

#[test]
fn a_wrong_configuration_is_the_callers_to_change() {
    let output = hikyaku(&["server", "--raft-heartbeat-ms", "400"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(
        text.starts_with("hikyaku: raft.election_min_ms = 600 (default)"),
        "{text}"
    );

    let output = hikyaku(&["server", "--no-such-flag"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_server_that_nobody_may_ask_does_not_start() {
    let output = hikyaku(&["server", "--data-dir", "/nonexistent/hikyaku"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.starts_with("hikyaku: auth.keys = not set"), "{text}");
    assert!(text.contains("auth.accept_any_credentials"), "{text}");
}

#[test]
fn a_development_server_is_ephemeral_or_has_a_directory() {
    let output = hikyaku(&["dev", "--ephemeral", "--data-dir", "/tmp/x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("cannot be used with"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn help_tells_of_every_key() {
    let text = hikyaku(&["server", "--help"]);
    let text = stdout(&text);
    for flag in [
        "--listen",
        "--data-dir",
        "--storage-purge-budget-bytes",
        "--log-level",
    ] {
        assert!(text.contains(flag), "{flag} is not in {text}");
    }
}
