//! The judge judged: clean histories pass, and each kind of fault is found under its own name.

use std::collections::BTreeMap;
use std::time::Duration;

use super::model::clean_history;
use super::{Delivery, Kind, Ledger, Outcome, Rule, Send, Sent, Span};

const KINDS: [Kind; 3] = [Kind::Standard, Kind::Fifo, Kind::FifoByMessageGroup];

/// Enough for every kind of operation to meet every other.
const OPERATIONS: u32 = 200;

fn history(kind: Kind) -> Ledger {
    clean_history(kind, 7, OPERATIONS)
}

fn deliveries(ledger: &mut Ledger) -> impl Iterator<Item = &mut Delivery> {
    ledger
        .receives
        .iter_mut()
        .filter_map(|r| match &mut r.outcome {
            Outcome::Ok(deliveries) => Some(deliveries),
            _ => None,
        })
        .flatten()
}

fn first_delivery(ledger: &Ledger) -> (Span, Delivery) {
    let found = ledger
        .receives
        .iter()
        .find_map(|r| Some((r.span, r.outcome.ok()?.first()?.clone())));
    found.expect("the history has deliveries")
}

/// Whether this rule, maybe among others, was found broken.
#[track_caller]
fn assert_broken(ledger: &Ledger, rule: Rule) {
    let findings = ledger.findings();
    assert!(
        findings.iter().any(|f| f.rule == rule),
        "{rule:?} not among {findings:?}"
    );
}

#[test]
fn clean_histories_pass() {
    for kind in KINDS {
        for seed in 0..300 {
            let ledger = clean_history(kind, seed, OPERATIONS);
            let findings = ledger.findings();
            assert!(findings.is_empty(), "{kind:?} seed {seed}: {findings:#?}");
        }
    }
}

#[test]
fn a_digest_tells_histories_apart() {
    let digest = |seed| clean_history(Kind::Fifo, seed, OPERATIONS).digest();
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn finds_a_message_that_never_comes_back() {
    for kind in KINDS {
        let mut ledger = history(kind);
        let drain_from = ledger.drain_from.expect("the history has a drain");
        let drained = ledger
            .receives
            .iter_mut()
            .filter(|r| r.span.invoked >= drain_from);
        let mut lost = None;
        for deliveries in drained.filter_map(|r| match &mut r.outcome {
            Outcome::Ok(deliveries) => Some(deliveries),
            _ => None,
        }) {
            lost = lost.or(deliveries.first().map(|d| d.message_id.clone()));
            deliveries.retain(|d| Some(&d.message_id) != lost.as_ref());
        }
        let lost = lost.expect("the drain found something");
        ledger.deletes.retain(|d| d.message_id != lost);
        assert_broken(&ledger, Rule::Lost);
    }
}

#[test]
fn finds_an_acknowledged_send_without_a_message() {
    let mut ledger = history(Kind::Standard);
    let at = Duration::from_millis(1);
    ledger.sent(send("never stored", at, Outcome::Ok(sent("x", None))));
    assert_broken(&ledger, Rule::Lost);
}

#[test]
fn does_not_ask_for_a_message_whose_send_was_uncertain() {
    let mut ledger = history(Kind::Standard);
    ledger.sent(send("who knows", Duration::from_millis(1), Outcome::Info));
    assert_eq!(ledger.findings(), []);
}

#[test]
fn finds_bodies_that_nobody_sent() {
    for kind in KINDS {
        let mut ledger = history(kind);
        deliveries(&mut ledger).next().unwrap().body = "rot".into();
        assert_broken(&ledger, Rule::Phantom);
    }
}

#[test]
fn finds_bodies_of_refused_sends() {
    let mut ledger = history(Kind::Standard);
    let (_, delivery) = first_delivery(&ledger);
    for send in ledger.sends.iter_mut().filter(|s| s.body == delivery.body) {
        send.outcome = Outcome::Fail;
    }
    assert_broken(&ledger, Rule::Phantom);
}

#[test]
fn finds_messages_received_before_they_were_sent() {
    let mut ledger = history(Kind::Standard);
    let (span, delivery) = first_delivery(&ledger);
    for send in ledger.sends.iter_mut().filter(|s| s.body == delivery.body) {
        send.span.invoked = span.returned + Duration::from_micros(1);
        send.span.returned = send.span.invoked;
    }
    assert_broken(&ledger, Rule::Phantom);
}

#[test]
fn finds_a_changed_message_group() {
    let mut ledger = history(Kind::Fifo);
    deliveries(&mut ledger).next().unwrap().message_group = Some("other".into());
    assert_broken(&ledger, Rule::Phantom);
}

#[test]
fn finds_a_changed_sequence_number() {
    let mut ledger = history(Kind::Fifo);
    deliveries(&mut ledger).next().unwrap().sequence = Some(1);
    assert_broken(&ledger, Rule::Phantom);
}

#[test]
fn finds_one_send_that_became_two_messages() {
    let mut ledger = history(Kind::Standard);
    let last = deliveries(&mut ledger).last().unwrap();
    last.message_id = "a second id".into();
    assert_broken(&ledger, Rule::Duplicated);
}

#[test]
fn finds_deleted_messages_that_come_back() {
    for kind in KINDS {
        let mut ledger = history(kind);
        let delete = ledger
            .deletes
            .iter()
            .find(|d| d.outcome.ok().is_some())
            .unwrap()
            .clone();
        let (_, mut delivery) = delivery_of(&ledger, &delete.message_id);
        delivery.receive_count += 1;
        let later = delete.span.returned + Duration::from_secs(9);
        ledger.received(receive(later, vec![delivery]));
        assert_broken(&ledger, Rule::Resurrected);
    }
}

#[test]
fn finds_purged_messages_that_come_back() {
    let mut ledger = Ledger::new(Kind::Standard);
    ledger.sent(send("m", ms(0), Outcome::Ok(sent("m", None))));
    ledger.purged(super::Purge {
        span: at(ms(10)),
        outcome: Outcome::Ok(()),
    });
    ledger.received(receive(ms(20), vec![delivery("m", 1, None)]));
    assert_broken(&ledger, Rule::Resurrected);
}

#[test]
fn finds_a_message_in_two_hands() {
    for kind in KINDS {
        let mut ledger = history(kind);
        let (span, mut again) = first_delivery(&ledger);
        again.receive_count += 1;
        ledger.changes.clear();
        ledger.received(receive(span.returned + ms(500), vec![again]));
        assert_broken(&ledger, Rule::HeldTwice);
    }
}

#[test]
fn a_shorter_visibility_timeout_frees_a_message() {
    let mut ledger = Ledger::new(Kind::Standard);
    ledger.sent(send("m", ms(0), Outcome::Ok(sent("m", None))));
    ledger.received(receive(ms(10), vec![delivery("m", 1, None)]));
    ledger.received(receive(ms(30), vec![delivery("m", 2, None)]));
    assert_broken(&ledger, Rule::HeldTwice);
    ledger.changed(change("m", ms(20), Duration::ZERO));
    assert_eq!(ledger.findings(), []);
}

#[test]
fn a_longer_visibility_timeout_keeps_a_message() {
    let mut ledger = Ledger::new(Kind::Standard);
    ledger.sent(send("m", ms(0), Outcome::Ok(sent("m", None))));
    ledger.received(receive(ms(10), vec![delivery("m", 1, None)]));
    ledger.received(receive(ms(3_000), vec![delivery("m", 2, None)]));
    assert_eq!(ledger.findings(), []);
    ledger.changed(change("m", ms(20), Duration::from_secs(10)));
    assert_broken(&ledger, Rule::HeldTwice);
}

#[test]
fn finds_messages_before_their_delay() {
    let mut ledger = Ledger::new(Kind::Standard);
    let delay = Duration::from_secs(5);
    let outcome = Outcome::Ok(sent("m", None));
    ledger.sent(Send {
        delay,
        ..send("m", ms(0), outcome)
    });
    ledger.received(receive(ms(4_900), vec![delivery("m", 1, None)]));
    assert_broken(&ledger, Rule::TooEarly);
}

#[test]
fn finds_a_forgotten_receive_count() {
    for kind in KINDS {
        let mut ledger = history(kind);
        let mut counts = BTreeMap::new();
        for delivery in deliveries(&mut ledger) {
            let (id, count) = (delivery.message_id.clone(), delivery.receive_count);
            delivery.receive_count = *counts.entry(id).or_insert(count);
        }
        assert_broken(&ledger, Rule::ReceiveCount);
    }
}

#[test]
fn finds_a_receive_count_that_skips() {
    let mut ledger = history(Kind::Standard);
    deliveries(&mut ledger).last().unwrap().receive_count += 1_000;
    assert_broken(&ledger, Rule::ReceiveCount);
}

#[test]
fn finds_a_message_that_passes_an_older_one() {
    let mut ledger = two_in_one_group();
    ledger.received(receive(ms(20), vec![delivery("b", 1, Some(2))]));
    assert_broken(&ledger, Rule::GroupOrder);
}

#[test]
fn finds_a_message_given_out_while_an_older_one_is_in_flight() {
    let mut ledger = two_in_one_group();
    ledger.received(receive(ms(20), vec![delivery("a", 1, Some(1))]));
    ledger.received(receive(ms(30), vec![delivery("b", 1, Some(2))]));
    assert_broken(&ledger, Rule::GroupOrder);
}

#[test]
fn finds_an_answer_in_the_wrong_order() {
    let mut ledger = two_in_one_group();
    ledger.received(receive(
        ms(20),
        vec![delivery("b", 1, Some(2)), delivery("a", 1, Some(1))],
    ));
    assert_broken(&ledger, Rule::GroupOrder);
}

#[test]
fn finds_swapped_deliveries_in_a_long_history() {
    let mut ledger = history(Kind::Fifo);
    let batch = ledger
        .receives
        .iter_mut()
        .find_map(|r| match &mut r.outcome {
            Outcome::Ok(d) if d.len() > 1 && d[0].message_group == d[1].message_group => Some(d),
            _ => None,
        });
    batch
        .expect("one answer has two messages of one group")
        .swap(0, 1);
    assert_broken(&ledger, Rule::GroupOrder);
}

#[test]
fn finds_a_sequence_number_that_goes_back() {
    let mut ledger = two_in_one_group();
    ledger.sent(in_group(send("c", ms(50), Outcome::Ok(sent("c", Some(0))))));
    assert_broken(&ledger, Rule::SequenceOrder);
}

#[test]
fn finds_a_sequence_number_used_twice() {
    let mut ledger = two_in_one_group();
    ledger.sent(in_group(send("c", ms(5), Outcome::Ok(sent("c", Some(2))))));
    assert_broken(&ledger, Rule::SequenceOrder);
}

#[test]
fn finds_a_duplicate_that_was_not_recognised() {
    let mut ledger = Ledger::new(Kind::Fifo);
    let again = |id: &str, n| Send {
        deduplication_id: Some("d".into()),
        ..in_group(send("m", ms(n as u64), Outcome::Ok(sent(id, Some(n)))))
    };
    ledger.sent(again("first", 1));
    ledger.sent(again("second", 50));
    assert_broken(&ledger, Rule::Deduplication);
}

#[test]
fn counts_are_exact_when_every_answer_came() {
    let mut ledger = two_in_one_group();
    ledger.counted(2);
    let message_id = "a".to_owned();
    ledger.deleted(super::Delete {
        span: at(ms(40)),
        message_id,
        outcome: Outcome::Ok(()),
    });
    ledger.counted(1);
    ledger.sent(in_group(send("c", ms(50), Outcome::Info)));
    ledger.counted(1);
    ledger.counted(2);
    assert_eq!(ledger.findings(), []);
    ledger.counted(3);
    assert_broken(&ledger, Rule::Counts);
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn at(invoked: Duration) -> Span {
    Span {
        invoked,
        returned: invoked + ms(1),
    }
}

fn sent(id: &str, sequence: Option<u128>) -> Sent {
    Sent {
        message_id: id.into(),
        sequence,
    }
}

fn send(body: &str, invoked: Duration, outcome: Outcome<Sent>) -> Send {
    Send {
        span: at(invoked),
        body: body.into(),
        message_group: None,
        deduplication_id: None,
        delay: Duration::ZERO,
        outcome,
    }
}

fn in_group(send: Send) -> Send {
    Send {
        message_group: Some("g".into()),
        ..send
    }
}

/// Messages `a` and `b`, sent one after the other.
fn two_in_one_group() -> Ledger {
    let mut ledger = Ledger::new(Kind::Fifo);
    ledger.sent(in_group(send("a", ms(0), Outcome::Ok(sent("a", Some(1))))));
    ledger.sent(in_group(send("b", ms(10), Outcome::Ok(sent("b", Some(2))))));
    ledger
}

fn delivery(id: &str, receive_count: u32, sequence: Option<u128>) -> Delivery {
    let message_group = sequence.map(|_| "g".into());
    Delivery {
        message_id: id.into(),
        body: id.into(),
        receive_count,
        message_group,
        sequence,
    }
}

fn receive(invoked: Duration, deliveries: Vec<Delivery>) -> super::Receive {
    let visibility_timeout = Duration::from_secs(2);
    super::Receive {
        span: at(invoked),
        visibility_timeout,
        outcome: Outcome::Ok(deliveries),
    }
}

fn change(id: &str, invoked: Duration, visibility_timeout: Duration) -> super::ChangeVisibility {
    let message_id = id.into();
    super::ChangeVisibility {
        span: at(invoked),
        message_id,
        visibility_timeout,
        outcome: Outcome::Ok(()),
    }
}

/// The last delivery of a message.
fn delivery_of(ledger: &Ledger, message_id: &str) -> (Span, Delivery) {
    let all = ledger
        .receives
        .iter()
        .filter_map(|r| Some((r.span, r.outcome.ok()?)));
    let mut of_message =
        all.flat_map(|(span, deliveries)| deliveries.iter().map(move |d| (span, d)));
    let last = of_message.rfind(|(_, d)| d.message_id == message_id);
    last.map(|(span, d)| (span, d.clone()))
        .expect("the message was delivered")
}
