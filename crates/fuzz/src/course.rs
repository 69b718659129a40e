//! One target in one process: input after input until the time is over, or one fails.

use std::collections::HashSet;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::memory::peak_of;
use crate::mutate::mutate;
use crate::random::Random;
use crate::targets::{Judge, Seen, Target};

/// How many inputs with a new outcome are kept to be mutated further.
const MOST_FOUND: usize = 4_096;

/// The clock is looked at after so many inputs.
const ROUND: u64 = 64;

/// How often a shorter input that fails is looked for.
const SHORTENINGS: usize = 4_000;

/// How a target is run.
pub struct Course {
    pub duration: Duration,
    pub seed: u64,
    /// The directory for inputs that failed.
    pub keep: PathBuf,
    /// Whether each input is written down before it is tried, because one of them ends the process.
    pub careful: bool,
}

/// What happened so far.
#[derive(Default)]
struct Tally {
    executions: u64,
    accepted: u64,
    kinds: HashSet<(bool, u64)>,
    /// The most memory that an input took, in hundredths of its bound.
    dearest_percent: usize,
}

impl Course {
    /// Runs a target and says how it went; whether it survived.
    pub fn run(&self, target: &Target) -> anyhow::Result<bool> {
        let seeds = (target.seeds)();
        let mut judge = (target.judge)();
        let mut tally = Tally::default();
        for input in &seeds {
            if let Err(why) = self.try_seed(target, &mut judge, &mut tally, input) {
                return self.fail(target, input, &why, &tally).map(|()| false);
            }
        }
        let mut random = Random::new(self.seed, target.name);
        let mut found: Vec<Vec<u8>> = Vec::new();
        let end = Instant::now() + self.duration;
        while tally.executions % ROUND != 0 || Instant::now() < end {
            let input = next(&mut random, &seeds, &found, target.words);
            if self.careful {
                self.write_down(target, &input)?;
            }
            match tally.add(target, &input, attempt(target, &mut judge, &input)) {
                Err(why) => return self.fail(target, &input, &why, &tally).map(|()| false),
                Ok(true) if found.len() < MOST_FOUND => found.push(input),
                Ok(_) => (),
            }
        }
        println!("{}", tally.summary(target, seeds.len(), self.seed));
        Ok(true)
    }

    /// A seed that is refused tests nothing.
    fn try_seed(
        &self,
        target: &Target,
        judge: &mut Judge,
        tally: &mut Tally,
        input: &[u8],
    ) -> Result<(), String> {
        let accepted = tally.accepted;
        tally.add(target, input, attempt(target, judge, input))?;
        if tally.accepted == accepted {
            return Err("an input that must be accepted is refused".to_owned());
        }
        Ok(())
    }

    fn write_down(&self, target: &Target, input: &[u8]) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(&self.keep)?;
        let file = self.keep.join(format!("{}-{}", target.name, self.seed));
        fs::write(&file, input)?;
        Ok(file)
    }

    /// Keeps a failed input, as short as it was found to fail, and says how to see it again.
    fn fail(&self, target: &Target, input: &[u8], why: &str, tally: &Tally) -> anyhow::Result<()> {
        let shortest = shorten(target, input);
        let file = self.write_down(target, &shortest)?;
        println!(
            "FAILED {}: input {} of seed {}: {why}\n  bytes: {}\n  again: {}",
            target.name,
            tally.executions,
            self.seed,
            shortest.escape_ascii(),
            again(target, &file)
        );
        Ok(())
    }
}

/// The command that tries the bytes of a file again.
pub fn again(target: &Target, file: &std::path::Path) -> String {
    let (name, file) = (target.name, file.display());
    format!("cargo run --release -p hikyaku-fuzz -- --replay {file} {name}")
}

/// Tries one input and says how it went; whether it survived.
pub fn replay(target: &Target, input: &[u8]) -> bool {
    let outcome = attempt(target, &mut (target.judge)(), input);
    match &outcome {
        Ok((seen, bytes)) => {
            let read = if seen.accepted { "accepted" } else { "refused" };
            println!("{}: {read}, with {bytes} bytes of memory", target.name);
        }
        Err(why) => println!("FAILED {}: {why}", target.name),
    }
    outcome.is_ok()
}

/// One input, tried: what the target saw and the memory it took.
type Attempt = Result<(Seen, usize), String>;

fn attempt(target: &Target, judge: &mut Judge, input: &[u8]) -> Attempt {
    let (outcome, bytes) = peak_of(|| panic::catch_unwind(AssertUnwindSafe(|| judge(input))));
    let seen = outcome.map_err(|payload| format!("panicked: {}", text_of(&*payload)))?;
    let bound = target.memory.of(input.len());
    if bytes > bound {
        let length = input.len();
        return Err(format!(
            "{bytes} bytes of memory for {length} bytes, more than {bound}"
        ));
    }
    Ok((seen, bytes))
}

fn text_of(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("without a text")
}

impl Tally {
    /// Counts an input; whether its outcome is new.
    fn add(&mut self, target: &Target, input: &[u8], outcome: Attempt) -> Result<bool, String> {
        self.executions += 1;
        let (seen, bytes) = outcome?;
        self.accepted += u64::from(seen.accepted);
        let percent = bytes * 100 / target.memory.of(input.len());
        self.dearest_percent = self.dearest_percent.max(percent);
        Ok(self.kinds.insert((seen.accepted, seen.kind)))
    }

    fn summary(&self, target: &Target, seeds: usize, seed: u64) -> String {
        format!(
            "{:20} {:>11} executions, {:>10} accepted, {seeds:>3} seeds, {:>5} kinds of outcome, \
             {:>3}% of the memory allowed, seed {seed}",
            target.name,
            self.executions,
            self.accepted,
            self.kinds.len(),
            self.dearest_percent,
        )
    }
}

/// The next input: a change of one that had an outcome of its own.
fn next(random: &mut Random, seeds: &[Vec<u8>], found: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let choose = |random: &mut Random| {
        let from = if found.is_empty() || random.one_in(3) {
            seeds
        } else {
            found
        };
        random.pick(from)
    };
    let mut input = choose(random).clone();
    let other = choose(random);
    mutate(random, &mut input, other, words);
    input
}

/// Leaves out what an input fails without, for whoever has to read it.
fn shorten(target: &Target, input: &[u8]) -> Vec<u8> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let mut judge = (target.judge)();
    let mut shortest = input.to_vec();
    let mut tries = SHORTENINGS;
    let mut span = shortest.len().div_ceil(2);
    while span > 0 && tries > 0 {
        let mut at = 0;
        while at < shortest.len() && tries > 0 {
            tries -= 1;
            let mut shorter = shortest.clone();
            shorter.drain(at..shortest.len().min(at + span));
            if attempt(target, &mut judge, &shorter).is_err() {
                shortest = shorter;
            } else {
                at += span;
            }
        }
        span /= 2;
    }
    panic::set_hook(hook);
    shortest
}
