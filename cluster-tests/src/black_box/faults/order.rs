//! Message groups out of order, and sequence numbers.

use super::breaks;
use crate::black_box::Rule;
use crate::black_box::story::Story;
use crate::history::{Outcome, SendEntry};

fn numbered(mut entry: SendEntry, sequence: u128) -> SendEntry {
    if let Outcome::Ok(sent) = &mut entry.outcome {
        sent.sequence = Some(sequence);
    }
    entry
}

#[test]
fn two_messages_of_a_group_are_swapped() {
    breaks(Rule::GroupOrder, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        s.receive(if wrong { &["b"] } else { &["a"] });
    });
}

#[test]
fn one_answer_is_not_in_order() {
    breaks(Rule::GroupOrder, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        s.receive(if wrong { &["b", "a"] } else { &["a", "b"] });
    });
}

#[test]
fn one_answer_has_a_gap() {
    breaks(Rule::GroupOrder, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        s.send("c");
        s.receive(if wrong { &["a", "c"] } else { &["a", "b", "c"] });
    });
}

#[test]
fn a_released_message_is_passed() {
    breaks(Rule::GroupOrder, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        s.receive(&["a"]);
        s.change("a", 0);
        s.receive(if wrong { &["b"] } else { &["a", "b"] });
    });
}

#[test]
fn a_message_whose_time_is_over_is_passed() {
    breaks(Rule::GroupOrder, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        s.receive(&["a"]);
        s.pass(31);
        s.receive(if wrong { &["b"] } else { &["a"] });
    });
}

#[test]
fn a_message_in_flight_is_passed() {
    breaks(Rule::GroupInFlight, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        s.receive(&["a"]);
        if !wrong {
            s.delete("a");
        }
        s.receive(&["b"]);
    });
}

#[test]
fn the_end_of_a_batch_in_flight_is_passed() {
    breaks(Rule::GroupInFlight, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        s.send("c");
        s.receive(&["a", "b"]);
        s.delete("a");
        s.pass(20);
        s.receive(if wrong { &["c"] } else { &[] });
    });
}

#[test]
fn a_message_whose_visibility_was_extended_is_passed() {
    breaks(Rule::GroupInFlight, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        s.receive(&["a"]);
        s.change("a", 120);
        s.pass(60);
        s.receive(if wrong { &["b"] } else { &[] });
    });
}

/// A group delivers its oldest visible messages, whatever is in flight behind them.
#[test]
fn a_younger_message_in_flight_does_not_hide_an_older_one() {
    breaks(Rule::GroupOrder, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        s.send("c");
        s.receive(&["a", "b"]);
        s.change("a", 0);
        s.receive(&["a"]);
        s.delete("a");
        s.change("b", 0);
        s.receive(if wrong { &["c"] } else { &["b"] });
    });
}

#[test]
fn a_sequence_number_falls() {
    breaks(Rule::Sequence, Story::fifo, |s, wrong| {
        s.send("a");
        let next = s.message("b");
        s.send_these([if wrong { numbered(next, 5) } else { next }]);
    });
}

#[test]
fn a_sequence_number_is_used_twice() {
    breaks(Rule::Sequence, Story::fifo, |s, wrong| {
        let (one, other) = (s.message("a"), s.message("b"));
        s.send_these([numbered(one, 50)]);
        s.send_these([numbered(other, if wrong { 50 } else { 51 })]);
    });
}

#[test]
fn the_entries_of_a_call_are_numbered_backwards() {
    breaks(Rule::Sequence, Story::fifo, |s, wrong| {
        let (one, other) = (s.message("a"), s.message("b"));
        let (low, high) = if wrong { (52, 51) } else { (51, 52) };
        s.send_these([numbered(one, low), numbered(other, high)]);
    });
}

#[test]
fn an_id_is_given_twice() {
    breaks(Rule::Sequence, Story::standard, |s, wrong| {
        // Told of one id twice; a second attempt of one content is no second message.
        s.send("a");
        let mut other = s.message("b");
        if let Outcome::Ok(sent) = &mut other.outcome
            && wrong
        {
            sent.message_id = "id of a".into();
        }
        s.send_these([other]);
        let again = s.message("c");
        s.queue = "again.fifo".into();
        s.create_queue(&[("FifoQueue", "true")]);
        let again = SendEntry {
            group: Some("g".into()),
            deduplication_id: Some("c".into()),
            ..numbered(again, 7)
        };
        s.send_these([again.clone()]);
        s.send_these([again]);
    });
}
