//! Nodes that prove to each other who they are, with files of certificates as an operator has them.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use hikyaku_cluster_tests::operator::operate;
use hikyaku_cluster_tests::process::Server;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const CLUSTER: &str = "orders.hikyaku";

const HOSTS: [Ipv4Addr; 3] = [
    Ipv4Addr::new(127, 0, 0, 1),
    Ipv4Addr::new(127, 0, 0, 2),
    Ipv4Addr::new(127, 0, 0, 3),
];

const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);

const DEADLINE: Duration = Duration::from_secs(120);

/// Who signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        Ok(Self(CertifiedIssuer::self_signed(params, key)?))
    }
}

/// The files of one node.
struct Files {
    folder: TempDir,
}

impl Files {
    /// A certificate by `signer` for the cluster and this host, and the authorities to believe.
    fn new(signer: &Authority, host: Ipv4Addr, believed: &[&Authority]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let files = Self { folder };
        files.show(signer, host)?;
        files.believe(believed)?;
        Ok(files)
    }

    fn show(&self, signer: &Authority, host: Ipv4Addr) -> anyhow::Result<()> {
        let names = vec![CLUSTER.to_owned(), host.to_string()];
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.signed_by(&key, &signer.0)?;
        // What is half replaced fits nothing, and is looked at again.
        fs::write(self.path("key"), key.serialize_pem())?;
        fs::write(self.path("cert"), certificate.pem())?;
        Ok(())
    }

    fn believe(&self, authorities: &[&Authority]) -> anyhow::Result<()> {
        let texts: String = authorities.iter().map(|it| it.0.pem()).collect();
        fs::write(self.path("ca"), texts)?;
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn give_to(&self, server: &mut Server) {
        let [cert, key, ca] = ["cert", "key", "ca"].map(|name| self.path(name));
        let text = |path: &Path| path.display().to_string();
        server.argue(&[
            "--cluster-tls-name",
            CLUSTER,
            "--cluster-tls-cert-file",
            &text(&cert),
            "--cluster-tls-key-file",
            &text(&key),
            "--cluster-tls-ca-file",
            &text(&ca),
            "--tls-reload-ms",
            "100",
        ]);
    }
}

async fn start(authority: &Authority) -> anyhow::Result<(Vec<Server>, Vec<Files>)> {
    let mut servers = Server::cluster_on(&HOSTS)?;
    let mut files = Vec::new();
    for (server, host) in servers.iter_mut().zip(HOSTS) {
        let own = Files::new(authority, host, &[authority])?;
        own.give_to(server);
        files.push(own);
    }
    let starts = servers.iter_mut().map(Server::restart);
    futures_util::future::try_join_all(starts).await?;
    Ok((servers, files))
}

/// How many nodes the cluster has, as the first one knows them, and under which names.
async fn names(servers: &[Server]) -> anyhow::Result<Vec<String>> {
    let listed = operate(&[servers[0].admin()], &["node", "list"]).await?;
    let listed = listed.well()?;
    let listed = listed.as_array().context("a list")?.iter();
    let name = listed.map(|node| {
        Ok(node["certificate_name"]
            .as_str()
            .context("a name")?
            .to_owned())
    });
    name.collect()
}

async fn known_as(servers: &[Server], expected: &[Ipv4Addr]) -> anyhow::Result<()> {
    let deadline = Instant::now() + DEADLINE;
    let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    expected.sort();
    loop {
        let found = names(servers).await;
        if found.as_ref().is_ok_and(|found| {
            let mut found = found.clone();
            found.sort();
            found == expected
        }) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{found:?} are not {expected:?}");
        sleep(Duration::from_millis(200)).await;
    }
}

/// Three nodes form a cluster; one whose certificate is another authority's never meets them, nor does
/// one that comes back under another name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_proves_itself_is_of_the_cluster() -> anyhow::Result<()> {
    let authority = Authority::new()?;
    let (mut servers, files) = start(&authority).await?;
    known_as(&servers, &HOSTS).await?;

    let foreign = Authority::new()?;
    let own = Files::new(&foreign, STRANGER, &[&foreign, &authority])?;
    let mut stranger = Server::joining_on(&servers, STRANGER)?;
    own.give_to(&mut stranger);
    stranger.launch()?;
    servers[0].logged("a peer's connection was refused").await?;
    assert!(!stranger.is_ready().await);
    stranger.kill()?;

    // The volume of a node, with a good certificate of another name.
    let mut renamed = servers.pop().context("three")?;
    renamed.kill()?;
    files[2].show(&authority, STRANGER)?;
    renamed.listen_to_peers_on(STRANGER)?;
    renamed.argue(&["--log-level", "info,hikyaku_cluster=debug"]);
    renamed.launch()?;
    renamed
        .logged("the certificate is not for 127.0.0.3")
        .await?;
    assert!(!renamed.is_ready().await);
    renamed.kill()?;
    known_as(&servers, &HOSTS).await
}

/// The authority is replaced while the cluster runs: no node is started again for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_certificates_are_taken_without_a_restart() -> anyhow::Result<()> {
    let (old, new) = (Authority::new()?, Authority::new()?);
    let (mut servers, files) = start(&old).await?;
    known_as(&servers, &HOSTS).await?;
    for (own, host) in files.iter().zip(HOSTS) {
        own.believe(&[&old, &new])?;
        own.show(&new, host)?;
    }
    for server in &servers {
        server.logged("credentials among nodes renewed").await?;
    }
    // Who comes now believes the new authority alone: it is ready only if the others show its
    // certificates.
    servers[2].kill()?;
    files[2].believe(&[&new])?;
    // Its pair may have been looked at between the two files.
    files[2].show(&new, HOSTS[2])?;
    servers[2].restart().await?;
    let mut other = servers[2].connect().await?;
    other.create_queue("served", &[]).await?;
    Ok(())
}
