//! Which seeds to run, and one seed in a process of its own.
//!
//! A course is compared between processes, not within one: libraries keep state that a second run in
//! the same process would find changed.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};

/// The seed of a child process; set by [`in_child`] only.
const CHILD: &str = "HIKYAKU_CHILD_SEED";

/// Begins the line on which a child says how its run went.
const COURSE: &str = "course ";

/// Runs the seed of `HIKYAKU_SEED`, or else so many as `HIKYAKU_SEEDS` says, or else `default`.
pub fn each(default: u64, run: impl Fn(u64)) {
    if let Some(seed) = number("HIKYAKU_SEED") {
        return run(seed);
    }
    let seeds = number("HIKYAKU_SEEDS").unwrap_or(default);
    (1..=seeds).for_each(run);
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
    )
}

/// The seed this process was started for, if it is a child.
pub fn of_this_child() -> Option<u64> {
    number(CHILD)
}

/// The line that a child prints at the end.
pub fn course(digest: u64) -> String {
    format!("{COURSE}{digest:016x}")
}

/// Runs one test of this binary with one seed in a new process and gives its course.
pub fn in_child(test: &str, seed: u64) -> anyhow::Result<String> {
    let output = Command::new(env::current_exe()?)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, seed.to_string())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "seed {seed}: {text}\n{errors}");
    // The test harness writes the test's name on the same line.
    let found = text
        .split_once(COURSE)
        .and_then(|(_, rest)| rest.lines().next());
    found
        .map(str::to_owned)
        .with_context(|| format!("seed {seed} has no course:\n{text}"))
}
