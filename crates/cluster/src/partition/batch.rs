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

/// Takes the calls of the next entry off the front of `waiting`. Calls whose caller gave up meanwhile
/// are dropped: they would burn the log's bandwidth for nobody. `None` when nothing is left.
pub fn next_batch(waiting: &mut VecDeque<Call>, now_ms: u64) -> Option<Batch> {
    let mut calls = Vec::new();
    let mut bytes = 0;
    while let Some(next) = waiting.front() {
        // A grant is counted by the parking and must come back to it.
        if next.is_abandoned() && !next.granted {
            waiting.pop_front();
            continue;
        }
        let more: usize = next.bodies.iter().map(Bytes::len).sum();
        let closed = calls.len() == COMMANDS_MAX || bytes + more > BODY_BYTES_MAX;
        if closed && !calls.is_empty() {
            break;
        }
        bytes += more;
        calls.extend(waiting.pop_front());
    }
    if calls.is_empty() {
        return None;
    }
    let bodies = calls
        .iter()
        .flat_map(|call| &call.bodies)
        .map(|body| stamp(body, now_ms));
    let bodies = bodies.collect();
    let commands: Vec<Command> = calls.iter().map(|call| call.command.clone()).collect();
    let head = encode_head(now_ms, &commands).into();
    Some(Batch {
        head,
        bodies,
        calls,
    })
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
    use super::super::{Answered, SubmitError};
    use super::*;
    use hikyaku_queue::{Operation, QueueId, RequestId};
    use tokio::sync::oneshot;

    type Waiting = oneshot::Receiver<Result<Answered, SubmitError>>;

    fn call(body_bytes: &[usize]) -> (Call, Waiting) {
        let (answer, waiting) = oneshot::channel();
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
        let call = Call {
            command,
            bodies,
            wait_until: None,
            granted: false,
            answer: Some(answer),
        };
        (call, waiting)
    }

    fn calls_of(waiting: &mut VecDeque<Call>) -> usize {
        next_batch(waiting, 5).map_or(0, |batch| batch.calls.len())
    }

    #[test]
    fn closes_an_entry_at_its_command_limit() {
        let (calls, _callers): (Vec<Call>, Vec<Waiting>) =
            (0..=COMMANDS_MAX).map(|_| call(&[1])).unzip();
        let mut waiting = VecDeque::from(calls);
        assert_eq!(calls_of(&mut waiting), COMMANDS_MAX);
        assert_eq!(calls_of(&mut waiting), 1);
        assert!(waiting.is_empty());
    }

    #[test]
    fn one_command_always_fits_and_the_next_waits() {
        let ((large, _one), (small, _other)) = (call(&[BODY_BYTES_MAX, 9]), call(&[1]));
        let mut waiting = VecDeque::from([large, small]);
        assert_eq!(
            next_batch(&mut waiting, 5).expect("not empty").bodies.len(),
            2
        );
        assert_eq!(waiting.len(), 1);
    }

    #[test]
    fn proposes_nothing_for_a_caller_that_gave_up() {
        let ((abandoned, gone), (wanted, _caller)) = (call(&[1]), call(&[1]));
        drop(gone);
        let mut waiting = VecDeque::from([abandoned, wanted]);
        assert_eq!(calls_of(&mut waiting), 1);
        let (abandoned, gone) = call(&[1]);
        drop(gone);
        assert!(next_batch(&mut VecDeque::from([abandoned]), 5).is_none());
    }

    #[test]
    fn a_stored_body_carries_when_it_was_sent() {
        let stored = stamp(&Bytes::from_static(b"hello"), 77);
        assert_eq!(unstamp(stored), Some((77, Bytes::from_static(b"hello"))));
        assert_eq!(unstamp(Bytes::from_static(b"short")), None);
    }
}
