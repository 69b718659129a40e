//! The operator's commands, run as an operator runs them.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::process::binary;

/// How long a command may take; those that wait for the cluster have limits of their own.
const COMMAND_DEADLINE: Duration = Duration::from_secs(400);

/// What a command answered.
#[derive(Debug)]
pub struct Answer {
    /// Its exit code.
    pub code: i32,
    /// What it showed; null when that is no JSON.
    pub shown: Value,
    /// What it said beside that.
    pub said: String,
}

impl Answer {
    /// What it showed, if it ended well.
    ///
    /// # Errors
    /// When it did not; with what it said.
    pub fn well(self) -> anyhow::Result<Value> {
        ensure!(self.code == 0, "exit code {}: {}", self.code, self.said);
        Ok(self.shown)
    }
}

/// Runs a command that asks one of these nodes, at their operator's ports.
///
/// # Errors
/// When it cannot be run or does not end.
pub async fn operate(nodes: &[SocketAddr], arguments: &[&str]) -> anyhow::Result<Answer> {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let output = Command::new(binary()?)
        .args(arguments)
        .args(["--output", "json", "--admin", &nodes.join(",")])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(COMMAND_DEADLINE, output);
    let output = output.await.context("the command does not end")??;
    Ok(Answer {
        code: output.status.code().context("the command was killed")?,
        shown: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
