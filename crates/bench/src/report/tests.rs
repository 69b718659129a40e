//! A report's verdict, and the members that programs read.

use clap::{Args, FromArgMatches};

use super::*;
use crate::check::Check;
use crate::meter::{Call, Meter};

/// A run of a second with one call of each kind, all right.
fn report(flags: &str) -> Report {
    let given = "bench --access-key-id id --secret-access-key se/cret --rate 10 ";
    let command = Options::augment_args(clap::Command::new("bench").args_override_self(true));
    let flags = format!("{given}{flags}");
    let matches = command.try_get_matches_from(flags.split_whitespace());
    let options = Options::from_arg_matches(&matches.unwrap()).unwrap();
    let meter = Meter::new();
    meter.open_window(0);
    meter.close_window(1_000_000_000);
    for (deed, _) in DEEDS {
        meter.answered(Call {
            deed,
            begun: 0,
            ended: 2_000_000,
            messages: 10,
        });
    }
    meter.error(Deed::Send, 1, "ServiceUnavailable");
    let check = Check::new(vec![0], false, 1, 1);
    Report {
        summary: Summary::of(&Plan::new(options, 0xabc).ok().unwrap()),
        outcome: Outcome {
            preloaded: None,
            measured: meter.result(),
            untaken: Some(3),
            backlog: 4,
            interrupted: false,
            drain: DrainEnd::Complete,
            drained_in: Duration::from_millis(1_500),
            outstanding: 0,
            tally: check.result(),
        },
    }
}

fn json_of(report: &Report) -> Value {
    serde_json::from_str(&report.json()).unwrap()
}

#[test]
fn the_json_has_what_is_promised() {
    let json = json_of(&report(""));
    let latency = json!({
        "samples": 1, "p50": 2.0, "p90": 2.0, "p99": 2.0, "p99_9": 2.0, "max": 2.0,
    });
    let figures = |errors: Value| {
        json!({
            "messages": 10, "calls": 1, "messages_per_second": 10.0, "calls_per_second": 1.0,
            "latency_ms": latency, "errors": errors,
        })
    };
    let mut receive = figures(json!({}));
    receive["empty_calls"] = json!(0);
    let none = json!({
        "samples": 0, "p50": null, "p90": null, "p99": null, "p99_9": null, "max": null,
    });
    for (member, value) in [
        ("schema_version", json!(1)),
        ("run", json!("000000000abc")),
        ("preload", Value::Null),
        ("measured_seconds", json!(1.0)),
        ("interrupted", json!(false)),
        ("send", figures(json!({ "ServiceUnavailable": 1 }))),
        ("receive", receive),
        ("delete", figures(json!({}))),
        ("end_to_end", json!({ "latency_ms": none })),
        ("unsent_calls", json!(3)),
        ("backlog", json!(4)),
        ("drain_seconds", json!(1.5)),
        ("drained", json!(true)),
        ("errors_outside", json!({})),
        ("ok", json!(true)),
        ("wrong", Value::Null),
    ] {
        assert_eq!(json[member], value, "{member}");
    }
    assert_eq!(json["check"]["lost"], 0);
    assert_eq!(json["plan"]["rate"], 10.0);
}

#[test]
fn neither_form_shows_the_secret() {
    let report = report("");
    for text in [report.json(), report.text()] {
        assert!(!text.contains("se/cret"), "{text}");
    }
}

#[test]
fn faults_are_told_by_their_names() {
    let mut report = report("");
    report.outcome.tally.faults[Fault::Lost as usize] = 2;
    report.outcome.tally.faults[Fault::TooSoon as usize] = 1;
    let words = "the queues were wrong: 2 lost, 1 received_too_soon";
    assert_eq!(report.wrong().as_deref(), Some(words));
    assert!(report.text().ends_with(&format!("WRONG: {words}\n")));
    let json = json_of(&report);
    assert_eq!(
        (&json["ok"], &json["wrong"]),
        (&json!(false), &json!(words))
    );
    assert_eq!(json["check"]["lost"], 2);
}

#[test]
fn what_an_interrupted_drain_left_is_not_right() {
    let mut report = report("");
    report.outcome.drain = DrainEnd::Interrupted;
    assert_eq!(report.wrong(), None);
    report.outcome.outstanding = 7;
    let wrong = report.wrong().unwrap();
    assert!(wrong.contains("7 acknowledged messages"), "{wrong}");
    assert_eq!(json_of(&report)["drained"], false);
}

#[test]
fn a_run_that_measured_nothing_is_not_right() {
    let mut report = report("");
    report.outcome.measured = Meter::new().result();
    let words = "no send was acknowledged in the measured time";
    assert_eq!(report.wrong().as_deref(), Some(words));
}
