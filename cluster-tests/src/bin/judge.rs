//! Judges a history file: prints the verdict, and fails when a promise is broken.
//!
//! ```sh
//! cargo run -p hikyaku-cluster-tests --bin judge -- /tmp/hikyaku-history-abc.jsonl --evidence
//! ```

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use hikyaku_cluster_tests::black_box::judge;
use hikyaku_cluster_tests::history::lines;

/// Judges what clients of a queue service wrote down.
#[derive(Debug, Parser)]
struct Arguments {
    /// The history, as lines of JSON.
    history: PathBuf,
    /// Also print the operations that show each broken promise.
    #[arg(long)]
    evidence: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let history =
        lines::load(&arguments.history).with_context(|| arguments.history.display().to_string())?;
    let verdict = judge(&history);
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}\n{verdict}", history.summary())?;
    if arguments.evidence {
        for violation in &verdict.violations {
            writeln!(output, "{violation}")?;
            for place in &violation.evidence {
                let operation = serde_json::to_string(&history.operations[*place])?;
                writeln!(output, "  {place}: {operation}")?;
            }
        }
    }
    Ok(if verdict.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
