//! Servers that are nodes of one cluster: founders, joiners, routers, and where they reach each other.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

use super::Server;
use crate::links::Links;

/// Ports of nodes among themselves, and how often one is drawn until it is free.
const PORTS: std::ops::Range<u16> = 11_000..20_000;
const PORT_DRAWS: u32 = 1_000;

/// Partitions of a cluster of several nodes: enough that each node leads some.
const PARTITIONS: &str = "6";

const PEERS: &str = "--cluster-peers";
const LISTEN: &str = "--cluster-peer-listen";
const ADVERTISE: &str = "--cluster-advertise";

impl Server {
    /// Starts so many servers that found a cluster together, and waits until all are ready.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_cluster(count: usize) -> anyhow::Result<Vec<Self>> {
        let mut servers = Self::cluster(count)?;
        let starts = servers.iter_mut().map(Self::restart);
        futures_util::future::try_join_all(starts).await?;
        Ok(servers)
    }

    /// Servers that will found a cluster together once all of them are started.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn cluster(count: usize) -> anyhow::Result<Vec<Self>> {
        Self::cluster_on(&vec![Ipv4Addr::LOCALHOST; count])
    }

    /// As [`Server::cluster`], one server for each of these hosts.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn cluster_on(hosts: &[Ipv4Addr]) -> anyhow::Result<Vec<Self>> {
        let held = Ports::hold(hosts)?;
        let nodes = held.addresses.iter().map(|address| (*address, *address));
        Self::nodes(nodes.collect())
    }

    /// Servers that will found a cluster together, all of whose links can be cut.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn linked_cluster(count: usize) -> anyhow::Result<(Vec<Self>, Links)> {
        let hosts = vec![Ipv4Addr::LOCALHOST; count];
        let (proxies, behind) = (Ports::hold(&hosts)?, Ports::hold(&hosts)?.addresses);
        let advertised = proxies.addresses.iter().copied();
        let servers = Self::nodes(advertised.zip(behind.iter().copied()).collect())?;
        let listeners = proxies.listeners.into_iter().map(|listener| {
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)
        });
        let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
        Ok((
            servers,
            Links::open(listeners.into_iter().zip(behind).collect()),
        ))
    }

    /// Nodes that are reached at one address and listen on another.
    fn nodes(nodes: Vec<(SocketAddr, SocketAddr)>) -> anyhow::Result<Vec<Self>> {
        let peers: Vec<String> = nodes
            .iter()
            .map(|(reached, _)| reached.to_string())
            .collect();
        let peers = peers.join(",");
        let of = |(reached, listens): (SocketAddr, SocketAddr)| {
            let arguments = [
                "server",
                "--auth-accept-any-credentials",
                "true",
                "--cluster-partitions",
                PARTITIONS,
                PEERS,
                &peers,
                LISTEN,
                &listens.to_string(),
                ADVERTISE,
                &reached.to_string(),
            ];
            Self::new(arguments.map(str::to_owned).to_vec())
        };
        nodes.into_iter().map(of).collect()
    }

    /// A router of the cluster that `servers` found, started once they are there.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_router(servers: &[Self]) -> anyhow::Result<Self> {
        let mut router = Self::routing(servers)?;
        router.restart().await?;
        Ok(router)
    }

    /// A router of the cluster that `servers` found.
    ///
    /// # Errors
    /// When there is no room for its files.
    pub fn routing(servers: &[Self]) -> anyhow::Result<Self> {
        let mut router = Self::new(of_cluster(servers)?)?;
        router.argue(&["--roles", "router"]);
        Ok(router)
    }

    /// Believes, from its next start on, those alone whose access keys are sealed by the key in this file.
    ///
    /// # Errors
    /// When it does not believe everybody now.
    pub fn believe_keys(&mut self, sealing_key_file: &Path) -> anyhow::Result<()> {
        let mut arguments = self.arguments.iter_mut();
        let everybody = arguments.find(|it| *it == "--auth-accept-any-credentials");
        let flag = everybody.context("it believes somebody already")?;
        let value = arguments.next().context("a flag has a value")?;
        *flag = "--auth-sealing-key-file".to_owned();
        *value = sealing_key_file.display().to_string();
        Ok(())
    }

    /// A node that joins the cluster that `servers` found, started once they are there.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_joining(servers: &[Self]) -> anyhow::Result<Self> {
        let mut joining = Self::joining_on(servers, Ipv4Addr::LOCALHOST)?;
        joining.restart().await?;
        Ok(joining)
    }

    /// A node on this host that will join the cluster that `servers` found.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn joining_on(servers: &[Self], host: Ipv4Addr) -> anyhow::Result<Self> {
        let mut joining = Self::new(of_cluster(servers)?)?;
        let address = hold_port(host)?.local_addr()?.to_string();
        joining.argue(&[LISTEN, &address, ADVERTISE, &address]);
        Ok(joining)
    }

    /// Moves it to another host for the starts to come.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn listen_to_peers_on(&mut self, host: Ipv4Addr) -> anyhow::Result<()> {
        let address = hold_port(host)?.local_addr()?.to_string();
        for flag in [LISTEN, ADVERTISE] {
            let mut arguments = self.arguments.iter_mut();
            arguments.find(|it| *it == flag);
            *arguments.next().context("it has no peers")? = address.clone();
        }
        Ok(())
    }

    /// Where other nodes reach it; `None` for one that is alone, and for a router.
    pub fn peer_address(&self) -> Option<&str> {
        let mut arguments = self.arguments.iter();
        arguments.find(|it| *it == ADVERTISE)?;
        arguments.next().map(String::as_str)
    }
}

/// What a node is told that belongs to the cluster of `servers`.
fn of_cluster(servers: &[Server]) -> anyhow::Result<Vec<String>> {
    let founder = servers.first().context("a node needs a cluster")?;
    let mut arguments = founder.arguments.iter();
    let peers = arguments.position(|it| it == PEERS);
    let peers = peers.and_then(|_| arguments.next());
    let peers = peers.context("a cluster has peers")?;
    let arguments = [
        "server",
        "--auth-accept-any-credentials",
        "true",
        PEERS,
        peers,
    ];
    Ok(arguments.map(str::to_owned).to_vec())
}

/// Ports for nodes, held together so that no two get the same.
struct Ports {
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
}

impl Ports {
    fn hold(hosts: &[Ipv4Addr]) -> io::Result<Self> {
        let listeners = hosts.iter().map(|host| hold_port(*host));
        let listeners: Vec<_> = listeners.collect::<io::Result<_>>()?;
        let addresses = listeners.iter().map(TcpListener::local_addr);
        let addresses = addresses.collect::<io::Result<_>>()?;
        Ok(Self {
            listeners,
            addresses,
        })
    }
}

/// A port for a node that comes back to it: outside the range from which the system draws the ports of
/// outgoing connections, or one of those could have it while the node is down.
fn hold_port(host: Ipv4Addr) -> io::Result<TcpListener> {
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    let draw = |_| {
        let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(61).wrapping_add(drawn);
        (u32::from(PORTS.start) + place % PORTS.len() as u32) as u16
    };
    (0..PORT_DRAWS)
        .map(draw)
        .find_map(|port| TcpListener::bind((host, port)).ok())
        .ok_or_else(|| io::ErrorKind::AddrInUse.into())
}
