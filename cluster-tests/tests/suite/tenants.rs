//! Tenants and access keys, from an operator's command to what a client is answered by each node.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_sqs::error::ProvideErrorMetadata;
use hikyaku_cluster_tests::operator::{Answer, operate};
use hikyaku_cluster_tests::process::Server;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// For what a second is promised, on a machine that does other things as well.
const DEADLINE: Duration = Duration::from_secs(120);

const REFUSED: Option<&str> = Some("InvalidClientTokenId");

/// Three nodes and a router that believe nobody but those whom an operator gave a key.
struct Cluster {
    servers: Vec<Server>,
    _keys: TempDir,
}

/// A tenant's key.
#[derive(Clone)]
struct Key {
    id: String,
    secret: String,
}

impl Cluster {
    async fn start() -> anyhow::Result<Self> {
        let keys = tempfile::tempdir()?;
        let file = keys.path().join("sealing");
        let digits: String = (0..64).map(|byte| format!("{byte:02x}")).collect();
        fs::write(&file, digits)?;
        let mut servers = Server::cluster(3)?;
        servers.push(Server::routing(&servers)?);
        for server in &mut servers {
            server.believe_keys(&file)?;
        }
        let mut cluster = Self {
            servers,
            _keys: keys,
        };
        cluster.restart().await?;
        Ok(cluster)
    }

    async fn restart(&mut self) -> anyhow::Result<()> {
        let starts = self.servers.iter_mut().map(Server::restart);
        futures_util::future::try_join_all(starts).await?;
        Ok(())
    }

    async fn operate(&self, arguments: &[&str]) -> anyhow::Result<Answer> {
        let admins: Vec<SocketAddr> = self.servers.iter().map(Server::admin).collect();
        operate(&admins, arguments).await
    }

    async fn key(&self, tenant: &str) -> anyhow::Result<Key> {
        let made = self.operate(&["key", "create", tenant]).await?.well()?;
        let text = |name: &str| made[name].as_str().map(str::to_owned);
        Ok(Key {
            id: text("access_key_id").context("a key has an id")?,
            secret: text("secret").context("a key is shown once")?,
        })
    }

    /// Waits until every server answers the key so.
    async fn until_all(&self, key: &Key, code: Option<&str>) -> anyhow::Result<()> {
        let begun = Instant::now();
        for server in &self.servers {
            let client = client(server, key);
            loop {
                let answered = answered(&client).await;
                if answered.as_deref() == code {
                    break;
                }
                ensure!(begun.elapsed() < DEADLINE, "{answered:?} and not {code:?}");
                sleep(Duration::from_millis(10)).await;
            }
        }
        Ok(())
    }

    /// Changes something, and waits until every server answers the key so.
    async fn changed(
        &self,
        arguments: &[&str],
        key: &Key,
        code: Option<&str>,
    ) -> anyhow::Result<()> {
        let answer = self.operate(arguments).await?;
        ensure!(answer.code == 0, "{arguments:?}: {}", answer.said);
        self.until_all(key, code).await
    }
}

fn client(server: &Server, key: &Key) -> Client {
    let credentials = Credentials::new(&*key.id, &*key.secret, None, None, "tests");
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(credentials)
        .retry_config(RetryConfig::disabled())
        .endpoint_url(format!("http://{}", server.address()))
        .build();
    Client::from_conf(config)
}

/// The code with which a client is refused, if it is.
async fn answered(client: &Client) -> Option<String> {
    let refused = client.list_queues().send().await.err()?;
    Some(refused.code().unwrap_or("no code").to_owned())
}

fn files_in(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => files_in(&path, found)?,
            false => found.push(path),
        }
    }
    Ok(())
}

/// Whether any of these texts is in a file of the server.
fn leaked(server: &Server, texts: &[&str]) -> anyhow::Result<Option<PathBuf>> {
    let mut files = Vec::new();
    files_in(server.folder(), &mut files)?;
    ensure!(!files.is_empty(), "a server writes something");
    for file in files {
        let mut bytes = fs::read(&file)?;
        let used = bytes.iter().rposition(|byte| *byte != 0);
        bytes.truncate(used.map_or(0, |last| last + 1));
        let holds = |text: &&str| bytes.windows(text.len()).any(|it| it == text.as_bytes());
        if texts.iter().any(holds) {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_come_and_go_at_every_node_and_router() -> anyhow::Result<()> {
    let mut cluster = Cluster::start().await?;
    let made = cluster
        .operate(&["tenant", "create", "acme"])
        .await?
        .well()?;
    let again = cluster
        .operate(&["tenant", "create", "acme"])
        .await?
        .well()?;
    ensure!(made["tenant"] == again["tenant"], "{made} {again}");
    let id = made["tenant"].as_str().context("a tenant has an id")?;
    cluster
        .operate(&["tenant", "create", "other"])
        .await?
        .well()?;
    let (key, other) = (cluster.key("acme").await?, cluster.key("other").await?);
    cluster.until_all(&key, None).await?;
    cluster.until_all(&other, None).await?;

    let queue = client(&cluster.servers[3], &key)
        .create_queue()
        .queue_name("orders");
    let url = queue.send().await?.queue_url.context("a queue has a URL")?;
    ensure!(url.ends_with(&format!("/{id}/orders")), "{url}");
    let stranger = client(&cluster.servers[0], &other);
    let sent = stranger.send_message().queue_url(&url).message_body("m");
    let missing = sent.send().await.err().context("it is not theirs")?;
    let code = missing.code().unwrap_or_default();
    ensure!(code == "AWS.SimpleQueueService.NonExistentQueue", "{code}");

    cluster
        .changed(&["key", "disable", &key.id], &key, REFUSED)
        .await?;
    cluster
        .changed(&["key", "enable", &key.id], &key, None)
        .await?;
    cluster
        .changed(&["tenant", "suspend", "acme"], &key, REFUSED)
        .await?;
    cluster.until_all(&other, None).await?;
    cluster
        .changed(&["tenant", "resume", id], &key, None)
        .await?;

    cluster.operate(&["key", "disable", &other.id]).await?;
    for server in &mut cluster.servers {
        server.terminate().await?;
    }
    for server in &cluster.servers {
        let leaked = leaked(
            server,
            &[&key.secret, &other.secret, "000102030405060708090a"],
        )?;
        ensure!(leaked.is_none(), "a secret is in {leaked:?}");
    }
    cluster.restart().await?;
    cluster.until_all(&key, None).await?;
    cluster.until_all(&other, REFUSED).await?;
    let keys = cluster.operate(&["key", "list"]).await?.well()?;
    ensure!(keys.as_array().is_some_and(|it| it.len() == 2), "{keys}");
    ensure!(!keys.to_string().contains("secret"), "{keys}");
    cluster
        .changed(&["key", "delete", &key.id], &key, REFUSED)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_tenant_leaves_nothing_and_its_id_is_not_given_again() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let id = "123456789012";
    let create = ["tenant", "create", "gone", "--id", id];
    cluster.operate(&create).await?.well()?;
    let key = cluster.key(id).await?;
    cluster.until_all(&key, None).await?;
    let client = client(&cluster.servers[0], &key);
    for name in ["one", "two"] {
        client.create_queue().queue_name(name).send().await?;
    }
    let unsure = cluster.operate(&["tenant", "delete", "gone"]).await?;
    ensure!(
        unsure.code == 1 && unsure.said.contains("--yes"),
        "{unsure:?}"
    );
    cluster.until_all(&key, None).await?;
    cluster
        .changed(&["tenant", "delete", "gone", "--yes"], &key, REFUSED)
        .await?;
    let begun = Instant::now();
    loop {
        let tenants = cluster
            .operate(&["tenant", "list", "--all"])
            .await?
            .well()?;
        let mut all = tenants.as_array().context("a list")?.iter();
        let gone = all.find(|it| it["tenant"] == id).context("it is known")?;
        if gone["state"] == "deleted" {
            ensure!(gone["queues"] == 0 && gone["keys"] == 0, "{gone}");
            break;
        }
        ensure!(begun.elapsed() < DEADLINE, "{gone}");
        sleep(Duration::from_millis(50)).await;
    }
    let again = cluster.operate(&create).await?;
    ensure!(
        again.code == 1 && again.said.contains("not given twice"),
        "{again:?}"
    );
    let default = cluster.operate(&["tenant", "suspend", "default"]).await?;
    ensure!(default.code == 1, "{default:?}");
    let unknown = cluster.operate(&["key", "create", "nobody"]).await?;
    ensure!(
        unknown.code == 1 && unknown.said.contains("nobody"),
        "{unknown:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sealing_key_an_operator_is_told_what_to_set() -> anyhow::Result<()> {
    let server = Server::start().await?;
    let admin = [server.admin()];
    operate(&admin, &["tenant", "create", "acme"])
        .await?
        .well()?;
    let refused = operate(&admin, &["key", "create", "acme"]).await?;
    let told = refused.said.contains("auth.sealing_key_file");
    ensure!(refused.code == 1 && told, "{refused:?}");
    Ok(())
}
