//! `hikyaku drain`: the orderly stop of one node, by order.

use super::connection::Connection;
use super::{Asking, Output, Unwell, block_on, show};
use anyhow::Error;
use clap::{Args, value_parser};
use hikyaku_proto::admin as wire;
use serde_json::json;
use std::fmt::Write;

#[derive(Debug, Args)]
pub struct Drain {
    #[command(flatten)]
    asking: Asking,

    /// How long it may take, in seconds; without, as the node is configured.
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..=100))]
    timeout: Option<u64>,
}

impl Drain {
    pub fn run(self) -> anyhow::Result<()> {
        block_on(drain(&self.asking, self.timeout))
    }
}

async fn drain(asking: &Asking, timeout: Option<u64>) -> anyhow::Result<()> {
    let mut connection = Connection::open(asking).await?;
    let report = connection.stop(timeout.unwrap_or(0) * 1_000).await?;
    match asking.output {
        Output::Table => show(&page(&report))?,
        Output::Json => show(&format!("{:#}", json_of(&report)))?,
    }
    if report.left.is_empty() && report.connections_left == 0 {
        return Ok(());
    }
    let unwell = "the node stopped before everything was handed over or answered";
    Err(Error::new(Unwell(unwell.to_owned())))
}

fn page(report: &wire::StopReport) -> String {
    let mut page = String::new();
    let mut line = |name: &str, text: &str| {
        writeln!(page, "{name:<16}  {text}").expect("a String takes every character");
    };
    line(
        "handed over",
        &format!("{} leaderships", report.handed_over),
    );
    if report.alone > 0 {
        line("led by no other", &format!("{} groups", report.alone));
    }
    line(
        "answered early",
        &format!("{} long polls", report.polls_ended),
    );
    for group in &report.left {
        line("not handed over", group);
    }
    if report.connections_left > 0 {
        let connections = report.connections_left;
        line("cut off", &format!("{connections} connections"));
    }
    line("took", &format!("{} ms", report.took_ms));
    page
}

fn json_of(report: &wire::StopReport) -> serde_json::Value {
    json!({
        "handed_over": report.handed_over,
        "alone": report.alone,
        "left": report.left,
        "polls_ended": report.polls_ended,
        "connections_left": report.connections_left,
        "took_ms": report.took_ms,
    })
}
