//! Judges a history file: prints the verdict, and fails when a promise is broken.
//!
//! ```sh
//! cargo run -p hikyaku-cluster-tests --bin judge -- /tmp/hikyaku-history-abc.jsonl --evidence
//! ```

#![expect(clippy::print_stdout, reason = "the verdict is its output")]

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
    println!("{}\n{verdict}", history.summary());
    if arguments.evidence {
        for violation in &verdict.violations {
            println!("{violation}");
            for place in &violation.evidence {
                let operation = serde_json::to_string(&history.operations[*place])?;
                println!("  {place}: {operation}");
            }
        }
    }
    Ok(if verdict.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
