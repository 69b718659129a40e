//! Who may ask: signed requests, unsigned ones, and those of others.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hikyaku_gateway::Access;
use hikyaku_sqs::action::Action;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};

use crate::harness::{Front, Setup};
use crate::signers::{
    ALICE, BOB, HOST, Signer, Standing, ask, code, form_request, guarded, json_request, now, send,
};

#[tokio::test]
async fn everyone_has_their_own_queues() {
    let front = guarded().await;
    let mut client = front.client().await;
    for signer in [ALICE, BOB] {
        let members = json!({ "QueueName": "orders" });
        let answer = ask(&mut client, signer, "CreateQueue", members).await;
        let url = format!("http://{HOST}/{}/orders", signer.tenant);
        assert!(answer.body.contains(&url), "{answer:?}");
    }
    let bobs = json!({ "QueueUrl": format!("http://{HOST}/{}/orders", BOB.tenant) });
    let answer = ask(&mut client, BOB, "PurgeQueue", bobs.clone()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = ask(&mut client, ALICE, "PurgeQueue", bobs).await;
    let missing = (400, "AWS.SimpleQueueService.NonExistentQueue");
    assert_eq!(code(&answer), missing);
    let answer = ask(
        &mut client,
        BOB,
        "DeleteQueue",
        json!({ "QueueUrl": "orders" }),
    )
    .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = ask(&mut client, BOB, "ListQueues", json!({})).await;
    assert_eq!(answer.body, "{}");
    let answer = ask(&mut client, ALICE, "ListQueues", json!({})).await;
    assert!(answer.body.contains("/000000000000/orders"), "{answer:?}");
}

#[tokio::test]
async fn nothing_but_the_operators_pages_is_open() {
    let front = guarded().await;
    let mut client = front.client().await;
    for page in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(client.get(page).await.status, 200, "{page}");
    }
    let targets = Action::ALL.iter().map(|action| action.name());
    for target in targets.chain(["Nonsense"]) {
        let answer = send(&mut client, json_request(target, &json!({}))).await;
        assert_eq!(
            code(&answer),
            (403, "MissingAuthenticationToken"),
            "{target}"
        );
    }
    let names = Action::ALL.iter().map(|action| action.name());
    for name in names.chain(["Nonsense", "GetCallerIdentity"]) {
        let form = format!("Action={name}");
        let posted = send(&mut client, form_request(&form)).await;
        let got = client.get(&format!("/?{form}")).await;
        for answer in [posted, got] {
            assert_eq!(answer.status, 403, "{name}");
            let code = "<Code>MissingAuthenticationToken</Code>";
            assert!(answer.body.contains(code), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_signature_has_to_be_good() {
    let front = guarded().await;
    let mut client = front.client().await;
    let mut refusal = async |signer: Signer, time: SystemTime| {
        let mut request = json_request("ListQueues", &json!({}));
        signer.sign("sqs", time, &mut request);
        let answer = send(&mut client, request).await;
        let (status, code) = code(&answer);
        (status, code.to_owned())
    };
    let refused = |status, code: &str| (status, code.to_owned());
    let stranger = Signer {
        id: "AKIAMALLORY",
        ..ALICE
    };
    assert_eq!(
        refusal(stranger, now()).await,
        refused(403, "InvalidClientTokenId")
    );
    let guesser = Signer {
        secret: BOB.secret,
        ..ALICE
    };
    assert_eq!(
        refusal(guesser, now()).await,
        refused(403, "SignatureDoesNotMatch")
    );
    let tokenless = Signer { token: None, ..BOB };
    assert_eq!(
        refusal(tokenless, now()).await,
        refused(403, "InvalidClientTokenId")
    );
    let late = now() + Duration::from_secs(901);
    assert_eq!(refusal(ALICE, late).await, refused(400, "RequestExpired"));

    let mut request = json_request("ListQueues", &json!({}));
    ALICE.sign("sqs", now(), &mut request);
    let target = "AmazonSQS.CreateQueue".parse().unwrap();
    request.headers_mut().insert("X-Amz-Target", target);
    let answer = send(&mut client, request).await;
    assert_eq!(code(&answer), (403, "SignatureDoesNotMatch"));
}

#[tokio::test]
async fn the_region_counts_where_it_is_strict() {
    let region = Some("eu-south-2".to_owned());
    let access = Access::of_keys([ALICE.key()], region, Arc::new(Standing));
    let setup = Setup {
        access,
        ..Setup::default()
    };
    let front = Front::start_as(setup).await;
    let mut client = front.client().await;
    let answer = ask(&mut client, ALICE, "ListQueues", json!({})).await;
    assert_eq!(code(&answer), (403, "SignatureDoesNotMatch"));
    assert!(answer.body.contains("valid region"), "{answer:?}");
}

#[tokio::test]
async fn a_strangers_body_is_not_waited_for() {
    let front = guarded().await;
    let mut io = front.connect();
    let mut request = json_request("SendMessage", &json!({}));
    let stranger = Signer {
        id: "AKIAMALLORY",
        ..ALICE
    };
    stranger.sign("sqs", now(), &mut request);
    let mut head = "POST / HTTP/1.1\r\nContent-Length: 1000000\r\n".to_owned();
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    io.write_all(format!("{head}\r\n{{").as_bytes())
        .await
        .unwrap();
    let mut answer = [0; 12];
    io.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 403");
}

#[tokio::test]
async fn tells_callers_who_they_are() {
    let front = guarded().await;
    let mut client = front.client().await;
    let form = "Action=GetCallerIdentity&Version=2011-06-15";
    let mut request = form_request(form);
    BOB.sign("sts", now(), &mut request);
    let answer = send(&mut client, request).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer.body.contains("<Account>123456789012</Account>"),
        "{answer:?}"
    );

    // Neither service's signature opens the other.
    for (service, form) in [
        ("sqs", form),
        ("sts", "Action=ListQueues&Version=2012-11-05"),
    ] {
        let mut request = form_request(form);
        BOB.sign(service, now(), &mut request);
        let answer = send(&mut client, request).await;
        assert_eq!(answer.status, 403, "{service} for {form}");
        assert!(
            answer.body.contains("<Code>SignatureDoesNotMatch</Code>"),
            "{answer:?}"
        );
    }
    let mut request = json_request("ListQueues", &json!({}));
    BOB.sign("sts", now(), &mut request);
    let answer = send(&mut client, request).await;
    assert_eq!(code(&answer), (403, "SignatureDoesNotMatch"));

    let open = Front::start().await;
    let answer = send(&mut open.client().await, form_request(form)).await;
    assert!(
        answer.body.contains("<Account>000000000000</Account>"),
        "{answer:?}"
    );
}

/// Everything that was logged.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logged {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn secrets_are_in_no_log_metric_or_answer() {
    let logged = Logged::default();
    // For the whole process: which events are wanted is remembered per place in the code, and another
    // test's thread may be the first to come there.
    let lines = tracing_subscriber::fmt::layer().with_writer(logged.clone());
    let wanted = Targets::new()
        .with_default(LevelFilter::TRACE)
        .with_target("openraft", LevelFilter::INFO);
    let subscriber = Registry::default().with(lines.with_filter(wanted));
    tracing::subscriber::set_global_default(subscriber).expect("no other test sets one");
    let front = guarded().await;
    let mut client = front.client().await;
    let mut told = String::new();
    let guesser = Signer {
        secret: ALICE.secret,
        ..BOB
    };
    let stranger = Signer {
        token: BOB.token,
        ..ALICE
    };
    let mut signatures = Vec::new();
    for signer in [ALICE, BOB, guesser, stranger] {
        let mut request = json_request("ListQueues", &json!({}));
        signer.sign("sqs", now(), &mut request);
        let authorization = request.headers()["authorization"].to_str().unwrap();
        signatures.push(authorization.rsplit_once('=').unwrap().1.to_owned());
        let answer = send(&mut client, request).await;
        told.push_str(&format!("{answer:?}"));
    }
    told.push_str(&client.get("/metrics").await.body);
    let logged = String::from_utf8(logged.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("not authenticated"), "{logged}");
    let planted = [ALICE.secret, BOB.secret, BOB.token.unwrap()];
    for planted in planted
        .into_iter()
        .chain(signatures.iter().map(String::as_str))
    {
        assert!(!told.contains(planted), "{told}");
        assert!(!logged.contains(planted), "{logged}");
    }
}
