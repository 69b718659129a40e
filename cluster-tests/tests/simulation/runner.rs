//! Runs cases, one process for each seed, and prints what libtest would.
//!
//! Not libtest itself: in a run the clocks of the process stand still but for the simulation, and
//! its random numbers follow the seed, which no test harness around it could live with.

use std::process::{Command, ExitCode, Output, Stdio};
use std::{env, fmt, thread};

use hikyaku_cluster_tests::black_box::{Rule, judge as verdict_on};
use hikyaku_cluster_tests::history::{History, lines};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// Set for a child: the case and its seed, `name 17`.
const CHILD: &str = "HIKYAKU_SIMULATED";

/// What the nodes of a single seed log, as tracing's filters say it: `info`, `hikyaku_raft=debug`.
const LOG: &str = "HIKYAKU_LOG";

/// When set, the history of a single seed is kept whatever the judge says.
const KEEP: &str = "HIKYAKU_KEEP";

/// Without `HIKYAKU_SEEDS`.
const DEFAULT_SEEDS: u64 = 5;

/// A fault must show within so many seeds.
const SEEDS_FOR_A_FAULT: u64 = 20;

/// Begins the line on which a child says how its run went: equal for equal runs.
const COURSE: &str = "course ";

/// Begins a line for each broken promise.
const BROKEN: &str = "broken ";

/// Something to simulate.
pub struct Case {
    /// A sentence.
    pub name: &'static str,
    /// One run; panics when clients could not do their work.
    pub run: fn(u64) -> History,
    /// What the judge is to find.
    pub expected: Expected,
}

/// What a case is to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No seed breaks a promise.
    Kept,
    /// Some seed breaks this one.
    Broken(Rule),
}

/// Runs the cases that the arguments name, or one run of one case in a child process.
pub fn main(cases: &[Case]) -> ExitCode {
    if let Ok(child) = env::var(CHILD) {
        return child_main(cases, &child);
    }
    let filters: Vec<String> = env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let wanted = |case: &&Case| filters.is_empty() || filters.iter().any(|f| case.name.contains(f));
    let chosen: Vec<&Case> = cases.iter().filter(wanted).collect();
    if env::args().any(|argument| argument == "--list") {
        chosen
            .iter()
            .for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", chosen.len());
    let mut failures = Vec::new();
    for case in &chosen {
        let verdict = judge(case);
        println!(
            "test {} ... {}",
            case.name,
            if verdict.is_ok() { "ok" } else { "FAILED" }
        );
        failures.extend(verdict.err().map(|why| (case.name, why)));
    }
    for (name, why) in &failures {
        println!("\n---- {name} ----\n{why}");
    }
    let (word, failed) = (
        if failures.is_empty() { "ok" } else { "FAILED" },
        failures.len(),
    );
    println!(
        "\ntest result: {word}. {} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out\n",
        chosen.len() - failed,
        cases.len() - chosen.len(),
    );
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// One run: its course and what it broke, on standard output.
fn child_main(cases: &[Case], child: &str) -> ExitCode {
    let parsed = child.split_once(' ').and_then(|(name, seed)| {
        Some((
            cases.iter().find(|case| case.name == name)?,
            seed.parse().ok()?,
        ))
    });
    let Some((case, seed)) = parsed else {
        println!("no such run: {child}");
        return ExitCode::FAILURE;
    };
    mad_turmoil::rand::set_rng(StdRng::seed_from_u64(seed));
    let _clocks = mad_turmoil::time::SimClocksGuard::init();
    if let Ok(filter) = env::var(LOG) {
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_timer(SimulatedTime);
        log.with_writer(std::io::stderr).with_ansi(false).init();
    }
    let history = (case.run)(seed);
    let verdict = verdict_on(&history);
    println!("{}", history.summary());
    for violation in &verdict.violations {
        println!("{BROKEN}{violation}");
    }
    println!("not exercised {:?}", verdict.not_exercised());
    let failed = case.expected == Expected::Kept && !verdict.violations.is_empty();
    if failed || env::var_os(KEEP).is_some() {
        println!("{}", lines::kept(&history));
    }
    println!("{COURSE}{:016x}", history.digest());
    ExitCode::SUCCESS
}

/// Runs a case's seeds, the first of them twice.
fn judge(case: &Case) -> Result<(), String> {
    if let Some(seed) = number("HIKYAKU_SEED") {
        let run = run(case, seed)?;
        println!("{}", run.text);
        return kept(case, seed, &run);
    }
    same_seed_same_course(case)?;
    match case.expected {
        Expected::Kept => {
            let seeds = number("HIKYAKU_SEEDS").unwrap_or(DEFAULT_SEEDS);
            in_parallel(seeds, |seed| kept(case, seed, &run(case, seed)?))
        }
        Expected::Broken(rule) => {
            let mut seen = String::new();
            for seed in 1..=SEEDS_FOR_A_FAULT {
                let run = run(case, seed)?;
                if run.broke(rule) {
                    return Ok(());
                }
                seen.push_str(&run.text);
            }
            Err(format!(
                "{rule:?} was not broken in {SEEDS_FOR_A_FAULT} seeds:\n{seen}"
            ))
        }
    }
}

fn kept(case: &Case, seed: u64, run: &Run) -> Result<(), String> {
    let may_break = matches!(case.expected, Expected::Broken(_));
    let as_expected = may_break || !run.text.contains(BROKEN);
    if as_expected {
        Ok(())
    } else {
        Err(format!("seed {seed}\n{}", run.text))
    }
}

fn same_seed_same_course(case: &Case) -> Result<(), String> {
    let (first, again, other) = (run(case, 1)?, run(case, 1)?, run(case, 2)?);
    if first.course() != again.course() {
        return Err(format!(
            "seed 1 has two courses\n{}\n{}",
            first.text, again.text
        ));
    }
    if first.course() == other.course() {
        return Err("seeds 1 and 2 have one course: the seed is not used".to_owned());
    }
    Ok(())
}

/// All seeds from 1, as many at a time as there are processors; the failure of the lowest seed.
fn in_parallel(seeds: u64, judge: impl Fn(u64) -> Result<(), String> + Sync) -> Result<(), String> {
    let workers = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let all: Vec<u64> = (1..=seeds).collect();
    for some in all.chunks(workers as usize) {
        let verdicts: Vec<Result<(), String>> = thread::scope(|scope| {
            let judge = &judge;
            let started: Vec<_> = some
                .iter()
                .map(|seed| scope.spawn(move || judge(*seed)))
                .collect();
            started
                .into_iter()
                .map(|run| run.join().expect("judging does not panic"))
                .collect()
        });
        verdicts.into_iter().collect::<Result<Vec<()>, String>>()?;
    }
    Ok(())
}

/// Log lines tell the time of the simulation and the host that they come from.
struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let now = turmoil::sim_elapsed().unwrap_or_default();
        write!(writer, "{:9.3}", now.as_secs_f64())
    }
}

/// What a child printed.
struct Run {
    text: String,
}

impl Run {
    fn course(&self) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(COURSE))
    }

    fn broke(&self, rule: Rule) -> bool {
        let word = format!("{BROKEN}{rule}:");
        self.text.lines().any(|line| line.starts_with(&word))
    }
}

fn run(case: &Case, seed: u64) -> Result<Run, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program);
    child.env(CHILD, format!("{} {seed}", case.name));
    if env::var_os(LOG).is_some() {
        child.stderr(Stdio::inherit());
    }
    let child = child.output();
    let Output {
        status,
        stdout,
        stderr,
    } = child.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    if status.success() {
        Ok(Run { text })
    } else {
        let errors = String::from_utf8_lossy(&stderr);
        Err(format!("seed {seed} ended with {status}\n{text}\n{errors}"))
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
    )
}
