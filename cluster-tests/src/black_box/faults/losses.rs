//! Messages lost, invented, resurrected, repeated and miscounted.

use super::breaks;
use crate::black_box::Rule;
use crate::black_box::story::Story;
use crate::history::{Content, Mentions, Outcome, Sent};

const SECOND_US: u64 = 1_000_000;

#[test]
fn an_acknowledged_message_is_lost() {
    breaks(Rule::AcknowledgedSend, Story::standard, |s, wrong| {
        s.send("a");
        s.send("b");
        s.drain(if wrong { &["b"] } else { &["a", "b"] });
    });
}

#[test]
fn an_acknowledged_fifo_message_is_lost_after_its_release() {
    breaks(Rule::AcknowledgedSend, Story::fifo, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.change("a", 0);
        s.drain(if wrong { &[] } else { &["a"] });
    });
}

#[test]
fn the_middle_of_a_batch_is_lost() {
    breaks(Rule::AcknowledgedSend, Story::standard, |s, wrong| {
        let batch = ["a", "b", "c"].map(|label| s.message(label));
        s.send_these(batch);
        s.drain(if wrong { &["a", "c"] } else { &["a", "b", "c"] });
    });
}

#[test]
fn a_body_that_nobody_sent_comes_out() {
    breaks(Rule::Phantom, Story::standard, |s, wrong| {
        s.send("a");
        let mut delivery = s.delivery("a");
        if wrong {
            delivery.content = Content::of("rot");
        }
        s.receive_these(vec![delivery]);
        s.delete("a");
    });
}

#[test]
fn a_message_has_the_body_of_another() {
    breaks(Rule::Phantom, Story::standard, |s, wrong| {
        s.send("a");
        s.send("b");
        let mut delivery = s.delivery("a");
        if wrong {
            delivery.content = Content::of("b");
        }
        s.receive_these(vec![delivery]);
        s.delete("a");
    });
}

#[test]
fn a_refused_message_comes_out() {
    breaks(Rule::Phantom, Story::standard, |s, wrong| {
        let mut refused = s.message("a");
        refused.outcome = if wrong { Outcome::Fail } else { Outcome::Info };
        s.send_these([refused]);
        s.receive(&["a"]);
    });
}

#[test]
fn a_message_is_received_before_it_is_sent() {
    breaks(Rule::Phantom, Story::standard, |s, wrong| {
        s.send("a");
        let receive = s.receive(&["a"]);
        if wrong {
            let sent = s.history.operations[receive - 1].invoked_us;
            s.stretch(receive, sent - 2_000, sent - 1_000);
        }
    });
}

#[test]
fn a_message_comes_out_of_another_queue() {
    breaks(Rule::Phantom, Story::standard, |s, wrong| {
        s.send("a");
        s.queue = "other".into();
        s.create_queue(&[]);
        if !wrong {
            s.queue = "story".into();
        }
        s.receive(&["a"]);
    });
}

#[test]
fn a_message_changes_its_group() {
    breaks(Rule::Phantom, Story::fifo, |s, wrong| {
        s.send("a");
        let mut delivery = s.delivery("a");
        if wrong {
            delivery.group = Some("h".into());
        }
        s.receive_these(vec![delivery]);
    });
}

#[test]
fn a_message_changes_its_sequence_number() {
    breaks(Rule::Phantom, Story::fifo, |s, wrong| {
        s.send("a");
        let mut delivery = s.delivery("a");
        if wrong {
            delivery.sequence = Some(1);
        }
        s.receive_these(vec![delivery]);
    });
}

#[test]
fn a_message_changes_its_timestamp() {
    breaks(Rule::Phantom, Story::standard, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.change("a", 0);
        let mut delivery = s.delivery("a");
        delivery.sent_ms = Some(wrong.into());
        s.receive_these(vec![delivery]);
    });
}

#[test]
fn one_send_makes_two_messages() {
    breaks(Rule::Phantom, Story::standard, |s, wrong| {
        s.send("a");
        let one = s.delivery("a");
        let mut other = one.clone();
        if wrong {
            other.message_id = "twin".into();
            s.receive_these(vec![one, other]);
        } else {
            s.receive_these(vec![one]);
        }
    });
}

#[test]
fn a_deleted_message_comes_back() {
    breaks(Rule::Delete, Story::standard, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.delete("a");
        s.pass(31);
        s.receive(if wrong { &["a"] } else { &[] });
    });
}

#[test]
fn a_deleted_message_comes_back_at_once() {
    breaks(Rule::Delete, Story::fifo, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.delete("a");
        s.receive(if wrong { &["a"] } else { &[] });
    });
}

#[test]
fn an_older_handle_deletes_on_a_standard_queue_only_in_words() {
    breaks(Rule::Delete, Story::standard, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        let older = s.receipt("a");
        s.pass(31);
        s.receive(&["a"]);
        s.delete_with("a", older, Outcome::Ok(()));
        s.pass(31);
        s.receive(if wrong { &["a"] } else { &[] });
    });
}

#[test]
fn a_receive_count_does_not_grow() {
    breaks(Rule::ReceiveCount, Story::standard, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.pass(31);
        let mut delivery = s.delivery("a");
        if wrong {
            delivery.receive_count = 1;
        }
        s.receive_these(vec![delivery]);
    });
}

#[test]
fn a_receive_count_falls() {
    breaks(Rule::ReceiveCount, Story::standard, |s, wrong| {
        s.send("a");
        let counts = if wrong { [2, 1] } else { [1, 2] };
        for count in counts {
            // One receive without an answer might explain that the first count is missing.
            s.receive_with(None, None, Outcome::Info);
            let mut delivery = s.delivery("a");
            delivery.receive_count = count;
            s.receive_these(vec![delivery]);
            s.pass(31);
        }
    });
}

#[test]
fn a_receive_count_skips_a_number() {
    breaks(Rule::ReceiveCount, Story::fifo, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        if !wrong {
            s.pass(31);
            s.receive_with(None, None, Outcome::Info);
        }
        s.pass(31);
        let mut delivery = s.delivery("a");
        delivery.receive_count = 3;
        s.receive_these(vec![delivery]);
    });
}

#[test]
fn a_receive_count_begins_with_two() {
    breaks(Rule::ReceiveCount, Story::standard, |s, wrong| {
        s.send("a");
        let mut delivery = s.delivery("a");
        delivery.receive_count = if wrong { 2 } else { 1 };
        s.receive_these(vec![delivery]);
    });
}

#[test]
fn a_repeated_send_is_a_second_message() {
    breaks(Rule::Deduplication, Story::fifo, |s, wrong| {
        s.send("a");
        s.pass(200);
        let mut again = s.message("a");
        if let Outcome::Ok(sent) = &mut again.outcome {
            let id = if wrong { "twin" } else { "id of a" };
            sent.message_id = id.into();
        }
        s.send_these([again]);
    });
}

#[test]
fn a_repeated_send_comes_out_twice() {
    breaks(Rule::Deduplication, Story::fifo, |s, wrong| {
        let mut unsure = s.message("a");
        let again = unsure.clone();
        unsure.outcome = Outcome::Info;
        s.send_these([unsure]);
        s.send_these([again]);
        let one = s.delivery("a");
        let mut twin = one.clone();
        s.receive_these(vec![one]);
        s.delete("a");
        if wrong {
            twin.message_id = "twin".into();
            twin.sequence = Some(2_000);
            s.receive_these(vec![twin]);
        }
    });
}

#[test]
fn a_delete_makes_the_queue_forget_a_deduplication_id() {
    breaks(Rule::Deduplication, Story::fifo, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.delete("a");
        let mut again = s.message("a");
        again.outcome = Outcome::Ok(Sent {
            message_id: if wrong { "twin" } else { "id of a" }.into(),
            sequence: Some(if wrong { 2_000 } else { 1_010 }),
        });
        s.send_these([again]);
    });
}

#[test]
fn a_deduplication_id_is_remembered_too_long() {
    breaks(Rule::Deduplication, Story::fifo, |s, wrong| {
        s.send("a");
        s.pass(302);
        let mut again = s.message("a");
        if let Outcome::Ok(sent) = &mut again.outcome
            && !wrong
        {
            sent.message_id = "another".into();
        }
        s.send_these([again]);
    });
}

#[test]
fn a_repeated_attempt_gets_other_messages() {
    breaks(Rule::ReceiveAttempt, Story::fifo, |s, wrong| {
        s.send("a");
        let mut elsewhere = s.message("b");
        elsewhere.group = Some("h".into());
        s.send_these([elsewhere]);
        let first = s.delivery("a");
        s.receive_with(None, Some("try"), Outcome::Ok(vec![first.clone()]));
        let other = s.delivery("b");
        let again = if wrong { other } else { first };
        s.receive_with(None, Some("try"), Outcome::Ok(vec![again]));
    });
}

#[test]
fn a_repeated_attempt_gets_fewer_messages() {
    breaks(Rule::ReceiveAttempt, Story::fifo, |s, wrong| {
        s.send("a");
        s.send("b");
        let mut got = vec![s.delivery("a"), s.delivery("b")];
        s.receive_with(None, Some("try"), Outcome::Ok(got.clone()));
        if wrong {
            got.pop();
        }
        s.receive_with(None, Some("try"), Outcome::Ok(got));
    });
}

fn answered_batch(mentions: Mentions) -> impl Fn(&mut Story) {
    move |s| {
        let mut batch = ["a", "b"].map(|label| s.message(label));
        batch[0].mentions = Some(Mentions {
            successful: 1,
            failed: 0,
        });
        batch[1].mentions = Some(mentions);
        batch[1].outcome = Outcome::Info;
        s.send_these(batch);
    }
}

#[test]
fn an_entry_is_ok_and_failed() {
    breaks(Rule::Batch, Story::standard, |s, wrong| {
        let failed = 1;
        let successful = wrong.into();
        answered_batch(Mentions { successful, failed })(s);
    });
}

#[test]
fn an_entry_is_not_answered() {
    breaks(Rule::Batch, Story::standard, |s, wrong| {
        let failed = u32::from(!wrong);
        answered_batch(Mentions {
            successful: 0,
            failed,
        })(s);
    });
}

#[test]
fn a_send_without_an_answer_takes_effect_after_minutes() {
    breaks(Rule::Uncertain, Story::standard, |s, wrong| {
        let mut unsure = s.message("a");
        unsure.outcome = Outcome::Info;
        s.send_these([unsure]);
        s.pass(if wrong { 62 } else { 30 });
        s.drain(&[]);
        s.receive(&["a"]);
    });
}

#[test]
fn a_delete_without_an_answer_takes_effect_after_minutes() {
    breaks(Rule::Uncertain, Story::standard, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.delete_with("a", s.receipt("a"), Outcome::Info);
        s.pass(if wrong { 62 } else { 31 });
        s.receive(&["a"]);
        s.pass(31);
        s.drain(&[]);
    });
}

#[test]
fn a_receive_without_an_answer_takes_effect_after_minutes() {
    breaks(Rule::Uncertain, Story::standard, |s, wrong| {
        s.send("a");
        s.receive_with(None, None, Outcome::Info);
        s.pass(if wrong { 62 } else { 31 });
        s.receive(&["a"]);
        s.pass(62);
        let mut delivery = s.delivery("a");
        delivery.receive_count = if wrong { 3 } else { 2 };
        s.receive_these(vec![delivery]);
    });
}

#[test]
fn a_message_is_missing_from_the_counts() {
    breaks(Rule::Counts, Story::standard, |s, wrong| {
        s.send("a");
        s.send("b");
        s.receive(&["a"]);
        s.delete("a");
        s.count(if wrong { 0 } else { 1 });
    });
}

#[test]
fn a_deleted_message_is_counted() {
    breaks(Rule::Counts, Story::fifo, |s, wrong| {
        s.send("a");
        let mut unsure = s.message("b");
        unsure.outcome = Outcome::Info;
        s.send_these([unsure]);
        s.receive(&["a"]);
        s.delete("a");
        // The second may be there or not.
        s.count(if wrong { 2 } else { 1 });
        s.now += SECOND_US;
        s.count(0);
    });
}
