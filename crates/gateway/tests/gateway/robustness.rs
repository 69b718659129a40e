//! Whatever bytes come over a connection are answered or given up, and the next client is served.

use std::cell::Cell;
use std::panic;
use std::time::Duration;

use hikyaku_gateway::{GatewayConfig, GatewayLimits};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::Front;

/// Requests as clients send them, of every kind that there is at the port.
const REQUESTS: [&str; 9] = [
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-amz-json-1.0\r\n\
     X-Amz-Target: AmazonSQS.SendMessage\r\nConnection: close\r\nContent-Length: 74\r\n\r\n\
     {\"QueueUrl\":\"http://h/000000000000/orders\",\"MessageBody\":\"<hello> \\u00e9\"}",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-amz-json-1.0\r\n\
     X-Amz-Target: AmazonSQS.ReceiveMessage\r\nX-Amzn-Query-Mode: true\r\nConnection: close\r\n\
     Transfer-Encoding: chunked\r\n\r\n1e\r\n{\"WaitTimeSeconds\":1,\"QueueUrl\r\n\
     a\r\n\":\"orders\"\r\n1\r\n}\r\n0\r\n\r\n",
    "GET /?Action=ListQueues&Version=2012-11-05 HTTP/1.1\r\nHost: h\r\nAccept: application/json\r\n\
     Connection: close\r\n\r\n",
    "POST /000000000000/orders HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
     Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 39\r\n\r\n\
     Action=SendMessage&MessageBody=h%C3%A9+",
    "GET /livez HTTP/1.1\r\nHost: h\r\n\r\nGET /readyz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET /metrics HTTP/1.0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.CreateQueue\r\nExpect: 100-continue\r\n\
     Connection: close\r\nContent-Length: 21\r\n\r\n{\"QueueName\":\"other\"}",
    "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ListQueues\r\nConnection: close\r\n\
     Authorization: AWS4-HMAC-SHA256 Credential=A/20261130/r/sqs/aws4_request, \
     SignedHeaders=host;x-amz-date, Signature=00\r\nX-Amz-Date: 20261130T200000Z\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
];

/// Pieces of which requests are made.
const PIECES: [&str; 28] = [
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    ": ",
    " ",
    "\0",
    "\t",
    "\u{e9}",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "GET ",
    "POST ",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "Content-Length: 3\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "ffffffffffffffff\r\n",
    "0\r\n\r\n",
    "Upgrade: h2c\r\n",
    "Expect: 100-continue\r\n",
    "X-Amz-Target: AmazonSQS.PurgeQueue\r\n",
    "?Action=",
    "%00",
    "//../",
];

/// How many connections are made; the same ones each time.
const CONNECTIONS: u64 = 600;

thread_local! {
    /// Panics of this thread, on which the whole front of a test runs.
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A request with one to four changes.
    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = REQUESTS[self.below(REQUESTS.len())].as_bytes().to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = bytes.len().min(at + self.below(12));
            let piece = PIECES[self.below(PIECES.len())].as_bytes();
            let other = REQUESTS[self.below(REQUESTS.len())].as_bytes();
            match self.below(6) {
                0 => bytes
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte ^= 1 << (at % 8)),
                1 => drop(bytes.drain(at..end)),
                2 => bytes.truncate(at),
                3 => bytes
                    .splice(at.., other[self.below(other.len())..].iter().copied())
                    .for_each(drop),
                4 => bytes.splice(at..end, piece.iter().copied()).for_each(drop),
                _ => bytes.splice(at..at, piece.iter().copied()).for_each(drop),
            }
        }
        bytes
    }
}

/// Whether these are whole answers, one after the other, and none of them says that we failed.
fn are_answers(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return false;
        };
        let Ok(head) = std::str::from_utf8(&bytes[..end]) else {
            return false;
        };
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1."));
        let status = status.and_then(|line| line.get(2..5)?.parse::<u16>().ok());
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then_some(value)?
                .parse::<usize>()
                .ok()
        });
        let body = match (status, length) {
            (Some(100), None) => 0,
            (Some(200..=499), Some(length)) => length,
            // A request without a body that is not HTTP has an answer without one.
            (Some(400..=499), None) => 0,
            _ => return false,
        };
        let Some(rest) = bytes.get(end + 4 + body..) else {
            return false;
        };
        bytes = rest;
    }
    true
}

#[tokio::test(start_paused = true)]
async fn whatever_comes_is_answered_or_given_up() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICS.set(PANICS.get() + 1);
        hook(info);
    }));
    let limits = GatewayLimits {
        header_timeout: Duration::from_millis(50),
        body_stall_timeout: Duration::from_millis(50),
        read_timeout: Duration::from_millis(100),
        ..GatewayLimits::default()
    };
    let front = Front::start_with(GatewayConfig {
        limits,
        ..GatewayConfig::default()
    });
    let front = front.await;
    let (client, url) = front.client_with_queue().await;
    drop(client);
    let mut random = Random(1);
    let mut answered = 0;
    for nth in 0..CONNECTIONS {
        // The requests themselves come first.
        let request = usize::try_from(nth).ok().and_then(|nth| REQUESTS.get(nth));
        let bytes = request.map_or_else(|| random.bytes(), |text| text.as_bytes().to_vec());
        let mut io = front.connect();
        io.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        // It ends: with the request, or when the client is out of time.
        io.read_to_end(&mut answer).await.unwrap();
        let shown = (bytes.escape_ascii(), answer.escape_ascii());
        assert!(are_answers(&answer), "{}\n{}", shown.0, shown.1);
        assert!(request.is_none() || !answer.is_empty(), "{}", shown.0);
        assert_eq!(PANICS.get(), 0, "{}", shown.0);
        answered += u64::from(!answer.is_empty());
    }
    assert!(answered > CONNECTIONS / 2, "{answered} of {CONNECTIONS}");
    let message = json!({ "QueueUrl": url, "MessageBody": "m" });
    front.client().await.act("SendMessage", message).await;
}
