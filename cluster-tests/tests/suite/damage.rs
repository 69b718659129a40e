//! Bits that rot on one of three nodes, while it runs and while it is down: each is found before what it
//! was part of is served, and the node is whole again afterwards.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use hikyaku_cluster_tests::black_box::assert_kept;
use hikyaku_cluster_tests::process::{Server, connect};
use hikyaku_cluster_tests::recorder::Recorder;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use crate::cluster::{DRAIN_DEADLINE, figure, message, take};

/// Flipped bits; 100 by hand.
const DEFAULT_FLIPS: usize = 10;

/// Messages sent between two of them.
const MESSAGES: usize = 20;

/// The node whose disk rots.
const VICTIM: usize = 1;

/// Until a bit is found, and until what it cost is mended: a replica may have to be made anew.
const MENDING: Duration = Duration::from_secs(120);

/// An idle log says within this time how much of it is durable; what it has not said so of may be taken
/// for the torn end of a write.
const MARKED: Duration = Duration::from_secs(1);

/// Kinds of files, in turn.
const KINDS: [&str; 4] = ["seg", "idx", "ckpt", "cold"];

/// The files of a kind in a volume, oldest first.
fn files(volume: &Path, kind: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![volume.join("log"), volume.join("ckpt")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == kind) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Flips a bit of something that is written in the file, before the last sector of it: that may be a
/// mark which nothing proves. Says which; `None` when there is nothing.
fn flip(path: &Path, rng: &mut StdRng) -> anyhow::Result<Option<String>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len())?];
    file.read_exact_at(&mut bytes, 0)?;
    let written = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let end = match path.extension().is_some_and(|it| it == "seg") {
        true => written / 512 * 512,
        false => written,
    };
    let places: Vec<usize> = (0..end).filter(|at| bytes[*at] != 0).collect();
    if places.is_empty() {
        return Ok(None);
    }
    let at = places[rng.random_range(0..places.len())];
    let bit = rng.random_range(0..8);
    file.write_all_at(&[bytes[at] ^ (1 << bit)], at as u64)?;
    file.sync_all()?;
    Ok(Some(format!(
        "bit {bit} of byte {at} of {}",
        path.display()
    )))
}

/// Flips a bit in some file of the kind; of a log segment if there is none.
fn flip_some(volume: &Path, kind: &str, rng: &mut StdRng) -> anyhow::Result<String> {
    for kind in [kind, "seg"] {
        let files = files(volume, kind);
        if !files.is_empty()
            && let Some(flipped) = flip(&files[rng.random_range(0..files.len())], rng)?
        {
            return Ok(flipped);
        }
    }
    anyhow::bail!("nothing to flip in {}", volume.display())
}

/// Logs that were set aside.
fn set_aside(volume: &Path) -> usize {
    let entries = fs::read_dir(volume).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("log.damaged")).count()
}

/// Waits until the victim has found more damage than `before`, or has set its log aside.
async fn found(server: &Server, before: u64, aside: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + MENDING;
    loop {
        let found = figure(server, "hikyaku_damage_total").await.unwrap_or(0);
        if found > before || set_aside(&server.data_dir()) > aside {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "not found\n{}",
            server.log_tail()
        );
        sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until nothing of the victim is left to mend and it has all of its replicas.
async fn whole(servers: &[Server], replicas: u64) -> anyhow::Result<()> {
    let victim = &servers[VICTIM];
    let deadline = Instant::now() + MENDING;
    loop {
        let open = figure(victim, "hikyaku_damage_open ").await;
        let moves = figure(&servers[0], "hikyaku_moves ").await;
        let here = figure(victim, "hikyaku_replicas ").await;
        let told = !victim.data_dir().join("lost-replicas").exists();
        if let (Ok(0), Ok(0), Ok(here)) = (&open, &moves, &here)
            && *here == replicas
            && told
        {
            return Ok(());
        }
        let state = format!("open {open:?}, moves {moves:?}, {here:?} of {replicas} replicas");
        let late = Instant::now() >= deadline;
        ensure!(!late, "not whole: {state}\n{}", victim.log_tail());
        sleep(Duration::from_millis(100)).await;
    }
}

/// `HIKYAKU_FLIPS=100` makes a long run of it, `HIKYAKU_SEED=7` another one.
#[tokio::test]
async fn bits_that_rot_on_one_node_are_found_and_mended() -> anyhow::Result<()> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>());
    let flips = number("HIKYAKU_FLIPS").transpose()?;
    let flips = flips.map_or(DEFAULT_FLIPS, |flips| flips as usize);
    let seed = number("HIKYAKU_SEED").transpose()?.unwrap_or(1);
    let mut rng = StdRng::seed_from_u64(seed);
    let mut servers = Server::cluster(3)?;
    for server in &mut servers {
        server.argue(&["--storage-scrub-bytes-per-second", "500000000"]);
        server.argue(&["--storage-scrub-pause-ms", "200"]);
    }
    let starts = servers.iter_mut().map(Server::restart);
    futures_util::future::try_join_all(starts).await?;
    let attributes = [("FifoQueue", "true"), ("VisibilityTimeout", "60")];
    let mut door = servers[0].connect().await?;
    let recorder = Recorder::new(0);
    let target = recorder
        .create_queue(&mut door, "orders.fifo", &attributes)
        .await?;
    let replicas = figure(&servers[0], "hikyaku_replicas ").await?;
    let (mut sent, mut taken) = (0, 0);
    for number in 0..flips {
        for step in 0..MESSAGES {
            let mut message = message(sent);
            message.body = format!("{sent} {}", "x".repeat(500));
            for result in target.send(&mut door, &[message]).await? {
                ensure!(result.is_ok(), "message {sent} was not taken: {result:?}");
            }
            sent += 1;
            if step % 4 == 0 {
                taken += take(&mut door, &target).await?;
            }
        }
        sleep(MARKED).await;
        let volume = servers[VICTIM].data_dir();
        let (kind, aside) = (KINDS[number % KINDS.len()], set_aside(&volume));
        let mut flipped = format!("seed {seed}, flip {number}");
        if number % 2 == 0 {
            // Down, and every other time it had no time to say goodbye.
            match number % 4 {
                0 => drop(servers[VICTIM].terminate().await?),
                _ => servers[VICTIM].kill()?,
            }
            flipped += &format!(": down, {}", flip_some(&volume, kind, &mut rng)?);
            let restarted = servers[VICTIM].restart().await;
            restarted.with_context(|| flipped.clone())?;
            found(&servers[VICTIM], 0, aside).await
        } else {
            let before = figure(&servers[VICTIM], "hikyaku_damage_total").await?;
            flipped += &format!(": up, {}", flip_some(&volume, kind, &mut rng)?);
            found(&servers[VICTIM], before, aside).await
        }
        .with_context(|| flipped.clone())?;
        let mended = whole(&servers, replicas).await;
        mended.with_context(|| flipped.clone())?;
    }
    // What is left has to come from the victim's side as well.
    servers[2].kill()?;
    let mut last = connect(servers[VICTIM].address()).await?;
    let drain_from = recorder.now_us();
    let deadline = Instant::now() + DRAIN_DEADLINE;
    while taken < sent {
        ensure!(Instant::now() < deadline, "{taken} of {sent}");
        let more = take(&mut last, &target).await?;
        if more == 0 {
            sleep(Duration::from_millis(50)).await;
        }
        taken += more;
    }
    target.drained(drain_from);
    assert_kept(&recorder.history());
    Ok(())
}
