//! Visibility timeouts, delays and retention that end at the wrong time.

use super::breaks;
use crate::black_box::story::Story;
use crate::black_box::{Rule, judge};
use crate::history::{Mark, Outcome};

const MS_US: u64 = 1_000;
const HOUR_S: u64 = 3_600;

#[test]
fn a_message_in_flight_is_handed_out() {
    breaks(Rule::Visibility, Story::standard, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.pass(if wrong { 29 } else { 30 });
        s.receive(&["a"]);
    });
}

#[test]
fn a_fifo_message_in_flight_is_handed_out() {
    breaks(Rule::Visibility, Story::fifo, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.pass(if wrong { 5 } else { 30 });
        s.receive(&["a"]);
    });
}

#[test]
fn a_receives_own_visibility_timeout_is_ignored() {
    breaks(Rule::Visibility, Story::standard, |s, wrong| {
        s.send("a");
        let delivery = s.delivery("a");
        s.receive_with(Some(60), None, Outcome::Ok(vec![delivery]));
        s.pass(if wrong { 40 } else { 60 });
        s.receive(&["a"]);
    });
}

#[test]
fn a_new_visibility_timeout_of_the_queue_is_ignored() {
    breaks(Rule::Visibility, Story::standard, |s, wrong| {
        s.set(&[("VisibilityTimeout", "120")]);
        s.send("a");
        s.receive(&["a"]);
        s.pass(if wrong { 40 } else { 120 });
        s.receive(&["a"]);
    });
}

#[test]
fn two_receives_at_once_get_one_message() {
    breaks(Rule::Visibility, Story::standard, |s, wrong| {
        s.send("a");
        let one = s.receive(&["a"]);
        s.pass(31);
        let other = s.receive(&["a"]);
        if wrong {
            let begun = s.history.operations[one].invoked_us;
            s.stretch(one, begun, begun + 50 * MS_US);
            s.stretch(other, begun + 10 * MS_US, begun + 60 * MS_US);
        }
    });
}

#[test]
fn an_extension_is_ignored() {
    breaks(Rule::VisibilityChange, Story::standard, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.change("a", 120);
        s.pass(if wrong { 60 } else { 120 });
        s.receive(&["a"]);
    });
}

#[test]
fn the_last_of_two_changes_is_ignored() {
    breaks(Rule::VisibilityChange, Story::fifo, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.change("a", 60);
        s.change("a", 600);
        s.pass(if wrong { 61 } else { 600 });
        s.receive(&["a"]);
    });
}

#[test]
fn a_stale_handle_changes_the_visibility() {
    breaks(Rule::VisibilityChange, Story::fifo, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        let stale = s.receipt("a");
        s.pass(31);
        s.receive(&["a"]);
        let outcome = if wrong {
            Outcome::Ok(())
        } else {
            Outcome::Fail
        };
        s.change_with("a", stale, 600, outcome);
    });
}

#[test]
fn a_stale_handle_deletes() {
    breaks(Rule::VisibilityChange, Story::fifo, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        let stale = s.receipt("a");
        s.pass(31);
        s.receive(&["a"]);
        let outcome = if wrong {
            Outcome::Ok(())
        } else {
            Outcome::Fail
        };
        s.delete_with("a", stale, outcome);
        // Once it is gone any handle will do.
        s.delete("a");
        s.delete_with("a", stale, Outcome::Ok(()));
    });
}

#[test]
fn a_message_is_held_for_more_than_twelve_hours() {
    breaks(Rule::VisibilityChange, Story::standard, |s, wrong| {
        s.send("a");
        s.receive(&["a"]);
        s.change("a", 2 * HOUR_S);
        s.pass(HOUR_S);
        let hours = if wrong { 12 } else { 11 };
        s.change("a", hours * HOUR_S - 60);
        s.pass(hours * HOUR_S);
        s.receive(&["a"]);
    });
}

#[test]
fn a_delayed_message_comes_early() {
    breaks(Rule::Delay, Story::standard, |s, wrong| {
        let mut delayed = s.message("a");
        delayed.delay_ms = Some(60_000);
        s.send_these([delayed]);
        s.pass(if wrong { 59 } else { 60 });
        s.receive(&["a"]);
    });
}

#[test]
fn the_delay_of_a_fifo_queue_is_ignored() {
    let begin = || Story::on("story.fifo", &[("DelaySeconds", "900")]);
    breaks(Rule::Delay, begin, |s, wrong| {
        s.send("a");
        s.pass(if wrong { 30 } else { 900 });
        s.receive(&["a"]);
    });
}

#[test]
fn a_message_is_served_beyond_its_retention() {
    let begin = || Story::on("story", &[("MessageRetentionPeriod", "60")]);
    breaks(Rule::Retention, begin, |s, wrong| {
        s.send("a");
        s.pass(if wrong { 66 } else { 59 });
        s.receive(&["a"]);
        s.pass(100);
        s.receive(&[]);
    });
}

/// The cluster's time was forgotten between receive and timeout: the clocks' difference is allowed.
/// Before and after, it is not, and never more than it.
#[test]
fn a_forgotten_time_moves_the_timers_that_span_it_by_the_clocks_bound() {
    let early_by_300_ms = |marked_at_s: Option<u64>, clock_bound_ms| {
        let mut story = Story::standard();
        story.history.clock_bound_ms = clock_bound_ms;
        story.pass(100);
        story.send("a");
        let received = story.now;
        story.receive(&["a"]);
        story.now = received + 29_690 * MS_US;
        story.receive(&["a"]);
        if let Some(at) = marked_at_s {
            story.history.marks.push(Mark::TimeForgotten {
                from_us: at * 1_000 * MS_US,
                until_us: at * 1_000 * MS_US,
            });
        }
        judge(&story.history).broken().contains(&Rule::Visibility)
    };
    assert!(early_by_300_ms(None, 400));
    assert!(early_by_300_ms(Some(90), 400), "it was over before");
    assert!(early_by_300_ms(Some(140), 400), "it came later");
    assert!(early_by_300_ms(Some(110), 250), "too early for the clocks");
    assert!(!early_by_300_ms(Some(110), 400));
}
