//! Waiting commands made into one entry.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use hikyaku_queue::{Command, encode_head};

use super::Call;

/// An entry closes at so many commands: an apply stays short.
pub const COMMANDS_MAX: usize = 256;

/// An entry closes at so many bytes of bodies; one command always fits.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// Bytes before the caller's part of a stored body: when it was sent, in T, big endian.
pub const SENT_AT_BYTES: usize = 8;

/// One entry, and the callers it will answer.
pub struct Batch {
    pub head: Bytes,
    pub bodies: Vec<Bytes>,
    pub calls: Vec<Call>,
}

/// Takes the calls of the next entry off the front of `waiting`, which is not empty.
pub fn next_batch(waiting: &mut VecDeque<Call>, now_ms: u64) -> Batch {
    let mut calls = Vec::new();
    let mut bytes = 0;
    while let Some(next) = waiting.front() {
        let more: usize = next.bodies.iter().map(Bytes::len).sum();
        let closed = calls.len() == COMMANDS_MAX || bytes + more > BODY_BYTES_MAX;
        if closed && !calls.is_empty() {
            break;
        }
        bytes += more;
        calls.extend(waiting.pop_front());
    }
    let bodies = calls
        .iter()
        .flat_map(|call| &call.bodies)
        .map(|body| stamp(body, now_ms));
    let bodies = bodies.collect();
    let commands: Vec<Command> = calls.iter().map(|call| call.command.clone()).collect();
    Batch {
        head: encode_head(now_ms, &commands).into(),
        bodies,
        calls,
    }
}

/// A body as it is stored: its send time, then the caller's bytes.
fn stamp(body: &Bytes, now_ms: u64) -> Bytes {
    let mut stored = BytesMut::with_capacity(SENT_AT_BYTES + body.len());
    stored.put_u64(now_ms);
    stored.put_slice(body);
    stored.freeze()
}

/// Takes a stored body apart: its send time in T, and the caller's bytes.
pub fn unstamp(mut stored: Bytes) -> Option<(u64, Bytes)> {
    let sent_at: [u8; SENT_AT_BYTES] = stored.get(..SENT_AT_BYTES)?.try_into().ok()?;
    let body = stored.split_off(SENT_AT_BYTES);
    Some((u64::from_be_bytes(sent_at), body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_queue::{Operation, QueueId, RequestId};
    use tokio::sync::oneshot;

    fn call(body_bytes: &[usize]) -> Call {
        let command = Command {
            request_id: RequestId(1),
            not_after: 1,
            queue: QueueId(1),
            descriptor_version: 1,
            operation: Operation::Housekeep,
        };
        let bodies = body_bytes
            .iter()
            .map(|bytes| Bytes::from(vec![0; *bytes]))
            .collect();
        Call {
            command,
            bodies,
            wait_until: None,
            granted: false,
            answer: oneshot::channel().0,
        }
    }

    #[test]
    fn closes_an_entry_at_its_command_limit() {
        let mut waiting: VecDeque<Call> = (0..COMMANDS_MAX + 1).map(|_| call(&[1])).collect();
        assert_eq!(next_batch(&mut waiting, 5).calls.len(), COMMANDS_MAX);
        assert_eq!(next_batch(&mut waiting, 5).calls.len(), 1);
        assert!(waiting.is_empty());
    }

    #[test]
    fn one_command_always_fits_and_the_next_waits() {
        let mut waiting = VecDeque::from([call(&[BODY_BYTES_MAX, 9]), call(&[1])]);
        assert_eq!(next_batch(&mut waiting, 5).bodies.len(), 2);
        assert_eq!(waiting.len(), 1);
    }

    #[test]
    fn a_stored_body_carries_when_it_was_sent() {
        let stored = stamp(&Bytes::from_static(b"hello"), 77);
        assert_eq!(unstamp(stored), Some((77, Bytes::from_static(b"hello"))));
        assert_eq!(unstamp(Bytes::from_static(b"short")), None);
    }
}
