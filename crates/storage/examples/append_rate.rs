//! Prints the raw log's append rate, so that other numbers can be compared to it.
//!
//! `cargo run --release --example append_rate -- [directory] [seconds]`: submitters append entries
//! of some bodies of 1 KiB, each waiting for its own before the next, in groups of their own.

#![expect(clippy::print_stdout, reason = "a program whose output is its purpose")]

use bytes::Bytes;
use hikyaku_storage::{Entry, GroupId, LeaderId, Log, LogConfig, LogId, RealDisk, Work};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const BODY_BYTES: usize = 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(
        arguments
            .next()
            .unwrap_or_else(|| "append-rate.tmp".to_owned()),
    );
    let seconds: u64 = arguments.next().map_or(Ok(3), |text| text.parse())?;
    println!("submitters bodies/entry  entries/s  bodies/s    MB/s  entries/sync  p50 ms  p99 ms");
    for (submitters, bodies) in [
        (1, 1),
        (16, 1),
        (64, 1),
        (256, 1),
        (1, 64),
        (16, 64),
        (64, 64),
    ] {
        let run = dir.join(format!("{submitters}x{bodies}"));
        measure(&run, submitters, bodies, Duration::from_secs(seconds))?;
        std::fs::remove_dir_all(&run)?;
    }
    Ok(())
}

fn measure(
    dir: &Path,
    submitters: u64,
    bodies: usize,
    length: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(dir)?;
    let log = Log::open(
        Arc::new(RealDisk::open(dir)?),
        LogConfig::default(),
        Work::Thread,
    )?;
    let before = log.stats();
    let started = Instant::now();
    let threads: Vec<_> = (0..submitters)
        .map(|number| {
            let log = log.clone();
            std::thread::spawn(move || submit(&log, GroupId(number), bodies, started + length))
        })
        .collect();
    let mut waits: Vec<Duration> = Vec::new();
    for thread in threads {
        waits.extend(thread.join().map_err(|_| "a submitter panicked")?);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let after = log.stats();
    waits.sort_unstable();
    let at = |share: usize| waits[(waits.len() - 1) * share / 100].as_secs_f64() * 1e3;
    let entries = waits.len() as f64;
    println!(
        "{submitters:>10} {bodies:>12} {:>10.0} {:>9.0} {:>7.1} {:>13.1} {:>7.2} {:>7.2}",
        entries / elapsed,
        entries * bodies as f64 / elapsed,
        entries * (bodies * BODY_BYTES) as f64 / elapsed / 1e6,
        entries / (after.syncs - before.syncs) as f64,
        at(50),
        at(99),
    );
    Ok(())
}

/// Appends one entry after the other until the time is over.
fn submit(log: &Log, id: GroupId, bodies: usize, until: Instant) -> Vec<Duration> {
    let group = log.group(id);
    let leader = LeaderId { term: 1, node: 1 };
    // Incompressible enough, and the same memory every time: the log is measured, not the source.
    let body = Bytes::from(
        (0..BODY_BYTES)
            .map(|at| (at * 31 % 251) as u8)
            .collect::<Vec<u8>>(),
    );
    let (sender, receiver) = mpsc::channel();
    let mut waits = Vec::new();
    for index in 0.. {
        let now = Instant::now();
        if now >= until {
            break;
        }
        let id = LogId { leader, index };
        let head = Bytes::from_static(&[0; 64]);
        let sender = sender.clone();
        let done = Box::new(move |outcome| {
            let _ = sender.send(outcome);
        });
        group.append(
            vec![Entry {
                id,
                head,
                bodies: vec![body.clone(); bodies],
            }],
            done,
        );
        if !matches!(receiver.recv(), Ok(Ok(()))) {
            break;
        }
        waits.push(now.elapsed());
    }
    waits
}
