//! Purges, queues, tenants and dead letters.

use super::breaks;
use crate::black_box::Rule;
use crate::black_box::story::Story;
use crate::history::Outcome;

const OTHER_TENANT: &str = "222222222222";

#[test]
fn a_purged_message_comes_back() {
    breaks(Rule::Purge, Story::standard, |s, wrong| {
        s.send("a");
        s.purge();
        s.receive(if wrong { &["a"] } else { &[] });
    });
}

#[test]
fn a_purged_message_in_flight_comes_back() {
    breaks(Rule::Purge, Story::fifo, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.purge();
        s.pass(31);
        s.receive(if wrong { &["a"] } else { &[] });
    });
}

#[test]
fn a_purge_eats_what_is_sent_after_it() {
    breaks(Rule::Purge, Story::standard, |s, wrong| {
        s.send("a");
        s.purge();
        s.send("b");
        s.drain(if wrong { &[] } else { &["b"] });
    });
}

#[test]
fn a_queue_that_is_made_again_has_old_messages() {
    breaks(Rule::Queue, Story::standard, |s, wrong| {
        s.send("a");
        s.delete_queue();
        s.create_queue(&[]);
        s.send("b");
        s.receive(if wrong { &["a", "b"] } else { &["b"] });
    });
}

#[test]
fn an_attribute_is_read_that_was_replaced() {
    breaks(Rule::Queue, Story::standard, |s, wrong| {
        s.set(&[("VisibilityTimeout", "60")]);
        s.set(&[("VisibilityTimeout", "90")]);
        s.read(&[("VisibilityTimeout", if wrong { "60" } else { "90" })]);
    });
}

#[test]
fn a_refused_attribute_is_read() {
    breaks(Rule::Queue, Story::standard, |s, wrong| {
        s.set(&[("DelaySeconds", "3")]);
        s.call(crate::history::Action::SetAttributes {
            attributes: [("DelaySeconds".to_owned(), "9".to_owned())].into(),
            outcome: if wrong { Outcome::Fail } else { Outcome::Info },
        });
        s.read(&[("DelaySeconds", "9")]);
    });
}

#[test]
fn a_queue_answers_after_its_delete() {
    breaks(Rule::Queue, Story::standard, |s, wrong| {
        if wrong {
            s.delete_queue();
        }
        s.read(&[("DelaySeconds", "0")]);
        if !wrong {
            s.delete_queue();
        }
    });
}

#[test]
fn a_queue_is_missing_from_a_listing() {
    breaks(Rule::Queue, Story::standard, |s, wrong| {
        let tenant = s.tenant.clone();
        let all = [(tenant.as_str(), "story")];
        s.list(if wrong { &[] } else { &all });
    });
}

#[test]
fn a_queue_is_listed_after_its_delete() {
    breaks(Rule::Queue, Story::standard, |s, wrong| {
        let tenant = s.tenant.clone();
        let all = [(tenant.as_str(), "story")];
        s.list(&all);
        s.delete_queue();
        s.list(if wrong { &all } else { &[] });
    });
}

#[test]
fn a_tenant_receives_what_another_sent() {
    breaks(Rule::Tenant, Story::standard, |s, wrong| {
        s.send("a");
        let delivery = s.delivery("a");
        let own = std::mem::replace(&mut s.tenant, OTHER_TENANT.into());
        s.create_queue(&[]);
        if !wrong {
            s.tenant = own;
        }
        s.receive_these(vec![delivery]);
    });
}

#[test]
fn a_tenant_is_shown_the_queue_of_another() {
    breaks(Rule::Tenant, Story::standard, |s, wrong| {
        let tenant = s.tenant.clone();
        let all = [(tenant.as_str(), "story"), (OTHER_TENANT, "hidden")];
        s.list(if wrong { &all } else { &all[..1] });
    });
}

/// A queue whose messages move after two receives, and its dead-letter queue.
fn with_dead_letters() -> Story {
    let mut story = Story::on("dead", &[]);
    story.queue = "story".into();
    let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:r:111111111111:dead","maxReceiveCount":2}"#;
    story.create_queue(&[("RedrivePolicy", policy)]);
    story.send("a");
    for _ in 0..2 {
        story.receive(&["a"]);
        story.pass(31);
    }
    story
}

#[test]
fn a_message_is_received_more_often_than_allowed() {
    breaks(Rule::DeadLetter, with_dead_letters, |s, wrong| {
        if !wrong {
            s.queue = "dead".into();
        }
        s.receive(&["a"]);
    });
}

#[test]
fn a_dead_letter_is_in_its_source_too() {
    breaks(Rule::DeadLetter, with_dead_letters, |s, wrong| {
        s.queue = "dead".into();
        s.receive(&["a"]);
        s.queue = "story".into();
        s.receive(if wrong { &["a"] } else { &[] });
    });
}

#[test]
fn a_dead_letter_is_there_twice() {
    breaks(Rule::DeadLetter, with_dead_letters, |s, wrong| {
        s.queue = "dead".into();
        let one = s.delivery("a");
        let mut twin = one.clone();
        twin.message_id = "twin".into();
        twin.receive_count = 1;
        s.receive_these(if wrong { vec![one, twin] } else { vec![one] });
    });
}

#[test]
fn a_dead_letter_is_lost_on_its_way() {
    breaks(Rule::AcknowledgedSend, with_dead_letters, |s, wrong| {
        s.drain(&[]);
        s.queue = "dead".into();
        s.drain(if wrong { &[] } else { &["a"] });
    });
}
