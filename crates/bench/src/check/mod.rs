//! Whether what is received is what was sent.
//!
//! - An acknowledged send is received, once the queues are drained: otherwise it is *lost*.
//! - What is received was sent by this run, to this queue, with these bytes, and not refused:
//!   otherwise it is *foreign*.
//! - First receives of a FIFO queue's message group are in the order of its sends: otherwise they are
//!   *misordered*. A send of unknown outcome may be anywhere.
//! - A message whose delete was acknowledged does not come back: otherwise it *returned*. A receive
//!   that was out when the delete was answered may still bring it.
//! - On FIFO queues a message in flight is hidden until its visibility timeout: otherwise it was
//!   received *too soon*. On standard queues such duplicates are counted, and allowed.
//!
//! It takes instants and knows no clock. Producers give numbers and outcomes; a stream has one
//! producer, which waits for one send's outcome before it begins the next. Receives are told from
//! their begin to their end, since what an answer says was true at some instant between.

mod stream;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;

pub(crate) use stream::SendOutcome;
use stream::{Place, Stream};

use crate::stamp::Stamp;

/// How many faults are told in words; the others are counted.
const TOLD_FAULTS: usize = 10;

/// Nanoseconds on the run's clock.
type Instant = u64;

/// A message's stream and its number there.
pub(crate) type MessageKey = (u32, u64);

/// The books of one run.
#[derive(Debug)]
pub(crate) struct Check {
    streams: Vec<Stream>,
    /// The queue of each stream.
    queues: Vec<u32>,
    fifo: bool,
    visibility_timeout: Instant,
    /// FIFO: when the receive of each message in flight began.
    in_flight: HashMap<MessageKey, Instant>,
    /// When each consumer's receive began; `MAX` when none is out.
    receives: Vec<Instant>,
    /// Deletes that were acknowledged while a receive was out that still is.
    recent_deletes: VecDeque<(Instant, MessageKey)>,
    /// Acknowledged and not yet received.
    outstanding: u64,
    /// Bytes of `streams`' states.
    kept: u64,
    tally: Tally,
}

/// What the books add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Messages whose send was acknowledged.
    pub(crate) acknowledged: u64,
    /// Messages whose send was refused.
    pub(crate) refused: u64,
    /// Messages whose send may have been one.
    pub(crate) unknown: u64,
    /// Different messages received.
    pub(crate) received: u64,
    /// Messages whose delete was acknowledged.
    pub(crate) deleted: u64,
    /// Receives of a message that had been received before, allowed or not.
    pub(crate) duplicates: u64,
    /// Faults by kind, in the order of [`Fault::ALL`].
    pub(crate) faults: [u64; Fault::ALL.len()],
    /// The first of them in words.
    pub(crate) told: Vec<String>,
    /// The most bytes that unsettled messages had.
    pub(crate) peak_bytes: u64,
}

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Lost,
    Foreign,
    Misordered,
    Returned,
    TooSoon,
}

impl Fault {
    pub(crate) const ALL: [Self; 5] = [
        Self::Lost,
        Self::Foreign,
        Self::Misordered,
        Self::Returned,
        Self::TooSoon,
    ];

    /// Its name in the report.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Foreign => "foreign",
            Self::Misordered => "misordered",
            Self::Returned => "returned_after_delete",
            Self::TooSoon => "received_too_soon",
        }
    }
}

impl Tally {
    pub(crate) fn count(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.faults.iter().all(|count| *count == 0)
    }

    fn add(&mut self, fault: Fault, words: fmt::Arguments<'_>) {
        self.faults[fault as usize] += 1;
        if self.told.len() < TOLD_FAULTS {
            self.told.push(format!("{}: {words}", fault.word()));
        }
    }
}

impl Check {
    /// `queues` has each stream's queue; `visibility_timeout` is in nanoseconds.
    pub(crate) fn new(
        queues: Vec<u32>,
        fifo: bool,
        visibility_timeout: Instant,
        consumers: usize,
    ) -> Self {
        Self {
            streams: queues.iter().map(|_| Stream::default()).collect(),
            queues,
            fifo,
            visibility_timeout,
            in_flight: HashMap::new(),
            receives: vec![Instant::MAX; consumers],
            recent_deletes: VecDeque::new(),
            outstanding: 0,
            kept: 0,
            tally: Tally::default(),
        }
    }

    /// A message is about to be sent; its number.
    pub(crate) fn begin_send(&mut self, stream: u32) -> u64 {
        self.kept += 1;
        self.tally.peak_bytes = self.tally.peak_bytes.max(self.kept);
        self.streams[stream as usize].begin()
    }

    /// What became of a send.
    pub(crate) fn end_send(&mut self, (stream, sequence): MessageKey, outcome: SendOutcome) {
        let Place::Kept(state) = self.streams[stream as usize].place(sequence) else {
            panic!("a send without an outcome is kept");
        };
        match outcome {
            SendOutcome::Acknowledged => {
                self.tally.acknowledged += 1;
                self.outstanding += u64::from(!state.is_received());
            }
            SendOutcome::Unknown => self.tally.unknown += 1,
            SendOutcome::Refused => {
                self.tally.refused += 1;
                if state.is_received() {
                    self.tally.add(
                        Fault::Foreign,
                        format_args!("message {sequence} of stream {stream}, received, is refused"),
                    );
                }
            }
        }
        self.streams[stream as usize].set_outcome(sequence, outcome);
        self.trim(stream);
    }

    /// A consumer's receive is about to be asked for.
    pub(crate) fn begin_receive(&mut self, consumer: usize, now: Instant) {
        self.receives[consumer] = now;
    }

    /// The consumer's receive is answered, and all it brought was told, or it has no answer.
    pub(crate) fn end_receive(&mut self, consumer: usize) {
        self.receives[consumer] = Instant::MAX;
        let oldest = self.receives.iter().min().copied().unwrap_or(Instant::MAX);
        while matches!(self.recent_deletes.front(), Some((at, _)) if *at < oldest) {
            self.recent_deletes.pop_front();
        }
    }

    /// Something that is not a message of this run came out of a queue.
    pub(crate) fn stranger(&mut self, queue: u32, why: impl fmt::Display) {
        self.tally.add(
            Fault::Foreign,
            format_args!("a message of queue {queue} {why}"),
        );
    }

    /// A consumer's receive brought this, `now`. Gives back whether it is the first time.
    pub(crate) fn received(
        &mut self,
        consumer: usize,
        queue: u32,
        stamp: &Stamp,
        now: Instant,
    ) -> bool {
        let key = (stamp.stream, stamp.sequence);
        let (stream, sequence) = key;
        let home = self.queues.get(stream as usize).copied();
        if home != Some(queue) {
            self.stranger(queue, format_args!("was sent to queue {home:?}"));
            return false;
        }
        let begun = self.receives[consumer];
        assert!(begun <= now, "a receive is begun before it is answered");
        let state = match self.streams[stream as usize].place(sequence) {
            Place::Unborn => {
                self.stranger(
                    queue,
                    format_args!("was never sent: {sequence} of {stream}"),
                );
                return false;
            }
            Place::Settled => {
                self.returned(key, begun);
                return false;
            }
            Place::Kept(state) if state.is_deleted() => {
                self.returned(key, begun);
                return false;
            }
            Place::Kept(state) if state.outcome() == Some(SendOutcome::Refused) => {
                self.stranger(queue, format_args!("is refused: {sequence} of {stream}"));
                return false;
            }
            Place::Kept(state) => state,
        };
        if state.is_received() {
            self.redelivered(key, begun, now);
            return false;
        }
        self.tally.received += 1;
        if state.outcome() == Some(SendOutcome::Acknowledged) {
            self.outstanding -= 1;
        }
        let stream = &mut self.streams[stream as usize];
        stream.set_received(sequence);
        let expected_order = self.fifo && state.outcome() != Some(SendOutcome::Unknown);
        if expected_order && sequence < stream.received_end {
            let after = stream.received_end - 1;
            self.tally.add(
                Fault::Misordered,
                format_args!("{sequence} of stream {} came after {after}", key.0),
            );
        }
        stream.received_end = stream.received_end.max(sequence + 1);
        if self.fifo {
            self.in_flight.insert(key, begun);
        }
        true
    }

    /// Whether this run sent such a message to this queue, and may delete it.
    pub(crate) fn knows(&self, queue: u32, stamp: &Stamp) -> bool {
        let stream = stamp.stream as usize;
        self.queues.get(stream) == Some(&queue)
            && self.streams[stream].place(stamp.sequence) != Place::Unborn
    }

    /// A settled message came again, by a receive that began at `begun`.
    fn returned(&mut self, key: MessageKey, begun: Instant) {
        self.tally.duplicates += 1;
        let crossed = |(at, deleted): &(Instant, MessageKey)| *deleted == key && *at >= begun;
        if !self.recent_deletes.iter().any(crossed) {
            let (stream, sequence) = key;
            self.tally.add(
                Fault::Returned,
                format_args!("{sequence} of stream {stream} was deleted or refused before"),
            );
        }
    }

    /// A message that is not deleted came again. Both receives granted it between their begin and
    /// their answer, so if all of that is within one visibility timeout, so are the grants.
    fn redelivered(&mut self, key: MessageKey, begun: Instant, now: Instant) {
        self.tally.duplicates += 1;
        if !self.fifo {
            return;
        }
        let before = self.in_flight.insert(key, begun);
        let before = before.expect("a FIFO message that is received and not deleted is in flight");
        if now < before.min(begun) + self.visibility_timeout {
            let (stream, sequence) = key;
            let after = (now - before.min(begun)) / 1_000_000;
            self.tally.add(
                Fault::TooSoon,
                format_args!("{sequence} of stream {stream} came again within {after} ms"),
            );
        }
    }

    /// A delete is acknowledged.
    pub(crate) fn deleted(&mut self, key: MessageKey, now: Instant) {
        let (stream, sequence) = key;
        match self.streams[stream as usize].place(sequence) {
            // A message received twice is deleted twice.
            Place::Settled => return,
            Place::Kept(state) if state.is_deleted() => return,
            Place::Kept(_) => {}
            Place::Unborn => panic!("what is deleted was received"),
        }
        self.tally.deleted += 1;
        self.streams[stream as usize].set_deleted(sequence);
        self.in_flight.remove(&key);
        if self.receives.iter().any(|begun| *begun != Instant::MAX) {
            self.recent_deletes.push_back((now, key));
        }
        self.trim(stream);
    }

    fn trim(&mut self, stream: u32) {
        self.kept -= self.streams[stream as usize].trim() as u64;
    }

    /// Acknowledged messages that were not received yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// How many different messages were received: grows while a drain gets on.
    pub(crate) fn received_count(&self) -> u64 {
        self.tally.received
    }

    /// The result, when all was received that will be: what is outstanding is lost.
    pub(crate) fn close(&mut self) -> Tally {
        for (number, stream) in self.streams.iter().enumerate() {
            for sequence in stream.missing() {
                self.tally.add(
                    Fault::Lost,
                    format_args!("{sequence} of stream {number} was acknowledged"),
                );
            }
        }
        self.result()
    }

    /// The result so far: what is outstanding may still come.
    pub(crate) fn result(&self) -> Tally {
        self.tally.clone()
    }
}
