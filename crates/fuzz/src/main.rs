//! Bytes that nobody would send, given to everything that reads bytes from outside.
//!
//! A target is one such reader with some inputs that it must accept. Mutations of them are tried one
//! after the other; those with an outcome not seen before join the inputs to mutate. An input fails
//! when its reader panics, does not come to an end, takes more memory than the input pays for, or
//! breaks what the target says of all inputs: that what is read comes back when it is written, that no
//! changed request has a valid signature.
//!
//! Each target runs in a process of its own, which may die. The same seed gives the same inputs in the
//! same order; an input that failed is kept in a file, which is all that is needed to see it fail again.
//!
//! ```sh
//! cargo run --release -p hikyaku-fuzz -- --seconds 600 sigv4     # ten minutes for each target named so
//! cargo run --release -p hikyaku-fuzz -- --replay FILE sqs_json  # one input again
//! ```

#![expect(clippy::print_stdout, reason = "a test tool: its output is its result")]

mod course;
mod memory;
mod mutate;
mod parent;
mod random;
mod targets;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser;

use course::Course;
use parent::Plan;
use targets::{TARGETS, Target};

/// Tries inputs that nobody would send.
#[derive(Debug, Parser)]
struct Arguments {
    /// Parts of the names of the targets to run; all, if there is none.
    names: Vec<String>,
    /// How long each target runs, in seconds.
    #[arg(long, env = "HIKYAKU_FUZZ_SECONDS", default_value_t = 1)]
    seconds: u64,
    /// What the inputs follow from; drawn if it is not given.
    #[arg(long, env = "HIKYAKU_FUZZ_SEED")]
    seed: Option<u64>,
    /// How many targets run at a time; as many as there are processors, if it is not given.
    #[arg(long, env = "HIKYAKU_FUZZ_JOBS")]
    jobs: Option<usize>,
    /// The directory where inputs that failed are kept.
    #[arg(long, default_value = "fuzz-failures")]
    keep: PathBuf,
    /// Tries the bytes of this file, and nothing else.
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Lists the targets.
    #[arg(long)]
    list: bool,
    /// Runs one target in this process.
    #[arg(long, hide = true)]
    alone: bool,
    /// Writes each input down before it is tried.
    #[arg(long, hide = true)]
    careful: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let chosen = choose(&arguments.names)?;
    if arguments.list {
        chosen.iter().for_each(|target| println!("{}", target.name));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &arguments.replay {
        let input = fs::read(file).with_context(|| file.display().to_string())?;
        return Ok(exit_code(course::replay(only(&chosen)?, &input)));
    }
    let seed = arguments.seed.unwrap_or_else(random::drawn);
    let duration = Duration::from_secs(arguments.seconds);
    if arguments.alone {
        let course = Course {
            duration,
            seed,
            keep: arguments.keep,
            careful: arguments.careful,
        };
        return Ok(exit_code(course.run(only(&chosen)?)?));
    }
    let jobs = match arguments.jobs {
        Some(jobs) => jobs,
        None => std::thread::available_parallelism()?.get(),
    };
    let plan = Plan {
        duration,
        seed,
        jobs,
        keep: arguments.keep,
    };
    Ok(exit_code(plan.run(&chosen)?))
}

/// The targets with one of these texts in their names.
fn choose(names: &[String]) -> anyhow::Result<Vec<&'static Target>> {
    let known = |name: &String| TARGETS.iter().any(|target| target.name.contains(&**name));
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        bail!("no target is called {unknown}");
    }
    let wanted =
        |target: &&Target| names.is_empty() || names.iter().any(|n| target.name.contains(&**n));
    Ok(TARGETS.iter().filter(wanted).collect())
}

fn only(chosen: &[&'static Target]) -> anyhow::Result<&'static Target> {
    match chosen {
        [target] => Ok(target),
        [] | [_, _, ..] => bail!("{} targets are called so, not one", chosen.len()),
    }
}

fn exit_code(survived: bool) -> ExitCode {
    if survived {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
