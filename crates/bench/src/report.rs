//! What a run tells at its end, for people and, in JSON of a stable form, for programs.
//!
//! The JSON is described in the crate's `README.md`; its `schema_version` grows when a member changes
//! its meaning or goes, not when one is added.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::check::{Fault, Tally};
use crate::meter::{Deed, Errors, Figures, Measured};
use crate::options::Options;
use crate::plan::Plan;

/// The form of the JSON.
const SCHEMA_VERSION: u32 = 1;

const DEEDS: [(Deed, &str); 3] = [
    (Deed::Send, "send"),
    (Deed::Receive, "receive"),
    (Deed::Delete, "delete"),
];

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainEnd {
    /// Everything was received.
    Complete,
    /// Nothing came any more.
    GaveUp,
    /// The user had no patience.
    Interrupted,
}

/// What a run was told.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    run: u64,
    groups: u32,
    options: Options,
}

impl Summary {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self {
            run: plan.run,
            groups: plan.groups,
            options: plan.options.clone(),
        }
    }
}

/// What was there before the measured phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preloaded {
    pub(crate) messages: u64,
    pub(crate) took: Duration,
}

/// What a run saw.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) preloaded: Option<Preloaded>,
    pub(crate) measured: Measured,
    /// With a rate: sends that were due and that no producer was free for.
    pub(crate) untaken: Option<u64>,
    /// Acknowledged and not received when the measured time was over.
    pub(crate) backlog: u64,
    /// Whether the measured time was cut short.
    pub(crate) interrupted: bool,
    pub(crate) drain: DrainEnd,
    pub(crate) drained_in: Duration,
    /// Acknowledged and not received at the end.
    pub(crate) outstanding: u64,
    pub(crate) tally: Tally,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) summary: Summary,
    pub(crate) outcome: Outcome,
}

impl Report {
    /// Why the run failed, if it did.
    pub(crate) fn wrong(&self) -> Option<String> {
        let outcome = &self.outcome;
        let tally = &outcome.tally;
        if !tally.is_clean() {
            let counts = Fault::ALL.map(|fault| (tally.count(fault), fault.word()));
            let counts = counts.into_iter().filter(|(count, _)| *count > 0);
            let counts: Vec<String> = counts.map(|(n, word)| format!("{n} {word}")).collect();
            return Some(format!("the queues were wrong: {}", counts.join(", ")));
        }
        if outcome.outstanding > 0 {
            let outstanding = outcome.outstanding;
            return Some(format!(
                "interrupted while {outstanding} acknowledged messages were not received yet"
            ));
        }
        let phase = self.summary.options.phase;
        let idle = |deed| outcome.measured.of(deed).messages == 0;
        if phase.produces() && idle(Deed::Send) {
            return Some("no send was acknowledged in the measured time".to_owned());
        }
        if phase.consumes() && idle(Deed::Receive) {
            return Some("no message was received in the measured time".to_owned());
        }
        None
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        self.write_text(&mut out)
            .expect("a string takes everything");
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let (options, outcome) = (&self.summary.options, &self.outcome);
        let measured = &outcome.measured;
        writeln!(
            out,
            "{} of {}",
            options.phase.word(),
            self.words_of_queues()
        )?;
        if let Some(preloaded) = outcome.preloaded {
            let (messages, took) = (preloaded.messages, preloaded.took.as_secs_f64());
            let rate = per_second(messages, took);
            writeln!(
                out,
                "preloaded {messages} messages in {took:.1} s, {rate:.0} a second"
            )?;
        }
        let seconds = seconds_of(measured.window);
        let short = if outcome.interrupted {
            ", interrupted"
        } else {
            ""
        };
        writeln!(out, "measured {seconds:.1} s{short}; latencies in ms")?;
        writeln!(
            out,
            "{:10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}",
            "", "messages/s", "calls/s", "p50", "p90", "p99", "p99.9", "max", "errors"
        )?;
        for (deed, word) in DEEDS {
            let figures = measured.of(deed);
            let messages = per_second(figures.messages, seconds);
            let calls = per_second(figures.calls, seconds);
            write!(out, "{word:10} {messages:>10.0} {calls:>9.0}")?;
            write_latencies(out, &figures.latencies)?;
            writeln!(out, " {:>7}", figures.errors.values().sum::<u64>())?;
        }
        write!(out, "{:10} {:>10} {:>9}", "end to end", "", "")?;
        write_latencies(out, &measured.end_to_end)?;
        writeln!(out)?;
        if let Some(untaken) = outcome.untaken {
            writeln!(
                out,
                "due and not sent, for want of a free producer: {untaken} calls"
            )?;
        }
        for (deed, word) in DEEDS {
            write_errors(out, word, &measured.of(deed).errors)?;
        }
        write_errors(out, "outside the measured time", &measured.other_errors)?;
        self.write_check(out)
    }

    fn write_check(&self, out: &mut String) -> std::fmt::Result {
        let (outcome, tally) = (&self.outcome, &self.outcome.tally);
        writeln!(
            out,
            "check: {} acknowledged, {} unknown, {} refused; {} received, {} duplicates; {} waited at \
             the end, drained in {:.1} s",
            tally.acknowledged,
            tally.unknown,
            tally.refused,
            tally.received,
            tally.duplicates,
            outcome.backlog,
            outcome.drained_in.as_secs_f64(),
        )?;
        for told in &tally.told {
            writeln!(out, "  {told}")?;
        }
        match self.wrong() {
            Some(words) => writeln!(out, "WRONG: {words}"),
            None => writeln!(
                out,
                "right: everything acknowledged was received, and nothing else"
            ),
        }
    }

    fn words_of_queues(&self) -> String {
        let (options, groups) = (&self.summary.options, self.summary.groups);
        let kind = match (options.fifo, options.high_throughput) {
            (true, true) => format!("high-throughput FIFO queues of {groups} groups"),
            (true, false) => format!("FIFO queues of {groups} groups"),
            (false, _) => "standard queues".to_owned(),
        };
        let pace = match options.rate {
            Some(rate) => format!("{rate} messages a second"),
            None if options.keep_depth => "as many sends as deletes".to_owned(),
            None => "closed loop".to_owned(),
        };
        format!(
            "{} × {kind} at {}, batches of {}, bodies of {} bytes, {} producers, {} consumers, {pace}",
            options.queues,
            options.endpoint,
            options.batch,
            options.body_bytes,
            options.producers,
            options.consumers,
        )
    }

    /// For programs.
    pub(crate) fn json(&self) -> String {
        let outcome = &self.outcome;
        let measured = &outcome.measured;
        let seconds = seconds_of(measured.window);
        let figures = |deed| figures_json(measured.of(deed), seconds);
        let mut receive = figures(Deed::Receive);
        receive["empty_calls"] = json!(measured.of(Deed::Receive).empty);
        let preloaded = outcome.preloaded.map(|preloaded| {
            let took = preloaded.took.as_secs_f64();
            json!({
                "messages": preloaded.messages,
                "seconds": rounded(took),
                "messages_per_second": rounded(per_second(preloaded.messages, took)),
            })
        });
        let wrong = self.wrong();
        let report = json!({
            "schema_version": SCHEMA_VERSION,
            "run": format!("{:012x}", self.summary.run),
            "plan": self.plan_json(),
            "preload": preloaded,
            "measured_seconds": rounded(seconds),
            "interrupted": outcome.interrupted,
            "send": figures(Deed::Send),
            "receive": receive,
            "delete": figures(Deed::Delete),
            "end_to_end": { "latency_ms": latencies_json(&measured.end_to_end) },
            "unsent_calls": outcome.untaken,
            "backlog": outcome.backlog,
            "drain_seconds": rounded(outcome.drained_in.as_secs_f64()),
            "drained": outcome.drain == DrainEnd::Complete,
            "errors_outside": measured.other_errors,
            "check": check_json(&outcome.tally),
            "ok": wrong.is_none(),
            "wrong": wrong,
        });
        format!("{report:#}\n")
    }

    fn plan_json(&self) -> Value {
        let options = &self.summary.options;
        json!({
            "endpoint": options.endpoint,
            "region": options.region,
            "phase": options.phase.word(),
            "queues": options.queues,
            "fifo": options.fifo,
            "high_throughput": options.high_throughput,
            "groups": self.summary.groups,
            "batch": options.batch,
            "body_bytes": options.body_bytes,
            "producers": options.producers,
            "consumers": options.consumers,
            "seconds": options.seconds,
            "warm_up_seconds": options.warm_up,
            "rate": options.rate,
            "preload": options.preload,
            "keep_depth": options.keep_depth,
            "visibility_timeout_seconds": options.visibility_timeout,
            "timeout_seconds": options.timeout,
        })
    }
}

fn figures_json(figures: &Figures, seconds: f64) -> Value {
    json!({
        "messages": figures.messages,
        "calls": figures.calls,
        "messages_per_second": rounded(per_second(figures.messages, seconds)),
        "calls_per_second": rounded(per_second(figures.calls, seconds)),
        "latency_ms": latencies_json(&figures.latencies),
        "errors": figures.errors,
    })
}

fn check_json(tally: &Tally) -> Value {
    let mut check = json!({
        "acknowledged": tally.acknowledged,
        "unknown": tally.unknown,
        "refused": tally.refused,
        "received": tally.received,
        "deleted": tally.deleted,
        "duplicates": tally.duplicates,
        "peak_bytes": tally.peak_bytes,
        "faults": tally.told,
    });
    for fault in Fault::ALL {
        check[fault.word()] = json!(tally.count(fault));
    }
    check
}

/// Quantiles by their names in the JSON.
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99_9", 0.999),
    ("max", 1.0),
];

/// In milliseconds; a bucket's end is not above what was seen.
fn quantile(latencies: &Histogram<u64>, quantile: f64) -> f64 {
    let microseconds = latencies.value_at_quantile(quantile).min(latencies.max());
    microseconds as f64 / 1_000.0
}

fn latencies_json(latencies: &Histogram<u64>) -> Value {
    let mut json = json!({ "samples": latencies.len() });
    for (name, share) in QUANTILES {
        let value = (!latencies.is_empty()).then(|| rounded(quantile(latencies, share)));
        json[name] = json!(value);
    }
    json
}

fn write_latencies(out: &mut String, latencies: &Histogram<u64>) -> std::fmt::Result {
    for (_, share) in QUANTILES {
        if latencies.is_empty() {
            write!(out, " {:>9}", "–")?;
        } else {
            write!(out, " {:>9.2}", quantile(latencies, share))?;
        }
    }
    Ok(())
}

fn write_errors(out: &mut String, word: &str, errors: &Errors) -> std::fmt::Result {
    errors
        .iter()
        .try_for_each(|(code, count)| writeln!(out, "errors, {word}: {code} ×{count}"))
}
fn seconds_of(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

/// To thousandths.
fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests;
