//! The power of all nodes is cut at once, and nothing that was acknowledged is lost.
//!
//! The volumes of three nodes are on one ext4 file system of its own, on a loop device. A cut stops the
//! processes where they are, shuts the file system down without writing its journal (what was not synced
//! is gone), ends the processes and mounts it again (RELIABILITY section 4). That needs root, so it is run
//! by hand: `cargo test -p hikyaku-cluster-tests --test suite -- --ignored power`; `HIKYAKU_CUTS` says how
//! often.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use hikyaku_cluster_tests::process::Server;
use tempfile::TempDir;
use tokio::time::sleep;

use super::chaos::witnesses::Witnesses;

const DEFAULT_CUTS: usize = 20;

/// Sparse; what three nodes write in such a run is a part of it.
const VOLUME_BYTES: u64 = 16 << 30;

/// What witnesses see between two cuts.
const BETWEEN: Duration = Duration::from_secs(4);

/// `EXT4_IOC_SHUTDOWN`, with the flag that says: do not write the journal.
const SHUT_DOWN: &str = "import fcntl, os, struct, sys
folder = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(folder, 0x8004587D, struct.pack('I', 2))";

/// A file system that can lose its power. Unmounted with this value.
struct Volume {
    folder: TempDir,
}

impl Volume {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let volume = Self { folder };
        std::fs::File::create(volume.image())?.set_len(VOLUME_BYTES)?;
        std::fs::create_dir(volume.mounted())?;
        run(Command::new("mkfs.ext4").arg("-q").arg(volume.image()))?;
        volume.mount()?;
        Ok(volume)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn mounted(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    fn mount(&self) -> anyhow::Result<()> {
        let mut mount = Command::new("mount");
        run(mount
            .args(["-o", "loop"])
            .arg(self.image())
            .arg(self.mounted()))
    }

    fn unmount(&self) -> anyhow::Result<()> {
        run(Command::new("umount").arg(self.mounted()))
    }

    fn shut_down(&self) -> anyhow::Result<()> {
        run(Command::new("python3")
            .args(["-c", SHUT_DOWN])
            .arg(self.mounted()))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Waits until the process is stopped: until then it may still be writing.
async fn stopped(pid: u32) -> anyhow::Result<()> {
    let state = || std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    while !state()?.contains(") T ") {
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs root, ext4, a loop device and Python"]
async fn nothing_acknowledged_is_lost_when_all_nodes_lose_their_power() -> anyhow::Result<()> {
    let cuts = std::env::var("HIKYAKU_CUTS").ok();
    let cuts = cuts.map_or(Ok(DEFAULT_CUTS), |text| text.parse())?;
    let volume = Volume::new()?;
    let mut servers = Server::cluster(3)?;
    for (node, server) in servers.iter_mut().enumerate() {
        server.place(volume.mounted().join(node.to_string()));
    }
    futures_util::future::try_join_all(servers.iter_mut().map(Server::restart)).await?;
    let router = Server::start_router(&servers).await?;
    let witnesses = Witnesses::start(router.address()).await?;
    let busy = ["a", "b", "c"].map(|name| witnesses.busy(name));
    let mut moments = Vec::new();
    for _ in 0..cuts {
        sleep(BETWEEN).await;
        for server in &servers {
            server.pause(true)?;
        }
        for server in &servers {
            stopped(server.pid()).await?;
        }
        moments.push(witnesses.now_us());
        volume.shut_down()?;
        for server in &mut servers {
            server.kill()?;
        }
        volume.unmount()?;
        volume.mount()?;
        futures_util::future::try_join_all(servers.iter_mut().map(Server::restart)).await?;
    }
    for busy in busy {
        busy.stop().await?;
    }
    let idle = moments.iter().filter(|at| witnesses.under_way(**at) == 0);
    ensure!(
        idle.count() == 0,
        "nothing was under way when the power went"
    );
    println!("{cuts} power cuts: {}", witnesses.summary());
    witnesses.settle().await
}
