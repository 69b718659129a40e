//! The links between the nodes of a cluster, each of which can be cut in either direction.
//!
//! Every node advertises the address of a proxy here, so that all that others say to it, and all
//! that it answers, passes through. A cut link is silent as a network is: bytes wait, nobody is told.
//! Which node opened a connection is found as the machine knows it: by the process that holds the
//! other end (Linux's `/proc`).

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What passes a proxy in one piece.
const PIECE_BYTES: usize = 64 * 1024;

/// The links of one cluster. They end with this value.
#[derive(Debug)]
pub struct Links {
    state: watch::Sender<State>,
    proxies: JoinSet<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The processes of the nodes.
    pids: Vec<Option<u32>>,
    /// Where the first node's bytes do not reach the second.
    cuts: BTreeSet<(usize, usize)>,
}

impl State {
    /// Whether bytes go from one process to another. Those that are no nodes' have no links.
    fn passes(&self, from: End, to: End) -> bool {
        let node = |end| match end {
            End::Node(node) => Some(node),
            End::Process(pid) => self.pids.iter().position(|it| *it == Some(pid)),
        };
        match (node(from), node(to)) {
            (Some(from), Some(to)) => !self.cuts.contains(&(from, to)),
            _ => true,
        }
    }
}

/// One end of a connection.
#[derive(Debug, Clone, Copy)]
enum End {
    Node(usize),
    Process(u32),
}

impl Links {
    /// Proxies on these listeners, each for the node that listens on the address beside it.
    pub fn open(proxies: Vec<(TcpListener, SocketAddr)>) -> Self {
        let state = State {
            pids: vec![None; proxies.len()],
            cuts: BTreeSet::new(),
        };
        let state = watch::Sender::new(state);
        let mut tasks = JoinSet::new();
        for (node, (listener, target)) in proxies.into_iter().enumerate() {
            tasks.spawn(serve(listener, node, target, state.clone()));
        }
        Self {
            state,
            proxies: tasks,
        }
    }

    /// How many nodes they join.
    pub fn nodes(&self) -> usize {
        self.proxies.len()
    }

    /// Tells that this process is the node now.
    pub fn run_by(&self, node: usize, pid: u32) {
        self.state.send_modify(|state| state.pids[node] = Some(pid));
    }

    /// What the node says reaches nobody.
    pub fn mute(&self, node: usize) {
        let others = (0..self.nodes()).filter(|other| *other != node);
        let cuts = others.map(|other| (node, other));
        self.state.send_modify(|state| state.cuts.extend(cuts));
    }

    /// The node hears nobody.
    pub fn deafen(&self, node: usize) {
        let others = (0..self.nodes()).filter(|other| *other != node);
        let cuts = others.map(|other| (other, node));
        self.state.send_modify(|state| state.cuts.extend(cuts));
    }

    /// All links are whole again.
    pub fn heal(&self) {
        self.state.send_modify(|state| state.cuts.clear());
    }
}

async fn serve(
    listener: TcpListener,
    node: usize,
    target: SocketAddr,
    state: watch::Sender<State>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, from)) = accepted {
                    let to = listener.local_addr();
                    let state = state.subscribe();
                    connections.spawn(async move {
                        // A connection that cannot be joined is closed, as by a dead node.
                        let _ = join(stream, from, to?, node, target, state).await;
                        io::Result::Ok(())
                    });
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn join(
    stream: TcpStream,
    from: SocketAddr,
    to: SocketAddr,
    node: usize,
    target: SocketAddr,
    state: watch::Receiver<State>,
) -> io::Result<()> {
    let opener = tokio::task::spawn_blocking(move || holder_of(from, to)).await?;
    let opener = opener.map_or(End::Process(0), End::Process);
    let node = End::Node(node);
    let onward = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    onward.set_nodelay(true)?;
    let (near_read, near_write) = stream.into_split();
    let (far_read, far_write) = onward.into_split();
    tokio::select! {
        ended = pump(near_read, far_write, opener, node, state.clone()) => ended,
        ended = pump(far_read, near_write, node, opener, state) => ended,
    }
}

/// Carries what `from` says to `to`, while their link is whole. Ends with the connection.
async fn pump(
    mut source: OwnedReadHalf,
    mut sink: OwnedWriteHalf,
    from: End,
    to: End,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = source.read(&mut piece).await?;
        let passes = |state: &State| state.passes(from, to);
        if state.wait_for(passes).await.is_err() || read == 0 {
            return Ok(());
        }
        sink.write_all(&piece[..read]).await?;
    }
}

/// The process that holds the connection from `local` to `remote`.
fn holder_of(local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let inode = inode_of(local, remote)?;
    let wanted = format!("socket:[{inode}]");
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        let mut links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        if links.any(|link| link == Path::new(&wanted)) {
            return Some(pid);
        }
    }
    None
}

/// The inode of a socket, as `/proc/net/tcp` has it: addresses in hexadecimal, IPv4 in the machine's
/// byte order.
fn inode_of(local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let shown = |address: SocketAddr| {
        let ip = match address {
            SocketAddr::V4(address) => u32::from_ne_bytes(address.ip().octets()),
            SocketAddr::V6(_) => u32::from(Ipv4Addr::UNSPECIFIED),
        };
        format!("{ip:08X}:{:04X}", address.port())
    };
    let (local, remote) = (shown(local), shown(remote));
    let table = std::fs::read_to_string("/proc/net/tcp").ok()?;
    let mut rows = table.lines().skip(1).map(|row| {
        let columns: Vec<&str> = row.split_whitespace().collect();
        columns
    });
    let row = rows.find(|columns| {
        columns.get(1) == Some(&local.as_str()) && columns.get(2) == Some(&remote.as_str())
    })?;
    row.get(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ends that this process holds, joined by a proxy, cut and joined again.
    #[tokio::test]
    async fn a_cut_link_is_silent_and_a_healed_one_delivers() -> io::Result<()> {
        let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let (proxy, node, other) = (bind().await?, bind().await?, bind().await?);
        let (front, behind) = (proxy.local_addr()?, node.local_addr()?);
        let unused = other.local_addr()?;
        let links = Links::open(vec![(proxy, behind), (other, unused)]);
        links.run_by(1, std::process::id());

        let mut near = TcpStream::connect(front).await?;
        let (mut far, _) = node.accept().await?;
        let mut byte = [0];
        near.write_all(b"a").await?;
        far.read_exact(&mut byte).await?;
        assert_eq!(&byte, b"a");

        links.mute(0);
        near.write_all(b"b").await?;
        far.read_exact(&mut byte).await?;
        assert_eq!(&byte, b"b", "only the other direction is cut");
        far.write_all(b"c").await?;
        let silent = std::time::Duration::from_millis(200);
        let heard = tokio::time::timeout(silent, near.read_exact(&mut byte)).await;
        assert!(heard.is_err(), "the link is cut");
        links.heal();
        near.read_exact(&mut byte).await?;
        assert_eq!(&byte, b"c");
        Ok(())
    }
}
