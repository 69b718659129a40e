//! Several targets at a time, each in a process that may die.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::course::again;
use crate::targets::Target;

/// How long a process may go on after its time, in which it shortens what failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much more time a run gets that writes each input down.
const CARE: u32 = 4;

/// How often a process is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// What is to be run.
pub struct Plan {
    /// For each target.
    pub duration: Duration,
    pub seed: u64,
    /// Targets at a time.
    pub jobs: usize,
    /// The directory for inputs that failed.
    pub keep: PathBuf,
}

impl Plan {
    /// Runs the targets, each line of theirs as it comes; whether all survived.
    pub fn run(&self, targets: &[&'static Target]) -> io::Result<bool> {
        println!(
            "{} targets, {} s each, seed {}",
            targets.len(),
            self.duration.as_secs(),
            self.seed
        );
        let waiting = Mutex::new(targets.iter());
        let next = || {
            let mut waiting = waiting.lock().unwrap_or_else(|held| held.into_inner());
            waiting.next().copied()
        };
        let worker = || -> io::Result<u32> {
            let mut failed = 0;
            while let Some(target) = next() {
                failed += u32::from(!self.survives(target)?);
            }
            Ok(failed)
        };
        let failed = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs.max(1)).map(|_| scope.spawn(worker)).collect();
            let ended = workers
                .into_iter()
                .map(|w| w.join().expect("workers do not panic"));
            ended.sum::<io::Result<u32>>()
        })?;
        let passed = targets.len() as u64 - u64::from(failed);
        println!("fuzz: {passed} passed, {failed} failed");
        Ok(failed == 0)
    }

    fn survives(&self, target: &Target) -> io::Result<bool> {
        let status = self.wait(self.start(target, 1, &[])?, self.duration)?;
        match status.and_then(|status| status.code()) {
            Some(0) => return Ok(true),
            // It said why itself.
            Some(1) => return Ok(false),
            Some(_) | None => (),
        }
        let ended = status.map_or("did not end".to_owned(), |status| {
            format!("ended with {status}")
        });
        println!(
            "FAILED {}: its process {ended}; once more, with care",
            target.name
        );
        let careful = self.start(target, CARE, &["--careful"])?;
        let status = self.wait(careful, self.duration * CARE)?;
        if status.and_then(|status| status.code()).is_some() {
            println!("  it did not happen again with seed {}", self.seed);
            return Ok(false);
        }
        let file = self.keep.join(format!("{}-{}", target.name, self.seed));
        println!("  again: {}", again(target, &file));
        Ok(false)
    }

    fn start(&self, target: &Target, times: u32, more: &[&str]) -> io::Result<Child> {
        let seconds = self.duration.as_secs() * u64::from(times);
        Command::new(std::env::current_exe()?)
            .args(["--alone", "--seconds", &seconds.to_string()])
            .args(["--seed", &self.seed.to_string(), "--keep"])
            .arg(&self.keep)
            .args(more)
            .arg(target.name)
            .stdin(Stdio::null())
            .spawn()
    }

    /// How a process ended; none if it had to be killed.
    fn wait(&self, mut child: Child, duration: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + duration + PATIENCE;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }
}
