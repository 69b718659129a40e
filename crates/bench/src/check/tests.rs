//! Fabricated runs: each fault is told from what is allowed.

use super::*;

const SECOND: u64 = 1_000_000_000;
const VISIBILITY_TIMEOUT: u64 = 30 * SECOND;

/// One queue with two streams and two consumers; a second queue with one stream.
struct Story {
    check: Check,
    now: u64,
}

impl Story {
    fn new(fifo: bool) -> Self {
        Self {
            check: Check::new(vec![0, 0, 1], fifo, VISIBILITY_TIMEOUT, 2),
            now: SECOND,
        }
    }

    fn send(&mut self, stream: u32, outcome: SendOutcome) -> MessageKey {
        let key = (stream, self.check.begin_send(stream));
        self.check.end_send(key, outcome);
        key
    }

    fn sent(&mut self, stream: u32) -> MessageKey {
        self.send(stream, SendOutcome::Acknowledged)
    }

    /// Consumer 0 receives it from queue 0, at once.
    fn receive(&mut self, key: MessageKey) -> bool {
        self.check.begin_receive(0, self.now);
        let first = self.answer(0, key);
        self.check.end_receive(0);
        first
    }

    /// A receive that is out brings it.
    fn answer(&mut self, consumer: usize, (stream, sequence): MessageKey) -> bool {
        self.now += 1;
        let stamp = Stamp {
            stream,
            sequence,
            sent_at: 0,
        };
        self.check.received(consumer, 0, &stamp, self.now)
    }

    fn delete(&mut self, key: MessageKey) {
        self.now += 1;
        self.check.deleted(key, self.now);
        self.now += 1;
    }

    fn counts(&self) -> Vec<(Fault, u64)> {
        let tally = self.check.result();
        let counts = Fault::ALL.map(|fault| (fault, tally.count(fault)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

#[test]
fn a_whole_life_is_clean_and_leaves_nothing() {
    for fifo in [false, true] {
        let mut story = Story::new(fifo);
        for _ in 0..100 {
            let key = story.sent(0);
            assert!(story.receive(key));
            story.delete(key);
        }
        assert_eq!(story.check.outstanding(), 0);
        assert_eq!(story.check.kept, 0);
        assert!(story.check.in_flight.is_empty() && story.check.recent_deletes.is_empty());
        let tally = story.check.close();
        assert!(tally.is_clean(), "{:?}", tally.told);
        assert_eq!(
            (tally.acknowledged, tally.received, tally.deleted),
            (100, 100, 100)
        );
        assert_eq!(tally.peak_bytes, 1);
    }
}

#[test]
fn what_was_acknowledged_and_never_came_is_lost() {
    let mut story = Story::new(false);
    let first = story.sent(0);
    story.sent(0);
    story.send(0, SendOutcome::Unknown);
    story.send(0, SendOutcome::Refused);
    story.receive(first);
    assert_eq!(story.check.outstanding(), 1);
    let tally = story.check.close();
    assert_eq!(tally.count(Fault::Lost), 1);
    assert_eq!(tally.told, ["lost: 1 of stream 0 was acknowledged"]);
}

#[test]
fn a_receive_may_overtake_the_answer_of_its_send() {
    let mut story = Story::new(true);
    let key = (0, story.check.begin_send(0));
    assert!(story.receive(key));
    story.delete(key);
    story.check.end_send(key, SendOutcome::Acknowledged);
    assert_eq!((story.check.outstanding(), story.check.kept), (0, 0));
    assert!(story.check.close().is_clean());
}

#[test]
fn what_nobody_sent_is_foreign() {
    let mut story = Story::new(false);
    let refused = story.send(0, SendOutcome::Refused);
    let other_queue = story.sent(2);
    story.receive((0, 5));
    story.receive((9, 0));
    story.receive(other_queue);
    story.check.stranger(0, "has no stamp");
    assert_eq!(story.counts(), [(Fault::Foreign, 4)]);
    // It is settled, as what was deleted is.
    story.receive(refused);
    assert_eq!(story.counts(), [(Fault::Foreign, 4), (Fault::Returned, 1)]);
}

#[test]
fn a_message_that_came_before_it_was_refused_is_foreign() {
    let mut story = Story::new(false);
    let key = (0, story.check.begin_send(0));
    story.receive(key);
    story.check.end_send(key, SendOutcome::Refused);
    assert_eq!(story.counts(), [(Fault::Foreign, 1)]);
}

#[test]
fn order_holds_within_a_stream_of_fifo_alone() {
    for (fifo, counts) in [(true, vec![(Fault::Misordered, 1)]), (false, vec![])] {
        let mut story = Story::new(fifo);
        let (first, second) = (story.sent(0), story.sent(0));
        let other = story.sent(1);
        for key in [second, other, first] {
            assert!(story.receive(key));
        }
        assert_eq!(story.counts(), counts);
    }
}

#[test]
fn a_send_of_unknown_outcome_may_be_anywhere() {
    let mut story = Story::new(true);
    let unknown = story.send(0, SendOutcome::Unknown);
    let second = story.sent(0);
    story.receive(second);
    story.receive(unknown);
    assert_eq!(story.counts(), []);
}

#[test]
fn what_was_deleted_does_not_return() {
    for fifo in [false, true] {
        let mut story = Story::new(fifo);
        let key = story.sent(0);
        let after = story.sent(0);
        story.receive(key);
        story.delete(key);
        assert!(!story.receive(key));
        assert_eq!(story.counts(), [(Fault::Returned, 1)]);
        assert_eq!(story.check.result().duplicates, 1);
        assert!(story.receive(after));
    }
}

#[test]
fn a_receive_that_was_out_at_the_delete_may_bring_it_again() {
    let mut story = Story::new(false);
    let key = story.sent(0);
    story.check.begin_receive(1, story.now);
    story.receive(key);
    story.delete(key);
    assert!(!story.answer(1, key));
    story.check.end_receive(1);
    assert_eq!(story.counts(), []);
    assert_eq!(story.check.result().duplicates, 1);
    assert!(story.check.recent_deletes.is_empty());
    story.receive(key);
    assert_eq!(story.counts(), [(Fault::Returned, 1)]);
}

#[test]
fn in_flight_means_hidden_on_fifo_alone() {
    for (fifo, counts) in [(true, vec![(Fault::TooSoon, 1)]), (false, vec![])] {
        let mut story = Story::new(fifo);
        let key = story.sent(0);
        story.receive(key);
        story.now += VISIBILITY_TIMEOUT / 2;
        assert!(!story.receive(key));
        assert_eq!(story.counts(), counts);
        // Hidden again since then, and then visible.
        story.now += VISIBILITY_TIMEOUT;
        story.receive(key);
        assert_eq!(story.counts(), counts);
        story.delete(key);
        assert_eq!(story.check.kept, 0);
    }
}

#[test]
fn faults_beyond_the_first_ones_are_counted() {
    let mut story = Story::new(false);
    for number in 0..100 {
        story.receive((0, number));
    }
    let tally = story.check.result();
    assert_eq!(tally.count(Fault::Foreign), 100);
    assert_eq!(tally.told.len(), TOLD_FAULTS);
}
