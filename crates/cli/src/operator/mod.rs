//! The operator's commands: what they have in common.
//!
//! Each asks one node, whichever is at hand, over its operator's port. What it shows is a table for
//! people or JSON for scripts; what it refuses or cannot reach ends with exit code 1, and what is not
//! as it should be, or not done yet, with 3. All of them may be given again.

pub mod cluster;
mod connection;
pub mod drain;
pub mod key;
mod names;
pub mod node;
pub mod partition;
mod table;
pub mod tenant;

use clap::{Args, ValueEnum};
use std::fmt;
use std::future::Future;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::path::PathBuf;

/// Variables of these commands, which are no configuration of a node.
pub const VARIABLES: [&str; 2] = [ADMIN_ADDRESS, ADMIN_CA_FILE];
const ADMIN_ADDRESS: &str = "HIKYAKU_ADMIN_ADDRESS";
const ADMIN_CA_FILE: &str = "HIKYAKU_ADMIN_CA_FILE";

/// Which node is asked, and how its answer is shown.
#[derive(Debug, Args)]
pub struct Asking {
    /// The operator's port of any node, HOST:PORT; of several, comma-separated, the first that answers.
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT,...",
        value_delimiter = ',',
        env = ADMIN_ADDRESS,
        default_value = "127.0.0.1:9326"
    )]
    admin: Vec<String>,

    /// The file of the operator's token.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HIKYAKU_ADMIN_TOKEN_FILE"
    )]
    token_file: Option<PathBuf>,

    /// Speak TLS, and believe certificates of the authorities in this file (PEM).
    #[arg(long, global = true, value_name = "FILE", env = ADMIN_CA_FILE)]
    ca_file: Option<PathBuf>,

    /// How the answer is shown.
    #[arg(long, global = true, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// For whom the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// People.
    Table,
    /// Scripts.
    Json,
}

/// The answer came, and is not what one would wish.
#[derive(Debug)]
pub struct Unwell(String);

impl fmt::Display for Unwell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unwell {}

/// Runs a command to its end.
fn block_on(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(command)
}

/// Writes an answer. Whoever reads no further has seen enough.
fn show(text: &str) -> anyhow::Result<()> {
    match writeln!(stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Says something beside the answer.
fn note(text: &str) {
    // With standard error gone there is nobody left to tell.
    let _ = writeln!(stderr(), "{text}");
}
