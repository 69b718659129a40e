//! What an operator does to a running cluster, with the commands that an operator has.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use hikyaku_cluster_tests::black_box::{Rule, assert_kept, judge};
use hikyaku_cluster_tests::client::Connection;
use hikyaku_cluster_tests::history::lines;
use hikyaku_cluster_tests::operator::{Answer, operate};
use hikyaku_cluster_tests::process::{self, Server};
use hikyaku_cluster_tests::recorder::{Recorder, Target};
use hikyaku_cluster_tests::workload::{Client, Consumption, Dial, Production, Progress};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// For replicas to move, and for a queue to be emptied, on a slow machine.
const DEADLINE: Duration = Duration::from_secs(240);

/// Messages of one producer between two looks at whether the test is done.
const ROUND: usize = 100;

const PRODUCERS: usize = 2;
const GROUPS: usize = 20;

const EXERCISED: [Rule; 6] = [
    Rule::AcknowledgedSend,
    Rule::Phantom,
    Rule::Delete,
    Rule::GroupOrder,
    Rule::ReceiveCount,
    Rule::Counts,
];

/// Dials the nodes that are there, in turn.
#[derive(Debug, Clone)]
struct Dialer {
    nodes: watch::Receiver<Vec<SocketAddr>>,
    next: Arc<AtomicUsize>,
}

impl Dial for Dialer {
    async fn dial(&self) -> anyhow::Result<Connection> {
        let nodes = self.nodes.borrow().clone();
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        process::connect(nodes[next % nodes.len()]).await
    }
}

/// Producers and consumers of one FIFO queue that go on until they are told to stop.
struct Load {
    dialer: Dialer,
    target: Target,
    progress: Arc<Progress>,
    done: Arc<AtomicBool>,
    producers: JoinSet<()>,
    consumers: JoinSet<()>,
}

impl Load {
    async fn start(nodes: &watch::Sender<Vec<SocketAddr>>) -> anyhow::Result<Self> {
        let first = nodes.borrow()[0];
        let attributes = [("FifoQueue", "true"), ("VisibilityTimeout", "20")];
        // One machine, one wall clock.
        let target = Recorder::new(0)
            .create_queue(
                &mut process::connect(first).await?,
                "load.fifo",
                &attributes,
            )
            .await?;
        let mut load = Self {
            dialer: Dialer {
                nodes: nodes.subscribe(),
                next: Arc::default(),
            },
            target,
            progress: Arc::default(),
            done: Arc::default(),
            producers: JoinSet::new(),
            consumers: JoinSet::new(),
        };
        for producer in 0..PRODUCERS {
            let produce = load.produce(producer);
            load.producers.spawn(produce);
        }
        let consumption = Consumption {
            deleted: 95,
            released: 3,
        };
        let consume = load.client().consume(consumption);
        load.consumers.spawn(consume);
        Ok(load)
    }

    fn client(&self) -> Client<Dialer> {
        let progress = Arc::clone(&self.progress);
        Client::new(self.dialer.clone(), self.target.clone(), progress)
    }

    fn produce(&self, producer: usize) -> impl Future<Output = ()> + Send + 'static {
        let (dialer, target) = (self.dialer.clone(), self.target.clone());
        let (progress, done) = (Arc::clone(&self.progress), Arc::clone(&self.done));
        async move {
            for round in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let client = Client::new(dialer.clone(), target.clone(), Arc::clone(&progress));
                let production = Production {
                    name: format!("p{producer}.{round}"),
                    messages: ROUND,
                    body_bytes: 200,
                    message_groups: GROUPS,
                    pause: Duration::from_millis(50),
                };
                client.produce(production).await;
            }
        }
    }

    /// Ends everybody, empties the queue and judges what they saw.
    async fn settle(self) -> anyhow::Result<()> {
        self.done.store(true, Ordering::Relaxed);
        let mut client = self.client();
        tokio::time::timeout(DEADLINE, self.producers.join_all()).await?;
        self.progress.stop();
        tokio::time::timeout(DEADLINE, self.consumers.join_all()).await?;
        let drained = client.drain(DEADLINE).await;
        let history = self.target.recorder.history();
        drained.with_context(|| lines::kept(&history))?;
        assert_kept(&history);
        let missed = judge(&history).not_exercised();
        let shown = |rule: &Rule| !missed.contains(rule);
        assert!(EXERCISED.iter().all(shown), "{missed:?} not exercised");
        Ok(())
    }
}

fn admins<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Vec<SocketAddr> {
    servers.into_iter().map(Server::admin).collect()
}

fn addresses(servers: &[Server]) -> Vec<SocketAddr> {
    servers.iter().map(Server::address).collect()
}

/// Waits until the cluster is well, nothing moves, and every node has replicas.
async fn settled(nodes: &[SocketAddr], count: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let Answer { code, shown, said } = operate(nodes, &["cluster", "status"]).await?;
        let listed = operate(nodes, &["node", "list"]).await?.shown;
        let listed = listed.as_array().cloned().unwrap_or_default();
        let holds = |node: &Value| node["replicas"].as_u64().is_some_and(|it| it > 0);
        let whole = listed.len() == count && listed.iter().all(holds);
        if code == 0 && shown["moving"] == 0 && whole {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "not settled: {shown:#} {listed:#?} {said}"
        );
        sleep(Duration::from_millis(500)).await;
    }
}

/// Two nodes join three, then two of the three are taken out, the metadata's leader first: nothing is
/// lost or comes twice meanwhile, and who was taken out is not let in again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_grows_and_shrinks_under_load() -> anyhow::Result<()> {
    let mut servers = Server::start_cluster(3).await?;
    let nodes = watch::Sender::new(addresses(&servers));
    let load = Load::start(&nodes).await?;

    for _ in 0..2 {
        let joining = Server::start_joining(&servers).await?;
        servers.push(joining);
    }
    nodes.send_replace(addresses(&servers));
    settled(&admins(&servers), 5).await?;

    let mut gone = Vec::new();
    for _ in 0..2 {
        let groups = operate(&admins(&servers), &["partition", "list"])
            .await?
            .well()?;
        let listed = operate(&admins(&servers), &["node", "list"])
            .await?
            .well()?;
        let leader = &groups[0]["leader"];
        let leads = |server: &Server| {
            let listed = listed.as_array().into_iter().flatten();
            let mut of = listed.filter(|node| node["address"] == server.peer_address().unwrap());
            of.any(|node| node["node"] == *leader)
        };
        let founders = 3 - gone.len();
        let place = servers[..founders].iter().position(leads).unwrap_or(0);
        let mut server = servers.remove(place);
        // Whoever is asked: the node itself too, as long as it is there.
        let asked = [vec![server.admin()], admins(&servers)].concat();
        let address = server.peer_address().context("it has peers")?;
        let command = [
            "node",
            "decommission",
            address,
            "--wait",
            "--timeout",
            "240",
        ];
        let answer = operate(&asked, &command).await?.well()?;
        assert_eq!(answer["state"], "decommissioned");
        assert_eq!(answer["replicas"], 0);
        assert!(!server.ended().await?.success(), "it ends, and says why");
        nodes.send_replace(addresses(&servers));
        gone.push(server);
    }
    settled(&admins(&servers), 3).await?;
    load.settle().await?;

    for mut server in gone {
        server.launch()?;
        assert!(!server.ended().await?.success());
        let log = server.log_tail();
        assert!(log.contains("was decommissioned"), "{log}");
        // Asked for again, it is what it is.
        let address = server.peer_address().context("it has peers")?;
        let again = ["node", "decommission", address];
        let answer = operate(&admins(&servers), &again).await?.well()?;
        assert_eq!(answer["state"], "decommissioned");
    }
    Ok(())
}

/// A cluster of as many nodes as replicas gives none away, and what was begun can be taken back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_and_what_is_so_stays_so() -> anyhow::Result<()> {
    let servers = Server::start_cluster(3).await?;
    let nodes = admins(&servers);
    settled(&nodes, 3).await?;
    let address = servers[0].peer_address().context("it has peers")?;

    let refused = operate(&nodes, &["node", "decommission", address]).await?;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.said.contains("2 storage nodes are left"),
        "{refused:?}"
    );
    let unknown = operate(&nodes, &["node", "cordon", "127.0.0.1:1"]).await?;
    assert_eq!(unknown.code, 1, "{unknown:?}");

    for (command, state) in [("cordon", "cordoned"), ("uncordon", "active")] {
        for _ in 0..2 {
            let answer = operate(&nodes[1..], &["node", command, address]).await?;
            assert_eq!(answer.well()?["state"], state);
        }
    }
    let replication = operate(&nodes, &["cluster", "replication", "9"]).await?;
    assert_eq!(replication.code, 1, "{replication:?}");
    Ok(())
}

/// One node of three is gone: the cluster says so, and where.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_is_told_of() -> anyhow::Result<()> {
    let mut servers = Server::start_cluster(3).await?;
    settled(&admins(&servers), 3).await?;
    servers[0].kill()?;
    let deadline = Instant::now() + DEADLINE;
    let silent = format!("at {} does not answer", servers[0].peer_address().unwrap());
    loop {
        let answer = operate(&[servers[1].admin()], &["cluster", "status"]).await?;
        let troubles = answer.shown["troubles"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        // The others elect leaders meanwhile.
        if let [trouble] = &*troubles {
            assert!(
                trouble.as_str().is_some_and(|it| it.contains(&silent)),
                "{trouble}"
            );
            assert_eq!(answer.code, 3);
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{answer:?}");
        sleep(Duration::from_millis(200)).await;
    }
}

/// Where there is a token, nothing is told without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_token_nothing_is_told() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str, token: &str| -> anyhow::Result<String> {
        let path = folder.path().join(name);
        fs::write(&path, token)?;
        Ok(path.display().to_string())
    };
    let right = file("right", "cGxhbnRlZC10b2tlbi1vZi10aGUtdGVzdHM\n")?;
    let wrong = file("wrong", "cGxhbnRlZC10b2tlbi1vZi10aGUtdGVzdHm\n")?;
    let mut server = Server::start_with(&["--admin-token-file", &right]).await?;
    let nodes = [server.admin()];
    let status = ["cluster", "status"];
    let refused = operate(&nodes, &status).await?;
    let mistaken = operate(&nodes, &[&status[..], &["--token-file", &wrong]].concat()).await?;
    for answer in [refused, mistaken] {
        assert_eq!(
            (answer.code, &answer.shown),
            (1, &Value::Null),
            "{answer:?}"
        );
        assert!(
            answer.said.contains("wants the operator's token"),
            "{answer:?}"
        );
    }
    let told = operate(&nodes, &[&status[..], &["--token-file", &right]].concat()).await?;
    assert_eq!(told.well()?["nodes"], 1);
    server.terminate().await?;
    let log = server.log_tail();
    assert!(!log.contains("cGxhbnRlZC10b2tlbi"), "{log}");
    Ok(())
}

/// With a certificate the operator's port shows it, as that of clients does, and nobody else's will do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_clients_speak_tls_operators_do() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let pair = |name: &str| -> anyhow::Result<[String; 2]> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let [cert, key] = ["crt", "key"].map(|end| folder.path().join(format!("{name}.{end}")));
        fs::write(&cert, made.cert.pem())?;
        fs::write(&key, made.signing_key.serialize_pem())?;
        Ok([cert, key].map(|path| path.display().to_string()))
    };
    let ([cert, key], [other, _]) = (pair("own")?, pair("other")?);
    let arguments = ["--tls-cert-file", &cert, "--tls-key-file", &key];
    let mut server = Server::alone(&arguments)?;
    server.launch()?;
    server.logged("serving").await?;
    let nodes = [server.admin()];
    let status = ["cluster", "status"];
    let deadline = Instant::now() + DEADLINE;
    loop {
        let told = operate(&nodes, &[&status[..], &["--ca-file", &cert]].concat()).await?;
        if told.code == 0 {
            assert_eq!(told.shown["nodes"], 1);
            break;
        }
        // Until the node has founded its cluster.
        ensure!(Instant::now() < deadline, "{told:?}");
        sleep(Duration::from_millis(100)).await;
    }
    let stranger = operate(&nodes, &[&status[..], &["--ca-file", &other]].concat()).await?;
    let plain = operate(&nodes, &status).await?;
    for answer in [stranger, plain] {
        assert_eq!(
            (answer.code, &answer.shown),
            (1, &Value::Null),
            "{answer:?}"
        );
    }
    server.terminate().await?;
    Ok(())
}
