//! The client against canned answers.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use super::{Connection, Outgoing, Wanted};

/// A connection to a server that gives the same answer to everything.
async fn connection(status: u16, body: &'static str) -> (Connection, JoinHandle<()>) {
    let (ours, theirs) = tokio::io::duplex(4_096);
    let answer = service_fn(move |_| async move {
        let answer = Response::builder()
            .status(status)
            .body(Full::<Bytes>::from(body));
        Ok::<_, Infallible>(answer.unwrap())
    });
    let server = tokio::spawn(async move {
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(theirs), answer)
            .await;
    });
    let connection = Connection::open(ours, "test", Duration::from_secs(5))
        .await
        .unwrap();
    (connection, server)
}

#[tokio::test]
async fn reads_a_message() {
    let (mut connection, _server) = connection(
        200,
        r#"{"Messages":[{"MessageId":"m","ReceiptHandle":"h","Body":"b","MD5OfBody":"x",
            "Attributes":{"ApproximateReceiveCount":"3","MessageGroupId":"g",
            "SequenceNumber":"18446744073709551617"}}]}"#,
    )
    .await;
    let messages = connection
        .receive(
            "q",
            Wanted {
                max: 1,
                ..Wanted::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].receive_count, 3);
    assert_eq!(messages[0].message_group.as_deref(), Some("g"));
    assert_eq!(messages[0].sequence, Some(18_446_744_073_709_551_617));
}

#[tokio::test]
async fn an_absent_list_is_empty() {
    let (mut connection, _server) = connection(200, "{}").await;
    let messages = connection
        .receive(
            "q",
            Wanted {
                max: 1,
                ..Wanted::default()
            },
        )
        .await
        .unwrap();
    assert!(messages.is_empty());
}

#[tokio::test]
async fn each_batch_entry_has_its_own_outcome() {
    let (mut connection, _server) = connection(
        200,
        r#"{"Failed":[{"Id":"e0","Code":"InternalError","SenderFault":false}],
            "Successful":[{"Id":"e1","MessageId":"m","MD5OfMessageBody":"x"}]}"#,
    )
    .await;
    let two = [Outgoing::default(), Outgoing::default()];
    let results = connection.send("q", &two).await.unwrap();
    assert!(!results[0].as_ref().unwrap_err().sender_fault);
    assert_eq!(results[1].as_ref().unwrap().message_id, "m");
}

#[tokio::test]
async fn an_entry_that_is_not_named_once_may_have_had_its_effect() {
    let (mut connection, _server) = connection(
        200,
        r#"{"Successful":[{"Id":"e1","MessageId":"m"}],
            "Failed":[{"Id":"e1","Code":"InvalidParameterValue","SenderFault":true}]}"#,
    )
    .await;
    let two = [Outgoing::default(), Outgoing::default()];
    let results = connection.send("q", &two).await.unwrap();
    let mentions = |place: usize| {
        let error = results[place].as_ref().unwrap_err();
        assert!(!error.sender_fault);
        (error.mentions.successful, error.mentions.failed)
    };
    assert_eq!((mentions(0), mentions(1)), ((0, 0), (1, 1)));
}

#[tokio::test]
async fn only_a_client_error_promises_that_nothing_happened() {
    let body = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no"}"#;
    let (mut wrong, _server) = connection(400, body).await;
    let refusal = wrong.create_queue("q", &[]).await.unwrap_err();
    assert_eq!(refusal.code(), Some("QueueDoesNotExist"));
    assert!(refusal.had_no_effect());

    let (mut broken, _server) = connection(500, "{}").await;
    assert!(
        !broken
            .create_queue("q", &[])
            .await
            .unwrap_err()
            .had_no_effect()
    );
}
