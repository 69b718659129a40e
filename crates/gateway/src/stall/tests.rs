//! Clients that stall, and clients that do not.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use super::{Phase, Stalling};
use crate::config::GatewayLimits;
use crate::unproved::Unproved;

fn phase() -> Phase {
    Phase::new(&Unproved::new(1 << 20))
}

fn limits() -> GatewayLimits {
    GatewayLimits {
        header_timeout: Duration::from_secs(10),
        body_stall_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(100),
        write_timeout: Duration::from_secs(20),
        ..GatewayLimits::default()
    }
}

/// Sends a byte every three seconds until the connection ends.
async fn trickle(mut client: DuplexStream) {
    while client.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_trickles_is_given_up_ten_seconds_after_it_began() {
    let (client, server) = tokio::io::duplex(64);
    let mut server = Stalling::new(server, phase(), &limits());
    let begun = Instant::now();
    let mut sent = Vec::new();
    let (read, ()) = tokio::join!(
        async {
            let read = server.read_to_end(&mut sent).await;
            drop(server);
            read
        },
        trickle(client)
    );
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    assert!((10..13).contains(&begun.elapsed().as_secs()));
    assert_eq!(sent.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_body_may_trickle_for_a_while_and_not_stall() {
    let (mut client, server) = tokio::io::duplex(64);
    let phase = phase();
    let mut server = Stalling::new(server, phase.clone(), &limits());
    let begun = Instant::now();
    client.write_all(b"x").await.unwrap();
    assert!(server.speaks().await);
    phase.head_read();
    let mut sent = Vec::new();
    let (read, ()) = tokio::join!(
        async {
            let read = server.read_to_end(&mut sent).await;
            drop(server);
            read
        },
        trickle(client)
    );
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    assert!((30..33).contains(&begun.elapsed().as_secs()));

    let (mut client, server) = tokio::io::duplex(64);
    let phase = self::phase();
    let mut server = Stalling::new(server, phase.clone(), &limits());
    client.write_all(b"x").await.unwrap();
    server.read_u8().await.unwrap();
    phase.head_read();
    let stalled = Instant::now();
    let error = server.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(stalled.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_unused_connection_may_stay_longer_once_it_proved_something() {
    let (mut client, server) = tokio::io::duplex(64);
    let phase = phase();
    let mut server = Stalling::new(server, phase.clone(), &limits());
    for _ in 0..2 {
        client.write_all(b"x").await.unwrap();
        server.read_u8().await.unwrap();
        phase.serving();
        phase.proved();
        phase.answered();
        let begun = Instant::now();
        let waited = tokio::time::timeout(Duration::from_secs(99), server.read_u8()).await;
        assert!(waited.is_err(), "still open after 99 s");
        assert_eq!(begun.elapsed().as_secs(), 99);
    }
    let error = server.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn an_unused_connection_that_proved_nothing_is_soon_closed() {
    let (mut client, server) = tokio::io::duplex(64);
    let phase = phase();
    let mut server = Stalling::new(server, phase.clone(), &limits());
    client.write_all(b"x").await.unwrap();
    server.read_u8().await.unwrap();
    phase.serving();
    phase.answered();
    let begun = Instant::now();
    let error = server.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_is_waited_for_and_not_lost() {
    let (mut client, server) = tokio::io::duplex(64);
    let mut server = Stalling::new(server, phase(), &limits());
    client.write_all(b"xyz").await.unwrap();
    assert!(server.speaks().await);
    let mut read = [0; 3];
    server.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"xyz");

    let (client, server) = tokio::io::duplex(64);
    drop(client);
    let mut gone = Stalling::new(server, phase(), &limits());
    assert!(!gone.speaks().await);
    let (_silent, server) = tokio::io::duplex(64);
    let mut server = Stalling::new(server, phase(), &limits());
    let begun = Instant::now();
    assert!(!server.speaks().await);
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_has_proved_is_counted_over_all() {
    let unproved = Unproved::new(16 << 10);
    let connect = |phase: &Phase| {
        let (client, server) = tokio::io::duplex(64 << 10);
        (client, Stalling::new(server, phase.clone(), &limits()))
    };
    let (one, other) = (Phase::new(&unproved), Phase::new(&unproved));
    let (mut large, mut large_server) = connect(&one);
    let (mut small, mut small_server) = connect(&other);
    let mut read = vec![0; 10 << 10];
    large.write_all(&read).await.unwrap();
    large_server.read_exact(&mut read).await.unwrap();
    small.write_all(b"x").await.unwrap();
    assert!(small_server.read_u8().await.is_err());
    assert!(other.crowded() && !one.crowded());

    one.proved();
    let another = Phase::new(&unproved);
    let (mut small, mut small_server) = connect(&another);
    small.write_all(b"x").await.unwrap();
    small_server.read_u8().await.unwrap();
    large.write_all(&read).await.unwrap();
    large_server.read_exact(&mut read).await.unwrap();
    assert!(!one.crowded(), "what is proved is not counted");
    one.answered();
    large.write_all(&read).await.unwrap();
    assert!(large_server.read_exact(&mut read).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn serving_takes_as_long_as_it_takes() {
    let (_client, server) = tokio::io::duplex(64);
    let phase = phase();
    let mut server = Stalling::new(server, phase.clone(), &limits());
    phase.serving();
    let hour = Duration::from_secs(3600);
    assert!(tokio::time::timeout(hour, server.read_u8()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_answer_is_given_up() {
    let (_client, server) = tokio::io::duplex(4);
    let mut server = Stalling::new(server, phase(), &limits());
    let begun = Instant::now();
    let error = server.write_all(b"longer than four").await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(begun.elapsed().as_secs(), 20);
}
