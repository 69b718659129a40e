//! How nodes begin and end: what they say while they wait, and what they hand over when they leave.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use hikyaku_cluster_tests::client::{Outgoing, Wanted};
use hikyaku_cluster_tests::operator::operate;
use hikyaku_cluster_tests::process::Server;
use serde_json::Value;
use tokio::time::{Instant, sleep};

const DEADLINE: Duration = Duration::from_secs(120);

fn admins<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Vec<SocketAddr> {
    servers.into_iter().map(Server::admin).collect()
}

/// The server that leads most, once every group is led; and how many groups that are.
async fn most_led(servers: &[Server]) -> anyhow::Result<(usize, u64)> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let nodes = admins(servers);
        let status = operate(&nodes, &["cluster", "status"]).await?;
        let listed = operate(&nodes, &["node", "list"]).await?.well()?;
        let leads = |server: &Server| {
            let mut nodes = listed.as_array().into_iter().flatten();
            let own = nodes.find(|node| node["address"] == server.peer_address().unwrap_or("?"));
            own.and_then(|node| node["leads"].as_u64()).unwrap_or(0)
        };
        let most = servers
            .iter()
            .map(leads)
            .enumerate()
            .max_by_key(|(_, leads)| *leads);
        if let Some((place, leads)) = most
            && status.code == 0
        {
            return Ok((place, leads));
        }
        ensure!(Instant::now() < deadline, "{status:?}");
        sleep(Duration::from_millis(200)).await;
    }
}

async fn send(server: &Server) -> anyhow::Result<()> {
    let mut connection = server.connect().await?;
    let url = connection.create_queue("letters", &[]).await?;
    let letter = Outgoing {
        body: "from Edo to Osaka".to_owned(),
        message_group: None,
        deduplication_id: None,
        delay_seconds: None,
    };
    for sent in connection.send(&url, &[letter]).await? {
        ensure!(sent.is_ok(), "{sent:?}");
    }
    Ok(())
}

/// By an operator's command: a long poll is answered, every leadership is handed over, and the command
/// tells so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_leaves_nothing_behind() -> anyhow::Result<()> {
    let mut servers = Server::start_cluster(3).await?;
    let (place, leads) = most_led(&servers).await?;
    ensure!(leads > 0, "somebody leads");
    let mut leaving = servers.remove(place);

    let mut connection = leaving.connect().await?;
    let url = connection.create_queue("empty", &[]).await?;
    let poll = tokio::spawn(async move {
        let wanted = Wanted {
            max: 1,
            visibility_timeout: None,
            wait: Some(20),
        };
        connection.receive(&url, wanted).await
    });

    let report = operate(&[leaving.admin()], &["drain", "--timeout", "20"])
        .await?
        .well()?;
    assert_eq!(
        report["left"],
        Value::from(Vec::<String>::new()),
        "{report}"
    );
    assert_eq!(report["connections_left"], 0);
    // What it led it led when it was looked at; a leadership may have moved since.
    assert!(report["handed_over"].as_u64() > Some(0), "{report}");
    assert_eq!(poll.await??.len(), 0, "answered, though with nothing");
    assert!(leaving.ended().await?.success());

    send(&servers[0]).await?;
    let groups = operate(&admins(&servers), &["partition", "list"])
        .await?
        .well()?;
    for group in groups.as_array().context("a list")? {
        assert!(group["leader"].is_string(), "{group}");
    }
    Ok(())
}

/// By SIGTERM the same, and the log tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_node_says_what_it_handed_over() -> anyhow::Result<()> {
    let mut servers = Server::start_cluster(3).await?;
    let (place, _) = most_led(&servers).await?;
    let mut leaving = servers.remove(place);
    assert!(leaving.terminate().await?.success());
    let log = leaving.log_tail();
    assert!(
        log.contains("left the cluster in order") && log.contains("left=[]"),
        "{log}"
    );
    send(&servers[0]).await
}

/// A node that lacks the others says whom, to whoever asks, and asks clients to come again. Founded by
/// hand, it serves, and the others join it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_waits_says_for_whom_and_is_founded_by_hand() -> anyhow::Result<()> {
    let mut servers = Server::cluster(3)?;
    servers[1].launch()?;
    let missing = servers[0]
        .peer_address()
        .context("it has peers")?
        .to_owned();
    let missing = format!("{missing} does not answer");
    let deadline = Instant::now() + DEADLINE;
    let mut connection = loop {
        if let Ok(mut connection) = servers[1].connect().await
            && let Ok((503, text)) = connection.get("/readyz").await
            && text.contains(&missing)
        {
            break connection;
        }
        ensure!(Instant::now() < deadline, "{}", servers[1].log_tail());
        sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(connection.get("/livez").await?.0, 200);
    let refused = connection.create_queue("too-early", &[]).await;
    let refused = refused.err().context("nobody can create it yet")?;
    assert_eq!(refused.code(), Some("ServiceUnavailable"), "{refused:?}");
    let node = [servers[1].admin()];
    let told = operate(&node, &["cluster", "status"]).await?;
    assert!(told.code == 1 && told.said.contains(&missing), "{told:?}");

    let warned = operate(&node, &["cluster", "found"]).await?;
    assert!(
        warned.code == 1 && warned.said.contains("second cluster"),
        "{warned:?}"
    );
    operate(&node, &["cluster", "found", "--force"])
        .await?
        .well()?;
    servers[1].ready().await?;
    let again = operate(&node, &["cluster", "found", "--force"]).await?;
    assert!(
        again.code == 1 && again.said.contains("already"),
        "{again:?}"
    );

    for place in [0, 2] {
        servers[place].restart().await?;
    }
    loop {
        let listed = operate(&node, &["node", "list"]).await?.well()?;
        if listed.as_array().is_some_and(|nodes| nodes.len() == 3) {
            break;
        }
        ensure!(Instant::now() < deadline, "{listed}");
        sleep(Duration::from_millis(200)).await;
    }
    send(&servers[0]).await
}

/// A waiting node ends in order, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_waits_can_be_stopped() -> anyhow::Result<()> {
    let mut servers = Server::cluster(3)?;
    servers[0].launch()?;
    servers[0].logged("waiting to be founded").await?;
    assert!(servers[0].terminate().await?.success());
    servers[0].launch()?;
    servers[0].logged("waiting to be founded").await?;
    let drained = operate(&[servers[0].admin()], &["drain"]).await?;
    drained.well()?;
    assert!(servers[0].ended().await?.success());
    Ok(())
}
