//! A client against a service of few words.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zeroize::Zeroizing;

use super::*;

const BODY: &str = r#"{"QueueName":"q"}"#;

/// Nothing in these tests takes so long, but for the call that is never answered.
const LONG: Duration = Duration::from_secs(60);

fn client(url: &str, ca: Option<&std::path::Path>, patience: Duration) -> Client {
    let credentials = Credentials {
        access_key_id: "id".to_owned(),
        secret: Zeroizing::new("secret".to_owned()),
        session_token: Some(Zeroizing::new("token".to_owned())),
        region: "r".to_owned(),
    };
    let endpoint = Endpoint::parse(url, ca).unwrap();
    Client::new(Arc::new(endpoint), Arc::new(credentials), patience)
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

async fn call(client: &mut Client) -> Result<Bytes, CallError> {
    client.call(Action::CreateQueue, BODY.into()).await
}

/// Reads one request and gives back its head.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    while !read.ends_with(BODY.as_bytes()) {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "a request");
    }
    let head = &read[..read.len() - BODY.len()];
    String::from_utf8(head.to_vec()).unwrap()
}

async fn answer(stream: &mut (impl AsyncWrite + Unpin), head: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

#[tokio::test]
async fn calls_are_signed_and_share_a_connection() {
    let (listener, url) = listen().await;
    let server = async {
        let mut stream = accept(&listener).await;
        for number in ["1", "2"] {
            let head = request(&mut stream).await.to_lowercase();
            for part in [
                "post / http/1.1\r\n",
                "host: 127.0.0.1:",
                "x-amz-target: amazonsqs.createqueue\r\n",
                "x-amz-security-token: token\r\n",
                "authorization: aws4-hmac-sha256 credential=id/",
            ] {
                assert!(head.contains(part), "{part} in {head}");
            }
            answer(&mut stream, "200 OK", number).await;
        }
    };
    let client = async {
        let mut client = client(&url, None, LONG);
        assert_eq!(call(&mut client).await.unwrap(), "1");
        assert_eq!(call(&mut client).await.unwrap(), "2");
    };
    tokio::join!(server, client);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    let (listener, url) = listen().await;
    let server = async {
        for number in ["1", "other", "2"] {
            let mut stream = accept(&listener).await;
            request(&mut stream).await;
            answer(&mut stream, "200 OK", number).await;
        }
    };
    let clients = async {
        let (mut first, mut other) = (client(&url, None, LONG), client(&url, None, LONG));
        assert_eq!(call(&mut first).await.unwrap(), "1");
        // Answered after the first connection was closed.
        assert_eq!(call(&mut other).await.unwrap(), "other");
        assert_eq!(call(&mut first).await.unwrap(), "2");
    };
    tokio::join!(server, clients);
}

#[tokio::test]
async fn a_connection_that_breaks_amid_a_call_leaves_its_effect_unknown() {
    let (listener, url) = listen().await;
    let server = async {
        request(&mut accept(&listener).await).await;
        let mut stream = accept(&listener).await;
        request(&mut stream).await;
        answer(&mut stream, "200 OK\r\nconnection: close", "2").await;
        drop(stream);
        let mut stream = accept(&listener).await;
        request(&mut stream).await;
        answer(&mut stream, "200 OK", "3").await;
    };
    let client = async {
        let mut client = client(&url, None, LONG);
        let error = call(&mut client).await.unwrap_err();
        assert!(matches!(error, CallError::Broken(_)), "{error:?}");
        assert!(!error.had_no_effect());
        assert_eq!(call(&mut client).await.unwrap(), "2");
        assert_eq!(call(&mut client).await.unwrap(), "3");
    };
    tokio::join!(server, client);
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_not_the_next_call_s() {
    let (listener, url) = listen().await;
    let server = async {
        let mut silent = accept(&listener).await;
        request(&mut silent).await;
        let mut stream = accept(&listener).await;
        request(&mut stream).await;
        answer(&mut stream, "200 OK", "2").await;
    };
    let client = async {
        let mut client = client(&url, None, Duration::from_millis(20));
        let error = call(&mut client).await.unwrap_err();
        assert!(matches!(error, CallError::TooSlow(_)), "{error:?}");
        assert!(!error.had_no_effect());
        client.patience = LONG;
        assert_eq!(call(&mut client).await.unwrap(), "2");
    };
    tokio::join!(server, client);
}

#[tokio::test]
async fn refusals_have_the_names_that_sdks_show() {
    let (listener, url) = listen().await;
    let query_code =
        "400 Bad\r\nx-amzn-query-error: AWS.SimpleQueueService.NonExistentQueue;Sender";
    let shape = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"m"}"#;
    let answers = [
        (
            query_code,
            shape,
            "AWS.SimpleQueueService.NonExistentQueue",
            true,
        ),
        ("400 Bad", shape, "QueueDoesNotExist", true),
        ("503 Busy", "<html>", "(status 503)", false),
    ];
    let server = async {
        let mut stream = accept(&listener).await;
        for (head, body, _, _) in answers {
            request(&mut stream).await;
            answer(&mut stream, head, body).await;
        }
    };
    let client = async {
        let mut client = client(&url, None, LONG);
        for (_, _, code, had_no_effect) in answers {
            let error = call(&mut client).await.unwrap_err();
            assert_eq!(error.code(), code);
            assert_eq!(error.had_no_effect(), had_no_effect, "{error}");
        }
    };
    tokio::join!(server, client);
}

#[tokio::test]
async fn https_trusts_the_given_authority_alone() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let stranger = folder.path().join("stranger.pem");
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&stranger, other.cert.pem()).unwrap();

    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));

    let (listener, url) = listen().await;
    let url = url.replace("http:", "https:");
    let server = async {
        let mut stream = acceptor.accept(accept(&listener).await).await.unwrap();
        request(&mut stream).await;
        answer(&mut stream, "200 OK", "secret").await;
        let refused = acceptor.accept(accept(&listener).await).await;
        assert!(refused.is_err(), "the client does not trust it");
    };
    let clients = async {
        let mut trusting = client(&url, Some(&ca), LONG);
        assert_eq!(call(&mut trusting).await.unwrap(), "secret");
        let error = call(&mut client(&url, Some(&stranger), LONG)).await;
        assert!(matches!(error, Err(CallError::Connect(_))), "{error:?}");
    };
    tokio::join!(server, clients);
}
